/*
 * resolve.c - answers look-ups by dlsym and dlvsym, as far as they concern us.
 *
 * For names of driver.def the result is what the caller would have got without us or, if that is the loaded
 * driver's function, our wrapper of it:
 *
 *   a real handle            the real dlsym's answer.
 *   RTLD_DEFAULT             the global scope without us, the caller's own libraries, then those that loaded
 *                            the caller, and what these are linked with.
 *   that of dlopen(NULL)     the global scope without us.
 *   RTLD_NEXT                from before us: what comes after us.  From elsewhere our exports are not in the
 *                            way: the driver's wrapper if the driver comes next, else the real dlsym.
 *   a version                finds nothing of ours, whose names carry none: the wrapper where the driver is
 *                            what it finds, else the real dlvsym.
 *
 * Limits: dlerror() after a failed RTLD_DEFAULT look-up of a hooked name speaks of this library where the
 * real one names the caller.  A program that takes the C library's own dlsym by that library's handle and
 * looks the driver up with it goes past us (answering with ours would send other interposers round in
 * circles).
 */
#define _GNU_SOURCE
#include "symbols.h"

#include <errno.h>
#include <dlfcn.h>
#include <link.h>
#include <string.h>

#include "core/walk.h"
#include "hooks/driver.h"
#include "hooks/loader/loader.h"

struct vs_dlsym_answer {
    void *address;
    uintptr_t answered; /* 0: dlsym.S jumps to the real one */
};
struct vs_dlsym_answer vs_dlsym_lookup(void *handle, const char *name, const void *caller);

struct vs_dlsym_answer vs_dlvsym_lookup(void *handle, const char *name, const char *version,
                                        const void *caller);

/* How many objects the program started with: those are the global scope, whatever is loaded later is at best
 * appended to it. */
static int startup_objects;

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

/* NAME among the caller's own libraries; VERSION NULL: any. */
static void *find_in_caller(const char *name, const char *version, const void *caller)
{
    struct vs_loaded object;
    if (!vs_loaded_at(caller, &object) || object.name[0] == '\0' || !vs_loaded_is_bound(caller))
        return NULL; /* to open what is being loaded would bind it a second time */
    void *handle = dlopen(object.name, RTLD_LAZY | RTLD_NOLOAD);
    if (handle == NULL)
        return NULL;
    void *found = version != NULL ? vs_dlvsym_real(handle, name, version) : vs_dlsym_real(handle, name);
    dlclose(handle);
    if (found == NULL)
        vs_dlsym_real(RTLD_NEXT, name); /* fails once more, for dlerror(): dlclose has wiped it */
    return found;
}

/* The global scope without us. */
static void *find_global(const char *name)
{
    void *found = vs_dlsym_real(RTLD_DEFAULT, name);
    return found != NULL && !vs_loaded_is_us(found) ? found : vs_dlsym_real(RTLD_NEXT, name);
}

static struct vs_dlsym_answer answer_with(const struct vs_row *row, void *found)
{
    bool drivers = found != NULL && vs_driver_learn() && vs_driver_owns(found);
    bool passed = found != NULL && !drivers && vs_interposer_owns(found);
    if (passed)
        vs_interpose(row, found);
    else if (found != NULL && !drivers)
        vs_uncovered_driver(found);
    return (struct vs_dlsym_answer){drivers || passed ? row->wrapper : found, 1};
}

/* What HANDLE has of the row; where an interposer behind us has a dlsym of its own, what that answers in the
 * place of the driver's function is the interposer's. */
static void *find_in(void *handle, const struct vs_row *row)
{
    bool global = handle == RTLD_DEFAULT || is_program_handle(handle);
    void *plain = global ? find_global(row->symbol) : vs_dlsym_real(handle, row->symbol);
    if (!vs_dlsym_interposed())
        return plain;
    void *theirs = vs_dlsym_theirs(handle, row->symbol), *exported = vs_interposer_export(row->symbol);
    if (theirs == row->wrapper) /* a reference of theirs to what they export, or the global scope's */
        return exported != NULL ? exported : plain;
    if (theirs == NULL || !vs_driver_learn() || vs_driver_owns(theirs) || !vs_driver_owns(plain))
        return theirs;
    vs_interpose(row, theirs);
    return row->wrapper;
}

