/* output.c - chooses the database's name, which no other process has, and a place for the journal where a
 * mapping is safe. */
#define _GNU_SOURCE
#include "recording.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "core/log.h"
#include "core/options.h"

#define NAMES_MAX 9999
/* The longest name that SQLite accepts: 512 bytes, including the suffix "-journal". */
#define DATABASE_MAX 504

static char start_directory[PATH_MAX];

void vs_output_init(void)
{
    int kept = errno;
    if (!getcwd(start_directory, sizeof start_directory))
        start_directory[0] = 0;
    errno = kept;
}

/* ---- the database's name ----
 *
 * O_EXCL takes the name of VRAMSCOPE_OUTPUT, so that each of several processes or runs has its own: run.db,
 * then run-2.db, run-3.db.  Under `vramscope run` (VRAMSCOPE_CLAIM=1) the first process gets the name itself
 * and the others run-rank3-pid4711.db; if the first one was a child and the command used the GPU later, `run`
 * exchanges their names at the end. */

struct text {
    char *at;
    size_t left;
};

static void add(struct text *t, const char *s, size_t length)
{
    if (length >= t->left)
        length = t->left - 1;
    memcpy(t->at, s, length);
    t->at += length;
    t->left -= length;
    *t->at = 0;
}

static void add_number(struct text *t, long n)
{
    char digits[24];
    add(t, digits, (size_t)snprintf(digits, sizeof digits, "%ld", n));
}

static void add_host(struct text *t)
{
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    add(t, *host ? host : "unknown", *host ? strcspn(host, "/") : 7);
}

/* Not 0, because that is the rank of the job's first process. */
static void add_rank(struct text *t)
{
    int32_t rank = vs_launch().rank;
    if (rank == VS_UNKNOWN_NUMBER)
        add(t, "none", 4);
    else
        add_number(t, rank);
}

void vs_output_expand(char *path, size_t size, const char *pattern)
{
    struct text t = {path, size};
    *path = 0;
    if (*pattern != '/' && *start_directory) {
        add(&t, start_directory, strlen(start_directory));
        add(&t, "/", 1);
    }
    for (const char *p = pattern; *p; p++) {
        if (*p != '%' || !p[1]) {
            add(&t, p, 1);
        } else if (*++p == 'h') {
            add_host(&t);
        } else if (*p == 'p') {
            add_number(&t, getpid());
        } else if (*p == 'r') {
            add_rank(&t);
        } else {
            add(&t, p, 1);
        }
    }
}

/* FILE with INSERT before its extension. */
static void insert(char *out, size_t size, const char *file, const char *insertion)
{
    const char *slash = strrchr(file, '/');
    const char *name = slash ? slash + 1 : file, *dot = strrchr(name, '.');
    size_t stem = dot && dot != name ? (size_t)(dot - file) : strlen(file);
    struct text t = {out, size};
    add(&t, file, stem);
    add(&t, insertion, strlen(insertion));
    add(&t, file + stem, strlen(file + stem));
}

/* (A pattern that was truncated fails here too, and does not become the name of another file.) */
static int take_name(const char *path)
{
    if (strlen(path) > DATABASE_MAX)
        return -ENAMETOOLONG;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOCTTY, 0644);
    if (fd < 0)
        return -errno;
    close(fd);
    return 0;
}

/* The name for a process if FILE is taken. */
static void own_name(char *out, size_t size, const char *file)
{
    char text[64];
    int32_t rank = vs_launch().rank;
    if (rank == VS_UNKNOWN_NUMBER)
        snprintf(text, sizeof text, "-pid%ld", (long)getpid());
    else
        snprintf(text, sizeof text, "-rank%d-pid%ld", (int)rank, (long)getpid());
    insert(out, size, file, text);
}

int vs_output_claim(char *path, size_t size)
{
    char base[PATH_MAX], text[32];
    const char *claim = getenv("VRAMSCOPE_CLAIM");
    vs_output_expand(base, sizeof base, *vs_options.output ? vs_options.output : "vramscope-%h-%p.db");
    snprintf(path, size, "%s", base);
    int err = take_name(path);
    if (err == -EEXIST && claim && strcmp(claim, "1") == 0) {
        own_name(path, size, base);
        snprintf(base, sizeof base, "%s", path);
        err = take_name(path);
    }
    for (int n = 2; err == -EEXIST && n <= NAMES_MAX; n++) {
        snprintf(text, sizeof text, "-%d", n);
        insert(path, size, base, text);
        err = take_name(path);
    }
    return err;
}

