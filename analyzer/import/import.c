/* import.c - loads a snapshot, drives its conversion, and notes what the recording lacks (import.h). */
#include "import.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/base.h"
#include "base/shown.h"
#include "base/units.h"
#include "convert.h"
#include "read/guard.h"
#include "trace/writer/writer.h"

#define FILE_MOST (INT64_C(4) << 30) /* bytes: half an hour's entries with Python's and C++'s frames */

static int say(char *why, size_t n, const char *path, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static int say(char *why, size_t n, const char *path, const char *format, ...)
{
    va_list list;
    int at = snprintf(why, n, "%s ", shown(path));
    va_start(list, format);
    if (at > 0 && (size_t)at < n)
        vsnprintf(why + at, n - (size_t)at, format, list);
    va_end(list);
    return -1;
}

/* ---- the file ---- */

static int read_all(int fd, char *bytes, size_t size)
{
    for (size_t at = 0; at < size;) {
        ssize_t n = read(fd, bytes + at, size - at);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? -errno : -EIO; /* it has become shorter */
        at += (size_t)n;
    }
    return 0;
}

static int load(const char *path, char **bytes, size_t *size, char *why, size_t n)
{
    struct stat st;
    int fd = guard_open(path);
    if (fd < 0 && errno == EINVAL)
        return say(why, n, path, "is no regular file: give what torch.cuda.memory._dump_snapshot wrote");
    if (fd < 0)
        return say(why, n, path, "can't be opened: %s: torch.cuda.memory._dump_snapshot writes such a file",
                   strerror(errno));
    int rc = fstat(fd, &st) ? -errno : 0;
    if (rc == 0 && st.st_size > FILE_MOST)
        rc = -EFBIG;
    *size = rc == 0 ? (size_t)st.st_size : 0;
    *bytes = rc == 0 ? malloc(*size + 1) : NULL;
    if (rc == 0)
        rc = *bytes ? read_all(fd, *bytes, *size) : -ENOMEM;
    close(fd);
    if (rc == 0)
        return 0;
    free(*bytes);
    if (rc == -EFBIG)
        return say(why, n, path,
                   "is larger than 4 GiB: record fewer entries (_record_memory_history(max_entries=...))");
    return say(why, n, path, "can't be read: %s", strerror(-rc));
}

/* What tools that pack files write first: what a user gives is then most likely packed. */
static int check_packed(const char *path, const char *bytes, size_t size, char *why, size_t n)
{
    static const struct {
        const char *magic, *by;
    } packers[] = {{"\x1f\x8b", "gzip"},
                   {"BZh", "bzip2"},
                   {"\xfd"
                    "7zXZ",
                    "xz"},
                   {"\x28\xb5\x2f\xfd", "zstd"}};
    for (size_t i = 0; i < sizeof packers / sizeof *packers; i++) {
        size_t length = strlen(packers[i].magic);
        if (size >= length && !memcmp(bytes, packers[i].magic, length))
            return say(why, n, path, "is packed by %s: unpack it first (%s -dk FILE)", packers[i].by,
                       packers[i].by);
    }
    if (size >= 4 && !memcmp(bytes, "PK\3\4", 4))
        return say(
            why, n, path,
            "is a zip archive, as torch.save writes: give what torch.cuda.memory._dump_snapshot wrote");
    return 0;
}

int32_t import_rank(const char *path)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
    for (; *name; name++) {
        if (strncasecmp(name, "rank", 4) != 0)
            continue;
        const char *digits = name + 4 + strspn(name + 4, "_-=");
        if (isdigit((unsigned char)*digits))
            return (int32_t)strtol(digits, NULL, 10) & INT32_MAX;
    }
    return INT32_MIN;
}

/* ---- what is written ---- */

struct work {
    const struct import_job *job;
    struct import_result *result;
    struct snapshot s;
    struct rewound start[SNAPSHOT_DEVICES];
    struct phases phases;
    struct pools pools;
    struct vs_journal *journal;
    struct vs_writer *writer;
    char *why;
    size_t why_size;
};

static int drain(void *context)
{
    struct work *w = context;
    long n;
    do
        n = vs_writer_drain(w->writer, true);
    while (n > 0);
    return (int)n;
}

