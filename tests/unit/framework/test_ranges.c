/*
 * test_ranges.c - ranges.c, pending.c and names.c over a recorder that keeps its events in an array.
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "framework/glob.h"
#include "framework/autograd.h"
#include "framework/layers.h"
#include "framework/ranges.h"
#include "core/hot.h"
#include "core/options.h"

/* ---- the recorder ---- */

static struct vs_event log_[4096];
static unsigned logged;
static bool started = true, enabled = true, window = true;
static char strings[1024][64];
static unsigned string_count = 1;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* What a block's report finds without asking (record/block.h) is what it would be answered. */
static uint32_t vs_range_current_checked(void)
{
    uint32_t answer = vs_range_current(), own = vs_self.range;
    const uint32_t *lead = vs_hot.lead;
    uint32_t found = own ? own : lead ? *lead : 0;
    assert_true(own == VS_RANGE_UNKNOWN || found == answer);
    return answer;
}
#define vs_range_current vs_range_current_checked

uint64_t vs_record(struct vs_event *event)
{
    if (!started || !window || !enabled)
        return VS_SEQ_NONE;
    if (event->op != VS_OP_RANGE_PUSH && event->op != VS_OP_RANGE_POP)
        event->range = vs_range_current();
    pthread_mutex_lock(&mutex);
    uint64_t seq = logged;
    log_[logged++ % 4096] = *event;
    pthread_mutex_unlock(&mutex);
    return seq;
}

bool vs_record_enabled(void)
{
    return enabled;
}

bool vs_record_takes(void)
{
    return enabled && window;
}

static uint64_t lost[256];

void vs_journal_count_lost(struct vs_journal *j, uint8_t op)
{
    lost[op]++;
}

static uint64_t lost_ranges; /* atomic */

void vs_journal_lost_range(struct vs_journal *j)
{
    __atomic_fetch_add(&lost_ranges, 1, __ATOMIC_RELAXED);
}

struct vs_journal *vs_record_journal(void)
{
    return started ? (struct vs_journal *)log_ : NULL;
}

uint32_t vs_journal_string(struct vs_journal *j, const char *text, size_t length)
{
    pthread_mutex_lock(&mutex);
    uint32_t id = 0;
    for (unsigned i = 1; i < string_count && !id; i++)
        if (strlen(strings[i]) == length && !memcmp(strings[i], text, length))
            id = i;
    if (!id && string_count < 1024 && length < 64) {
        memcpy(strings[string_count], text, length);
        id = string_count++;
    }
    pthread_mutex_unlock(&mutex);
    return id;
}

/* A layer's frame has its path's number. */
uint32_t vs_journal_named_frame(struct vs_journal *j, enum vs_frame_kind kind, uint32_t function,
                                uint32_t file, uint32_t line)
{
    return kind == VS_FRAME_LAYER ? function : 0;
}

struct vs_options vs_options = {.stacks = VS_STACKS_PYTHON};
static int task = -1; /* the backward that runs */

int vs_autograd_task(void)
{
    return task;
}

static int setup(void **state)
{
    while (vs_range_pop(NULL, VS_SOURCE_MARKER) >= 0 || vs_range_pop(NULL, VS_SOURCE_AUTO) >= 0 ||
           vs_range_pop(NULL, VS_SOURCE_NVTX) >= 0)
        ;
    started = enabled = window = true;
    vs_range_lead();
    vs_range_current();
    logged = 0;
    return 0;
}

static const char *name_of(const struct vs_event *e)
{
    return strings[e->address];
}

#define MARKER VS_SOURCE_MARKER
#define NVTX   VS_SOURCE_NVTX
#define AUTO   VS_SOURCE_AUTO

/* ---- nesting and precedence ---- */

