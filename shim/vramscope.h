/*
 * vramscope.h - marks phases and steps of a program for vramscope, and suspends its memory.
 *
 * A program built with this header needs no library.  Unless libvramscope.so is preloaded every call is one
 * test of a null pointer.  C99 and C++; ELF platforms with weak symbols.
 *
 *      vramscope_range_push("forward");
 *      ...
 *      vramscope_range_pop();
 *      vramscope_step();
 *
 * Thread-safety: every function may be called from any thread; but for vramscope_suspend and
 * vramscope_resume, also from signal handlers, and none blocks.  A handler pops what it pushes, and nothing
 * else.  A range belongs to the thread that pushed it; names are copied.  No function changes errno.
 */
#ifndef VRAMSCOPE_H
#define VRAMSCOPE_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef VRAMSCOPE_BUILDING_LIBRARY
#define VRAMSCOPE_API __attribute__((visibility("default")))
#else
#define VRAMSCOPE_API __attribute__((weak))
#endif

/* Opens a range of NAME on the calling thread: NAME is the phase of everything allocated until the matching
 * pop, on this thread and, while it is the thread that last opened a phase, on threads without a range of
 * their own.  Ranges nest. Returns the depth of the new range (0 = outermost), or -1 if nothing is
 * recorded. */
VRAMSCOPE_API int vramscope_range_push(const char *name);

/* Closes the innermost range that vramscope_range_push opened on the calling thread.  Returns the depth of
 * the range that it closed, or -1 if none was open. */
VRAMSCOPE_API int vramscope_range_pop(void);

/* A named moment in the timeline. */
VRAMSCOPE_API void vramscope_mark(const char *name);

/* One training iteration ends here. */
VRAMSCOPE_API void vramscope_step(void);

/* Opens and closes the record window: between stop and start nothing but frees of what was recorded is
 * written.  Recording is on from the start unless VRAMSCOPE_ENABLED=off. */
VRAMSCOPE_API void vramscope_record_start(void);
VRAMSCOPE_API void vramscope_record_stop(void);

/* 1 if libvramscope.so is loaded and records, else 0. */
VRAMSCOPE_API int vramscope_active(void);

/* Moves what lives in the arena's memory (vramscope run --allocator=arena) on all devices to page-locked
 * memory of the host, and gives the devices' memory back to the driver, so that others can have it. Addresses
 * stay, and so do CUDA graphs, streams and events.  The device is waited for first, a minute at most.  Any
 * thread's later work on the device, or request for memory, first brings all back.  NCCL keeps its
 * buffers; Python's vramscope.suspended() moves them, too.
 *
 * Returns 0 once it was moved.  Returns -1 where nothing was: then WHY, of SIZE bytes, has one line that says
 * why.  WHY may be NULL, and is not written where libvramscope.so is not preloaded.  Blocks while it moves;
 * not for signal handlers, and not while a stream is captured by the caller. */
VRAMSCOPE_API int vramscope_suspend(char *why, size_t size);

/* Moves it back.  Where others have taken the device's memory it waits for them, a minute at most.  0: it is
 * back, or never was away.  -1: all is on the host still, as where another process suspended it; WHY as
 * above. */
VRAMSCOPE_API int vramscope_resume(char *why, size_t size);

#ifndef VRAMSCOPE_BUILDING_LIBRARY
/* The address of the function in this process, or NULL.  In programs that are not position independent
 * (-no-pie) linkers resolve a weak reference to NULL for good, unless it goes through the global offset
 * table, which such code does not do by default. */
#if defined(__x86_64__) && defined(__LP64__) && !defined(__PIC__)
#define VRAMSCOPE_FIND_(f)                                                                                   \
    __extension__({                                                                                          \
        __typeof__(&f) f_;                                                                                   \
        __asm__(".weak " #f "\n\tmovq " #f "@GOTPCREL(%%rip), %0" : "=r"(f_));                               \
        f_;                                                                                                  \
    })
#else
#define VRAMSCOPE_FIND_(f) (&f)
#endif
#define VRAMSCOPE_CALL_(f, otherwise, ...) (VRAMSCOPE_FIND_(f) ? VRAMSCOPE_FIND_(f)(__VA_ARGS__) : otherwise)
static inline int vramscope_range_push_(const char *name)
{
    return VRAMSCOPE_CALL_(vramscope_range_push, -1, name);
}
static inline int vramscope_range_pop_(void)
{
    return VRAMSCOPE_CALL_(vramscope_range_pop, -1, );
}
static inline void vramscope_mark_(const char *name)
{
    VRAMSCOPE_CALL_(vramscope_mark, (void)0, name);
}
static inline void vramscope_step_(void)
{
    VRAMSCOPE_CALL_(vramscope_step, (void)0, );
}
static inline void vramscope_record_start_(void)
{
    VRAMSCOPE_CALL_(vramscope_record_start, (void)0, );
}
static inline void vramscope_record_stop_(void)
{
    VRAMSCOPE_CALL_(vramscope_record_stop, (void)0, );
}
static inline int vramscope_active_(void)
{
    return VRAMSCOPE_CALL_(vramscope_active, 0, );
}
static inline int vramscope_suspend_(char *why, size_t size)
{
    return VRAMSCOPE_CALL_(vramscope_suspend, -1, why, size);
}
static inline int vramscope_resume_(char *why, size_t size)
{
    return VRAMSCOPE_CALL_(vramscope_resume, -1, why, size);
}
#define vramscope_suspend(why, size) vramscope_suspend_(why, size)
#define vramscope_resume(why, size)  vramscope_resume_(why, size)
#define vramscope_range_push(name)   vramscope_range_push_(name)
#define vramscope_range_pop()        vramscope_range_pop_()
#define vramscope_mark(name)         vramscope_mark_(name)
#define vramscope_step()             vramscope_step_()
#define vramscope_record_start()     vramscope_record_start_()
#define vramscope_record_stop()      vramscope_record_stop_()
#define vramscope_active()           vramscope_active_()
#endif

#ifdef __cplusplus
}
#endif
#endif
