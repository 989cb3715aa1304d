/*
 * own_descriptors.h - a thread with a table of descriptors of its own.
 *
 * Host programs close descriptors that they did not open (daemons: all of them), and get the numbers again
 * for files of theirs.  A thread with a table of its own is out of their reach, and they are out of its: what
 * it opens has no number in the host, goes to no child of fork, and survives the host's closing everything.
 */
#ifndef VS_CORE_OWN_DESCRIPTORS_H
#define VS_CORE_OWN_DESCRIPTORS_H

#include <stdbool.h>

/* Gives the calling thread an empty table for good.  It must not be the process's first thread, nor become
 * the last one (its table is what others then see as the process's).  False: the kernel, or a filter of the
 * host's, refuses; nothing is changed.  Host's files are not touched, nor their locks: what is closed is this
 * thread's copies.  Keeps errno. */
bool vs_own_descriptors(void);

/* How kernels before 5.9 do it: for them, and for tests. */
bool vs_own_descriptors_by_copy(void);

#endif
