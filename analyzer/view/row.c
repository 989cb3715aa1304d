/*
 * row.c - one device of one process: its curve, its blocks, what the driver said of it.
 *
 * A level is cut into parts of PART columns, each a script element of its own that needs none of the others:
 * the page unpacks what it shows.  A part is a list of sections, one a field, as deflate is good at numbers
 * of a kind beside each other.
 */
#include "view.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/oom.h"
#include "analysis/unused.h"
#include "base/shown.h"
#include "base/units.h"
#include "read/curve.h"
#include "read/ooms.h"
#include "read/steps.h"
#include "read/tables.h"
#include "show/report/unused.h"
#include "levels.h"

enum { PART = 8192, BLOCK_PART = 32768, SAMPLES = 4000, AWAYS = 16384 };

struct device_row {
    int64_t device;
    struct trace_lives lives;
    struct view_dims dims;
    struct trace_oom_kept *ooms; /* of every device */
    size_t oom_count;
};

static char *next_id(struct view_part *p)
{
    return xformat("d%u", p->number++);
}

/* ---- columns ---- */

enum { INDEX, EVENTS, FLAGS, MAX, MIN, LAST, T_MAX, RESERVED_MAX, RESERVED_MIN, RESERVED_LAST, FIELDS };

static void pack_column(struct pack *fields, const struct view_column *c, const struct view_column *before,
                        int64_t width)
{
    pack_number(&fields[INDEX], before ? c->index - before->index : c->index);
    pack_number(&fields[EVENTS], c->events);
    pack_number(&fields[FLAGS], (unsigned)c->gap | (unsigned)c->folded << 1);
    pack_memory_signed(&fields[MAX], c->max - (before ? before->last : 0));
    pack_memory(&fields[MIN], c->max - c->min);
    pack_memory(&fields[LAST], c->max - c->last);
    pack_number(&fields[T_MAX], (uint64_t)(c->t_max - c->index * width));
    pack_memory_signed(&fields[RESERVED_MAX], c->reserved_max - (before ? before->reserved_last : 0));
    pack_memory(&fields[RESERVED_MIN], c->reserved_max - c->reserved_min);
    pack_memory(&fields[RESERVED_LAST], c->reserved_max - c->reserved_last);
}

/* How many slots differ from the state before, and those; of tensors none where none are known (TENSORS). */
static void pack_state(struct pack *dims, const struct view_state *s, struct view_state *before, bool tensors)
{
    for (int dim = 0; dim < VIEW_DIMS; dim++) {
        unsigned differ = 0;
        if (dim == VIEW_TENSOR && !tensors) {
            pack_byte(&dims[dim], 0);
            continue;
        }
        for (int slot = 0; slot < VIEW_SLOTS; slot++)
            differ += s->bytes[dim][slot] != before->bytes[dim][slot];
        pack_byte(&dims[dim], differ);
        for (unsigned slot = 0; slot < VIEW_SLOTS; slot++)
            if (s->bytes[dim][slot] != before->bytes[dim][slot]) {
                pack_byte(&dims[dim], slot);
                pack_memory_signed(&dims[dim], s->bytes[dim][slot] - before->bytes[dim][slot]);
            }
    }
    *before = *s;
}

/* N columns from C on; of each the state at its greatest value, and where a gap follows the one that it left.
 */
static void pack_part(struct pack *out, const struct view_column *c, size_t n, int64_t width,
                      const struct view_dims *d, struct view_state *s, bool tensors)
{
    struct pack fields[FIELDS] = {0}, dims[VIEW_DIMS] = {0};
    struct view_state before = {0};
    for (size_t i = 0; i < n; i++) {
        pack_column(fields, &c[i], i ? &c[i - 1] : NULL, width);
        view_state_forward(d, s, c[i].at_max);
        pack_state(dims, s, &before, tensors);
        if (c[i].gap) {
            view_state_forward(d, s, c[i].at_last);
            pack_state(dims, s, &before, tensors);
        }
    }
    pack_number(out, n);
    for (int i = 0; i < FIELDS; i++) {
        pack_section(out, &fields[i]);
        pack_free(&fields[i]);
    }
    for (int i = 0; i < VIEW_DIMS; i++) {
        pack_section(out, &dims[i]);
        pack_free(&dims[i]);
    }
}

