/* launch.h - reads this process's rank in its job from its launcher's variables. */
#ifndef VS_CORE_LAUNCH_H
#define VS_CORE_LAUNCH_H

#include <stdint.h>

#define VS_UNKNOWN_NUMBER INT32_MIN

struct vs_launch {
    int32_t rank, local_rank, world_size; /* VS_UNKNOWN_NUMBER: no launcher gives it */
    const char *launcher;                 /* the launcher that gave the rank; NULL: none */
};

struct vs_launch vs_launch(void);

#endif
