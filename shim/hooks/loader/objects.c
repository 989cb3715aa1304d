/*
 * objects.c - searches the loader's list, in the order of loading and under the loader's lock.  What is found
 * is copied: nothing here points into the list afterwards.
 */
#define _GNU_SOURCE

#include <stdatomic.h>
#include <stdio.h>

#include "core/walk.h"
#include "loader.h"

struct search {
    const void *address; /* NULL: the driver is looked for */
    struct vs_loaded *out;
    int order;
};

static bool matches(const struct search *s, const struct vs_image *image)
{
    uintptr_t p = (uintptr_t)s->address;
    if (s->address == NULL)
        return vs_image_is_driver(image) && vs_loaded_is_bound((const void *)image->start);
    return p >= image->start && p < image->end;
}

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *s = data;
    struct vs_loaded *out = s->out;
    struct vs_image image;
    out->order = s->order++;
    vs_image_read(&image, info);
    if (!matches(s, &image))
        return 0;
    out->start = image.start;
    out->end = image.end;
    out->is_driver = vs_image_is_driver(&image);
    snprintf(out->name, sizeof(out->name), "%s", info->dlpi_name);
    return 1;
}

bool vs_loaded_driver(struct vs_loaded *out)
{
    struct search s = {.out = out};
    return vs_walk_objects(visit, &s) != 0;
}

bool vs_loaded_at(const void *address, struct vs_loaded *out)
{
    struct search s = {.address = address, .out = out};
    return address != NULL && vs_walk_objects(visit, &s) != 0;
}

static int count(struct dl_phdr_info *info, size_t size, void *data)
{
    ++*(int *)data;
    return 0;
}

int vs_loaded_count(void)
{
    int n = 0;
    vs_walk_objects(count, &n);
    return n;
}

/* ---- bound or not ---- */

/* glibc's, made for unwinders: it knows an object from the moment on at which all that was loaded with it is
 * bound and write-protected.  It is looked for in the objects themselves: older C libraries have none, and a
 * look-up that fails may call the program's malloc, which may be the caller. */
typedef int find_object(void *address, void *found);

static int has_find_object(struct dl_phdr_info *info, size_t size, void *data)
{
    struct vs_image image;
    uintptr_t *found = data;
    *found = vs_image_read(&image, info) ? vs_image_defines(&image, "_dl_find_object") : 0;
    return *found != 0;
}

bool vs_loaded_is_bound(const void *address)
{
    static _Atomic uintptr_t known; /* 1: there is none; relaxed: code that stays where it is */
    uintptr_t find = atomic_load_explicit(&known, memory_order_relaxed);
    if (find == 0) {
        vs_walk_objects(has_find_object, &find);
        find += find == 0;
        atomic_store_explicit(&known, find, memory_order_relaxed);
    }
    uint64_t found[64]; /* struct dl_find_object, of twelve words, which older headers lack */
    return find == 1 || ((find_object *)find)((void *)(uintptr_t)address, found) == 0;
}

bool vs_loaded_is_us(const void *address)
{
    extern const char __ehdr_start[] __attribute__((visibility("hidden")));
    extern const char _end[] __attribute__((visibility("hidden")));
    return (const char *)address >= __ehdr_start && (const char *)address < _end;
}