static void write_level(struct view_part *p, const struct view_level *l, const struct view_dims *d)
{
    struct view_state s = {0};
    json_begin(p->head, NULL, '{');
    json_int(p->head, "width", l->width);
    json_int(p->head, "columns", (int64_t)l->count);
    json_begin(p->head, "parts", '[');
    for (size_t i = 0; i < l->count; i += PART) {
        struct pack part = {0};
        size_t n = l->count - i < PART ? l->count - i : PART;
        pack_part(&part, l->columns + i, n, l->width, d, &s, p->tensors);
        char *id = next_id(p);
        pack_write(&part, id, p->body);
        json_begin(p->head, NULL, '{');
        json_text(p->head, "id", id);
        json_int(p->head, "first", l->columns[i].index);
        json_int(p->head, "last", l->columns[i + n - 1].index);
        json_end(p->head);
        free(id);
    }
    json_end(p->head);
    json_end(p->head);
}

static void write_levels(struct view_part *p, const struct view_levels *l, const struct view_dims *d)
{
    json_begin(p->head, "levels", '[');
    for (size_t i = 0; i < l->count; i++)
        write_level(p, &l->levels[i], d);
    json_end(p->head);
}

/* ---- blocks ---- */

enum { SEQ, BORN, LIFE, SIZE, STACK, PHASE, ROLE, FIRST_USE, LAST_USE, TENSOR, BLOCK_FIELDS };

/* TENSOR: view_use_asked. */
static void pack_block(struct pack *f, const struct trace_block *b, const struct trace_use *use,
                       const struct trace_block *before, uint32_t tensor)
{
    bool used = use && use->first != UNKNOWN;
    pack_number(&f[SEQ], (uint64_t)(b->seq - (before ? before->seq : 0)));
    pack_number(&f[BORN], (uint64_t)(b->born - (before ? before->born : 0)));
    pack_number(&f[LIFE], b->died == UNKNOWN ? 0 : (uint64_t)(b->died - b->born) + 1);
    pack_memory(&f[SIZE], b->size);
    pack_number(&f[STACK], b->stack);
    pack_number(&f[PHASE], b->phase);
    pack_number(&f[ROLE], (uint64_t)b->role << 1 | b->framework);
    pack_number(&f[FIRST_USE], used && use->first >= b->born ? (uint64_t)(use->first - b->born) + 1 : 0);
    pack_number(&f[LAST_USE], used && use->last >= use->first ? (uint64_t)(use->last - use->first) : 0);
    pack_number(&f[TENSOR], tensor);
}

static void write_block_part(struct view_part *p, struct pack *fields, size_t n)
{
    struct pack part = {0};
    char *id = next_id(p);
    pack_number(&part, n);
    for (int i = 0; i < BLOCK_FIELDS; i++)
        pack_section(&part, &fields[i]);
    pack_write(&part, id, p->body);
    json_text(p->head, NULL, id);
    free(id);
}

static void write_blocks(struct view_part *p, struct view_process *process, const struct trace_lives *l,
                         const struct view_kept *kept)
{
    struct pack fields[BLOCK_FIELDS] = {0};
    const struct trace_block *before = NULL;
    size_t n = 0;
    json_begin(p->head, "blocks", '[');
    for (size_t i = 0; i < l->block_count; i++) {
        if (!kept->kept[i])
            continue;
        pack_block(fields, &l->blocks[i], l->uses ? &l->uses[i] : NULL, before,
                   view_use_asked(&process->asked, l->blocks[i].tensor));
        view_use_stack(process, l->blocks[i].stack);
        before = &l->blocks[i];
        if (++n == BLOCK_PART) {
            write_block_part(p, fields, n);
            before = NULL;
            n = 0;
        }
    }
    if (n)
        write_block_part(p, fields, n);
    for (int i = 0; i < BLOCK_FIELDS; i++)
        pack_free(&fields[i]);
    json_end(p->head);
}

/* ---- what is known of the device ---- */

