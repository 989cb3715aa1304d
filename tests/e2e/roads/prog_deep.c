// link: cuda
/* Allocates inside a range that is too deep to be followed, while another thread leads with one of its own.
 */
#include "prog.h"

#include "vramscope.h"

#include <pthread.h>

static pthread_barrier_t turn;

static void *lead(void *unused)
{
    vramscope_range_push("forward");
    pthread_barrier_wait(&turn);
    pthread_barrier_wait(&turn);
    vramscope_range_pop();
    return NULL;
}

int main(void)
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
    puts("done");
    return 0;
}
