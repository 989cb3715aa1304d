// link: cuda
/* Phases, steps and the record window through vramscope.h: prog_markers PART. */
#include "prog.h"
#include <pthread.h>
#include "vramscope.h"

static CUcontext context;
static pthread_barrier_t turn;

static void *other(void *unused)
{
    CUdeviceptr p;
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc(&p, 5 * MIB)); /* no range of its own: the leading thread's */
    vramscope_range_push("optimizer");
    OK(cuMemAlloc(&p, 6 * MIB));
    vramscope_range_pop();
    return NULL;
}

/* Nested, on two threads, unbalanced, before the first allocation. */
static void phases(void)
{
    CUdeviceptr a, b, c;
    pthread_t thread;
    vramscope_range_push("forward"); /* before anything is recorded */
    begin();
    OK(cuCtxGetCurrent(&context));
    OK(cuMemAlloc(&a, 2 * MIB));
    vramscope_range_push("logits");
    OK(cuMemAlloc(&b, 4 * MIB));
    OK(cuMemFree(b));
    vramscope_range_pop();
    OK(cuMemAlloc(&c, 1 * MIB));
    vramscope_mark("half way");
    vramscope_range_pop();
    vramscope_range_pop(); /* one too many */
    vramscope_range_push("backward");
    CHECK(pthread_create(&thread, NULL, other, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    vramscope_range_pop();
    vramscope_step();
    OK(cuMemFree(a));
    OK(cuMemFree(c));
}

static void *lead(void *unused)
{
    vramscope_range_push("forward");
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    vramscope_range_pop();
    return NULL;
}

/* A range that is too deep to be followed, while another thread leads with one of its own. */
static void deep(void)
{
    pthread_t thread;
    CUdeviceptr p[2];
    begin();
    CHECK(pthread_barrier_init(&turn, NULL, 2) == 0);
    for (int i = 0; i < 64; i++)
        vramscope_range_push(""); /* names no phase */
    CHECK(pthread_create(&thread, NULL, lead, NULL) == 0);
    pthread_barrier_wait(&turn);
    vramscope_range_push("logits");
    OK(cuMemAlloc(&p[0], MIB));
    vramscope_range_pop();
    OK(cuMemAlloc(&p[1], 2 * MIB));
    pthread_barrier_wait(&turn);
    pthread_join(thread, NULL);
}

/* What is allocated while the window is closed is not written, what is freed then is. */
static void window(void)
{
    CUdeviceptr before, hidden, after;
    begin();
    OK(cuMemAlloc(&before, 1000));
    vramscope_record_stop();
    OK(cuMemAlloc(&hidden, 2000));
    OK(cuMemFree(before)); /* was recorded: its end is */
    vramscope_record_start();
    OK(cuMemAlloc(&after, 3000));
    OK(cuMemFree(hidden)); /* never recorded */
    OK(cuMemFree(after));
}

enum { THREADS = 4, STEPS = 2000 };

static void *step(void *unused)
{
    for (int i = 0; i < STEPS; i++)
        vramscope_step();
    return NULL;
}

/* Before anything is recorded, in a closed window, and on four threads at once. */
static void steps(void)
{
    pthread_t thread[THREADS];
    CUdeviceptr p;
    vramscope_step();
    vramscope_step();
    begin();
    OK(cuMemAlloc(&p, MIB));
    vramscope_step();
    vramscope_record_stop();
    vramscope_step();
    vramscope_record_start();
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_create(&thread[i], NULL, step, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    vramscope_range_push("the last");
    vramscope_range_pop();
}

static void alone(void)
{
    printf("%d %d\n", vramscope_active(), vramscope_range_pop());
}

int main(int argc, char **argv)
{
    static const struct part parts[] = {
        {"phases", phases}, {"deep", deep}, {"window", window}, {"steps", steps}, {"alone", alone}};
    return play_part(argc, argv, parts, sizeof parts / sizeof *parts);
}
