/*
 * test_stacks.c - call stacks in the situations that a host program puts them in: see each test's name.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "options.h"
#include "record.h"
#include "stacks/block.h"
#include "stacks/modules.h"
#include "stacks/stacks.h"

#define NOINLINE __attribute__((noinline, noclone))
#define NO_TAIL  __asm__ volatile("" ::: "memory")

static struct vs_journal *journal;
static char directory[PATH_MAX];

void vs_record_enter_internal(void) {}
void vs_record_leave_internal(void) {}

/* ---- helpers ---- */

static int depth_of(uint32_t stack)
{
    int depth = 0;
    while (stack) {
        stack = vs_journal_get_stack(journal, stack)->parent;
        depth++;
    }
    return depth;
}

/* The frame N callers out from the innermost. */
static const struct vs_frame_row *frame_at(uint32_t stack, int n)
{
    while (stack && n-- > 0)
        stack = vs_journal_get_stack(journal, stack)->parent;
    return stack ? vs_journal_get_frame(journal, vs_journal_get_stack(journal, stack)->frame) : NULL;
}

static const char *module_at(uint32_t stack, int n)
{
    const struct vs_frame_row *frame = frame_at(stack, n);
    const struct vs_module_row *module = frame ? vs_journal_get_module(journal, frame->module) : NULL;
    const char *path = module ? vs_journal_get_string(journal, module->path, NULL) : NULL;
    return path ? path : "";
}

static bool inside(uint64_t address, const void *function, size_t size)
{
    return address - (uintptr_t)function < size;
}

static int open_descriptors(void)
{
    int n = 0;
    DIR *d = opendir("/proc/self/fd");
    while (readdir(d))
        n++;
    closedir(d);
    return n;
}

static struct vs_journal *new_journal(const char *name)
{
    char path[PATH_MAX];
    struct vs_journal *j = NULL;
    struct vs_journal_config config = {.ring_slots = 1024, .database = "/nowhere.db"};
    snprintf(path, sizeof path, "/tmp/vramscope-test-%d-%s.vsj", getpid(), name);
    assert_int_equal(vs_journal_create(&j, path, &config), 0);
    unlink(path);
    return j;
}

static NOINLINE void capture_into(void *data)
{
    *(uint32_t *)data = vs_stack_capture(journal, 0);
    NO_TAIL;
}

/* ---- tests ---- */

static void loading_the_unwinder_keeps_no_descriptor(void **state)
{
    int before = open_descriptors();
    vs_options.stacks = VS_STACKS_DRIVER;
    vs_stack_prepare();
    assert_string_equal(vs_stack_why_off(), "");
    uint32_t stack;
    capture_into(&stack);
    assert_int_not_equal(stack, 0);
    assert_int_equal(open_descriptors(), before);
}

static void the_unwinder_is_not_visible_to_the_host(void **state)
{
    assert_null(dlsym(RTLD_DEFAULT, "unw_backtrace"));
    Dl_info info;
    void *resume = dlsym(RTLD_DEFAULT, "_Unwind_Resume");
    if (resume && dladdr(resume, &info))
        assert_null(strstr(info.dli_fname, "vramscope"));
    assert_null(dlopen("libunwind.so.8", RTLD_NOLOAD | RTLD_NOW));
    assert_null(dlopen("liblzma.so.5", RTLD_NOLOAD | RTLD_NOW));
}

static void *returns[3];

static NOINLINE uint32_t innermost(void)
{
    returns[0] = __builtin_return_address(0);
    uint32_t stack = vs_stack_capture(journal, 0);
    NO_TAIL;
    return stack;
}
static NOINLINE uint32_t middle(void)
{
    returns[1] = __builtin_return_address(0);
    uint32_t stack = innermost();
    NO_TAIL;
    return stack;
}

static void frames_are_the_callers_from_the_innermost_outwards(void **state)
{
    uint32_t stack = middle();
    NO_TAIL;
    assert_true(inside(frame_at(stack, 0)->address, (void *)innermost, 256));
    assert_int_equal(frame_at(stack, 1)->address, (uint64_t)returns[0] - 1);
    assert_int_equal(frame_at(stack, 2)->address, (uint64_t)returns[1] - 1);
    assert_non_null(strstr(module_at(stack, 0), "/test_stacks"));
    assert_non_null(strstr(module_at(stack, depth_of(stack) - 3), "libc.so.6"));
    assert_non_null(strstr(module_at(stack, depth_of(stack) - 1), "/test_stacks")); /* _start */
}

