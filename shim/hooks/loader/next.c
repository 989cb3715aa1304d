/*
 * next.c - the dlsym and dlvsym that come after ours: the C library's, or those of another library that
 * interposes them.
 *
 * Both may be looked for before the C library or a sanitizer's runtime is initialised: that takes no lock of
 * ours and allocates nothing.
 */
#define _GNU_SOURCE

#include <dlfcn.h>
#include <link.h>

#include "loader.h"

#pragma weak _r_debug /* glibc's loader alone has it */

/* dlsym.S jumps through these two. */
void *vs_dlsym_next, *vs_dlvsym_next;

static void *libc_dlsym;
static bool interposed;

/* The next dlvsym after ours: libc's, or that of another library that interposes it.  No look-up can find it,
 * since every look-up leads here: the loader's list is read, of which only the part that the program
 * started with is walked.  AFTER_US false: whoever has it (we were loaded later than libc). */
VS_NO_SANITIZE static void *walk_for_dlvsym(bool after_us)
{
    extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));
    struct vs_image image;
    for (const struct link_map *m = &_r_debug != NULL ? _r_debug.r_map : NULL; m != NULL; m = m->l_next) {
        bool self = m->l_ld == _DYNAMIC;
        void *found = NULL;
        if (!self && !after_us && vs_image_of(&image, m->l_addr, m->l_ld))
            found = (void *)vs_image_defines(&image, "dlvsym");
        if (found != NULL)
            return found;
        after_us = after_us && !self;
    }
    return NULL;
}

VS_NO_SANITIZE void *vs_find_next_dlvsym(void)
{
    void *p = __atomic_load_n(&vs_dlvsym_next, __ATOMIC_RELAXED);
    if (p == NULL)
        p = walk_for_dlvsym(true);
    if (p == NULL)
        p = walk_for_dlvsym(false);
    /* relaxed: an address of code that has been mapped since the program started */
    __atomic_store_n(&vs_dlvsym_next, p, __ATOMIC_RELAXED);
    return p;
}

VS_NO_SANITIZE void *vs_dlvsym_real(void *handle, const char *name, const char *version)
{
    void *(*real)(void *, const char *, const char *) = vs_find_next_dlvsym();
    void *answer = real != NULL ? real(handle, name, version) : NULL;
    __asm__ volatile("" : : "r"(answer));
    return answer;
}

/* Another C library's, which has no versions and no list that is read without it. */
static int define_dlsym(struct dl_phdr_info *info, size_t size, void *data)
{
    extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));
    struct vs_image image;
    uintptr_t *found = data;
    if (vs_image_read(&image, info) && image.dynamic != _DYNAMIC)
        *found = vs_image_defines(&image, "dlsym");
    return *found != 0;
}

/* The next dlsym after ours, likewise.  The version differs between the processors and with glibc 2.34. */
VS_NO_SANITIZE void *vs_find_next_dlsym(void)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    void *p = __atomic_load_n(&libc_dlsym, __ATOMIC_RELAXED);
    if (p != NULL)
        return p;
    for (size_t i = 0; p == NULL && i < sizeof(versions) / sizeof(versions[0]); i++)
        p = vs_dlvsym_real(RTLD_NEXT, "dlsym", versions[i]);
    if (p == NULL && &_r_debug == NULL)
        dl_iterate_phdr(define_dlsym, &p);
    __atomic_store_n(&libc_dlsym, p, __ATOMIC_RELAXED);
    if (!interposed)
        __atomic_store_n(&vs_dlsym_next, p, __ATOMIC_RELAXED);
    return p;
}

void vs_dlsym_goes_to(void *dlsym)
{
    interposed = true;
    __atomic_store_n(&vs_dlsym_next, dlsym, __ATOMIC_RELAXED);
}

bool vs_dlsym_interposed(void)
{
    return interposed;
}

void *vs_dlsym_theirs(void *handle, const char *name)
{
    void *(*theirs)(void *, const char *) = vs_dlsym_next;
    void *answer = theirs(handle, name);
    __asm__ volatile("" : : "r"(answer));
    return answer;
}

VS_NO_SANITIZE void *vs_dlsym_real(void *handle, const char *name)
{
    void *(*real)(void *, const char *) = vs_find_next_dlsym();
    /* not a tail call, so that the real one sees this library as the caller */
    void *answer = real != NULL ? real(handle, name) : NULL;
    __asm__ volatile("" : : "r"(answer));
    return answer;
}