static void write_dims(struct view_part *p, const struct view_dims *d)
{
    static const char *const titles[] = {"role", "layer", "line", "phase", "tensor"};
    json_begin(p->head, "dims", '[');
    for (int dim = 0; dim < VIEW_DIMS; dim++) {
        const struct view_names *names = &d->names[dim];
        json_begin(p->head, NULL, '{');
        json_text(p->head, "name", titles[dim]);
        json_int(p->head, "rest_names", names->rest_names);
        json_begin(p->head, "slots", '[');
        for (size_t i = 1; i <= names->named_count; i++)
            json_text(p->head, NULL, names->texts[names->named[i]]);
        json_end(p->head);
        json_begin(p->head, "named", '[');
        for (size_t i = 1; i <= names->named_count; i++)
            json_int(p->head, NULL, names->named[i]);
        json_end(p->head);
        json_end(p->head);
    }
    json_end(p->head);
}

/* What lived at T, where the curve has ALLOCATED: exact however wide the finest columns are. */
static void write_state(struct view_part *p, const struct device_row *r, int64_t t, int64_t allocated)
{
    const struct trace_lives *l = &r->lives;
    struct view_state s = {0};
    size_t at = 0;
    for (size_t i = 0; i < l->change_count && l->changes[i].t <= t; i++)
        at = l->changes[i].allocated == allocated ? i + 1 : l->changes[i].t == t ? at : 0;
    if (!at)
        return;
    view_state_forward(&r->dims, &s, at);
    json_int(p->head, "reserved_then", l->changes[at - 1].reserved);
    json_begin(p->head, "held", '[');
    for (int dim = 0; dim < VIEW_DIMS; dim++) {
        json_begin(p->head, NULL, '[');
        for (int slot = 0; slot < VIEW_SLOTS; slot++)
            json_int(p->head, NULL, s.bytes[dim][slot]);
        json_end(p->head);
    }
    json_end(p->head);
}

static void write_peak(struct view_part *p, const struct trace *t, const struct device_row *r,
                       const char *kind)
{
    const struct trace_peak *peak = trace_find_peak(t, r->device, kind);
    json_begin(p->head, kind, '{');
    json_int(p->head, "bytes", peak ? peak->bytes : UNKNOWN);
    json_int(p->head, "t", peak ? peak->t : UNKNOWN);
    json_bool(p->head, "at_least", peak && peak->at_least);
    json_bool(p->head, "at_most", peak && peak->at_most);
    if (peak && peak->t != UNKNOWN && !strcmp(kind, "allocated"))
        write_state(p, r, peak->t, peak->bytes);
    json_end(p->head);
}

/* Of many samples in a row the greatest: SAMPLES or fewer. */
static int write_samples(struct view_part *p, struct trace *t, int64_t device)
{
    struct trace_sample *samples;
    size_t n, each;
    if (trace_samples(t, device, &samples, &n))
        return -1;
    each = n / SAMPLES + 1;
    json_begin(p->head, "samples", '[');
    for (size_t i = 0; i < n; i += each) {
        size_t best = i;
        for (size_t k = i; k < n && k < i + each; k++)
            if (samples[k].driver_used > samples[best].driver_used)
                best = k;
        if (samples[best].driver_used == UNKNOWN)
            continue;
        json_begin(p->head, NULL, '[');
        json_int(p->head, NULL, samples[best].t);
        json_int(p->head, NULL, samples[best].driver_used);
        bool own = samples[best].source && !strcmp(samples[best].source, "nvml_process");
        json_int(p->head, NULL, !own); /* 1: of the whole device */
        json_end(p->head);
    }
    json_end(p->head);
    json_int(p->head, "samples_each", (int64_t)each);
    free(samples);
    return 0;
}

/* What of allocated was on the host, from when on; of many changes in a row the greatest. */
struct aways {
    struct json *j;
    const struct trace_away *at;
    size_t n, each;
    size_t most; /* of those that are written together, the one with the most */
};

