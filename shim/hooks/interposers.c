/*
 * interposers.c - finds the interposers behind us (driver.h).
 *
 * The loader's list begins with the program and what was preloaded; what they are linked with follows.  So
 * the search ends at the first library that another one is linked with.  It runs before the C library is
 * initialised: no allocation, no look-up.
 */
#define _GNU_SOURCE
#include "driver.h"

#include <link.h>

#include "hooks/loader/loader.h"

#define INTERPOSERS_MOST 4

static struct vs_image interposers[INTERPOSERS_MOST];
static size_t found_count;

struct search {
    const struct vs_image *image; /* who is it that needs it? */
    const char *path;
    bool behind_us;
};

static int needs_it(struct dl_phdr_info *info, size_t size, void *data)
{
    const struct search *s = data;
    struct vs_image image;
    const char *needed;
    if (!vs_image_read(&image, info))
        return 0;
    for (size_t i = 0; (needed = vs_image_needs(&image, i)) != NULL; i++)
        if (vs_image_is_called(s->image, s->path, needed))
            return 1;
    return 0;
}

/* Another copy of ours hooks nothing where we do. */
static bool interposes(const struct vs_image *image)
{
    static const char *const names[] = {
        "dlsym",
#define VS_API(number, name, base, version, stream, shape, shape_args, n, signature) #name,
#include "trace/driver.def"
#undef VS_API
    };
    if (vs_image_is_driver(image) || vs_image_defines(image, "vramscope_range_push") != 0)
        return false;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (vs_image_defines(image, names[i]) != 0)
            return true;
    return false;
}

static int look(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *s = data;
    struct vs_image image;
    uintptr_t here = (uintptr_t)look;
    if (!vs_image_read(&image, info))
        return 0;
    if (here >= image.start && here < image.end) {
        s->behind_us = true;
        return 0;
    }
    if (!s->behind_us)
        return 0;
    s->image = &image;
    s->path = info->dlpi_name;
    if (dl_iterate_phdr(needs_it, s) != 0)
        return 1;
    if (interposes(&image))
        interposers[found_count++] = image;
    return found_count == INTERPOSERS_MOST;
}

void vs_interposers_find(void)
{
    struct search s = {0};
    dl_iterate_phdr(look, &s);
    void *their_dlsym = vs_interposer_export("dlsym");
    if (their_dlsym != NULL)
        vs_dlsym_goes_to(their_dlsym);
}

bool vs_interposers_there(void)
{
    return found_count != 0;
}

bool vs_interposer_owns(const void *address)
{
    for (size_t i = 0; i < found_count; i++)
        if ((uintptr_t)address >= interposers[i].start && (uintptr_t)address < interposers[i].end)
            return true;
    return false;
}

void *vs_interposer_export(const char *name)
{
    uintptr_t found = 0;
    for (size_t i = 0; i < found_count && found == 0; i++)
        found = vs_image_defines(&interposers[i], name);
    return (void *)found;
}
