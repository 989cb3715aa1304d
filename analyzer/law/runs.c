/*
 * runs.c - reads the runs (runs.h). The tape (read/tape.h) has requests and frees, the lives (read/lives.h)
 * each block's phase and call stack; both count blocks in the order of their births.
 */
#include "runs.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/relabel.h"
#include "base/shown.h"
#include "read/steps.h"
#include "read/trace.h"

#define BATCH_MOST   (INT64_C(1) << 24)
#define DEVICES_MOST 64

/* ---- sizes ---- */

static bool read_number(const char **at, int64_t *out)
{
    char *end;
    long long n = strtoll(*at, &end, 10);
    if (end == *at || n < 1 || n > BATCH_MOST)
        return false;
    *out = n;
    *at = end;
    return true;
}

/* "batch=4,seq=1024" in any order. */
static bool read_sizes(const char *text, int64_t *batch, int64_t *seq)
{
    *batch = *seq = UNKNOWN;
    while (*text) {
        int64_t *which = !strncmp(text, "batch=", 6) ? batch : !strncmp(text, "seq=", 4) ? seq : NULL;
        if (!which)
            return false;
        text = strchr(text, '=') + 1;
        if (!read_number(&text, which) || (*text && *text++ != ','))
            return false;
    }
    return *batch != UNKNOWN && *seq != UNKNOWN;
}

/* The number behind the last NAME ("batch=") in PATH; UNKNOWN: there is none. */
static int64_t in_path(const char *path, const char *name)
{
    int64_t n = UNKNOWN;
    for (const char *at = path; (at = strstr(at, name));) {
        const char *number = at += strlen(name);
        read_number(&number, &n);
    }
    return n;
}

/* Divides WORD into the file and its sizes, which are UNKNOWN where it has none. */
static void read_word(struct law_run *run, const char *word)
{
    const char *colon = strrchr(word, ':');
    bool sized = colon && read_sizes(colon + 1, &run->batch, &run->seq);
    run->path = sized ? xformat("%.*s", (int)(colon - word), word) : xstrdup(word);
    if (!sized)
        run->batch = run->seq = UNKNOWN;
}

static int64_t in_label(const struct trace *t, const char *name)
{
    int64_t n;
    const char *value = trace_run_label(t, name);
    return value && read_number(&value, &n) && !*value ? n : UNKNOWN;
}

void law_label_sizes(const struct trace *t, int64_t *batch, int64_t *seq)
{
    *batch = in_label(t, "batch");
    *seq = in_label(t, "seq");
}

/* What the word does not say, the recording's labels do (`run --label batch=4`), or its path.  0, or 2, said.
 */
static int find_sizes(struct law_run *run)
{
    if (run->batch == UNKNOWN || run->seq == UNKNOWN) {
        law_label_sizes(&run->t, &run->batch, &run->seq);
    }
    if (run->batch == UNKNOWN)
        run->batch = in_path(run->path, "batch=");
    if (run->seq == UNKNOWN)
        run->seq = in_path(run->path, "seq=");
    if (run->batch == UNKNOWN || run->seq == UNKNOWN)
        return complain("whatif: the batch and the length of %s are not known: name it as "
                        "FILE:batch=4,seq=1024, or record with --label batch=4 --label seq=1024",
                        shown(run->path));
    return 0;
}

/* ---- keys ---- */

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * UINT64_C(0x9e3779b97f4a7c15);
    return h ^ h >> 29;
}

static uint64_t mix_text(uint64_t h, const char *text)
{
    for (; text && *text; text++)
        h = mix(h, (unsigned char)*text);
    return mix(h, 256);
}

/* Of each stack, in the order of the rows: a parent stands before its children. */
static uint64_t *stack_keys(const struct trace_stacks *s)
{
    uint64_t *keys = xrealloc(NULL, (s->count + 1) * sizeof *keys);
    for (size_t i = 0; i < s->count; i++) {
        const struct trace_stack_row *row = &s->rows[i], *parent = trace_find_stack(s, row->parent);
        const struct trace_frame_row *frame = trace_find_frame(s, row->frame);
        uint64_t h = parent && parent < row ? keys[parent - s->rows] : 1;
        h = mix_text(h, frame ? frame->text : NULL);
        h = mix_text(h, frame ? frame->file : NULL);
        keys[i] = mix_text(h, row->layer);
    }
    return keys;
}