/* Beside the database, or where memory is a file; nobody finds it, as its name goes at once. */
static int make_journal(struct work *w, struct vs_journal_config config)
{
    char *places[] = {xformat("/dev/shm/vramscope-import-%d", getpid()),
                      xformat("%s.journal", w->job->database)};
    char absolute[4096];
    config.database = realpath(".", absolute) ? absolute : "/";
    int rc = -ENOENT;
    for (size_t i = 0; i < 2; i++) {
        if (rc != 0) {
            rc = vs_journal_create(&w->journal, places[i], &config);
            unlink(places[i]);
        }
        free(places[i]);
    }
    return rc == 0 ? 0
                   : say(w->why, w->why_size, w->job->database,
                         "can't be written: no room for its events: %s", strerror(-rc));
}

static int open_writer(struct work *w)
{
    char part[512] = "";
    struct vs_database config = {.path = w->job->database,
                                 .version = w->job->version,
                                 .rank = import_rank(w->job->snapshot),
                                 .local_rank = INT32_MIN,
                                 .world_size = INT32_MIN};
    int rc = vs_writer_open(&w->writer, &config, w->journal, part, sizeof part);
    if (rc < 0)
        snprintf(w->why, w->why_size, "%s", part);
    return rc < 0 ? -1 : 0;
}

static void note(struct work *w, const char *text)
{
    vs_writer_loss(w->writer, 0, VS_LOSS_IMPORTED, text);
}

static bool any_phase(const struct work *w)
{
    for (size_t i = 0; i < w->s.stack_count; i++)
        if (w->phases.of_stack[i] >= IMPORT_FORWARD)
            return true;
    return false;
}

struct entries_text {
    char s[64];
};

/* "12 entries do" */
static struct entries_text entries(uint64_t n, const char *verb)
{
    struct entries_text text;
    snprintf(text.s, sizeof text.s, "%" PRIu64 " entries %s", n, verb);
    return text;
}

static void note_misfits(struct work *w, uint64_t n, const char *what)
{
    char text[160];
    if (!n)
        return;
    snprintf(text, sizeof text, "%s not fit to the snapshot's own end state: %s may be wrong by %s",
             n == 1 ? "an entry does" : entries(n, "do").s, what, n == 1 ? "it" : "them");
    note(w, text);
}

static void note_host(struct work *w)
{
    if (w->s.host < 0)
        return;
    if (!w->s.settings.registers)
        note(w,
             "pinned memory is all page-locked memory that the snapshot has: what the driver gave and what "
             "the program registered are not told apart");
    note_misfits(w, w->start[w->s.host].misfits, "totals of pinned memory");
}

/* What the trace found: nobody knows what there was before. */
static void note_start(struct work *w)
{
    const struct import_result *r = w->result;
    char text[240];
    if (!w->s.moves)
        snprintf(text, sizeof text,
                 "the snapshot has no history: it shows what lived when it was taken, and any higher peak "
                 "before is "
                 "unknown");
    else if (r->blocks)
        snprintf(text, sizeof text,
                 "the trace begins in the middle of the run: %s from before (shown outside any phase) still "
                 "lived, "
                 "and any higher peak before it is unknown",
                 units_count((int64_t)r->blocks, "block").s);
    else if (r->before)
        snprintf(text, sizeof text,
                 "the trace begins in the middle of the run, with %s reserved: any higher peak before it is "
                 "unknown",
                 units_bytes((int64_t)r->before, false).s);
    else
        return;
    note(w, text);
}

/* Of an export of what was imported: what was noted then. */
static void note_again(struct work *w)
{
    enum { NOTES_MOST = 32, NOTE_MOST = 400 };
    for (size_t i = 0; i < unpickle_items(w->s.notes) && i < NOTES_MOST; i++) {
        const struct pickle_value *v = unpickle_item(w->s.notes, i);
        if (v->kind != PICKLE_TEXT || v->length > NOTE_MOST)
            continue;
        char *text = xformat("%.*s", (int)v->length, v->text);
        note(w, text);
        free(text);
    }
}

