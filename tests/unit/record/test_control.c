/* test_control.c - a request of another process is carried out on a thread of its own, while the recording
 * goes on, and answered. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>

#define OWN_BLOCKS /* see standins.h */
#include "unit/core/capture.h"

#include "child_kit.h"
#include "trace/roles.h"

static _Atomic int calls, ended, may_end = 1;
static _Atomic bool has_hosts_descriptor, signals_blocked, is_internal;
static int hosts_descriptor;
static struct vs_control_request seen;
static struct vs_control_block seen_block;
static size_t seen_count;
static size_t known_blocks; /* what the ledger has */

size_t vs_writer_blocks(const struct vs_writer *w, const struct vs_control_request *request,
                        struct vs_control_block *blocks, size_t most, size_t *named)
{
    *named = known_blocks;
    for (size_t i = 0; i < known_blocks && i < most; i++)
        blocks[i] = (struct vs_control_block){.address = 0x1000 * (i + 1), .size = 512};
    return known_blocks;
}

static void control(const struct vs_control_request *request, const struct vs_control_block *blocks,
                    size_t count, struct vs_control_answer *answer)
{
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, NULL, &mask);
    signals_blocked = sigismember(&mask, SIGTERM) == 1;
    is_internal = !vs_record_enabled();
    has_hosts_descriptor = fcntl(hosts_descriptor, F_GETFD) >= 0;
    seen = *request;
    seen_count = count;
    if (count)
        seen_block = blocks[count - 1];
    calls++;
    while (!may_end)
        usleep(1000);
    ended = calls;
    *answer = (struct vs_control_answer){.status = VS_CONTROL_DONE, .moved_bytes = 42};
}

static struct vs_journal *asker(void)
{
    struct vs_journal *j;
    hosts_descriptor = open("/dev/null", O_RDONLY);
    alloc(1);
    CHECK(vs_journal_open(&j, vs_recording->journal_path, true) == 0 && vs_journal_can_ask(j));
    return j;
}

static uint32_t ask(struct vs_journal *j, struct vs_control_request q)
{
    uint32_t number = vs_journal_ask(j, &q, UINT64_MAX);
    CHECK(number);
    return number;
}

/* alarm() ends what hangs */
static struct vs_control_answer await(struct vs_journal *j, uint32_t number)
{
    struct vs_control_answer a;
    while (vs_journal_request_state(j, number, &a) != VS_REQUEST_ANSWERED)
        usleep(1000);
    return a;
}

IN_CHILD(a_request_runs_on_a_thread_with_the_hosts_descriptors_and_is_answered)
{
    vs_suppliers.control = control;
    struct vs_journal *j = asker();
    uint32_t number = ask(j, (struct vs_control_request){.kind = VS_CONTROL_RESUME, .to = "/there"});
    struct vs_control_answer a = await(j, number);
    CHECK(a.status == VS_CONTROL_DONE && a.moved_bytes == 42 && a.number == number);
    CHECK(seen.kind == VS_CONTROL_RESUME && !strcmp(seen.to, "/there") && seen_count == 0);
    CHECK(has_hosts_descriptor && signals_blocked && is_internal);
    /* the thread is gone, and another request finds another */
    while (vs_recording->threads != 2)
        usleep(1000);
    await(j, ask(j, (struct vs_control_request){.kind = VS_CONTROL_SUSPEND}));
    CHECK(calls == 2);
}

IN_CHILD(a_suspension_says_what_others_hold_and_a_resume_does_not)
{
    vs_suppliers.control = control;
    struct vs_journal *j = asker();
    settle(); /* the database is there */
    struct vs_control_answer a = await(j, ask(j, (struct vs_control_request){.kind = VS_CONTROL_SUSPEND}));
    CHECK(a.beside_bytes == 1 << 20 && !strcmp(a.beside, "libnccl.so.2 1.00 MiB"));
    a = await(j, ask(j, (struct vs_control_request){.kind = VS_CONTROL_RESUME}));
    CHECK(a.beside_bytes == 0 && !*a.beside);
}

IN_CHILD(a_recording_that_takes_no_samples_can_be_asked_too)
{
    set_options("VRAMSCOPE_SAMPLE_MS=0");
    vs_suppliers.control = control;
    struct vs_journal *j = asker();
    await(j, ask(j, (struct vs_control_request){.kind = VS_CONTROL_SUSPEND}));
    CHECK(calls == 1 && has_hosts_descriptor);
}

IN_CHILD(the_recording_goes_on_meanwhile_and_a_second_request_waits)
{
    struct vs_control_answer a;
    vs_suppliers.control = control;
    struct vs_journal *j = asker();
    may_end = 0;
    uint32_t number = ask(j, (struct vs_control_request){.kind = VS_CONTROL_SUSPEND});
    while (!calls)
        usleep(1000);
    for (uint64_t i = 0; i < 100; i++)
        alloc(i);
    settle(); /* the drain does not wait for the thread */
    struct vs_control_request second = {.kind = VS_CONTROL_RESUME};
    CHECK(vs_journal_ask(j, &second, UINT64_MAX) == 0);
    CHECK(vs_journal_request_state(j, number, &a) == VS_REQUEST_TAKEN);
    may_end = 1;
    await(j, number);
    await(j, ask(j, second));
    CHECK(calls == 2);
}

