/*
 * options.c - reads the options of options.def out of the environment.
 *
 * The parser of each type takes its limits from the help texts, so help and behaviour cannot disagree:
 * [a,b,c] are an ENUM's choices, "A to B" a COUNT's range, "power of two" a further condition.
 */
#include "options.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "log.h"

enum type { TEXT, LABELS, LIMITS, ENUM, FLAG, COUNT, BYTES, MS };

struct option {
    enum type type;
    const char *name, *otherwise, *help;
    size_t offset;
};

static const struct option table[] = {
#define OPTION(type, field, name, otherwise, help)                                                           \
    {type, name, otherwise, help, offsetof(struct vs_options, field)},
#include "options.def"
#undef OPTION
};

#define OPTIONS           (sizeof table / sizeof *table)
#define VS_COMPLAINTS_MAX 16

/* Variables that other parts of vramscope read or set: not options, and not to be complained about. */
static const char *const other_names[] = {
    "VRAMSCOPE_CLAIM",      "VRAMSCOPE_INJECTION_CHAIN", "VRAMSCOPE_PRELOAD",    "VRAMSCOPE_REEXEC",
    "VRAMSCOPE_REEXEC_PID", "VRAMSCOPE_AUTO_PHASES",     "VRAMSCOPE_SIMULATED",  "VRAMSCOPE_DRY",
    "VRAMSCOPE_DRY_FACTS",  "VRAMSCOPE_DRY_STEPS",       "VRAMSCOPE_DRY_ASSUME", "VRAMSCOPE_DRY_SKEW",
    "VRAMSCOPE_DRY_KEEP",   "VRAMSCOPE_DRY_OVERFLOW",    "VRAMSCOPE_DRY_WRITES", "VRAMSCOPE_DRY_COMPILED",
    "VRAMSCOPE_DRY_RANKS"};

struct vs_options vs_options;

/* Copies of the texts: the host may change its environment. */
static char text_store[16384];
static size_t text_used;

static const char *keep(const char *text)
{
    size_t bytes = strlen(text) + 1;
    if (bytes > sizeof text_store - text_used)
        return NULL;
    char *copy = memcpy(text_store + text_used, text, bytes);
    text_used += bytes;
    return copy;
}

/* ---- labels ---- */

static bool is_name(const char *text, size_t length)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+-";
    return length >= 1 && length <= VS_LABEL_NAME_MOST && strspn(text, letters) >= length;
}

static bool is_value(const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return false;
    return length >= 1 && length <= VS_LABEL_VALUE_MOST;
}

static struct vs_label first_of(const char *list)
{
    size_t length = strcspn(list, ","), name = strcspn(list, "=");
    name = name < length ? name : length;
    bool divided = name < length;
    return (struct vs_label){list, list + name + divided, name, length - name - divided};
}

bool vs_label_next(const char **list, struct vs_label *out)
{
    struct vs_label label = first_of(*list);
    if (!is_name(label.name, label.name_length) || !is_value(label.value, label.value_length))
        return false;
    *out = label;
    *list = label.value + label.value_length;
    *list += **list == ',';
    return true;
}

static bool is_there(const char *list, const struct vs_label *label)
{
    struct vs_label other;
    while (list < label->name && vs_label_next(&list, &other))
        if (other.name < label->name && other.name_length == label->name_length &&
            memcmp(other.name, label->name, label->name_length) == 0)
            return true;
    return false;
}

const char *vs_labels_wrong(const char *list, size_t *at)
{
    const char *rest = list;
    struct vs_label label;
    for (int n = 0; *rest; n++) {
        label = first_of(rest);
        *at = (size_t)(rest - list);
        if (n == VS_LABELS_MOST || strlen(list) > VS_LABELS_BYTES)
            return "there are too many labels";
        if (label.value == label.name + label.name_length)
            return "a label is NAME=VALUE";
        if (!is_name(label.name, label.name_length))
            return "a label's name is of letters, digits and ._+-, 64 at most";
        if (!vs_label_next(&rest, &label))
            return "a label's value has 1 to 256 characters, none a comma or a control character";
        if (is_there(list, &label))
            return "a label comes twice";
    }
    return NULL;
}

/* ---- one parser per type: true if VALUE is valid ---- */

static bool parse_enum(const char *help, const char *value, unsigned *out)
{
    const char *p = strchr(help, '[');
    size_t length = strlen(value);
    for (unsigned n = 0; p && *p != ']' && length; n++) {
        size_t word = strcspn(++p, ",]");
        if (word == length && memcmp(p, value, word) == 0) {
            *out = n;
            return true;
        }
        p += word;
    }
    return false;
}

