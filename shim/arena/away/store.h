/*
 * store.h - the host's memory in which lies what was copied out of a device, 2 MiB by 2 MiB, by addresses.
 *
 * It is page-locked, and grows as it is needed up to a limit that all devices share.  What nothing has lain
 * in for half a minute is given back.  The caller holds the lock of back.h, and the device's context is
 * current.
 */
#ifndef VS_ARENA_AWAY_STORE_H
#define VS_ARENA_AWAY_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vs_served;

#define VS_STORE_UNIT (2ull << 20)

/* The most of the host that stores have; UINT64_MAX: what vs_host_room leaves. */
void vs_store_limit(uint64_t bytes);
/* Has room for BYTES more of S; NULL, or why not (in the caller's WHY). */
const char *vs_store_grow(struct vs_served *s, uint64_t bytes, char *why, size_t room);

/* Where the unit at ADDRESS is kept; NULL: nowhere. */
char *vs_store_at(struct vs_served *s, uint64_t address);
/* Bytes from ADDRESS on, up to END, that one copy may have: kept side by side. */
uint64_t vs_store_together(struct vs_served *s, uint64_t address, uint64_t end);
/* The same as vs_store_at, found for it if need be; NULL: the host has no more. */
char *vs_store_have(struct vs_served *s, uint64_t address);
/* What is at ADDRESS is kept no more: another unit's copy may come there, in the order of S's copies. */
void vs_store_drop(struct vs_served *s, uint64_t address);

struct vs_host_store;
/* Half a minute is over, and PART is what nothing has lain in all the time: for the caller to give back
 * (vs_host_unlock), and to say so.  Meanwhile nothing more is locked. */
bool vs_store_look(struct vs_served *s, struct vs_host_store *part);
void vs_store_gave(struct vs_served *s, uint64_t bytes);
bool vs_store_gives(const struct vs_served *s);
/* The first that was locked; NULL: nothing is. */
char *vs_store_base(const struct vs_served *s);
/* Nothing of S is kept any more. */
void vs_store_end(struct vs_served *s);
/* Nanoseconds in which all was page-locked so far. */
uint64_t vs_store_ns(void);

#endif
