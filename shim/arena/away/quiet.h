/*
 * quiet.h - brings the program's work to a stop before memory moves: the gate is closed, and the devices are
 * idle.
 *
 * By who moves, who holds the lock for that (away.c), outside of the arenas.
 */
#ifndef VS_ARENA_AWAY_QUIET_H
#define VS_ARENA_AWAY_QUIET_H

#include <stdbool.h>
#include <stdint.h>

#include "trace/control.h"

/* An answer that says no, and why. */
void vs_refuse(struct vs_control_answer *answer, enum vs_control_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

uint64_t vs_left_until(uint64_t until); /* ns to UNTIL of vs_clock_ns; 0: it is over */
void vs_pause(long ns);

/* Closes the gate, and waits until no capture is under way; false: not by UNTIL, it is as it was, and ANSWER
 * says so. */
bool vs_quiet_gate(uint64_t until, struct vs_control_answer *answer);
/* Waits, with the gate closed, until every device that has an arena has done its work.  False as above. */
bool vs_quiet_devices(uint64_t until, struct vs_control_answer *answer);

#endif