static void write_away(void *context, size_t i, const struct trace_away_part *parts, size_t n)
{
    struct aways *a = context;
    size_t first = i - i % a->each;
    if (i == first)
        for (size_t k = a->most = i; k < a->n && k < i + a->each; k++)
            a->most = a->at[k].bytes > a->at[a->most].bytes ? k : a->most;
    if (i != a->most)
        return;
    char *words = trace_away_words(parts, n, AWAY_WORDS);
    json_begin(a->j, NULL, '[');
    json_int(a->j, NULL, a->at[first].t);
    json_int(a->j, NULL, a->at[i].bytes);
    if (*words)
        json_text(a->j, NULL, words);
    json_end(a->j);
    free(words);
}

static int write_aways(struct view_part *p, struct trace *t, int64_t device)
{
    struct trace_away *aways;
    size_t n;
    if (trace_aways(t, device, &aways, &n))
        return -1;
    struct aways a = {.j = p->head, .at = aways, .n = n, .each = n / AWAYS + 1};
    int64_t *seqs = xrealloc(NULL, (n + 1) * sizeof *seqs);
    for (size_t i = 0; i < n; i++)
        seqs[i] = aways[i].seq;
    if (n)
        json_begin(p->head, "aways", '[');
    int result = trace_each_away(t, device, seqs, n, write_away, &a);
    if (n)
        json_end(p->head);
    free(seqs);
    free(aways);
    return result;
}

/* The run ended when the last of N was refused: where the report begins with it, the page does. */
static const struct trace_oom_kept *last_words(struct trace *t, const struct trace_oom_kept *ooms, size_t n)
{
    const struct trace_oom_kept *last = oom_last(ooms, n);
    return last && last->t != UNKNOWN && trace_steps_after(t, last->t) <= 0 ? last : NULL;
}

static void write_ooms(struct view_part *p, struct view_process *process, const struct device_row *r)
{
    const struct trace_oom_kept *ooms = r->ooms, *last = last_words(process->t, ooms, r->oom_count);
    json_begin(p->head, "ooms", '[');
    for (size_t i = 0; i < r->oom_count; i++) {
        if (ooms[i].device != r->device || ooms[i].t == UNKNOWN)
            continue;
        const struct trace_stack_row *row = trace_find_stack(&process->stacks, ooms[i].stack);
        json_begin(p->head, NULL, '{');
        json_int(p->head, "t", ooms[i].t);
        json_int(p->head, "requested", ooms[i].requested);
        json_int(p->head, "free", ooms[i].free);
        json_int(p->head, "bytes", ooms[i].framework + ooms[i].direct);
        json_text(p->head, "phase", shown(ooms[i].phase));
        json_text(p->head, "line", row && row->line ? shown(row->line) : NULL);
        json_int(p->head, "step", ooms[i].step);
        json_bool(p->head, "died", &ooms[i] == last);
        write_state(p, r, ooms[i].t, ooms[i].framework + ooms[i].direct);
        json_end(p->head);
    }
    json_end(p->head);
}

/* What was reserved and not allocated: a sentence for the peak, for when most was reserved, and for the last
 * time that memory ran out. */
static int write_unused(struct view_part *p, struct trace *t, const struct device_row *r)
{
    int64_t device = r->device;
    const struct trace_peak *peak = trace_find_peak(t, device, "allocated"),
                            *most = trace_find_peak(t, device, "reserved");
    struct unused all[3];
    int64_t seqs[3] = {peak ? peak->seq : UNKNOWN, UNKNOWN, UNKNOWN};
    if (most && most->bytes > 0)
        seqs[1] = trace_handed_out(t, device, most->seq);
    const struct trace_oom_kept *last = oom_with_role(r->ooms, r->oom_count, OOM_LAST, device);
    seqs[2] = last ? last->seq : UNKNOWN;
    seqs[1] = seqs[1] == seqs[0] ? UNKNOWN : seqs[1];
    char *at_most = xformat("at the most, at %s,", units_time(most ? most->t : UNKNOWN).s);
    const char *const when[] = {"at the peak", at_most, "when memory ran out last"};
    int result = unused_load(t, device, seqs, 3, all);
    json_begin(p->head, "unused", '[');
    for (size_t i = 0; !result && i < 3; i++) {
        char *text = unused_paragraph(t, &all[i], when[i], UNUSED_LARGE, false);
        if (text)
            json_text(p->head, NULL, shown(text));
        free(text);
        unused_free(&all[i]);
    }
    json_end(p->head);
    free(at_most);
    return result;
}

