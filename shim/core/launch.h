/*
 * launch.h - which rank of its job this process is, as its launcher says in the environment.
 */
#ifndef VS_CORE_LAUNCH_H
#define VS_CORE_LAUNCH_H

#include <stdint.h>

#define VS_UNKNOWN_NUMBER INT32_MIN

struct vs_launch {
    int32_t rank, local_rank, world_size; /* VS_UNKNOWN_NUMBER where no launcher says */
    const char *launcher;                 /* whose word the rank is; NULL: there is none */
};

struct vs_launch vs_launch(void);

#endif
