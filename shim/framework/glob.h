/* glob.h - shell patterns (* ? [a-z] [!a-z] \x) over counted strings: fnmatch may call malloc, this never
 * does. */
#ifndef VS_FRAMEWORK_GLOB_H
#define VS_FRAMEWORK_GLOB_H

#include <stdbool.h>
#include <stddef.h>

bool vs_glob(const char *pattern, size_t pattern_length, const char *text, size_t text_length);

#endif
