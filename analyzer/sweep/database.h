/* database.h - a sweep as one database: the recordings of all points, merged, and a table of the points. */
#ifndef VS_SWEEP_DATABASE_H
#define VS_SWEEP_DATABASE_H

#include "show.h"

/* 0, or 2, said: what is at PATH is not of a sweep, and is never replaced. */
int database_check(const char *path);
/* Replaces the one that is there.  0, also where nothing was recorded: then there is none; or 2, said. */
int database_write(const struct sweep *s, const char *path);

#endif