static uint64_t key_of(const struct law_run *run, const uint64_t *keys, const struct trace_block *b)
{
    const struct trace_stack_row *row = b->stack ? trace_find_stack(&run->stacks, b->stack) : NULL;
    const char *phase = b->phase < run->t.phase_name_count ? run->t.phase_names[b->phase] : NULL;
    return mix_text(row ? keys[row - run->stacks.rows] : 0, phase);
}

/* ---- blocks and steps ---- */

/* Requests, where a run of PyTorch's native allocator says them, in whole blocks: it may have given larger
 * ones. */
static void take_sizes(struct law_run *run)
{
    for (size_t i = 0; i < run->tape.n; i++) {
        const struct tape_event *e = &run->tape.at[i];
        if (e->what != TAPE_ALLOC)
            continue;
        struct law_block *b = &run->blocks[e->id];
        b->asked = !e->rounded && !run->tape.imported;
        b->size = b->asked ? (e->size + LAW_ROUND - 1) / LAW_ROUND * LAW_ROUND : e->size;
        run->unasked += !b->asked && b->size > LAW_UNSPLIT;
    }
}

static int take_blocks(struct law_run *run, const struct trace_lives *lives, int64_t **born)
{
    uint64_t *keys = stack_keys(&run->stacks);
    size_t n = 0;
    for (size_t i = 0; i < lives->block_count; i++) {
        const struct trace_block *b = &lives->blocks[i];
        if (!b->framework)
            continue;
        *PUSH(*born, n) = b->seq;
        n--;
        *PUSH(run->blocks, n) = (struct law_block){key_of(run, keys, b), 0, b->stack, b->phase, false};
    }
    free(keys);
    if (n != run->tape.ids)
        return complain(
            "whatif: %s has blocks whose birth and free do not agree: record again with vramscope run",
            run->path);
    take_sizes(run);
    return 0;
}

/* Where each of the first steps ends, in blocks. */
static int take_steps(struct law_run *run, const int64_t *born)
{
    struct trace_step_end *ends = NULL;
    size_t n = 0, at = 0;
    if (trace_step_ends(&run->t, &ends, &n))
        return complain("whatif: %s", run->t.why);
    for (size_t i = 0; i < n && i < LAW_STEPS; i++) {
        while (at < run->tape.ids && born[at] <= ends[i].seq)
            at++;
        run->ends[run->steps++] = at;
    }
    free(ends);
    if (run->steps < 2)
        return complain("whatif: %s has fewer than two training steps: laws are made of whole steps; let it "
                        "run three, with optimizer.step() under `vramscope run` or vramscope_step()",
                        run->path);
    return 0;
}

/* Behind the last step that is used nothing counts. */
static void cut_tape(struct law_run *run, size_t blocks)
{
    size_t n = 0;
    for (; n < run->tape.n; n++)
        if (run->tape.at[n].what == TAPE_ALLOC && run->tape.at[n].id >= blocks)
            break;
    run->later = run->tape.ids - blocks;
    run->tape.n = n;
    run->tape.ids = (uint32_t)blocks;
    int64_t live = 0;
    run->peak_used = 0;
    for (size_t i = 0; i < n; i++) {
        const struct tape_event *e = &run->tape.at[i];
        live += e->what == TAPE_ALLOC ? (int64_t)e->size : e->what == TAPE_FREE ? -(int64_t)e->size : 0;
        run->peak_used = live > run->peak_used ? live : run->peak_used;
    }
}

/* ---- recordings ---- */

static int check_whole(struct law_run *run)
{
    struct trace *t = &run->t;
    if (absent_events(t) || trace_load_ooms(t))
        return complain("whatif: %s", t->why);
    if (t->oom_total > 0)
        return complain("whatif: %s ran out of memory: record at a smaller size", run->path);
    if (run->tape.arena)
        return complain("whatif: %s was recorded under the arena: record it without --allocator=arena",
                        run->path);
    return 0;
}

static bool has_blocks(const struct trace *t, int64_t device)
{
    const struct trace_peak *peak = trace_find_peak(t, device, "framework");
    return peak && peak->bytes > 0;
}