static void a_push_and_pop_are_two_events_with_one_id(void **state)
{
    uint32_t id = vs_range_push("logits", NULL, MARKER);

    assert_int_equal(vs_range_current(), id);
    assert_int_equal(vs_range_pop(NULL, MARKER), 0);
    assert_int_equal(logged, 2);
    assert_int_equal(log_[0].op, VS_OP_RANGE_PUSH);
    assert_string_equal(name_of(&log_[0]), "logits");
    assert_int_equal(log_[0].arg1, VS_SOURCE_MARKER | VS_RANGE_NAMES_PHASE);
    assert_int_equal(log_[1].op, VS_OP_RANGE_POP);
    assert_int_equal(log_[1].range, id);
    assert_int_equal(log_[0].range, id);
    assert_int_equal(vs_range_current(), 0);
}

static void a_nested_range_knows_its_parent_and_gives_way_to_it(void **state)
{
    uint32_t outer = vs_range_push("a", NULL, MARKER), inner = vs_range_push("b", NULL, MARKER);

    assert_int_equal(log_[1].arg0, outer);
    assert_int_equal(vs_range_current(), inner);
    assert_int_equal(vs_range_pop(NULL, MARKER), 1);
    assert_int_equal(vs_range_current(), outer);
    assert_int_equal(vs_range_pop(NULL, MARKER), 0);
}

static void markers_win_over_nvtx_and_nvtx_over_automatic(void **state)
{
    uint32_t marker = vs_range_push("mine", NULL, MARKER);
    uint32_t nvtx = vs_range_push("forward", NULL, NVTX), automatic = vs_range_push("forward", NULL, AUTO);

    assert_int_equal(vs_range_current(), marker);
    vs_range_pop(NULL, MARKER);
    assert_int_equal(vs_range_current(), nvtx);
    vs_range_pop(NULL, NVTX);
    assert_int_equal(vs_range_current(), automatic);
    vs_range_pop(NULL, AUTO);
    assert_int_equal(vs_range_current(), 0);
}

static void other_nvtx_ranges_name_no_phase(void **state)
{
    uint32_t phase = vs_range_push("backward", NULL, NVTX);
    uint32_t other = vs_range_push("ncclAllReduce", "NCCL", NVTX);

    assert_int_not_equal(other, 0);
    assert_int_equal(vs_range_current(), phase);
    assert_int_equal(log_[1].arg1, VS_SOURCE_NVTX);
    assert_string_equal(strings[log_[1].size], "NCCL");
    vs_range_pop("NCCL", NVTX);
    vs_range_pop(NULL, NVTX);
}

static void a_name_in_other_case_names_the_phase_in_lower_case(void **state)
{
    vs_range_push("Forward", NULL, NVTX);
    assert_int_equal(log_[0].arg1, VS_SOURCE_NVTX | VS_RANGE_NAMES_PHASE);
    assert_string_equal(name_of(&log_[0]), "Forward");
    assert_string_equal(strings[log_[0].stack], "forward");
    vs_range_pop(NULL, NVTX);
    vs_range_push("forwards", NULL, NVTX);
    assert_int_equal(log_[2].arg1, VS_SOURCE_NVTX);
    vs_range_pop(NULL, NVTX);
}

static void a_rule_names_the_phase_of_matching_ranges(void **state)
{
    assert_int_equal(vs_names_set_rules("backward=bwd_*,loss=ce[0-9],loss=lm?head"), 3);
    vs_range_push("bwd_layer_3", NULL, NVTX);
    assert_string_equal(name_of(&log_[0]), "bwd_layer_3");
    assert_string_equal(strings[log_[0].stack], "backward");
    vs_range_push("ce7", NULL, NVTX);
    assert_string_equal(strings[log_[1].stack], "loss");
    vs_range_push("lm_head", NULL, NVTX);
    assert_string_equal(strings[log_[2].stack], "loss");
    vs_range_push("cex", NULL, NVTX);
    assert_int_equal(log_[3].arg1, VS_SOURCE_NVTX);
    for (int i = 0; i < 4; i++)
        vs_range_pop(NULL, NVTX);
}

