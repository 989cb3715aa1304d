/*
 * unit_names.h - which part of a module's path names the layer that is checkpointed, or sharded, as a whole
 * (unit_names.c).
 */
#ifndef VS_EDIT_UNIT_NAMES_H
#define VS_EDIT_UNIT_NAMES_H

#include <stddef.h>

/* LENGTHS[i]: that of the unit's name in PATHS[i]; 0: it is in none.  Of the N paths none stands twice. */
void unit_names_find(const char *const *paths, size_t n, size_t *lengths);

/* "ConvNeXt.features.*.*": the first LENGTH bytes of PATH without its modules' numbers.  The caller frees it.
 */
char *unit_names_pattern(const char *path, size_t length);

#endif
