/*
 * python.c - captures the calling thread's Python frames and interns them in the journal.
 *
 *      thread state ──▶ frames, innermost first ──▶ hash ──▶ this thread's table of whole stacks ──▶ id
 *                                                     │ not there
 *                                                     ▼ from the outermost frame inwards
 *                     (code object, instruction) ──▶ frame id,  (caller, frame) ──▶ stack id
 *                          │ not there
 *                          ▼
 *                     names and line copied into the journal                            (python_text.c)
 *
 * Every frame is walked over each time: a frame that lies where one lay before may have been left and entered
 * again by another line of its caller, and nothing in it would show that.  Only the callers of an open call
 * that went through a function of ours need not be: they cannot change (core/open_calls.h).
 */
#define _GNU_SOURCE
#include "python_walk.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "core/contracts.h"
#include "core/fork.h"
#include "core/hot.h"
#include "core/log.h"
#include "core/options.h"
#include "modules.h"
#include "stacks.h"

/* Captures after which names that nothing proves are made again.  A training step has some hundred, whose
 * names take a millisecond to make.
 *
 * Addresses of code objects come back when code is made and dropped.  From 3.12 on every code object has a
 * number of its own, which goes into the hash.  Before, what it points to has to do, and now and then the
 * cached names are made again, so that a coincidence cannot last. */
#define RENEW_AFTER 16384

/* Checks after which code objects are told apart without numbers for good. */
#define CHECKS_MAX 64

static VS_HOT struct {
    struct vs_python layout;
    _Atomic uint32_t looking; /* vs_fork_number() of the process in which somebody looks for an interpreter */
    _Atomic bool logged, refused;
    uint64_t loads;          /* the loader's count at the last look */
    _Atomic unsigned checks; /* of first frames */
} python;
static VS_HOT _Atomic(const struct vs_python *) now; /* &python.layout once it is filled in */

/* ---- finding ---- */

const struct vs_python *vs_python_now(void)
{
    return atomic_load_explicit(&now, memory_order_acquire);
}

const char *vs_python_why_off(void)
{
    return python.refused ? vs_contract_detail(VS_CONTRACT_PY_FRAME) : "";
}

void vs_python_refuse(const char *why)
{
    vs_contract_broken(VS_CONTRACT_PY_FRAME, "%s", why);
    python.refused = true;
    vs_open_calls_frames_at(-1, -1);
    atomic_store_explicit(&now, NULL, memory_order_release);
}

static bool same_offsets(const struct vs_python *a, const struct vs_python *b)
{
    return a->minor == b->minor && a->kind == b->kind && a->tags == b->tags && a->cframe == b->cframe &&
           a->current == b->current && a->chunk == b->chunk && a->code == b->code &&
           a->previous == b->previous && a->instr == b->instr && a->version == b->version &&
           a->finalizing_at == b->finalizing_at && a->head_at == b->head_at;
}

/* Which captures may be used, that take for granted what others ask. */
static void choose(struct vs_python *p)
{
    bool plain = p->checked && p->direct && !p->whole;
    atomic_store_explicit(&p->as,
                          !plain                         ? 0
                          : same_offsets(p, &python_312) ? 12
                          : same_offsets(p, &python_313) ? 13
                                                         : 0,
                          memory_order_relaxed);
}

static void look(void)
{
    char why[160];
    struct vs_python found;
    switch (vs_python_find(&found, why, sizeof why)) {
    case VS_PYTHON_FOUND:
        python.layout = found;
        python.layout.depth = (uint16_t)vs_stack_depth;
        atomic_store_explicit(&now, &python.layout, memory_order_release);
        break;
    case VS_PYTHON_REFUSED:
        vs_python_refuse(why);
        break;
    case VS_PYTHON_NONE:
        break;
    }
}

/* Whether it is known by now if code objects have numbers of their own, which takes two of them: a program
 * whose first stacks are a frame deep is asked a few times. */
static bool numbers_known(struct vs_python *p, const struct vs_python_seen *seen)
{
    if (p->version < 0)
        return true;
    if (seen->same_version)
        return vs_contract_broken(VS_CONTRACT_PY_CODE, "code objects have no number of their own"), true;
    if (seen->codes < 2)
        return atomic_fetch_add(&python.checks, 1) >= CHECKS_MAX;
    vs_contract_proven(VS_CONTRACT_PY_CODE, "%d code objects have numbers of their own", seen->codes);
    if (vs_contract_state(VS_CONTRACT_PY_CODE) == VS_CONTRACT_PROVEN)
        p->kind = p->copy < 0 ? VS_PYTHON_VERSIONS : VS_PYTHON_COPIES;
    return true;
}

