/*
 * next.h - the real dlsym and dlvsym: those that come after ours (next.c).
 */
#ifndef VS_HOOKS_LOADER_NEXT_H
#define VS_HOOKS_LOADER_NEXT_H

#include <stdbool.h>

/* The real functions, called from here: for handles, or for RTLD_DEFAULT and RTLD_NEXT as seen from this
 * library.  NULL where the name is not found, or where there is no next function. */
void *vs_dlsym_real(void *handle, const char *name);
void *vs_dlvsym_real(void *handle, const char *name, const char *version);

/* Look-ups that are not ours to answer go to DLSYM from now on, that of an interposer behind us; those of our
 * own still go to the C library's. */
void vs_dlsym_goes_to(void *dlsym);
/* Whether they do; then what it answers, asked from here. */
bool vs_dlsym_interposed(void);
void *vs_dlsym_theirs(void *handle, const char *name);

/* Their addresses; NULL where there are none. */
void *vs_find_next_dlsym(void);
void *vs_find_next_dlvsym(void);

#endif
