/*
 * test_uses.c - trace/uses against a model: random blocks, launches and steps through a ring, taken out in
 * pieces by readers that are left at any point and begun again at the last commit, as kills do.
 */
#include <unistd.h>

#include "unit/says.h"
#include "unit/trace/db_kit.h"
#include "trace/uses/uses.h"
#include "trace/writer/writer.h"

#define BASE   UINT64_C(0x7f3300000000)
#define PLACES 200u
#define SLOTS  1024u
#define EVENTS 60000u

struct life { /* of a block, as the model has it */
    uint64_t first_ns, last_ns, sure_ns;
    uint32_t uses, born_step, end_step, steps, last_step;
    bool lives;
};

static struct vs_journal *j;
static struct life place[PLACES];
static struct life ended[SLOTS]; /* by the sequence of the free % SLOTS: the ring has no more */
static uint32_t step = 1;
static uint64_t now = 1000;

/* ---- the program ---- */

static uint64_t address_of(uint32_t at)
{
    return BASE + (uint64_t)at * 4096;
}

static void begin_or_end(uint32_t at)
{
    struct life *l = &place[at];
    struct vs_event e = {.t_ns = now, .address = address_of(at), .op = VS_OP_BLOCK_ALLOC};
    e.size = 512 + (uint64_t)(random() % 3) * 1024;
    if (l->lives) {
        e.op = VS_OP_BLOCK_FREE;
        l->end_step = step;
        uint64_t seq = vs_journal_append(j, &e);
        ended[seq % SLOTS] = *l;
        l->lives = false;
    } else {
        vs_journal_append(j, &e);
        *l = (struct life){.lives = true, .born_step = step};
    }
}

static void use(uint32_t at)
{
    struct life *l = &place[at];
    if (!l->lives || l->last_ns == now)
        return;
    l->first_ns = l->uses++ == 0 ? now : l->first_ns;
    l->steps += l->last_step != step;
    l->last_step = step;
    l->last_ns = now;
}

static void launch(void)
{
    uint64_t word[40];
    uint32_t n = 1 + (uint32_t)random() % (random() % 8 == 0 ? 40 : 6);
    struct vs_event like = {.t_ns = now, .stack = 1, .space = VS_ACCESS_IN_NONE, .status = VS_ACCESS_KERNEL};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = (uint32_t)random() % PLACES;
        bool sure = random() % 2;
        word[i] = address_of(at) + (uint64_t)(random() % 2) * 511;
        word[i] |= sure ? VS_USE_SURE : 0;
        use(at);
        if (sure && place[at].lives)
            place[at].sure_ns = now;
    }
    assert_int_not_equal(vs_journal_append_uses(j, &like, word, n), VS_SEQ_NONE);
}

static void step_ends(void)
{
    vs_journal_append(j, &(struct vs_event){.t_ns = now, .op = VS_OP_STEP});
    step++;
}

static void go_on(void)
{
    now += 10;
    switch (random() % 8) {
    case 0 ... 3:
        begin_or_end((uint32_t)random() % PLACES);
        break;
    case 4 ... 6:
        launch();
        break;
    default:
        step_ends();
    }
}

/* ---- readers ---- */

static struct vs_uses *uses;
static uint64_t committed, fed;
static uint32_t rows[SLOTS]; /* of frees that are not committed, by their sequence */

static void reader_begins(void)
{
    vs_uses_free(uses);
    fed = committed;
    assert_int_equal(vs_uses_open(&uses, j, committed), 0);
}

static void is_as_the_model_says(const struct vs_access_row *row, const struct life *l)
{
    SAYS(row, .uses = l->uses, .first_ns = l->first_ns, .last_ns = l->last_ns, .sure_last_ns = l->sure_ns,
         .steps = l->steps, .born_step = l->born_step, .end_step = l->end_step,
         .kinds = l->uses ? VS_ACCESS_KERNEL : 0);
}

/* At most MAX events. */
static void read_some(size_t max)
{
    static struct vs_event e[SLOTS];
    static uint64_t seq[SLOTS];
    size_t n = vs_journal_peek(j, e, seq, SLOTS, false);
    for (size_t i = 0; i < n && max > 0; i++) {
        if (seq[i] <= fed)
            continue;
        vs_uses_apply(uses, &e[i], seq[i]);
        if (e[i].op == VS_OP_BLOCK_FREE) {
            assert_int_not_equal(e[i].stack, 0);
            is_as_the_model_says(vs_journal_access(j, e[i].stack), &ended[seq[i] % SLOTS]);
            rows[seq[i] % SLOTS] = e[i].stack;
        }
        fed = seq[i];
        max--;
    }
}

