/*
 * own_threads.h - what each thread of ours must do first and last.
 *
 * A program that was built with ThreadSanitizer has its runtime watch every thread of the process, ours too:
 * it sees our calls of the C library (strrchr, memcpy, malloc), but not the locks that the loader takes
 * inside dl_iterate_phdr and dlopen, and reports two threads of ours that read and make a library's name as
 * a race of the program.  The runtime has a switch for such threads: gcc's by one name, clang's, which lies
 * in the program, by two others.  The symbols are weak: without that runtime they are absent, and nothing is
 * called.  In a build of ours with ThreadSanitizer nothing is switched off, because it is there to watch
 * these threads.
 */
#ifndef VS_CORE_OWN_THREADS_H
#define VS_CORE_OWN_THREADS_H

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
