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
 * again by another line of its caller, and nothing in it would show that.  Only what lies outside of a call
 * that goes through a function of ours is known to stand still (core/open_calls.h).  A frame's line is
 * decoded once for each (code object, instruction), when it is first seen, while the code object is surely
 * alive.
 *
 * Addresses of code objects come back as a rule when code is made and dropped.  From 3.12 on every code
 * object has a number of its own, which goes into the hash.  Before, what it points to has to do, and now and
 * then the cached names are made again, so that a coincidence cannot last.
 *
 * What could make these reads wrong, and what is done about it:
 *   - the interpreter's end frees the states of other threads: nothing is read once it is finalizing.  A
 * daemon thread would have to be between that question and its last read, which is some 100 ns, while the
 *     interpreter goes through the microseconds from its own mark to the first free;
 *   - 3.10 to 3.12 give each thread the main interpreter's state also inside a sub-interpreter: while there
 * are several interpreters nothing is read;
 *   - in 3.11 and 3.12 a signal may interrupt the few instructions between which the innermost frame is not
 *     set yet, or has just been left.  Frames lie on a stack of their own, whose live part is known: a word
 *     that leads there is followed, one that leads above it is not, and of any other (a generator has its
 *     frame with it) the kernel is asked each time whether it can be read.  What it leads to must be a code
 *     object.
 */
#define _GNU_SOURCE
#include "python.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/fork.h"
#include "core/hot.h"
#include "core/log.h"
#include "core/open_calls.h"
#include "core/options.h"
#include "block.h"
#include "elfimage.h"
#include "interning.h"
#include "modules.h"
#include "stacks.h"

#define AT(type, base, offset) VS_PYTHON_AT(type, base, offset)
#define unlikely_(x)           __builtin_expect(!!(x), 0)

/* Captures after which names that nothing proves are made again.  A training step has some hundred, whose
 * names take a millisecond to make. */
#define RENEW_AFTER 16384

/* Captures after which the kernel is asked again which pages are readable. */
#define LOOK_AGAIN_AFTER 1024

static VS_HOT struct {
    struct vs_python layout;
    _Atomic uint32_t looking; /* vs_fork_number() of the process in which somebody looks for an interpreter */
    _Atomic int logged;       /* what was said last: 2 refused, 1 found */
    _Atomic bool refused;
    uint64_t loads; /* the loader's count at the last look */
    char why[160];
} python;
static VS_HOT _Atomic(const struct vs_python *) now; /* &python.layout once it is filled in */

/* ---- finding ---- */

const struct vs_python *vs_python_now(void)
{
    return atomic_load_explicit(&now, memory_order_acquire);
}

const char *vs_python_why_off(void)
{
    return vs_python_now() ? "" : python.why;
}

static void refuse(const char *why)
{
    snprintf(python.why, sizeof python.why, "%s", why);
    python.refused = true;
    vs_open_calls_frames_at(-1, -1);
    atomic_store_explicit(&now, NULL, memory_order_release);
}

static void look(void)
{
    char why[sizeof python.why];
    struct vs_python found;
    switch (vs_python_find(&found, why, sizeof why)) {
    case VS_PYTHON_FOUND:
        python.layout = found;
        python.layout.depth = (uint16_t)vs_stack_depth;
        atomic_store_explicit(&now, &python.layout, memory_order_release);
        break;
    case VS_PYTHON_REFUSED:
        refuse(why);
        break;
    case VS_PYTHON_NONE:
        break;
    }
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
    int say = python.refused ? 2 : vs_python_now() ? 1 : 0;
    if (atomic_exchange(&python.logged, say) != say)
        vs_log_verbose(say == 2 ? "no Python frames: %s" : "Python frames of CPython %s",
                       say == 2 ? python.why : python.layout.release);
    atomic_store_explicit(&python.looking, 0, memory_order_release);
}

/* ---- walking ---- */

/* Whether the page of ADDRESS, a code object that a live frame holds, can be read.  The kernel is asked once,
 * and again after a while: a call takes longer than all else that a capture does, and a step goes through the
 * code of some dozens of pages. */
static inline bool page_readable(struct vs_block *block, uintptr_t address)
{
    uint64_t page = address >> 12, *known = &block->python_pages[page % VS_PYTHON_PAGES];
    if (address % 8 || page == 0)
        return false;
    if (__builtin_expect(*known == page, 1))
        return true;
    if (!vs_readable(address))
        return false;
    *known = page;
    return true;
}

static bool is_code(const struct vs_python *p, uintptr_t code)
{
    return AT(uintptr_t, code, 8) == p->code_type;
}

/* Whether the words from FIRST to LAST, less than a page apart, can be read now. */
static bool readable_now(uintptr_t first, uintptr_t last)
{
    return first >= 4096 && first % 8 == 0 && vs_readable(first) &&
           (first >> 12 == last >> 12 || vs_readable(last));
}

