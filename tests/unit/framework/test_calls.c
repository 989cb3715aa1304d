/*
 * test_calls.c - which calls of modules run the wrapper's code, and what layer the others have.
 *
 * The interpreter is a stand-in, a function object some words; with CPython:
 * tests/e2e/frameworks/module_calls.sh.
 */
#include <sys/mman.h>

#include "unit/test.h"
#include "core/contracts.h"
#include "framework/layers.h"

typedef void *object;
typedef object vectorcall_fn(object callable, object const *args, size_t count, object names);
struct python_calls {
    object wrapper, call, code;
    vectorcall_fn *plain;
    void *(*thread_state)(void);
    void (*set)(object function, vectorcall_fn *);
    uint32_t vectorcall_at, code_at, watch_at, frame_at;
    object running;
};
int vramscope_auto_calls(const struct python_calls *);
int vramscope_auto_call(uintptr_t module, uint32_t layer);

struct function {
    uintptr_t head[2];
    object code;
    uintptr_t more;
    vectorcall_fn *call;
};
static struct {
    uintptr_t more[2], frame, profile, trace;
} thread;
static char code, torchs_code, other_code, result, keywords;
static _Alignas(16) char running[16];
static const object frame[] = {NULL, &other_code, NULL, &running[1], NULL}, /* with a mark */
    other_frame[8] = {&other_code};
static struct {
    object callable, names, answer;
    size_t count;
    uint32_t layer;
} seen;

static object plain(object callable, object const *args, size_t count, object names)
{
    seen.callable = callable;
    seen.names = names;
    seen.count = count;
    seen.layer = vs_layer_now.module;
    return seen.answer;
}

static struct function wrapper = {.code = &code, .call = plain},
                       torchs = {.code = &torchs_code, .call = plain};

static void *thread_state(void)
{
    return &thread;
}

static struct python_calls calls = {
    .wrapper = &wrapper,
    .call = &torchs,
    .code = &code,
    .plain = plain,
    .thread_state = thread_state,
    .vectorcall_at = offsetof(struct function, call),
    .code_at = offsetof(struct function, code),
    .watch_at = 3 * sizeof(uintptr_t),
    .frame_at = 2 * sizeof(uintptr_t),
    .running = running,
};

static int setup(void **unused)
{
    vs_layer_now = (struct vs_layer_now){.module = 3, .inside = 1};
    memset(&thread, 0, sizeof thread);
    thread.frame = (uintptr_t)frame;
    wrapper.code = &code;
    seen.answer = &result;
    return 0;
}

static object call(uintptr_t module)
{
    object args[2] = {(object)module, &result};
    return wrapper.call(&wrapper, args, 2 | (size_t)1 << 63, &keywords);
}

/* Each such word leads nowhere, or to a frame in which something else runs.  The first test: a wrapper
 * that was taken over once stays so. */
TEST(a_state_that_does_not_lead_to_the_code_that_runs_is_not_believed, setup)
{
    void *gone = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    const void *to_gone[2] = {gone, gone}, *to_other[2] = {NULL, other_frame};
    const void *wrong[] = {NULL,     (void *)8,  (void *)((uintptr_t)frame + 1), gone, to_gone,
                           to_other, other_frame};
    assert_ptr_not_equal(gone, MAP_FAILED);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        thread.frame = (uintptr_t)wrong[i];
        assert_int_equal(vramscope_auto_calls(&calls), -1);
        assert_ptr_equal(wrapper.call, plain);
        assert_int_equal(vs_contract_state(VS_CONTRACT_PY_THREAD_STATE), VS_CONTRACT_BROKEN);
    }
    munmap(gone, 4096);
}

TEST(what_is_not_as_said_is_left_as_it_is, setup)
{
    struct python_calls wrong[] = {calls, calls, calls, calls};
    wrong[0].code = &other_code;
    wrong[1].vectorcall_at = offsetof(struct function, more);
    wrong[2].thread_state = NULL;
    wrong[3].frame_at = 0; /* an older hook, that does not say it */
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(vramscope_auto_calls(&wrong[i]), -1);
        assert_ptr_equal(wrapper.call, plain);
    }
    assert_int_equal(vramscope_auto_calls(&calls), 0);
    assert_ptr_not_equal(wrapper.call, plain);
    assert_int_equal(vramscope_auto_calls(&calls), -1); /* another interpreter's */
}

