/*
 * stack_helpers.h - what the tests of call stacks share: one journal, and questions about the stacks in it.
 *
 * Included once, by each test program, before anything else.
 */
#ifndef TESTS_UNIT_STACKS_STACK_HELPERS_H
#define TESTS_UNIT_STACKS_STACK_HELPERS_H

#define _GNU_SOURCE

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "unit/test.h"
#include "core/options.h"
#include "record/record.h"
#include "stacks/block.h"
#include "stacks/modules.h"
#include "stacks/stacks.h"

#if __has_attribute(noclone) /* gcc: no copies for constant arguments */
#define NOINLINE __attribute__((noinline, noclone))
#else
#define NOINLINE __attribute__((noinline))
#endif
#define NO_TAIL __asm__ volatile("" ::: "memory")

static struct vs_journal *journal;
__attribute__((unused)) static char directory[PATH_MAX];

void vs_record_enter_internal(void) {}
void vs_record_leave_internal(void) {}

__attribute__((unused)) static int depth_of(uint32_t stack)
{
    int depth = 0;
    while (stack) {
        stack = vs_journal_get_stack(journal, stack)->parent;
        depth++;
    }
    return depth;
}

/* The frame N callers out from the innermost. */
__attribute__((unused)) static const struct vs_frame_row *frame_at(uint32_t stack, int n)
{
    while (stack && n-- > 0)
        stack = vs_journal_get_stack(journal, stack)->parent;
    return stack ? vs_journal_get_frame(journal, vs_journal_get_stack(journal, stack)->frame) : NULL;
}

__attribute__((unused)) static const char *module_at(uint32_t stack, int n)
{
    const struct vs_frame_row *frame = frame_at(stack, n);
    const struct vs_module_row *module = frame ? vs_journal_get_module(journal, frame->module) : NULL;
    const char *path = module ? vs_journal_get_string(journal, module->path, NULL) : NULL;
    return path ? path : "";
}

__attribute__((unused)) static bool inside(uint64_t address, const void *function, size_t size)
{
    return address - (uintptr_t)function < size;
}

__attribute__((unused)) static int open_descriptors(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

__attribute__((unused)) static struct vs_journal *new_journal(const char *name)
{
    char path[PATH_MAX];
    struct vs_journal *j = NULL;
    struct vs_journal_config config = {.ring_slots = 1024, .database = "/nowhere.db"};
    snprintf(path, sizeof path, "/tmp/vramscope-test-%d-%s.vsj", getpid(), name);
    assert_int_equal(vs_journal_create(&j, path, &config), 0);
    unlink(path);
    return j;
}

__attribute__((unused)) static NOINLINE void capture_into(void *data)
{
    *(uint32_t *)data = vs_stack_capture(journal, 0);
    NO_TAIL;
}

__attribute__((unused)) static void *returns[3];

__attribute__((unused)) static NOINLINE uint32_t innermost(void)
{
    returns[0] = __builtin_return_address(0);
    uint32_t stack = vs_stack_capture(journal, 0);
    NO_TAIL;
    return stack;
}
__attribute__((unused)) static NOINLINE uint32_t middle(void)
{
    returns[1] = __builtin_return_address(0);
    uint32_t stack = innermost();
    NO_TAIL;
    return stack;
}

__attribute__((unused)) static NOINLINE uint32_t recurse(int n)
{
    uint32_t stack = n > 0 ? recurse(n - 1) : vs_stack_capture(journal, 0);
    NO_TAIL;
    return stack;
}

__attribute__((unused)) static void begin_stack_tests(void)
{
    ssize_t n = readlink("/proc/self/exe", directory, sizeof directory - 1);
    directory[n] = 0;
    *strrchr(directory, '/') = 0;
    journal = new_journal("main");
    vs_options.stacks = VS_STACKS_DRIVER;
}

#endif
