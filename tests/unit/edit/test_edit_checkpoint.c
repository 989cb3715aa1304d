/* test_edit_checkpoint.c - checkpoint=N: what a checkpointed unit keeps, and when it is made again. */
#include "made.h"

/* i is the input; p, q and r are unit 0's, r its output; P, Q and R unit 1's */
static const struct known units[] = {{'i', MIB(1), KIND_SAVED, NOWHERE},
                                     {'p', MIB(10), KIND_SAVED, UNIT0},
                                     {'q', MIB(3), KIND_FORWARD, UNIT0},
                                     {'r', MIB(1), KIND_SAVED, UNIT0},
                                     {'P', MIB(10), KIND_SAVED, UNIT1},
                                     {'R', MIB(1), KIND_SAVED, UNIT1},
                                     {'y', MIB(1), KIND_BACKWARD, UNIT1},
                                     {'z', MIB(1), KIND_BACKWARD, UNIT0},
                                     {0}};

#define UNITS "f+i f+p f+q f-q f+r f+P f+R b-R b+y b-P b-r b+z b-y b-p b-i b-z |"

TEST(checkpointed_units_keep_their_input_and_are_made_again_one_by_one)
{
    struct made m;
    make(&m, UNITS UNITS, units);
    assert_int_equal(peak_of(&m.p, NULL), MIB(1 + 10 + 1 + 10 + 1));
    struct peaks p = edited(&m, "checkpoint=1");
    /* unit 0 again: up to p beside i and r's successor y, or its temporary as well; unit 1 again: i, r, P, y
     */
    assert_int_equal(p.phase[FORWARD], MIB(1 + 10 + 3));
    assert_int_equal(p.phase[BACKWARD], MIB(1 + 10 + 1 + 1));
    assert_int_equal(p.high_backward, MIB(1 + 10 + 3 + 1));
    /* every second unit, from the first: unit 1 is as it was */
    p = edited(&m, "checkpoint=2");
    assert_int_equal(p.phase[FORWARD], MIB(1 + 10 + 3));
    assert_int_equal(p.high_backward, MIB(1 + 10 + 3 + 1));
}

TEST(an_output_that_its_unit_saves_is_kept_and_made_again)
{
    static const struct known relu[] = {{'i', MIB(1), KIND_SAVED, NOWHERE},
                                        {'p', MIB(10), KIND_SAVED, UNIT0},
                                        {'r', MIB(4), KIND_SAVED, UNIT0},
                                        {'R', MIB(4), KIND_SAVED, UNIT1},
                                        {'y', MIB(1), KIND_BACKWARD, UNIT1},
                                        {'z', MIB(1), KIND_BACKWARD, UNIT0},
                                        {0}};
    struct made m;
    make(&m, "f+i f+p f+r f+R b+y b-R b+z b-y b-r b-p b-i b-z |", relu);
    struct peaks p = edited(&m, "checkpoint=1");
    assert_int_equal(p.phase[FORWARD], MIB(1 + 10 + 4));
    /* unit 1 again beside i, r and R; unit 0 again: i, p, r, y */
    assert_int_equal(p.phase[BACKWARD], MIB(1 + 10 + 4 + 1 + 1));
}

TEST(an_output_that_nobody_saves_is_a_temporary_and_not_the_first_that_backward_frees)
{
    /* unit 0 gives t, of which x is made, and saves p and q; unit 1 saves x */
    static const struct known up[] = {{'i', MIB(1), KIND_SAVED, NOWHERE},
                                      {'p', MIB(10), KIND_SAVED, UNIT0},
                                      {'q', MIB(4), KIND_SAVED, UNIT0},
                                      {'t', MIB(2), KIND_FORWARD, UNIT0},
                                      {'x', MIB(8), KIND_SAVED, NOWHERE},
                                      {'P', MIB(16), KIND_SAVED, UNIT1},
                                      {'y', MIB(1), KIND_BACKWARD, UNIT1},
                                      {'z', MIB(1), KIND_BACKWARD, UNIT0},
                                      {0}};
    struct made m;
    make(&m, "f+i f+p f+q f+t f+x f-t f+P b+y b-P b-x b+z b-y b-q b-p b-i b-z |", up);
    struct peaks p = edited(&m, "checkpoint=1");
    assert_int_equal(p.phase[FORWARD], MIB(1 + 8 + 16)); /* behind unit 0 neither p nor q is there */
    assert_int_equal(p.phase[BACKWARD], MIB(1 + 8 + 16 + 1));
    assert_int_equal(p.high_backward, MIB(1 + 8 + 16 + 1 + 2)); /* or the next unit's checkpoint keeps t */
    /* where t is gone by then, q was the output */
    make(&m, "f+i f+p f+q f+t f-t f+x f+P b+y b-P b-x b+z b-y b-q b-p b-i b-z |", up);
    assert_int_equal(edited(&m, "checkpoint=1").phase[FORWARD], MIB(1 + 4 + 8 + 16));
}

