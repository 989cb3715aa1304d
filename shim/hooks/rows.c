/*
 * rows.c - the rows of driver.def as data: a hooked function's name, its variants, and its wrapper.
 */
#include "driver.h"

#include <string.h>

#define VS_API(number, name, base_name, since, kind, shape, shape_args, n, signature)                        \
    {VS_API_##name, #name, #base_name, since, VS_STREAM_##kind, (void *)vs_hook_##name},
const struct vs_row vs_rows[] = {
#include "trace/driver.def"
};
#undef VS_API
const size_t vs_row_count = sizeof(vs_rows) / sizeof(vs_rows[0]);

const struct vs_row *vs_row_find(const char *name)
{
    if (name[0] != 'c' || name[1] != 'u')
        return NULL;
    for (size_t i = 0; i < vs_row_count; i++)
        if (strcmp(vs_rows[i].symbol + 2, name + 2) == 0)
            return &vs_rows[i];
    return NULL;
}

/* What NAME is without its version and its kind of stream. */
static size_t base_length(const char *name)
{
    size_t n = strlen(name);
    if (n > 5 && (strcmp(name + n - 5, "_ptsz") == 0 || strcmp(name + n - 5, "_ptds") == 0))
        n -= 5;
    size_t digits = n;
    while (digits > 0 && name[digits - 1] >= '0' && name[digits - 1] <= '9')
        digits--;
    return digits < n && digits > 2 && name[digits - 1] == 'v' && name[digits - 2] == '_' ? digits - 2 : n;
}

bool vs_row_of_base(const char *name)
{
    size_t n = base_length(name);
    for (size_t i = 0; i < vs_row_count; i++)
        if (strncmp(vs_rows[i].base, name, n) == 0 && vs_rows[i].base[n] == '\0')
            return true;
    return false;
}
