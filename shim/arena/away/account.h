/*
 * account.h - what the recording has of parking beside the blocks: how long the program waited for them, and
 * what was decided.
 *
 * The caller holds the lock of back.h.
 */
#ifndef VS_ARENA_AWAY_ACCOUNT_H
#define VS_ARENA_AWAY_ACCOUNT_H

#include "watched.h"

/* Between the two all comes back, and STREAM is told to wait for it. */
void vs_account_wait_begins(CUstream stream);
void vs_account_wait_ends(CUstream stream);
/* The context of S has ended. */
void vs_account_device_ends(const struct vs_served *s);

/* Of IDLE bytes, which lie so for MS of a step, PARKED go, where the link takes RATE bytes in a second. */
void vs_account_plan(uint64_t idle, uint64_t parked, double ms, double rate);
/* Less goes than the PARKED bytes at first, for which the optimizer waited MS of a step. */
void vs_account_first(uint64_t parked, double ms);
/* With the parking, states lie idle for MS of a step. */
void vs_account_later(double ms);
/* Nothing is parked: says so, and records it. */
void vs_account_none(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* So many uses were not foreseen. */
void vs_account_unforeseen(uint32_t uses);
/* Parking has ended. */
void vs_account_ended(const char *why);

#endif