/* What a reader of the database must know about where it comes from. */
static void note_source(struct work *w, bool timed)
{
    const struct import_result *r = w->result;
    if (unpickle_items(w->s.notes)) {
        note_again(w);
        return;
    }
    if (w->s.asked)
        note(w, "imported from an export of vramscope's: sizes are blocks', and what was requested of each "
                "is known as far "
                "as its recording had it");
    else if (w->s.rounded)
        note(w, w->s.exact
                    ? "imported from an export of vramscope's: sizes are what was requested, or the block's "
                      "where its request was not recorded"
                    : "imported from an export of vramscope's: sizes are blocks', and what was requested of "
                      "them is unknown");
    else
        note(
            w,
            "imported from a PyTorch snapshot: blocks have the sizes that were requested (PyTorch's own "
            "count rounds "
            "each up, a large one by up to 1 MiB), and memory that its allocator did not ask for is unknown");
    if (w->s.moves && w->s.told)
        note(w, "phases and steps are those of the recording that was exported");
    else if (w->s.moves && any_phase(w))
        note(w, w->phases.marked
                    ? "phases and steps are those that call stacks show, and PyTorch's marks of optimizers' "
                      "steps: evaluation counts as forward, the output layer too"
                    : "phases and steps are those that call stacks show: evaluation counts as forward, the "
                      "output layer too");
    else if (w->s.moves)
        note(w, w->phases.marked
                    ? "no call stack shows a phase: only optimizers' steps are known, which PyTorch marked"
                    : "no call stack shows a phase: which were open is unknown, and all is shown outside any "
                      "phase");
    note_start(w);
    note_misfits(w, r->misfits, "totals");
    if (w->s.unknown) {
        char text[160];
        snprintf(text, sizeof text,
                 "%s of a kind that this version does not know: memory that %s made or freed is not counted",
                 w->s.unknown == 1 ? "an entry is" : entries(w->s.unknown, "are").s,
                 w->s.unknown == 1 ? "it" : "they");
        note(w, text);
    }
    if (w->s.skipped)
        note(w,
             "the snapshot was recorded without requests of frees (skip_actions): a block counts until its "
             "free was complete");
    note_host(w);
    if (!timed)
        note(w, "the snapshot has no times: entries are numbered, a microsecond each");
    if (w->s.lowered)
        note(w, "the snapshot's addresses lie from 2^63 on: they are shown without that bit");
}

static int note_settings(struct work *w, bool driver_blocks)
{
    const struct snapshot_settings *o = &w->s.settings;
    char text[64];
    int rc = vs_writer_fact(w->writer, "imported", w->job->snapshot);
    if (w->pools.unknown && rc >= 0) {
        snprintf(text, sizeof text, "%" PRIu64, w->pools.unknown);
        rc = vs_writer_fact(w->writer, "torch_pools_unknown", text);
    }
    if ((w->result->before || w->s.moves <= 1) && rc >= 0) {
        snprintf(text, sizeof text, "%" PRIu64, w->result->before);
        rc = vs_writer_fact(w->writer, "imported_before", text);
    }
    if (w->s.told && rc >= 0)
        rc = vs_writer_fact(w->writer, "imported_phases", "recorded");
    if (w->s.pairs && rc >= 0)
        rc = vs_writer_fact(w->writer, "imported_pairs", "1");
    if (w->result->misfits && rc >= 0) {
        snprintf(text, sizeof text, "%" PRIu64, w->result->misfits);
        rc = vs_writer_fact(w->writer, "imported_misfits", text);
    }
    if ((w->s.rounded || w->s.asked) && rc >= 0)
        rc = vs_writer_fact(w->writer, "sizes_of_blocks", w->s.asked || w->s.exact ? "some" : "all");
    if (driver_blocks && rc >= 0)
        rc = vs_writer_fact(w->writer, "driver_blocks", "some");
    if (!o->known || rc < 0)
        return rc;
    snprintf(text, sizeof text, "%" PRId64, o->max_split);
    rc = vs_writer_fact(w->writer, "torch_max_split_size", text);
    snprintf(text, sizeof text, "%.6g", o->gc_threshold);
    rc = rc < 0 ? rc : vs_writer_fact(w->writer, "torch_garbage_collection_threshold", text);
    snprintf(text, sizeof text, "%" PRId64, o->roundup);
    rc = rc < 0 ? rc : vs_writer_fact(w->writer, "torch_roundup_power2_divisions", text);
    rc = rc < 0 ? rc : vs_writer_fact(w->writer, "torch_expandable_segments", o->expandable ? "1" : "0");
    char *conf =
        xformat("%.*s", (int)(o->conf_length < 1000 ? o->conf_length : 1000), o->conf ? o->conf : "");
    rc = rc < 0 ? rc : vs_writer_fact(w->writer, "torch_alloc_conf", conf);
    free(conf);
    return rc;
}