static void a_module_has_its_build_id_and_its_range(void **state)
{
    const struct vs_frame_row *frame = frame_at(middle(), 0);
    const struct vs_module_row *module = vs_journal_get_module(journal, frame->module);
    size_t length = 0;
    assert_true(frame->address >= module->start && frame->address < module->end);
    assert_non_null(vs_journal_get_string(journal, module->build_id, &length));
    assert_int_equal(length, 40);
}

static void the_same_place_is_the_same_stack_and_another_is_not(void **state)
{
    uint32_t stacks[3];
    for (volatile int i = 0; i < 2; i++) /* volatile: one call, not one a round */
        stacks[i] = middle();
    stacks[2] = innermost();
    assert_int_equal(stacks[0], stacks[1]);
    assert_int_not_equal(stacks[0], stacks[2]);
}

static NOINLINE uint32_t skipping(int skip)
{
    uint32_t stack = vs_stack_capture(journal, skip);
    NO_TAIL;
    return stack;
}

static void skip_leaves_out_the_innermost_frames(void **state)
{
    uint32_t stack[2];
    for (volatile int i = 0; i < 2; i++)
        stack[i] = skipping(i);
    assert_int_equal(frame_at(stack[0], 1)->address, frame_at(stack[1], 0)->address);
    assert_int_equal(depth_of(stack[0]), depth_of(stack[1]) + 1);
}

static NOINLINE uint32_t recurse(int n)
{
    uint32_t stack = n > 0 ? recurse(n - 1) : vs_stack_capture(journal, 0);
    NO_TAIL;
    return stack;
}

static void a_deep_recursion_is_cut_at_the_depth_limit(void **state)
{
    vs_stack_set_depth(64);
    uint32_t stack = recurse(5000);
    assert_int_equal(depth_of(stack), 64);
    assert_true(inside(frame_at(stack, 63)->address, (void *)recurse, 256));
    vs_stack_set_depth(256);
    assert_int_equal(depth_of(recurse(230)), 231 + depth_of(skipping(0)) - 1);
    assert_int_equal(depth_of(recurse(5000)), 256);
    vs_stack_set_depth(64);
}

static void through_library(const char *name, uint32_t *stack, void **where)
{
    char path[PATH_MAX * 2];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    assert_non_null(handle);
    void (*call)(void (*)(void *), void *) =
        (void (*)(void (*)(void *), void *))dlsym(handle, "stacktest_call");
    *where = (void *)call;
    call(capture_into, stack);
    dlclose(handle);
}

static void a_library_loaded_where_another_was_is_told_apart(void **state)
{
    uint32_t stack[4];
    void *where[4];
    for (int i = 0; i < 4; i++) {
        through_library(i % 2 ? "libstacktest_second.so" : "libstacktest_first.so", &stack[i], &where[i]);
        assert_non_null(strstr(module_at(stack[i], 1), i % 2 ? "second" : "first"));
        assert_true(depth_of(stack[i]) > 3);
        assert_non_null(strstr(module_at(stack[i], 2), "/test_stacks"));
    }
    assert_ptr_equal(where[0], where[1]); /* or this test tests nothing */
    assert_int_equal(frame_at(stack[0], 1)->address, frame_at(stack[1], 1)->address);
    assert_int_not_equal(stack[0], stack[1]);
    assert_int_equal(stack[0], stack[2]);
}

static void a_frame_that_only_the_slow_path_can_follow_is_followed(void **state)
{
    uint32_t stack[2];
    void *where;
    for (volatile int i = 0; i < 2; i++)
        through_library("libstacktest_odd_frame.so", &stack[i], &where);
    assert_non_null(strstr(module_at(stack[0], 1), "odd_frame"));
    assert_true(inside(frame_at(stack[0], 2)->address, (void *)through_library, 512));
    assert_int_equal(depth_of(stack[0]), depth_of(stack[1]));
}

