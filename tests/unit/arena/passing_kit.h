/*
 * passing_kit.h - givers for the tests of passing.c, and who asks them.
 *
 * A giver is a child that answers with pieces of files (piece N holds the number N) and tells its address.
 */
#ifndef TESTS_UNIT_ARENA_PASSING_KIT_H
#define TESTS_UNIT_ARENA_PASSING_KIT_H

#include "unit/test.h"
#include "arena/share/passing.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
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
    struct vs_passing_address where;
};

static inline void give(const struct vs_passing_request *ask, struct vs_passing_answer *answer, int *files)
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

static void tell(int to, const struct vs_passing_address *where)
{
    if (write(to, where, sizeof *where) != sizeof *where)
        _exit(1);
}

static void tell_number(int to, uint64_t number)
{
    tell(to, &(struct vs_passing_address){.name = number});
}

static void serve_and_tell(int to)
{
    struct vs_passing_address where;
    if (vs_passing_serve(give, &where) != 0)
        _exit(2);
    tell(to, &where);
}

static void wait_for_byte(int from)
{
    char c;
    if (read(from, &c, 1) != 1)
        _exit(0);
}

static void leave_child(int to)
{
    pid_t pid = fork();
    if (pid == 0) {
        sleep(20); /* with all that it has inherited */
        _exit(0);
    }
    tell_number(to, (uint64_t)pid);
    _exit(0);
}

/* A child that has something to share of its own: who asks the parent is none of its business. */
static void serve_in_child(int from, int to)
{
    int ended = -1;
    pid_t pid = fork();
    if (pid == 0) {
        serve_and_tell(to);
        wait_for_byte(from);
        _exit(0);
    }
    if (waitpid(pid, &ended, 0) != pid || ended != 0)
        _exit(3);
}

/* All that this process may open is open, for half a second. */
static void open_all(int to)
{
    int files[300], count = 0;
    while (count < 300 && (files[count] = dup(to)) >= 0)
        count++;
    tell_number(to, count < 300);
    usleep(500000);
    while (count)
        close(files[--count]);
}

enum act { ANSWER, CLOSE_ALL, OPEN_ALL, LEAVE_CHILD, SERVE_IN_CHILD };

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
    serve_and_tell(to);
    wait_for_byte(from);
    if (act == CLOSE_ALL) {
        close_everything_but(from, to);
        for (int i = 0; i < 1200; i++) /* what it had has other meanings now */
            syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDONLY);
        tell_number(to, 0);
        wait_for_byte(from);
        serve_and_tell(to);
    } else if (act == OPEN_ALL) {
        open_all(to);
    } else if (act == LEAVE_CHILD) {
        leave_child(to);
    } else if (act == SERVE_IN_CHILD) {
        serve_in_child(from, to);
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
    assert_int_equal(read(g.said, &g.where, sizeof g.where), sizeof g.where);
    return g;
}

static struct vs_passing_address next_act(const struct giver *g)
{
    struct vs_passing_address said;
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

static unsigned open_files(void)
{
    unsigned open = 0;
    for (int fd = 0; fd < 2000; fd++)
        open += fcntl(fd, F_GETFD) >= 0;
    return open;
}

static uint32_t number_in(int fd)
{
    uint32_t number = UINT32_MAX;
    if (pread(fd, &number, sizeof number, 0) != sizeof number)
        return UINT32_MAX;
    return number;
}

static inline struct question question_to(const struct vs_passing_address *where, uint64_t id)
{
    return (struct question){{where->key[0], where->key[1]}, {.id = id, .most = VS_PASSING_FILES}};
}

/* BYTES of DATA as a question, FILE along with it as the way back. */
static inline bool put_question(int way, const void *data, size_t bytes, int file)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec one = {(void *)(uintptr_t)data, bytes};
    struct msghdr message = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_LEN(sizeof(int))};
    memcpy(CMSG_DATA(&control.header), &file, sizeof file);
    return sendmsg(way, &message, 0) == (ssize_t)bytes;
}

/* Asks so, and gives the end at which the answer comes; -1: it could not be asked. */
static inline int ask_raw(int way, const void *data, size_t bytes)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    bool asked = put_question(way, data, bytes, ends[1]);
    close(ends[1]);
    if (!asked)
        close(ends[0]);
    return asked ? ends[0] : -1;
}

/* All pieces, in order: how many were right. */
static uint32_t take_all(const struct vs_passing_address *where)
{
    struct vs_passing_answer answer = {.pieces = 1};
    int files[VS_PASSING_FILES], way = vs_passing_connect(where);
    uint32_t right = 0;
    assert_true(way >= 0);
    for (uint32_t have = 0; have < answer.pieces; have += answer.files) {
        struct vs_passing_request ask = {.id = 7, .first = have, .most = VS_PASSING_FILES};
        assert_int_equal(vs_passing_request(way, where, &ask, &answer, files), 0);
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

static int ask_once(const struct vs_passing_address *where, uint64_t id, int32_t *status)
{
    struct vs_passing_request ask = {.id = id, .most = 1};
    struct vs_passing_answer answer = {0};
    int files[VS_PASSING_FILES], way = vs_passing_connect(where);
    if (way < 0)
        return way;
    int error = vs_passing_request(way, where, &ask, &answer, files);
    if (error == 0 && answer.files)
        close(files[0]);
    close(way);
    *status = answer.status;
    return error;
}

#endif
