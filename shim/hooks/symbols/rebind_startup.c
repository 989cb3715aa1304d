/*
 * rebind_startup.c - binds references of the objects that the program starts with, where only our exports
 * satisfied them, to what they would be without us.
 *
 * A program not linked with libcuda may declare `cuInit` weak and test it: NULL means "no CUDA here".
 * Likewise a program may bring a library of its own that defines driver functions under another soname.  We
 * are linked -z initfirst, so this runs before any other code of the process, and before the C library's own
 * initialisation: no allocation, no dlopen (it would run the other libraries' constructors, libc's among
 * them, without an environment), no dlsym (a failing one allocates).
 */
#define _GNU_SOURCE
#include "symbols.h"

#include "hooks/driver.h"

#include "hooks/loader/loader.h"

/* ---- what the loader would have found ---- */

struct search {
    const char *name;
    uintptr_t found;
    bool in_driver;
};

static int search_image(struct dl_phdr_info *info, size_t size, void *data)
{
    struct search *s = data;
    struct vs_image image;
    uintptr_t self = (uintptr_t)search_image;
    if (!vs_image_read(&image, info) || (self >= image.start && self < image.end))
        return 0;
    s->found = vs_image_defines(&image, s->name);
    s->in_driver = s->found != 0 && vs_image_is_driver(&image);
    return s->found != 0;
}

/* The objects loaded so far, in their order, are the global scope. */
static struct search search_without_us(const char *name)
{
    struct search s = {.name = name};
    dl_iterate_phdr(search_image, &s);
    return s;
}

/* ---- slots ---- */

static void unbind_slot(const struct vs_got_slot *slot, void *context)
{
    const struct vs_image *o = context;
    const struct vs_row *row = vs_row_find(slot->name);
    if (row == NULL) {
        if (vs_row_lacks(slot->name))
            vs_uncovered_reference(slot->name);
        return;
    }
    bool is_ours = vs_got_value(slot) == (uintptr_t)row->wrapper;
    if (!is_ours && !slot->plt) /* a PLT slot may be bound later: to us */
        return;
    struct search without_us = search_without_us(row->symbol);
    if (without_us.in_driver)
        return;
    if (vs_interposer_owns((const void *)without_us.found)) {
        vs_interpose(row, (void *)without_us.found);
        return;
    }
    /* a strong reference that nothing else satisfies would have kept the program from starting: it is ours;
     * and a PLT slot that is not bound yet was made to be called, not tested */
    if (without_us.found == 0 && (!slot->weak || !is_ours))
        return;
    vs_got_write(o, slot, without_us.found + slot->addend);
}

static int visit(struct dl_phdr_info *info, size_t size, void *data)
{
    struct vs_image image;
    if (vs_image_read(&image, info))
        vs_got_visit(&image, unbind_slot, &image);
    return 0;
}

void vs_rebind_startup(void)
{
    dl_iterate_phdr(visit, NULL);
}
