// link: cuda
/* Steps before anything is recorded, in a closed window, and on four threads at once. */
#include "prog.h"

#include "vramscope.h"

#include <pthread.h>

#define THREADS 4
#define STEPS   2000

static void *work(void *unused)
{
    for (int i = 0; i < STEPS; i++)
        vramscope_step();
    return NULL;
}

int main(void)
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
        CHECK(pthread_create(&thread[i], NULL, work, NULL) == 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    vramscope_range_push("the last");
    vramscope_range_pop();
    puts("done");
    return 0;
}