/* Writes a copy of libstacktest_first.so whose unwind table's header says that there is no table. */
static void damage_unwind_table(const char *from, const char *to)
{
    static unsigned char bytes[1 << 20];
    static const unsigned char omitted[] = {1, 0xff, 0xff, 0xff}; /* version, three times DW_EH_PE_omit */
    FILE *f = fopen(from, "rb");
    assert_non_null(f);
    size_t size = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    const ElfW(Ehdr) *header = (void *)bytes;
    const ElfW(Phdr) *phdr = (void *)(bytes + header->e_phoff);
    for (int i = 0; i < header->e_phnum; i++)
        if (phdr[i].p_type == PT_GNU_EH_FRAME)
            memcpy(bytes + phdr[i].p_offset, omitted, sizeof omitted);
    f = fopen(to, "wb");
    assert_int_equal(fwrite(bytes, 1, size, f), size);
    fclose(f);
}

static void an_unwind_table_that_makes_libunwind_abort_costs_one_stack(void **state)
{
    char from[PATH_MAX * 2], to[PATH_MAX * 2];
    void *where;
    uint32_t stack = 1, before = middle();
    snprintf(from, sizeof from, "%s/libstacktest_first.so", directory);
    snprintf(to, sizeof to, "%s/libstacktest_damaged.so", directory);
    damage_unwind_table(from, to);
    through_library("libstacktest_damaged.so", &stack, &where);
    unlink(to);
    assert_int_equal(stack, 0);
    assert_int_equal(depth_of(middle()), depth_of(before));
    through_library("libstacktest_first.so", &stack, &where);
    assert_non_null(strstr(module_at(stack, 1), "first"));
}

static void a_full_table_gives_no_stack_instead_of_a_wrong_one(void **state)
{
    struct vs_journal *small = NULL, *whole = journal;
    struct vs_journal_config config = {
        .ring_slots = 1024, .frames = 16, .stacks = 16, .database = "/nowhere.db"};
    char path[64];
    snprintf(path, sizeof path, "/tmp/vramscope-test-%d-small.vsj", getpid());
    assert_int_equal(vs_journal_create(&small, path, &config), 0);
    unlink(path);
    journal = small;
    uint32_t last = 1, deep;
    for (volatile int i = 0; i < 40 && last; i++)
        last = recurse(i);
    deep = recurse(30);
    journal = whole;
    vs_journal_close(small);
    assert_int_equal(last, 0);
    assert_int_equal(deep, 0);
    assert_true(depth_of(recurse(30)) > 30);
}

static void a_load_is_seen_by_the_next_capture_without_asking_the_loader(void **state)
{
    char path[PATH_MAX * 2];
    snprintf(path, sizeof path, "%s/libstacktest_first.so", directory);
    uint64_t before = vs_module_loads();
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    uint64_t loaded = vs_module_loads();
    dlclose(handle);
    assert_int_equal(loaded, before + 1);
    assert_int_equal(vs_module_loads(), loaded);
}

/* -- the loader's lock -- */

static _Atomic int cold_done;
static uint32_t cold_stack;

static void *cold_thread(void *unused)
{
    uint32_t stack;
    void *where;
    (void)where;
    capture_into(&stack); /* a new thread: all caches are empty */
    cold_stack = stack;
    atomic_store(&cold_done, 1);
    return NULL;
}

static int hold_loader_lock(struct dl_phdr_info *info, size_t size, void *data)
{
    pthread_t thread;
    uint32_t own;
    capture_into(&own); /* this thread holds the lock itself */
    assert_int_not_equal(own, 0);
    assert_int_equal(pthread_create(&thread, NULL, cold_thread, NULL), 0);
    for (int i = 0; i < 5000 && !atomic_load(&cold_done); i++)
        usleep(1000);
    *(int *)data = atomic_load(&cold_done);
    pthread_detach(thread);
    return 1;
}

static void a_cold_capture_never_waits_for_the_loaders_lock(void **state)
{
    int done = 0;
    dl_iterate_phdr(hold_loader_lock, &done);
    assert_true(done);
    assert_int_not_equal(cold_stack, 0);
}

static uint32_t constructor_stack;
void stacktest_in_constructor(void);
void stacktest_in_constructor(void)
{
    capture_into(&constructor_stack);
    NO_TAIL;
}

static _Atomic int stop_loading;
static void *load_and_unload(void *unused)
{
    char path[PATH_MAX * 2];
    snprintf(path, sizeof path, "%s/libstacktest_second.so", directory);
    while (!atomic_load(&stop_loading)) {
        void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (handle)
            dlclose(handle);
    }
    return NULL;
}

