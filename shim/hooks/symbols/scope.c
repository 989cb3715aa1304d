/*
 * scope.c - the loader's list of objects: which one is the driver, which one an address lies in, and who
 * comes before whom.
 *
 * dl_iterate_phdr walks the objects of our own namespace in the order of their loading, under the loader's
 * lock.  What is found is copied: nothing here points into the list afterwards.
 */
#define _GNU_SOURCE
#include "hooks/hook.h"

#include <stdio.h>

#include "image.h"

struct search {
    const void *address; /* NULL: the driver is looked for */
    struct vs_object *out;
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
    struct vs_object *out = s->out;
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

bool vs_find_driver(struct vs_object *out)
{
    struct search s = {.out = out};
    return dl_iterate_phdr(visit, &s) != 0;
}

bool vs_find_object(const void *address, struct vs_object *out)
{
    struct search s = {.address = address, .out = out};
    return address != NULL && dl_iterate_phdr(visit, &s) != 0;
}

static int count(struct dl_phdr_info *info, size_t size, void *data)
{
    ++*(int *)data;
    return 0;
}

int vs_count_objects(void)
{
    int n = 0;
    dl_iterate_phdr(count, &n);
    return n;
}