static void a_rule_that_makes_no_sense_says_where(void **state)
{
    assert_int_equal(vs_names_set_rules(""), 0);
    assert_int_equal(vs_names_set_rules("a=b,,c=d,"), 2);
    assert_int_equal(vs_names_set_rules("loss"), -1);
    assert_int_equal(vs_names_set_rules("a=b,loss,c=d"), -5);
    assert_int_equal(vs_names_set_rules("=x"), -1);
    assert_int_equal(vs_names_set_rules("x="), -1);
    assert_int_equal(vs_names_set_rules(""), 0);
}

static void domains_interleave(void **state)
{
    uint32_t a = vs_range_push("forward", "A", NVTX), b = vs_range_push("backward", "B", NVTX);

    assert_int_equal(vs_range_pop("A", NVTX), 0);
    assert_int_equal(log_[2].range, a);
    assert_int_equal(vs_range_current(), b);
    assert_int_equal(vs_range_pop("A", NVTX), -1);
    assert_int_equal(vs_range_pop("B", NVTX), 0);
    assert_int_equal(log_[3].range, b);
    assert_int_equal(logged, 4);
}

static void an_unbalanced_pop_changes_nothing(void **state)
{
    uint32_t id = vs_range_push("forward", NULL, NVTX);

    assert_int_equal(vs_range_pop(NULL, MARKER), -1);
    assert_int_equal(vs_range_pop("nobody", NVTX), -1);
    assert_int_equal(vs_range_current(), id);
    assert_int_equal(logged, 1);
    vs_range_pop(NULL, NVTX);
    assert_int_equal(vs_range_pop(NULL, NVTX), -1);
    assert_int_equal(logged, 2);
}

static void ranges_beyond_the_depth_are_counted_and_balanced(void **state)
{
    uint32_t ids[100];

    for (int i = 0; i < 100; i++)
        ids[i] = vs_range_push("deep", NULL, MARKER);
    assert_int_not_equal(ids[63], 0);
    assert_int_equal(ids[64], 0);
    assert_int_equal(vs_range_current(), ids[63]);
    for (int i = 99; i >= 0; i--)
        assert_int_equal(vs_range_pop(NULL, MARKER), i);
    assert_int_equal(vs_range_pop(NULL, MARKER), -1);
    assert_int_equal(logged, 128);
}

static void overflow_of_one_domain_leaves_the_others_alone(void **state)
{
    vs_range_push("forward", "outer", NVTX);
    for (int i = 0; i < 70; i++)
        vs_range_push("x", NULL, MARKER);
    assert_int_equal(vs_range_pop("outer", NVTX), 0); /* frees a place while markers are counted */
    assert_int_equal(vs_range_push("y", NULL, MARKER), 0);
    for (int i = 70; i >= 0; i--)
        assert_int_equal(vs_range_pop(NULL, MARKER), i);
    assert_int_equal(vs_range_current(), 0);
}

/* ---- threads ---- */

static uint32_t seen;

static void *ask(void *arg)
{
    seen = vs_range_current();
    return NULL;
}

static uint32_t from_another_thread(void)
{
    pthread_t t;

    pthread_create(&t, NULL, ask, NULL);
    pthread_join(t, NULL);
    return seen;
}

static void a_thread_without_ranges_belongs_to_the_lead(void **state)
{
    uint32_t id = vs_range_push("backward", NULL, MARKER);

    assert_int_equal(from_another_thread(), id);
    vs_range_push("detail", NULL, NVTX);
    assert_int_equal(from_another_thread(), id);
    vs_range_pop(NULL, NVTX);
    vs_range_pop(NULL, MARKER);
    assert_int_equal(from_another_thread(), 0);
}

static void *own_range(void *arg)
{
    uint32_t id = vs_range_push("worker", NULL, MARKER);

    seen = vs_range_current() == id;
    vs_range_pop(NULL, MARKER);
    seen &= vs_range_current() == 0; /* it leads now, with nothing open */
    return NULL;
}