TEST(a_known_module_within_another_call_has_its_layer_without_the_wrapper, setup)
{
    assert_int_equal(vramscope_auto_call(0x1000, 7), 0);
    assert_ptr_equal(call(0x1000), &result);
    assert_ptr_equal(seen.callable, &torchs);
    assert_int_equal(seen.layer, 7);
    assert_true(seen.count == (2 | (size_t)1 << 63) && seen.names == &keywords);
    assert_int_equal(vs_layer_now.module, 3);
}

TEST(a_call_that_raises_gives_the_layer_back, setup)
{
    assert_int_equal(vramscope_auto_call(0x1000, 7), 0);
    seen.answer = NULL;
    assert_null(call(0x1000));
    assert_int_equal(seen.layer, 7);
    assert_int_equal(vs_layer_now.module, 3);
}

static void runs_the_wrapper(uintptr_t module)
{
    seen.callable = NULL;
    call(module);
    assert_true(seen.callable == &wrapper && seen.layer == 3);
}

TEST(all_other_calls_run_the_wrapper, setup)
{
    assert_int_equal(vramscope_auto_call(0x1000, 7), 0);
    vs_layer_now.inside = 0; /* an outermost call */
    runs_the_wrapper(0x1000);
    vs_layer_now.inside = 1;
    runs_the_wrapper(0x2000);       /* never heard of */
    vramscope_auto_call(0x1000, 0); /* it is gone, and its address may come back */
    runs_the_wrapper(0x1000);
    seen.callable = NULL;
    wrapper.call(&wrapper, NULL, 0, NULL); /* a wrong call, which says so itself */
    assert_ptr_equal(seen.callable, &wrapper);
}

TEST(a_watched_thread_runs_the_wrapper, setup)
{
    assert_int_equal(vramscope_auto_call(0x1000, 7), 0);
    thread.profile = 1;
    runs_the_wrapper(0x1000);
    thread.profile = 0;
    thread.trace = 1;
    runs_the_wrapper(0x1000);
    thread.trace = 0;
    call(0x1000);
    assert_ptr_equal(seen.callable, &torchs);
}

TEST(other_code_is_run, setup)
{
    assert_int_equal(vramscope_auto_call(0x1000, 7), 0);
    wrapper.code = &other_code;
    runs_the_wrapper(0x1000);
}

TEST(a_module_that_comes_back_has_its_new_layer, setup)
{
    vramscope_auto_call(0x1000, 7);
    vramscope_auto_call(0x1000, 0);
    vramscope_auto_call(0x1000, 9);
    call(0x1000);
    assert_true(seen.callable == &torchs && seen.layer == 9);
    vramscope_auto_call(0x1000, 10); /* another path */
    call(0x1000);
    assert_int_equal(seen.layer, 10);
}

TEST(modules_that_come_and_go_need_no_more_room, setup)
{
    for (uintptr_t at = 1; at < 1000000; at++) {
        assert_int_equal(vramscope_auto_call(0x5000 + 16 * at, 5), 0);
        assert_int_equal(vramscope_auto_call(0x5000 + 16 * at, 0), 0);
    }
    vramscope_auto_call(0x1000, 7);
    call(0x1000);
    assert_int_equal(seen.layer, 7);
}

TEST(modules_for_which_there_is_no_room_run_the_wrapper, setup)
{
    uintptr_t refused = 0;
    for (uintptr_t at = 0x100000; !refused; at += 16)
        if (vramscope_auto_call(at, 5) != 0)
            refused = at;
    assert_true(refused > 0x100000 + 16 * 50000);
    runs_the_wrapper(refused);
    call(refused - 16);
    assert_true(seen.callable == &torchs && seen.layer == 5);
    assert_int_equal(vramscope_auto_call(refused - 16, 6), 0); /* it has a place */
}
