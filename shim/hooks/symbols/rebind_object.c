/*
 * rebind_object.c - has calls that one loaded object makes to functions of another library come to ours.
 *
 * No export of ours could: a library that is loaded with local visibility, as Python loads them, has its
 * functions out of the global scope, and where two versions of it are loaded each caller has its own.  A slot
 * of the object's GOT is bound to the right one, which becomes the real function.
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "core/walk.h"
#include "hooks/loader/loader.h"
#include "symbols.h"

#include <string.h>

#define NAMES_MOST 8

struct rebind {
    const void *inside;
    const char *const *names;
    void *const *ours;
    void **const *real;
    size_t n, bound;
    void *found[NAMES_MOST]; /* as the object would find them */
    const struct vs_image *image;
    char path[4096];
};

static bool holds(const struct rebind *r, struct vs_image *image, const struct dl_phdr_info *info)
{
    uintptr_t at = (uintptr_t)r->inside;
    return vs_image_read(image, info) && at >= image->start && at < image->end;
}

static int note_path(struct dl_phdr_info *info, size_t size, void *data)
{
    struct rebind *r = data;
    struct vs_image image;
    if (!holds(r, &image, info))
        return 0;
    if (strlen(info->dlpi_name) < sizeof r->path)
        strcpy(r->path, info->dlpi_name);
    return 1;
}

/* A slot of the PLT that is not bound yet leads into its own object.  Called through, it would write the real
 * function into the slot; so that function is looked up first, as the object would find it. */
static void bind_slot(const struct vs_got_slot *slot, void *context)
{
    struct rebind *r = context;
    uintptr_t value = vs_got_value(slot);
    bool bound = value && (value < r->image->start || value >= r->image->end);
    for (size_t i = 0; i < r->n; i++) {
        if (strcmp(slot->name, r->names[i]) != 0)
            continue;
        if (value == (uintptr_t)r->ours[i]) { /* by another thread, which is as good */
            r->bound++;
            continue;
        }
        void *real = bound ? (void *)value : r->found[i];
        if (!real)
            continue;
        /* release: who calls through the slot finds the function behind ours */
        __atomic_store_n(r->real[i], real, __ATOMIC_RELEASE);
        r->bound += vs_got_write(r->image, slot, (uintptr_t)r->ours[i] + slot->addend);
    }
}

static int bind_all(struct dl_phdr_info *info, size_t size, void *data)
{
    struct rebind *r = data;
    struct vs_image image;
    if (!holds(r, &image, info))
        return 0;
    r->image = &image;
    vs_got_visit(&image, bind_slot, r);
    return 1;
}

size_t vs_rebind_object(const void *inside, const char *const *names, void *const *ours, void **const *real,
                        size_t n)
{
    struct rebind r = {.inside = inside, .names = names, .ours = ours, .real = real, .n = n};
    if (n > NAMES_MOST || !vs_walk_objects(note_path, &r))
        return 0;
    void *object = dlopen(r.path[0] ? r.path : NULL, RTLD_NOLOAD | RTLD_LAZY);
    for (size_t i = 0; object && i < n; i++)
        r.found[i] = vs_dlsym_real(object, names[i]);
    dlerror(); /* the host must not see an error of ours */
    vs_walk_objects(bind_all, &r);
    if (object)
        dlclose(object);
    return r.bound;
}