static bool parse_flag(const char *value, bool *out)
{
    static const char *const words[] = {"off", "on", "0", "1", "no", "yes", "false", "true"};
    for (unsigned i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(value, words[i]) == 0) {
            *out = i % 2;
            return true;
        }
    }
    return false;
}

/* A plain number with nothing before it; *END is what follows. */
static bool parse_number(const char *value, uint64_t *out, const char **end)
{
    uint64_t n = 0;
    const char *p = value;
    for (; *p >= '0' && *p <= '9'; p++) {
        if (__builtin_mul_overflow(n, 10, &n) || __builtin_add_overflow(n, (uint64_t)(*p - '0'), &n))
            return false;
    }
    *out = n;
    *end = p;
    return p != value;
}

/* The range in the help text: "... 1 to 256 ...". */
static bool in_range(const char *help, uint64_t n)
{
    const char *to = strstr(help, " to "), *end;
    uint64_t low, high;
    if (strstr(help, "power of two") && (n & (n - 1)) != 0)
        return false;
    if (!to)
        return true;
    const char *from = to;
    while (from > help && from[-1] >= '0' && from[-1] <= '9')
        from--;
    if (!parse_number(from, &low, &end) || !parse_number(to + 4, &high, &end))
        return true; /* another "to" */
    return n >= low && n <= high;
}

bool vs_option_bytes(const char *value, uint64_t *out)
{
    const char *unit;
    if (!parse_number(value, out, &unit))
        return false;
    if (*unit == 0 || strcmp(unit, "B") == 0)
        return true;
    static const char letters[] = "KMGT";
    const char *letter = strchr(letters, *unit);
    if (!letter || (unit[1] && strcmp(unit + 1, "iB") != 0 && strcmp(unit + 1, "B") != 0))
        return false;
    return !__builtin_mul_overflow(*out, UINT64_C(1) << (10 * (letter - letters + 1)), out);
}

/* ---- limits ---- */

#define SIZE_MOST 31 /* characters of a size */

static const char *take_size(const char *text, size_t length, uint64_t *bytes)
{
    char size[SIZE_MOST + 1];
    if (length > SIZE_MOST)
        return "a limit is a size such as 20GiB";
    memcpy(size, text, length);
    size[length] = 0;
    return vs_option_bytes(size, bytes) && *bytes != 0 ? NULL : "a limit is a size such as 20GiB";
}

/* "1:30GiB" */
static const char *take_device(const char *text, size_t length, uint64_t bytes[VS_LIMITED_DEVICES])
{
    size_t digits = strspn(text, "0123456789");
    unsigned device = 0;
    if (digits == 0 || digits > 2 || text[digits] != ':')
        return "limits of several devices are DEVICE:SIZE,DEVICE:SIZE";
    for (size_t i = 0; i < digits; i++)
        device = device * 10 + (unsigned)(text[i] - '0');
    if (device >= VS_LIMITED_DEVICES)
        return "devices are numbered from 0 to 63";
    if (bytes[device] != 0)
        return "a device has two limits";
    return take_size(text + digits + 1, length - digits - 1, &bytes[device]);
}

const char *vs_device_limits(const char *list, uint64_t bytes[VS_LIMITED_DEVICES])
{
    const char *wrong = NULL;
    memset(bytes, 0, VS_LIMITED_DEVICES * sizeof *bytes);
    if (*list != 0 && strpbrk(list, ",:") == NULL) {
        wrong = take_size(list, strlen(list), &bytes[0]);
        for (int i = 1; i < VS_LIMITED_DEVICES; i++)
            bytes[i] = bytes[0];
        return wrong;
    }
    while (*list != 0 && wrong == NULL) {
        size_t length = strcspn(list, ",");
        wrong = take_device(list, length, bytes);
        list += length;
        list += *list == ',';
    }
    return wrong;
}

static bool parse_labels(const char *value, const char **out)
{
    size_t at;
    return !vs_labels_wrong(value, &at) && (*out = keep(value)) != NULL;
}

static bool parse_limits(const char *value, const char **out)
{
    uint64_t bytes[VS_LIMITED_DEVICES];
    return vs_device_limits(value, bytes) == NULL && (*out = keep(value)) != NULL;
}

static bool parse(const struct option *o, const char *value, struct vs_options *options)
{
    void *field = (char *)options + o->offset;
    const char *end;
    switch (o->type) {
    case TEXT:
        return (*(const char **)field = keep(value)) != NULL;
    case LABELS:
        return parse_labels(value, field);
    case LIMITS:
        return parse_limits(value, field);
    case ENUM:
        return parse_enum(o->help, value, field);
    case FLAG:
        return parse_flag(value, field);
    case BYTES:
        return vs_option_bytes(value, field);
    case COUNT:
    case MS:
        return parse_number(value, field, &end) && (*end == 0 || (o->type == MS && strcmp(end, "ms") == 0)) &&
               in_range(o->help, *(uint64_t *)field);
    }
    return false;
}

