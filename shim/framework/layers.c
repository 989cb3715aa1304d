/*
 * layers.c - a table of layers that only grows.
 *
 * A range's layer has the layer that the range opened in and the range's name, so that opening a range builds
 * no text; it is found by a hash of both, and published by one compare-and-swap.  The text of a path is built
 * when a journal needs it; the number of the frame is kept in memory that a fork child finds wiped.
 */
#define _GNU_SOURCE
#include "layers.h"

#include <stdatomic.h>
#include <string.h>

#include "autograd.h"
#include "vramscope.h"
#include "core/fork.h"
#include "core/hot.h"
#include "core/options.h"

enum { LAYERS = 1 << 16, SLOTS = 2 * LAYERS, TEXT = 8 << 20, PATH = 1024, DEEP = 64 };

struct layer {
    uint32_t outer;
    const struct vs_name *name; /* of a range */
    const char *path, *type;    /* of a module */
};

struct layers {
    struct layer at[LAYERS];
    _Atomic uint32_t slot[SLOTS];
    char text[TEXT];
};

static void *_Atomic layers; /* struct layers */
static void *_Atomic frames; /* numbers of frames, by layer; wiped in a fork child */
static _Atomic uint32_t used = 1, text_used;

__thread struct vs_layer_now vs_layer_now;

VRAMSCOPE_API uint32_t vramscope_auto_layer(const char *path, const char *type);
VRAMSCOPE_API uint32_t *vramscope_auto_cell(void);

/* ---- memory ---- */

/* Zeros are an empty table. */
static struct layers *table(void)
{
    return vs_map_once(&layers, sizeof(struct layers), false);
}

/* ---- layers ---- */

static uint32_t hash(uint32_t outer, const struct vs_name *name)
{
    uint64_t h = ((uint64_t)outer << 32 | name->index) * 0x9e3779b97f4a7c15u;
    return (uint32_t)(h >> 40);
}

uint32_t vs_layer_of_range(uint32_t outer, const struct vs_name *name)
{
    struct layers *t = table();
    uint32_t own = LAYERS;
    if (!t || !name || name->length == 0)
        return outer;
    for (uint32_t tries = 0, at = hash(outer, name); tries < SLOTS; tries++, at++) {
        _Atomic uint32_t *slot = &t->slot[at % SLOTS];
        /* Acquire pairs with the release below: a thread that sees the number sees the complete layer. */
        uint32_t there = atomic_load_explicit(slot, memory_order_acquire);
        if (!there) {
            if (own == LAYERS && (own = vs_take(&used, 1, LAYERS)) == LAYERS)
                return outer;
            t->at[own] = (struct layer){.outer = outer, .name = name};
            if (atomic_compare_exchange_strong_explicit(slot, &there, own, memory_order_release,
                                                        memory_order_acquire))
                return own;
        }
        if (t->at[there].outer == outer && t->at[there].name == name)
            return there;
    }
    return outer;
}

static const char *copy(struct layers *t, const char *text)
{
    size_t n = strnlen(text, VS_NAME_MAX) + 1;
    uint32_t at = vs_take(&text_used, (uint32_t)n, TEXT);
    return at == TEXT ? NULL : memcpy(t->text + at, text, n - 1);
}

uint32_t vs_layer_of_module(const char *path, const char *type)
{
    struct layers *t = table();
    const char *own_path = t ? copy(t, path) : NULL, *own_type = own_path ? copy(t, type) : NULL;
    uint32_t layer = own_type ? vs_take(&used, 1, LAYERS) : LAYERS;
    if (layer == LAYERS)
        return 0;
    t->at[layer] = (struct layer){.path = own_path, .type = own_type};
    return layer;
}

/* ---- frames ---- */

static size_t append(char *to, size_t n, const char *text, size_t length)
{
    length = length < PATH - n ? length : PATH - n;
    memcpy(to + n, text, length);
    return n + length;
}

static size_t path_of(const struct layers *t, uint32_t layer, char *to)
{
    uint32_t ranges[DEEP], deep = 0;
    size_t n = 0;
    for (; layer && t->at[layer].name && deep < DEEP; layer = t->at[layer].outer)
        ranges[deep++] = layer;
    if (layer && t->at[layer].path)
        n = append(to, n, t->at[layer].path, strlen(t->at[layer].path));
    while (deep-- > 0) {
        if (n)
            n = append(to, n, "/", 1);
        n = append(to, n, t->at[ranges[deep]].name->text, t->at[ranges[deep]].name->length);
    }
    return n;
}

static __attribute__((noinline)) uint32_t make_frame(struct vs_journal *j, const struct layers *t,
                                                     uint32_t layer)
{
    char path[PATH];
    size_t n = path_of(t, layer, path);
    const char *type = t->at[layer].type;
    uint32_t function = n ? vs_journal_string(j, path, n) : 0;
    uint32_t file = type ? vs_journal_string(j, type, strlen(type)) : 0;
    return vs_journal_named_frame(j, VS_FRAME_LAYER, function, file, 0);
}

VS_HOT_CODE uint32_t vs_layer_frame(struct vs_journal *j, uint32_t layer)
{
    _Atomic uint32_t *kept = vs_map_once(&frames, LAYERS * sizeof *kept, true);
    /* Relaxed: a frame's number is complete by itself. */
    uint32_t frame = kept ? atomic_load_explicit(&kept[layer], memory_order_relaxed) : 0;
    if (__builtin_expect(frame != 0, 1))
        return frame;
    struct layers *t = table();
    frame = t && layer < LAYERS ? make_frame(j, t, layer) : 0;
    if (kept && frame)
        atomic_store_explicit(&kept[layer], frame, memory_order_relaxed);
    return frame;
}

VS_HOT_CODE uint32_t vs_layer_here(bool backward)
{
    const struct vs_layer_now *now = &vs_layer_now;
    uint32_t module = now->module;
    if (__builtin_expect((module | now->ranges) == 0, 1))
        return 0;
    if (module >= LAYERS) /* not a number that we gave to Python */
        return 0;
    /* ranges that opened outside this module's call are not part of its path */
    if (now->ranges && now->ranges_in == module && (!backward || now->task == vs_autograd_task()))
        return now->ranges;
    return module;
}

/* ---- for the Python hook ---- */

/* The number of a module's layer, to be written into the cell of the thread that calls it.  Without a path:
 * whether layers are recorded. */
uint32_t vramscope_auto_layer(const char *path, const char *type)
{
    if (!path || !type)
        return vs_options.stacks >= VS_STACKS_PYTHON;
    return vs_layer_of_module(path, type);
}

/* The calling thread's cell, valid as long as the thread lives. */
uint32_t *vramscope_auto_cell(void)
{
    return &vs_layer_now.module;
}
