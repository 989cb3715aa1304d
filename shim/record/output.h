/*
 * output.h - chooses the files of a process: database and journal.
 */
#ifndef VS_RECORD_OUTPUT_H
#define VS_RECORD_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "trace/journal/journal.h"

/* Remembers the working directory: relative names are relative to where the program was started, even if it
 * changes directory. */
void vs_output_init(void);

/* Creates the database's file, empty, under the first free name, and puts its absolute name into PATH.  0,
 * or a negative errno; then PATH is the name that failed. */
int vs_output_claim(char *path, size_t size);

/* Creates the journal in the first suitable place and puts its name into PATH; likewise. */
int vs_output_journal(struct vs_journal **out, char *path, size_t size,
                      const struct vs_journal_config *config);

/* For tests: expands %h %p %r %% of PATTERN, relative names against the start directory.  %r of a process
 * without a rank is "none". */
void vs_output_expand(char *path, size_t size, const char *pattern);

#endif
