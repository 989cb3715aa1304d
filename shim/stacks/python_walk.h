/*
 * python_walk.h - the innermost frame of the calling thread, and the walk from there outwards, inline.
 *
 * A capture between a program's own work costs what it brings into the processor's caches, its own code above
 * all, so its usual way is one function without calls, and offsets are constants in it where they are those
 * of a version's default build.
 */
#ifndef VS_STACKS_PYTHON_WALK_H
#define VS_STACKS_PYTHON_WALK_H

#include "core/open_calls.h"
#include "block.h"
#include "python.h"

#define AT(type, base, offset) VS_PYTHON_AT(type, base, offset)
#define likely_(x)             __builtin_expect(!!(x), 1)
#define unlikely_(x)           __builtin_expect(!!(x), 0)
#define ALWAYS                 inline __attribute__((always_inline))

/* Captures after which the kernel is asked again which pages are readable.  A step makes some hundred, in
 * code of some dozens of pages, and a question takes longer than a capture. */
#define LOOK_AGAIN_AFTER 8192

/* The offsets that a capture reads, in the versions that it is compiled for.  Elsewhere it reads them from
 * the layout, which makes a capture some hundred instructions longer. */
static const struct vs_python python_312 = {.minor = 12,
                                            .kind = VS_PYTHON_VERSIONS,
                                            .cframe = 56,
                                            .current = 0,
                                            .chunk = 232,
                                            .code = 0,
                                            .previous = 8,
                                            .instr = 56,
                                            .version = 92,
                                            .finalizing_at = 24,
                                            .head_at = 40};
static const struct vs_python python_313 = {.minor = 13,
                                            .kind = VS_PYTHON_VERSIONS,
                                            .cframe = -1,
                                            .current = 72,
                                            .code = 0,
                                            .previous = 8,
                                            .instr = 56,
                                            .version = 92,
                                            .finalizing_at = 608,
                                            .head_at = 640};

/* ---- python_walk.c ---- */

/* Has the kernel say whether the page of ADDRESS, a code object, can be read, and keeps that in *KNOWN. */
bool vs_python_ask_page(uint64_t *known, uintptr_t address);
void vs_python_look_again(struct vs_block *block);
/* Whether FRAME, which is not in the live part of the newest piece of the stack of frames, can be read. */
bool vs_python_plausible_elsewhere(const struct vs_python *p, uintptr_t state, uintptr_t frame);
/* Walks from FRAME to the thread's outermost one, as walk(). */
int vs_python_walk_any(const struct vs_python *p, uintptr_t frame, struct vs_python_frame *out, int max,
                       uint64_t hash[2]);
/* The calling thread's state, by the word that has the key of all, and by calling the interpreter. */
uintptr_t vs_python_state_by_key(const struct vs_python *p);
uintptr_t vs_python_state_by_calls(const struct vs_python *p);
/* Whether the words of _PyRuntime say what the calls say. */
bool vs_python_words_agree(const struct vs_python *p, uintptr_t state);
/* The code object of the frames that are entries of the interpreter's loop, which in 3.12 are there behind
 * each call from C; None, which is no frame's code, if there is no such frame. */
uintptr_t vs_python_entry_code(const struct vs_python *p, uintptr_t state);

/* ---- python.c ---- */

/* The first time that there are frames: whether the layout fits them. */
bool vs_python_checked_now(uintptr_t state);

/* ---- the walk ---- */

static inline bool page_readable(struct vs_block *block, uintptr_t address)
{
    uint64_t page = address >> 12, *known = &block->python_pages[page % VS_PYTHON_PAGES];
    if (unlikely_(address % 8) || unlikely_(page == 0))
        return false;
    return likely_(*known == page) || vs_python_ask_page(known, address);
}

static inline bool is_code(const struct vs_python *p, uintptr_t code)
{
    return AT(uintptr_t, code, 8) == p->code_type;
}

/* The innermost frame where it hangs on a structure of the C stack that may be half made. */
static ALWAYS bool plausible(struct vs_block *block, const struct vs_python *p, const struct vs_python *at,
                             uintptr_t state, uintptr_t frame)
{
    if (unlikely_(frame < AT(uintptr_t, state, at->chunk)) ||
        unlikely_(frame >= AT(uintptr_t, state, at->chunk + 8)))
        return vs_python_plausible_elsewhere(p, state, frame);
    if (unlikely_(++block->python_looks % LOOK_AGAIN_AFTER == 0))
        vs_python_look_again(block);
    uintptr_t code = AT(uintptr_t, frame, at->code);
    return frame % 8 == 0 && page_readable(block, code) && is_code(p, code);
}

