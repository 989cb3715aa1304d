/* whatif_question.h - what `vramscope whatif` is asked (whatif_question.c), and its answers of one device
 * (whatif_device.c). */
#ifndef VS_CLI_WHATIF_QUESTION_H
#define VS_CLI_WHATIF_QUESTION_H

#include "base/args.h"
#include "base/json.h"
#include "law/law.h"
#include "read/trace.h"
#include "replay/torch.h"

enum policy { LIVE, NATIVE, EXPANDABLE, ARENA, PACKED, ASYNC, POLICIES };
extern const char *const whatif_policies[]; /* their names, and NULL */

struct options {
    const char *policy, *capacity;
    struct law_request sizes; /* --batch and --seq: of several recordings */
    int64_t device, process;
    struct arg_list edits;
    bool json, bytes, why;
};

struct question {
    const struct options *o;
    bool wanted[POLICIES];
    uint64_t capacity; /* 0: no end */
    char **settings;   /* words */
    int setting_count;
};

/* The command's operands but the file, N words.  0, or the exit status of what was complained about.  Q keeps
 * pointers to them. */
int question_read(struct question *q, char **words, int n);
/* "80GiB", "512M", "1e9"; false where it is none, or more than any memory. */
bool question_size(const char *text, uint64_t *bytes);
/* The value of --capacity; 0, or the exit status of what was complained about. */
int question_capacity(const char *text, uint64_t *bytes);
/* "max_split_size=1GiB", into S; 0, or the exit status of what was complained about. */
int question_setting(struct torch_settings *s, const char *word);

/* 1: answered, 0: the device had no blocks, -1: said why not.  J: NULL for text. */
int whatif_device(struct trace *t, const struct question *q, int64_t device, struct json *j);

#endif