/* An interposer behind us gets what it would without us: our wrapper would lead back to it. */
static struct vs_dlsym_answer lookup_of_interposer(const struct vs_row *row, void *handle)
{
    bool global = handle == RTLD_DEFAULT || is_program_handle(handle);
    return (struct vs_dlsym_answer){global ? find_global(row->symbol) : NULL, global};
}

/* Whether the driver is what RTLD_NEXT means for CALLER, an object behind us: among its own dependencies, or,
 * for one of the program's own libraries, later in the global scope. */
static bool driver_is_next(const char *name, const struct vs_loaded *caller, const void *return_address)
{
    struct vs_loaded driver;
    if (!vs_loaded_driver(&driver) || driver.order == caller->order || !vs_driver_learn())
        return false;
    if (vs_driver_owns(find_in_caller(name, NULL, return_address)))
        return true;
    const void *next = vs_dlsym_real(RTLD_NEXT, name);
    return caller->order < startup_objects && caller->order < driver.order &&
           (vs_driver_owns(next) || vs_interposer_owns(next));
}

static struct vs_dlsym_answer lookup_next(const struct vs_row *row, const void *caller)
{
    struct vs_loaded from, self;
    if (!vs_loaded_at(caller, &from) || !vs_loaded_at((const void *)vs_dlsym_lookup, &self))
        return (struct vs_dlsym_answer){NULL, 0};
    if (from.order > self.order)
        return driver_is_next(row->symbol, &from, caller) ? (struct vs_dlsym_answer){row->wrapper, 1}
                                                          : (struct vs_dlsym_answer){NULL, 0};
    return answer_with(row, vs_dlsym_real(RTLD_NEXT, row->symbol));
}

static struct vs_dlsym_answer lookup_hooked(const struct vs_row *row, void *handle, const void *caller)
{
    if (vs_interposer_owns(caller))
        return lookup_of_interposer(row, handle);
    if (handle == RTLD_NEXT)
        return lookup_next(row, caller);
    if (handle == RTLD_DEFAULT) {
        void *found = find_in(handle, row);
        if (found == NULL)
            found = find_in_caller(row->symbol, NULL, caller);
        if (found == NULL && vs_driver_learn() && vs_loaders_find_driver(caller)) {
            dlerror();
            found = vs_driver_own(row->api);
        }
        return answer_with(row, found);
    }
    return answer_with(row, find_in(handle, row));
}

/* A name that looks like the driver's and is not hooked. */
static void lookup_other(const char *name)
{
    if (vs_row_lacks(name) && vs_driver_learn() && vs_cuda_real(name) != NULL)
        vs_uncovered("%s, which this vramscope does not know, was looked up", name);
}

void *(*vs_nvml_stand_in)(const char *name, void *function);

static struct vs_dlsym_answer lookup_nvml(void *handle, const char *name, const void *caller)
{
    struct vs_dlsym_answer not_ours = {NULL, 0};
    if (vs_nvml_stand_in == NULL || handle == RTLD_NEXT || strncmp(name, "nvmlDevice", 10) != 0 ||
        vs_loaded_is_us(caller))
        return not_ours;
    void *found = handle == RTLD_DEFAULT ? find_global(name) : vs_dlsym_real(handle, name);
    void *ours = found != NULL ? vs_nvml_stand_in(name, found) : NULL;
    return ours != NULL ? (struct vs_dlsym_answer){ours, 1} : not_ours;
}

