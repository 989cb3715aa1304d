/*
 * test_ledger_model.c - random events against a reference that is as simple as the rules.
 *
 * The reference walks arrays, and knows every answer only afterwards: it goes over the rows that came out and
 * must find in each the totals that it counted itself.  Range peaks are compared with the maximum over the
 * rows between push and pop.
 */
#include "ledger_kit.h"

#define DEVICES 3
#define THREADS 4
#define N       60

struct model {
    struct {
        uint64_t address, size;
        int device, context;
        bool used, managed;
    } block[N], direct[N], phys[N];
    struct {
        uint32_t id;
        uint64_t peak[DEVICES];
    } open[THREADS][8];
    int depth[THREADS];
    uint64_t framework[DEVICES], driver[DEVICES], managed[DEVICES];
};

static uint64_t random_state;

static uint32_t rnd(uint32_t below)
{
    random_state = random_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(random_state >> 33) % below;
}

/* ---- making events (the framework's figures are the kit's per device) ---- */

static uint64_t totals[DEVICES], segments[DEVICES];
static struct model made; /* what the maker believes to live, so that frees hit */

static void make_block(struct kit *k)
{
    uint32_t i = rnd(N);
    int d = made.block[i].used ? made.block[i].device : (int)rnd(DEVICES);
    uint64_t size = made.block[i].used ? made.block[i].size : (1 + rnd(50)) * 512;
    uint64_t address = 0x100000000 + i * 0x100000;
    bool freed = made.block[i].used;
    totals[d] = freed ? totals[d] - size : totals[d] + size;
    feed(k, (struct vs_event){.op = freed ? VS_OP_BLOCK_FREE : VS_OP_BLOCK_ALLOC,
                              .device = (int8_t)d,
                              .address = address,
                              .size = size,
                              .arg0 = totals[d],
                              .arg1 = segments[d]});
    made.block[i].used = !freed;
    made.block[i].device = d;
    made.block[i].size = size;
}

/* Spaces that count as direct device memory; their context's end ends them, but for the graph's. */
static const uint8_t spaces[] = {VS_SPACE_DEVICE, VS_SPACE_ARRAY, VS_SPACE_GRAPH};

static void make_direct(struct kit *k)
{
    uint32_t i = rnd(N);
    int context = (int)rnd(5);
    uint64_t address = 0x900000000 + i * 0x1000000;
    if (made.direct[i].used)
        release(k, address);
    else
        feed(k, (struct vs_event){.op = VS_OP_ALLOC,
                                  .space = spaces[i % 3],
                                  .device = (int8_t)rnd(DEVICES),
                                  .context = (uint8_t)context,
                                  .address = address,
                                  .size = (1 + rnd(9)) * 1000});
    made.direct[i].context = spaces[i % 3] == VS_SPACE_GRAPH ? 0 : context;
    made.direct[i].used = !made.direct[i].used;
}

static void make_end_of_context(struct kit *k)
{
    int context = 1 + (int)rnd(4);
    feed(k, (struct vs_event){.op = VS_OP_CONTEXT_DESTROY,
                              .address = (uint64_t)context,
                              .context = (uint8_t)context,
                              .arg0 = VS_CONTEXT_CREATED});
    for (int i = 0; i < N; i++)
        if (made.direct[i].context == context)
            made.direct[i].used = false;
}

/* Life of a handle: created, mapped, released, unmapped (the last two in either order). */
static void make_phys(struct kit *k)
{
    uint32_t i = rnd(N);
    uint64_t handle = 7 + i, address = 0x50000000000 + i * 0x10000000;
    int *state = (int *)&made.phys[i].size;
    if (*state == 0)
        feed(k, (struct vs_event){.op = VS_OP_PHYS_CREATE,
                                  .device = (int8_t)rnd(DEVICES),
                                  .address = handle,
                                  .size = (1 + rnd(4)) * MIB,
                                  .arg0 = 1ull << 32});
    else if (*state == 1 && i % 3 == 0) /* into a sparse array, by the key i */
        feed(k, (struct vs_event){.op = VS_OP_BIND, .address = 0x900, .arg0 = handle, .arg1 = i});
    else if (*state == 1)
        vmm(k, VS_OP_MAP, address, MIB, handle);
    else if ((*state == 2) == (i % 2))
        vmm(k, VS_OP_PHYS_RELEASE, handle, 0, 0);
    else if (i % 3 == 0)
        feed(k, (struct vs_event){.op = VS_OP_UNBIND, .address = 0x900, .arg1 = i});
    else
        vmm(k, VS_OP_UNMAP, address, MIB, 0);
    *state = (*state + 1) % 4;
}

static uint32_t next_range;

