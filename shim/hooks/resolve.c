/*
 * resolve.c - look-ups by dlsym: which of them we answer, and with what.
 *
 * dlsym.S asks vs_dlsym_lookup() about every look-up in the process.  Names that are not in driver.def
 * (nearly all) go to the real dlsym by a jump.  For the others the answer is what the caller would have got
 * without us, and, where that is the loaded driver's function, our wrapper of it:
 *
 *   a real handle            the real dlsym's answer.
 *   RTLD_DEFAULT and the     the global scope without us: what comes before us there, then what comes after
 *   handle of dlopen(NULL)   us, then the caller's own libraries (not for the handle).
 *   RTLD_NEXT                from before us: what comes after us.  From elsewhere: our exports are not in the
 *                            way; the driver's wrapper if the driver is what comes next, else the jump.
 *
 * Limits: an object that finds the driver only in the scope of the library that loaded it (neither global nor
 * among its own dependencies) is told NULL for RTLD_DEFAULT; it would have found it.  dlerror() after a
 * failed RTLD_DEFAULT look-up of a hooked name speaks of this library where the real one names the caller.
 */
#define _GNU_SOURCE
#include "hook.h"

#include <dlfcn.h>

#include "cuda.h"

struct vs_dlsym_answer {
    void *address;
    uintptr_t answered; /* 0: dlsym.S jumps to the real one */
};
struct vs_dlsym_answer vs_dlsym_lookup(void *handle, const char *name, const void *caller);

/* The real dlsym; dlsym.S jumps through it. */
void *vs_dlsym_next;

/* How many objects the program started with: those are the global scope, whatever is loaded later is at best
 * appended to it. */
static int startup_objects;

/* The next dlsym after ours: libc's, or that of another library that interposes it.  The version differs
 * between the processors and with glibc 2.34; RTLD_NEXT depends on the caller, so dlvsym must be called from
 * here, not jumped to. */
VS_NO_SANITIZE static void *find_next_dlsym(void)
{
    static const char *const versions[] = {"GLIBC_2.34", "GLIBC_2.2.5", "GLIBC_2.17"};
    void *p = __atomic_load_n(&vs_dlsym_next, __ATOMIC_RELAXED);
    for (size_t i = 0; p == NULL && i < sizeof(versions) / sizeof(versions[0]); i++)
        p = dlvsym(RTLD_NEXT, "dlsym", versions[i]);
    /* relaxed: an address of code that has been mapped since the program started */
    __atomic_store_n(&vs_dlsym_next, p, __ATOMIC_RELAXED);
    return p;
}

VS_NO_SANITIZE void *vs_dlsym_real(void *handle, const char *name)
{
    void *(*real)(void *, const char *) = find_next_dlsym();
    /* not a tail call, so that the real one sees this library as the caller */
    void *answer = real != NULL ? real(handle, name) : NULL;
    __asm__ volatile("" : : "r"(answer));
    return answer;
}

static bool is_ours(const void *address)
{
    extern const char __ehdr_start[] __attribute__((visibility("hidden")));
    extern const char _end[] __attribute__((visibility("hidden")));
    return (const char *)address >= __ehdr_start && (const char *)address < _end;
}

/* The handle of the whole program, as dlopen(NULL) gives it: a look-up there searches the global scope.  It
 * is the same for the life of the process, so asking twice at once does no harm. */
static bool is_program_handle(void *handle)
{
    static _Atomic(void *) program;
    void *known = atomic_load_explicit(&program, memory_order_relaxed);
    if (known == NULL) {
        known = dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);
        if (known != NULL)
            dlclose(known);
        atomic_store_explicit(&program, known, memory_order_relaxed);
    }
    return handle == known;
}

/* NAME among the caller's own libraries. */
static void *find_in_caller(const char *name, const void *caller)
{
    struct vs_object object;
    if (!vs_find_object(caller, &object) || object.name[0] == '\0')
        return NULL;
    void *handle = dlopen(object.name, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == NULL)
        return NULL;
    void *found = vs_dlsym_real(handle, name);
    dlclose(handle);
    if (found == NULL)
        vs_dlsym_real(RTLD_NEXT, name); /* fails once more, for dlerror(): dlclose has wiped it */
    return found;
}

/* The global scope without us. */
static void *find_global(const char *name)
{
    void *found = vs_dlsym_real(RTLD_DEFAULT, name);
    return found != NULL && !is_ours(found) ? found : vs_dlsym_real(RTLD_NEXT, name);
}

static struct vs_dlsym_answer answer_with(const struct vs_row *row, void *found)
{
    bool drivers = found != NULL && vs_driver_learn() && vs_driver_owns(found);
    return (struct vs_dlsym_answer){drivers ? row->wrapper : found, 1};
}

/* Whether the driver is what RTLD_NEXT means for CALLER, an object behind us: among its own dependencies, or,
 * for one of the program's own libraries, later in the global scope. */
static bool driver_is_next(const char *name, const struct vs_object *caller, const void *return_address)
{
    struct vs_object driver;
    if (!vs_find_driver(&driver) || driver.order == caller->order || !vs_driver_learn())
        return false;
    if (vs_driver_owns(find_in_caller(name, return_address)))
        return true;
    return caller->order < startup_objects && caller->order < driver.order &&
           vs_driver_owns(vs_dlsym_real(RTLD_NEXT, name));
}

static struct vs_dlsym_answer lookup_next(const struct vs_row *row, const void *caller)
{
    struct vs_object from, self;
    if (!vs_find_object(caller, &from) || !vs_find_object((const void *)vs_dlsym_lookup, &self))
        return (struct vs_dlsym_answer){NULL, 0};
    if (from.order > self.order)
        return driver_is_next(row->symbol, &from, caller) ? (struct vs_dlsym_answer){row->wrapper, 1}
                                                          : (struct vs_dlsym_answer){NULL, 0};
    return answer_with(row, vs_dlsym_real(RTLD_NEXT, row->symbol));
}

static struct vs_dlsym_answer lookup_hooked(const struct vs_row *row, void *handle, const void *caller)
{
    if (handle == RTLD_NEXT)
        return lookup_next(row, caller);
    if (handle == RTLD_DEFAULT) {
        void *found = find_global(row->symbol);
        return answer_with(row, found != NULL ? found : find_in_caller(row->symbol, caller));
    }
    if (is_program_handle(handle))
        return answer_with(row, find_global(row->symbol));
    return answer_with(row, vs_dlsym_real(handle, row->symbol));
}

VS_NO_SANITIZE struct vs_dlsym_answer vs_dlsym_lookup(void *handle, const char *name, const void *caller)
{
    if (find_next_dlsym() == NULL)
        return (struct vs_dlsym_answer){NULL, 1};
    const struct vs_row *row = name != NULL && name[0] == 'c' && name[1] == 'u' ? vs_row_find(name) : NULL;
    if (row == NULL)
        return (struct vs_dlsym_answer){NULL, 0};
    int saved = errno;
    struct vs_dlsym_answer answer = lookup_hooked(row, handle, caller);
    errno = saved;
    return answer;
}

void vs_hooks_init(void)
{
    find_next_dlsym();
    startup_objects = vs_count_objects();
    vs_unbind_strangers();
}

bool vs_cuda_seen(void)
{
    return atomic_load_explicit(&vs_hook_called, memory_order_relaxed);
}