/* A frame that is not in the live part of the thread's newest piece of stack: what was readable a moment ago
 * need not be any more. */
static __attribute__((noinline)) bool plausible_elsewhere(const struct vs_python *p, uintptr_t state,
                                                          uintptr_t frame)
{
    uintptr_t top = AT(uintptr_t, state, p->chunk + 8), end = AT(uintptr_t, state, p->chunk + 16);
    if ((frame >= top && frame < end) || !readable_now(frame, frame + (uintptr_t)p->owner))
        return false;
    uintptr_t code = AT(uintptr_t, frame, p->code);
    return readable_now(code, code + 8) && is_code(p, code);
}

/* The innermost frame where it hangs on a structure of the C stack that may be half made. */
static bool plausible(struct vs_block *block, const struct vs_python *p, uintptr_t state, uintptr_t frame)
{
    if (frame < AT(uintptr_t, state, p->chunk) || frame >= AT(uintptr_t, state, p->chunk + 8))
        return plausible_elsewhere(p, state, frame);
    if (unlikely_(++block->python_looks % LOOK_AGAIN_AFTER == 0))
        memset(block->python_pages, 0, sizeof block->python_pages);
    uintptr_t code = AT(uintptr_t, frame, p->code);
    return frame % 8 == 0 && page_readable(block, code) && is_code(p, code);
}

static inline uint64_t identity_of(const struct vs_python *p, uintptr_t code, enum vs_python_kind kind)
{
    if (kind == VS_PYTHON_VERSIONS)
        return AT(uint32_t, code, p->version);
    return vs_mix(AT(uintptr_t, code, p->filename) ^ AT(uint32_t, code, p->firstlineno),
                  AT(uintptr_t, code, p->linetable) ^ AT(uintptr_t, code, p->name) << 20);
}

/* Walks from *FIRST outward to END (0: all), MAX frames of code at most; their number, with a hash of them in
 * HASH.  *FIRST: where it ended.  KIND and OTHERS are constants of the caller: three loops, none of which
 * asks what it is about.  OUT is NULL where the hash alone is wanted: a walk that stores nothing costs the
 * least. */
static inline __attribute__((always_inline)) int walk(const struct vs_python *p, uintptr_t *first,
                                                      uintptr_t end, struct vs_python_frame *out, int max,
                                                      uint64_t hash[2], enum vs_python_kind kind, bool others)
{
    uint64_t a = 0x9e3779b97f4a7c15u, b = 0xc2b2ae3d27d4eb4fu;
    uintptr_t frame = *first;
    int n = 0;
    for (; frame && frame != end && n < max; frame = AT(uintptr_t, frame, p->previous)) {
        uintptr_t code = AT(uintptr_t, frame, p->code);
        if (others) {
            code &= ~(uintptr_t)p->tags;
            if (!code || code == p->none)
                continue; /* the entry of the interpreter's loop */
        }
        uintptr_t instr = kind == VS_PYTHON_OBJECTS ? (uintptr_t)(intptr_t)AT(int, frame, p->instr)
                                                    : AT(uintptr_t, frame, p->instr);
        uint64_t identity = identity_of(p, code, kind);
        a = vs_mix(a ^ code, instr ^ 0xa0761d6478bd642fu);
        b = vs_mix(b ^ instr, (code + (identity << 40)) ^ 0xe7037ed1a0b428dbu ^ identity);
        if (out)
            out[n] = (struct vs_python_frame){code, instr, identity, frame};
        n++;
    }
    hash[0] = a;
    hash[1] = b;
    *first = frame;
    return n;
}

static inline __attribute__((always_inline)) int walk_to(const struct vs_python *p, uintptr_t *first,
                                                         uintptr_t end, struct vs_python_frame *out, int max,
                                                         uint64_t hash[2])
{
    if (p->kind == VS_PYTHON_VERSIONS)
        return walk(p, first, end, out, max, hash, VS_PYTHON_VERSIONS, true);
    if (p->kind == VS_PYTHON_STRUCTS)
        return walk(p, first, end, out, max, hash, VS_PYTHON_STRUCTS, false);
    return walk(p, first, end, out, max, hash, VS_PYTHON_OBJECTS, false);
}

static int walk_any(const struct vs_python *p, uintptr_t frame, struct vs_python_frame *out, int max,
                    uint64_t hash[2])
{
    return walk_to(p, &frame, 0, out, max, hash);
}

static void put_outside(uint64_t hash[2], const struct vs_open_call *call)
{
    hash[0] = vs_mix(hash[0] ^ call->hash[0], 0xd6e8feb86659fd93u);
    hash[1] = vs_mix(hash[1] ^ call->hash[1], 0xa0761d6478bd642fu);
}