static void make_range(struct kit *k)
{
    int t = (int)rnd(THREADS);
    k->thread = (uint16_t)(t + 1);
    if (made.depth[t] < 8 && rnd(2)) {
        uint32_t parent = made.depth[t] ? made.open[t][made.depth[t] - 1].id : 0;
        push(k, ++next_range, 1 + rnd(4), parent);
        made.open[t][made.depth[t]++].id = next_range;
    } else if (made.depth[t]) {
        pop(k, made.open[t][--made.depth[t]].id);
    }
}

static void make(struct kit *k, int events)
{
    for (int i = 0; i < events; i++) {
        k->thread = (uint16_t)(1 + rnd(THREADS));
        if (rnd(40) == 0)
            make_end_of_context(k);
        switch (rnd(8)) {
        case 0:
            make_direct(k);
            break;
        case 1:
            make_phys(k);
            break;
        case 2:
            make_range(k);
            break;
        default:
            make_block(k);
        }
    }
}

/* ---- the reference ---- */

static const struct vs_row *find_row(struct kit *k, uint64_t seq)
{
    for (size_t i = 0; i < k->out.rows.n; i++)
        if (k->out.rows.at[i].seq == seq)
            return &k->out.rows.at[i];
    fail_msg("no row %llu", (unsigned long long)seq);
    return NULL;
}

static bool ends(const struct vs_row *r)
{
    return r->op == VS_OP_FREE || r->op == VS_OP_CONTEXT_FREED || r->op == VS_OP_BLOCK_FREE ||
           r->op == VS_OP_PHYS_FREED || r->op == VS_OP_FREE_MISSED ||
           (r->op == VS_OP_PHYS_RELEASE && r->size);
}

static void count_row(struct kit *k, struct model *m, const struct vs_row *r)
{
    int d = r->device;
    if (r->op == VS_OP_BLOCK_ALLOC)
        m->framework[d] += r->size;
    if ((r->op == VS_OP_ALLOC || r->op == VS_OP_PHYS_CREATE) && !r->managed)
        m->driver[d] += r->size;
    if ((r->op == VS_OP_ALLOC || r->op == VS_OP_PHYS_CREATE) && r->managed)
        m->managed[d] += r->size;
    if (!ends(r))
        return;
    const struct vs_row *a = find_row(k, r->mate);
    assert_int_equal(a->size, r->size);
    assert_int_equal(a->device, d);
    if (a->op == VS_OP_BLOCK_ALLOC)
        m->framework[d] -= a->size;
    else if (a->managed)
        m->managed[d] -= a->size;
    else
        m->driver[d] -= a->size;
}

static void check_range(struct kit *k, const struct vs_range_row *range)
{
    for (int d = 0; d < DEVICES; d++) {
        uint64_t before = 0, peak = 0;
        bool any = false;
        for (size_t i = 0; i < k->out.rows.n; i++) {
            const struct vs_row *r = &k->out.rows.at[i];
            if (r->device != d || r->op == VS_OP_RANGE_PUSH || r->op == VS_OP_RANGE_POP)
                continue;
            uint64_t allocated = r->framework + r->direct;
            if (r->seq < range->first_seq)
                before = allocated;
            else if (range->t_pop < 0 || r->t <= range->t_pop)
                peak = allocated > peak ? allocated : peak;
            any |= range->t_pop < 0 || r->t <= range->t_pop;
        }
        if (any)
            assert_int_equal(peak_of(k, range->id, d)->allocated, before > peak ? before : peak);
    }
}

TEST(random_events_match_the_reference)
{
    for (uint64_t seed = 1; seed <= 25; seed++) {
        struct kit *k = NULL;
        struct model m = {0};
        kit_setup((void **)&k);
        random_state = seed;
        memset(&made, 0, sizeof made);
        memset(totals, 0, sizeof totals);
        next_range = 0;
        make(k, 1500);
        vs_ledger_finish(k->l, &k->out);
        for (size_t i = 0; i < k->out.rows.n; i++) {
            const struct vs_row *r = &k->out.rows.at[i];
            assert_int_equal(r->seq, i + 1);
            if (r->device < 0 || r->device >= DEVICES)
                continue;
            count_row(k, &m, r);
            assert_int_equal(r->framework, m.framework[r->device]);
            assert_int_equal(r->direct, m.driver[r->device]);
            assert_int_equal(r->reserved, m.driver[r->device] + m.managed[r->device]);
        }
        for (size_t i = 0; i < k->out.ranges.n; i++)
            check_range(k, &k->out.ranges.at[i]);
        assert_true(k->out.ranges.n > 50);
        assert_int_equal(k->out.no_memory, 0);
        assert_int_equal(k->out.mismatches.n, 0);
        kit_teardown((void **)&k);
    }
}
