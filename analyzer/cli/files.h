/*
 * files.h - the recordings that a command's operands name, and the page or the document that has each of
 * them.
 */
#ifndef VS_CLI_FILES_H
#define VS_CLI_FILES_H

#include "analysis/relabel.h"
#include "base/json.h"
#include "show/ranks/ranks.h"

struct files {
    char **at;
    size_t n;
    bool ranks; /* more than was named: a directory's, or the processes of a file */
};

/* Of N operands; R->several follows.  SPREAD: of a file with several processes each, unless one is asked for.
 * 0, and to be freed, or 2, said in the name of COMMAND. */
int files_find(struct files *f, const char *command, char **operands, int n, struct relabel *r, bool spread);
void files_free(struct files *f);

/* Shows one, SEVERAL: as one of those; J: NULL for text.  The exit status. */
typedef int files_show_one(const char *file, const void *options, struct json *j, bool several,
                           struct ranks_seen *seen);
/* All of them, on a page or as the list "files" of a document, and what is missing of a job; frees F. */
int files_show(struct files *f, bool json, files_show_one *show, const void *options);

/* 0, or 2, said, where STEPS, FROM and TO (UNKNOWN: the end) are no one stretch of time. */
int files_stretch(const char *command, const int64_t *steps, int64_t from, int64_t to);

#endif
