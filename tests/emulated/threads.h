/* threads.h - CUDA threads as coroutines: a kernel launched here runs to its end, one cluster after the
 * other. */
#ifndef TESTS_EMULATED_THREADS_H
#define TESTS_EMULATED_THREADS_H

#include <stdint.h>

namespace emulated
{

/* Runs KERNEL(ARGUMENT) in every thread of GRID blocks of BLOCK threads; CLUSTER blocks at once. */
void launch(void (*kernel)(const void *), const void *argument, unsigned grid, unsigned cluster,
            unsigned block);

/* ---- for the thread that runs ---- */

struct Index {
    unsigned x;
};
Index thread_index();
Index block_index();
Index block_size();
unsigned cluster_size();
unsigned rank_in_cluster();

void wait_for_block();
void arrive_at_cluster();
void wait_for_cluster();
uint64_t exchange(uint64_t value, unsigned from); /* the value that lane FROM of the warp gives */
unsigned ballot(bool vote);
void *shared(void *variable, unsigned long size); /* this block's memory for VARIABLE */
void *shared_of(void *address, unsigned rank);    /* where block RANK of the cluster has ADDRESS */

} // namespace emulated

#endif