static void a_constructor_may_capture_while_another_thread_loads(void **state)
{
    pthread_t thread;
    char path[PATH_MAX * 2];
    snprintf(path, sizeof path, "%s/libstacktest_constructor.so", directory);
    atomic_store(&stop_loading, 0);
    assert_int_equal(pthread_create(&thread, NULL, load_and_unload, NULL), 0);
    for (int i = 0; i < 200; i++) {
        constructor_stack = 0;
        void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        assert_non_null(handle);
        dlclose(handle);
        assert_int_not_equal(constructor_stack, 0);
        assert_non_null(strstr(module_at(constructor_stack, 2), "constructor"));
    }
    atomic_store(&stop_loading, 1);
    pthread_join(thread, NULL);
}

/* -- signals, stacks, jumps -- */

static volatile uint32_t handler_stack;
static void capture_in_handler(int signal)
{
    uint32_t stack;
    capture_into(&stack);
    handler_stack = stack;
}

static void a_signal_handler_on_its_own_stack_sees_what_it_interrupted(void **state)
{
    static char stack_memory[16384];
    stack_t alternate = {.ss_sp = stack_memory, .ss_size = sizeof stack_memory}, old;
    struct sigaction action = {.sa_handler = capture_in_handler, .sa_flags = SA_ONSTACK}, before;
    sigaltstack(&alternate, &old);
    sigaction(SIGUSR1, &action, &before);
    raise(SIGUSR1);
    sigaction(SIGUSR1, &before, NULL);
    sigaltstack(&old, NULL);
    int depth = depth_of(handler_stack);
    bool seen = false;
    for (int i = 2; i < depth; i++)
        seen |= inside(frame_at(handler_stack, i)->address,
                       (void *)a_signal_handler_on_its_own_stack_sees_what_it_interrupted, 1024);
    assert_true(seen);
}

static _Atomic int handled;
static void count_and_capture(int signal)
{
    uint32_t stack;
    capture_into(&stack);
    atomic_fetch_add(&handled, 1);
}

static void handlers_that_interrupt_a_capture_do_no_harm(void **state)
{
    struct sigaction action = {.sa_handler = count_and_capture, .sa_flags = SA_RESTART}, before;
    struct itimerval timer = {{0, 100}, {0, 100}}, off = {{0, 0}, {0, 0}};
    sigaction(SIGPROF, &action, &before);
    setitimer(ITIMER_PROF, &timer, NULL);
    uint32_t expected = middle();
    for (int i = 0; i < 3000000 && atomic_load(&handled) < 50; i++) {
        uint32_t stack = 0;
        if (i % 1000 == 0) { /* cold: the unwinder's caches are built anew */
            struct vs_block *block = vs_block_enter();
            assert_non_null(block);
            vs_block_forget(block);
            vs_block_leave(block);
        }
        stack = recurse(i % 40);
        assert_int_not_equal(stack, 0);
    }
    setitimer(ITIMER_PROF, &off, NULL);
    sigaction(SIGPROF, &before, NULL);
    assert_true(atomic_load(&handled) > 0);
    assert_int_equal(depth_of(middle()), depth_of(expected));
}

static void *cold_on_small_stack(void *data)
{
    capture_into(data);
    return NULL;
}

static void a_thread_with_the_smallest_stack_can_capture(void **state)
{
    pthread_attr_t attributes;
    pthread_t thread;
    uint32_t stack = 0;
    pthread_attr_init(&attributes);
    assert_int_equal(pthread_attr_setstacksize(&attributes, PTHREAD_STACK_MIN), 0);
    assert_int_equal(pthread_create(&thread, &attributes, cold_on_small_stack, &stack), 0);
    pthread_join(thread, NULL);
    assert_int_not_equal(stack, 0);
}

static ucontext_t main_context, other_context;
static uint32_t context_stack;
static void in_context(void)
{
    capture_into(&context_stack);
    NO_TAIL;
}

static void a_made_context_can_capture(void **state)
{
    char *memory = malloc(65536);
    getcontext(&other_context);
    other_context.uc_stack.ss_sp = memory;
    other_context.uc_stack.ss_size = 65536;
    other_context.uc_link = &main_context;
    makecontext(&other_context, in_context, 0);
    swapcontext(&main_context, &other_context);
    free(memory);
    assert_int_not_equal(context_stack, 0);
    assert_true(inside(frame_at(context_stack, 1)->address, (void *)in_context, 256));
}

