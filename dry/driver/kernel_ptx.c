/*
 * kernel_ptx.c - the parameters of a kernel, as PTX declares them.
 *
 *      .visible .entry simcuda_nothing_x(.param .u64 p, .param .u32 n, .param .align 8 .b8 s[48]) { ret; }
 */
#include "kernel.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const char *skip_space(const char *at)
{
    while (isspace((unsigned char)*at))
        at++;
    return at;
}

/* Behind ".entry NAME", which stands in TEXT; NULL: it does not. */
static const char *entry(const char *text, const char *name)
{
    size_t length = strlen(name);
    for (const char *at = text; (at = strstr(at, ".entry")) != NULL;) {
        at = skip_space(at + strlen(".entry"));
        if (strncmp(at, name, length) == 0 && !isalnum((unsigned char)at[length]) && at[length] != '_')
            return skip_space(at + length);
    }
    return NULL;
}

/* One declaration, up to END: ".param .u64 x" or ".param .align 8 .b8 x[48]". */
static void declare(struct sim_parameters *p, const char *at, const char *end)
{
    size_t size = 0, count = 1, align = 0;
    for (; at < end; at++) {
        if (at[0] == '.' && strchr("usbf", at[1]) && isdigit((unsigned char)at[2]))
            size = strtoul(at + 2, NULL, 10) / 8;
        else if (strncmp(at, ".align", 6) == 0)
            align = strtoul(at + 6, NULL, 10);
        else if (*at == '[')
            count = strtoul(at + 1, NULL, 10);
    }
    if (size == 0 || p->count == PARAMS)
        return;
    align = align ? align : size;
    size_t from = p->count ? p->at[p->count - 1].offset + p->at[p->count - 1].size : 0;
    p->at[p->count].offset = (from + align - 1) / align * align;
    p->at[p->count].size = size * count;
    p->count++;
}

static void declare_all(struct sim_parameters *p, const char *at)
{
    const char *close = *at == '(' ? strchr(at, ')') : NULL;
    while (close != NULL && at < close) {
        const char *end = ++at;
        while (end < close && *end != ',')
            end++;
        declare(p, at, end);
        at = end;
    }
}

struct sim_parameters *sim_ptx_parameters(const char *text, const char *name)
{
    const char *declared = entry(text, name);
    struct sim_parameters *p = declared ? calloc(1, sizeof *p) : NULL;
    if (p)
        declare_all(p, declared);
    return p;
}
