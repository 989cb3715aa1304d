/*
 * own_stack.h - runs a function on a stack of our own.
 *
 * The thread that happens to start or to end a recording is the host's, and so is its stack: 16 KiB in a
 * thread of the smallest size or on an alternate signal stack, which the loader, SQLite and our own paths
 * outgrow.  Events themselves need little and stay where they are.
 */
#ifndef VS_CORE_OWN_STACK_H
#define VS_CORE_OWN_STACK_H

/* Calls FUNCTION(ARGUMENT) on a fresh stack of half a MiB; where there is no memory for one, on this one. The
 * caller keeps signals and cancellation away (signal_mask.h): nothing may leave FUNCTION but its return. */
void vs_on_own_stack(void (*function)(void *), void *argument);

#endif
