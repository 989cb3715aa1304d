/*
 * rows.c - the rows of driver.def as data: a hooked function's name, its variants, and its wrapper; and what
 * has none.
 */
#include "driver.h"

#include <string.h>

#define VS_API(number, name, base_name, since, kind, shape, shape_args, n, signature)                        \
    {VS_API_##name,         #name, #base_name, since, VS_STREAM_##kind, (void *)vs_hook_##name,              \
     (void *)vs_pass_##name},
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

static bool has_base(const char *name)
{
    size_t n = base_length(name);
    for (size_t i = 0; i < vs_row_count; i++)
        if (strncmp(vs_rows[i].base, name, n) == 0 && vs_rows[i].base[n] == '\0')
            return true;
    return false;
}

static bool sounds_like_memory(const char *name)
{
    static const char words[][9] = {"Alloc", "Free", "Mem",    "Pool",     "Array",   "Map",
                                    "Bind",  "Ipc",  "Import", "Register", "Reserve", "GraphAdd"};
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
        if (strstr(name, words[i]) != NULL)
            return true;
    return false;
}

/* The symbols, ", " behind each. */
#define VS_LOOKED_AT(reason, ...) #__VA_ARGS__ ", "
static const char looked_at[] =
#include "looked_at.def"
    ;
#undef VS_LOOKED_AT

/* Copies the symbol at AT to NAME; returns where the next one begins, NULL where none is left. */
static const char *next_looked_at(const char *at, char name[128])
{
    size_t n = strcspn(at, ",");
    if (n == 0 || n >= 128)
        return NULL;
    memcpy(name, at, n);
    name[n] = '\0';
    return at + n + 2;
}

static bool is_looked_at(const char *name)
{
    char symbol[128];
    for (const char *at = looked_at; (at = next_looked_at(at, symbol)) != NULL;)
        if (strcmp(symbol, name) == 0)
            return true;
    return false;
}

/* A name of the driver's that is neither in driver.def nor in looked_at.def is newer than this vramscope.  It
 * may move memory past the hooks where it is another form of a hooked function, or sounds like memory; nearly
 * all that NVIDIA adds is neither, and a runtime looks all of it up, whether it is called or not. */
bool vs_row_lacks(const char *name)
{
    /* cublas, cudnn and kin begin with a small letter there */
    return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z' &&
           (has_base(name) || sounds_like_memory(name)) && vs_row_find(name) == NULL && !is_looked_at(name);
}

bool vs_row_lacks_form(const char *base, const void *function)
{
    if (!has_base(base))
        return vs_row_lacks(base);
    size_t n = strlen(base);
    char symbol[128];
    for (const char *at = looked_at; (at = next_looked_at(at, symbol)) != NULL;)
        if (strncmp(symbol, base, n) == 0 && base_length(symbol) == n && vs_cuda_real(symbol) == function)
            return false;
    return true;
}
