/*
 * test_torch_events.c - waits of freed blocks are recorded where all functions of events that the allocator
 * calls come by way of ours, and none where one does not.
 *
 * What is found out stays, so each case is a process of its own.
 */
#include <sys/wait.h>
#include <unistd.h>

#include "unit/test.h"
#include "core/contracts.h"
#include "core/hot.h"
#include "framework/torch.h"
#include "record/record.h"

#define STREAM ((void *)8)
#define EVENT  ((void *)16)

static int deferred, done;

bool vs_record_enabled(void)
{
    return true;
}

uint64_t vs_record(struct vs_event *event)
{
    deferred += event->op == VS_OP_BLOCK_DEFERRED;
    done += event->op == VS_OP_EVENT_DONE;
    return 1;
}

/* ---- the runtime, and the library that calls it ---- */

static int success(void)
{
    return 0;
}

static size_t functions, slots; /* of how many calls of libc10_cuda's there are, and could be written */
static int (*record)(void *event, void *stream), (*query)(void *event);

static size_t rebind(const void *inside, const char *const *names, void *const *ours, void **const *real,
                     size_t n)
{
    for (size_t i = 0; i < n && i < functions; i++)
        *real[i] = (void *)success;
    record = strcmp(names[0], "cudaEventRecord") ? NULL : (int (*)(void *, void *))ours[0];
    query = strcmp(names[1], "cudaEventQuery") ? NULL : (int (*)(void *))ours[1];
    return slots;
}

static void a_block_is_freed_and_comes_free(void)
{
    record(EVENT, STREAM);
    vs_torch_events_report(true, 512, 0);
    if (functions > 1)
        query(EVENT);
}

static bool said(enum vs_contract_state state, const char *what)
{
    return vs_contract_state(VS_CONTRACT_GOT_REBIND) == state &&
           strstr(vs_contract_detail(VS_CONTRACT_GOT_REBIND), what) != NULL;
}

static bool with(size_t found, size_t written)
{
    functions = found;
    slots = written;
    vs_torch_rebind = rebind;
    vs_torch_events_watch(NULL);
    a_block_is_freed_and_comes_free();
    return true;
}

static void in_process(bool (*test)(void))
{
    int status = -1;
    fflush(NULL);
    pid_t child = fork();
    if (child == 0)
        _exit(test() ? 0 : 1);
    waitpid(child, &status, 0);
    assert_int_equal(status, 0);
}

/* A test whose body says whether it holds. */
#define CASE(name)                                                                                           \
    static bool name##_holds(void);                                                                          \
    TEST(name)                                                                                               \
    {                                                                                                        \
        in_process(name##_holds);                                                                            \
    }                                                                                                        \
    static bool name##_holds(void)

CASE(where_all_calls_are_seen_waits_are_recorded)
{
    return with(5, 6) && deferred == 1 && done == 1 && said(VS_CONTRACT_PROVEN, "5 functions");
}

CASE(where_a_function_is_not_called_so_no_wait_is_recorded)
{
    return with(4, 4) && deferred == 0 && done == 0 && said(VS_CONTRACT_BROKEN, "4 of 5");
}

CASE(where_a_slot_cannot_be_written_no_wait_is_recorded)
{
    return with(5, 4) && deferred == 0 && done == 0 && said(VS_CONTRACT_BROKEN, "4 of 5");
}
