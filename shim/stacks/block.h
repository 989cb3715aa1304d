/*
 * block.h - what a thread needs to capture call stacks: one anonymous mapping per thread, made at its first
 * capture, another at its first capture of Python frames, and the tables in them.
 *
 * The kernel wipes a block in a fork child (core/fork.h): a child starts with an empty one, whatever state
 * the parent's threads were in. Nothing runs in a thread when it ends; the drain thread unmaps the blocks of
 * threads that are gone.
 */
#ifndef VS_STACKS_BLOCK_H
#define VS_STACKS_BLOCK_H

#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "core/hot.h"
#include "trace/journal/journal.h"

#define VS_STACK_DEPTH_MAX 256
#define VS_STACK_OWN_MAX   32 /* frames of ours above the caller's */

/* Frames kept of a stack (stacks.h: vs_stack_set_depth); never written after the first capture. */
extern unsigned vs_stack_depth;

enum {
    VS_STACK_SLOTS = 1024,        /* whole stacks, by hash */
    VS_FRAME_SLOTS = 4096,        /* pc -> frame */
    VS_NODE_SLOTS = 4096,         /* (parent, frame) -> stack */
    VS_PYTHON_STACK_SLOTS = 4096, /* whole stacks of Python frames, in their layer, by hash */
    VS_PYTHON_FRAME_SLOTS = 4096, /* (code object, instruction) -> frame */
    VS_PYTHON_TEXT = 4096,
    VS_GRAFT_SLOTS = 512, /* (stack, what it is put on) -> stack */
    VS_BLOCK_REGIONS = 8,
    VS_BLOCK_TLS = 64,
    VS_BLOCK_LOCKS = 8,
    VS_BLOCK_PAGES = 64,
    VS_PYTHON_PAGES = 128
};

/* A native frame that has no place in a stack yet: its address (return address - 1) and its id in the
 * journal. */
struct vs_native_frame {
    uint64_t address;
    uint32_t frame;
};

/* A Python frame as it is walked over: enough to name it later, and to know it again. */
struct vs_python_frame {
    uintptr_t code;    /* the code object */
    uintptr_t instr;   /* 3.10: index of the instruction; later its address */
    uint64_t identity; /* tells the code object from another one that had its address before */
    uintptr_t frame;
};

struct vs_stack_slot {
    uint64_t hash[2];
    union {
        void *last;    /* native: outermost pc */
        uint16_t next; /* Python, in the first slot of a set: the set that was looked into after this one */
    };
    uint32_t count;
    uint32_t stack;
};
struct vs_frame_slot {
    uint64_t pc;
    uint32_t frame;
    uint32_t module;
};
struct vs_python_frame_slot {
    uintptr_t code, instr;
    uint64_t identity;
    uint32_t frame;
};
struct vs_graft_slot {
    uint64_t key; /* stack << 32 | base; 0: nothing here */
    uint32_t stack;
};
struct vs_node_slot {
    uint64_t key; /* parent << 32 | frame */
    uint32_t stack;
    uint16_t used;
    uint16_t next; /* in the first slot of a set, of those of autograd's nodes: as above */
};

/* Python's: they do not depend on what the loader has loaded. */
struct vs_block_python {
    struct vs_python_frame walked[VS_STACK_DEPTH_MAX];
    _Alignas(64) struct vs_stack_slot stacks[VS_PYTHON_STACK_SLOTS];
    struct vs_python_frame_slot frames[VS_PYTHON_FRAME_SLOTS];
    _Alignas(64) struct vs_graft_slot grafts[VS_GRAFT_SLOTS];
    char text[VS_PYTHON_TEXT];
};