static void own_ranges_come_before_the_lead_and_the_lead_passes_on(void **state)
{
    pthread_t t;
    uint32_t id = vs_range_push("forward", NULL, MARKER);

    pthread_create(&t, NULL, own_range, NULL);
    pthread_join(t, NULL);
    assert_int_equal(seen, 1);
    assert_int_equal(vs_range_current(), id);
    assert_int_equal(from_another_thread(), 0);
    vs_range_lead();
    assert_int_equal(from_another_thread(), id);
    vs_range_pop(NULL, MARKER);
}

static void *leave_open(void *arg)
{
    vs_range_push("left", NULL, MARKER);
    vs_range_push("open", NULL, MARKER);
    return NULL;
}

static void a_thread_that_ends_closes_its_ranges(void **state)
{
    pthread_t t;

    pthread_create(&t, NULL, leave_open, NULL);
    pthread_join(t, NULL);
    assert_int_equal(logged, 4);
    assert_int_equal(log_[2].op, VS_OP_RANGE_POP);
    assert_int_equal(log_[2].range, log_[1].range);
    assert_int_equal(log_[3].range, log_[0].range);
    assert_int_equal(from_another_thread(), 0);
}

/* ---- more than there is room for ---- */

static void *lead_with_forward(void *go)
{
    vs_range_push("forward", NULL, MARKER);
    pthread_barrier_wait(go);
    pthread_barrier_wait(go);
    vs_range_pop(NULL, MARKER);
    return NULL;
}

static void what_is_too_deep_is_lost_and_in_no_phase_of_another_thread(void **state)
{
    pthread_barrier_t go;
    pthread_t t;

    for (int i = 0; i < 64; i++)
        vs_range_push("no phase", NULL, NVTX);
    lost_ranges = 0;
    pthread_barrier_init(&go, NULL, 2);
    pthread_create(&t, NULL, lead_with_forward, &go);
    pthread_barrier_wait(&go);
    assert_int_not_equal(vs_range_current(), 0); /* the other one's: nothing of our own says otherwise */
    vs_range_push("logits", NULL, MARKER);
    assert_int_equal(vs_range_current(), 0);
    assert_int_equal(lost_ranges, 1);
    vs_range_pop(NULL, MARKER);
    assert_int_not_equal(vs_range_current(), 0);
    pthread_barrier_wait(&go);
    pthread_join(t, NULL);
    pthread_barrier_destroy(&go);
}

#define CROWD 1100
static uint32_t crowd_current[CROWD];
static pthread_barrier_t crowd_stays;

static void *one_of_many(void *at)
{
    uint32_t id = vs_range_push("worker", NULL, MARKER);

    crowd_current[(uintptr_t)at] = vs_range_current() == id ? id : UINT32_MAX;
    pthread_barrier_wait(&crowd_stays); /* all have theirs open */
    vs_range_pop(NULL, MARKER);
    return NULL;
}

static void threads_beyond_the_last_block_lose_their_ranges_and_take_no_other_s(void **state)
{
    static pthread_t thread[CROWD];
    pthread_attr_t small;
    unsigned own = 0, none = 0;

    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 256 << 10);
    pthread_barrier_init(&crowd_stays, NULL, CROWD);
    lost_ranges = 0;
    for (uintptr_t i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&thread[i], &small, one_of_many, (void *)i), 0);
    for (int i = 0; i < CROWD; i++) {
        pthread_join(thread[i], NULL);
        own += crowd_current[i] != 0 && crowd_current[i] != UINT32_MAX;
        none += crowd_current[i] == 0;
    }
    pthread_barrier_destroy(&crowd_stays);
    pthread_attr_destroy(&small);
    assert_int_equal(own + none, CROWD);
    assert_true(own <= 1024 && own > 1000);
    assert_int_equal(lost_ranges, none);
}

