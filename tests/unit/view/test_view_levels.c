/* test_view_levels.c - the columns of every level against a look at every event; who held what in their
 * states. */

#include "unit/says.h"
#include "made_up.h"
#include "view/dims.h"
#include "view/levels.h"
#include "view/view.h"

struct truth {
    int64_t max, min, last, t_max, reserved_max, reserved_min, reserved_last;
    size_t events, at_max, at_last;
};

/* The curve over [FROM, TO) as a step function, from every change there is. */
static struct truth look(const struct trace_lives *l, int64_t from, int64_t to)
{
    struct truth r = {0};
    size_t i = 0;
    for (; i < l->change_count && l->changes[i].t < from; i++) {
        r.last = l->changes[i].allocated;
        r.reserved_last = l->changes[i].reserved;
    }
    r.max = r.min = r.last;
    r.reserved_max = r.reserved_min = r.reserved_last;
    r.t_max = from;
    r.at_max = r.at_last = i;
    for (; i < l->change_count && l->changes[i].t < to; i++) {
        const struct trace_change *c = &l->changes[i];
        r.events++;
        if (c->allocated > r.max) {
            r.max = c->allocated;
            r.t_max = c->t;
            r.at_max = i + 1;
        }
        r.min = c->allocated < r.min ? c->allocated : r.min;
        r.reserved_max = c->reserved > r.reserved_max ? c->reserved : r.reserved_max;
        r.reserved_min = c->reserved < r.reserved_min ? c->reserved : r.reserved_min;
        r.last = c->allocated;
        r.reserved_last = c->reserved;
        r.at_last = i + 1;
    }
    return r;
}

static void expect_column(const struct trace_lives *l, const struct view_column *c, int64_t width)
{
    struct truth r = look(l, c->index * width, (c->index + 1) * width);
    SAYS(c, .events = r.events, .max = r.max, .min = r.min, .last = r.last, .t_max = r.t_max,
         .reserved_max = r.reserved_max, .reserved_min = r.reserved_min, .reserved_last = r.reserved_last,
         .at_max = r.at_max, .at_last = r.at_last);
}

TEST(each_column_of_each_level_has_the_extremes_of_its_events)
{
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct made_up m = make_up(seed, 1500, seed % 2 ? 12345 : 0);
        struct view_levels l =
            view_levels(m.lives.changes, m.lives.change_count, m.last, seed == 3 ? 300 : 100000, 1);
        assert_true(l.count >= 1);
        for (size_t i = 0; i < l.count; i++) {
            size_t events = 0;
            for (size_t k = 0; k < l.levels[i].count; k++) {
                const struct view_column *c = &l.levels[i].columns[k];
                expect_column(&m.lives, c, l.levels[i].width);
                assert_true(c->events > 0);
                assert_int_equal(c->gap, k + 1 == l.levels[i].count || c[1].index != c->index + 1);
                events += c->events;
            }
            assert_int_equal(events, m.lives.change_count); /* no event is in no column */
        }
        view_free_levels(&l);
        trace_free_lives(&m.lives);
    }
}

TEST(a_level_beyond_the_room_is_left_out_and_the_root_never)
{
    struct made_up m = make_up(9, 20000, 0);
    struct view_levels all = view_levels(m.lives.changes, m.lives.change_count, m.last, 1000000, 1);
    struct view_levels few = view_levels(m.lives.changes, m.lives.change_count, m.last, 4000, 1);
    struct view_levels none = view_levels(m.lives.changes, m.lives.change_count, m.last, 0, 1);
    assert_true(all.count > few.count && none.count == 1);
    assert_true(few.levels[few.count - 1].count <= 4000);
    assert_true(none.levels[0].count <= VIEW_ROOT + 1);
    struct view_levels counted =
        view_levels(m.lives.changes, m.lives.change_count, m.last, 1000000, VIEW_CROWD);
    const struct view_level *finest = &counted.levels[counted.count - 1];
    assert_true(counted.count < all.count && finest->count < all.levels[all.count - 1].count);
    for (size_t i = 0; i < finest->count; i++)
        assert_true(finest->columns[i].events <= VIEW_CROWD);
    view_free_levels(&counted);
    view_free_levels(&all);
    view_free_levels(&few);
    view_free_levels(&none);
    trace_free_lives(&m.lives);
}

