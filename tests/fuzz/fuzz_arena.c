/*
 * fuzz_arena.c - any sequence of operations leaves the arena right, also where calls of the driver fail.
 *
 * The first four bytes choose the device's size, how far it is behind, which call fails, and which streams
 * get queues of another kind.  Three bytes make an operation.  Backing and reference are arena_kit.h's, which
 * aborts at what is wrong.
 */
#include "unit/arena/park_kit.h"

#define BLOCKS  32
#define STREAMS 4
#define MORE    (KIT_STREAMS - STREAMS) /* streams that take the place of others */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct kit k;
static uint32_t queue[STREAMS];
static uint32_t stream_of[STREAMS], streams; /* which stream is in a place now; how many there were */
static unsigned kinds;
static struct {
    uint64_t address, size;
    uint32_t place;
    bool freed, left, parked; /* the first only while it is away or parked */
} block[BLOCKS];

static uint64_t size_of(uint8_t b)
{
    return b < 64 ? b * 40u : b < 128 ? (b - 64) * 300u : (b - 128) * VS_ARENA_UNIT;
}

static unsigned kind_of(uint32_t place)
{
    return kinds >> 2 * place & 3;
}

static void take(uint32_t i, uint32_t place, uint64_t size)
{
    uint64_t address;
    if (place && !queue[place] &&
        vs_arena_open_queue(k.arena, stream_of[place], kind_of(place), &queue[place]) != 0)
        return;
    if (vs_arena_malloc(k.arena, queue[place], size, &address) != 0)
        return;
    block[i].address = address;
    block[i].size = kit_rounded(size);
    block[i].place = place;
    kit_own(&k, address, block[i].size, i, stream_of[place]);
}

static void give(uint32_t i, uint32_t by, unsigned flags)
{
    uint32_t place = by && queue[by] ? by : block[i].place;
    uint64_t users = 1ull << stream_of[place] | 1ull << stream_of[block[i].place];
    kit_disown(&k, block[i].address, block[i].size, i, users & ~1ull, flags != 0);
    if (block[i].left)
        kit_hold(&k, block[i].address, block[i].size, i + 1);
    if (vs_arena_free(k.arena, block[i].address, queue[place], flags) != 0)
        abort();
    block[i].freed = block[i].left;
    block[i].size = block[i].left ? block[i].size : 0;
}

/* Its blocks go, and another stream comes. */
static void retire(uint32_t place)
{
    if (!queue[place] || streams == MORE)
        return;
    for (uint32_t i = 0; i < BLOCKS; i++)
        if (block[i].size && !block[i].freed && block[i].place == place)
            give(i, 0, 0);
    vs_arena_retire_queue(k.arena, queue[place]);
    queue[place] = 0;
    stream_of[place] = STREAMS + streams++;
}

/* By work of the stream in the place, for which the others wait, or of none, for which the host does. */
static bool unpark(uint32_t i, uint32_t place)
{
    uint32_t by = queue[place] ? place : 0;
    if (kit_unpark(&k, block[i].address, queue[by], 1ull << stream_of[block[i].place]) != 0)
        return false;
    if (!by || !block[i].place || block[i].freed)
        kit_wait(&k);
    block[i].parked = false;
    return true;
}

/* Whether it is: its chunks may find no memory. */
static bool come_back(uint32_t i)
{
    if (block[i].parked && !unpark(i, 0))
        return false;
    if (kit_change_block(&k, block[i].address, kit_fetch) != 0)
        return false;
    if (block[i].freed)
        kit_hold(&k, block[i].address, block[i].size, 0);
    if (vs_arena_return(k.arena, block[i].address) != 0)
        abort();
    block[i].left = false;
    block[i].size = block[i].freed ? 0 : block[i].size;
    block[i].freed = false;
    return true;
}

static void leave_or_return(uint32_t i, bool back)
{
    struct vs_arena_block found;
    if (!block[i].left && block[i].size && vs_arena_find(k.arena, block[i].address, &found)) {
        kit_wait(&k);
        block[i].left = vs_arena_leave(k.arena, found.address, found.size) == 0;
    }
    if (block[i].left && back)
        come_back(i);
    else if (block[i].left)
        kit_change_block(&k, block[i].address, kit_send);
}

static void park_or_unpark(uint32_t i, uint32_t place)
{
    struct vs_arena_block found;
    if (!block[i].left && block[i].size && vs_arena_find(k.arena, block[i].address, &found))
        block[i].left = vs_arena_leave(k.arena, found.address, found.size) == 0;
    if (block[i].parked)
        unpark(i, place);
    else if (block[i].left)
        block[i].parked = kit_park(&k, block[i].address, queue[place]) == 0;
}

static void close_or_open(uint64_t longest, bool back)
{
    kit_wait(&k);
    if (!vs_arena_closed(k.arena) && vs_arena_close(k.arena) != 0)
        return;
    kit_change_all(&k, longest, back ? kit_fetch : kit_send);
    if (back)
        vs_arena_open(k.arena);
}

static void operate(const uint8_t *b)
{
    uint32_t i = b[1] % BLOCKS, place = b[1] / BLOCKS % STREAMS;
    uint64_t ticket;
    switch (b[0] % 16) {
    case 0:
        vs_arena_trim(k.arena, b[2] * KIT_CHUNK);
        break;
    case 1:
        ticket = vs_arena_ticket(k.arena);
        kit_learn_all(&k, k.freed);
        vs_arena_synchronized(k.arena, ticket);
        break;
    case 2:
        k.capturing = b[2] & 1;
        break;
    case 3:
        vs_arena_set_peers(k.arena, b[2]);
        break;
    case 5:
        retire(b[1] % STREAMS);
        break;
    case 6:
        leave_or_return(i, b[2] & 1);
        break;
    case 7:
        close_or_open((1 + b[1]) * KIT_CHUNK, b[2] & 1);
        break;
    case 8:
        park_or_unpark(i, b[2] % STREAMS);
        break;
    default:
        if (block[i].freed)
            break;
        if (block[i].size)
            give(i, b[2] < 40 ? b[2] % STREAMS : 0, b[0] % 16 == 4 ? VS_FREE_DEFER : 0);
        else
            take(i, place, size_of(b[2]));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4)
        return 0;
    struct vs_arena_config config = {.trim_above = 4 * KIT_CHUNK, .trim_window = 16};
    kit_begin(&k, 4 + data[0] % 60, &config);
    memset(block, 0, sizeof block);
    memset(queue, 0, sizeof queue);
    for (uint32_t i = 0; i < STREAMS; i++)
        stream_of[i] = i;
    streams = 0;
    kinds = data[3] & ~3u; /* place 0 has no stream */
    k.lag = data[1] % 101;
    k.fail_at = data[2];
    k.fail_with = data[3] & 1 ? VS_BACKING_OUT_OF_MEMORY : KIT_ERROR;
    for (size_t at = 4; at + 3 <= size; at += 3)
        operate(data + at);
    arena_check(k.arena);
    for (uint32_t i = 0; i < BLOCKS; i++)
        if (block[i].size && !block[i].freed)
            give(i, 0, 0);
    arena_check(k.arena);
    kit_end(&k);
    return 0;
}
