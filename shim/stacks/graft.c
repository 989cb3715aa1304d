/*
 * graft.c - extends stacks: one that is taken while an autograd node runs goes on with the stack of the
 * forward that made the node, and a module whose call is open becomes the innermost frame.
 *
 *      inside of the run of a node        hook train.py:80 ─▶ AddmmBackward0 ─▶ forward train.py:41 ─▶ main
 *      where a module's call is open      layers.7.mlp ─▶ forward train.py:41 ─▶ main
 */
#include "stacks.h"

#include <string.h>
#include <sys/prctl.h>

#include "block.h"
#include "core/hot.h"

/* ---- which frames are inside of the run ----
 *
 * Where backward runs on the thread that called it, the frame in which Python enters the engine is the
 * boundary, and what is outside of it is left out.  On a thread of the engine's there is nothing outside.
 * Where neither is so (C++ called backward, below Python code), Python frames inside of the run cannot be
 * told from those outside: all are left out. */

static bool ends_in(const char *text, size_t length, const char *end)
{
    size_t n = strlen(end);
    return length >= n && memcmp(text + length - n, end, n) == 0;
}

static bool is_function(struct vs_journal *j, const struct vs_frame_row *f, const char *in, const char *name)
{
    size_t file_length = 0, length = 0;
    const char *file = vs_journal_get_string(j, f->file, &file_length);
    const char *function = vs_journal_get_string(j, f->function, &length);
    return f->kind == VS_FRAME_PYTHON && file && function && ends_in(file, file_length, in) &&
           (!name || (length == strlen(name) && memcmp(function, name, length) == 0));
}

/* Whether frame F calls the engine: torch's one function that does, or ours in front of an engine that is
 * called directly.  INNER, the frame that F calls (or NULL), tells that from ours in front of torch's. */
static bool enters_engine(struct vs_journal *j, const struct vs_frame_row *f,
                          const struct vs_frame_row *inner)
{
    if (is_function(j, f, "/torch/autograd/graph.py", "_engine_run_backward"))
        return true;
    return (is_function(j, f, "/vramscope/_torch.py", "_wrap_backward.<locals>.backward") ||
            is_function(j, f, "/vramscope/_torch.py", "backward")) &&
           !(inner && is_function(j, inner, "/torch/autograd/__init__.py", NULL));
}

static bool on_engines_thread(void)
{
    char name[17] = "";
    prctl(PR_GET_NAME, name);
    return strncmp(name, "pt_autograd_", 12) == 0;
}

/* Fills FRAMES, innermost first, with those of STACK that are inside of the run. */
static int frames_inside(struct vs_journal *j, uint32_t stack, uint32_t *frames, int max)
{
    const struct vs_stack_row *row;
    const struct vs_frame_row *f, *inner = NULL;
    int n = 0;
    for (; stack && n < max && (row = vs_journal_get_stack(j, stack)); stack = row->parent, inner = f) {
        f = vs_journal_get_frame(j, row->frame);
        if (!f || enters_engine(j, f, inner))
            return n;
        frames[n++] = row->frame;
    }
    return on_engines_thread() ? n : 0;
}

/* ---- putting together ---- */

/* The calling thread's block, whose ids are those of J; NULL as vs_block_enter(). */
static struct vs_block *enter(struct vs_journal *j)
{
    struct vs_block *block = vs_block_enter();
    if (block && __builtin_expect(block->python_journal != j, 0)) {
        if (block->python)
            vs_block_forget_python(block);
        else
            memset(block->nodes, 0, sizeof block->nodes);
        block->python_journal = j;
    }
    return block;
}

static uint32_t graft(struct vs_block *block, struct vs_journal *j, uint32_t stack, uint32_t base)
{
    uint32_t *frames = block->merged;
    for (int n = frames_inside(j, stack, frames, VS_STACK_DEPTH_MAX); n-- > 0 && base;)
        base = vs_node_of(block, j, base, frames[n]);
    return base;
}

static uint32_t graft_once(struct vs_block *block, struct vs_journal *j, uint32_t stack, uint32_t base)
{
    uint64_t key = (uint64_t)stack << 32 | base;
    if (!block->python) /* native frames on a thread without Python: rare, and nowhere to be kept */
        return graft(block, j, stack, base);
    struct vs_graft_slot *set =
        &block->python->grafts[vs_mix(key, 0x9e3779b97f4a7c15u) % (VS_GRAFT_SLOTS / 4) * 4];
    for (int i = 0; i < 4; i++)
        if (set[i].key == key)
            return set[i].stack;
    uint32_t made = graft(block, j, stack, base);
    memmove(set + 1, set, 3 * sizeof *set);
    *set = (struct vs_graft_slot){made ? key : 0, made};
    return made;
}

VS_HOT_CODE uint32_t vs_stack_placed(struct vs_journal *j, uint32_t stack, const struct vs_stack_place *place)
{
    struct vs_block *block = enter(j);
    uint32_t base, placed = stack;
    if (!block)
        return stack;
    if (place->node) {
        base = vs_node_of_node(block, j, place->forward, place->node);
        base = stack && base ? graft_once(block, j, stack, base) : base;
        placed = base ? base : stack; /* the journal is full: as if nothing ran */
    }
    if (place->layer && (base = vs_node_of(block, j, placed, place->layer)))
        placed = base;
    vs_block_leave(block);
    return placed;
}