bool vs_option_takes(const char *name, const char *value)
{
    struct vs_options unused;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].name, name) == 0)
            return parse(&table[i], value, &unused);
    return false;
}

/* The valid values, for the warning. */
static const char *allowed(const struct option *o)
{
    switch (o->type) {
    case FLAG:
        return "on or off";
    case BYTES:
        return "bytes, or a number with K, M, G, T or KiB, MiB, GiB, TiB";
    case MS:
        return "a number of milliseconds";
    case COUNT:
        return "a number";
    case TEXT:
        return "a shorter text";
    case LABELS:
        return "labels";
    case LIMITS:
        return "a size, or sizes by device";
    case ENUM:
        break;
    }
    return "one of its words";
}

/* Complaints are kept for vs_options_complain, because most processes that inherit the variables never
 * record. */
static struct complaint {
    const struct option *option; /* NULL: no option has this name */
    const char *lack;            /* the feature that this build lacks; NULL: the value is invalid */
    char text[80];               /* the value, or the name */
} complaints[VS_COMPLAINTS_MAX];
static int complaint_count;

static void complain(const struct option *o, const char *text, size_t length)
{
    if (complaint_count == VS_COMPLAINTS_MAX)
        return;
    struct complaint *c = &complaints[complaint_count++];
    c->option = o;
    c->lack = NULL;
    snprintf(c->text, sizeof c->text, "%.*s", (int)length, text);
}

static const char *instead_of(const struct option *o)
{
    return *o->otherwise ? o->otherwise : "none";
}

static void say_wrong(const struct option *o, const char *value)
{
    const char *instead = instead_of(o), *words = strchr(o->help, '[');
    if (o->type == ENUM && words)
        vs_log("%s=%s makes no sense: it takes one of %.*s; using %s", o->name, value,
               (int)strcspn(words, "]") + 1, words, instead);
    else
        vs_log("%s=%s makes no sense: it takes %s (%s); using %s", o->name, value, allowed(o), o->help,
               instead);
}

void vs_options_complain(void)
{
    for (int i = 0; i < complaint_count; i++) {
        const struct option *o = complaints[i].option;
        if (o && complaints[i].lack)
            vs_log("%s=%s: %s; using %s", o->name, complaints[i].text, complaints[i].lack, instead_of(o));
        else if (o)
            say_wrong(o, complaints[i].text);
        else
            vs_log("%s is no option of vramscope: VRAMSCOPE_HELP=1 lists them; ignored", complaints[i].text);
    }
    complaint_count = 0;
}

static void take(const struct option *o, const char *value)
{
    if (parse(o, value, &vs_options))
        return;
    complain(o, value, strlen(value));
    parse(o, o->otherwise, &vs_options);
}

static bool known_elsewhere(const char *entry, size_t length)
{
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (strlen(other_names[i]) == length && memcmp(entry, other_names[i], length) == 0)
            return true;
    return false;
}

static void take_entry(const char *entry)
{
    size_t length = strcspn(entry, "=");
    if (strncmp(entry, "VRAMSCOPE_", 10) != 0 || entry[length] == 0)
        return;
    for (size_t i = 0; i < OPTIONS; i++) {
        if (strlen(table[i].name) == length && memcmp(entry, table[i].name, length) == 0) {
            take(&table[i], entry + length + 1);
            return;
        }
    }
    if (!known_elsewhere(entry, length))
        complain(NULL, entry, length);
}

/* The defaults hold before any value is read, so that code which runs before our constructor
 * is safe. */
void vs_options_load(char *const environment[])
{
    text_used = 0;
    complaint_count = 0;
    for (size_t i = 0; i < OPTIONS; i++)
        parse(&table[i], table[i].otherwise, &vs_options);
    for (; environment && *environment; environment++)
        take_entry(*environment);
}

void vs_options_lack(const char *name, const char *value, const char *why)
{
    for (size_t i = 0; i < OPTIONS; i++) {
        int before = complaint_count;
        if (strcmp(table[i].name, name) != 0)
            continue;
        complain(&table[i], value, strlen(value));
        if (complaint_count > before)
            complaints[before].lack = why;
        parse(&table[i], table[i].otherwise, &vs_options);
    }
}

void vs_options_print(void)
{
    for (size_t i = 0; i < OPTIONS; i++)
        vs_log_plain("%-24s %s (default %s)", table[i].name, table[i].help,
                     *table[i].otherwise ? table[i].otherwise : "none");
}