static sigjmp_buf jump;
static void capture_and_jump(int signal)
{
    uint32_t stack;
    capture_into(&stack);
    siglongjmp(jump, 1);
}

static void a_handler_may_jump_away_after_its_capture(void **state)
{
    struct sigaction action = {.sa_handler = capture_and_jump}, before;
    sigaction(SIGUSR1, &action, &before);
    for (volatile int i = 0; i < 10; i++)
        if (sigsetjmp(jump, 1) == 0)
            raise(SIGUSR1);
    sigaction(SIGUSR1, &before, NULL);
    assert_int_not_equal(middle(), 0);
}

static void code_without_unwind_information_ends_the_stack(void **state)
{
    /* push rbx; mov rbx, rdi; mov rdi, rsi; call rbx; pop rbx; ret: no frame pointer, not known to the loader
     */
    static const unsigned char code[] = {0x53, 0x48, 0x89, 0xfb, 0x48, 0x89, 0xf7, 0xff, 0xd3, 0x5b, 0xc3};
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint32_t stack = 0;
    memcpy(page, code, sizeof code);
    ((void (*)(void (*)(void *), void *))page)(capture_into, &stack);
    munmap(page, 4096);
    assert_int_equal(depth_of(stack), 2);
    assert_int_equal(frame_at(stack, 1)->module, 0);
    assert_int_equal(frame_at(stack, 1)->address, (uint64_t)page + 8);
}

/* rbp is a free register here and holds no address at all when the code above calls. */
static void a_wild_frame_pointer_is_survived(void **state)
{
    /* push rbp; mov ebp, 0x1234; mov rax, rdi; mov rdi, rsi; call rax; pop rbp; ret */
    static const unsigned char code[] = {0x55, 0xbd, 0x34, 0x12, 0,    0,    0x48, 0x89,
                                         0xf8, 0x48, 0x89, 0xf7, 0xff, 0xd0, 0x5d, 0xc3};
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    uint32_t stack = 0;
    memcpy(page, code, sizeof code);
    for (int i = 0; i < 3; i++) {
        ((unsigned char *)page)[2] = (unsigned char)(0x11 * i);
        ((void (*)(void (*)(void *), void *))page)(capture_into, &stack);
    }
    munmap(page, 4096);
    assert_int_not_equal(stack, 0);
}

/* -- processes -- */

static _Atomic int stop_capturing;
static void *capture_and_forget(void *unused)
{
    while (!atomic_load(&stop_capturing)) {
        uint32_t stack;
        struct vs_block *block = vs_block_enter();
        vs_block_forget(block);
        vs_block_leave(block);
        capture_into(&stack);
    }
    return NULL;
}

static NOINLINE int child_captures(void)
{
    struct vs_journal *mine = new_journal("child");
    uint32_t stack = vs_stack_capture(mine, 0);
    NO_TAIL;
    const struct vs_stack_row *row = vs_journal_get_stack(mine, stack);
    const struct vs_frame_row *frame = row ? vs_journal_get_frame(mine, row->frame) : NULL;
    if (!frame || !inside(frame->address, (void *)child_captures, 512))
        return 3;
    /* its module is a row of this journal, even where the handle lies where the parent's lay */
    vs_journal_close(journal);
    journal = new_journal("again");
    capture_into(&stack);
    return strstr(module_at(stack, 0), "/test_stacks") ? 0 : 4;
}

static void a_fork_child_captures_into_a_journal_of_its_own(void **state)
{
    pthread_t thread;
    atomic_store(&stop_capturing, 0);
    assert_int_equal(pthread_create(&thread, NULL, capture_and_forget, NULL), 0);
    for (int i = 0; i < 100; i++) {
        pid_t pid = fork();
        if (pid == 0) {
            alarm(10);
            _exit(child_captures());
        }
        int status;
        waitpid(pid, &status, 0);
        assert_int_equal(status, 0);
    }
    atomic_store(&stop_capturing, 1);
    pthread_join(thread, NULL);
}

