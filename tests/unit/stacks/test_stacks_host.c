/*
 * test_stacks_host.c - call stacks in the situations that a host program puts them in: see each test's name.
 */
#include "stack_helpers.h"

TEST(the_unwinder_loads)
{
    vs_stack_prepare();
    assert_string_equal(vs_stack_why_off(), "");
}

/* -- signals, stacks, jumps -- */

static volatile uint32_t handler_stack;
static void capture_in_handler(int signal)
{
    uint32_t stack;
    capture_into(&stack);
    handler_stack = stack;
}

TEST(a_signal_handler_on_its_own_stack_sees_what_it_interrupted)
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

TEST(handlers_that_interrupt_a_capture_do_no_harm)
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

TEST(a_thread_with_the_smallest_stack_can_capture)
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

TEST(a_made_context_can_capture)
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

TEST(a_handler_may_jump_away_after_its_capture)
{
    struct sigaction action = {.sa_handler = capture_and_jump}, before;
    sigaction(SIGUSR1, &action, &before);
    for (volatile int i = 0; i < 10; i++)
        if (sigsetjmp(jump, 1) == 0)
            raise(SIGUSR1);
    sigaction(SIGUSR1, &before, NULL);
    assert_int_not_equal(middle(), 0);
}

TEST(code_without_unwind_information_ends_the_stack)
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
TEST(a_wild_frame_pointer_is_survived)
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

TEST(a_fork_child_captures_into_a_journal_of_its_own)
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

TEST(a_host_that_closes_every_descriptor_is_still_unwound)
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

TEST(a_threads_first_capture_allocates_nothing_from_the_host)
{
    pthread_t thread;
    bool same = false;
    pthread_create(&thread, NULL, cold_without_malloc, &same);
    pthread_join(thread, NULL);
    assert_true(same);
}

TEST(blocks_of_ended_threads_are_given_back)
{
    for (int i = 0; i < 20; i++) {
        pthread_t thread;
        uint32_t stack;
        pthread_create(&thread, NULL, cold_on_small_stack, &stack);
        pthread_join(thread, NULL);
    }
    for (int i = 0; i < 5000 && vs_blocks_count() > 1;
         i++) { /* a joined thread's id may live on for a moment */
        usleep(1000);
        for (int round = 0; round < 64; round++)
            vs_stack_refresh(journal);
    }
    assert_int_equal(vs_blocks_count(), 1);
    assert_int_not_equal(middle(), 0);
}

TEST(many_threads_agree_on_the_stack_of_one_place)
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
    begin_stack_tests();
    return run_all_tests(NULL, NULL);
}
