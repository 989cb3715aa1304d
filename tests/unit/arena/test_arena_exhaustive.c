/*
 * test_arena_exhaustive.c - every sequence of few operations on a tiny device, against the reference, with a
 * device that is infinitely slow and with one that is done at once.
 *
 * ARENA_DEPTH: how many operations (default 3; tests/run.sh full plays 4, twenty times as many).
 */

#include "unit/test.h"
#include "park_kit.h"

#define DEPTH   3
#define G       KIT_CHUNK
#define LIVE    8
#define SIZES   3
#define STREAMS 3
#define COPY    4 /* the stream that copies what is parked */
#define MALLOCS (SIZES * STREAMS)

/* What can be done beside requests and frees. */
enum { SYNCHRONIZE = MALLOCS + LIVE, CLOSE_OR_OPEN, LEAVE_OR_RETURN, PARK, UNPARK, TRIM, CHOICES };

static struct kit k;
static struct {
    uint64_t address, size;
    uint32_t stream;
    bool freed, left, parked; /* the first only while it is away or parked */
} block[LIVE];

static const uint64_t sizes[SIZES] = {512, G + 512, 3 * G};
static uint32_t queue[STREAMS], copy;

static bool allocate(uint32_t stream, uint64_t size)
{
    for (uint32_t i = 0; i < LIVE; i++) {
        if (block[i].size)
            continue;
        uint64_t address;
        if (stream && !queue[stream])
            KIT_CHECK(vs_arena_open_queue(k.arena, stream, 0, &queue[stream]) == 0);
        int status = vs_arena_malloc(k.arena, queue[stream], size, &address);
        if (vs_arena_closed(k.arena)) {
            KIT_CHECK(status == VS_BACKING_NOT_READY);
            return false;
        }
        KIT_CHECK(status == 0 || status == VS_BACKING_OUT_OF_MEMORY);
        if (status != 0) {
            KIT_CHECK(chunks_for(k.arena, size) > k.capacity - k.chunks);
            return true;
        }
        kit_own(&k, address, kit_rounded(size), i, stream);
        block[i].address = address;
        block[i].size = size;
        block[i].stream = stream;
        return true;
    }
    return false;
}

static bool release(uint32_t i)
{
    if (!block[i].size || block[i].freed)
        return false;
    uint32_t s = block[i].stream;
    kit_disown(&k, block[i].address, kit_rounded(block[i].size), i, s ? 1ull << s : 0, false);
    if (block[i].left)
        kit_hold(&k, block[i].address, kit_rounded(block[i].size), i + 1);
    KIT_CHECK(vs_arena_free(k.arena, block[i].address, queue[s], 0) == 0);
    block[i].freed = block[i].left;
    block[i].size = block[i].left ? block[i].size : 0;
    return true;
}

/* All of it goes, or comes back. */
static bool close_or_open(void)
{
    bool held = false, closed = vs_arena_closed(k.arena);
    if (!closed && !k.chunks) /* nothing of it could go */
        return false;
    for (uint32_t i = 0; i < LIVE; i++)
        held = held || block[i].left;
    kit_wait(&k);
    if (!closed) {
        KIT_CHECK(vs_arena_close(k.arena) == (held ? VS_BACKING_INVALID : 0));
        KIT_CHECK(held || (kit_change_all(&k, 2 * G, kit_send) == 0 && k.chunks == 0));
        return !held;
    }
    KIT_CHECK(kit_change_all(&k, 2 * G, kit_fetch) == 0 && vs_arena_open(k.arena) == 0);
    return true;
}

/* The first block that has not left goes. */
static bool leave(void)
{
    for (uint32_t i = 0; i < LIVE; i++)
        if (block[i].size && !block[i].left) {
            kit_wait(&k);
            block[i].left = vs_arena_leave(k.arena, block[i].address, block[i].size) == 0;
            KIT_CHECK(block[i].left != vs_arena_closed(k.arena));
            KIT_CHECK(!block[i].left || kit_change_block(&k, block[i].address, kit_send) == 0);
            return block[i].left;
        }
    return false;
}

/* The first block that has not left is parked, while its work may still run. */
static bool park(void)
{
    if (!copy)
        KIT_CHECK(vs_arena_open_queue(k.arena, COPY, 0, &copy) == 0);
    for (uint32_t i = 0; i < LIVE; i++)
        if (block[i].size && !block[i].left) {
            if (vs_arena_leave(k.arena, block[i].address, block[i].size) != 0)
                return false;
            block[i].left = true;
            block[i].parked = kit_park(&k, block[i].address, copy) == 0;
            return true;
        }
    return false;
}

