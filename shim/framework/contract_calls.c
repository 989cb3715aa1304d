/* contract_calls.c - what Python says of contracts with PyTorch's Python (python/vramscope/_contracts.py). */
#include <string.h>

#include "vramscope.h"
#include "core/contracts.h"

VRAMSCOPE_API int vramscope_auto_contract(const char *name, int proven, const char *detail);

/* The contract with NAME holds, or does not, as DETAIL says.  1, or 0 where there is none with that name. */
int vramscope_auto_contract(const char *name, int proven, const char *detail)
{
    unsigned c = 0;
    while (c < VS_CONTRACTS && strcmp(vs_contract_rows[c].name, name))
        c++;
    if (c == VS_CONTRACTS)
        return 0;
    if (proven)
        vs_contract_proven(c, "%s", detail);
    else
        vs_contract_broken(c, "%s", detail);
    return 1;
}
