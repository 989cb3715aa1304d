/*
 * test_autograd.c - autograd.c over a stand-in for torch: which birth a node that runs is given, and when
 * none.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/test.h"
#include "fake_torch.h"
#include "autograd_standins.h"

static struct fake_thread *torch(void)
{
    return ((fake_thread_fn *)fake_torch_function("fake_thread"))();
}

static uint64_t birth(uint32_t stack)
{
    standin.stack = stack;
    return vs_sequence_number();
}

static struct fake_control control = {.uses = 2}; /* the engine's, while a node runs */

/* What a block that is born while NODE runs is told. */
static struct vs_autograd_run born_in(struct fake_node *node)
{
    struct vs_autograd_run run = {0};
    struct fake_thread *t = torch();
    t->task = 5;
    t->node = node;
    t->control = &control;
    assert_true(vs_autograd_running(standin_journal, &run));
    t->task = -1;
    t->node = NULL;
    assert_int_equal(control.uses, 2); /* what was taken of the node was given back */
    return run;
}

static const struct fake_type addmm_type = {NULL, "N5torch8autograd9generated14AddmmBackward0E"};
static const struct fake_class addmm = {&addmm_type, {NULL}};

static struct fake_node node_of(uint64_t thread, uint64_t number)
{
    return (struct fake_node){.table = addmm.functions, .number = number, .thread = thread};
}

static int setup(void **state)
{
    *torch() = (struct fake_thread){.id = 1, .task = -1};
    standin_takes(true);
    standin.lost = 0;
    return 0;
}

TEST(a_node_that_runs_has_the_stack_of_its_birth, setup)
{
    uint64_t first = birth(11), second = birth(12);
    assert_int_equal(second, first + 1); /* torch's own numbers */
    struct fake_node a = node_of(1, first), b = node_of(1, second);
    assert_int_equal(born_in(&b).forward, 12);
    assert_int_equal(born_in(&a).forward, 11);
    assert_int_equal(born_in(&a).forward, 11); /* again: the graph was retained */
    assert_string_equal(standin_string(born_in(&a).node), "AddmmBackward0");
}

TEST(outside_of_a_graph_task_nothing_runs, setup)
{
    struct vs_autograd_run run;
    birth(11);
    assert_false(vs_autograd_running(standin_journal, &run));
    torch()->task = 3; /* a callback at the end of backward: no node */
    assert_false(vs_autograd_running(standin_journal, &run));
}

static void *in_thread(void *arg)
{
    *torch() = (struct fake_thread){.id = 2, .task = -1};
    birth(22);
    return NULL;
}

TEST(numbers_belong_to_the_thread_that_gave_them, setup)
{
    pthread_t thread;
    torch()->next = 0;
    birth(11);
    pthread_create(&thread, NULL, in_thread, NULL);
    pthread_join(thread, NULL);
    struct fake_node mine = node_of(1, 0), others = node_of(2, 0), nobodys = node_of(3, 0);
    assert_int_equal(born_in(&mine).forward, 11);
    assert_int_equal(born_in(&others).forward, 22);
    assert_int_equal(born_in(&nobodys).forward, 0);
    assert_int_equal(standin.lost, 0);
}

TEST(what_was_never_born_here_has_its_name_alone, setup)
{
    uint64_t last = birth(11);
    struct fake_node leaf = node_of(1, UINT64_MAX), later = node_of(1, last + 1),
                     other = node_of(0x7f0012345678, last);
    assert_int_equal(born_in(&leaf).forward, 0);
    assert_int_equal(born_in(&later).forward, 0); /* the fields lie elsewhere in this torch */
    assert_int_equal(born_in(&other).forward, 0);
    standin_takes(false);
    struct fake_node unseen = node_of(1, birth(12));
    standin_takes(true);
    assert_int_equal(born_in(&unseen).forward, 0);
    assert_string_equal(standin_string(born_in(&unseen).node), "AddmmBackward0");
    assert_int_equal(standin.lost, 0);
}

