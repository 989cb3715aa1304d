/*
 * own_threads.h - how each thread of ours is started, and what it must do first and last.
 */
#ifndef VS_CORE_OWN_THREADS_H
#define VS_CORE_OWN_THREADS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* Starts a thread that handles no signals but the guard's (guard.h).  It has STACK bytes beside what the
 * system needs.  JOINED gets it; where that is NULL nobody joins the thread.  Returns 0 or an error number,
 * and keeps errno. */
int vs_own_thread(pthread_t *joined, size_t stack, void *(*function)(void *), void *argument);

/* Gives the calling thread an empty table for good.  It must not be the process's first thread, nor become
 * its last one (whose table other processes see as the process's).  False: the kernel, or a filter of the
 * host's, refuses; nothing is changed.  The host's files and their locks are not touched: only this thread's
 * copies are closed.  Keeps errno.
 *
 * Host programs close descriptors that they did not open (daemons: all of them), and reuse the numbers for
 * their own files. A thread with a table of its own and the host cannot touch each other's descriptors: a
 * file that the thread opens has no number in the host, is not inherited by children of fork, and stays open
 * when the host closes everything. */
bool vs_own_descriptors(void);

/* The way for kernels before 5.9; declared for tests. */
bool vs_own_descriptors_by_copy(void);

/* ---- ThreadSanitizer's runtime in the host ----
 *
 * It watches every thread of the process.  It sees our calls of the C library (strrchr, memcpy, malloc), but
 * not the locks that the loader takes inside dl_iterate_phdr and dlopen, and reports two threads of ours that
 * read and make a library's name as a race of the program.  It has a switch for such threads: gcc's by one
 * name, clang's, which lies in the program, by two others.  Without that runtime the weak symbols are absent,
 * and nothing is called.  A build of ours with ThreadSanitizer switches nothing off: there it is to watch
 * these threads. */

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define VS_WATCHES_OWN_THREADS 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define VS_WATCHES_OWN_THREADS 1
#endif

#ifdef VS_WATCHES_OWN_THREADS

static inline void vs_own_thread_begin(void) {}

static inline void vs_own_thread_end(void) {}

#else

extern void __tsan_ignore_thread_begin(void) __attribute__((weak, visibility("default")));
extern void __tsan_ignore_thread_end(void) __attribute__((weak, visibility("default")));

extern void AnnotateIgnoreReadsBegin(const char *file, int line) __attribute__((weak, visibility("default")));
extern void AnnotateIgnoreReadsEnd(const char *file, int line) __attribute__((weak, visibility("default")));
extern void AnnotateIgnoreWritesBegin(const char *file, int line)
    __attribute__((weak, visibility("default")));
extern void AnnotateIgnoreWritesEnd(const char *file, int line) __attribute__((weak, visibility("default")));

/* To be called by each thread that we start, before anything else. */
static inline void vs_own_thread_begin(void)
{
    if (__tsan_ignore_thread_begin) {
        __tsan_ignore_thread_begin();
    } else if (AnnotateIgnoreReadsBegin && AnnotateIgnoreWritesBegin) {
        AnnotateIgnoreReadsBegin(__FILE__, __LINE__);
        AnnotateIgnoreWritesBegin(__FILE__, __LINE__);
    }
}

/* To be called before the thread's function returns: the runtime reports a thread that ends without it. */
static inline void vs_own_thread_end(void)
{
    if (__tsan_ignore_thread_end) {
        __tsan_ignore_thread_end();
    } else if (AnnotateIgnoreReadsEnd && AnnotateIgnoreWritesEnd) {
        AnnotateIgnoreReadsEnd(__FILE__, __LINE__);
        AnnotateIgnoreWritesEnd(__FILE__, __LINE__);
    }
}

#endif

#endif
