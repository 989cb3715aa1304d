/*
 * raise.c - torch's own exceptions, thrown from C.
 *
 * torch calls the allocator from C++ and takes whatever pointer it gives; a NULL becomes a tensor at address
 * 0.  Only an exception makes torch say that there is no memory, and only torch's own, c10::OutOfMemoryError,
 * becomes the torch.OutOfMemoryError that programs catch.  This library has no C++ runtime, so the steps of a
 * throw are taken by hand, as the C++ ABI of Linux spells them out:
 *
 *      room = __cxa_allocate_exception(size)
 *      c10::Error::Error(room, where, message)         SourceLocation: by value, on the stack;
 *                                                      std::string: by the address of one that the caller has
 *      room->vptr = vtable of c10::OutOfMemoryError    which adds nothing but its name to Error
 *      __cxa_throw(room, its typeinfo, Error's destructor)
 *
 * The functions are those of the process, found by name in libc10 and in the C++ library that it uses; where
 * one is missing nothing is thrown.  No lock is held, and the frames in between, in C, have unwind tables.
 *
 * Other errors than out of memory go through the function that torch's own checks of the runtime use.
 */
#define _GNU_SOURCE
#include "torch.h"

#include "framework/torch.h"

#include <dlfcn.h>
#include <string.h>

#define STRING     "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
#define S_BASE     "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE"
#define ERROR_SIZE 1024 /* of an Error, at most: it has some 150 bytes */

struct location {
    const char *function, *file;
    uint32_t line;
};

static struct {
    void *(*allocate)(size_t size);
    void (*release)(void *exception);
    void (*throw)(void *exception, void *type, void (*destroy)(void *));
    void (*error)(void *self, struct location where, struct vs_torch_string *message);
    void (*error_end)(void *self);
    struct vs_torch_string *(*string_assign)(struct vs_torch_string *, const char *, size_t);
    void (*string_end)(struct vs_torch_string *);
    void **vtable;
    void *type;
} cxx;

#define FIND(field, library, name) ((*(void **)&cxx.field = dlsym(library, name)) != NULL)

static bool find_string(void *c10)
{
    return c10 && FIND(string_assign, c10, S_BASE "6assignEPKcm") && FIND(string_end, c10, S_BASE "D1Ev");
}

/* libc10_cuda throws it as well, and so has what libc10 need not have. */
static bool find_all(void *c10, void *c10_cuda)
{
    void *thrower = c10_cuda ? c10_cuda : c10;
    return FIND(allocate, c10, "__cxa_allocate_exception") && FIND(release, c10, "__cxa_free_exception") &&
           FIND(throw, c10, "__cxa_throw") &&
           FIND(error, c10, "_ZN3c105ErrorC1ENS_14SourceLocationE" STRING) && find_string(c10) &&
           FIND(vtable, thrower, "_ZTVN3c1016OutOfMemoryErrorE") &&
           FIND(type, thrower, "_ZTIN3c1016OutOfMemoryErrorE");
}

/* The complete destructor stands first in its vtable, behind the two words that describe the class. */
static bool find(void)
{
    bool all = find_all(vs_torch_library("libc10"), vs_torch_library("libc10_cuda"));
    if (all)
        *(void **)&cxx.error_end = cxx.vtable[2];
    dlerror(); /* the host must not find what we did not find */
    return all;
}

bool vs_torch_string(struct vs_torch_string *out, const char *bytes, size_t length)
{
    bool found = find_string(vs_torch_library("libc10"));
    dlerror(); /* the host must not find what was not found here */
    *out = (struct vs_torch_string){.bytes = (char *)out->room};
    if (found)
        cxx.string_assign(out, bytes, length);
    return found;
}

void vs_torch_raise_oom(const char *message)
{
    struct vs_torch_string text;
    struct location where = {"vramscope_torch_malloc", "vramscope", 0};
    if (!find())
        return;
    void **exception = cxx.allocate(ERROR_SIZE);
    if (!exception)
        return;
    vs_torch_string(&text, message, strlen(message));
    cxx.error(exception, where, &text);
    cxx.string_end(&text);
    *exception = cxx.vtable + 2;
    cxx.throw(exception, cxx.type, cxx.error_end);
}

void vs_torch_raise(CUresult status)
{
    void *library = vs_torch_library("libc10_cuda");
    void (*check)(int32_t, const char *, const char *, uint32_t, bool) = NULL;
    if (library)
        *(void **)&check = dlsym(library, "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_jb");
    dlerror();
    /* the runtime's numbers are the driver's */
    if (check)
        check((int32_t)status, "vramscope", "vramscope_torch_malloc", 0, false);
}