/* The first time that there are frames. */
bool vs_python_checked_now(uintptr_t state)
{
    struct vs_python *p = &python.layout;
    struct vs_python_seen seen;
    int saved = errno;
    bool good = vs_python_check(p, state, &seen);
    if (!good)
        vs_python_refuse("its frames do not look as that version's do");
    if (good && seen.frames > 0) { /* words by themselves */
        vs_contract_proven(VS_CONTRACT_PY_FRAME, "a stack %d deep is where %s says", seen.frames,
                           p->minor >= 13 ? "it" : "the table");
        if (p->minor == 12)
            atomic_store_explicit(&p->none, vs_python_entry_code(p, state), memory_order_relaxed);
        atomic_store_explicit(&p->direct, vs_python_words_agree(p, state), memory_order_relaxed);
        vs_open_calls_frames_at(p->cframe, p->current);
        atomic_store_explicit(&p->checked, numbers_known(p, &seen), memory_order_relaxed);
        choose(p);
    }
    errno = saved;
    return good && seen.frames > 0;
}

static bool wanted(void)
{
    return vs_options.stacks == VS_STACKS_PYTHON || vs_options.stacks == VS_STACKS_ALL;
}

void vs_python_prepare(void)
{
    uint32_t us = vs_fork_number(), others = atomic_load_explicit(&python.looking, memory_order_relaxed);
    /* A fork child does not wait for what one of its parent's threads was doing. */
    if (!wanted() || others == us || !atomic_compare_exchange_strong(&python.looking, &others, us))
        return;
    uint64_t loads = vs_module_loads();
    /* The first time on a thread of the host, and for all.  Later in the drain's thread, which must not wait
     * for the loader while somebody's constructors run: unless there is an interpreter to be asked for
     * symbols. */
    bool first = python.loads == 0;
    if (!python.refused && !vs_python_now() && python.loads != loads && (first || vs_python_library_loaded()))
        look();
    python.loads = loads;
    if (vs_python_now() && !atomic_exchange(&python.logged, true))
        vs_log_verbose("Python frames of CPython %s", python.layout.release);
    atomic_store_explicit(&python.looking, 0, memory_order_release);
}

/* Where a thread's copy of the bytecode was, another one may be once a thread has come or gone. */
static void forget_copies(struct vs_block *block, const struct vs_python *p)
{
    uintptr_t state = (uintptr_t)p->thread_state();
    uintptr_t interpreter = state ? AT(uintptr_t, state, p->interpreter) : 0;
    uint32_t changed = interpreter ? AT(uint32_t, interpreter, p->copies_changed) : 0;
    if (block->python_copies != changed)
        vs_block_forget_python_names(block);
    block->python_copies = changed;
}

/* Ids of another journal are nobody's, and what is not proved is not kept for long.  False: there is no
 * memory. */
static __attribute__((noinline)) bool renew_now(struct vs_block *block, struct vs_journal *j,
                                                const struct vs_python *p)
{
    if (!block->python && !vs_block_add_python(block))
        return false;
    if (block->python_journal != j) {
        vs_block_forget_python(block);
        block->python_journal = j;
    } else if (p->kind < VS_PYTHON_VERSIONS && ++block->python_captures % RENEW_AFTER == 0) {
        vs_block_forget_python_names(block);
    }
    if (p->copy >= 0)
        forget_copies(block, p);
    return true;
}

static ALWAYS bool renew(struct vs_block *block, struct vs_journal *j, const struct vs_python *p, bool proved)
{
    return (likely_(block->python != NULL) && likely_(block->python_journal == j) && likely_(proved)) ||
           renew_now(block, j, p);
}

int vs_python_walk(struct vs_block *block, struct vs_journal *j, int max, uint64_t hash[2])
{
    const struct vs_python *p = vs_python_now();
    uintptr_t frame = p ? first_frame(block, p, p, false, NULL) : 0;
    if (!frame)
        return 0;
    if (!renew(block, j, p, p->kind == VS_PYTHON_VERSIONS))
        return 0;
    return vs_python_walk_any(p, frame, block->python->walked, max, hash);
}

/* ---- naming ---- */

/* What a traceback leaves out: the entry of the interpreter's loop, frames of what is no code, and a frame
 * that has not begun. */
static bool is_skipped(const struct vs_python *p, const struct vs_python_frame *f)
{
    if (AT(uintptr_t, f->code, p->head - 8) != p->code_type)
        return true;
    if (p->owner < 0)
        return false;
    int owner = AT(unsigned char, f->frame, p->owner);
    if (owner >= VS_PYTHON_OWNER_SHIM || owner == VS_PYTHON_OWNER_GENERATOR)
        return owner >= VS_PYTHON_OWNER_SHIM;
    long unit = vs_python_unit(p, f);
    return unit != LONG_MIN && unit < AT(int, f->code, p->firsttraceable);
}

static bool ends_in(const char *text, size_t n, const char *end)
{
    size_t length = strlen(end);
    return n >= length && memcmp(text + n - length, end, length) == 0;
}