/* Walks over what lies outside of CALL, whose frame a walk has just met, once while it is open: piece by
 * piece, each up to the next call further out, as far as calls know nothing yet.  Nothing is read but what is
 * on the way. */
static __attribute__((noinline)) void walk_outside(const struct vs_python *p, struct vs_open_call *call)
{
    struct vs_open_call *outermost = vs_open_calls.at, *c = call;
    uintptr_t frame = call->frame;
    uint32_t frames[VS_OPEN_CALLS];
    for (;; c--) {
        uintptr_t end = c > outermost ? c[-1].frame : 0;
        frames[c - outermost] = (uint32_t)walk_to(p, &frame, end, NULL, p->depth, c->hash);
        if (!frame || frame != end || c[-1].frames)
            break;
    }
    /* from the outermost piece inwards; its last frame is the thread's, or one of a call that knows */
    const struct vs_open_call *outside = frame && c > outermost && frame == c[-1].frame ? c - 1 : NULL;
    for (; c <= call; outside = c++) {
        if (outside)
            put_outside(c->hash, outside);
        c->frames = frames[c - outermost] + (outside ? outside->frames : 0);
    }
}

/* Walks from FRAME outwards for the hash alone, no further than it must (core/open_calls.h): frames outside
 * of the innermost open call are those that they were at the last walk. */
static inline int walk_open(const struct vs_python *p, uintptr_t frame, uint64_t hash[2])
{
    struct vs_open_call *call = p->whole ? NULL : vs_open_call_innermost();
    uintptr_t at = frame, end = call ? call->frame : 0;
    int n = walk_to(p, &at, end, NULL, p->depth, hash);
    if (!at || at != end)
        return n;
    if (unlikely_(!call->frames))
        walk_outside(p, call);
    if (unlikely_((uint32_t)n + call->frames > p->depth)) /* the outermost are cut off */
        return walk_any(p, frame, NULL, p->depth, hash);
    put_outside(hash, call);
    return n + (int)call->frames;
}

static uint64_t runtime_word(const struct vs_python *p, int at)
{
    return __atomic_load_n((const uint64_t *)(p->runtime + (uintptr_t)at), __ATOMIC_RELAXED);
}

/* The key is a Py_tss_t: whether it was made, and the number that pthreads gave it. */
static inline uintptr_t state_by_key(const struct vs_python *p)
{
    uint64_t key = runtime_word(p, p->key_at);
    return (uint32_t)key == 1 ? (uintptr_t)pthread_getspecific((pthread_key_t)(key >> 32)) : 0;
}

static uintptr_t state_by_calls(const struct vs_python *p)
{
    uintptr_t state = (uintptr_t)p->thread_state();
    if (!state || p->finalizing())
        return 0;
    return p->minor <= 12 && p->first_interpreter() != p->main_interpreter() ? 0 : state;
}

/* The calling thread's state; 0 where it has none, or where it must not be looked at now.  The same by words
 * of _PyRuntime as by four calls: between a program's own work each call is some lines and a page of code
 * that nobody else wants. */
static inline uintptr_t state_now(const struct vs_python *p)
{
    if (unlikely_(!atomic_load_explicit(&p->direct, memory_order_relaxed)))
        return state_by_calls(p);
    if (runtime_word(p, p->finalizing_at))
        return 0;
    if (p->minor <= 12 && runtime_word(p, p->head_at) != runtime_word(p, p->head_at + 8))
        return 0;
    return state_by_key(p);
}

/* Whether the words say what the calls say. */
static bool words_agree(const struct vs_python *p, uintptr_t state)
{
    return p->key_at >= 0 && runtime_word(p, p->head_at) == (uintptr_t)p->first_interpreter() &&
           runtime_word(p, p->head_at + 8) == (uintptr_t)p->main_interpreter() &&
           !runtime_word(p, p->finalizing_at) && !p->finalizing() && state_by_key(p) == state;
}

/* The first time that there are frames. */
static __attribute__((noinline)) bool checked_now(struct vs_python *p, uintptr_t state)
{
    char why[sizeof python.why];
    int saved = errno, good = vs_python_check(p, state, why, sizeof why);
    if (good < 0)
        refuse(why);
    if (good > 0) { /* words by themselves */
        atomic_store_explicit(&p->direct, words_agree(p, state), memory_order_relaxed);
        vs_open_calls_frames_at(p->cframe, p->current);
        atomic_store_explicit(&p->checked, true, memory_order_relaxed);
    }
    errno = saved;
    return good > 0;
}

