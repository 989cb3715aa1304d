/*
 * bench_autograd.c - ns per birth of a node, and per question which node runs, without the walk over Python's
 * frames (tests/python/bench.py has that one) and with torch's own functions as cheap as they can be.
 */
#include <time.h>

#include "fake_torch.h"
#include "autograd_standins.h"

enum { TIMES = 20000000 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static void say(const char *what, double begin)
{
    printf("%-60s %6.1f ns\n", what, (now() - begin) / TIMES);
}

int main(int argc, char **argv)
{
    static const struct fake_type type = {NULL, "N5torch8autograd14AddmmBackward0E"};
    static const struct fake_class class = {&type, {NULL}};
    static struct fake_control control = {.uses = 1};
    struct fake_node node = {.table = class.functions, .thread = 1};
    struct vs_autograd_run run;
    fake_torch_load(argv[0], "shared");
    struct fake_thread *t = ((fake_thread_fn *)fake_torch_function("fake_thread"))();
    uint64_t (*number)(void) =
        (uint64_t(*)(void))fake_torch_function("_ZN2at15sequence_number17get_and_incrementEv");
    *t = (struct fake_thread){.id = 1, .task = -1};
    double begin = now();
    for (int i = 0; i < TIMES; i++)
        number();
    say("a number of torch's alone", begin);
    standin_takes(true);
    standin.stack = 7;
    begin = now();
    for (int i = 0; i < TIMES; i++)
        node.number = vs_sequence_number();
    say("a number, its birth kept", begin);
    standin_takes(false);
    begin = now();
    for (int i = 0; i < TIMES; i++)
        vs_sequence_number();
    say("a number while nothing is recorded", begin);
    begin = now();
    for (int i = 0; i < TIMES; i++)
        vs_autograd_running(standin_journal, &run);
    say("a block in forward: no node runs", begin);
    t->task = 0;
    t->node = &node;
    t->control = &control;
    begin = now();
    for (int i = 0; i < TIMES; i++)
        vs_autograd_running(standin_journal, &run);
    say("a block in backward: the node that runs and its birth", begin);
    return run.forward == 7 ? 0 : 1;
}
