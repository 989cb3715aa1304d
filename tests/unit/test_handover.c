/*
 * test_handover.c - descriptors from one process to another: all of them, the right ones, and an error where
 * the giver is gone or has lost its socket.
 *
 * A giver is a child that answers with pieces of files (piece N holds the number N) and tells its socket's
 * name.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "arena/handover.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define PIECES 1000u

struct giver {
    pid_t pid;
    int pipe; /* a byte tells it to go on to its next act */
    int said;
    uint64_t name;
};

static void give(const struct vs_handover_ask *ask, struct vs_handover_answer *answer, int *files)
{
    answer->status = ask->id == 7 ? 0 : 400;
    if (ask->id != 7)
        return;
    answer->pieces = PIECES;
    answer->offset = 512;
    while (answer->files < ask->most && ask->first + answer->files < PIECES) {
        uint32_t number = ask->first + answer->files;
        int fd = memfd_create("piece", MFD_CLOEXEC);
        if (fd < 0)
            return;
        if (write(fd, &number, sizeof number) != sizeof number)
            abort();
        files[answer->files++] = fd;
    }
}

static void tell(int to, uint64_t name)
{
    if (write(to, &name, sizeof name) != sizeof name)
        _exit(1);
}

static uint64_t serve(void)
{
    uint64_t name = 0;
    if (vs_handover_serve(give, &name) != 0)
        _exit(2);
    return name;
}

static void wait_for_byte(int from)
{
    char c;
    if (read(from, &c, 1) != 1)
        _exit(0);
}

enum act { ANSWER, CLOSE_ALL, LEAVE_CHILD };

/* As a careless program does; by bare calls, since a thread sanitizer would rightly call it a race. */
static void close_everything_but(int a, int b)
{
    for (int fd = 0; fd < 2000; fd++)
        if (fd != a && fd != b)
            syscall(SYS_close, fd);
}

/* The giver's life: answers, and at the first byte does what ACT says. */
static void live(enum act act, int from, int to)
{
    tell(to, serve());
    wait_for_byte(from);
    if (act == CLOSE_ALL) {
        close_everything_but(from, to);
        for (int i = 0; i < 1200; i++) /* what it had has other meanings now */
            syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY);
        tell(to, 0);
        wait_for_byte(from);
        tell(to, serve());
    } else if (act == LEAVE_CHILD) {
        pid_t pid = fork();
        if (pid == 0) {
            sleep(20); /* with all that it has inherited */
            _exit(0);
        }
        tell(to, (uint64_t)pid);
        _exit(0);
    }
    wait_for_byte(from);
}

static struct giver start(enum act act, rlim_t files)
{
    struct giver g;
    int there[2], back[2];
    assert_int_equal(pipe(there), 0);
    assert_int_equal(pipe(back), 0);
    g.pid = fork();
    if (g.pid == 0) {
        close(there[1]);
        close(back[0]);
        if (files)
            setrlimit(RLIMIT_NOFILE, &(struct rlimit){files, files});
        alarm(60);
        live(act, there[0], back[1]);
        _exit(0);
    }
    close(there[0]);
    close(back[1]);
    g.pipe = there[1];
    g.said = back[0];
    assert_int_equal(read(g.said, &g.name, sizeof g.name), sizeof g.name);
    return g;
}

static uint64_t next_act(const struct giver *g)
{
    uint64_t said;
    assert_int_equal(write(g->pipe, "", 1), 1);
    assert_int_equal(read(g->said, &said, sizeof said), sizeof said);
    return said;
}

static void end(const struct giver *g)
{
    int status;
    close(g->pipe);
    assert_int_equal(waitpid(g->pid, &status, 0), g->pid);
    assert_int_equal(status, 0);
    close(g->said);
}

/* ---- asking ---- */

static uint32_t number_in(int fd)
{
    uint32_t number = UINT32_MAX;
    if (pread(fd, &number, sizeof number, 0) != sizeof number)
        return UINT32_MAX;
    return number;
}

