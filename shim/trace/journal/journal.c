/*
 * journal.c - the file behind a journal: making it, checking it, what its header and its page `now` say.
 *
 * A new file has the space of every byte taken, so from then on no call on the journal fails for want of
 * space or of a descriptor.  A file that is opened is not trusted: sizes, offsets and capacities are checked
 * against its length before anything is followed.
 */
#include "format.h"
#include "core/guard.h"
#include "core/procstat.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define RING_DEFAULT    (1u << 18)
#define STRINGS_DEFAULT (2u << 20) /* bytes */
#define TENSORS_DEFAULT (4u << 20) /* bytes: of 3 dimensions about 92,000 different ones */
#define FILE_LIMIT      (UINT64_C(1) << 38)

static uint64_t round_page(uint64_t bytes)
{
    return (bytes + VS_PAGE - 1) / VS_PAGE * VS_PAGE;
}

static uint64_t round_power(uint64_t n)
{
    uint64_t p = 1;
    while (p < n)
        p *= 2;
    return p;
}

/* ---- the owner ---- */

static void read_boot_id(char out[40])
{
    memset(out, 0, 40);
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    ssize_t n = read(fd, out, 36);
    close(fd);
    if (n != 36)
        memset(out, 0, 40);
}

uint64_t vs_journal_process_start(int32_t pid)
{
    struct vs_procstat s;
    return vs_procstat(pid, &s) ? s.start : 0;
}

bool vs_journal_this_boot(const struct vs_journal *j)
{
    char boot[40];
    read_boot_id(boot);
    return memcmp(boot, j->header->boot_id, sizeof boot) == 0;
}

bool vs_journal_owner_alive(const struct vs_journal *j)
{
    struct vs_procstat s;
    if (!vs_journal_this_boot(j))
        return false;
    if (!vs_procstat(j->header->owner_pid, &s) || s.start != j->header->owner_start)
        return false;
    /* A zombie whose other threads run is a process whose main thread left early. */
    return (s.state != 'Z' && s.state != 'X' && s.state != 'x') || s.threads > 1;
}

/* ---- layout ---- */

static uint64_t or_default(uint32_t wanted, uint32_t otherwise)
{
    return wanted ? wanted : otherwise;
}

static void lay_out(struct vs_journal_header *h, const struct vs_journal_config *c)
{
    const uint64_t rows[VS_SECTIONS] = {
        [VS_SEC_RING] = round_power(or_default(c->ring_slots, RING_DEFAULT)),
        [VS_SEC_STRINGS] = or_default(c->string_bytes, STRINGS_DEFAULT) / 8,
        [VS_SEC_THREADS] = or_default(c->threads, 8192),
        [VS_SEC_CONTEXTS] = or_default(c->contexts, VS_CONTEXT_UNKNOWN),
        [VS_SEC_DEVICES] = or_default(c->devices, 256),
        [VS_SEC_MODULES] = or_default(c->modules, 8192),
        [VS_SEC_FRAMES] = or_default(c->frames, 1u << 17),
        [VS_SEC_STACKS] = or_default(c->stacks, 1u << 18),
        [VS_SEC_TENSORS] = or_default(c->tensor_bytes, TENSORS_DEFAULT) / 8,
        [VS_SEC_ACCESSES] = or_default(c->accesses, 1), /* row 0 only: accesses are not recorded */
        [VS_SEC_PAGES] = VS_JOURNAL_PAGES,
    };
    uint64_t at = round_page(sizeof *h);
    for (int s = 0; s < VS_SECTIONS; s++) {
        h->place[s].offset = at;
        h->place[s].capacity = rows[s];
        at += round_page(rows[s] * vs_journal_row_bytes(s));
    }
    /* ids must stay below the values that say "unknown" */
    if (h->place[VS_SEC_THREADS].capacity > VS_THREAD_UNKNOWN)
        h->place[VS_SEC_THREADS].capacity = VS_THREAD_UNKNOWN;
    if (h->place[VS_SEC_CONTEXTS].capacity > VS_CONTEXT_UNKNOWN)
        h->place[VS_SEC_CONTEXTS].capacity = VS_CONTEXT_UNKNOWN;
    h->file_bytes = at;
    h->header_bytes = sizeof *h;
}

size_t vs_journal_bytes(const struct vs_journal_config *config)
{
    struct vs_journal_header h;
    lay_out(&h, config);
    return h.file_bytes;
}

/* ---- the handle ---- */

