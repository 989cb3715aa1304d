/*
 * interposers.h - libraries that are preloaded behind us and stand before the driver themselves, a quota on
 * memory for instance: a call goes from the program to us, to them, to the driver.
 *
 * One is known by its place (between us and the first library that another is linked with) and by what it
 * exports: dlsym, or a function that we hook.  A library that the program is linked with and that defines the
 * driver's functions is no interposer: calls bind to it as without us (symbols/rebind_startup.c).
 *
 * It gets the calls of a function from the moment on at which the program reaches it by a way that would have
 * led to the interposer without us: a reference, its dlsym, its cuGetProcAddress.  One that cannot be
 * reached so might not be ready to be called.
 */
#ifndef VS_HOOKS_INTERPOSERS_H
#define VS_HOOKS_INTERPOSERS_H

#include <stdbool.h>

/* Called once by the constructor, before any other code of the process runs. */
void vs_interposers_find(void);

bool vs_interposers_there(void);
/* Whether ADDRESS lies in one. */
bool vs_interposer_owns(const void *address);
/* The function NAME of the first that exports it, NULL where none does. */
void *vs_interposer_export(const char *name);

#endif