static ALWAYS uint64_t identity_of(const struct vs_python *p, uintptr_t code, enum vs_python_kind kind)
{
    if (kind == VS_PYTHON_VERSIONS)
        return AT(uint32_t, code, p->version);
    return vs_mix(AT(uintptr_t, code, p->filename) ^ AT(uint32_t, code, p->firstlineno),
                  AT(uintptr_t, code, p->linetable) ^ AT(uintptr_t, code, p->name) << 20);
}

/* Walks from *FIRST outward to END (0: all), MAX frames of code at most; their number, with a hash of them in
 * HASH.  *FIRST: where it ended.  AT has the offsets.  KIND and OTHERS are constants of the caller: three
 * loops, none of which asks what it is about.  OUT is NULL where the hash alone is wanted: a walk that stores
 * nothing costs the least.
 *
 * Both halves of the hash are factors of one product, of which both halves go on: it has all that the factors
 * have unless one is zero, which is one case in 2^64. */
static ALWAYS int walk(const struct vs_python *p, const struct vs_python *at, uintptr_t *first, uintptr_t end,
                       struct vs_python_frame *out, int max, uint64_t hash[2], enum vs_python_kind kind,
                       bool others)
{
    uint64_t a = 0x9e3779b97f4a7c15u, b = 0xc2b2ae3d27d4eb4fu;
    uintptr_t frame = *first, none = atomic_load_explicit(&p->none, memory_order_relaxed);
    int n = 0;
    for (; likely_(frame != end) && likely_(frame != 0) && likely_(n < max);
         frame = AT(uintptr_t, frame, at->previous)) {
        uintptr_t code = AT(uintptr_t, frame, at->code);
        if (others) {
            code &= ~(uintptr_t)at->tags;
            if (!code || code == none)
                continue; /* the entry of the interpreter's loop */
        }
        uintptr_t instr = kind == VS_PYTHON_OBJECTS ? (uintptr_t)(intptr_t)AT(int, frame, at->instr)
                                                    : AT(uintptr_t, frame, at->instr);
        uint64_t identity = identity_of(at, code, kind);
        unsigned __int128 product = (unsigned __int128)(a ^ code ^ identity << 32) * (b ^ instr);
        a = (uint64_t)product ^ (uint64_t)(product >> 64);
        b = (uint64_t)(product >> 64) ^ identity;
        if (out)
            out[n] = (struct vs_python_frame){code, instr, identity, frame};
        n++;
    }
    hash[0] = a;
    hash[1] = b;
    *first = frame;
    return n;
}

static ALWAYS int walk_to(const struct vs_python *p, uintptr_t *first, uintptr_t end,
                          struct vs_python_frame *out, int max, uint64_t hash[2])
{
    if (p->kind >= VS_PYTHON_VERSIONS)
        return walk(p, p, first, end, out, max, hash, VS_PYTHON_VERSIONS, true);
    if (p->kind == VS_PYTHON_UNPROVEN)
        return walk(p, p, first, end, out, max, hash, VS_PYTHON_UNPROVEN, true);
    if (p->kind == VS_PYTHON_STRUCTS)
        return walk(p, p, first, end, out, max, hash, VS_PYTHON_STRUCTS, false);
    return walk(p, p, first, end, out, max, hash, VS_PYTHON_OBJECTS, false);
}

static inline void put_outside(uint64_t hash[2], const struct vs_open_call *call)
{
    unsigned __int128 product =
        (unsigned __int128)(hash[0] ^ call->hash[0]) * (hash[1] ^ call->hash[1] ^ 0xd6e8feb86659fd93u);
    hash[0] = (uint64_t)product ^ (uint64_t)(product >> 64);
    hash[1] = (uint64_t)(product >> 64) ^ call->hash[1];
}

/* A walk for the hash alone by the offsets AT, which are constants if FIXED. */
static ALWAYS uint32_t piece(const struct vs_python *p, const struct vs_python *at, bool fixed,
                             uintptr_t *first, uintptr_t end, uint64_t hash[2])
{
    return (uint32_t)(fixed ? walk(p, at, first, end, NULL, p->depth, hash, VS_PYTHON_VERSIONS, true)
                            : walk_to(p, first, end, NULL, p->depth, hash));
}

