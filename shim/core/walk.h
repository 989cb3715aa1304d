/*
 * walk.h - walks over the objects that the loader has loaded, kept apart from forks.
 *
 * dl_iterate_phdr holds a lock of the C library as long as it walks, and fork leaves that lock to the child
 * as it is: forked while another thread walks, a child that walks itself waits for ever.  So
 *
 *   - a fork waits until no walk of ours is under way, and no walk begins before the fork is done (by
 *     pthread_atfork; each waits for a bounded time, then goes on as if it did not know of the other);
 *   - in a child we do not walk, where the loader was at work when it was forked (its r_debug says so) and
 *     has not completed a load since: only the child's own next load shows that the lock is free.
 *
 * Children of vfork and of a raw clone have the second alone.
 */
#ifndef VS_CORE_WALK_H
#define VS_CORE_WALK_H

#include <link.h>
#include <stdbool.h>

/* From now on; before, a walk is dl_iterate_phdr. */
void vs_walk_begin(void);

/* Whether it is known that a walk would not wait for ever. */
bool vs_walk_may(void);

/* dl_iterate_phdr; where that might wait for ever nothing is visited, and 0.  VISIT may walk itself.  Any
 * thread.  Keeps errno. */
int vs_walk_objects(int (*visit)(struct dl_phdr_info *info, size_t size, void *context), void *context);

/* WORK, whose result is returned, kept apart from forks as a walk is: for what a child must not find half
 * done. */
int vs_walk_apart(int (*work)(void));

#endif
