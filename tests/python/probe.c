/*
 * probe.c - the capture of Python frames as a library of its own, for a Python program to hold it against
 * what the interpreter says.
 *
 * Linked from the shim's sources, it interns into a journal of its own.  Preloaded, it can also capture at
 * every allocation of aligned memory, where PyTorch's tensors on the CPU come from (bench_torch.py).  A
 * program opens it with ctypes twice: PyDLL calls hold the GIL, CDLL calls have released it.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "core/contracts.h"
#include "core/open_calls.h"
#include "core/options.h"
#include "record/record.h"
#include "stacks/block.h"
#include "stacks/modules.h"
#include "stacks/python.h"
#include "stacks/stacks.h"

#define PUBLIC __attribute__((visibility("default")))

/* What the program calls. */
PUBLIC const char *probe_start(void);
PUBLIC const char *probe_why_off(void);
PUBLIC int probe_direct(void);
PUBLIC int probe_contract(const char *name, const char **detail);
PUBLIC void probe_depth(unsigned depth);
PUBLIC uint32_t probe_capture(void);
PUBLIC uint32_t probe_capture_all(void);
PUBLIC int probe_questions(void);
PUBLIC void *probe_inside(void *callable);
PUBLIC uint32_t probe_outside(void);
PUBLIC int probe_frame(uint32_t stack, uint32_t *parent, char *file, char *function, size_t room,
                       uint32_t *line);
PUBLIC int probe_code(uintptr_t code, const char *file, const char *name, const uint32_t *lines,
                      size_t units);
PUBLIC int probe_stale(void);
PUBLIC uint32_t probe_line_310(const unsigned char *table, size_t length, int first, long unit);
PUBLIC uint32_t probe_line_311(const unsigned char *table, size_t length, int first, long unit);
PUBLIC void probe_signals(int on);
PUBLIC int probe_handled(void);
PUBLIC uint32_t probe_in_handler(void);
PUBLIC double probe_warm(int rounds);
PUBLIC double probe_warm_all(int rounds);
PUBLIC double probe_cold(int rounds, size_t bytes);
PUBLIC int posix_memalign(void **memory, size_t alignment, size_t bytes);
PUBLIC void probe_watch(int on);
PUBLIC int probe_watched(const float **ns);

static struct vs_journal *journal;

void vs_record_enter_internal(void) {}
void vs_record_leave_internal(void) {}

/* "" or why there are no Python frames. */
const char *probe_start(void)
{
    char path[64];
    struct vs_journal_config config = {
        .ring_slots = 1024, .string_bytes = 16u << 20, .database = "/nowhere.db"};
    snprintf(path, sizeof path, "/tmp/vramscope-probe-%d.vsj", getpid());
    if (vs_journal_create(&journal, path, &config) != 0)
        return "no journal";
    unlink(path);
    vs_options.stacks = VS_STACKS_ALL;
    vs_stack_set_depth(256);
    vs_modules_prepare();
    vs_stack_prepare();
    vs_python_prepare();
    return vs_python_now() ? "" : vs_python_why_off()[0] ? vs_python_why_off() : "no interpreter";
}

const char *probe_why_off(void)
{
    return vs_python_why_off();
}

/* Whether the interpreter's words are read instead of calling it; after the first capture. */
int probe_direct(void)
{
    return vs_python_now() && vs_python_now()->direct;
}

/* The state of the contract with NAME; "" or what it says. */
int probe_contract(const char *name, const char **detail)
{
    unsigned c = 0;
    while (c < VS_CONTRACTS - 1 && strcmp(vs_contract_rows[c].name, name) != 0)
        c++;
    *detail = vs_contract_detail(c);
    return (int)vs_contract_state(c);
}

void probe_depth(unsigned depth)
{
    vs_stack_set_depth(depth);
}

/* The calling thread's Python stack, 0 none. */
uint32_t probe_capture(void)
{
    return vs_python_capture(journal);
}

/* Native and Python frames together. */
uint32_t probe_capture_all(void)
{
    return vs_stack_capture(journal, 0);
}