/* KILLED: between the commit and what follows it. */
static void commit(bool killed)
{
    for (uint64_t seq = committed + 1; seq <= fed; seq++) {
        if (rows[seq % SLOTS] != 0 && !killed)
            vs_journal_access_give(j, rows[seq % SLOTS]);
        rows[seq % SLOTS] = 0;
    }
    committed = fed;
    if (killed)
        reader_begins();
    if (committed)
        vs_journal_release(j, committed);
}

TEST(every_block_has_its_uses_wherever_readers_were_left)
{
    char path[64];
    struct vs_journal_config c = {.ring_slots = SLOTS, .accesses = 2000, .database = "/nowhere.db"};
    snprintf(path, sizeof path, "/tmp/vs-uses-%d.vsj", (int)getpid());
    assert_int_equal(vs_journal_create(&j, path, &c), 0);
    unlink(path);
    srandom(7);
    reader_begins();
    for (uint32_t i = 0; i < EVENTS; i++) {
        struct vs_journal_stats stats;
        go_on();
        if (random() % 16 == 0)
            read_some((size_t)random() % 60);
        if (random() % 40 == 0)
            reader_begins();
        vs_journal_stats(j, &stats);
        if (random() % 60 == 0 || stats.head - committed > SLOTS / 2) {
            read_some(SLOTS);
            commit(random() % 4 == 0);
        }
    }
    read_some(SLOTS);
    commit(true);
    for (uint32_t at = 0; at < PLACES; at++) /* what lives, as a killed process leaves it */
        for (uint32_t id = 1; id < vs_journal_access_rows(j); id++)
            if (vs_journal_access(j, id)->address == address_of(at)) {
                assert_true(place[at].lives);
                is_as_the_model_says(vs_journal_access(j, id), &place[at]);
                place[at].lives = false;
            }
    for (uint32_t at = 0; at < PLACES; at++)
        assert_false(place[at].lives);
    vs_uses_free(uses);
    vs_journal_close(j);
}

/* ---- the database ---- */

/* A file whose ring had no room for some of the launches, and one whose had. */
static int file_of_launches(const char *path, uint32_t launches, struct vs_journal **out)
{
    char why[256], journal[64];
    struct vs_writer *w;
    struct vs_journal_config c = {.ring_slots = 64, .accesses = 10, .database = path};
    struct vs_event like = {.t_ns = 2000, .space = VS_ACCESS_IN_NONE, .status = VS_ACCESS_KERNEL};
    uint64_t word = BASE | VS_USE_SURE;
    snprintf(journal, sizeof journal, "/tmp/vs-uses-%d.vsj", (int)getpid());
    assert_int_equal(vs_journal_create(out, journal, &c), 0);
    unlink(journal);
    like.stack = vs_journal_string(*out, "kernel", 6);
    assert_int_equal(vs_writer_open(&w, &(struct vs_database){.path = path, .version = "test", .pid = 1},
                                    *out, why, sizeof why),
                     0);
    vs_journal_append(
        *out, &(struct vs_event){.t_ns = 1000, .address = BASE, .size = 512, .op = VS_OP_BLOCK_ALLOC});
    for (uint32_t i = 0; i < launches; i++, like.t_ns += 10)
        vs_journal_append_uses(*out, &like, &word, 1);
    while (vs_writer_drain(w, true) > 0)
        ;
    return vs_writer_close(w, true);
}

TEST(a_file_says_that_uses_were_lost_and_no_event)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/vs-uses-%d.db", (int)getpid());
    for (int lost = 0; lost < 2; lost++) {
        assert_int_equal(file_of_launches(path, lost ? 63 : 40, &j), 0);
        assert_int_equal(ask(path, "SELECT count(*) FROM loss WHERE code = 'uses' AND events = 0"), lost);
        assert_int_equal(ask(path, "SELECT count(*) FROM loss"), lost);
        assert_int_equal(ask(path, "SELECT count(*) FROM block_use WHERE unseen = 'partial'"), lost);
        assert_int_equal(ask(path, "SELECT uses FROM block_use") == 40, !lost);
        assert_int_equal(ask(path, "SELECT count(*) FROM ev"), 1);
        vs_journal_close(j);
        unlink(path);
    }
}
