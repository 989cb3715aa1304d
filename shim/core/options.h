/* options.h - what the environment says of a recording: the VRAMSCOPE_* variables, expanded from options.def,
 * and the rank. */
#ifndef VS_CORE_OPTIONS_H
#define VS_CORE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define VS_OPTION_TYPE_TEXT   const char *
#define VS_OPTION_TYPE_LABELS const char *
#define VS_OPTION_TYPE_LIMITS const char *
#define VS_OPTION_TYPE_ENUM   unsigned
#define VS_OPTION_TYPE_FLAG   bool
#define VS_OPTION_TYPE_COUNT  uint64_t
#define VS_OPTION_TYPE_BYTES  uint64_t
#define VS_OPTION_TYPE_MS     uint64_t

struct vs_options {
#define OPTION(type, field, name, otherwise, help) VS_OPTION_TYPE_##type field;
#include "options.def"
#undef OPTION
};

enum { VS_STACKS_OFF, VS_STACKS_DRIVER, VS_STACKS_PYTHON, VS_STACKS_ALL }; /* values of `stacks` */
enum { VS_ALLOCATOR_OFF, VS_ALLOCATOR_ARENA };
enum { VS_ARENA_FREE_AUTO, VS_ARENA_FREE_WAIT, VS_ARENA_FREE_DEFER };

/* The options of this process.  Set by vs_options_load; the defaults before that. */
extern struct vs_options vs_options;

/* Reads every option from ENVIRONMENT ("NAME=value" strings, NULL last); texts are copied.  An invalid value
 * is replaced by the default.  Allocates nothing and prints nothing: safe before libc's own constructors. */
void vs_options_load(char *const environment[]);

/* Reads bytes, or a number with K, M, G, T or KiB, MiB, GiB, TiB. */
bool vs_option_bytes(const char *value, uint64_t *out);

/* Whether the option NAME takes VALUE. */
bool vs_option_takes(const char *name, const char *value);

/* Reports that NAME is VALUE but this build lacks the feature, as WHY explains: the default is used, and
 * vs_options_complain prints it.  All three texts must live as long as the process. */
void vs_options_lack(const char *name, const char *value, const char *why);

/* Prints one line for every invalid value and for every VRAMSCOPE_ name that is not an option.  Called when
 * a recording starts, once, so that processes which only inherit the variables print nothing. */
void vs_options_complain(void);

/* Prints the table of options to stderr. */
void vs_options_print(void);

/* ---- labels: what a user calls a run, names with values, "batch=4,seq=1024" ----
 *
 * A name is of letters, digits and ._+-, a value of anything but commas and control characters; neither is
 * empty, and no name comes twice.  Nothing here allocates, so that it may run before libc's constructors. */

#define VS_LABELS_MOST      32   /* labels of a run */
#define VS_LABEL_NAME_MOST  64   /* bytes */
#define VS_LABEL_VALUE_MOST 256  /* bytes */
#define VS_LABELS_BYTES     2048 /* of the whole list */

struct vs_label { /* pieces of the list */
    const char *name, *value;
    size_t name_length, value_length;
};

/* Takes the first label off *LIST.  False: the list is empty, or begins with something else, and *LIST stays.
 */
bool vs_label_next(const char **list, struct vs_label *out);
/* What is the matter with LIST, of which *AT gets the offset; NULL: nothing.  An empty list is good. */
const char *vs_labels_wrong(const char *list, size_t *at);

/* ---- this process's rank in its job, by its launcher's variables (launch.c) ---- */

#define VS_UNKNOWN_NUMBER INT32_MIN

struct vs_launch {
    int32_t rank, local_rank, world_size; /* VS_UNKNOWN_NUMBER: no launcher gives it */
    const char *launcher;                 /* the launcher that gave the rank; NULL: none */
};

struct vs_launch vs_launch(void);

/* ---- limits: how much of each device ----
 *
 * "20GiB" of all, or "0:20GiB,1:30GiB" by the device's number in the process. */

#define VS_LIMITED_DEVICES 64

/* Sets BYTES of each device, 0 where it has no limit.  NULL, or what is wrong with LIST (BYTES is then
 * undefined). */
const char *vs_device_limits(const char *list, uint64_t bytes[VS_LIMITED_DEVICES]);

#endif