/* ---- the whole ---- */

static int rewind_all(struct work *w)
{
    char part[256];
    for (int d = 0; d < w->s.devices; d++) {
        if (rewind_device(&w->start[d], &w->s, d, part, sizeof part))
            return say(w->why, w->why_size, w->job->snapshot, "%s", part);
        w->result->blocks += w->start[d].block_count;
        w->result->before += d == w->s.host ? 0 : rewound_reserved(&w->start[d]);
        if (d != w->s.host)
            w->result->misfits += w->start[d].misfits;
        w->result->devices +=
            d != w->s.host && (w->s.traces[d].n || w->start[d].block_count || w->start[d].segment_count);
    }
    w->result->entries = w->s.events;
    w->result->misfits +=
        w->s.misfits > 0 && w->s.misfits <= (int64_t)w->s.events ? (uint64_t)w->s.misfits : 0;
    return 0;
}

static int write_all(struct work *w)
{
    struct convert c = {.s = &w->s,
                        .start = w->start,
                        .phases = &w->phases,
                        .pools = &w->pools,
                        .journal = w->journal,
                        .drain = drain,
                        .context = w};
    if (open_writer(w))
        return -1;
    int rc = convert_run(&c);
    w->result->ns = c.last_ns;
    if (rc == 0) {
        note_source(w, c.timed);
        rc = note_settings(w, c.driver_blocks);
    }
    int closed = vs_writer_close_at(w->writer, rc == 0 ? c.last_ns : -1);
    rc = rc < 0 ? rc : closed;
    return rc == 0 ? 0 : say(w->why, w->why_size, w->job->database, "can't be written: %s", strerror(-rc));
}

/* When its first entry was, by the wall clock. */
static uint64_t begins_at(const struct snapshot *s)
{
    int64_t first = INT64_MAX;
    for (int d = 0; d < s->devices; d++)
        if (s->traces[d].n && s->traces[d].timed && s->traces[d].at[0].time_ns < first)
            first = s->traces[d].at[0].time_ns;
    if (s->start_ns > 0 && s->start_ns < first)
        first = s->start_ns;
    return first > 0 && first < INT64_MAX ? (uint64_t)first : 0;
}

static int import_loaded(struct work *w, const char *bytes, size_t size)
{
    char part[256];
    if (snapshot_read(&w->s, bytes, size, part, sizeof part))
        return say(w->why, w->why_size, w->job->snapshot, "%s", part);
    ranges_read(&w->s);
    struct vs_journal_config room = convert_room(&w->s);
    room.start_realtime_ns = begins_at(&w->s);
    int rc = rewind_all(w);
    if (rc == 0) {
        phases_read(&w->phases, &w->s);
        pools_find(&w->pools, &w->s);
        rc = make_journal(w, room);
    }
    if (rc == 0) {
        rc = write_all(w);
        vs_journal_close(w->journal);
    }
    phases_free(&w->phases);
    pools_free(&w->pools);
    for (int d = 0; d < SNAPSHOT_DEVICES; d++)
        rewound_free(&w->start[d]);
    snapshot_free(&w->s);
    return rc;
}

int import_snapshot(const struct import_job *job, struct import_result *result, char *why, size_t why_size)
{
    char *bytes = NULL;
    size_t size = 0;
    *result = (struct import_result){0};
    if (load(job->snapshot, &bytes, &size, why, why_size))
        return -1;
    if (check_packed(job->snapshot, bytes, size, why, why_size)) {
        free(bytes);
        return -1;
    }
    struct work *w = xrealloc(NULL, sizeof *w);
    *w = (struct work){.job = job, .result = result, .why = why, .why_size = why_size};
    int rc = import_loaded(w, bytes, size);
    free(w);
    free(bytes);
    return rc;
}