/* All pieces, in order: how many were right. */
static uint32_t take_all(uint64_t name)
{
    struct vs_handover_answer answer = {.pieces = 1};
    int files[VS_HANDOVER_FILES], way = vs_handover_connect(name);
    uint32_t right = 0;
    assert_true(way >= 0);
    for (uint32_t have = 0; have < answer.pieces; have += answer.files) {
        struct vs_handover_ask ask = {.id = 7, .first = have, .most = VS_HANDOVER_FILES};
        assert_int_equal(vs_handover_ask(way, &ask, &answer, files), 0);
        assert_int_equal(answer.status, 0);
        assert_true(answer.files > 0);
        assert_int_equal(answer.offset, 512);
        for (uint32_t i = 0; i < answer.files; i++) {
            right += number_in(files[i]) == have + i;
            assert_int_equal(fcntl(files[i], F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
            close(files[i]);
        }
    }
    close(way);
    return right;
}

static int ask_once(uint64_t name, uint64_t id, int32_t *status)
{
    struct vs_handover_ask ask = {.id = id, .most = 1};
    struct vs_handover_answer answer = {0};
    int files[VS_HANDOVER_FILES], way = vs_handover_connect(name);
    if (way < 0)
        return way;
    int error = vs_handover_ask(way, &ask, &answer, files);
    if (error == 0 && answer.files)
        close(files[0]);
    close(way);
    *status = answer.status;
    return error;
}

static void a_thousand_pieces_need_few_open_files(void **state)
{
    struct giver g = start(ANSWER, 160);
    struct rlimit before, few = {160, 160};
    getrlimit(RLIMIT_NOFILE, &before);
    few.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_NOFILE, &few);
    assert_int_equal(take_all(g.name), PIECES);
    assert_int_equal(take_all(g.name), PIECES);
    setrlimit(RLIMIT_NOFILE, &before);
    end(&g);
}

static void the_givers_error_is_told(void **state)
{
    struct giver g = start(ANSWER, 0);
    int32_t status = 0;
    assert_int_equal(ask_once(g.name, 8, &status), 0);
    assert_int_equal(status, 400);
    end(&g);
}

static void who_is_gone_is_not_waited_for(void **state)
{
    struct giver g = start(ANSWER, 0);
    int32_t status;
    end(&g);
    assert_int_equal(ask_once(g.name, 7, &status), -ECONNREFUSED);
}

/* A child of the giver has all of its descriptors: it must not keep the name alive. */
static void a_forks_child_does_not_keep_the_name(void **state)
{
    struct giver g = start(LEAVE_CHILD, 0);
    int32_t status;
    pid_t child = (pid_t)next_act(&g);
    end(&g);
    time_t began = time(NULL);
    assert_int_equal(ask_once(g.name, 7, &status), -ECONNREFUSED);
    assert_true(time(NULL) - began < 5);
    kill(child, SIGKILL);
}

/* The thread that answers notices, and what is asked for later is answered under another name. */
static void a_program_that_closes_everything_ends_it(void **state)
{
    struct giver g = start(CLOSE_ALL, 0);
    int32_t status;
    next_act(&g);
    time_t began = time(NULL);
    assert_int_equal(ask_once(g.name, 7, &status), -ECONNREFUSED);
    assert_true(time(NULL) - began < 5);
    uint64_t anew = next_act(&g);
    assert_int_not_equal(anew, g.name);
    assert_int_equal(take_all(anew), PIECES);
    end(&g);
}

/* A datagram of a stranger, of another size, with descriptors that nobody wants. */
static void nonsense_is_passed_over(void **state)
{
    struct giver g = start(ANSWER, 0);
    int32_t status;
    int way = vs_handover_connect(g.name);
    assert_true(way >= 0);
    for (size_t bytes = 0; bytes < 40; bytes++)
        assert_int_equal(send(way, "nonsensenonsensenonsensenonsensenonsense", bytes, 0), bytes);
    close(way);
    assert_int_equal(ask_once(g.name, 7, &status), 0);
    assert_int_equal(status, 0);
    end(&g);
}

/* Whether what came is a refusal, with nothing in it and no descriptor along. */
static bool is_refusal(int way)
{
    struct vs_handover_answer answer, nothing = {.status = -EACCES};
    char control[256];
    struct iovec one = {&answer, sizeof answer};
    struct msghdr message = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    if (recvmsg(way, &message, 0) != sizeof answer || memcmp(&answer, &nothing, sizeof answer) != 0)
        return false;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(&message); c; c = CMSG_NXTHDR(&message, c))
        if (c->cmsg_type == SCM_RIGHTS)
            return false;
    return true;
}

