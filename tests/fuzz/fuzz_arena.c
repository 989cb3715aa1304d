/*
 * fuzz_arena.c - any sequence of operations leaves the arena right, also where calls of the driver fail.
 *
 * The first four bytes choose the device's size, how far it is behind, and which call fails.  Three bytes
 * make an operation. The backing and the reference are the unit tests' (arena_kit.h): what is wrong aborts.
 */
#include "../unit/arena_check.h"

#define BLOCKS  32
#define STREAMS 4

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct kit k;
static uint32_t lane[STREAMS];
static struct {
    uint64_t address, size;
    uint32_t stream;
} block[BLOCKS];

static uint64_t size_of(uint8_t b)
{
    return b < 64 ? b * 40u : b < 128 ? (b - 64) * 300u : (b - 128) * VS_ARENA_UNIT;
}

static void take(uint32_t i, uint32_t stream, uint64_t size)
{
    uint64_t address;
    if (stream && !lane[stream] && vs_arena_open_lane(k.arena, stream, 0, &lane[stream]) != 0)
        return;
    if (vs_arena_malloc(k.arena, lane[stream], size, &address) != 0)
        return;
    block[i].address = address;
    block[i].size = kit_rounded(size);
    block[i].stream = stream;
    kit_own(&k, address, block[i].size, i, stream);
}

static void give(uint32_t i, uint32_t by, unsigned flags)
{
    uint32_t stream = by && lane[by] ? by : block[i].stream;
    kit_disown(&k, block[i].address, block[i].size, i, (1ull << stream | 1ull << block[i].stream) & ~1ull,
               flags != 0);
    if (vs_arena_free(k.arena, block[i].address, lane[stream], flags) != 0)
        abort();
    block[i].size = 0;
}

static void operate(const uint8_t *b)
{
    uint32_t i = b[1] % BLOCKS, stream = b[1] / BLOCKS % STREAMS;
    uint64_t ticket;
    switch (b[0] % 16) {
    case 0:
        vs_arena_trim(k.arena, b[2] * KIT_GRANULE);
        break;
    case 1:
        ticket = vs_arena_ticket(k.arena);
        kit_learn_all(&k, k.freed);
        vs_arena_settled(k.arena, ticket);
        break;
    case 2:
        k.capturing = b[2] & 1;
        break;
    case 3:
        vs_arena_set_peers(k.arena, b[2]);
        break;
    default:
        if (block[i].size)
            give(i, b[2] < 40 ? b[2] % STREAMS : 0, b[0] % 16 == 4 ? VS_FREE_DEFER : 0);
        else
            take(i, stream, size_of(b[2]));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4)
        return 0;
    kit_begin(&k, 4 + data[0] % 60, NULL);
    memset(block, 0, sizeof block);
    memset(lane, 0, sizeof lane);
    k.lag = data[1] % 101;
    k.fail_at = data[2];
    k.fail_with = data[3] & 1 ? VS_BACKING_OUT_OF_MEMORY : KIT_ERROR;
    for (size_t at = 4; at + 3 <= size; at += 3)
        operate(data + at);
    arena_check(k.arena);
    for (uint32_t i = 0; i < BLOCKS; i++)
        if (block[i].size)
            give(i, 0, 0);
    arena_check(k.arena);
    kit_end(&k);
    return 0;
}
