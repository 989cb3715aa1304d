/*
 * start.c - begins a recording: chooses the database's name, creates the journal, and stores the facts about
 * the process that recover needs.
 *
 * Runs once per process, inside its first successful allocation, on the host's own thread marked internal.  A
 * failure is one line on stderr, and the host runs on unrecorded.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/clock.h"
#include "core/log.h"
#include "core/options.h"
#include "recording.h"
#include "core/procstat.h"

#define RING_DEFAULT (1u << 18)          /* the journal's own */
#define ACCESSES     (1u << 18)          /* blocks that live, or were freed and are not yet written */
#define ROOM_LEAST   (UINT64_C(1) << 30) /* of the address space: malloc reserves 64 MiB a thread, too */

static void number_fact(struct vs_journal *j, const char *key, int64_t n)
{
    char text[32];
    if (n == VS_UNKNOWN_NUMBER)
        return;
    snprintf(text, sizeof text, "%lld", (long long)n);
    vs_journal_set_fact(j, key, text);
}

/* The first bytes of a small file, without the final line end; "" if it does not exist. */
static size_t read_text(const char *path, char *text, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, size - 1);
    if (fd >= 0)
        close(fd);
    if (n < 0)
        n = 0;
    while (n > 0 && (text[n - 1] == '\n' || text[n - 1] == 0))
        n--;
    text[n] = 0;
    return (size_t)n;
}

static void describe(struct vs_journal *j)
{
    char text[4096];
    struct vs_launch launch = vs_launch();
    if (gethostname(text, sizeof text - 1) == 0)
        vs_journal_set_fact(j, "host", text);
    if (read_text("/proc/sys/kernel/random/boot_id", text, sizeof text))
        vs_journal_set_fact(j, "boot_id", text);
    size_t n = read_text("/proc/self/cmdline", text, sizeof text);
    for (size_t i = 0; i < n; i++)
        if (text[i] == 0)
            text[i] = ' ';
    if (n)
        vs_journal_set_fact(j, "command", text);
    number_fact(j, "rank", launch.rank);
    number_fact(j, "local_rank", launch.local_rank);
    number_fact(j, "world_size", launch.world_size);
    number_fact(j, "max_bytes", (int64_t)vs_options.max_bytes);
    vs_journal_set_fact(j, "version", VRAMSCOPE_VERSION);
    vs_journal_set_fact(j, VS_FACT_CAME_TO_EXIT,
                        "1"); /* its text is there then, however full the table gets */
    vs_journal_set_fact(j, VS_FACT_CAME_TO_EXIT, "0");
    if (*vs_options.labels)
        vs_journal_set_fact(j, "labels", vs_options.labels);
    if (*vs_options.limit)
        vs_journal_set_fact(j, VS_FACT_LIMIT, vs_options.limit);
    if (*vs_options.dry)
        vs_journal_set_fact(j, VS_FACT_DRY, vs_options.dry);
}

/* Removes a claimed database that nothing will be written to. */
static void unclaim(const char *database)
{
    struct stat st;
    if (lstat(database, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == 0)
        unlink(database);
}

/* The address space left under a limit (ulimit -v); UINT64_MAX: there is no limit. */
static uint64_t address_room(void)
{
    uint64_t limit = vs_limit(VS_LIMIT_SPACE);
    char text[64];
    if (limit == UINT64_MAX)
        return UINT64_MAX;
    if (!read_text("/proc/self/statm", text, sizeof text))
        return 0;
    uint64_t used = strtoull(text, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
    return used < limit ? limit - used : 0;
}

static struct vs_journal *make_journal(struct vs_recording *r)
{
    struct vs_journal *j = NULL;
    struct vs_journal_config c = {
        .ring_slots = (uint32_t)vs_options.ring_events,
        .accesses = vs_options.access ? ACCESSES : 0,
        .database = r->database,
        .start_ns = vs_clock_ns(),
        .start_realtime_ns = vs_clock_realtime_ns(),
    };
    r->ring_slots = c.ring_slots ? c.ring_slots : RING_DEFAULT;
    if (address_room() < ROOM_LEAST) { /* the host needs it */
        vs_log(
            "the limit on the address space (ulimit -v) leaves less than 1 GiB; nothing is recorded; raise "
            "it");
        unclaim(r->database);
        return NULL;
    }
    int err = vs_output_journal(&j, r->journal_path, sizeof r->journal_path, &c);
    if (err == 0)
        return j;
    vs_log("no journal at %s: %s; nothing is recorded; make room or set VRAMSCOPE_JOURNAL_DIR",
           r->journal_path, strerror(-err));
    unclaim(r->database);
    return NULL;
}

/* Called in a signal handler.  A thread that is about to record still has the journal, where its event is
 * lost. */
static void cut_short(void *recording)
{
    struct vs_recording *r = recording;
    atomic_store(&r->cut_short, 1);
    atomic_store(&r->state, VS_RECORDING_OFF);
    atomic_store(&r->journal, NULL);
    atomic_store(&vs_hot.ring_header, NULL);
}

struct vs_journal *vs_start(struct vs_recording *r)
{
    if (getauxval(AT_SECURE)) /* a user with fewer rights than the program would choose the names */
        return NULL;
    vs_options_complain();
    vs_suppliers.prepare();
    vs_event_clock_prepare(NULL);
    int err = vs_output_claim(r->database, sizeof r->database);
    if (err) {
        vs_log("no database at %.512s: %s; nothing is recorded; set VRAMSCOPE_OUTPUT to a writable place",
               r->database, strerror(-err));
        return NULL;
    }
    struct vs_journal *j = make_journal(r);
    if (j) {
        vs_journal_guard(j, cut_short, r);
        describe(j);
        uint64_t slots = 1;
        while (slots < r->ring_slots)
            slots *= 2;
        atomic_store_explicit(&vs_hot.nudge_mask, slots / 4 - 1, memory_order_relaxed);
        vs_log_verbose("recording to %s, journal %s", r->database, r->journal_path);
    }
    return j;
}