static size_t index_bytes(uint64_t rows)
{
    return round_power(2 * rows) * sizeof(uint32_t);
}

/* Tables whose rows are looked up by key.  A string takes at least two units, so half its units are rows. */
static uint64_t index_rows(const struct vs_journal_header *h, enum vs_section s)
{
    switch (s) {
    case VS_SEC_STRINGS:
        return h->place[s].capacity / 2;
    case VS_SEC_TENSORS:
        return h->place[s].capacity / (sizeof(struct vs_tensor_row) / 8);
    case VS_SEC_CONTEXTS:
    case VS_SEC_DEVICES:
    case VS_SEC_FRAMES:
    case VS_SEC_STACKS:
        return h->place[s].capacity;
    default:
        return 0;
    }
}

#define DROPPED_BYTES round_page(vs_dropped_bytes)

/* The handle and its indexes, in private memory of their own: malloc may be the host's. */
static struct vs_journal *make_handle(struct vs_journal_header *h, size_t file_bytes, bool owner,
                                      bool writable)
{
    size_t bytes = round_page(sizeof(struct vs_journal));
    for (int s = 0; s < VS_SECTIONS && owner; s++)
        bytes += index_rows(h, s) ? index_bytes(index_rows(h, s)) : 0;
    bytes += owner ? DROPPED_BYTES : 0;
    unsigned char *m = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED)
        return NULL;
    struct vs_journal *j = (struct vs_journal *)m;
    j->header = h;
    j->file_bytes = file_bytes;
    j->handle_bytes = bytes;
    j->writable = writable;
    j->stuck_seq = VS_SEQ_NONE;
    m += round_page(sizeof *j);
    if (owner) {
        vs_dropped_begin(&j->dropped, m);
        m += DROPPED_BYTES;
    }
    for (int s = 0; s < VS_SECTIONS; s++) {
        j->section[s] = (unsigned char *)h + h->place[s].offset;
        j->capacity[s] = h->place[s].capacity;
        if (!owner || index_rows(h, s) == 0)
            continue;
        j->index[s].id = (_Atomic uint32_t *)m;
        j->index[s].mask = (uint32_t)(round_power(2 * index_rows(h, s)) - 1);
        m += index_bytes(index_rows(h, s));
    }
    j->slot = (struct vs_slot *)j->section[VS_SEC_RING];
    j->mask = j->capacity[VS_SEC_RING] - 1;
    return j;
}

/* ---- creating ---- */

static void fill_header(struct vs_journal_header *h, const struct vs_journal_config *c)
{
    lay_out(h, c);
    h->format = VS_JOURNAL_FORMAT;
    h->start_ns = c->start_ns;
    h->start_realtime_ns = c->start_realtime_ns;
    h->owner_pid = getpid();
    h->owner_start = vs_journal_process_start(h->owner_pid);
    read_boot_id(h->boot_id);
    snprintf(h->database, sizeof h->database, "%s", c->database ? c->database : "");
    for (int s = 0; s < VS_SECTIONS; s++)
        atomic_store_explicit(&h->rows[s], 1, memory_order_relaxed);
    /* Sequences begin at 1, so that 0 can say "none": slot 0 is first used in lap 1. */
    atomic_store_explicit(&h->head, 1, memory_order_relaxed);
    atomic_store_explicit(&h->tail, 1, memory_order_relaxed);
    atomic_store_explicit(&h->freed, 1, memory_order_relaxed);
    uint64_t slots = h->place[VS_SEC_RING].capacity;
    atomic_store_explicit(&h->limit, 1 + vs_journal_room(slots), memory_order_relaxed);
    struct vs_slot *first = (struct vs_slot *)((unsigned char *)h + h->place[VS_SEC_RING].offset);
    atomic_store_explicit(&first->state, slots, memory_order_relaxed);
    memcpy(h->magic, VS_JOURNAL_MAGIC, sizeof h->magic); /* last: before it, the file is no journal */
}

/* Takes the space of BYTES; 0 or an errno.  Where the call is refused, as in a sandbox (it may write, but not
 * this), zeros are written. */
static int take_space(int fd, size_t bytes)
{
    static const char zeros[64 * 1024];
    int err = posix_fallocate(fd, 0, (off_t)bytes);
    if (err != EPERM && err != EACCES && err != ENOSYS && err != EOPNOTSUPP)
        return err;
    for (size_t at = 0; at < bytes;) {
        size_t want = bytes - at < sizeof zeros ? bytes - at : sizeof zeros;
        ssize_t n = pwrite(fd, zeros, want, (off_t)at);
        if (n < 0 && errno != EINTR)
            return errno;
        at += n > 0 ? (size_t)n : 0;
    }
    return 0;
}