struct vs_block {
    uint32_t live; /* 0 in a fork child: wiped */
    volatile sig_atomic_t busy;
    pid_t tid;
    uint32_t python_captures;
    struct vs_block_python *python;    /* NULL before the first capture of Python frames */
    struct vs_journal *python_journal; /* that the cached ids of Python stacks belong to */
    uint32_t python_looks;             /* at the pages below */
    uint32_t python_copies;            /* struct vs_python.copies_changed, when the names were made */
    /* sets of `python->stacks`, and of `nodes` for autograd's: looked into last, and the one that was looked
     * into after that the time before (vs_expected) */
    struct vs_order {
        uint16_t last, next;
    } stack_order, node_order;
    struct vs_journal *journal; /* that the cached ids of native stacks belong to */
    struct vs_block *next;
    uint64_t loads;                               /* the loader's count that the cached pcs belong to */
    _Alignas(16) unsigned char tls[VS_BLOCK_TLS]; /* libunwind's thread-locals */
    void *escape[8];                              /* where abort() inside libunwind goes */
    unsigned *locks[VS_BLOCK_LOCKS];              /* held by this thread */
    unsigned lock_count;
    uint32_t captures;
    struct {
        uint64_t page;
        uint32_t capture;
    } readable[VS_BLOCK_PAGES]; /* pages found readable during this capture */
    struct {
        void *at;
        size_t size;
    } regions[VS_BLOCK_REGIONS];            /* libunwind's frame caches */
    uint64_t python_pages[VS_PYTHON_PAGES]; /* numbers of pages that were readable not long ago, by number */
    void *pcs[VS_STACK_DEPTH_MAX + VS_STACK_OWN_MAX];
    struct vs_stack_slot stacks[VS_STACK_SLOTS];
    struct vs_frame_slot frames[VS_FRAME_SLOTS];
    _Alignas(64) struct vs_node_slot nodes[VS_NODE_SLOTS];
    struct vs_native_frame natives[VS_STACK_DEPTH_MAX]; /* of the stack that is being merged */
    uint32_t merged[VS_STACK_DEPTH_MAX];
};

/* vs_block_enter where the block is new, a fork child's, or taken. */
struct vs_block *vs_block_enter_first(void);

/* The calling thread's block with its guard taken, or NULL: the thread is inside already (a signal handler),
 * or there is no memory. */
static inline struct vs_block *vs_block_enter(void)
{
    struct vs_block *block = vs_self.block;
    if (__builtin_expect(!block, 0) || __builtin_expect(!block->live, 0) || __builtin_expect(block->busy, 0))
        return vs_block_enter_first();
    block->busy = 1;
    atomic_signal_fence(memory_order_seq_cst); /* only a handler on this very thread looks at it */
    return block;
}

static inline void vs_block_leave(struct vs_block *block)
{
    atomic_signal_fence(memory_order_seq_cst);
    block->busy = 0;
}

/* Gives the calling thread's block, which it is inside of, its `python`.  False: there is no memory. */
bool vs_block_add_python(struct vs_block *block);

/* The calling thread's block while it is inside, for the unwinder's imports. */
struct vs_block *vs_block_current(void);

/* Forgets everything cached of native stacks: ids, pcs and libunwind's own frame cache. */
void vs_block_forget(struct vs_block *block);
/* The same of Python's, which the block has. */
void vs_block_forget_python(struct vs_block *block);
/* Of these only which stack or frame belongs to which code objects. */
void vs_block_forget_python_names(struct vs_block *block);

/* Unmaps the blocks of threads that have ended.  One thread at a time. */
void vs_blocks_reap(void);

/* For tests: blocks that are mapped. */
size_t vs_blocks_count(void);

/* ---- the tree of callers, by which a stack gets its id ----
 *
 * A stack is known by 128 bits of hash, which stand for the stack itself.  A thread looks whole stacks up in
 * its own table first; for a new one it goes from the outermost frame inwards, (caller's stack, frame) ->
 * stack, in another table of its own, and calls the journal only for entries that this one lacks. */

static inline uint64_t vs_mix(uint64_t a, uint64_t b)
{
    unsigned __int128 product = (unsigned __int128)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

/* The stack that FRAME makes under PARENT (0: outermost); 0 where the journal's table is full. */
uint32_t vs_node_of(struct vs_block *block, struct vs_journal *j, uint32_t parent, uint32_t frame);
/* The same of the frame of one of autograd's nodes. */
uint32_t vs_node_of_node(struct vs_block *block, struct vs_journal *j, uint32_t parent, uint32_t frame);

/* Set I of a table is looked into.  A training step looks up the same things in the same order as the step
 * before, each once or a few times, and by then their lines are out of the processor's caches.  So the first
 * slot of each set has the set that came next (its place: next_of(I)), and ORDER the last one's; which set's
 * line to ask for now, one look ahead, is the result. */
#define vs_expected(order, i, next_of)                                                                       \
    ({                                                                                                       \
        struct vs_order *order_ = (order);                                                                   \
        uint16_t i_ = (i);                                                                                   \
        if (order_->last != i_) {                                                                            \
            if (__builtin_expect(order_->next != i_, 0))                                                     \
                next_of(order_->last) = i_;                                                                  \
            *order_ = (struct vs_order){i_, next_of(i_)};                                                    \
        }                                                                                                    \
        order_->next;                                                                                        \
    })

#endif
