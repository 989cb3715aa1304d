/* args.c - see args.h. */
#include "args.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "units.h"
#include "page.h"

/* ---- suggestions ---- */

/* Edit distance with transpositions counted as two; words are short. */
static size_t distance(const char *a, const char *b)
{
    size_t row[64], n = strlen(b);
    if (n >= 64)
        return SIZE_MAX;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 1; a[i - 1]; i++) {
        size_t diagonal = row[0];
        row[0] = i;
        for (size_t j = 1; j <= n; j++) {
            size_t change = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            size_t gap = (row[j] < row[j - 1] ? row[j] : row[j - 1]) + 1;
            row[j] = change < gap ? change : gap;
        }
    }
    return row[n];
}

const char *args_nearest(const char *word, const char *const *names)
{
    const char *best = NULL;
    size_t least = strlen(word) / 3 + 2; /* allows two typing errors, more in long words */
    for (; *names; names++) {
        size_t d = distance(word, *names);
        if (d < least) {
            least = d;
            best = *names;
        }
    }
    return best;
}

/* ---- help ---- */

/* A paragraph is a line; a list's entries begin with blanks. */
static void print_about(const char *text)
{
    while (*text) {
        size_t n = strcspn(text, "\n");
        wrap_print(stdout, 0, *text == ' ' ? 4 : 0, "%.*s", (int)n, text);
        text += n + (text[n] == '\n');
    }
}

/* "[SIZE]": the value can be left out, and is "on" then. */
static bool is_optional(const struct option_row *r)
{
    return r->value && r->value[0] == '[';
}

static void print_help(const struct command *h)
{
    printf("usage: vramscope %s %s\n\n", h->name, h->synopsis);
    print_about(h->about);
    puts("\noptions:");
    for (const struct option_row *r = h->rows; r->name; r++) {
        char left[128], letter[8] = "    ";
        if (r->letter)
            snprintf(letter, sizeof letter, "-%c, ", r->letter);
        snprintf(left, sizeof left, "%s--%s%s%s", letter, r->name,
                 is_optional(r) ? "[="
                 : r->value     ? "="
                                : "",
                 r->value ? r->value + is_optional(r) : "");
        if (strlen(left) <= 26) {
            wrap_print(stdout, 2, 29, "%-26s %s", left, r->help);
        } else {
            printf("  %s\n", left);
            wrap_print(stdout, 29, 29, "%s", r->help);
        }
    }
    wrap_print(stdout, 2, 29, "%-26s %s", "-h, --help", "this text");
}

/* ---- parsing ---- */

static bool read_count(const char *text, int64_t *out)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || errno || value < 0)
        return false;
    *out = value;
    return true;
}

static bool read_size(const char *text, int64_t *out)
{
    int used = 0;
    long long w, h;
    if (sscanf(text, "%lldx%lld%n", &w, &h, &used) != 2 || text[used] || w < 1 || h < 1 || w > 100000 ||
        h > 100000)
        return false;
    out[0] = w;
    out[1] = h;
    return true;
}

/* "7" or "7-9" */
static bool read_span(const char *text, int64_t *out)
{
    char first[32];
    const char *dash = strchr(text, '-');
    snprintf(first, sizeof first, "%.*s", dash ? (int)(dash - text) : (int)strlen(text), text);
    return read_count(first, &out[0]) && read_count(dash ? dash + 1 : text, &out[1]) && out[0] >= 1 &&
           out[0] <= out[1];
}

/* Which of the words in LIST, "a|b|c", WORD is; -1: none. */
static int read_word(const char *list, const char *word)
{
    for (int i = 0;; i++) {
        size_t n = strcspn(list, "|");
        if (strlen(word) == n && !strncmp(list, word, n))
            return i;
        if (!list[n])
            return -1;
        list += n + 1;
    }
}

static bool store(const struct option_row *r, const char *value, void *options)
{
    void *field = (char *)options + r->offset;
    switch (r->kind) {
    case ARG_FLAG:
        *(bool *)field = true;
        return true;
    case ARG_TEXT:
        *(const char **)field = value;
        return true;
    case ARG_WORD:
        *(const char **)field = value;
        return read_word(r->value, value) >= 0;
    case ARG_INDEX:
        *(int *)field = read_word(r->value, value);
        return *(int *)field >= 0;
    case ARG_COUNT:
        return read_count(value, field);
    case ARG_TIME:
        return units_read_time(value, field);
    case ARG_SIZE:
        return read_size(value, field);
    case ARG_SPAN:
        return read_span(value, field);
    case ARG_LIST:
        *PUSH(((struct arg_list *)field)->values, ((struct arg_list *)field)->count) = value;
        return true;
    }
    return false;
}

/* "a, b or c" of "a|b|c"; the caller frees it. */
static char *words_of(const char *list)
{
    char *text = xstrdup("");
    for (size_t n; *list; list += n + (list[n] == '|')) {
        n = strcspn(list, "|");
        const char *before = !*text ? "" : list[n] ? ", " : " or ";
        xappend(&text, "%s%.*s", before, (int)n, list);
    }
    return text;
}