VS_NO_SANITIZE struct vs_dlsym_answer vs_dlsym_lookup(void *handle, const char *name, const void *caller)
{
    const struct vs_dlsym_answer not_ours = {NULL, 0};
    if (vs_find_next_dlsym() == NULL)
        return (struct vs_dlsym_answer){NULL, 1};
    if (!vs_rebind_ready() || name == NULL)
        return not_ours;
    int saved = errno;
    vs_rebind_loaded();
    bool candidate = name[0] == 'c' && name[1] == 'u';
    const struct vs_row *row = candidate ? vs_row_find(name) : NULL;
    if (candidate && row == NULL)
        lookup_other(name);
    struct vs_dlsym_answer answer = row != NULL      ? lookup_hooked(row, handle, caller)
                                    : name[0] == 'n' ? lookup_nvml(handle, name, caller)
                                                     : not_ours;
    errno = saved;
    return answer;
}

/* Names of ours are not in the way of a look-up with a version. */
static struct vs_dlsym_answer lookup_version(const struct vs_row *row, void *handle, const char *version,
                                             const void *caller)
{
    bool pseudo = handle == RTLD_DEFAULT || handle == RTLD_NEXT;
    void *found = vs_dlvsym_real(handle == RTLD_NEXT ? RTLD_DEFAULT : handle, row->symbol, version);
    if (found == NULL && pseudo)
        found = find_in_caller(row->symbol, version, caller);
    dlerror(); /* the real one says it again where it fails */
    bool drivers = found != NULL && vs_driver_learn() && vs_driver_owns(found);
    return (struct vs_dlsym_answer){drivers ? row->wrapper : NULL, drivers};
}

/* Another interposer, preloaded before us, that asks for the next dlsym by its version, as they do: ours has
 * none, and without an answer of ours that one would take libc's. */
static struct vs_dlsym_answer lookup_next_interposer(const char *name, const void *caller)
{
    struct vs_loaded from, self;
    /* by names of their own: the loader's idea of dlsym may be the other's */
    extern const char vs_dlsym_ours[], vs_dlvsym_ours[];
    const void *ours = strcmp(name, "dlsym") == 0 ? vs_dlsym_ours : vs_dlvsym_ours;
    bool before = vs_loaded_at(caller, &from) && vs_loaded_at((const void *)vs_dlvsym_lookup, &self) &&
                  from.order < self.order;
    return (struct vs_dlsym_answer){before ? (void *)ours : NULL, before};
}

static bool is_look_up(const char *name)
{
    return strcmp(name, "dlsym") == 0 || strcmp(name, "dlvsym") == 0;
}

VS_NO_SANITIZE struct vs_dlsym_answer vs_dlvsym_lookup(void *handle, const char *name, const char *version,
                                                       const void *caller)
{
    const struct vs_dlsym_answer not_ours = {NULL, 0};
    if (vs_find_next_dlvsym() == NULL)
        return (struct vs_dlsym_answer){NULL, 1};
    if (handle == RTLD_NEXT && vs_rebind_ready() && name != NULL && is_look_up(name))
        return lookup_next_interposer(name, caller);
    if (!vs_rebind_ready() || name == NULL || version == NULL || name[0] != 'c' || name[1] != 'u')
        return not_ours;
    int saved = errno;
    vs_rebind_loaded();
    const struct vs_row *row = vs_row_find(name);
    struct vs_dlsym_answer answer = row != NULL ? lookup_version(row, handle, version, caller) : not_ours;
    errno = saved;
    return answer;
}

static bool late;

bool vs_hooks_late(void)
{
    return late;
}

/* What is preloaded comes before the C library, and so do a program's own libraries. */
static int is_behind_libc(struct dl_phdr_info *info, size_t size, void *data)
{
    struct vs_image image;
    bool *behind = data;
    if (!vs_image_read(&image, info))
        return 0;
    *behind = image.soname != NULL && strcmp(image.soname, "libc.so.6") == 0;
    return *behind || ((uintptr_t)&late >= image.start && (uintptr_t)&late < image.end);
}

void vs_hooks_init(void)
{
    dl_iterate_phdr(is_behind_libc, &late);
    if (late)
        return;
    vs_find_next_dlsym();
    vs_interposers_find();
    startup_objects = vs_loaded_count();
    vs_rebind_startup();
    vs_rebind_begin();
    vs_walk_begin();
}
