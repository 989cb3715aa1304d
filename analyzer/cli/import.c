/*
 * import.c - `vramscope import`: PyTorch memory snapshots become a recording; several are the ranks of a
 * job, each a process of one file.
 *
 * The database gets its name when it is complete, so nobody ever sees half of one.  However the program
 * ends, short of being killed, nothing of another name is left.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/args.h"
#include "base/shown.h"
#include "base/units.h"
#include "import/import.h"
#include "trace/store/files.h"
#include "base/destination.h"

#define PROCESSES_MOST 4096

struct options {
    const char *output;
};

static const struct option_row rows[] = {
    {"output", 'o', "FILE", ARG_TEXT, AT(output), "the database to write (required)"}, {0}};

static char *part_name(const char *output, int i)
{
    return xformat("%s.importing-%d-%d", output, (int)getpid(), i);
}

/* ---- what is removed in the end ---- */

enum { FIRST, NEXT, PARTS }; /* the one that gets the name, and the one that goes into it */

static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
#define ENDINGS (sizeof endings / sizeof *endings)

static char *volatile left[PARTS][ENDINGS]; /* names; signals read them */

static void remove_part(int which)
{
    for (size_t i = 0; i < ENDINGS; i++)
        if (left[which][i])
            unlink(left[which][i]);
}

static void remove_parts(void)
{
    for (int i = 0; i < PARTS; i++)
        remove_part(i);
}

static void expect_part(int which, const char *part)
{
    for (size_t i = 0; i < ENDINGS; i++) {
        char *before = left[which][i];
        left[which][i] = xformat("%s%s", part, endings[i]);
        free(before);
    }
}

static void on_end(int number)
{
    remove_parts();
    raise(number); /* it is blocked until here, and its action the default one again */
}

static void watch_ends(void)
{
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction before;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        if (sigaction(ends[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaction(ends[i], &(struct sigaction){.sa_handler = on_end, .sa_flags = (int)SA_RESETHAND},
                      NULL);
    atexit(remove_parts);
}

/* ---- the parts ---- */

static void tell(const char *snapshot, const struct import_result *r)
{
    printf("%s: %lld %s, %s, %s of trace", shown(snapshot), (long long)r->entries,
           r->entries == 1 ? "entry" : "entries", units_count(r->devices, "device").s, units_time(r->ns).s);
    if (r->blocks)
        printf(", begun with %s alive", units_count((int64_t)r->blocks, "block").s);
    putchar('\n');
}

/* WHY with the database's own name where it begins with that of a part. */
static void complain_of(const char *why, const char *output)
{
    char *parts = xformat("%s.importing-%d-", output, (int)getpid());
    size_t n = strlen(parts);
    if (strncmp(why, parts, n) == 0)
        complain("%s%s", shown(output), why + n + strspn(why + n, "0123456789"));
    else
        complain("%s", why);
    free(parts);
}

/* Snapshot I into a file, and this into the first one's, *INTO. */
static int import_one(const char *output, char **snapshots, int i, struct vs_merge **into)
{
    char why[768] = "", *part = part_name(output, i), *first = part_name(output, 0);
    int which = i > 0 ? NEXT : FIRST;
    expect_part(which, part);
    struct import_result r;
    struct import_job job = {.snapshot = snapshots[i], .database = part, .version = VRAMSCOPE_VERSION};
    int rc = import_snapshot(&job, &r, why, sizeof why);
    if (rc == 0 && i > 0 && !*into)
        rc = vs_store_merge_open(into, first, why, sizeof why);
    if (rc == 0 && i > 0)
        rc = vs_store_merge_add(*into, part, i + 1, 0, why, sizeof why);
    if (rc == 0)
        tell(snapshots[i], &r);
    else
        complain_of(why, output);
    if (i > 0 || rc)
        remove_part(which);
    free(part);
    free(first);
    return rc;
}

/* Not over a file that is there. */
static int give_name(const char *output)
{
    char *part = part_name(output, 0);
    int rc = renameat2(AT_FDCWD, part, AT_FDCWD, output, RENAME_NOREPLACE);
    if (rc < 0 && (errno == EINVAL || errno == ENOSYS)) /* a file system that cannot */
        rc = access(output, F_OK) == 0 ? (errno = EEXIST, -1) : rename(part, output);
    if (rc < 0)
        destination_failed("import", shown(output), errno);
    free(part);
    return rc < 0 ? EXIT_USAGE : EXIT_GOOD;
}

static int import_all(const char *output, char **snapshots, int n)
{
    struct vs_merge *into = NULL;
    int rc = 0;
    watch_ends();
    for (int i = 0; i < n && !rc; i++)
        rc = import_one(output, snapshots, i, &into);
    vs_store_merge_close(into);
    return rc ? EXIT_USAGE : give_name(output);
}

static int call(void *options, char **operands, int n)
{
    struct options *o = options;
    if (n == 0)
        return complain("import: name a snapshot: vramscope import -o run.db snapshot.pickle");
    if (!o->output)
        return complain("import: name the database to write: vramscope import -o run.db %s",
                        shown(operands[0]));
    if (n > PROCESSES_MOST)
        return complain("import: %d snapshots are more than the %d that one database takes: name fewer", n,
                        PROCESSES_MOST);
    if (access(o->output, F_OK) == 0)
        return complain("import: %s is there already: remove it, or name another file", shown(o->output));
    struct destination d;
    destination_find(&d, o->output);
    int error = d.error;
    destination_end(&d, false);
    return error ? destination_failed("import", o->output, error) : import_all(o->output, operands, n);
}

const struct command command_import = {
    "import",
    "make a recording of PyTorch memory snapshots",
    "-o FILE SNAPSHOT.pickle...",
    "Makes a database of PyTorch memory snapshots (torch.cuda.memory._dump_snapshot), which report, "
    "peak, plot, diff and whatif read as any recording. Several snapshots become the processes of one "
    "database, such as the ranks of a job. Nothing in a snapshot is ever run. What it does not have is "
    "unknown, and said so.",
    rows,
    call,
    COMMAND_OPTIONS()};