/* The calling thread's innermost frame; 0 where there is none, or where it must not be looked at now. */
static inline uintptr_t first_frame(struct vs_block *block, const struct vs_python *p)
{
    uintptr_t state = state_now(p);
    if (!state)
        return 0;
    if (unlikely_(!atomic_load_explicit(&p->checked, memory_order_relaxed)) &&
        !checked_now(&python.layout, state))
        return 0;
    if (p->cframe < 0)
        return AT(uintptr_t, state, p->current);
    uintptr_t holder = AT(uintptr_t, state, p->cframe);
    uintptr_t frame = holder ? AT(uintptr_t, holder, p->current) : 0;
    return frame && plausible(block, p, state, frame) ? frame : 0;
}

/* Ids of another journal are nobody's, and what is not proved is not kept for long.  False: there is no
 * memory. */
static inline bool renew(struct vs_block *block, struct vs_journal *j, const struct vs_python *p)
{
    bool proved = p->kind == VS_PYTHON_VERSIONS;
    if (unlikely_(!block->python) && !vs_block_add_python(block))
        return false;
    if (unlikely_(block->python_journal != j)) {
        vs_block_forget_python(block);
        block->python_journal = j;
    } else if (!proved && unlikely_(++block->python_captures % RENEW_AFTER == 0)) {
        vs_block_forget_python_names(block);
    }
    return true;
}

int vs_python_walk(struct vs_block *block, struct vs_journal *j, int max, uint64_t hash[2])
{
    const struct vs_python *p = vs_python_now();
    uintptr_t frame = p ? first_frame(block, p) : 0;
    if (!frame)
        return 0;
    if (!renew(block, j, p))
        return 0;
    return walk_any(p, frame, block->python->walked, max, hash);
}

/* ---- naming ---- */

/* What a traceback leaves out: the entry of the interpreter's loop, frames of what is no code, and a frame
 * that has not begun. */
static bool is_skipped(const struct vs_python *p, const struct vs_python_frame *f)
{
    if (AT(uintptr_t, f->code, 8) != p->code_type)
        return true;
    if (p->owner < 0)
        return false;
    int owner = AT(unsigned char, f->frame, p->owner);
    uintptr_t begin = f->code + (uintptr_t)p->bytes + 2 * (uintptr_t)AT(int, f->code, p->firsttraceable);
    return owner >= VS_PYTHON_OWNER_SHIM || (owner != VS_PYTHON_OWNER_GENERATOR && f->instr < begin);
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

/* A stack that this thread has not seen, or not lately: its frames have to be collected, too. */
static __attribute__((noinline)) uint32_t intern_new(struct vs_block *block, struct vs_journal *j,
                                                     const struct vs_python *p, uintptr_t frame,
                                                     const struct vs_python_layer *layer)
{
    uint64_t hash[2];
    int saved = errno, count = walk_any(p, frame, block->python->walked, p->depth, hash);
    uint32_t stack = intern(block, j, count), top = stack && layer ? layer->frame(j, layer->number) : 0;
    errno = saved;
    return top ? vs_node_of(block, j, stack, top) : stack;
}

static inline uint32_t capture(struct vs_block *block, struct vs_journal *j, const struct vs_python *p,
                               const struct vs_python_layer *layer)
{
    uint64_t hash[2];
    uintptr_t frame = first_frame(block, p);
    if (!frame)
        return 0;
    if (!renew(block, j, p))
        return 0;
    uint32_t count = (uint32_t)walk_open(p, frame, hash);
    if (layer) {
        hash[0] = vs_mix(hash[0] ^ layer->number, 0xa0761d6478bd642fu);
        hash[1] = vs_mix(hash[1] ^ layer->number, 0x589965cc75374cc3u);
    }
    /* two slots are one line: stacks that share it do not put each other out at once */
    struct vs_stack_slot *set = &block->python->stacks[hash[0] % (VS_PYTHON_STACK_SLOTS / 2) * 2];
    for (int i = 0; i < 2; i++)
        if (set[i].hash[0] == hash[0] && set[i].hash[1] == hash[1] && set[i].count == count)
            return set[i].stack;
    set[1] = set[0];
    set[0].count = 0; /* not valid while it changes: interning may end early */
    uint32_t stack = intern_new(block, j, p, frame, layer);
    set[0] = (struct vs_stack_slot){.hash = {hash[0], hash[1]}, .count = count, .stack = stack};
    return stack;
}

VS_HOT_CODE uint32_t vs_python_capture_in(struct vs_journal *j, const struct vs_python_layer *layer)
{
    const struct vs_python *p = vs_python_now();
    struct vs_block *block;
    if (!j || !p || !(block = vs_block_enter()))
        return 0;
    uint32_t stack = capture(block, j, p, layer);
    vs_block_leave(block);
    return stack;
}

uint32_t vs_python_capture(struct vs_journal *j)
{
    return vs_python_capture_in(j, NULL);
}

void vs_python_walk_whole(bool on)
{
    python.layout.whole = on;
}