/* ---- the journal's place ----
 *
 * In this order: VRAMSCOPE_JOURNAL_DIR; /dev/shm where it is tmpfs and the journal takes no more than a
 * quarter of what is free (the host needs it too: NCCL, data loaders); beside the database where that is no
 * network file system (a mapping there loses its pages with the server); TMPDIR or /tmp, likewise; /dev/shm
 * even if the journal takes more of it. */

static bool network(unsigned long type)
{
    static const unsigned long types[] = {
        0x6969,     /* NFS */
        0x517b,     /* SMB */
        0xff534d42, /* CIFS */
        0xfe534d42, /* SMB2 */
        0x01021997, /* 9P */
        0x65735546, /* FUSE: sshfs and the like */
        0x0bd00bd0, /* Lustre */
        0x47504653, /* GPFS */
        0x5346414f, /* AFS */
        0x6b414653, /* kAFS */
        0x00c36400, /* Ceph */
        0x19830326, /* BeeGFS */
        0xaad7aaea, /* PanFS */
        0x73757245, /* Coda */
        0x7461636f, /* OCFS2 */
        0x01161970, /* GFS2 */
    };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if ((type & 0xffffffff) == types[i])
            return true;
    return false;
}

enum fitness { ANY_PLACE, LOCAL, ROOMY_TMPFS, TMPFS };

static bool fit(const char *directory, enum fitness wanted, uint64_t bytes)
{
    struct statfs fs;
    if (wanted == ANY_PLACE)
        return true;
    if (statfs(directory, &fs) != 0)
        return false;
    if (wanted == LOCAL)
        return !network((unsigned long)fs.f_type);
    uint64_t room = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
    return (unsigned long)fs.f_type == 0x01021994 && (wanted == TMPFS || bytes <= room / 4);
}

struct attempt {
    struct vs_journal **out;
    const struct vs_journal_config *config;
    char *path;
    size_t size;
    int err; /* of the last suitable place */
};

static bool create(struct attempt *a)
{
    a->err = vs_journal_create(a->out, a->path, a->config);
    return a->err == 0;
}

/* Tries DIRECTORY, with the process's own name, and a number appended if the process has a journal there
 * from before an exec (which keeps pid and start time). */
static bool try_in(struct attempt *a, const char *directory, enum fitness wanted)
{
    unsigned long long start = vs_journal_process_start(getpid());
    if (!*directory || !fit(directory, wanted, vs_journal_bytes(a->config)))
        return false;
    snprintf(a->path, a->size, "%s/vramscope-%ld-%llu" VS_JOURNAL_SUFFIX, directory, (long)getpid(), start);
    for (int n = 2; !create(a) && a->err == -EEXIST && n <= NAMES_MAX; n++)
        snprintf(a->path, a->size, "%s/vramscope-%ld-%llu-%d" VS_JOURNAL_SUFFIX, directory, (long)getpid(),
                 start, n);
    return a->err == 0;
}

static bool try_beside(struct attempt *a, const char *database)
{
    char directory[PATH_MAX];
    snprintf(directory, sizeof directory, "%s", database);
    char *slash = strrchr(directory, '/');
    if (slash)
        *slash = 0;
    if (!fit(slash ? directory : ".", LOCAL, 0))
        return false;
    snprintf(a->path, a->size, "%s" VS_JOURNAL_SUFFIX, database);
    /* The file may exist: left by an older run whose database was removed. */
    for (int n = 2; !create(a) && a->err == -EEXIST && n <= NAMES_MAX; n++)
        snprintf(a->path, a->size, "%s-%d" VS_JOURNAL_SUFFIX, database, n);
    return a->err == 0;
}

int vs_output_journal(struct vs_journal **out, char *path, size_t size,
                      const struct vs_journal_config *config)
{
    struct attempt a = {out, config, path, size, -ENOSPC};
    char wished[PATH_MAX] = "";
    const char *tmp = getenv("TMPDIR");
    snprintf(path, size, "/dev/shm");
    if (vs_options.journal_dir && *vs_options.journal_dir) {
        vs_output_expand(wished, sizeof wished, vs_options.journal_dir);
        if (try_in(&a, wished, ANY_PLACE))
            return 0;
        vs_log("the journal can't be made in %s (%s): taking another place; see VRAMSCOPE_JOURNAL_DIR",
               wished, strerror(-a.err));
    }
    if (try_in(&a, "/dev/shm", ROOMY_TMPFS) || try_beside(&a, config->database) ||
        try_in(&a, tmp ? tmp : "/tmp", LOCAL) || try_in(&a, "/dev/shm", TMPFS))
        return 0;
    return a.err;
}
