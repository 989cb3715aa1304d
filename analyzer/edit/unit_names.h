/*
 * unit_names.h - which part of a module's path names the layer that is checkpointed, or sharded, as a whole
 * (unit_names.c).
 */
#ifndef VS_EDIT_UNIT_NAMES_H
#define VS_EDIT_UNIT_NAMES_H

#include <stddef.h>

#define UNITS_MOST 4096 /* what a model has beyond that is in no unit */

/* LENGTHS[i]: that of the unit's name in PATHS[i]; 0: it is in none.  Of the N paths none stands twice. */
void unit_names_find(const char *const *paths, size_t n, size_t *lengths);

/* How much of PATH is a module whose path is PATTERN, name by name, with * for a part of one; 0: none. */
size_t unit_names_match(const char *path, const char *pattern);

/* "ConvNeXt.features.*.*": the first LENGTH bytes of PATH without its modules' numbers.  The caller frees it.
 */
char *unit_names_pattern(const char *path, size_t length);

#endif
