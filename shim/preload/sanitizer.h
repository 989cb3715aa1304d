/* sanitizer.h - see sanitizer.c. */
#ifndef VS_PRELOAD_SANITIZER_H
#define VS_PRELOAD_SANITIZER_H

/* Has a sanitizer's runtime that lies in the program itself get ready, before the C library's functions are
 * called, which are the sanitizer's. */
void vs_sanitizer_begin(void);

#endif
