/*
 * serve.h - VRAMSCOPE_ALLOCATOR=arena: the program's device memory comes from arenas, one per device.
 *
 * The functions here stand in the place of the driver's own (hooks/driver.h: vs_override), so that every road
 * into a hook leads to them, and recording goes on around them as ever.
 */
#ifndef VS_ARENA_SERVE_H
#define VS_ARENA_SERVE_H

/* Before the driver is learnt: from the library's constructor. */
void vs_serve_install(void);
/* What is there without an arena, too: opening memory of another process's. */
void vs_serve_install_always(void);

#endif