static int find_device(struct law_run *run, int64_t *device)
{
    if (*device == UNKNOWN)
        for (int64_t d = 0; d < DEVICES_MOST && *device == UNKNOWN; d++)
            if (has_blocks(&run->t, d))
                *device = d;
    if (*device == UNKNOWN || !has_blocks(&run->t, *device))
        return complain("whatif: %s", absent_blocks(&run->t, *device));
    return 0;
}

static void take_peaks(struct law_run *run, int64_t device)
{
    const struct trace_peak *held = trace_find_peak(&run->t, device, "managed_reserved");
    run->peak = trace_find_peak(&run->t, device, "framework")->bytes;
    run->reserved = held && held->bytes > 0 ? held->bytes : UNKNOWN;
    run->requests = run->tape.requests || run->tape.expandable || !run->unasked;
}

static int load_one(struct law_run *run, const char *word, int64_t *device)
{
    struct trace_lives lives = {0};
    int64_t *born = NULL;
    run->batch = run->seq = UNKNOWN;
    read_word(run, word);
    if (relabel_open(&run->t, run->path, &(struct relabel){.chosen = true}))
        return complain("%s", run->t.why);
    run->open = true;
    int bad = find_sizes(run);
    if (!bad)
        bad = find_device(run, device);
    const struct trace_tape *tape = bad ? NULL : trace_tape(&run->t, *device);
    if (!bad && (!tape || trace_stacks(&run->t, &run->stacks) || trace_lives(&run->t, *device, &lives)))
        bad = complain("whatif: %s", run->t.why);
    if (tape)
        run->tape = *tape;
    if (!bad)
        bad = check_whole(run);
    if (!bad)
        bad = take_blocks(run, &lives, &born);
    if (!bad)
        bad = take_steps(run, born);
    if (!bad)
        take_peaks(run, *device);
    free(born);
    trace_free_lives(&lives);
    return bad;
}

static int tokens_order(const struct law_run *a, const struct law_run *b)
{
    int64_t x = a->batch * a->seq, y = b->batch * b->seq;
    return x != y ? (x > y) - (x < y) : (a->batch > b->batch) - (a->batch < b->batch);
}

/* A size that comes twice is no evidence of how it grows: the last run against those before it. */
static int check_new_size(const struct law_runs *runs)
{
    const struct law_run *last = &runs->at[runs->n - 1];
    for (const struct law_run *run = runs->at; run < last; run++)
        if (run->batch == last->batch && run->seq == last->seq)
            return complain("whatif: %s and %s are both of batch=%" PRId64 ",seq=%" PRId64
                            ": a law takes recordings at different sizes",
                            run->path, last->path, last->batch, last->seq);
    return 0;
}

int law_load(struct law_runs *runs, char **files, size_t n, int64_t device)
{
    *runs = (struct law_runs){.device = device};
    if (!files) /* said */
        return 2;
    if (n < LAW_RUNS_LEAST || n > LAW_RUNS_MOST)
        return complain("whatif: a law takes three to %d short recordings, and %zu %s given: two batch sizes "
                        "and two or three lengths, as FILE:batch=4,seq=1024",
                        LAW_RUNS_MOST, n, n == 1 ? "is" : "are");
    runs->at = xrealloc(NULL, n * sizeof *runs->at);
    memset(runs->at, 0, n * sizeof *runs->at);
    int bad = 0;
    size_t steps = LAW_STEPS;
    for (size_t i = 0; i < n && !bad; i++) {
        bad = load_one(&runs->at[i], files[i], &runs->device);
        runs->n++;
        if (!bad)
            bad = check_new_size(runs);
        if (!bad && runs->at[i].steps < steps)
            steps = runs->at[i].steps;
        if (!bad && tokens_order(&runs->at[i], &runs->at[runs->largest]) > 0)
            runs->largest = i;
    }
    for (size_t i = 0; i < n && !bad; i++) {
        runs->at[i].steps = steps;
        cut_tape(&runs->at[i], runs->at[i].ends[steps - 1]);
    }
    return bad;
}

void law_free_runs(struct law_runs *runs)
{
    for (size_t i = 0; i < runs->n; i++) {
        struct law_run *run = &runs->at[i];
        trace_free_stacks(&run->stacks);
        free(run->blocks);
        free(run->path);
        if (run->open)
            trace_close(&run->t);
    }
    free(runs->at);
    *runs = (struct law_runs){0};
}
