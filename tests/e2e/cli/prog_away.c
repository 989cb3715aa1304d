// link: trace
/*
 * prog_away.c FILE.vsj FILE.db - a recording in which memory of an arena is away at its peak, made event by
 * event. It lasts until its standard input ends; what is away by then stays so.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "trace/writer/writer.h"

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

static struct vs_journal *journal;
static struct vs_writer *writer;

static uint64_t begun; /* two seconds ago: events are 100 ms apart */
static unsigned happened;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void happen(struct vs_event e)
{
    e.t_ns = begun + ++happened * UINT64_C(100000000);
    e.thread = 1;
    e.space = VS_SPACE_ARENA;
    if (vs_journal_append(journal, &e) == VS_SEQ_NONE)
        exit(1);
}

static void holds(uint64_t reserved, uint64_t away)
{
    happen((struct vs_event){.op = VS_OP_ARENA_RESERVED, .size = reserved, .address = away});
}

static void alloc(uint64_t address, uint64_t size)
{
    happen((struct vs_event){.op = VS_OP_ALLOC, .address = address, .size = size});
}

static void tell(uint64_t address, enum vs_role role)
{
    happen((struct vs_event){.op = VS_OP_FRAMEWORK_ROLE, .address = address, .arg1 = role});
}

static void moves(uint64_t address, uint64_t away, enum vs_away_why why)
{
    happen((struct vs_event){.op = VS_OP_BLOCK_AWAY, .address = address, .size = away, .arg0 = why});
}

static void release(uint64_t address)
{
    happen((struct vs_event){.op = VS_OP_FREE, .address = address, .status = VS_STATUS_PENDING});
}

/* At the peak of allocated, 13 GiB, 4 GiB are away and a quarter is idle; most was away later, 6 GiB of 8:
 * states that are parked, and gradients that were spilled. */
static void run(void)
{
    holds(8 * GIB, 0);
    alloc(0x100000000, 2 * GIB);
    alloc(0x200000000, 4 * GIB);
    alloc(0x300000000, 2 * GIB);
    tell(0x200000000, VS_ROLE_STATE);
    tell(0x100000000, VS_ROLE_GRADIENT);
    moves(0x200000000, 4 * GIB, VS_AWAY_PARKED);
    holds(4 * GIB, 4 * GIB);
    holds(9 * GIB + 256 * MIB, 4 * GIB);
    alloc(0x400000000, 5 * GIB);
    release(0x400000000);
    moves(0x200000000, 0, VS_AWAY_PARKED);
    holds(8 * GIB, 0);
    moves(0x200000000, 4 * GIB, VS_AWAY_PARKED);
    moves(0x100000000, 2 * GIB, VS_AWAY_SPILLED);
    holds(2 * GIB, 6 * GIB);
}

static void drain(bool last)
{
    long n;
    while ((n = vs_writer_drain(writer, last)) > 0)
        ;
    if (n < 0)
        exit(2);
}

static void begin(const char *path, const char *database)
{
    begun = now_ns() - UINT64_C(2000000000);
    struct vs_journal_config made = {.ring_slots = 1 << 12, .database = database, .start_ns = begun};
    struct vs_device_row device = {.total_bytes = 16 * GIB, .name = "Made-up GPU"};
    struct vs_database config = {.path = database,
                                 .journal_path = path,
                                 .version = "test",
                                 .host = "here",
                                 .command = "prog_away",
                                 .pid = (int32_t)getpid(),
                                 .rank = INT32_MIN,
                                 .local_rank = INT32_MIN,
                                 .world_size = INT32_MIN};
    char why[256];
    if (vs_journal_create(&journal, path, &made) < 0)
        exit(3);
    vs_journal_thread(journal, (uint32_t)getpid(), 0, "prog_away");
    vs_journal_device(journal, &device);
    if (vs_writer_open(&writer, &config, journal, why, sizeof why) < 0) {
        fprintf(stderr, "%s\n", why);
        exit(4);
    }
}

int main(int argc, char **argv)
{
    if (argc != 3)
        return 5;
    begin(argv[1], argv[2]);
    run();
    drain(true);
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    drain(true);
    if (vs_writer_close(writer, true) < 0)
        return 6;
    vs_journal_close(journal);
    return unlink(argv[1]) != 0;
}
