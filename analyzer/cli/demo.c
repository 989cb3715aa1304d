/*
 * demo.c - `vramscope demo`: the report and the page of a GPU's recording that comes with the installation
 * (share/vramscope/demo.db.gz).  Nothing that is there already is replaced.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/args.h"
#include "base/destination.h"
#include "base/shown.h"
#include "run/place.h"

struct options {
    const char *output;
    bool no_open;
};

static const struct option_row rows[] = {
    {"output", 'o', "DIR", ARG_TEXT, AT(output),
     "the folder that gets demo.db and demo.html (default: this one)"},
    {"no-open", 0, NULL, ARG_FLAG, AT(no_open), "show the page in no browser"},
    {0}};

/* 0, or the exit status of what was complained about. */
static int unpack(gzFile from, const char *packed, const char *path)
{
    static char buffer[1 << 16];
    struct destination d;
    int n = 0, state = Z_OK;
    FILE *to = destination_open(&d, "demo", path);
    if (!to)
        return EXIT_USAGE;
    while ((n = gzread(from, buffer, sizeof buffer)) > 0 && fwrite(buffer, 1, (size_t)n, to) == (size_t)n)
        ;
    gzerror(from, &state); /* a file without its end is read up to there */
    bool whole = n >= 0 && state == Z_OK;
    int status = destination_close(&d, to, whole);
    return whole ? status : complain("demo: %s is damaged: install vramscope anew", packed);
}

/* Whether PATH is what FROM unpacks to. */
static bool is_demo(gzFile from, const char *path)
{
    static char mine[1 << 16], theirs[sizeof mine];
    FILE *there = fopen(path, "re");
    bool same = there;
    for (int n = 1; same && n > 0;) {
        n = gzread(from, mine, sizeof mine);
        same = n >= 0 && fread(theirs, 1, n > 0 ? (size_t)n : 1, there) == (size_t)n &&
               !memcmp(mine, theirs, (size_t)n);
    }
    if (there)
        fclose(there);
    return same;
}

static int make_recording(const char *path)
{
    char *packed = place_of("share/vramscope/demo.db.gz");
    gzFile from = gzopen(packed, "re");
    int status = 0;
    if (!from)
        status = complain("demo: %s is not there: install vramscope with its share/ beside its bin/", packed);
    else if (access(path, F_OK) != 0)
        status = unpack(from, packed, path);
    else if (!is_demo(from, path))
        status = complain("demo: %s is there already and another file: give another folder with -o DIR",
                          shown(path));
    if (from)
        gzclose(from);
    free(packed);
    return status;
}

static bool has_browser(void)
{
    return isatty(STDOUT_FILENO) && (getenv("DISPLAY") || getenv("WAYLAND_DISPLAY"));
}

/* A page that is there already stays, and no browser is opened again. */
static int make_page(char *recording, char *page, bool open)
{
    char view[] = "view", output[] = "-o", shows[] = "--open";
    char *argv[] = {view, recording, output, page, open ? shows : NULL, NULL};
    if (access(page, F_OK) == 0)
        return 0;
    return command_call(&command_view, open ? 5 : 4, argv);
}

static int show(char *recording, char *page, const struct options *o)
{
    char report[] = "report", *argv[] = {report, recording, NULL};
    int status = make_recording(recording);
    if (!status)
        status = command_call(&command_report, 2, argv);
    fflush(stdout);
    if (!status)
        status = make_page(recording, page, !o->no_open && has_browser());
    if (!status)
        printf("%s shows it over time; to ask more: vramscope peak --by=line %s\n", shown(page),
               shown_word(recording));
    return status;
}

static int call(void *options, char **operands, int n)
{
    struct options *o = options;
    if (n > 0)
        return complain("demo takes no file: vramscope report %s shows one", shown_word(operands[0]));
    const char *where = o->output ? o->output : ".";
    if (mkdir(where, 0777) != 0 && errno != EEXIST)
        return complain("demo: %s can't be made: %s: give another folder with -o DIR", shown(where),
                        strerror(errno));
    char *folder = strcmp(where, ".") ? xformat("%s/", where) : xstrdup("");
    char *recording = xformat("%sdemo.db", folder), *page = xformat("%sdemo.html", folder);
    int status = show(recording, page, o);
    free(page);
    free(recording);
    free(folder);
    return status;
}

const struct command command_demo = {
    "demo",
    "a recording of a GPU to look at, without one",
    "[options]",
    "A recording to look at, without a GPU: a Llama's training on an H200 that ran out of memory. Writes "
    "demo.db and its page demo.html, prints its report, and opens the page where there is a browser.",
    rows,
    call,
    COMMAND_OPTIONS()};
