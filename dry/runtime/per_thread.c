/*
 * per_thread.c - streams.c once more, for programs whose default stream is the thread's own: the
 * headers give the functions other names then.
 */
#define CUDA_API_PER_THREAD_DEFAULT_STREAM
#include "streams.c"
#if DRY_CUDART != 12
#include "renamed.c"
#endif
