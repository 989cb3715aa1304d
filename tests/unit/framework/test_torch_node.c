/*
 * test_torch_node.c - the node that runs, over stand-ins for torch that hold their nodes differently; what is
 * not known is not read.
 *
 * What is found out stays, so each case is a process of its own.
 */
#include <sys/mman.h>

#include "unit/child.h"
#include "core/contracts.h"
#include "fake_torch.h"
#include "autograd_standins.h"

#define PYTHON_KNOWS (UINT64_C(1) << 63)
#define WEAK         (UINT64_C(1) << 32)

static const char *self;
static const struct fake_type type = {NULL, "N5torch8autograd9generated14AddmmBackward0E"};
static const struct fake_class class = {&type, {NULL}};
static struct fake_control control = {.uses = 2};

static struct fake_thread *torch(void)
{
    return ((fake_thread_fn *)fake_torch_function("fake_thread"))();
}

/* Whether a node is said to run, which is at AT. */
static bool runs(void *at, struct vs_autograd_run *run)
{
    struct fake_thread *t = torch();
    t->task = 5;
    t->node = at;
    t->control = &control;
    bool running = vs_autograd_running(standin_journal, run);
    t->task = -1;
    t->node = NULL;
    return running;
}

static bool broken(enum vs_contract c, const char *why)
{
    if (vs_contract_state(c) == VS_CONTRACT_BROKEN && strstr(vs_contract_detail(c), why))
        return true;
    printf("contract %s: %d, %s\n", vs_contract_rows[c].name, vs_contract_state(c), vs_contract_detail(c));
    return false;
}

static bool proven(enum vs_contract c, const char *how)
{
    return vs_contract_state(c) == VS_CONTRACT_PROVEN && strstr(vs_contract_detail(c), how);
}

static uint64_t birth(uint32_t stack)
{
    standin.stack = stack;
    return vs_sequence_number();
}

static struct fake_intrusive intrusive(uint64_t number)
{
    return (struct fake_intrusive){
        .table = class.functions, .count = WEAK | 2, .number = number, .thread = 1};
}

static void load(const char *kind)
{
    fake_torch_load(self, kind);
    *torch() = (struct fake_thread){.id = 1, .task = -1};
    standin_takes(true);
}

/* A test of nodes of this KIND. */
#define CASE(name, kind)                                                                                     \
    static bool name##_holds(void);                                                                          \
    CHILD_TEST(name)                                                                                         \
    {                                                                                                        \
        load(kind);                                                                                          \
        return name##_holds();                                                                               \
    }                                                                                                        \
    static bool name##_holds(void)

/* ---- the cases; each returns whether it is as it should be ---- */

CASE(nodes_by_shared_ptr_have_their_lines, "shared")
{
    struct vs_autograd_run run;
    struct fake_node n = {.table = class.functions, .number = birth(11), .thread = 1};
    return runs(&n, &run) && run.forward == 11 && control.uses == 2 &&
           proven(VS_CONTRACT_TORCH_NODE, "shared_ptr") && proven(VS_CONTRACT_TORCH_BIRTH, "");
}

CASE(nodes_by_intrusive_ptr_have_their_lines_and_keep_their_counts, "intrusive")
{
    struct vs_autograd_run run;
    struct fake_intrusive a = intrusive(birth(11)), b = intrusive(birth(12));
    b.count |= PYTHON_KNOWS;
    bool good = runs(&b, &run) && run.forward == 12 && !strcmp(standin_string(run.node), "AddmmBackward0");
    good = good && runs(&a, &run) && run.forward == 11 && runs(&a, &run) && run.forward == 11;
    return good && a.count == (WEAK | 2) && b.count == (PYTHON_KNOWS | WEAK | 2) &&
           proven(VS_CONTRACT_TORCH_NODE, "intrusive_ptr") && proven(VS_CONTRACT_TORCH_BIRTH, "");
}

CASE(a_node_whose_second_reference_would_be_ours_ends_the_questions, "intrusive")
{
    struct vs_autograd_run run;
    struct fake_intrusive n = intrusive(birth(11));
    n.count = PYTHON_KNOWS | WEAK | 1;
    bool first = runs(&n, &run), second = runs(&n, &run);
    /* the reference that came with it is kept, and no other one is taken */
    return !first && !second && n.count == (PYTHON_KNOWS | WEAK | 2) &&
           broken(VS_CONTRACT_TORCH_NODE, "no owner but one");
}

CASE(a_node_without_number_and_thread_has_its_name, "intrusive")
{
    struct vs_autograd_run run;
    struct fake_intrusive n = intrusive(birth(11));
    n.thread = 0;
    return runs(&n, &run) && run.forward == 0 && !strcmp(standin_string(run.node), "AddmmBackward0") &&
           n.count == (WEAK | 2) && broken(VS_CONTRACT_TORCH_BIRTH, "no thread where") &&
           vs_contract_state(VS_CONTRACT_TORCH_NODE) == VS_CONTRACT_PROVEN;
}

CASE(a_number_that_nobody_was_born_with_decides_nothing, "intrusive")
{
    struct vs_autograd_run run;
    struct fake_intrusive n = intrusive(birth(11) + 5);
    return runs(&n, &run) && run.forward == 0 &&
           vs_contract_state(VS_CONTRACT_TORCH_BIRTH) == VS_CONTRACT_UNASKED;
}

CASE(a_node_that_cannot_be_read_is_not_read, "intrusive")
{
    struct vs_autograd_run run;
    char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED || munmap(pages + 4096, 4096))
        return false;
    birth(11);
    torch()->lies = 1;
    return !runs(pages + 4096 - 16, &run) && broken(VS_CONTRACT_TORCH_NODE, "not where it should be");
}

CASE(what_does_not_look_like_a_node_is_none, "intrusive")
{
    struct vs_autograd_run run;
    struct fake_intrusive n = {.table = (void *)16, .count = WEAK | 2, .thread = 1};
    birth(11);
    return !runs(&n, &run) && broken(VS_CONTRACT_TORCH_NODE, "does not look like one");
}

CASE(pointers_of_a_kind_that_is_not_known_are_not_followed, "other")
{
    struct vs_autograd_run run;
    struct fake_intrusive n = intrusive(birth(11));
    return !runs(&n, &run) && n.count == (WEAK | 2) && birth(12) == n.number + 1 &&
           broken(VS_CONTRACT_TORCH_NODE, "held otherwise than in 1.8 to 2.15");
}

/* ---- */

/* 0: good; killed by a signal: that, negative */
int main(int argc, char **argv)
{
    self = argv[0];
    return run_all_tests(NULL, NULL);
}