/* The wrapper of nn.Module.__call__ is left out: most calls do not run its code (framework/calls.c), and the
 * stacks of a line are the same whether or not one did. */
static uint32_t make_frame(struct vs_block *block, struct vs_journal *j, const struct vs_python *p,
                           const struct vs_python_frame *f)
{
    if (is_skipped(p, f))
        return VS_PYTHON_SKIP;
    char *text = block->python->text;
    size_t n = vs_python_text(p, AT(uintptr_t, f->code, p->filename), text, VS_PYTHON_TEXT);
    bool wrapper = ends_in(text, n, "/vramscope/_torch.py");
    uint32_t file = n ? vs_journal_string(j, text, n) : 0;
    n = vs_python_text(p, AT(uintptr_t, f->code, p->name), text, VS_PYTHON_TEXT);
    if (wrapper && ends_in(text, n, "__call__"))
        return VS_PYTHON_SKIP;
    uint32_t function = n ? vs_journal_string(j, text, n) : 0;
    return vs_journal_named_frame(j, VS_FRAME_PYTHON, function, file, vs_python_line(p, f));
}

uint32_t vs_python_frame_id(struct vs_block *block, struct vs_journal *j, const struct vs_python_frame *f)
{
    uint64_t hash = vs_mix(f->code ^ f->instr << 1, 0x8ebc6af09c88c6e3u ^ f->identity);
    struct vs_python_frame_slot *slot = &block->python->frames[hash % VS_PYTHON_FRAME_SLOTS];
    if (slot->code == f->code && slot->instr == f->instr && slot->identity == f->identity)
        return slot->frame;
    slot->code = 0; /* not valid while it changes */
    slot->frame = make_frame(block, j, &python.layout, f);
    slot->instr = f->instr;
    slot->identity = f->identity;
    slot->code = slot->frame ? f->code : 0;
    return slot->frame;
}

/* ---- capturing ---- */

static uint32_t intern(struct vs_block *block, struct vs_journal *j, int count)
{
    uint32_t node = 0;
    for (int i = count; i-- > 0;) {
        uint32_t frame = vs_python_frame_id(block, j, &block->python->walked[i]);
        if (frame == VS_PYTHON_SKIP)
            continue;
        node = frame ? vs_node_of(block, j, node, frame) : 0;
        if (!node)
            return 0; /* the journal is full (counted there): no stack rather than a wrong one */
    }
    return node;
}

/* What is outside of CALL, walked over again: as walk_outside() has it, and nothing is kept.  False: nobody
 * knows what is outside of the next call. */
static bool walk_again(const struct vs_python *p, const struct vs_open_call *call, struct vs_open_call *again)
{
    uintptr_t frame = call->frame, end = call > vs_open_calls.at ? call[-1].frame : 0;
    again->frames = (uint32_t)walk_to(p, &frame, end, NULL, p->depth, again->hash);
    if (!frame || frame != end)
        return true;
    put_outside(again->hash, call - 1);
    again->frames += call[-1].frames;
    return call[-1].frames != 0;
}

/* Whether the frames outside of the innermost open call stand still, as is taken for granted while it is
 * open: asked where a stack is new, since the frames are walked over then anyway. */
static void check_standstill(const struct vs_python *p, uintptr_t frame)
{
    const struct vs_open_call *call = vs_open_call_innermost();
    struct vs_open_call again;
    uint64_t hash[2];
    if (!call || !call->frames || p->whole)
        return;
    /* Another greenlet's call may be the innermost one, and its frames are not to be read. */
    walk_to(p, &frame, call->frame, NULL, p->depth, hash);
    if (frame != call->frame || !walk_again(p, call, &again))
        return;
    if (again.frames == call->frames && again.hash[0] == call->hash[0] && again.hash[1] == call->hash[1]) {
        vs_contract_proven(VS_CONTRACT_PY_STANDSTILL, "%u frames outside of an open call were the same later",
                           call->frames);
        return;
    }
    vs_contract_broken(VS_CONTRACT_PY_STANDSTILL, "frames outside of an open call changed");
    vs_python_walk_whole(true);
}

/* A stack that this thread has not seen, or not lately: its frames have to be collected, too. */
static uint32_t intern_new(struct vs_block *block, struct vs_journal *j, const struct vs_python *p,
                           uintptr_t frame, uint32_t layer, vs_layer_frame_fn *frame_of)
{
    uint64_t hash[2];
    check_standstill(p, frame);
    int saved = errno, count = vs_python_walk_any(p, frame, block->python->walked, p->depth, hash);
    uint32_t stack = intern(block, j, count), top = stack && layer ? frame_of(j, layer) : 0;
    errno = saved;
    return top ? vs_node_of(block, j, stack, top) : stack;
}