TEST(what_a_call_made_is_gone_at_the_latest_with_its_unit_and_at_the_earliest_with_the_next_call)
{
    /* of unit 0 three calls: p and its mask r by one, q by the next, s by a third */
    static const struct known calls[] = {{'i', MIB(1), KIND_SAVED, NOWHERE},
                                         {'p', MIB(10), KIND_SAVED, UNIT0},
                                         {'r', MIB(2), KIND_SAVED, UNIT0},
                                         {'q', MIB(10), KIND_SAVED, NODE0},
                                         {'s', MIB(10), KIND_SAVED, NORM},
                                         {'R', MIB(1), KIND_SAVED, UNIT1},
                                         {'y', MIB(1), KIND_BACKWARD, UNIT1},
                                         {'z', MIB(1), KIND_BACKWARD, UNIT0},
                                         {0}};
    struct made m;
    make(&m, "f+i f+p f+r f+q f+s f+R b+y b-R b+z b-s b-q b-r b-p b-i b-y b-z |", calls);
    struct peaks p = edited(&m, "checkpoint=1");
    assert_int_equal(p.phase[FORWARD], MIB(1 + 10 + 10)); /* q, and then s, beside what it was made of */
    assert_int_equal(p.high_forward, MIB(1 + 10 + 2 + 10 + 10));
}

TEST(what_is_made_again_may_go_before_its_node_ends_and_the_second_forward_with_what_is_saved_last)
{
    /* unit 0 saves p, then makes the temporary t of its output; backward's node makes y and then z of p */
    static const struct known node[] = {
        {'i', MIB(1), KIND_SAVED, NOWHERE},  {'p', MIB(10), KIND_SAVED, UNIT0},
        {'t', MIB(30), KIND_FORWARD, UNIT0}, {'x', MIB(1), KIND_SAVED, UNIT1},
        {'w', MIB(1), KIND_BACKWARD, UNIT1}, {'y', MIB(2), KIND_BACKWARD, UNIT0},
        {'z', MIB(4), KIND_BACKWARD, UNIT0}, {0}};
    struct made m;
    make(&m, "f+i f+p f+t f-t f+x b+w b-x b+y b+z b-p b-w b-z b-y b-i |", node);
    struct peaks p = edited(&m, "checkpoint=1");
    assert_int_equal(p.phase[BACKWARD], MIB(1 + 1 + 10 + 2)); /* i, w, p and y: t is not made again */
    assert_int_equal(p.high_backward, MIB(1 + 1 + 10 + 30));
    /* a convolution has p as long as it runs */
    struct edit_stack was = stacks[UNIT0];
    stacks[UNIT0].convolves = true;
    p = edited(&m, "checkpoint=1");
    stacks[UNIT0] = was;
    assert_int_equal(p.phase[BACKWARD], MIB(1 + 1 + 10 + 2 + 4));
}

TEST(without_layers_checkpointing_is_refused_with_what_is_missing)
{
    struct edit_facts none = facts;
    struct made m;
    none.units = 0;
    none.layers = false;
    make(&m, FIRST, step);
    m.p.facts = &none;
    assert_refused(&m, "checkpoint=1", "no layers");
    none.forward = none.backward = none.optimizer = EDIT_NO_PHASE;
    assert_refused(&m, "foreach=no", "no phases");
}
