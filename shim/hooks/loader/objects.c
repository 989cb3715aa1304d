/*
 * objects.c - see objects.h.
 *
 * dl_iterate_phdr walks the objects of our own namespace in the order of their loading, under the loader's
 * lock.  What is found is copied: nothing here points into the list afterwards.
 */
#define _GNU_SOURCE
#include "objects.h"

#include <stdio.h>

#include "image.h"

struct search {
    const void *address; /* NULL: the driver is looked for */
    struct vs_loaded *out;
    int order;
};

static bool matches(const struct search *s, const struct vs_image *image)
{
    uintptr_t p = (uintptr_t)s->address;
    return s->address == NULL ? vs_image_is_driver(image) : p >= image->start && p < image->end;
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
    return dl_iterate_phdr(visit, &s) != 0;
}

bool vs_loaded_at(const void *address, struct vs_loaded *out)
{
    struct search s = {.address = address, .out = out};
    return address != NULL && dl_iterate_phdr(visit, &s) != 0;
}

static int count(struct dl_phdr_info *info, size_t size, void *data)
{
    ++*(int *)data;
    return 0;
}

int vs_loaded_count(void)
{
    int n = 0;
    dl_iterate_phdr(count, &n);
    return n;
}

bool vs_loaded_is_us(const void *address)
{
    extern const char __ehdr_start[] __attribute__((visibility("hidden")));
    extern const char _end[] __attribute__((visibility("hidden")));
    return (const char *)address >= __ehdr_start && (const char *)address < _end;
}