TEST(a_run_without_events_or_of_one_moment_has_its_columns)
{
    struct view_levels none = view_levels(NULL, 0, 1000, 100, 1);
    assert_true(none.count >= 1 && none.levels[0].count == 0);
    struct trace_change one = {.t = 0, .allocated = 512, .block = UINT32_MAX};
    struct view_levels l = view_levels(&one, 1, 0, 100, 1);
    assert_int_equal(l.levels[0].count, 1);
    assert_int_equal(l.levels[0].columns[0].max, 512);
    view_free_levels(&none);
    view_free_levels(&l);
}

/* ---- who held it ---- */

static const char *const phases[] = {"none", "forward", "logits", "backward", "optimizer"};

static struct view_tags tags_of(struct trace_stack_row *rows, size_t n)
{
    static char texts[64][16];
    struct trace_stacks s = {.rows = rows, .count = n};
    for (size_t i = 0; i < n; i++) {
        snprintf(texts[i], sizeof texts[i], "line %zu", i % 30);
        rows[i] = (struct trace_stack_row){.id = (int64_t)i + 1, .line = i % 7 ? texts[i] : NULL};
    }
    return view_tags(&s);
}

/* Blocks of the first 40 stacks are tensors of 25 names; of the row 0 nothing is known. */
static struct view_asked asked_of(struct trace_lives *l)
{
    static char texts[25][16];
    static uint32_t name[41];
    struct view_asked a = {.name = name};
    texts_index(&a.names, "no tensor is known", NULL);
    for (uint32_t i = 1; i <= 40; i++) {
        snprintf(texts[i % 25], sizeof texts[i % 25], "float32 [%u]", i % 25);
        name[i] = texts_index(&a.names, texts[i % 25], NULL);
    }
    for (size_t i = 0; i < l->block_count; i++)
        l->blocks[i].tensor = (uint32_t)(i * 7 % 41);
    return a;
}

TEST(in_every_state_the_slots_add_up_and_are_the_living_blocks)
{
    struct trace_stack_row rows[40];
    struct view_tags g = tags_of(rows, 40);
    struct made_up m = make_up(4, 900, 777);
    struct view_asked a = asked_of(&m.lives);
    struct view_dims d = view_dims(&m.lives, phases, 5, &g, &a);
    struct view_state s = {0};
    assert_int_equal(d.names[VIEW_LINE].named_count, VIEW_NAMED);
    assert_true(d.names[VIEW_LINE].rest_names > 0);
    SAYS(&d.names[VIEW_TENSOR], .count = 26, .named_count = VIEW_NAMED);
    for (size_t at = 0; at <= m.lives.change_count; at++) {
        int64_t held[VIEW_DIMS][VIEW_SLOTS] = {0}, total = at ? m.lives.changes[at - 1].allocated : 0;
        view_state_forward(&d, &s, at);
        for (size_t i = 0; i < at; i++) {
            const struct trace_change *c = &m.lives.changes[i];
            int64_t size = m.lives.blocks[c->block].size;
            for (int dim = 0; dim < VIEW_DIMS; dim++)
                held[dim][d.slots[c->block][dim]] += c->what == CHANGE_BORN ? size : -size;
        }
        for (int dim = 0; dim < VIEW_DIMS; dim++) {
            int64_t sum = 0;
            for (int slot = 0; slot < VIEW_SLOTS; slot++) {
                assert_true(slot == 0 || s.bytes[dim][slot] == held[dim][slot]);
                sum += s.bytes[dim][slot];
            }
            assert_int_equal(sum, total);
            assert_int_equal(s.bytes[dim][0], at ? 777 : 0); /* what was held before */
        }
    }
    view_free_dims(&d);
    view_free_tags(&g);
    texts_free(&a.names);
    trace_free_lives(&m.lives);
}