/* Makes PATH with BYTES of space behind every page of it, and maps it. */
static int map_new(const char *path, size_t bytes, void **out)
{
    /* Beyond a `ulimit -f` the space would be refused by a deadly signal. */
    if (vs_limit(VS_LIMIT_FILE_SIZE) < bytes)
        return -EFBIG;
    int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return -errno;
    int err = take_space(fd, bytes);
    if (err == 0) {
        *out = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (*out == MAP_FAILED)
            err = errno;
    }
    close(fd);
    if (err)
        unlink(path);
    return -err;
}

int vs_journal_create(struct vs_journal **out, const char *path, const struct vs_journal_config *config)
{
    size_t bytes = vs_journal_bytes(config);
    void *map = NULL;
    int err = map_new(path, bytes, &map);
    if (err)
        return err;
    struct vs_journal_header *h = map;
    fill_header(h, config);
    struct vs_journal *j = make_handle(h, bytes, true, true);
    if (!j) {
        munmap(map, bytes);
        unlink(path);
        return -ENOMEM;
    }
    /* Takes the page faults now rather than in the host's first lap, where the kernel supports that. */
    madvise(j->slot, (size_t)(j->mask + 1) * sizeof *j->slot, MADV_POPULATE_WRITE);
    *out = j;
    return 0;
}

/* ---- opening ---- */

static bool section_fits(const struct vs_journal_header *h, enum vs_section s, uint64_t file_bytes)
{
    const struct vs_section_place *p = &h->place[s];
    uint64_t row = vs_journal_row_bytes(s);
    return p->offset % VS_PAGE == 0 && p->offset >= h->header_bytes && p->offset <= file_bytes &&
           p->capacity >= 1 && p->capacity <= UINT32_MAX && p->capacity <= (file_bytes - p->offset) / row;
}

static int check(const struct vs_journal_header *h, uint64_t file_bytes)
{
    if (file_bytes < sizeof *h || file_bytes > FILE_LIMIT || memcmp(h->magic, VS_JOURNAL_MAGIC, 8) != 0)
        return -EINVAL;
    if (h->format > VS_JOURNAL_FORMAT)
        return -EPROTO;
    if (h->format != 0 && h->format < VS_JOURNAL_FORMAT)
        return -ENOTSUP;
    if (h->format == 0 || h->header_bytes != sizeof *h || h->file_bytes != file_bytes)
        return -EINVAL;
    for (int s = 0; s < VS_SECTIONS; s++)
        if (!section_fits(h, s, file_bytes))
            return -EINVAL;
    uint64_t slots = h->place[VS_SEC_RING].capacity;
    uint64_t used = atomic_load(&h->head) - atomic_load(&h->tail);
    if ((slots & (slots - 1)) != 0 || used > 2 * slots || atomic_load(&h->head) > UINT64_MAX / 2)
        return -EINVAL;
    return memchr(h->database, 0, sizeof h->database) ? 0 : -EINVAL;
}

int vs_journal_open_fd(struct vs_journal **out, int fd, bool writable)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return -errno;
    if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(struct vs_journal_header))
        return -EINVAL;
    if (st.st_uid != geteuid())
        return -EPERM;
    void *map =
        mmap(NULL, (size_t)st.st_size, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return -errno;
    int err = check(map, (uint64_t)st.st_size);
    if (err == 0 && (*out = make_handle(map, (size_t)st.st_size, false, writable)) == NULL)
        err = -ENOMEM;
    if (err)
        munmap(map, (size_t)st.st_size);
    return err;
}

int vs_journal_open(struct vs_journal **out, const char *path, bool writable)
{
    int fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    if (fd < 0)
        return errno == ELOOP ? -EINVAL : -errno;
    int err = vs_journal_open_fd(out, fd, writable);
    close(fd);
    return err;
}

void vs_journal_guard(struct vs_journal *j, void (*notify)(void *context), void *context)
{
    vs_guard_add(j->header, j->file_bytes, notify, context);
}

void vs_journal_close(struct vs_journal *j)
{
    if (!j)
        return;
    vs_guard_remove(j->header);
    munmap(j->header, j->file_bytes);
    munmap(j, j->handle_bytes);
}

