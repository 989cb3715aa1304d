/*
 * test_stacks.c - what a captured call stack says: frames, modules, limits, libraries that come and go, the
 * loader's lock.
 */
#include "stack_helpers.h"

TEST(loading_the_unwinder_keeps_no_descriptor)
{
    int before = open_descriptors();
    vs_stack_prepare();
    assert_string_equal(vs_stack_why_off(), "");
    uint32_t stack;
    capture_into(&stack);
    assert_int_not_equal(stack, 0);
    assert_int_equal(open_descriptors(), before);
}

TEST(the_unwinder_is_not_visible_to_the_host)
{
    assert_null(dlsym(RTLD_DEFAULT, "unw_backtrace"));
    Dl_info info;
    void *resume = dlsym(RTLD_DEFAULT, "_Unwind_Resume");
    if (resume && dladdr(resume, &info))
        assert_null(strstr(info.dli_fname, "vramscope"));
    assert_null(dlopen("libunwind.so.8", RTLD_NOLOAD | RTLD_NOW));
    assert_null(dlopen("liblzma.so.5", RTLD_NOLOAD | RTLD_NOW));
}

TEST(frames_are_the_callers_from_the_innermost_outwards)
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

TEST(a_module_has_its_build_id_and_its_range)
{
    const struct vs_frame_row *frame = frame_at(middle(), 0);
    const struct vs_module_row *module = vs_journal_get_module(journal, frame->module);
    size_t length = 0;
    assert_true(frame->address >= module->start && frame->address < module->end);
    assert_non_null(vs_journal_get_string(journal, module->build_id, &length));
    assert_int_equal(length, 40);
}

TEST(the_same_place_is_the_same_stack_and_another_is_not)
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

TEST(skip_leaves_out_the_innermost_frames)
{
    uint32_t stack[2];
    for (volatile int i = 0; i < 2; i++)
        stack[i] = skipping(i);
    assert_int_equal(frame_at(stack[0], 1)->address, frame_at(stack[1], 0)->address);
    assert_int_equal(depth_of(stack[0]), depth_of(stack[1]) + 1);
}

TEST(a_deep_recursion_is_cut_at_the_depth_limit)
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

static NOINLINE void through_library(const char *name, uint32_t *stack, void **where)
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

TEST(a_library_loaded_where_another_was_is_told_apart)
{
    uint32_t stack[4];
    void *where[4];
    for (volatile int i = 0; i < 4; i++) {
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

#ifdef __SANITIZE_ADDRESS__
#define FUNCTION_BYTES 2048 /* through_library with the sanitizer's checks */
#else
#define FUNCTION_BYTES 512
#endif

TEST(a_frame_that_only_the_slow_path_can_follow_is_followed)
{
    uint32_t stack[2];
    void *where;
    for (volatile int i = 0; i < 2; i++)
        through_library("libstacktest_odd_frame.so", &stack[i], &where);
    assert_non_null(strstr(module_at(stack[0], 1), "odd_frame"));
    assert_true(inside(frame_at(stack[0], 2)->address, (void *)through_library, FUNCTION_BYTES));
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

TEST(an_unwind_table_that_makes_libunwind_abort_costs_one_stack)
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

TEST(a_full_table_gives_no_stack_instead_of_a_wrong_one)
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

TEST(a_load_is_seen_by_the_next_capture_without_asking_the_loader)
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

TEST(a_cold_capture_never_waits_for_the_loaders_lock)
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

TEST(a_constructor_may_capture_while_another_thread_loads)
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

int main(void)
{
    begin_stack_tests();
    return run_all_tests(NULL, NULL);
}
