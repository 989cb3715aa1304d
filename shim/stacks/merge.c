/* merge.c - a native stack and Python frames as one stack (python.h). */
#include "python.h"

struct merge {
    struct vs_block *block;
    struct vs_journal *j;
    const struct vs_python *p;
    int python, next; /* frames in block->python->walked, and the next one to be put */
    uint32_t *out;
    int count, max;
    bool full; /* the journal is */
};

static uintptr_t caller_of(const struct vs_python *p, const struct vs_python_frame *f)
{
    return VS_PYTHON_AT(uintptr_t, f->frame, p->previous);
}

/* Whether F was entered by a call of the interpreter's loop. */
static bool is_entry(const struct vs_python *p, const struct vs_python_frame *f)
{
    if (p->owner < 0)
        return true;
    if (p->entry >= 0)
        return VS_PYTHON_AT(unsigned char, f->frame, p->entry) != 0;
    uintptr_t caller = caller_of(p, f);
    return !caller || VS_PYTHON_AT(unsigned char, caller, p->owner) >= VS_PYTHON_OWNER_SHIM;
}

/* The frame that stands for the loop's entry itself. */
static bool is_shim(const struct vs_python *p, const struct vs_python_frame *f)
{
    return p->owner >= 0 && VS_PYTHON_AT(unsigned char, f->frame, p->owner) >= VS_PYTHON_OWNER_SHIM;
}

static void put(struct merge *m, uint32_t frame)
{
    if (frame == 0)
        m->full = true;
    else if (frame != VS_PYTHON_SKIP && m->count < m->max)
        m->out[m->count++] = frame;
}

/* The Python frames of one call of the loop, or all that are left. */
static void put_python(struct merge *m, bool one_call)
{
    while (m->next < m->python) {
        const struct vs_python_frame *f = &m->block->python->walked[m->next++];
        put(m, vs_python_frame_id(m->block, m->j, f));
        if (one_call && !is_shim(m->p, f) && is_entry(m->p, f))
            return;
    }
}

static bool in_loop(const struct vs_python *p, uint64_t address)
{
    return address - p->eval < p->eval_end - p->eval;
}

static bool in_interpreter(const struct vs_python *p, uint64_t address)
{
    return address - p->object < p->object_end - p->object;
}

/* Whether calls of the loop and runs of frames pair off. */
static bool pairs(const struct merge *m, const struct vs_native_frame *native, int count, bool cut)
{
    int calls = 0, runs = 0;
    for (int i = 0; i < count; i++)
        calls += in_loop(m->p, native[i].address);
    for (int i = 0; i < m->python; i++)
        runs += !is_shim(m->p, &m->block->python->walked[i]) && is_entry(m->p, &m->block->python->walked[i]);
    return calls == runs || (cut && calls > 0 && calls < runs);
}

int vs_merge(struct vs_block *block, struct vs_journal *j, const struct vs_native_frame *native, int count,
             bool cut, int python, uint32_t *out, int max)
{
    struct merge m = {.block = block, .j = j, .p = vs_python_now(), .python = python, .out = out, .max = max};
    if (!m.p)
        m.python = 0;
    bool paired = m.python > 0 && pairs(&m, native, count, cut);
    for (int i = 0; i < count; i++) {
        bool left = m.next < m.python;
        if (left && paired && in_loop(m.p, native[i].address)) {
            put_python(&m, true);
        } else if (left && !paired && in_interpreter(m.p, native[i].address)) {
            put_python(&m, false);
            break;
        } else {
            put(&m, native[i].frame);
        }
    }
    put_python(&m, false);
    return m.full ? 0 : m.count;
}
