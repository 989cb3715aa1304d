/* no_arena.c - in builds without the arena says so where the environment asks for it. */
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

void doctor_arena(struct doctor *d, void *cuda, int devices)
{
    const char *asked = getenv("VRAMSCOPE_ALLOCATOR");
    if (asked && strcmp(asked, "arena") == 0)
        doctor_say(d, DOCTOR_WARN, "arena", "build with -DVRAMSCOPE_ARENA=ON, or unset VRAMSCOPE_ALLOCATOR",
                   "the arena is not in this build of vramscope: the driver's own allocator serves");
}