TEST(a_birth_that_was_overwritten_is_counted_and_never_another_ones, setup)
{
    uint64_t first = birth(11);
    for (int i = 0; i < 1 << 17; i++)
        birth(12);
    struct fake_node n = node_of(1, first), kept = node_of(1, first + 1);
    assert_int_equal(born_in(&kept).forward, 12);
    assert_int_equal(born_in(&n).forward, 0);
    assert_int_equal(standin.lost, 1);
}

static void *one_birth(void *id)
{
    *torch() = (struct fake_thread){.id = (uint64_t)(uintptr_t)id, .task = -1};
    birth(100 + (uint32_t)(uintptr_t)id);
    return NULL;
}

TEST(a_ring_that_another_thread_took_over_gives_no_birth_of_either_to_the_other, setup)
{
    pthread_t thread;
    torch()->next = 0;
    birth(11);
    pthread_create(&thread, NULL, one_birth, (void *)65);
    pthread_join(thread, NULL);
    struct fake_node mine = node_of(1, 0), taker = node_of(65, 0);
    assert_int_equal(born_in(&taker).forward, 165);
    assert_int_equal(born_in(&mine).forward, 0);
    uint64_t mine_again = birth(12);
    mine = node_of(1, mine_again);
    assert_int_equal(born_in(&mine).forward, 12);
}

TEST(births_in_backward_go_on_to_a_bounded_depth, setup)
{
    struct fake_node n = node_of(1, birth(11));
    for (int i = 0; i < 7; i++) {
        torch()->task = 5;
        torch()->node = &n;
        torch()->control = &control;
        n = node_of(1, birth(20 + (uint32_t)i));
        assert_int_equal(born_in(&n).forward, 20 + i);
    }
    torch()->task = 5;
    torch()->node = &n;
    torch()->control = &control;
    n = node_of(1, birth(30));
    assert_int_equal(born_in(&n).forward, 0);
}

TEST(a_fork_child_knows_none_of_its_parents_births, setup)
{
    struct fake_node n = node_of(1, birth(11));
    int status = -1;
    born_in(&n);
    pid_t child = fork();
    if (child == 0) {
        struct vs_autograd_run run = born_in(&n);
        if (run.forward != 0 || strcmp(standin_string(run.node), "AddmmBackward0") != 0)
            _exit(1);
        n = node_of(1, birth(13));
        _exit(born_in(&n).forward == 13 ? 0 : 2);
    }
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    assert_int_equal(born_in(&n).forward, 11);
}

TEST(a_node_is_called_by_the_last_word_of_its_type, setup)
{
    static const char *const names[][2] = {
        {"N5torch8autograd14AccumulateGradE", "AccumulateGrad"},
        {"N5torch8autograd7CppNodeI10MyFunctionEE", "CppNode<MyFunction>"},
        {"N5torch8autograd7CppNodeIN3our10MyFunctionEEE", "CppNode<MyFunction>"},
        {"*N12_GLOBAL__N_14NodeE", "Node"},
        {"4Node", "Node"},
        {"99Node", "99Node"}, /* no name at all: as it is */
        {"", "?"}};
    static struct fake_type types[sizeof names / sizeof *names]; /* their addresses are remembered */
    static struct fake_class classes[sizeof names / sizeof *names];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct fake_type *type = &types[i];
        struct fake_class *class = &classes[i];
        *type = (struct fake_type){NULL, names[i][0]};
        *class = (struct fake_class){type, {NULL}};
        struct fake_node n = {.table = class->functions, .number = UINT64_MAX, .thread = 1};
        struct vs_autograd_run run;
        if (names[i][0][0]) {
            assert_string_equal(standin_string(born_in(&n).node), names[i][1]);
            continue;
        }
        torch()->task = 5;
        torch()->node = &n;
        torch()->control = &control;
        assert_false(vs_autograd_running(standin_journal, &run)); /* no name: no frame */
    }
}

int main(int argc, char **argv)
{
    fake_torch_load(argv[0], "shared");
    return run_all_tests(NULL, NULL);
}
