/*
 * native.c - call stacks: captures the calling thread's return addresses and interns them in the journal.
 *
 *      vs_unwind ──▶ pcs ──▶ hash ──▶ this thread's table of whole stacks ──▶ id        (every time)
 *                                      │ not there
 *                                      ▼ from the outermost pc inwards
 *                        pc ──▶ frame id,  (parent, frame) ──▶ stack id                 (new stacks)
 *                                │ not there         │ not there
 *                                ▼                   ▼
 *                          vs_module_id, vs_journal_frame, vs_journal_stack             (new pcs, nodes)
 *
 * The thread's caches (block.h) are good as long as the loader has loaded nothing new: an address can only
 * change its owner through a load.  A pc that lies in no object (code made at run time, a wrong guess of the
 * unwinder) is a frame of no module, and everything outside of it is cut off.  A frame's address is its
 * return address - 1; the one frame that a signal interrupted is off by that byte.
 */
#define _GNU_SOURCE
#include "record/record.h"

#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/contracts.h"
#include "core/log.h"
#include "core/options.h"
#include "core/own_work.h"
#include "block.h"
#include "modules.h"
#include "python.h"
#include "stacks.h"
#include "unwinder.h"

enum { OWN_FRAMES = 2 }; /* vs_unwind, vs_stack_capture */

static struct {
    _Atomic int prepared;
    _Atomic bool ready;
    bool merge; /* with Python frames */
    char why[512];
} stacks;

/* ---- preparing ---- */

void vs_stack_set_depth(unsigned depth)
{
    vs_stack_depth = depth < 1 ? 1 : depth > VS_STACK_DEPTH_MAX ? VS_STACK_DEPTH_MAX : depth;
}

const char *vs_stack_why_off(void)
{
    return stacks.why;
}

static bool load_from(const char *directory)
{
    if (!vs_unwinder_load(directory, stacks.why, sizeof stacks.why))
        return vs_contract_broken(VS_CONTRACT_UNWINDER, "%s", stacks.why);
    vs_contract_proven(VS_CONTRACT_UNWINDER, "a stack whose return addresses are known was walked");
    return true;
}

/* lib/libvramscope.so has lib/vramscope/ beside it; a test in tests/ finds ../lib/vramscope/. */
static bool load_beside(const char *self)
{
    static const char *const places[] = {"vramscope", "../lib/vramscope"};
    const char *slash = strrchr(self, '/');
    char directory[PATH_MAX + 32];
    for (size_t i = 0; slash && i < sizeof places / sizeof *places; i++) {
        snprintf(directory, sizeof directory, "%.*s/%s", (int)(slash - self), self, places[i]);
        if (access(directory, X_OK) == 0)
            return load_from(directory);
    }
    snprintf(stacks.why, sizeof stacks.why, "no directory vramscope/ with the private libunwind beside %s",
             self[0] ? self : "libvramscope.so");
    return false;
}

static void load(void *unused)
{
    stacks.merge = vs_options.stacks == VS_STACKS_PYTHON || vs_options.stacks == VS_STACKS_ALL;
    if (!vs_imports_prepare())
        snprintf(stacks.why, sizeof stacks.why, "%s",
                 vs_contract_state(VS_CONTRACT_LIBC_OBJECTS) == VS_CONTRACT_BROKEN
                     ? vs_contract_detail(VS_CONTRACT_LIBC_OBJECTS)
                     : "no memory for a table of objects");
    else if (load_beside(vs_module_self()))
        /* release: a thread that sees `ready` sees the unwinder's pointers */
        atomic_store_explicit(&stacks.ready, true, memory_order_release);
    vs_python_prepare();
}

void vs_stack_prepare(void)
{
    if (vs_options.stacks == VS_STACKS_OFF ||
        atomic_exchange_explicit(&stacks.prepared, 1, memory_order_relaxed))
        return;
    int saved = errno;
    struct vs_signal_mask mask;
    vs_signal_mask_block(&mask);
    vs_record_enter_internal(); /* dlopen runs the host's malloc and whatever else it hooked */
    vs_on_own_stack(load, NULL);
    vs_record_leave_internal();
    vs_signal_mask_restore(&mask);
    if (stacks.why[0])
        vs_log("no native call stacks: %s", stacks.why);
    else
        vs_log_verbose("call stacks by the private libunwind");
    errno = saved;
}

void vs_stack_refresh(struct vs_journal *j)
{
    static unsigned round;
    if (!vs_modules_refresh())
        return;
    vs_python_prepare();
    if (++round % 64 == 0)
        vs_blocks_reap();
}

/* ---- interning ---- */

static const uint64_t odd[4] = {0xa0761d6478bd642fu, 0xe7037ed1a0b428dbu, 0x8ebc6af09c88c6e3u,
                                0x589965cc75374cc3u};

/* Two independent 64-bit hashes: 128 bits stand for the stack itself.  Each is made in two chains that are
 * joined at the end, as one multiplication after the other is what a long stack would wait for. */
static void hash_pcs(void *const *pcs, int count, uint64_t hash[2])
{
    uint64_t a[2] = {0x9e3779b97f4a7c15u ^ (uint64_t)count, 0xd6e8feb86659fd93u};
    uint64_t b[2] = {0xc2b2ae3d27d4eb4fu, 0xff51afd7ed558ccdu};
    int i = 0;
    for (; i + 4 <= count; i += 4) {
        for (int chain = 0; chain < 2; chain++) {
            uint64_t p = (uint64_t)pcs[i + 2 * chain], q = (uint64_t)pcs[i + 2 * chain + 1];
            a[chain] = vs_mix(a[chain] ^ p, q ^ odd[0]);
            b[chain] = vs_mix(b[chain] ^ q, p ^ odd[1]);
        }
    }
    for (; i < count; i++) {
        a[0] = vs_mix(a[0] ^ (uint64_t)pcs[i], odd[2]);
        b[0] = vs_mix(b[0] ^ (uint64_t)pcs[i], odd[3]);
    }
    hash[0] = vs_mix(a[0] ^ odd[1], a[1] ^ odd[2]);
    hash[1] = vs_mix(b[0] ^ odd[3], b[1] ^ odd[0]);
}