static void *hammer(void *arg)
{
    for (int i = 0; i < 20000; i++) {
        vs_range_push("forward", NULL, MARKER);
        vs_range_push("op", "d", NVTX);
        if (vs_range_pop("d", NVTX) != 0 || vs_range_pop(NULL, MARKER) != 0)
            return (void *)1;
    }
    return NULL;
}

static void many_threads_stay_balanced(void **state)
{
    pthread_t t[8];
    void *bad;

    for (int i = 0; i < 8; i++)
        pthread_create(&t[i], NULL, hammer, NULL);
    for (int i = 0; i < 8; i++) {
        pthread_join(t[i], &bad);
        assert_null(bad);
    }
    assert_int_equal(logged, 8 * 20000 * 4);
}

static void blocks_of_ended_threads_are_used_again(void **state)
{
    for (int i = 0; i < 3000; i++) {
        pthread_t t;

        pthread_create(&t, NULL, own_range, NULL);
        pthread_join(t, NULL);
        assert_int_equal(seen, 1);
    }
}

/* ---- before the recording, outside the window, forks, signals ---- */

static void ranges_opened_before_the_recording_are_written_in_order(void **state)
{
    started = false;
    uint32_t a = vs_range_push("a", NULL, MARKER), b = vs_range_push("b", NULL, MARKER);
    vs_range_push("gone", NULL, MARKER);
    vs_range_pop(NULL, MARKER);
    uint32_t c = vs_range_push("c", NULL, MARKER);

    started = true;
    assert_int_equal(vs_range_current(), c);
    assert_int_equal(logged, 3);
    assert_int_equal(log_[0].range, a);
    assert_int_equal(log_[1].range, b);
    assert_int_equal(log_[2].range, c);
    assert_string_equal(name_of(&log_[2]), "c");
    assert_int_equal(log_[2].arg0, b);
    for (int i = 2; i >= 0; i--)
        assert_int_equal(vs_range_pop(NULL, MARKER), i);
    assert_int_equal(logged, 6);
}

static void another_thread_writes_what_waits_and_says_so(void **state)
{
    started = false;
    uint32_t id = vs_range_push("early", NULL, MARKER);

    started = true;
    assert_int_equal(from_another_thread(), id);
    assert_int_equal(logged, 1);
    assert_int_equal(log_[0].thread, VS_THREAD_UNKNOWN);
    vs_range_pop(NULL, MARKER);
    assert_int_equal(log_[1].thread, 0);
}

static void a_range_open_at_both_ends_of_a_closed_window_keeps_its_pop(void **state)
{
    vs_range_push("outer", NULL, MARKER);
    window = false;
    vs_range_push("unseen", NULL, MARKER);
    vs_range_pop(NULL, MARKER);
    vs_range_pop(NULL, MARKER);
    uint32_t late = vs_range_push("late", NULL, MARKER);

    assert_int_equal(logged, 1);
    window = true;
    assert_int_equal(vs_range_current(), late);
    assert_int_equal(logged, 3);
    assert_int_equal(log_[1].op, VS_OP_RANGE_POP);
    assert_int_equal(log_[1].range, log_[0].range);
    assert_int_equal(log_[2].range, late);
    vs_range_pop(NULL, MARKER);
}

static void pushes_while_disabled_keep_pops_balanced(void **state)
{
    uint32_t id = vs_range_push("outer", NULL, MARKER);

    enabled = false;
    assert_int_equal(vs_range_push("inner", NULL, MARKER), 0);
    enabled = true;
    assert_int_equal(vs_range_pop(NULL, MARKER), 1);
    assert_int_equal(vs_range_current(), id);
    vs_range_pop(NULL, MARKER);
    assert_int_equal(logged, 2);
}

static int check_child(uint32_t id)
{
    started = false; /* the child has no journal yet */
    logged = 0;
    if (vs_range_current() != id)
        return 1;
    started = true;
    if (vs_range_current() != id || logged != 1 || log_[0].range != id || strcmp(name_of(&log_[0]), "outer"))
        return 2;
    if (vs_range_pop(NULL, MARKER) != 0 || logged != 2 || vs_range_current() != 0)
        return 3;
    return 0;
}

