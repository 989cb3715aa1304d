/* text.c - reading, byte pair encoding, sampling; see text.h. */
#include "text.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAX_BYTES  (512 << 10) /* more text teaches a model of this size nothing */
#define MAX_MERGES 2048

struct pair {
    uint64_t key; /* left << 32 | right, plus 1; 0 = free */
    int count;
};

uint64_t random_next(uint64_t *state) /* splitmix64's constants */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static void *get_memory(size_t size)
{
    void *memory = malloc(size);
    if (!memory) {
        fprintf(stderr, "train_lm: no host memory for %zu bytes\n", size);
        exit(1);
    }
    return memory;
}

struct pairs {
    struct pair *slot;
    int bits; /* 2^bits slots, at least twice the tokens: never full */
};

/* Counts one pair; returns its new count. */
static int count_pair(struct pairs *table, uint64_t key)
{
    uint32_t last = (1u << table->bits) - 1;
    uint32_t at = (uint32_t)((key * 0x9e3779b97f4a7c15u) >> (64 - table->bits));
    while (table->slot[at].key != 0 && table->slot[at].key != key)
        at = (at + 1) & last;
    table->slot[at].key = key;
    return ++table->slot[at].count;
}

/* The pair that comes most often, 0 where none comes twice.  The first to reach the count wins a tie. */
static uint64_t best_pair(const struct text *t, struct pairs *table)
{
    memset(table->slot, 0, sizeof *table->slot << table->bits);
    uint64_t best = 0;
    int most = 1;
    for (int i = 0; i + 1 < t->count; i++) {
        uint64_t key = ((uint64_t)t->token[i] << 32 | (uint32_t)t->token[i + 1]) + 1;
        int count = count_pair(table, key);
        if (count > most) {
            most = count;
            best = key;
        }
    }
    return best;
}

static void replace_pair(struct text *t, uint64_t key, int32_t by)
{
    int32_t left = (int32_t)((key - 1) >> 32), right = (int32_t)((key - 1) & 0xffffffffu);
    int out = 0;
    for (int i = 0; i < t->count; out++) {
        if (i + 1 < t->count && t->token[i] == left && t->token[i + 1] == right) {
            t->token[out] = by;
            i += 2;
        } else {
            t->token[out] = t->token[i++];
        }
    }
    t->count = out;
}

static void encode(struct text *t, int vocab, int context)
{
    struct pairs table = {.bits = 8};
    while (1 << table.bits < 2 * t->count)
        table.bits++;
    table.slot = get_memory(sizeof *table.slot << table.bits);
    while (t->used < vocab && t->used < 256 + MAX_MERGES && t->count > 4 * context) {
        uint64_t pair = best_pair(t, &table);
        if (pair == 0)
            break;
        replace_pair(t, pair, t->used++);
    }
    free(table.slot);
}

void text_read(struct text *t, const char *path, int vocab, int context)
{
    FILE *file = fopen(path, "rb");
    if (!file) {
        fprintf(stderr, "train_lm: %s: %s; name a text file to learn from\n", path, strerror(errno));
        exit(2);
    }
    unsigned char *bytes = get_memory(MAX_BYTES);
    size_t length = fread(bytes, 1, MAX_BYTES, file);
    fclose(file);
    t->count = (int)length;
    t->used = 256;
    t->token = get_memory((length + 1) * sizeof *t->token);
    for (size_t i = 0; i < length; i++)
        t->token[i] = bytes[i];
    free(bytes);
    encode(t, vocab, context);
    if (t->count < context + 2) {
        fprintf(stderr, "train_lm: %s: %d tokens are too few for a context of %d; name a longer text\n", path,
                t->count, context);
        exit(2);
    }
}

void text_free(struct text *t)
{
    free(t->token);
    memset(t, 0, sizeof *t);
}

const char *text_default_path(void)
{
    static char path[PATH_MAX];
    char program[PATH_MAX], place[PATH_MAX + 64];
    ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
    program[length < 0 ? 0 : length] = 0;
    char *slash = strrchr(program, '/');
    if (slash)
        *slash = 0;
    const char *places[] = {"../share/vramscope/LICENSE", "../../../LICENSE"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(place, sizeof place, "%s/%s", program, places[i]);
        if (access(place, R_OK) == 0 && realpath(place, path))
            return path;
    }
    return access("LICENSE", R_OK) == 0 ? "LICENSE" : NULL;
}

void batch_init(struct batch *b, int rows, int context)
{
    b->rows = rows;
    b->context = context;
    b->window = get_memory((size_t)rows * (size_t)context * sizeof *b->window);
    b->target = get_memory((size_t)rows * sizeof *b->target);
}

void batch_next(struct batch *b, const struct text *t, uint64_t *random)
{
    for (int row = 0; row < b->rows; row++) {
        uint64_t at = random_next(random) % (uint64_t)(t->count - b->context);
        memcpy(&b->window[(size_t)row * (size_t)b->context], &t->token[at],
               (size_t)b->context * sizeof *b->window);
        b->target[row] = t->token[at + (uint64_t)b->context];
    }
}

void batch_free(struct batch *b)
{
    free(b->window);
    free(b->target);
}
