/*
 * import.c - `vramscope import`: PyTorch memory snapshots become a recording.
 *
 * The database is made under another name beside the one that was asked for and gets its name when it is
 * complete, so nobody ever sees half of one.  Several snapshots are the ranks of a job: each becomes a file,
 * and these are put together as processes of one.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/args.h"
#include "base/commands.h"
#include "base/shown.h"
#include "base/units.h"
#include "import/import.h"
#include "trace/store/merge.h"

#define PROCESSES_MOST 4096

struct options {
    const char *output;
};

static const struct option_row rows[] = {
    {"output", 'o', "FILE", ARG_TEXT, offsetof(struct options, output), "the database to write (required)"},
    {0}};

static const struct command_help help = {
    "import", "-o FILE SNAPSHOT.pickle...",
    "Makes a database of PyTorch memory snapshots (torch.cuda.memory._dump_snapshot), which report, peak, "
    "plot,\n"
    "diff and whatif read as any recording.  Several snapshots become the processes of one database, such "
    "as\n"
    "the ranks of a job.  Nothing in a snapshot is ever run.  What it does not have is unknown, and said so.",
    rows, false};

static char *part_name(const char *output, int i)
{
    return xformat("%s.importing-%d-%d", output, (int)getpid(), i);
}

static void remove_part(const char *part)
{
    static const char *const endings[] = {"", "-wal", "-shm", "-journal"};
    for (size_t i = 0; i < sizeof endings / sizeof *endings; i++) {
        char *path = xformat("%s%s", part, endings[i]);
        unlink(path);
        free(path);
    }
}

static void tell(const char *snapshot, const struct import_result *r)
{
    printf("%s: %s, %s, %s of trace", shown(snapshot), units_count((int64_t)r->entries, "event").s,
           units_count(r->devices, "device").s, units_time(r->ns).s);
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

/* Snapshot I into a file, and this into the first one's. */
static int import_one(const char *output, char **snapshots, int i)
{
    char why[768] = "", *part = part_name(output, i), *first = part_name(output, 0);
    struct import_result r;
    struct import_job job = {.snapshot = snapshots[i], .database = part, .version = VRAMSCOPE_VERSION};
    int rc = import_snapshot(&job, &r, why, sizeof why);
    if (rc == 0 && i > 0)
        rc = vs_store_merge(first, part, i + 1, why, sizeof why);
    if (rc == 0)
        tell(snapshots[i], &r);
    else
        complain_of(why, output);
    if (i > 0 || rc)
        remove_part(part);
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
    if (rc < 0) {
        complain("%s can't be written: %s", shown(output), strerror(errno));
        remove_part(part);
    }
    free(part);
    return rc < 0 ? EXIT_USAGE : EXIT_GOOD;
}

static int import_all(const char *output, char **snapshots, int n)
{
    for (int i = 0; i < n; i++) {
        if (import_one(output, snapshots, i) == 0)
            continue;
        char *first = part_name(output, 0);
        remove_part(first);
        free(first);
        return EXIT_USAGE;
    }
    return give_name(output);
}

int cmd_import(int argc, char **argv)
{
    struct options o = {0};
    char **operands;
    int n = args_parse(&help, argc, argv, &o, &operands);
    if (n < 0)
        return n == -1 ? EXIT_GOOD : EXIT_USAGE;
    if (n == 0)
        return complain("import: name a snapshot: vramscope import -o run.db snapshot.pickle");
    if (!o.output)
        return complain("import: name the database to write: vramscope import -o run.db %s",
                        shown(operands[0]));
    if (n > PROCESSES_MOST)
        return complain("import: %d snapshots are more than the %d that one database takes", n,
                        PROCESSES_MOST);
    if (access(o.output, F_OK) == 0)
        return complain("import: %s is there already: remove it, or name another file", shown(o.output));
    return import_all(o.output, operands, n);
}
