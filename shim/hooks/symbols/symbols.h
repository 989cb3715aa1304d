/*
 * symbols.h - how a program's calls come to the hooks: by its references to symbols and by look-ups of names.
 */
#ifndef VS_HOOKS_SYMBOLS_SYMBOLS_H
#define VS_HOOKS_SYMBOLS_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>

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

#endif