TEST(equal_layers_are_one_name_and_one_alone_has_its_own)
{
    static const char *const layers[] = {"Net.layers.0.mlp", "Net.layers.11", "Net.head.out.0", NULL,
                                         "Net.layers.0.attn"};
    struct trace_stack_row rows[5];
    for (size_t i = 0; i < 5; i++)
        rows[i] = (struct trace_stack_row){.id = (int64_t)i + 1, .layer = layers[i]};
    struct trace_stacks s = {.rows = rows, .count = 5};
    struct view_tags g = view_tags(&s);
    static const char *const folds[] = {"Net.layers.*", "Net.layers.*", "Net.head.out.0", "no layer",
                                        "Net.layers.*"};
    uint32_t owns[5];
    for (size_t i = 0; i < 5; i++) {
        uint32_t layer = g.stack_layer[i + 1];
        assert_string_equal(g.folds.at[g.layer_fold[layer]], folds[i]);
        owns[i] = g.layer_own[layer];
    }
    assert_true(owns[0] == owns[4] && owns[0] != owns[1]);
    view_free_tags(&g);
}

TEST(the_names_with_slots_are_those_that_once_held_most)
{
    struct trace_stack_row rows[40];
    struct view_tags g = tags_of(rows, 40);
    struct made_up m = make_up(5, 900, 0);
    struct view_asked a = asked_of(&m.lives);
    struct view_dims d = view_dims(&m.lives, phases, 5, &g, &a);
    const struct view_names *names = &d.names[VIEW_LINE];
    int64_t now[64] = {0}, most[64] = {0}, least_named = INT64_MAX, greatest_rest = 0;
    for (size_t i = 0; i < m.lives.change_count; i++) {
        const struct trace_change *c = &m.lives.changes[i];
        uint32_t name = g.stack_line[m.lives.blocks[c->block].stack];
        now[name] += c->what == CHANGE_BORN ? m.lives.blocks[c->block].size : -m.lives.blocks[c->block].size;
        most[name] = now[name] > most[name] ? now[name] : most[name];
    }
    for (size_t i = 0; i < names->count; i++)
        if (names->slot[i] == VIEW_REST)
            greatest_rest = most[i] > greatest_rest ? most[i] : greatest_rest;
        else
            least_named = most[i] < least_named ? most[i] : least_named;
    assert_true(least_named >= greatest_rest);
    view_free_dims(&d);
    view_free_tags(&g);
    texts_free(&a.names);
    trace_free_lives(&m.lives);
}

/* ---- numbers as bytes ---- */

static uint64_t read_number(const struct pack *p, size_t *at)
{
    uint64_t value = 0;
    for (int shift = 0;; shift += 7) {
        unsigned char byte = p->bytes[(*at)++];
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return value;
    }
}

TEST(numbers_are_read_as_they_were_written)
{
    static const int64_t values[] = {
        0, 1, 127, 128, 511, 512, 513, 1 << 20, (INT64_C(1) << 40) + 1, INT64_C(1) << 52};
    struct pack p = {0};
    size_t n = sizeof values / sizeof *values, at = 0;
    for (size_t i = 0; i < n; i++) {
        pack_number(&p, (uint64_t)values[i]);
        pack_signed(&p, -values[i]);
        pack_memory(&p, values[i]);
        pack_memory_signed(&p, -values[i]);
    }
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(read_number(&p, &at), values[i]);
        uint64_t folded = read_number(&p, &at);
        assert_int_equal(folded, values[i] ? 2 * values[i] - 1 : 0);
        uint64_t memory = read_number(&p, &at);
        assert_int_equal(memory % 2 ? memory / 2 : memory / 2 * 512, values[i]);
        memory = read_number(&p, &at);
        uint64_t size = (memory / 2 + 1) / 2;
        assert_int_equal(memory % 2 ? size : size * 512, values[i]);
    }
    assert_int_equal(at, p.size);
    pack_free(&p);
}
