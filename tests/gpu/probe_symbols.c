/*
 * probe_symbols.c - by which addresses the real driver is known: for each row of driver.def what dlsym gives
 * and what cuGetProcAddress_v2 gives for the row's version, with no flag, the legacy and the per-thread
 * stream flag.
 *
 *      cc -Ishim tests/gpu/probe_symbols.c -o probe_symbols -ldl && ./probe_symbols
 *
 * Needs no CUDA header and no GPU memory.  Run it WITHOUT the shim (then: does each row name the function
 * that we think it does?) and with LD_PRELOAD=libvramscope.so (then every pointer must be a wrapper: column
 * "ours").
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef int get_proc(const char *, void **, int, uint64_t, int *);

struct row {
    const char *symbol, *base;
    int version;
};

static const struct row rows[] = {
#define VS_API(number, name, base_name, since, ...) {#name, #base_name, since},
#include "trace/driver.def"
};

static const char *object_of(void *p)
{
    Dl_info info;
    if (p == NULL || dladdr(p, &info) == 0)
        return "-";
    const char *slash = strrchr(info.dli_fname, '/');
    return slash != NULL ? slash + 1 : info.dli_fname;
}

static void print_row(void *driver, get_proc *get, const struct row *row)
{
    void *by_name = dlsym(driver, row->symbol), *p[3] = {NULL, NULL, NULL};
    int status[3];
    for (int flags = 0; flags < 3; flags++)
        if (get(row->base, &p[flags], row->version, (uint64_t)flags, &status[flags]) != 0)
            p[flags] = NULL;
    printf("%-34s %-18s %14p", row->symbol, object_of(by_name), by_name);
    for (int flags = 0; flags < 3; flags++)
        printf(" %14p%s", p[flags], p[flags] == NULL ? " none" : p[flags] == by_name ? " =   " : " DIFF");
    printf("\n");
}

int main(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    if (driver == NULL) {
        fprintf(stderr, "probe_symbols: %s\n", dlerror());
        return 77;
    }
    get_proc *get = (get_proc *)dlsym(driver, "cuGetProcAddress_v2");
    if (get == NULL) {
        fprintf(stderr, "probe_symbols: this driver has no cuGetProcAddress_v2\n");
        return 77;
    }
    printf("%-34s %-18s %14s %19s %19s %19s\n", "row", "object", "dlsym", "flags 0", "1 (legacy)",
           "2 (per thread)");
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        print_row(driver, get, &rows[i]);
    return 0;
}