static int bad_value(const struct command *h, const struct option_row *r, const char *value)
{
    static const char *const wants[] = {[ARG_COUNT] = "a whole number such as 1",
                                        [ARG_TIME] = "a time such as 1.5s, 20ms or '4 h 16 min'",
                                        [ARG_SIZE] = "WIDTHxHEIGHT, such as 1600x900",
                                        [ARG_SPAN] = "a step or steps, such as 7 or 7-9"};
    char *words = wants[r->kind] ? xstrdup(wants[r->kind]) : words_of(r->value);
    complain("%s: --%s takes %s, not '%s'", h->name, r->name, words, value);
    free(words);
    return -2;
}

static int unknown(const struct command *h, const char *word, size_t length)
{
    const char *names[64];
    size_t n = 0;
    char plain[64];
    for (const struct option_row *r = h->rows; r->name && n < 62; r++)
        names[n++] = r->name;
    names[n++] = "help";
    names[n] = NULL;
    snprintf(plain, sizeof plain, "%.*s", (int)length, word);
    const char *near = plain[0] == '-' && plain[1] == '-' ? args_nearest(plain + 2, names) : NULL;
    if (near)
        complain("%s: unknown option '%s': did you mean --%s?", h->name, plain, near);
    else
        complain("%s: unknown option '%s': 'vramscope %s --help' lists them", h->name, plain, h->name);
    return -2;
}

static const struct option_row *find(const struct command *h, const char *arg, size_t length)
{
    for (const struct option_row *r = h->rows; r->name; r++) {
        if (arg[1] != '-' && arg[1] == r->letter && r->letter)
            return r;
        if (arg[1] == '-' && strlen(r->name) == length - 2 && !strncmp(arg + 2, r->name, length - 2))
            return r;
    }
    return NULL;
}

/* One option at argv[*i]; 0 or -2. */
static int parse_one(const struct command *h, int argc, char **argv, int *i, void *options)
{
    const char *arg = argv[*i], *value = NULL;
    bool is_long = arg[1] == '-';
    size_t length = is_long ? strcspn(arg, "=") : 2;
    const struct option_row *r = find(h, arg, length);
    if (!r)
        return unknown(h, arg, length);
    if (arg[length])
        value = arg + length + is_long;
    if (r->kind == ARG_FLAG && value) {
        if (!is_long)
            return unknown(h, arg, strlen(arg));
        complain("%s: --%s takes no value: write --%s alone", h->name, r->name, r->name);
        return -2;
    }
    if (!value && is_optional(r))
        value = "on";
    if (r->kind != ARG_FLAG && !value) {
        if (*i + 1 >= argc) {
            complain("%s: --%s needs a value: --%s=%s", h->name, r->name, r->name, r->value);
            return -2;
        }
        value = argv[++*i];
    }
    return store(r, value, options) ? 0 : bad_value(h, r, value);
}

/* Moves the operands to OPERANDS, their number, -1: --help was printed, -2: a
 * bad option, said. */
static int parse(const struct command *c, int argc, char **argv, void *options, char **operands)
{
    int n = 0;
    for (int i = 1; i < argc; i++) {
        bool ends = !strcmp(argv[i], "--");
        bool operand = argv[i][0] != '-' || !argv[i][1];
        if (ends || (operand && c->stop_at_operand)) {
            for (i += ends; i < argc; i++)
                operands[n++] = argv[i];
            break;
        }
        if (operand) {
            operands[n++] = argv[i];
            continue;
        }
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
            print_help(c);
            return -1;
        }
        if (parse_one(c, argc, argv, &i, options))
            return -2;
    }
    operands[n] = NULL;
    return n;
}

int command_take(const struct command *c, char **words, int n, void *options)
{
    int left = 0;
    for (int i = 0; i < n; i++) {
        bool is_long = words[i][0] == '-' && words[i][1] == '-';
        if (words[i][0] != '-' || !words[i][1] || !find(c, words[i], is_long ? strcspn(words[i], "=") : 2))
            words[left++] = words[i];
        else if (parse_one(c, n, words, &i, options))
            return -1;
    }
    return left;
}

static void free_lists(const struct command *c, void *options)
{
    for (const struct option_row *r = c->rows; r->name; r++)
        if (r->kind == ARG_LIST)
            free(((struct arg_list *)((char *)options + r->offset))->values);
}

int command_call(const struct command *c, int argc, char **argv)
{
    void *options = xrealloc(NULL, c->size);
    char **operands = xrealloc(NULL, ((size_t)argc + 1) * sizeof *operands);
    if (c->size)
        memcpy(options, c->defaults, c->size);
    int n = parse(c, argc, argv, options, operands);
    int status = n == -1 ? EXIT_GOOD : n < 0 ? EXIT_USAGE : c->run(options, operands, n);
    free_lists(c, options);
    free(operands);
    free(options);
    return status;
}
