/* symbols.h - how a program's calls come to the hooks: by its references to symbols and by look-ups of names.
 */
#ifndef VS_HOOKS_SYMBOLS_SYMBOLS_H
#define VS_HOOKS_SYMBOLS_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>

#include "hooks/loader/loader.h"

/* Called once by the library's constructor, before any other code of the process runs (the library is linked
 * -z initfirst): references that bound to our exports and would not have found the driver go back to what
 * they would have been.  Safe before the C library is initialised. */
void vs_hooks_init(void);

/* Whether the library was loaded behind the C library, by dlopen: then nothing is hooked. */
bool vs_hooks_late(void);

/* Has the calls that the object with the code at INSIDE makes to the functions NAMES, which begin with "cu",
 * come to OURS, for good; *REAL gets the function itself before the first call comes.  At most 8.  Returns
 * how many references were changed.  Takes the loader's lock; keeps nothing of the arguments. */
size_t vs_rebind_object(const void *inside, const char *const *names, void *const *ours, void **const *real,
                        size_t n);

/* What stands for FUNCTION, which a look-up of NAME found, a function of NVML's; NULL: nothing does.  Set by
 * the constructor, NULL itself where nothing ever does. */
extern void *(*vs_nvml_stand_in)(const char *name, void *function);

/* ---- between the files of this folder ---- */

/* Binds references that only our exports satisfied to what they would be without us (rebind_startup.c).  Safe
 * before the C library is initialised. */
void vs_rebind_startup(void);

/* Looks through the objects that were loaded since the last call: references that went past our exports to
 * the driver get our wrappers, weak ones that found only us become what they would be without us
 * (rebind_loaded.c). Cheap where none came.  Takes the loader's lock: from look-ups, which do so themselves.
 */
void vs_rebind_loaded(void);
void vs_rebind_begin(void);
bool vs_rebind_ready(void);

/* Whether the driver that was learnt is in the scope of a library that loaded the one CALLER lies in. */
bool vs_loaders_find_driver(const void *caller);

/* ---- GOT slots (got.c): the words of a loaded object that the loader fills with the addresses of functions,
 * of the global offset table, of the procedure linkage table, of plain data ---- */

struct vs_got_slot {
    uintptr_t at;     /* address of the word */
    uintptr_t addend; /* what it holds beyond the function's address */
    const char *name; /* the function that is referred to */
    bool weak;
    bool plt; /* may be bound at the first call: until then it leads into its own object */
};

/* The word as it is now, without the addend. */
static inline uintptr_t vs_got_value(const struct vs_got_slot *slot)
{
    /* relaxed: code at the address has been mapped for as long as the word has held it */
    return __atomic_load_n((uintptr_t *)slot->at, __ATOMIC_RELAXED) - slot->addend;
}

/* Calls VISIT for every slot of IMAGE that refers to a function of another object whose name begins "cu". */
void vs_got_visit(const struct vs_image *image, void (*visit)(const struct vs_got_slot *slot, void *context),
                  void *context);

struct vs_got_change {
    struct vs_got_slot slot;
    uintptr_t value; /* that its word is to have */
    bool refused;    /* the word lies in code or in read-only data (a library with text relocations), which
                      * stays as it is, or the kernel keeps its page sealed */
};

/* Writes N changes in their order, those that follow each other on one page at once.  Nobody else may write
 * slots of IMAGE meanwhile. */
void vs_got_write_all(const struct vs_image *image, struct vs_got_change *changes, size_t n);

/* One; false: it was refused. */
bool vs_got_write(const struct vs_image *image, const struct vs_got_slot *slot, uintptr_t value);

/* ---- scopes (scopes.c): all loaded objects at once, and what is linked with what ----
 *
 * Only good inside vs_scopes_take's callback, which runs under the loader's lock: nothing is loaded, unloaded
 * or moved meanwhile, and nothing that waits for the loader may be called. */

struct vs_scope_object {
    struct vs_image image; /* all zero where it has no dynamic symbols */
    const char *path;
};

struct vs_scopes {
    struct vs_scope_object *objects; /* in the order of their loading */
    size_t count, room;
    unsigned long long adds, subs; /* how many were ever loaded, unloaded */
    size_t *scope;                 /* vs_scopes_of's answer */
    size_t *with, with_count;      /* vs_scopes_with's, to the question that was asked last */
    size_t asked, asked_from;
    size_t self; /* this library's place */
};

/* False where there is no memory. */
bool vs_scopes_take(void (*use)(struct vs_scopes *scopes, void *context), void *context);

/* What a look-up by the handle of object AT searches: AT, what it is linked with, what that is linked with.
 * The places, in that order, are in scopes->scope; returns how many. */
size_t vs_scopes_of(struct vs_scopes *scopes, size_t at);

/* The objects from place FROM on whose scopes have AT in them.  Their places are in scopes->with; returns how
 * many.  To ask again for the same AT costs nothing. */
size_t vs_scopes_with(struct vs_scopes *scopes, size_t at, size_t from);

/* The first object of the scope of N that defines NAME, this library left out; scopes->count where none
 * does. */
size_t vs_scopes_definer(const struct vs_scopes *scopes, size_t n, const char *name);

#endif
