/* other_libc.h - see other_libc.c. */
#ifndef VS_CORE_OTHER_LIBC_H
#define VS_CORE_OTHER_LIBC_H

#include <stdbool.h>

/* Whether the process's C library is not glibc. */
bool vs_libc_is_other(void);

#endif