struct wanted {
    struct vs_stack_slot *set; /* where it belongs */
    uint64_t hash[2];
    uint32_t count;
};

/* The stack of W where the first slot of its set has another one. */
static __attribute__((noinline)) uint32_t look_further(struct vs_block *block, struct vs_journal *j,
                                                       uintptr_t frame, uint32_t layer,
                                                       vs_layer_frame_fn *frame_of, struct wanted w)
{
    struct vs_stack_slot *set = w.set;
    if (set[1].hash[0] == w.hash[0] && set[1].hash[1] == w.hash[1] && set[1].count == w.count)
        return set[1].stack;
    uint16_t next = set[0].next;
    set[1] = set[0];
    set[0].count = 0; /* not valid while it changes: interning may end early */
    uint32_t stack = intern_new(block, j, &python.layout, frame, layer, frame_of);
    set[0] = (struct vs_stack_slot){
        .hash = {w.hash[0], w.hash[1]}, .next = next, .count = w.count, .stack = stack};
    return stack;
}

/* AT has the offsets; where they are constants (FIXED) nothing is asked that choose() has.  OUTSIDE: as
 * walk_outside. */
static ALWAYS uint32_t capture(struct vs_block *block, struct vs_journal *j, const struct vs_python *p,
                               const struct vs_python *at, bool fixed,
                               void (*outside)(const struct vs_python *, struct vs_open_call *),
                               uint32_t layer, vs_layer_frame_fn *frame_of)
{
    uint64_t hash[2];
    struct vs_open_call *call = vs_open_call_innermost();
    uintptr_t frame = first_frame(block, p, at, fixed, likely_(call != NULL) ? vs_open_calls.state : NULL);
    if (unlikely_(!frame) || unlikely_(!renew(block, j, p, fixed || p->kind == VS_PYTHON_VERSIONS)))
        return 0;
    uint32_t count = walk_open(p, at, fixed, outside, fixed || !p->whole ? call : NULL, frame, hash);
    hash[0] = vs_mix(hash[0] ^ layer, 0xa0761d6478bd642fu);
    hash[1] ^= (uint64_t)layer << 32;
    /* two slots are one line: stacks that share it do not put each other out at once */
    uint32_t i = (uint32_t)(hash[0] % (VS_PYTHON_STACK_SLOTS / 2));
    struct vs_stack_slot *stacks = block->python->stacks, *set = &stacks[2 * (size_t)i];
#define NEXT_OF(i) stacks[2 * (size_t)(i)].next
    vs_fetch(&stacks[2 * (size_t)vs_expected(&block->stack_order, (uint16_t)i, NEXT_OF)]);
    if (likely_(set[0].hash[0] == hash[0]) && likely_(set[0].hash[1] == hash[1]) &&
        likely_(set[0].count == count))
        return set[0].stack;
    return look_further(block, j, frame, layer, frame_of, (struct wanted){set, {hash[0], hash[1]}, count});
}

#define VS_NOINLINE __attribute__((noinline))

#define CAPTURE(name, at, fixed)                                                                             \
    static VS_NOINLINE VS_HOT_CODE void name##_outside(const struct vs_python *p, struct vs_open_call *call) \
    {                                                                                                        \
        walk_outside(p, at, fixed, call);                                                                    \
    }                                                                                                        \
    static VS_NOINLINE VS_HOT_CODE uint32_t name(struct vs_journal *j, const struct vs_python *p,            \
                                                 uint32_t layer, vs_layer_frame_fn *frame_of)                \
    {                                                                                                        \
        struct vs_block *block = vs_block_enter();                                                           \
        if (unlikely_(!block))                                                                               \
            return 0;                                                                                        \
        uint32_t stack = capture(block, j, p, at, fixed, name##_outside, layer, frame_of);                   \
        vs_block_leave(block);                                                                               \
        return stack;                                                                                        \
    }
CAPTURE(capture_312, &python_312, true)
CAPTURE(capture_313, &python_313, true)
CAPTURE(capture_any, p, false)

VS_HOT_CODE uint32_t vs_python_capture_in(struct vs_journal *j, uint32_t layer, vs_layer_frame_fn *frame_of)
{
    const struct vs_python *p = vs_python_now();
    if (unlikely_(!j) || unlikely_(!p))
        return 0;
    uint8_t as = atomic_load_explicit(&p->as, memory_order_relaxed);
    if (likely_(as == 12))
        return capture_312(j, p, layer, frame_of);
    return as == 13 ? capture_313(j, p, layer, frame_of) : capture_any(j, p, layer, frame_of);
}

uint32_t vs_python_capture(struct vs_journal *j)
{
    return vs_python_capture_in(j, 0, NULL);
}

void vs_python_walk_whole(bool on)
{
    python.layout.whole = on;
    choose(&python.layout);
}
