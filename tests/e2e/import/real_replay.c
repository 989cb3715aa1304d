/*
 * real_replay.c - the program that real_program.cpp wrote down on the simulated allocator: each request
 * must get the address that PyTorch's got, each question to the driver be the same.
 *
 *   real_replay VERSION KEY=VALUE... < OUTPUT    expandable, limit, max_split, reserve; gc: in hundredths
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replay/torch.h"

#define STEPS  100000
#define MEMORY (UINT64_C(140) << 30)

static uint64_t asked, asked_size, unlike, gone;
static uint32_t blocks[STEPS];

static bool ask(void *context, enum torch_ask kind, uint64_t *address, uint64_t size)
{
    (void)context;
    if (kind == TORCH_MAP)
        return true;
    unlike += asked_size != size;
    *address = asked;
    asked_size = 0;
    return true;
}

static void give(void *context, enum torch_give kind, uint64_t address, uint64_t size)
{
    (void)context, (void)address, (void)size;
    gone -= kind == TORCH_FREE_SEGMENT;
}

static bool set(struct torch_settings *s, const char *word)
{
    uint64_t value = 0;
    char key[16];
    if (sscanf(word, "%15[a-z_]=%" SCNu64, key, &value) != 2)
        return false;
    s->memory = MEMORY;
    if (!strcmp(key, "expandable"))
        s->expandable = value;
    else if (!strcmp(key, "limit"))
        s->limit = value;
    else if (!strcmp(key, "max_split"))
        s->max_split = value;
    else if (!strcmp(key, "reserve"))
        s->reserve = value;
    else
        s->gc_threshold = (double)value / 100;
    return true;
}

static void play(struct torch *t, const char *line, uint64_t *requests)
{
    uint64_t size, address;
    unsigned id, stream;
    if (sscanf(line, "alloc %u %" SCNu64 " %u %" SCNu64, &id, &size, &stream, &address) == 4) {
        blocks[id] = torch_malloc(t, size, (uint16_t)stream);
        unlike += blocks[id] ? t->blocks[blocks[id]].address != address : address != 0;
        ++*requests;
    } else if (sscanf(line, "free %u", &id) == 1) {
        torch_release(t, blocks[id], false);
    } else if (!strncmp(line, "empty", 5)) {
        torch_empty_cache(t);
    } else if (!strncmp(line, "gone", 4)) {
        gone++;
    } else if (sscanf(line, "segment %" SCNu64 " %" SCNu64, &asked, &asked_size) != 2 &&
               sscanf(line, "range %" SCNu64 " %" SCNu64, &asked, &asked_size) != 2) {
        unlike++;
    }
}

int main(int argc, char **argv)
{
    struct torch_settings s = torch_defaults();
    struct torch t;
    char line[128];
    uint64_t requests = 0;
    if (argc < 2 || !torch_simulates(argv[1], &s.ties))
        return 2;
    for (int i = 2; i < argc; i++)
        if (!set(&s, argv[i]))
            return 2;
    torch_init(&t, &s, &(struct torch_driver){NULL, ask, give});
    while (fgets(line, sizeof line, stdin))
        play(&t, line, &requests);
    printf("%" PRIu64 " requests, %" PRIu64 " unlike, %" PRIu64 " retries\n", requests, unlike + gone,
           t.retries);
    torch_free(&t);
    return unlike || gone || requests < 1000;
}
