/*
 * scopes.h - all loaded objects at once, for questions about scopes: what is linked with what.
 *
 * Only good inside vs_scopes_take's callback, which runs under the loader's lock: nothing is loaded, unloaded
 * or moved meanwhile, and nothing that waits for the loader may be called.
 */
#ifndef VS_HOOKS_SYMBOLS_SCOPES_H
#define VS_HOOKS_SYMBOLS_SCOPES_H

#include "hooks/loader/image.h"

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
