/*
 * stretch.c - cuts the run into stretches, the units that the store folds when the file gets full.
 *
 *      events   ............S..............S.....................|.......S
 *      stretch  first          second        third (no step ends)  fourth
 *
 * A stretch ends with a training step (S) once it holds stretch_min events, and after stretch_max events at
 * the latest.  The cuts depend on the events alone, not on batches, so that a recovered file has the same
 * ones.  Zones end with their stretch, so a zone sums up rows of one stretch only.
 */
#include "internal.h"

#define STRETCH_MIN 1024
#define STRETCH_MAX 16384

/* About how many bytes a row takes in the file: itself, and its share of the tables beside `ev`. */
static uint64_t bytes_of(const struct vs_ledger *l, const struct vs_row *r)
{
    switch (r->op) {
    case VS_OP_RANGE_POP:
        return 140 + 36 * (uint64_t)l->devices;
    case VS_OP_SAMPLE:
    case VS_OP_STEP:
    case VS_OP_MARK:
        return 112;
    default:
        return 56;
    }
}

static uint64_t step_under_way(const struct vs_ledger *l, const struct vs_row *r)
{
    return r->op == VS_OP_STEP ? l->step : l->step + 1;
}

static void start(struct vs_ledger *l, const struct vs_row *r)
{
    l->stretch = (struct vs_stretch_row){
        .first_seq = r->seq, .t_first = r->t, .first_step = step_under_way(l, r), .open = true};
}

static bool full(const struct vs_ledger *l, const struct vs_row *r)
{
    uint64_t events = r->seq - l->stretch.first_seq + 1;
    uint64_t max = l->config.stretch_max ? l->config.stretch_max : STRETCH_MAX;
    uint64_t min = l->config.stretch_min ? l->config.stretch_min : STRETCH_MIN;
    return events >= max || (r->op == VS_OP_STEP && events >= min);
}

/* Called for each row; WRITTEN: it goes to the file. */
void vs_stretch_row(struct vs_ledger *l, const struct vs_row *r, bool written)
{
    struct vs_stretch_row *s = &l->stretch;
    if (!s->open)
        start(l, r);
    s->last_seq = r->seq;
    s->t_last = r->t;
    s->last_step = step_under_way(l, r);
    s->steps += r->op == VS_OP_STEP;
    s->ranges += r->op == VS_OP_RANGE_POP;
    s->samples += r->op == VS_OP_SAMPLE;
    s->unwritten += !written;
    s->bytes += bytes_of(l, r);
    if (!full(l, r))
        return;
    s->open = false;
    vs_zones_close(l);
    vs_list_push(&l->out->stretches, l->out->no_memory, *s);
}

/* The stretch that is not full yet: a writer that continues the file goes on with it. */
void vs_stretch_end_batch(struct vs_ledger *l)
{
    if (l->stretch.open)
        vs_list_push(&l->out->stretches, l->out->no_memory, l->stretch);
}

/* Called before the zones are closed: those of earlier stretches are complete. */
void vs_ledger_restore_stretch(struct vs_ledger *l, const struct vs_stretch_row *row)
{
    l->stretch = *row;
}
