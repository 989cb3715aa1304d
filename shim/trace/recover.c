/*
 * recover.c - completes a database from the journal that a killed process left.
 *
 * The same writer as in the process itself continues after the database's mark; what the process row needs is
 * told by the journal's facts.  Two recovers cannot meet: the journal file carries a lock, which the kernel
 * gives back however the holder ends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "writer.h"

static int say(char *why, size_t n, int rc, const char *path, const char *what)
{
    snprintf(why, n, "%s: %s", path, what);
    return rc;
}

/* The journal's lock; the descriptor or a negative errno. */
static int take_lock(const char *path, char *why, size_t n)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0)
        return say(why, n, -errno, path, strerror(errno));
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
        return fd;
    int error = errno;
    close(fd);
    if (error == EAGAIN || error == EACCES)
        return say(why, n, -EBUSY, path, "is being recovered by another process");
    return say(why, n, -error, path, strerror(error));
}

static int32_t number_fact(const struct vs_journal *j, const char *key, int32_t otherwise)
{
    const char *text = vs_journal_fact(j, key);
    char *end;
    if (!text || !*text)
        return otherwise;
    long value = strtol(text, &end, 10);
    return *end ? otherwise : (int32_t)value;
}

static struct vs_writer_config config_of(const struct vs_journal *j, const char *database)
{
    struct vs_journal_stats stats;
    vs_journal_stats(j, &stats);
    const char *max_bytes = vs_journal_fact(j, "max_bytes");
    return (struct vs_writer_config){.path = database,
                                     .max_bytes = max_bytes ? strtoull(max_bytes, NULL, 10) : 0,
                                     .version = vs_journal_fact(j, "version"),
                                     .host = vs_journal_fact(j, "host"),
                                     .boot_id = vs_journal_fact(j, "boot_id"),
                                     .command = vs_journal_fact(j, "command"),
                                     .pid = stats.pid,
                                     .rank = number_fact(j, "rank", INT32_MIN),
                                     .local_rank = number_fact(j, "local_rank", INT32_MIN),
                                     .world_size = number_fact(j, "world_size", INT32_MIN),
                                     .simulated = number_fact(j, "simulated", 0) != 0};
}

static long drain_all(struct vs_writer *w)
{
    long total = 0, n;
    while ((n = vs_writer_drain(w, true)) > 0)
        total += n;
    return n < 0 ? n : total;
}

static long recover(struct vs_journal *j, const char *path, const char *database, char *why, size_t n)
{
    if (vs_journal_owner_alive(j))
        return say(why, n, -EBUSY, path, "belongs to a process that still runs");
    if (!database)
        database = vs_journal_database(j);
    if (!database || !*database)
        return say(why, n, -EINVAL, path, "names no database");
    struct vs_writer_config config = config_of(j, database);
    struct vs_writer *w;
    int rc = vs_writer_open(&w, &config, j, why, n);
    if (rc < 0)
        return rc;
    vs_writer_set_simulated(w, config.simulated);
    long events = drain_all(w);
    if (events < 0)
        say(why, n, (int)events, database, strerror((int)-events));
    rc = vs_writer_close(w, false);
    if (rc < 0 && events >= 0)
        events = say(why, n, rc, database, strerror(-rc));
    return events;
}

static bool empty(const struct vs_journal *j)
{
    struct vs_journal_stats stats;
    vs_journal_stats(j, &stats);
    return stats.head == stats.tail;
}

long vs_recover(const char *journal_path, const char *database, char *why, size_t why_size)
{
    struct vs_journal *j;
    int fd = take_lock(journal_path, why, why_size);
    if (fd < 0)
        return fd;
    int rc = vs_journal_open(&j, journal_path, true);
    if (rc < 0) {
        close(fd);
        return say(why, why_size, rc, journal_path,
                   rc == -EPROTO ? "was written by a newer vramscope; use that one"
                                 : "is not a journal of vramscope");
    }
    long events = recover(j, journal_path, database, why, why_size);
    if (events >= 0 && empty(j))
        unlink(journal_path);
    vs_journal_close(j);
    close(fd);
    return events;
}