static struct vs_frame_slot *frame_of(struct vs_block *block, struct vs_journal *j, uint64_t address)
{
    struct vs_frame_slot *slot = &block->frames[vs_mix(address, 0x9e3779b97f4a7c15u) % VS_FRAME_SLOTS];
    if (slot->pc == address)
        return slot;
    struct vs_object object;
    slot->module = vs_object_find(address, &object) ? vs_module_id(j, &object) : 0;
    slot->frame = vs_journal_frame(j, address, slot->module);
    slot->pc = address;
    return slot;
}

/* The number of innermost pcs that are known to be right. */
static int trusted(struct vs_block *block, struct vs_journal *j, void *const *pcs, int count)
{
    for (int i = 0; i < count; i++)
        if (frame_of(block, j, (uint64_t)pcs[i] - 1)->module == 0)
            return i + 1;
    return count;
}

static uint32_t intern(struct vs_block *block, struct vs_journal *j, void *const *pcs, int count)
{
    uint32_t node = 0;
    for (int i = trusted(block, j, pcs, count); i-- > 0;) {
        struct vs_frame_slot *frame = frame_of(block, j, (uint64_t)pcs[i] - 1);
        if (!frame->frame)
            return 0; /* the table is full (counted there): no stack rather than a wrong one */
        node = vs_node_of(block, j, node, frame->frame);
        if (!node)
            return 0;
    }
    return node;
}

/* The same where Python code runs among them. */
static uint32_t intern_merged(struct vs_block *block, struct vs_journal *j, void *const *pcs, int count,
                              int python)
{
    int known = trusted(block, j, pcs, count);
    for (int i = 0; i < known; i++) {
        uint64_t address = (uint64_t)pcs[i] - 1;
        block->natives[i] = (struct vs_native_frame){address, frame_of(block, j, address)->frame};
    }
    bool cut = known < count || count == (int)vs_stack_depth;
    int n = vs_merge(block, j, block->natives, known, cut, python, block->merged, (int)vs_stack_depth);
    uint32_t node = 0;
    for (int i = n; i-- > 0;)
        if (!(node = vs_node_of(block, j, node, block->merged[i])))
            return 0;
    return node;
}

static uint32_t lookup(struct vs_block *block, struct vs_journal *j, void *const *pcs, int count)
{
    uint64_t hash[2], frames[2] = {0, 0};
    int python = stacks.merge ? vs_python_walk(block, j, (int)vs_stack_depth, frames) : 0;
    hash_pcs(pcs, count, hash);
    hash[0] ^= frames[0];
    hash[1] ^= frames[1];
    uint32_t counts = (uint32_t)count | (uint32_t)python << 16;
    struct vs_stack_slot *slot = &block->stacks[hash[0] % VS_STACK_SLOTS];
    if (slot->hash[0] == hash[0] && slot->hash[1] == hash[1] && slot->count == counts &&
        slot->last == pcs[count - 1])
        return slot->stack;
    slot->count = 0; /* not valid while it changes: interning may end early */
    uint32_t stack = python ? intern_merged(block, j, pcs, count, python) : intern(block, j, pcs, count);
    *slot = (struct vs_stack_slot){
        .hash = {hash[0], hash[1]}, .last = pcs[count - 1], .count = counts, .stack = stack};
    return stack;
}

/* ---- capturing ---- */

/* Drops what is no longer true: another journal's ids, pcs from before a load. */
static void renew(struct vs_block *block, struct vs_journal *j)
{
    static _Atomic uint64_t flushed;
    uint64_t loads = vs_module_loads();
    if (__builtin_expect(block->journal == j && block->loads == loads, 1))
        return;
    if (block->journal && (block->loads != loads || block->journal != j))
        vs_block_forget(block);
    /* relaxed: at worst two threads flush */
    if (atomic_exchange_explicit(&flushed, loads, memory_order_relaxed) != loads)
        vs_unwinder_flush();
    block->journal = j;
    block->loads = loads;
}

/* Leaves out the innermost SKIP frames above vs_stack_capture's, and then what lies in this library. */
static int first_frame(void *const *pcs, int count, int skip)
{
    int first = OWN_FRAMES + (skip > 0 ? skip : 0);
    while (first < count && vs_module_is_self((uintptr_t)pcs[first] - 1))
        first++;
    return first;
}

__attribute__((noinline)) uint32_t vs_stack_capture(struct vs_journal *j, int skip)
{
    if (!j || !atomic_load_explicit(&stacks.ready, memory_order_acquire))
        return stacks.merge ? vs_python_capture(j) : 0; /* without an unwinder what can be told */
    int saved = errno;
    uint32_t stack = 0;
    struct vs_block *block = vs_block_enter();
    if (block) {
        renew(block, j);
        int max = (int)vs_stack_depth + VS_STACK_OWN_MAX;
        int count = vs_unwind(block, block->pcs, max);
        int first = first_frame(block->pcs, count, skip);
        if (count - first > (int)vs_stack_depth)
            count = first + (int)vs_stack_depth;
        if (first < count)
            stack = lookup(block, j, block->pcs + first, count - first);
        vs_block_leave(block);
    }
    errno = saved;
    return stack;
}