IN_CHILD(the_blocks_of_roles_are_handed_over)
{
    vs_suppliers.control = control;
    struct vs_journal *j = asker();
    struct vs_control_request q = {.kind = VS_CONTROL_SUSPEND, .roles = 1u << VS_ROLE_STATE};
    settle(); /* the writer is there */
    struct vs_control_answer a = await(j, ask(j, q));
    CHECK(a.status == VS_CONTROL_REFUSED && strstr(a.text, "optimizer state") && calls == 0);
    known_blocks = 3000;
    a = await(j, ask(j, q));
    CHECK(a.status == VS_CONTROL_DONE && calls == 1);
    CHECK(seen_count == 3000 && seen_block.address == 0x1000 * 3000 && seen_block.size == 512);
}

IN_CHILD(roles_are_looked_for_when_the_ledger_has_what_came_before)
{
    vs_suppliers.control = control;
    known_blocks = 1;
    struct vs_journal *j = asker();
    struct vs_control_request q = {.kind = VS_CONTROL_SUSPEND, .keep = 1u << VS_ROLE_BUFFER, .timeout_ns = 1};
    settle();
    writer_error = -ENOSPC;
    capture_begin(); /* the drain says so */
    alloc(2);
    struct vs_control_answer a = await(j, ask(j, q));
    CHECK(a.status == VS_CONTROL_REFUSED && strstr(a.text, "can't be written") && calls == 0);
    q.timeout_ns = UINT64_C(60000000000);
    uint32_t number = ask(j, q);
    while (vs_journal_request_state(j, number, &a) != VS_REQUEST_TAKEN)
        usleep(1000);
    CHECK(calls == 0);
    writer_error = 0;
    capture_end();
    CHECK(await(j, number).status == VS_CONTROL_DONE && calls == 1 && seen_count == 1);
}

IN_CHILD(what_cannot_be_is_refused)
{
    struct vs_journal *j = asker();
    struct vs_control_answer a =
        await(j, ask(j, (struct vs_control_request){.kind = VS_CONTROL_SUSPEND, .roles = 2}));
    CHECK(a.status == VS_CONTROL_REFUSED && strstr(a.text, "--allocator=arena"));
    vs_suppliers.control = control;
    a = await(j, ask(j, (struct vs_control_request){.kind = 99}));
    CHECK(a.status == VS_CONTROL_REFUSED && strstr(a.text, "older") && calls == 0);
}

static void *let_it_end(void *unused)
{
    may_end = 1;
    return NULL;
}

IN_CHILD(the_end_waits_for_the_request_and_begins_no_other)
{
    pthread_t thread;
    vs_options.exit_ms = 60000;
    vs_suppliers.control = control;
    struct vs_journal *j = asker();
    may_end = 0;
    uint32_t number = ask(j, (struct vs_control_request){.kind = VS_CONTROL_SUSPEND});
    while (!calls)
        usleep(1000);
    pthread_create(&thread, NULL, let_it_end, NULL);
    errno = 77;
    vs_control_end(vs_recording);
    CHECK(ended == 1 && errno == 77);
    await(j, number);
    pthread_join(thread, NULL);
    number = ask(j, (struct vs_control_request){.kind = VS_CONTROL_SUSPEND});
    for (int i = 0; i < 3; i++) { /* rounds of the drain */
        alloc(1);
        settle();
    }
    struct vs_control_answer a;
    CHECK(vs_journal_request_state(j, number, &a) == VS_REQUEST_WAITS && calls == 1);
}

IN_CHILD(a_forks_child_has_no_request)
{
    vs_suppliers.control = control;
    struct vs_journal *j = asker();
    may_end = 0;
    uint32_t number = ask(j, (struct vs_control_request){.kind = VS_CONTROL_SUSPEND});
    while (!calls)
        usleep(1000);
    pid_t pid = fork();
    if (pid == 0) { /* which records into a journal of its own, and can be asked there */
        alarm(60);
        may_end = 1;
        alloc(1);
        struct vs_journal *own;
        CHECK(vs_journal_open(&own, vs_recording->journal_path, true) == 0);
        await(own, ask(own, (struct vs_control_request){.kind = VS_CONTROL_SUSPEND}));
        _exit(calls == 2 ? 0 : 1);
    }
    int status;
    struct vs_control_answer a;
    CHECK(waitpid(pid, &status, 0) == pid && status == 0);
    CHECK(vs_journal_request_state(j, number, &a) == VS_REQUEST_TAKEN && calls == 1);
    may_end = 1;
    await(j, number);
}