/* How often the kernel was asked whether memory can be read.  The shim's own code, which is linked into this
 * library, asks by this function. */
static _Atomic int questions;

long syscall(long number, ...)
{
    static long (*real)(long, ...);
    long a[6];
    va_list rest;
    va_start(rest, number);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(rest, long);
    va_end(rest);
    if (!real)
        *(void **)&real = dlsym(RTLD_NEXT, "syscall");
    if (number == SYS_rt_sigprocmask)
        atomic_fetch_add(&questions, 1);
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

int probe_questions(void)
{
    return atomic_load(&questions);
}

/* Calls the Python object CALLABLE as an open call (core/open_calls.h), as the shim calls modules. */
void *probe_inside(void *callable)
{
    static void *(*state)(void), *(*call)(void *, void *);
    if (!call) {
        *(void **)&state = dlsym(RTLD_DEFAULT, "PyThreadState_Get");
        *(void **)&call = dlsym(RTLD_DEFAULT, "PyObject_CallObject");
    }
    uint32_t level = vs_open_call_begin_in(state());
    void *result = call(callable, NULL);
    vs_open_call_end(level);
    return result;
}

/* Frames that a capture has no need to walk over any more. */
uint32_t probe_outside(void)
{
    const struct vs_open_call *call = vs_open_call_innermost();
    return call ? call->frames : 0;
}

static uint32_t capture_at(uintptr_t *innermost, uintptr_t frame)
{
    uintptr_t kept = *innermost;
    *innermost = frame;
    uint32_t stack = vs_python_capture(journal);
    *innermost = kept;
    return stack;
}

/* What a signal handler may find in the midst of a call, CPython 3.11 and 3.12: 1 a frame that has been left
 * is followed, 2 one whose memory is gone is, 4 one outside of the stack of frames (a generator's) is not. */
int probe_stale(void)
{
    const struct vs_python *p = vs_python_now();
    void *(*get_state)(void);
    *(void **)&get_state = dlsym(RTLD_DEFAULT, "PyThreadState_Get");
    uintptr_t state = (uintptr_t)get_state();
    uintptr_t *innermost =
        (uintptr_t *)(*(uintptr_t *)(state + (uintptr_t)p->cframe) + (uintptr_t)p->current);
    uintptr_t top = *(uintptr_t *)(state + (uintptr_t)p->chunk + 8);
    size_t frame_bytes = 80;
    int wrong = 0;
    memcpy((void *)top, (void *)*innermost, frame_bytes);
    wrong |= capture_at(innermost, top) != 0;
    void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(memory, (void *)*innermost, frame_bytes);
    wrong |= capture_at(innermost, (uintptr_t)memory) ? 0 : 4;
    munmap(memory, 4096);
    return wrong | (capture_at(innermost, (uintptr_t)memory) ? 2 : 0);
}

/* Reads the innermost frame of STACK: 0 none, 1 native (module's path in FILE), 2 Python.  *PARENT: the rest.
 */
int probe_frame(uint32_t stack, uint32_t *parent, char *file, char *function, size_t room, uint32_t *line)
{
    const struct vs_stack_row *node = vs_journal_get_stack(journal, stack);
    const struct vs_frame_row *f = node ? vs_journal_get_frame(journal, node->frame) : NULL;
    if (!f)
        return 0;
    *parent = node->parent;
    function[0] = 0;
    *line = 0;
    if (f->kind == VS_FRAME_ADDRESS) {
        const struct vs_module_row *m = vs_journal_get_module(journal, f->module);
        const char *path = m ? vs_journal_get_string(journal, m->path, NULL) : "?";
        snprintf(file, room, "%s", path);
        return 1;
    }
    *line = f->line;
    snprintf(file, room, "%s", vs_journal_get_string(journal, f->file, NULL));
    snprintf(function, room, "%s", vs_journal_get_string(journal, f->function, NULL));
    return 2;
}

uint32_t probe_line_310(const unsigned char *table, size_t length, int first, long unit)
{
    return vs_python_line_310(table, length, first, unit);
}

uint32_t probe_line_311(const unsigned char *table, size_t length, int first, long unit)
{
    return vs_python_line_311(table, length, first, unit);
}

int vramscope_auto_code(uintptr_t code, const char *file, const char *name, const uint32_t *lines,
                        size_t units);

int probe_code(uintptr_t code, const char *file, const char *name, const uint32_t *lines, size_t units)
{
    return vramscope_auto_code(code, file, name, lines, units);
}

/* ---- in a signal handler ---- */

static volatile uint32_t in_handler;
static volatile int handled;
static _Atomic bool storm;
static pid_t target;
static pthread_t sender;

static void on_signal(int number)
{
    in_handler = vs_python_capture(journal);
    handled++;
}

static void *send_signals(void *unused)
{
    while (atomic_load(&storm)) {
        syscall(SYS_tgkill, getpid(), target, SIGPROF);
        sched_yield();
    }
    return NULL;
}

/* From ON to OFF the calling thread captures in a signal handler, some ten thousand times a second. */
void probe_signals(int on)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    atomic_store(&storm, on);
    if (on) {
        target = (pid_t)syscall(SYS_gettid);
        sigaction(SIGPROF, &action, NULL);
        pthread_create(&sender, NULL, send_signals, NULL);
    } else {
        pthread_join(sender, NULL);
        signal(SIGPROF, SIG_IGN);
    }
}