/* What another user gets when he asks: 0 = a refusal, at once. */
static int answered_as(uid_t user, uint64_t name)
{
    struct vs_handover_ask ask = {.id = 7, .most = 1};
    int32_t status;
    time_t began = time(NULL);
    if (setresuid(user, user, user) != 0)
        return 2;
    int way = vs_handover_connect(name);
    if (way < 0 || send(way, &ask, sizeof ask, 0) != sizeof ask)
        return 3;
    if (!is_refusal(way))
        return 4;
    if (ask_once(name, 7, &status) != -EACCES)
        return 5;
    return time(NULL) - began > 2 ? 6 : 0;
}

/* A giver of another user's, who asks: what that one gives is taken from him no more than it is given. */
static int asked_as(uid_t user, uint64_t name)
{
    int32_t status;
    time_t began = time(NULL);
    if (setresuid(user, user, user) != 0)
        return 2;
    if (ask_once(name, 7, &status) != -EACCES)
        return 3;
    return time(NULL) - began > 2 ? 4 : 0;
}

static void two_users_refuse_each_other_at_once(void **state)
{
    if (geteuid() != 0)
        skip();
    assert_int_equal(setresuid(65533, 65533, 0), 0);
    struct giver g = start(ANSWER, 0);
    assert_int_equal(setresuid(0, 0, 0), 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(asked_as(65534, g.name));
    int ended = -1;
    assert_int_equal(waitpid(pid, &ended, 0), pid);
    assert_int_equal(ended, 0);
    end(&g);
}

/* The socket's name is there for all to read: what root has must not go to who finds it. */
static void another_user_is_not_answered_by_root_either(void **state)
{
    struct giver g = start(ANSWER, 0);
    int32_t status;
    if (geteuid() != 0) {
        end(&g);
        skip();
    }
    pid_t pid = fork();
    if (pid == 0)
        _exit(answered_as(65534, g.name));
    int ended = -1;
    assert_int_equal(waitpid(pid, &ended, 0), pid);
    assert_int_equal(ended, 0);
    assert_int_equal(ask_once(g.name, 7, &status), 0);
    end(&g);
}

static void ring(int unused) {}

/* A program's own signals, at a rate that lets nothing be waited for in peace. */
static void signals_are_no_error(void **state)
{
    struct giver g = start(ANSWER, 0);
    struct sigaction act = {.sa_handler = ring}, before;
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &act, &before);
    setitimer(ITIMER_REAL, &often, NULL);
    assert_int_equal(take_all(g.name), PIECES);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    end(&g);
}

static void two_ask_at_once(void **state)
{
    struct giver g = start(ANSWER, 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(take_all(g.name) != PIECES);
    assert_int_equal(take_all(g.name), PIECES);
    int ended = -1;
    assert_int_equal(waitpid(pid, &ended, 0), pid);
    assert_int_equal(ended, 0);
    end(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_pieces_need_few_open_files),
        cmocka_unit_test(the_givers_error_is_told),
        cmocka_unit_test(who_is_gone_is_not_waited_for),
        cmocka_unit_test(a_forks_child_does_not_keep_the_name),
        cmocka_unit_test(a_program_that_closes_everything_ends_it),
        cmocka_unit_test(nonsense_is_passed_over),
        cmocka_unit_test(another_user_is_not_answered_by_root_either),
        cmocka_unit_test(two_users_refuse_each_other_at_once),
        cmocka_unit_test(signals_are_no_error),
        cmocka_unit_test(two_ask_at_once),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