/* Those that are parked are so no more; false: none was, or there is no room. */
static bool unpark(void)
{
    bool any = false;
    for (uint32_t i = 0; i < LIVE; i++)
        if (block[i].parked) {
            uint32_t s = block[i].stream;
            int status = kit_unpark(&k, block[i].address, copy, 1ull << s);
            KIT_CHECK(status == 0 || status == VS_BACKING_OUT_OF_MEMORY);
            block[i].parked = status != 0;
            any = any || status == 0;
            if (!s) /* the host waits for the copies */
                kit_wait(&k);
        }
    return any;
}

/* Those that left come back; false: none did, or there is no room. */
static bool come_back(void)
{
    bool any = false;
    for (uint32_t i = 0; i < LIVE; i++)
        if (block[i].left && !block[i].parked) {
            int status = kit_change_block(&k, block[i].address, kit_fetch);
            KIT_CHECK(status == 0 || status == VS_BACKING_OUT_OF_MEMORY);
            if (status == 0 && block[i].freed)
                kit_hold(&k, block[i].address, kit_rounded(block[i].size), 0);
            KIT_CHECK((vs_arena_return(k.arena, block[i].address) == 0) == (status == 0));
            block[i].left = status != 0;
            any = any || status == 0;
            if (block[i].freed && status == 0)
                block[i].size = block[i].freed = 0;
        }
    return any;
}

/* False where the operation does not apply: the sequence is another one's. */
static bool operate(uint32_t choice)
{
    if (choice < MALLOCS)
        return allocate(choice / SIZES, sizes[choice % SIZES]);
    if (choice < MALLOCS + LIVE)
        return release(choice - MALLOCS);
    switch (choice) {
    case CLOSE_OR_OPEN:
        return close_or_open();
    case LEAVE_OR_RETURN:
        return leave() || come_back();
    case PARK:
        return park();
    case UNPARK:
        return unpark();
    case TRIM:
        return vs_arena_trim(k.arena, 0) == 0; /* not where it is closed */
    default:
        kit_wait(&k);
        return true;
    }
}

static void finish(void)
{
    if (vs_arena_closed(k.arena))
        close_or_open();
    for (uint32_t i = 0; i < LIVE; i++)
        release(i);
    do
        KIT_CHECK(vs_arena_trim(k.arena, 0) == 0); /* makes room for what comes back */
    while (unpark() || come_back());
    KIT_CHECK(k.chunks == 0);
    arena_check(k.arena);
    kit_end(&k);
}

/* Twice the same wait or trim, one behind the other, is as good as one. */
static bool repeats(const uint32_t *choice, int at)
{
    return at && choice[at] == choice[at - 1] && (choice[at] == SYNCHRONIZE || choice[at] == TRIM);
}

/* How many operations of the sequence apply; all of them: it was played to its end, and checked. */
static int play(const uint32_t *choice, int depth, int lag)
{
    int done = 0;
    for (int i = 0; i < depth; i++)
        if (repeats(choice, i))
            return i;
    kit_begin(&k, 4, NULL);
    k.lag = lag;
    memset(block, 0, sizeof block);
    memset(queue, 0, sizeof queue);
    copy = 0;
    while (done < depth && operate(choice[done]))
        done++;
    if (done < depth) {
        kit_end(&k);
        return done;
    }
    arena_check(k.arena);
    finish();
    return done;
}

/* The next sequence that differs from this one before or at operation AT; false after the last. */
static bool next(uint32_t *choice, int depth, int at)
{
    for (int i = at + 1; i < depth; i++)
        choice[i] = 0;
    while (at >= 0 && ++choice[at] == CHOICES)
        choice[at--] = 0;
    return at >= 0;
}

static void all(int lag)
{
    const char *given = getenv("ARENA_DEPTH");
    int depth = given ? atoi(given) : DEPTH, done;
    uint32_t choice[16] = {0};
    uint64_t played = 0;
    KIT_CHECK(depth > 0 && depth <= 16);
    do {
        done = play(choice, depth, lag);
        played += done == depth;
    } while (next(choice, depth, done < depth ? done : depth - 1));
    printf("%llu sequences of %d\n", (unsigned long long)played, depth);
    assert_true(played > 0);
}

TEST(every_sequence_is_right_while_the_device_is_behind)
{
    all(100);
}

TEST(every_sequence_is_right_when_the_device_is_quick)
{
    all(0);
}
