/*
 * places.c - checks the places of journal and database, and what else is preloaded or injected.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "doctor.h"
#include "base/units.h"

/* statfs f_type of file systems whose locks and mappings cross machines */
static const struct {
    unsigned long magic;
    const char *name;
} network[] = {{0x6969, "NFS"},        {0x517b, "SMB"},        {0xff534d42, "CIFS"},  {0xfe534d42, "SMB2"},
               {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},   {0x00c36400, "Ceph"},  {0x5346414f, "AFS"},
               {0x01021997, "9P"},     {0x19830326, "BeeGFS"}, {0x7461636f, "OCFS2"}, {0x01161970, "GFS2"}};

enum { TMPFS = 0x01021994, FUSE = 0x65735546, ROOM_MIB = 256 };

static const char *network_name(unsigned long type)
{
    for (size_t i = 0; i < sizeof network / sizeof *network; i++)
        if (network[i].magic == (type & 0xffffffff))
            return network[i].name;
    return NULL;
}

static int64_t room(const struct statfs *fs)
{
    return (int64_t)fs->f_bavail * (int64_t)fs->f_bsize;
}

static void check_journal(struct doctor *d)
{
    const char *set = getenv("VRAMSCOPE_JOURNAL_DIR"), *where = set && *set ? set : "/dev/shm";
    struct statfs fs;
    if (statfs(where, &fs) != 0 || access(where, W_OK) != 0)
        doctor_say(d, DOCTOR_WARN, "journal", "mount a tmpfs at /dev/shm or set VRAMSCOPE_JOURNAL_DIR to one",
                   "%s: %s; it goes beside the database", where, strerror(errno));
    else if (network_name((unsigned long)fs.f_type))
        doctor_say(d, DOCTOR_WARN, "journal", "set VRAMSCOPE_JOURNAL_DIR to a local directory", "%s is on %s",
                   where, network_name((unsigned long)fs.f_type));
    else if (room(&fs) < (int64_t)ROOM_MIB << 20)
        doctor_say(d, DOCTOR_WARN, "journal", "containers: start with --shm-size=1g or larger",
                   "%s has only %s free", where, units_bytes(room(&fs), false).s);
    else
        doctor_say(d, DOCTOR_OK, "journal", NULL, "%s (%s), %s free", where,
                   (unsigned long)fs.f_type == TMPFS ? "tmpfs" : "disk: events may wait for writeback",
                   units_bytes(room(&fs), false).s);
}

/* Whether a file can be made in DIRECTORY, else errno: the permissions of /proc or of a mount without a
 * share behind it say that one could.  None is left there. */
static bool takes_files(const char *directory)
{
    if (access(directory, W_OK | X_OK) != 0)
        return false;
    int fd = open(directory, O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);
    if (fd < 0) { /* many file systems have none without a name */
        char *path = xformat("%s/.vramscope-doctor-XXXXXX", directory);
        fd = mkostemp(path, O_CLOEXEC);
        if (fd >= 0)
            unlink(path);
        free(path);
    }
    if (fd < 0)
        return false;
    close(fd);
    return true;
}

/* WHERE, or the innermost directory above it that is there: `run` makes the others. */
static char *there_of(const char *where)
{
    struct stat st;
    char *path = xstrdup(where);
    for (size_t n = strlen(path); stat(path, &st) != 0 && errno == ENOENT && n;) {
        while (n && path[n - 1] == '/')
            n--;
        while (n && path[n - 1] != '/')
            n--;
        while (n > 1 && path[n - 1] == '/')
            n--;
        path[n] = 0;
    }
    if (*path)
        return path;
    free(path);
    return xstrdup(*where == '/' ? "/" : ".");
}

static void say_output(struct doctor *d, const char *where, const char *there)
{
    struct stat st;
    struct statfs fs;
    if (stat(there, &st) == 0 && !S_ISDIR(st.st_mode)) {
        doctor_say(d, DOCTOR_FAIL, "output", "give the directory alone: vramscope doctor -o DIR",
                   "%s is not a directory", there);
        return;
    }
    if (!takes_files(there) || statfs(there, &fs) != 0) {
        int error = errno;
        doctor_say(d, DOCTOR_FAIL, "output", "record somewhere else: vramscope run -o DIR/run.db",
                   "%s can't be written to: %s", there, strerror(error));
        return;
    }
    char *made = strcmp(where, there) != 0 ? xformat("%s, which `run` makes, in ", where) : xstrdup("");
    const char *name = network_name((unsigned long)fs.f_type);
    if (name || (unsigned long)fs.f_type == FUSE)
        doctor_say(d, DOCTOR_WARN, "output", "record to a local disk and copy the file afterwards",
                   "%s%s is on %s: no reader can open the file while it is written", made, there,
                   name ? name : "FUSE");
    else if (room(&fs) < 4LL << 30)
        doctor_say(d, DOCTOR_WARN, "output", "make room, or set VRAMSCOPE_MAX_BYTES lower",
                   "%s%s has %s free", made, there, units_bytes(room(&fs), false).s);
    else
        doctor_say(d, DOCTOR_OK, "output", NULL, "%s%s is writable, %s free", made, there,
                   units_bytes(room(&fs), false).s);
    free(made);
}

static void check_output(struct doctor *d)
{
    char *there = there_of(d->output);
    say_output(d, d->output, there);
    free(there);
}

static void check_others(struct doctor *d)
{
    const char *preload = getenv("LD_PRELOAD"), *nvtx = getenv("NVTX_INJECTION64_PATH"),
               *cuda = getenv("CUDA_INJECTION64_PATH");
    if (preload && *preload)
        doctor_say(d, DOCTOR_WARN, "LD_PRELOAD", "put libvramscope.so last, or record without the other",
                   "already names %s", preload);
    if (nvtx && *nvtx)
        doctor_say(d, DOCTOR_WARN, "NVTX", "unset NVTX_INJECTION64_PATH to have NVTX ranges in recordings",
                   "%s gets them", nvtx);
    if (cuda && *cuda)
        doctor_say(d, DOCTOR_WARN, "CUDA_INJECTION64_PATH",
                   "unset it while recording if allocations are missing",
                   "another tool (%s) is in the driver", cuda);
}

/* Seccomp and privileges, if they restrict anything. */
static void check_process(struct doctor *d)
{
    char line[256];
    int seccomp = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        sscanf(line, "Seccomp: %d", &seccomp);
    if (f)
        fclose(f);
    if (getuid() != geteuid() || getgid() != getegid())
        doctor_say(d, DOCTOR_FAIL, "privileges",
                   "start without set-user-ID: the loader ignores LD_PRELOAD for such programs",
                   "this process runs with another user's rights");
    doctor_say(d, DOCTOR_OK, "privileges", NULL, "none needed: no ptrace, no root%s",
               seccomp == 2 ? " (a seccomp filter is active and does no harm)" : "");
}

void doctor_places(struct doctor *d)
{
    check_journal(d);
    check_output(d);
    check_process(d);
    check_others(d);
}
