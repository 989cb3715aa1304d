/*
 * cause.c - the settings and the limit that PyTorch's allocator had; and why a replay under the policy of the
 * recording may not meet it, by what the recording lacks.
 */
#include <stdlib.h>

#include "base/shown.h"
#include "base/units.h"
#include "read/tape.h"
#include "replay.h"

#define KEPT_MOST (UINT64_C(1) << 20) /* of a rest that a large block keeps */

uint64_t replay_first_limit(const struct trace_tape *tape, int64_t memory)
{
    return tape->fraction > 0 && memory > 0 ? (uint64_t)(tape->fraction * (double)memory) : UINT64_MAX;
}

bool replay_settings(const struct trace_tape *tape, struct torch_settings *s)
{
    *s = torch_defaults();
    if (tape->max_split > 0)
        s->max_split = (uint64_t)tape->max_split;
    if (tape->roundup > 0 && tape->asked) /* else all sizes are blocks', which are rounded already */
        s->roundup = (uint32_t)tape->roundup;
    if (tape->large_segment >= INT64_C(2) << 20)
        s->large_segment = (uint64_t)tape->large_segment;
    if (tape->gc_threshold > 0 && tape->gc_threshold < 1) /* of the capacity: nothing without one */
        s->gc_threshold = tape->gc_threshold;
    return torch_simulates(tape->version, &s->ties);
}

int64_t replay_last_limit(const struct trace_tape *tape, const struct trace_device *device)
{
    uint64_t first = replay_first_limit(tape, device ? device->total_bytes : UNKNOWN);
    int64_t limit = first == UINT64_MAX ? UNKNOWN : (int64_t)first;
    for (size_t i = 0; i < tape->n; i++)
        if (tape->at[i].what == TAPE_LIMIT)
            limit = (int64_t)tape->at[i].size;
    return limit;
}

static bool has(const struct trace_tape *tape, enum tape_what what)
{
    size_t i = 0;
    while (i < tape->n && tape->at[i].what != what)
        i++;
    return i < tape->n;
}

/* Whether a request that is not known matters.  It does if its block is above the limit on splitting, and the
 * request may be below it. */
static bool requests_matter(const struct trace_tape *tape)
{
    if (!tape->unasked_large || tape->max_split <= 0)
        return false;
    size_t i = 0;
    while (i < tape->n && (tape->at[i].what != TAPE_ALLOC || tape->at[i].size < (uint64_t)tape->max_split ||
                           tape->at[i].size - (uint64_t)tape->max_split >= KEPT_MOST))
        i++;
    return i < tape->n;
}

static bool has_private_pools(const struct trace_tape *tape)
{
    uint32_t s = tape->private_pool ? 0 : tape->streams;
    while (s < tape->streams && !tape->private_pool[s])
        s++;
    return s < tape->streams;
}

/* What of the requests, blocks or streams it lacks, where its settings and its allocator are known. */
static char *what_it_lacks(const struct trace_tape *tape, enum torch_ties ties)
{
    if (requests_matter(tape))
        return xstrdup("max_split_size decides by requests, and of some blocks only their sizes are known");
    if (tape->pools_unknown)
        return xformat(
            "which pool %s %s of is not known, as segments had gone back when the snapshot was taken",
            units_count(tape->pools_unknown, "request").s, tape->pools_unknown == 1 ? "was" : "were");
    if (tape->driver_blocks)
        return xstrdup("some blocks are memory of the driver's that PyTorch's allocator did not ask for, as "
                       "an export of a "
                       "recording has them");
    if (has_private_pools(tape))
        return xstrdup("of private pools not every request is known to be theirs, nor whether one splits its "
                       "segments");
    if (tape->unwatched)
        return xformat("of %s other streams may have held longer than was seen",
                       units_count(tape->unwatched, "freed block").s);
    if (!tape->version)
        return xstrdup("the version of PyTorch is not known, and of free blocks of one size not each takes "
                       "the same");
    if (tape->start && ties != TORCH_BY_ADDRESS)
        return xstrdup("in which order the segments were made that were there at the start is not known");
    return xstrdup("nothing that the recording lacks is known to be the cause");
}

char *replay_why_not(const struct trace_tape *tape, bool expandable)
{
    enum torch_ties ties;
    bool simulated = torch_simulates(tape->version, &ties);
    if (!tape->streams_known)
        return xstrdup("the stream of some blocks is not known, and was taken as the default one");
    if (!tape->settings_known)
        return xstrdup("the allocator's settings are not recorded");
    if (tape->changed)
        return xstrdup("the allocator's settings were changed in mid-run");
    if (tape->not_imitated)
        return xformat("settings that a replay does not imitate: %s", shown(tape->not_imitated));
    if (tape->version && !simulated)
        return xformat("recorded with PyTorch %s: simulated are the allocators of 2.3 to 2.15",
                       shown(tape->version));
    if (!expandable && tape->gc_threshold > 0 && tape->fraction <= 0 && !has(tape, TAPE_LIMIT))
        return xstrdup("garbage_collection_threshold is a share of a memory that is not recorded");
    if (tape->environment)
        return xstrdup("settings are those of the environment, and the program may have set others");
    return what_it_lacks(tape, ties);
}
