/*
 * snapshot_pools.c - of which stream and pool each segment of a snapshot is.
 *
 * A recording has a stream for each block and none for a segment; read/tape.h finds the segment's from the
 * blocks in it.  A private pool's number is made of the two by which PyTorch names it.  A graph's capture may
 * have no name yet; its pool gets a pair that PyTorch does not come to.
 */
#include <stdlib.h>

#include "base/shown.h"
#include "snapshot.h"
#include "read/tape.h"

#define UNNAMED (UINT64_C(1) << 56) /* from here on no number is made of PyTorch's two */

int snapshot_homes(struct snapshot_writer *w, struct heap_homes *homes)
{
    const struct trace_tape *tape = trace_tape(w->t, w->device);
    *homes = (struct heap_homes){0};
    if (!tape)
        return -1;
    for (size_t i = 0; i < tape->birth_count; i++) {
        uint16_t stream = tape->at[tape->births[i].at].stream;
        if (stream >= tape->streams)
            continue;
        struct heap_home home = {(int64_t)tape->stream[stream].number, (int64_t)tape->stream[stream].pool};
        map_put(&homes->by_birth, tape->births[i].seq, (int64_t)homes->n);
        *PUSH(homes->at, homes->n) = home;
    }
    for (size_t i = 0; i < tape->wait_count; i++)
        map_put(&w->waits, tape->waits[i].free_seq, tape->waits[i].done_seq);
    w->settings = (struct snapshot_settings){tape->settings_known && !tape->changed && !tape->environment,
                                             tape->max_split, tape->roundup, tape->gc_threshold, tape->conf};
    w->pools_known = !tape->pools_unknown;
    trace_forget_tapes(w->t);
    return 0;
}

/* PyTorch has divisions for each power of two of MiB.  They are written if they are the same for all.  Else
 * they are left out, with all other settings, as not known; so they are, too, where a recording lacks them.
 */
void snapshot_settings(struct snapshot_writer *w)
{
    static const char *const powers[] = {"1",   "2",   "4",    "8",    "16",   "32",   "64",    "128",
                                         "256", "512", "1024", "2048", "4096", "8192", "16384", "32768"};
    const struct snapshot_settings *o = &w->settings;
    pickle_text(&w->pickle, "allocator_settings");
    pickle_dict(&w->pickle);
    snapshot_bool(w, "expandable_segments", w->expandable);
    if (o->known && o->roundup >= 0) {
        if (o->conf)
            snapshot_text(w, "PYTORCH_CUDA_ALLOC_CONF", shown(o->conf));
        snapshot_int(w, "max_split_size", o->max_split);
        pickle_text(&w->pickle, "garbage_collection_threshold");
        pickle_float(&w->pickle, o->gc_threshold);
        pickle_text(&w->pickle, "roundup_power2_divisions");
        pickle_dict(&w->pickle);
        for (size_t i = 0; i < sizeof powers / sizeof *powers; i++)
            snapshot_int(w, powers[i], o->roundup);
        pickle_set(&w->pickle);
    }
    pickle_set(&w->pickle);
}

void snapshot_free_homes(struct heap_homes *homes)
{
    map_free(&homes->by_birth);
    free(homes->at);
    *homes = (struct heap_homes){0};
}

void snapshot_pool(struct snapshot_writer *w, const char *key, int64_t pool)
{
    uint64_t number = (uint64_t)pool, first = number >> 32, second = number & UINT32_MAX;
    if (number >= UNNAMED) {
        first = UNNAMED >> 32 | (number - UNNAMED);
        second = 0;
    }
    pickle_text(&w->pickle, key);
    pickle_int(&w->pickle, (int64_t)first);
    pickle_int(&w->pickle, (int64_t)second);
    pickle_pair(&w->pickle);
}