int probe_handled(void)
{
    return handled;
}

uint32_t probe_in_handler(void)
{
    return in_handler;
}

/* ---- cost ---- */

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Makes the compiler compute VALUE. */
static void keep(uint64_t value)
{
    __asm__ volatile("" ::"r"(value));
}

/* ns a capture of the same stack, again and again. */
double probe_warm(int rounds)
{
    double begin = now();
    for (int i = 0; i < rounds; i++)
        keep(vs_python_capture(journal));
    return (now() - begin) / rounds;
}

#define OTHER_MAX (64u << 20)

/* The same of native and Python frames together. */
double probe_warm_all(int rounds)
{
    double begin = now();
    for (int i = 0; i < rounds; i++)
        keep(vs_stack_capture(journal, 0));
    return (now() - begin) / rounds;
}

/* The same where BYTES of other memory were read since the last one. */
double probe_cold(int rounds, size_t bytes)
{
    static unsigned char *other;
    double sum = 0, empty = 0;
    if (!other) {
        other = malloc(OTHER_MAX);
        memset(other, 1, OTHER_MAX);
    }
    for (int i = 0; i < rounds; i++) {
        for (size_t at = 0; at < bytes && at < OTHER_MAX; at += 64)
            keep(other[at]);
        double begin = now();
        keep(vs_python_capture(journal));
        double middle = now();
        sum += middle - begin;
        empty += now() - middle;
    }
    return (sum - empty) / rounds;
}

/* ---- cost between a program's own work ---- */

enum { WATCHED_MAX = 1 << 20 };
static float watched[WATCHED_MAX];
static _Atomic int watched_count = WATCHED_MAX; /* full: nothing is watched */

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    static int (*real)(void **, size_t, size_t);
    if (!real)
        real = (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
    int status = real(memory, alignment, bytes);
    if (atomic_load(&watched_count) < WATCHED_MAX) {
        double begin = now();
        uint32_t stack = vs_python_capture(journal);
        double middle = now(), end = now();
        int i = stack ? atomic_fetch_add(&watched_count, 1) : WATCHED_MAX;
        if (i < WATCHED_MAX)
            watched[i] = (float)((middle - begin) - (end - middle));
    }
    return status;
}

void probe_watch(int on)
{
    atomic_store(&watched_count, on ? 0 : WATCHED_MAX);
}

/* How many captures were watched, and their ns. */
int probe_watched(const float **ns)
{
    *ns = watched;
    int n = atomic_load(&watched_count);
    return n < WATCHED_MAX ? n : WATCHED_MAX;
}
