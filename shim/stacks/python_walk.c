/* python_walk.c - what is rare in a walk over Python frames (python_walk.h). */
#include "python_walk.h"

#include <pthread.h>
#include <string.h>

#include "core/readable.h"

/* Whether the page of ADDRESS, a code object that a live frame holds, can be read.  The kernel is asked once,
 * and again after a while: a call takes longer than all else that a capture does, and a step goes through the
 * code of some dozens of pages. */
bool vs_python_ask_page(uint64_t *known, uintptr_t address)
{
    if (!vs_readable(address))
        return false;
    *known = address >> 12;
    return true;
}

/* Whether the words from FIRST to LAST, less than a page apart, can be read now. */
static bool readable_now(uintptr_t first, uintptr_t last)
{
    return first >= 4096 && first % 8 == 0 && vs_readable(first) &&
           (first >> 12 == last >> 12 || vs_readable(last));
}

/* A frame that is not in the live part of the thread's newest piece of stack: what was readable a moment ago
 * need not be any more. */
bool vs_python_plausible_elsewhere(const struct vs_python *p, uintptr_t state, uintptr_t frame)
{
    uintptr_t top = AT(uintptr_t, state, p->chunk + 8), end = AT(uintptr_t, state, p->chunk + 16);
    if ((frame >= top && frame < end) || !readable_now(frame, frame + (uintptr_t)p->owner))
        return false;
    uintptr_t code = AT(uintptr_t, frame, p->code);
    return readable_now(code, code + 8) && is_code(p, code);
}

void vs_python_look_again(struct vs_block *block)
{
    memset(block->python_pages, 0, sizeof block->python_pages);
}

int vs_python_walk_any(const struct vs_python *p, uintptr_t frame, struct vs_python_frame *out, int max,
                       uint64_t hash[2])
{
    return walk_to(p, &frame, 0, out, max, hash);
}

/* The key is a Py_tss_t: whether it was made, and the number that pthreads gave it. */
uintptr_t vs_python_state_by_key(const struct vs_python *p)
{
    uint64_t key = runtime_word(p, p->key_at);
    return (uint32_t)key == 1 ? (uintptr_t)pthread_getspecific((pthread_key_t)(key >> 32)) : 0;
}

uintptr_t vs_python_state_by_calls(const struct vs_python *p)
{
    uintptr_t state = (uintptr_t)p->thread_state();
    if (!state || p->finalizing())
        return 0;
    return p->minor <= 12 && p->first_interpreter() != p->main_interpreter() ? 0 : state;
}

/* Whether the words say what the calls say. */
bool vs_python_words_agree(const struct vs_python *p, uintptr_t state)
{
    return p->key_at >= 0 && runtime_word(p, p->head_at) == (uintptr_t)p->first_interpreter() &&
           runtime_word(p, p->head_at + 8) == (uintptr_t)p->main_interpreter() &&
           !runtime_word(p, p->finalizing_at) && !p->finalizing() && vs_python_state_by_key(p) == state;
}

/* The code object of the frames that are entries of the interpreter's loop, which in 3.12 are there behind
 * each call from C; None, which is no frame's code, if there is no such frame. */
uintptr_t vs_python_entry_code(const struct vs_python *p, uintptr_t state)
{
    uintptr_t frame = AT(uintptr_t, AT(uintptr_t, state, p->cframe), p->current);
    while (frame && AT(unsigned char, frame, p->owner) != VS_PYTHON_OWNER_SHIM)
        frame = AT(uintptr_t, frame, p->previous);
    return frame ? AT(uintptr_t, frame, p->code) : p->none;
}