static void a_host_that_closes_every_descriptor_is_still_unwound(void **state)
{
    pid_t pid = fork();
    if (pid == 0) {
        alarm(10);
        for (int fd = 3; fd < 256; fd++)
            close(fd);
        uint32_t stack = recurse(7);
        _exit(depth_of(stack) > 8 && open("/dev/null", 0) == 3 ? 0 : 3);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_int_equal(status, 0);
}

/* -- memory -- */

static void *cold_without_malloc(void *data)
{
    struct mallinfo2 before = mallinfo2();
    uint32_t stack;
    capture_into(&stack);
    struct mallinfo2 after = mallinfo2();
    *(bool *)data = before.uordblks == after.uordblks && before.hblkhd == after.hblkhd;
    return NULL;
}

static void a_threads_first_capture_allocates_nothing_from_the_host(void **state)
{
    pthread_t thread;
    bool same = false;
    pthread_create(&thread, NULL, cold_without_malloc, &same);
    pthread_join(thread, NULL);
    assert_true(same);
}

static void blocks_of_ended_threads_are_given_back(void **state)
{
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        uint32_t stack;
        pthread_create(&thread, NULL, cold_on_small_stack, &stack);
        pthread_join(thread, NULL);
    }
    for (int i = 0; i < 50 && vs_blocks_count() > 1;
         i++) { /* a joined thread's id may live on for a moment */
        usleep(1000);
        for (int round = 0; round < 64; round++)
            vs_modules_refresh(journal);
    }
    assert_int_equal(vs_blocks_count(), 1);
    assert_int_not_equal(middle(), 0);
}

static void many_threads_agree_on_the_stack_of_one_place(void **state)
{
    pthread_t threads[8];
    uint32_t stacks[8];
    for (int i = 0; i < 8; i++)
        pthread_create(&threads[i], NULL, cold_on_small_stack, &stacks[i]);
    for (int i = 0; i < 8; i++)
        pthread_join(threads[i], NULL);
    for (int i = 1; i < 8; i++)
        assert_int_equal(stacks[i], stacks[0]);
}

int main(void)
{
    ssize_t n = readlink("/proc/self/exe", directory, sizeof directory - 1);
    directory[n] = 0;
    *strrchr(directory, '/') = 0;
    journal = new_journal("main");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loading_the_unwinder_keeps_no_descriptor),
        cmocka_unit_test(the_unwinder_is_not_visible_to_the_host),
        cmocka_unit_test(frames_are_the_callers_from_the_innermost_outwards),
        cmocka_unit_test(a_module_has_its_build_id_and_its_range),
        cmocka_unit_test(the_same_place_is_the_same_stack_and_another_is_not),
        cmocka_unit_test(skip_leaves_out_the_innermost_frames),
        cmocka_unit_test(a_deep_recursion_is_cut_at_the_depth_limit),
        cmocka_unit_test(a_library_loaded_where_another_was_is_told_apart),
        cmocka_unit_test(a_frame_that_only_the_slow_path_can_follow_is_followed),
        cmocka_unit_test(an_unwind_table_that_makes_libunwind_abort_costs_one_stack),
        cmocka_unit_test(a_full_table_gives_no_stack_instead_of_a_wrong_one),
        cmocka_unit_test(a_load_is_seen_by_the_next_capture_without_asking_the_loader),
        cmocka_unit_test(a_cold_capture_never_waits_for_the_loaders_lock),
        cmocka_unit_test(a_constructor_may_capture_while_another_thread_loads),
        cmocka_unit_test(a_signal_handler_on_its_own_stack_sees_what_it_interrupted),
        cmocka_unit_test(handlers_that_interrupt_a_capture_do_no_harm),
        cmocka_unit_test(a_thread_with_the_smallest_stack_can_capture),
        cmocka_unit_test(a_made_context_can_capture),
        cmocka_unit_test(a_handler_may_jump_away_after_its_capture),
        cmocka_unit_test(code_without_unwind_information_ends_the_stack),
        cmocka_unit_test(a_wild_frame_pointer_is_survived),
        cmocka_unit_test(a_fork_child_captures_into_a_journal_of_its_own),
        cmocka_unit_test(a_host_that_closes_every_descriptor_is_still_unwound),
        cmocka_unit_test(a_threads_first_capture_allocates_nothing_from_the_host),
        cmocka_unit_test(blocks_of_ended_threads_are_given_back),
        cmocka_unit_test(many_threads_agree_on_the_stack_of_one_place),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
