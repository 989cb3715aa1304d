/* tools.c - which commands are tools, and what each takes: that follows from its table of options. */
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "mcp.h"

struct tool {
    const char *name;
    const char *options;           /* of the command, that a client may give, between blanks */
    const char *list, *list_about; /* the operands */
    const char *note;              /* before what --help says */
    bool runs;                     /* it executes a program */
};

#define RECORDINGS "recordings that vramscope run made, or a directory of them, the ranks of a job"

static const struct tool tools[] = {
    {"report", " device phases process steps ", "files", RECORDINGS, "Begin with this tool. ", false},
    {"peak", " by at device top why phases process steps full ", "files", RECORDINGS, "", false},
    {"whatif", " edit policy capacity batch seq device process ", "files",
     "a recording, then settings such as max_split_size=512MiB; with batch or seq several recordings, each "
     "as "
     "run.db:batch=2,seq=512",
     "", false},
    {"diff", " device top phases process steps ", "files", "the two recordings, A and B", "", false},
    {"waste", " device top phases process steps ", "files", RECORDINGS, "", false},
    {"fit", " gpu capacity steps allocator expandable max jobs ranks rank local-ranks skew keep overflow ",
     "command", "the program and its arguments, a word each; or a config.json, --batch=N, --seq=N, ...",
     "THIS EXECUTES THE PROGRAM that `command` names, on this machine, with this user's rights. ", true},
};

enum { TOOLS = sizeof tools / sizeof *tools };

/* What every tool takes beside (mcp.c reads it). */
static const char common[] =
    "{\"part\": {\"type\": \"string\", \"description\": \"this part alone of the answer, such as "
    "files[0].devices[0].peak\"},"
    "\"max_bytes\": {\"type\": \"integer\", \"description\": \"of the answer (default 32768)\"},"
    "\"timeout_s\": {\"type\": \"integer\", \"description\": \"seconds that it may take (default 600)\"}}";

static const struct command *command_of(const struct tool *t, const struct command *const *c)
{
    while (strcmp((*c)->name, t->name) != 0)
        c++;
    return *c;
}

static bool is_offered(const struct tool *t, const char *name)
{
    char *word = xformat(" %s ", name);
    bool is = !strchr(name, ' ') && strstr(t->options, word);
    free(word);
    return is;
}

/* ---- what a client is told ---- */

static json_t *property(const struct option_row *r)
{
    const char *type = r->kind == ARG_FLAG    ? "boolean"
                       : r->kind == ARG_COUNT ? "integer"
                       : r->kind == ARG_LIST  ? "array"
                                              : "string";
    char *about = r->value ? xformat("%s: %s", r->value, r->help) : xstrdup(r->help);
    json_t *p = json_pack("{s:s, s:s}", "type", type, "description", about);
    if (r->kind == ARG_LIST)
        json_object_set_new(p, "items", json_pack("{s:s}", "type", "string"));
    free(about);
    return p;
}

static json_t *schema(const struct tool *t, const struct option_row *rows)
{
    json_t *properties = json_loads(common, 0, NULL);
    const struct option_row list = {t->list, 0, "in order", ARG_LIST, 0, t->list_about};
    json_object_set_new(properties, t->list, property(&list));
    for (const struct option_row *r = rows; r->name; r++)
        if (is_offered(t, r->name))
            json_object_set_new(properties, r->name, property(r));
    return json_pack("{s:s, s:o, s:[s], s:b}", "type", "object", "properties", properties, "required",
                     t->list, "additionalProperties", 0);
}

json_t *tools_list(const struct command *const *commands, bool run)
{
    json_t *list = json_array();
    for (const struct tool *t = tools; t < tools + TOOLS; t++) {
        const struct command *c = command_of(t, commands);
        if (t->runs && !run)
            continue;
        char *about = xformat("%s%s", t->note, c->about);
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:{s:b}}", "name", t->name, "description",
                                              about, "inputSchema", schema(t, c->rows), "annotations",
                                              "readOnlyHint", !t->runs));
        free(about);
    }
    return list;
}

/* ---- what a client asks for ---- */

const struct tool *tools_find(const char *name, bool run, char **why)
{
    for (const struct tool *t = tools; t < tools + TOOLS; t++)
        if (!strcmp(t->name, name) && (!t->runs || run))
            return t;
    char *word = shown_cut(name, 64);
    *why = strcmp(name, "fit")
               ? xformat("there is no tool '%s': tools/list has them", word)
               : xstrdup("fit executes programs, and is off: start 'vramscope mcp --allow-run'");
    free(word);
    return NULL;
}

/* Pushes V, or each item of it, as values of the option NAME (NULL: as operands); whether it is text, a whole
 * number, or true or false.  What the option takes is for the command to say. */
static bool push(char ***words, size_t *n, const char *name, json_t *v)
{
    const char *text = json_string_value(v);
    json_t *item;
    size_t i;
    bool good = json_is_array(v) || (name && (json_is_boolean(v) || json_is_integer(v))) || text;
    if (text)
        *PUSH(*words, *n) = name ? xformat("--%s=%s", name, text) : xstrdup(text);
    else if (json_is_true(v))
        *PUSH(*words, *n) = xformat("--%s", name);
    else if (json_is_integer(v))
        *PUSH(*words, *n) = xformat("--%s=%lld", name, (long long)json_integer_value(v));
    json_array_foreach(v, i, item) good = good && json_string_length(item) && push(words, n, name, item);
    return good;
}

char **tools_words(const struct tool *t, json_t *arguments, char **why)
{
    char **words = NULL;
    const char *name;
    json_t *v, *others = json_loads(common, 0, NULL), *list = json_object_get(arguments, t->list);
    size_t n = 0;
    *PUSH(words, n) = xstrdup("/proc/self/exe");
    *PUSH(words, n) = xstrdup(t->name);
    *PUSH(words, n) = xstrdup("--json");
    json_object_foreach(arguments, name, v)
    {
        bool known = is_offered(t, name), other = !strcmp(name, t->list) || json_object_get(others, name);
        if (*why || other || (known && push(&words, &n, name, v)))
            continue;
        char *word = shown_cut(name, 64);
        *why = known
                   ? xformat("%s: a text, a whole number, true or false, or a list of texts is wanted", word)
                   : xformat("%s takes no '%s': tools/list says what it takes", t->name, word);
        free(word);
    }
    *PUSH(words, n) = xstrdup("--"); /* nothing behind it is taken for an option */
    if (!*why && (!json_array_size(list) || !push(&words, &n, NULL, list)))
        *why = xformat("%s: a list of texts is wanted: %s", t->list, t->list_about);
    *PUSH(words, n) = NULL;
    json_decref(others);
    return words;
}