/* Walks over what lies outside of CALL, whose frame a walk has just met, once while it is open: piece by
 * piece, each up to the next call further out, as far as calls know nothing yet.  Nothing is read but what is
 * on the way. */
static ALWAYS void walk_outside(const struct vs_python *p, const struct vs_python *at, bool fixed,
                                struct vs_open_call *call)
{
    struct vs_open_call *outermost = vs_open_calls.at, *c = call;
    uintptr_t frame = call->frame;
    uint32_t frames[VS_OPEN_CALLS];
    for (;; c--) {
        uintptr_t end = c > outermost ? c[-1].frame : 0;
        frames[c - outermost] = piece(p, at, fixed, &frame, end, c->hash);
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
 * of CALL, the innermost that is open, are those that they were at the last walk. */
static ALWAYS uint32_t walk_open(const struct vs_python *p, const struct vs_python *at, bool fixed,
                                 void (*outside)(const struct vs_python *, struct vs_open_call *),
                                 struct vs_open_call *call, uintptr_t frame, uint64_t hash[2])
{
    uintptr_t last = frame, end = call ? call->frame : 0;
    uint32_t n = piece(p, at, fixed, &last, end, hash);
    if (unlikely_(!last) || unlikely_(last != end))
        return n;
    if (unlikely_(!call->frames))
        outside(p, call);
    if (unlikely_(n + call->frames > p->depth)) { /* the outermost are cut off */
        uint64_t all[2]; /* its address is given away, and so HASH stays in registers */
        n = (uint32_t)vs_python_walk_any(p, frame, NULL, p->depth, all);
        hash[0] = all[0];
        hash[1] = all[1];
        return n;
    }
    put_outside(hash, call);
    return n + call->frames;
}

static inline uint64_t runtime_word(const struct vs_python *p, int at)
{
    return __atomic_load_n((const uint64_t *)(p->runtime + (uintptr_t)at), __ATOMIC_RELAXED);
}

/* What could make these reads wrong, and what is done about it:
 *   - the interpreter's end frees the states of other threads: nothing is read once it is finalizing.  A
 *     daemon thread would have to be between that question and its last read, which is some 100 ns, while
 *     the interpreter goes through the microseconds from its own mark to the first free;
 *   - 3.10 to 3.12 give each thread the main interpreter's state also inside a sub-interpreter: while there
 *     are several interpreters nothing is read;
 *   - in 3.11 and 3.12 a signal may interrupt the few instructions between which the innermost frame is not
 *     set yet, or has just been left.  Frames lie on a stack of their own, whose live part is known: a word
 *     that leads there is followed, one that leads above it is not, and of any other (a generator has its
 *     frame with it) the kernel is asked each time whether it can be read.  What it leads to must be a code
 *     object. */

/* The calling thread's state; 0 where it has none, or where it must not be looked at now.  The same by words
 * of _PyRuntime as by four calls: between a program's own work each call is some lines and a page of code
 * that nobody else wants.  KNOWN: as calls that are open have it; NULL: not known. */
static ALWAYS uintptr_t state_now(const struct vs_python *p, const struct vs_python *at, bool fixed,
                                  const void *known)
{
    if (!fixed && unlikely_(!atomic_load_explicit(&p->direct, memory_order_relaxed)))
        return vs_python_state_by_calls(p);
    if (unlikely_(runtime_word(p, at->finalizing_at) != 0))
        return 0;
    if (at->minor <= 12 && unlikely_(runtime_word(p, at->head_at) != runtime_word(p, at->head_at + 8)))
        return 0;
    return likely_(known != NULL) ? (uintptr_t)known : vs_python_state_by_key(p);
}

/* The calling thread's innermost frame; 0 where there is none, or where it must not be looked at now. */
static ALWAYS uintptr_t first_frame(struct vs_block *block, const struct vs_python *p,
                                    const struct vs_python *at, bool fixed, const void *known)
{
    uintptr_t state = state_now(p, at, fixed, known);
    if (unlikely_(!state))
        return 0;
    if (!fixed && unlikely_(!atomic_load_explicit(&p->checked, memory_order_relaxed)) &&
        !vs_python_checked_now(state))
        return 0;
    if (at->cframe < 0)
        return AT(uintptr_t, state, at->current);
    uintptr_t holder = AT(uintptr_t, state, at->cframe);
    uintptr_t frame = likely_(holder != 0) ? AT(uintptr_t, holder, at->current) : 0;
    return likely_(frame != 0) && likely_(plausible(block, p, at, state, frame)) ? frame : 0;
}

#endif
