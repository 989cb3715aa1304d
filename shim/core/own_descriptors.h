/*
 * own_descriptors.h - gives a thread a descriptor table of its own.
 *
 * Host programs close descriptors that they did not open (daemons: all of them), and reuse the numbers for
 * their own files.  A thread with its own table and the host cannot touch each other's descriptors: a file
 * that the thread opens has no number in the host, is not inherited by children of fork, and stays open when
 * the host closes everything.
 */
#ifndef VS_CORE_OWN_DESCRIPTORS_H
#define VS_CORE_OWN_DESCRIPTORS_H

#include <stdbool.h>

/* Gives the calling thread an empty table for good.  It must not be the process's first thread, nor become
 * its last one (whose table other processes see as the process's).  False: the kernel, or a filter of the
 * host's, refuses; nothing is changed.  The host's files and their locks are not touched: only this thread's
 * copies are closed.  Keeps errno. */
bool vs_own_descriptors(void);

/* The way for kernels before 5.9; declared for tests. */
bool vs_own_descriptors_by_copy(void);

#endif