static void assert_child_ok(pid_t pid)
{
    int status;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(WIFEXITED(status), 1);
    assert_int_equal(WEXITSTATUS(status), 0);
}

static void a_fork_child_has_the_open_range_in_its_own_recording(void **state)
{
    uint32_t id = vs_range_push("outer", NULL, MARKER);
    pid_t pid = fork();

    if (pid == 0)
        _exit(check_child(id));
    assert_child_ok(pid);
    pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL); /* no atfork handler runs */
    if (pid == 0)
        _exit(check_child(id));
    assert_child_ok(pid);
    vs_range_pop(NULL, MARKER);
}

static uint32_t lead_id;
static pthread_barrier_t barrier;

static void *hold_lead(void *arg)
{
    lead_id = vs_range_push("led", NULL, MARKER);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    vs_range_pop(NULL, MARKER);
    return NULL;
}

static void a_fork_child_forgets_a_lead_that_it_has_no_thread_for(void **state)
{
    pthread_t t;

    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&t, NULL, hold_lead, NULL);
    pthread_barrier_wait(&barrier);
    assert_int_equal(vs_range_current(), lead_id);
    pid_t pid = fork();
    if (pid == 0)
        _exit(vs_range_current() == 0 ? 0 : 1);
    assert_child_ok(pid);
    pthread_barrier_wait(&barrier);
    pthread_join(t, NULL);
}

static void in_signal(int signal)
{
    vs_range_push("signal", NULL, MARKER);
    vs_range_pop(NULL, MARKER);
}

