/*
 * files.h - the recordings that a command's operands name, and the page or the document that has each of
 * them.
 */
#ifndef VS_CLI_FILES_H
#define VS_CLI_FILES_H

#include "analysis/relabel.h"
#include "base/json.h"
#include "show/ranks/ranks.h"
#include "show/report/report.h"

struct files {
    char **at;
    size_t n;
    bool ranks; /* more than was named: a directory's, or the processes of a file */
};

/* Of N operands; R->several follows.  SPREAD: of a file with several processes each, unless one is asked for.
 * 0, and to be freed, or 2, said in the name of COMMAND. */
int files_find(struct files *f, const char *command, char **operands, int n, struct relabel *r, bool spread);
void files_free(struct files *f);

/* What a command shows of a file, and of a device in it: the exit status.  J: NULL for text. */
typedef int files_show_one(struct report *r, const void *options, struct json *j);
typedef int files_show_device(const struct report *r, const struct device_report *d, const void *options,
                              struct json *j);

struct file_page {
    const char *command;
    struct relabel *relabel;
    bool json, names; /* names: those of call stacks are looked up first */
    unsigned parts;   /* of the report */
    files_show_one *show;
    const void *options;
};

/* All files of N operands, on a page or as the list "files" of a document, and what is missing of a job. */
int files_show(const struct file_page *p, char **operands, int n);
/* Those of a file's devices that are asked about; UNKNOWN: all. */
int files_devices(const struct report *r, int64_t device, files_show_device *show, const void *options,
                  struct json *j);

/* 0, or 2, said, where STEPS, FROM and TO (UNKNOWN: the end) are no one stretch of time. */
int files_stretch(const char *command, const int64_t *steps, int64_t from, int64_t to);

#endif