static void write_facts(struct view_part *p, struct trace *t, size_t process, const struct device_row *r,
                        const struct view_kept *kept)
{
    const struct trace_lives *l = &r->lives;
    const struct trace_device *d = trace_find_device(t, r->device);
    json_int(p->head, "process", (int64_t)process);
    json_int(p->head, "device", r->device);
    json_text(p->head, "name", d ? shown(d->name) : NULL);
    json_int(p->head, "capacity", d && d->total_bytes > 0 ? d->total_bytes : UNKNOWN);
    write_peak(p, t, r, "allocated");
    write_peak(p, t, r, "reserved");
    json_int(p->head, "events", (int64_t)l->change_count);
    json_int(p->head, "block_count", (int64_t)l->block_count);
    json_int(p->head, "kept", (int64_t)kept->count);
    json_bool(p->head, "all", kept->all);
    json_int(p->head, "tile", kept->tile);
    json_int(p->head, "largest", VIEW_LARGEST);
    json_bool(p->head, "uses", l->uses != NULL);
    json_begin(p->head, "roles", '[');
    for (size_t i = 0; i < l->role_count; i++)
        json_text(p->head, NULL, l->roles[i]);
    json_end(p->head);
}

/* The blocks of the tiles, and whoever lived at the peak or when memory ran out last. */
static struct view_kept choose_blocks(const struct view_part *p, const struct trace *t,
                                      const struct device_row *r)
{
    const struct trace_lives *l = &r->lives;
    const struct trace_peak *peak = trace_find_peak(t, r->device, "allocated");
    const struct trace_oom_kept *last = oom_with_role(r->ooms, r->oom_count, OOM_LAST, r->device);
    const int64_t moments[] = {last ? last->t : UNKNOWN, peak ? peak->t : UNKNOWN};
    size_t most = p->room->blocks;
    struct view_kept kept = view_keep(l->blocks, l->block_count, t->t_last, VIEW_LARGEST, most - most / 4);
    for (int i = 0; i < 2 && !kept.all; i++)
        if (moments[i] != UNKNOWN)
            view_keep_moment(&kept, l->blocks, l->block_count, moments[i], most - (i ? 0 : most / 8));
    return kept;
}

static int write_row(struct view_part *p, struct view_process *process, size_t index,
                     const struct device_row *r)
{
    const struct trace_lives *l = &r->lives;
    struct trace *t = process->t;
    struct view_kept kept = choose_blocks(p, t, r);
    /* where the page has every block and event, it counts few of them by itself */
    size_t crowd = kept.all && !l->folded ? VIEW_CROWD : 1;
    struct view_levels levels = view_levels(l->changes, l->change_count, t->t_last, p->room->columns, crowd);
    json_begin(p->head, NULL, '{');
    write_facts(p, t, index, r, &kept);
    write_dims(p, &r->dims);
    write_levels(p, &levels, &r->dims);
    write_blocks(p, process, l, &kept);
    write_ooms(p, process, r);
    int result =
        write_samples(p, t, r->device) || write_aways(p, t, r->device) || write_unused(p, t, r) ? -1 : 0;
    json_end(p->head);
    view_free_kept(&kept);
    view_free_levels(&levels);
    return result;
}

int view_write_row(struct view_part *p, struct view_process *process, size_t index, int64_t device)
{
    struct device_row r = {.device = device};
    struct trace *t = process->t;
    if (trace_ooms_kept(t, &r.ooms, &r.oom_count))
        return -1;
    if (trace_lives(t, device, &r.lives)) {
        free(r.ooms);
        return -1;
    }
    view_index_stacks(r.lives.blocks, r.lives.block_count, &process->stacks);
    view_index_asked(r.lives.blocks, r.lives.block_count, &process->asked);
    r.dims = view_dims(&r.lives, t->phase_names, t->phase_name_count, &process->tags, &process->asked);
    int result = write_row(p, process, index, &r);
    view_free_dims(&r.dims);
    trace_free_lives(&r.lives);
    free(r.ooms);
    return result;
}