static void *interrupt(void *arg)
{
    pthread_t *main_thread = arg;

    for (int i = 0; i < 2000; i++) {
        pthread_kill(*main_thread, SIGUSR1);
        usleep(50);
    }
    __atomic_store_n(&seen, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* The recorder above takes a mutex, which no handler may do: here it records nothing. */
static void a_signal_handler_may_push_and_pop_anywhere(void **state)
{
    pthread_t t, self = pthread_self();

    started = false;
    seen = 0;
    signal(SIGUSR1, in_signal);
    pthread_create(&t, NULL, interrupt, &self);
    while (!__atomic_load_n(&seen, __ATOMIC_ACQUIRE)) {
        vs_range_push("forward", "d", NVTX);
        vs_range_push("logits", NULL, AUTO);
        assert_int_equal(vs_range_pop("d", NVTX), 0);
        assert_int_equal(vs_range_pop(NULL, AUTO), 0);
        assert_int_equal(vs_range_current(), 0);
    }
    pthread_join(t, NULL);
    signal(SIGUSR1, SIG_DFL);
    started = true;
    vs_range_current();
    assert_int_equal(logged, 0);
}

static void start_and_end_cross_threads_and_name_no_phase(void **state)
{
    struct vs_range_names names = {.text = "forward", .length = 7, .name = vs_name_intern("forward", 7)};
    uint32_t id = vs_range_start(&names, NVTX);

    assert_int_not_equal(id, 0);
    assert_int_equal(log_[0].arg1, VS_SOURCE_NVTX | VS_RANGE_CROSS_THREAD);
    assert_int_equal(vs_range_current(), 0);
    vs_range_end(id);
    assert_int_equal(log_[1].op, VS_OP_RANGE_POP);
    assert_int_equal(log_[1].range, id);
    vs_range_end(0);
    vs_range_end(UINT32_MAX);
    assert_int_equal(logged, 2);
    started = false;
    id = vs_range_start(&names, NVTX);
    vs_range_end(id);
    started = true;
    vs_range_current();
    assert_int_equal(logged, 2);
}

static void a_full_table_of_names_still_records(void **state)
{
    char name[32];

    for (int i = 0; i < 9000; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        vs_name_intern(name, strlen(name));
    }
    assert_null(vs_name_intern("never seen before", 17));
    vs_range_push("never seen before", NULL, MARKER);
    assert_string_equal(name_of(&log_[0]), "never seen before");
    vs_range_push("backward", NULL, NVTX);
    assert_int_equal(log_[1].arg1, VS_SOURCE_NVTX | VS_RANGE_NAMES_PHASE);
    vs_range_pop(NULL, NVTX);
    vs_range_pop(NULL, MARKER);
    started = false;
    vs_range_push("unseen too", NULL, MARKER);
    started = true;
    vs_range_current();
    assert_string_equal(name_of(&log_[4]), "unseen too");
    vs_range_pop(NULL, MARKER);
}

static bool glob(const char *pattern, const char *text)
{
    return vs_glob(pattern, strlen(pattern), text, strlen(text));
}

static void patterns_match_as_the_shell_does(void **state)
{
    assert_true(glob("", ""));
    assert_true(glob("*", ""));
    assert_true(glob("a*c", "abbbc"));
    assert_true(glob("*b*c", "aabbcc"));
    assert_true(glob("?x[a-c]", "zxb"));
    assert_true(glob("[!a]b", "cb"));
    assert_true(glob("[]x]", "]"));
    assert_true(glob("\\*", "*"));
    assert_true(glob("a[", "a["));
    assert_false(glob("a*c", "abbb"));
    assert_false(glob("a", "ab"));
    assert_false(glob("ab", "a"));
    assert_false(glob("[!a]", "a"));
    assert_false(glob("\\*", "x"));
    assert_false(glob("?", ""));
}

/* ---- layers ---- */

static const char *layer(bool backward)
{
    uint32_t number = vs_layer_here(backward);
    return number ? strings[vs_layer_frame((struct vs_journal *)log_, number)] : "";
}

static void a_layer_is_the_path_of_the_ranges_that_are_open(void **state)
{
    assert_string_equal(layer(false), "");
    vs_range_push("step", NULL, MARKER);
    vs_range_push("forward", NULL, AUTO); /* a phase, and no part of it */
    vs_range_push("layer 3", "torch", NVTX);
    vs_range_push("attn", NULL, MARKER);
    assert_string_equal(layer(false), "step/layer 3/attn");
    vs_range_pop("torch", NVTX); /* domains interleave: what opened in it keeps its path */
    assert_string_equal(layer(false), "step/layer 3/attn");
    vs_range_pop(NULL, MARKER);
    assert_string_equal(layer(false), "step");
    vs_range_pop(NULL, AUTO);
    vs_range_push("attn", NULL, MARKER);
    assert_string_equal(layer(false), "step/attn");
    vs_range_pop(NULL, MARKER);
    vs_range_pop(NULL, MARKER);
    assert_string_equal(layer(false), "");
}

static void a_modules_call_is_the_layer_and_ranges_inside_of_it_go_on_from_it(void **state)
{
    uint32_t module = vs_layer_of_module("Net.layers.3", "Block"),
             inner = vs_layer_of_module("Net.layers.3.mlp", "MLP");
    vs_range_push("step", NULL, MARKER);
    vs_layer_now.module = module;
    assert_string_equal(layer(false), "Net.layers.3");
    vs_range_push("softmax", NULL, NVTX);
    assert_string_equal(layer(false), "Net.layers.3/softmax");
    vs_layer_now.module = inner;
    assert_string_equal(layer(false), "Net.layers.3.mlp");
    vs_layer_now.module = 0; /* both calls ended, the range did not: it is of neither */
    assert_string_equal(layer(false), "");
    vs_range_pop(NULL, NVTX);
    assert_string_equal(layer(false), "step");
    vs_range_pop(NULL, MARKER);
}

static void in_backward_only_what_opened_in_the_same_run_counts(void **state)
{
    vs_range_push("loop", NULL, MARKER);
    task = 4;
    assert_string_equal(layer(true), "");
    vs_range_push("hook", NULL, MARKER);
    assert_string_equal(layer(true), "loop/hook");
    task = 5; /* a backward inside of that one */
    assert_string_equal(layer(true), "");
    task = 4;
    vs_range_pop(NULL, MARKER);
    vs_layer_now.module = vs_layer_of_module("Net", "Net"); /* recomputed */
    assert_string_equal(layer(true), "Net");
    vs_layer_now.module = 0;
    task = -1;
    vs_range_pop(NULL, MARKER);
}

static void *in_own_thread(void *arg)
{
    assert_string_equal(layer(false), "");
    vs_range_push("worker", NULL, MARKER);
    assert_string_equal(layer(false), "worker");
    return NULL;
}

static void a_threads_layers_are_its_own(void **state)
{
    pthread_t thread;
    vs_range_push("main", NULL, MARKER);
    pthread_create(&thread, NULL, in_own_thread, NULL);
    pthread_join(thread, NULL);
    assert_string_equal(layer(false), "main");
    vs_range_pop(NULL, MARKER);
}

static void layers_beyond_their_bound_are_those_around_them(void **state)
{
    char name[16];
    uint32_t last = 1;
    for (int i = 0; i < 70000 && last; i++) {
        snprintf(name, sizeof name, "m%d", i);
        last = vs_layer_of_module(name, "M");
    }
    assert_int_equal(last, 0);
    vs_range_push("step", NULL, MARKER); /* was there before */
    vs_range_push("new", NULL, MARKER);
    assert_string_equal(layer(false), "step");
    vs_range_pop(NULL, MARKER);
    vs_range_pop(NULL, MARKER);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup(f, setup)
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(a_layer_is_the_path_of_the_ranges_that_are_open, setup),
        cmocka_unit_test_setup(a_modules_call_is_the_layer_and_ranges_inside_of_it_go_on_from_it, setup),
        cmocka_unit_test_setup(in_backward_only_what_opened_in_the_same_run_counts, setup),
        cmocka_unit_test_setup(a_threads_layers_are_its_own, setup),
        cmocka_unit_test_setup(layers_beyond_their_bound_are_those_around_them, setup),
        T(a_push_and_pop_are_two_events_with_one_id),
        T(a_nested_range_knows_its_parent_and_gives_way_to_it),
        T(markers_win_over_nvtx_and_nvtx_over_automatic),
        T(other_nvtx_ranges_name_no_phase),
        T(a_name_in_other_case_names_the_phase_in_lower_case),
        T(a_rule_names_the_phase_of_matching_ranges),
        T(a_rule_that_makes_no_sense_says_where),
        T(domains_interleave),
        T(an_unbalanced_pop_changes_nothing),
        T(ranges_beyond_the_depth_are_counted_and_balanced),
        T(what_is_too_deep_is_lost_and_in_no_phase_of_another_thread),
        T(threads_beyond_the_last_block_lose_their_ranges_and_take_no_other_s),
        T(overflow_of_one_domain_leaves_the_others_alone),
        T(a_thread_without_ranges_belongs_to_the_lead),
        T(own_ranges_come_before_the_lead_and_the_lead_passes_on),
        T(a_thread_that_ends_closes_its_ranges),
        T(many_threads_stay_balanced),
        T(blocks_of_ended_threads_are_used_again),
        T(ranges_opened_before_the_recording_are_written_in_order),
        T(another_thread_writes_what_waits_and_says_so),
        T(a_range_open_at_both_ends_of_a_closed_window_keeps_its_pop),
        T(pushes_while_disabled_keep_pops_balanced),
        T(a_fork_child_has_the_open_range_in_its_own_recording),
        T(a_fork_child_forgets_a_lead_that_it_has_no_thread_for),
        T(a_signal_handler_may_push_and_pop_anywhere),
        T(start_and_end_cross_threads_and_name_no_phase),
        T(a_full_table_of_names_still_records),
        T(patterns_match_as_the_shell_does),
    };
    vs_ranges_init("");
    return cmocka_run_group_tests(tests, NULL, NULL);
}
