/* database.h - a sweep as one database: the recordings of all points, merged, and a table of the points. */
#ifndef VS_SWEEP_DATABASE_H
#define VS_SWEEP_DATABASE_H

#include "show.h"

/* 0, or 2, said: FOLDER's sweep.db is not of a sweep, and is never replaced. */
int database_check(const char *who, const char *folder);
/* Replaces the one that is there, with no recordings by none; and CSV (NULL: FOLDER's sweep.csv) and the
 * picture PLOT (NULL: none).  0, or 2, said. */
int database_all(const struct sweep *s, const char *folder, const char *csv, const char *plot);

#endif
