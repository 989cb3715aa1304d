/*
 * own_stack.h - runs a function on a stack of our own.
 *
 * A recording starts and ends on a thread of the host's, whose stack may be as small as 16 KiB (the smallest
 * thread, or an alternate signal stack).  The loader, SQLite and our own paths need more.  Events need
 * little, and are recorded on the host's stack.
 */
#ifndef VS_CORE_OWN_STACK_H
#define VS_CORE_OWN_STACK_H

/* Calls FUNCTION(ARGUMENT) on a fresh stack of half a MiB; without memory for one, on the present stack.  The
 * caller blocks signals and cancellation (signal_mask.h): FUNCTION must be left by its return only. */
void vs_on_own_stack(void (*function)(void *), void *argument);

#endif