/* ---- what the header says ---- */

void vs_journal_stats(const struct vs_journal *j, struct vs_journal_stats *out)
{
    struct vs_journal_header *h = j->header;
    *out = (struct vs_journal_stats){
        .tail = atomic_load_explicit(&h->tail, memory_order_relaxed),
        .head = atomic_load_explicit(&h->head, memory_order_relaxed),
        .lost = atomic_load_explicit(&h->lost, memory_order_relaxed),
        .dead = atomic_load_explicit(&h->dead, memory_order_relaxed),
        .table_full = atomic_load_explicit(&h->table_full, memory_order_relaxed),
        .tensors_full = atomic_load_explicit(&h->rows[VS_SEC_TENSORS], memory_order_relaxed) >=
                        vs_journal_shape_units(j->capacity[VS_SEC_TENSORS]),
        .late = atomic_load_explicit(&h->late, memory_order_relaxed),
        .untracked = atomic_load_explicit(&h->untracked, memory_order_relaxed),
        .lost_ranges = atomic_load_explicit(&h->lost_ranges, memory_order_relaxed),
        .lost_uses = __atomic_load_n(&vs_journal_access_state(j)->uses, __ATOMIC_ACQUIRE),
        .lost_births = atomic_load_explicit(&h->lost_births, memory_order_relaxed),
        .lost_ends = atomic_load_explicit(&h->lost_ends, memory_order_relaxed),
        .pid = h->owner_pid,
        .start_ns = h->start_ns,
        .start_realtime_ns = h->start_realtime_ns,
    };
}

const char *vs_journal_database(const struct vs_journal *j)
{
    return j->header->database;
}

/*
 * ---- the page `now` ----
 *
 * A sequence lock.  One writer, the drain; the readers are other processes, which have the page mapped for
 * reading and cannot stop the writer.  The writer makes the sequence odd, changes the words and makes it even
 * again; a reader takes the words between two looks at the same even sequence.  A process that is killed
 * while it writes leaves the sequence odd for good.
 */

struct page {
    _Atomic uint64_t sequence;
    _Atomic uint64_t word[sizeof(struct vs_now) / sizeof(uint64_t)];
};
_Static_assert(sizeof(struct page) <= VS_PAGE, "see vs_journal_row_bytes");

enum { WORDS = sizeof(struct vs_now) / sizeof(uint64_t), TRIES = 64 };

static struct page *page_of(const struct vs_journal *j)
{
    return vs_journal_row(j, VS_SEC_PAGES, VS_PAGE, VS_PAGE_NOW);
}

void vs_journal_publish(struct vs_journal *j, const struct vs_now *now)
{
    struct page *p = page_of(j);
    const uint64_t *from = (const uint64_t *)now;
    /* Odd, also where an earlier writer was killed in between.  The fence keeps the words behind it. */
    uint64_t begun = atomic_load_explicit(&p->sequence, memory_order_relaxed) | 1;
    atomic_store_explicit(&p->sequence, begun, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    for (int i = 0; i < WORDS; i++)
        atomic_store_explicit(&p->word[i], from[i], memory_order_relaxed);
    /* Release: who sees it even sees the words. */
    atomic_store_explicit(&p->sequence, begun + 1, memory_order_release);
}

enum vs_now_state vs_journal_now(const struct vs_journal *j, struct vs_now *out)
{
    struct page *p = page_of(j);
    uint64_t *to = (uint64_t *)out;
    for (int i = 0; i < TRIES; i++) {
        if (i > 0) /* the writer may wait for this very CPU */
            sched_yield();
        /* Acquire: the words are read after it; the fence: before the second look. */
        uint64_t before = atomic_load_explicit(&p->sequence, memory_order_acquire);
        if (before == 0)
            return VS_NOW_NOTHING;
        if (before & 1)
            continue;
        for (int k = 0; k < WORDS; k++)
            to[k] = atomic_load_explicit(&p->word[k], memory_order_relaxed);
        atomic_thread_fence(memory_order_acquire);
        if (atomic_load_explicit(&p->sequence, memory_order_relaxed) != before)
            continue;
        /* it is another process's memory: no count is taken on trust */
        out->devices = out->devices < VS_NOW_DEVICES ? out->devices : VS_NOW_DEVICES;
        out->ranges = out->ranges < VS_NOW_RANGES ? out->ranges : VS_NOW_RANGES;
        return VS_NOW_SEEN;
    }
    return VS_NOW_TORN;
}
