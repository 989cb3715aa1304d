/* hosts.h - see hosts.c. */
#ifndef VS_PRELOAD_HOSTS_H
#define VS_PRELOAD_HOSTS_H

#include <stdbool.h>

/* Whether the process's C library is not glibc. */
bool vs_libc_is_other(void);

/* Has a sanitizer's runtime that lies in the program itself get ready, before the C library's functions are
 * called, which are the sanitizer's. */
void vs_sanitizer_begin(void);

#endif
