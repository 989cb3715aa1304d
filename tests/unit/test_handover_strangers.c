/*
 * test_handover_strangers.c - who is handed descriptors, and whose are taken: all who have the address, of
 * whatever user, and nobody else; and a stranger makes nobody wait.
 */
#define _GNU_SOURCE
#include "handover_kit.h"

#include <sched.h>

/* What goes over the socket. */
struct question {
    uint64_t key[2];
    struct vs_handover_ask ask;
};
struct reply {
    uint64_t proof;
    struct vs_handover_answer answer;
};

static uint64_t flipped(uint64_t word, unsigned bit)
{
    return word ^ (uint64_t)1 << bit;
}

/* Runs WHAT in a child, as UID where that is not 0: what it returns. */
static int in_child(uid_t uid, int (*what)(const struct vs_handover_address *),
                    const struct vs_handover_address *where)
{
    int ended = -1;
    pid_t pid = fork();
    if (pid == 0) {
        alarm(30);
        if (uid && (setresgid(uid, uid, uid) != 0 || setresuid(uid, uid, uid) != 0))
            _exit(100);
        _exit(what(where));
    }
    assert_int_equal(waitpid(pid, &ended, 0), pid);
    assert_true(WIFEXITED(ended));
    return WEXITSTATUS(ended);
}

static struct giver start_as(uid_t uid)
{
    if (uid)
        assert_int_equal(setresuid(uid, uid, 0), 0);
    struct giver g = start(ANSWER, 0);
    if (uid)
        assert_int_equal(setresuid(0, 0, 0), 0);
    return g;
}

#ifdef __SANITIZE_THREAD__
/* A fork's child starts a thread here, as a program's may. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}
#endif

/* ---- who asks ---- */

static int takes_all(const struct vs_handover_address *where)
{
    return take_all(where) != PIECES;
}

static void whoever_has_the_address_is_answered_as_any_user(void **state)
{
    static const uid_t users[] = {0, 65533, 65534};
    if (geteuid() != 0) {
        print_message("not root: only root can be other users\n");
        skip();
    }
    for (unsigned i = 0; i < 3; i++) {
        struct giver g = start_as(users[i]);
        for (unsigned j = 0; j < 3; j++)
            assert_int_equal(in_child(users[j], takes_all, &g.where), 0);
        end(&g);
    }
}

#define NO_NAMESPACE 77

static int takes_all_elsewhere(const struct vs_handover_address *where)
{
    return unshare(CLONE_NEWUSER) == 0 ? takes_all(where) : NO_NAMESPACE;
}

static void another_user_namespace_is_no_hindrance(void **state)
{
    struct giver g = start(ANSWER, 0);
    int got = in_child(0, takes_all_elsewhere, &g.where);
    end(&g);
    if (got == NO_NAMESPACE) {
        print_message("no user namespace to be had\n");
        skip();
    }
    assert_int_equal(got, 0);
}

/* Whether what came is a refusal, with nothing in it and no descriptor along. */
static bool is_refusal(int way)
{
    struct reply reply, nothing;
    char control[256];
    struct iovec one = {&reply, sizeof reply};
    struct msghdr message = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    memset(&nothing, 0, sizeof nothing);
    return recvmsg(way, &message, MSG_TRUNC) == sizeof reply && memcmp(&reply, &nothing, sizeof reply) == 0 &&
           !CMSG_FIRSTHDR(&message);
}

/* One who knows the name alone. */
static int is_refused(const struct vs_handover_address *where)
{
    struct question q = {.ask = {.id = 7, .most = 1}};
    struct vs_handover_address guess = {.name = where->name, .proof = 1};
    int32_t status;
    int way = vs_handover_connect(&guess);
    if (way < 0 || send(way, &q, sizeof q, 0) != sizeof q || !is_refusal(way))
        return 1;
    return ask_once(&guess, 7, &status) != -EKEYREJECTED;
}

static void who_knows_the_name_alone_is_refused_and_told_nothing(void **state)
{
    struct giver g = start(ANSWER, 0);
    time_t began = time(NULL);
    assert_int_equal(in_child(0, is_refused, &g.where), 0);
    if (geteuid() == 0)
        assert_int_equal(in_child(65534, is_refused, &g.where), 0);
    assert_true(time(NULL) - began < 5);
    assert_int_equal(take_all(&g.where), PIECES);
    end(&g);
}

static void each_bit_of_the_key_counts(void **state)
{
    struct giver g = start(ANSWER, 0);
    int32_t status;
    for (unsigned bit = 0; bit < 128; bit++) {
        struct vs_handover_address wrong = g.where;
        wrong.key[bit / 64] = flipped(wrong.key[bit / 64], bit % 64);
        assert_int_equal(ask_once(&wrong, 7, &status), -EKEYREJECTED);
    }
    assert_int_equal(ask_once(&g.where, 7, &status), 0);
    end(&g);
}

/* Questions of another length, the key in them or not. */
static void a_question_of_another_length_is_none(void **state)
{
    struct giver g = start(ANSWER, 0);
    char long_one[2 * sizeof(struct question)] = {0};
    struct question q = {{g.where.key[0], g.where.key[1]}, {.id = 7, .most = 1}};
    int32_t status;
    int way = vs_handover_connect(&g.where);
    assert_true(way >= 0);
    memcpy(long_one, &q, sizeof q);
    for (size_t bytes = 0; bytes <= sizeof long_one; bytes++)
        if (bytes != sizeof q)
            assert_int_equal(send(way, long_one, bytes, 0), bytes);
    assert_int_equal(ask_once(&g.where, 7, &status), 0); /* by now it has heard all of them */
    assert_int_equal(recv(way, long_one, sizeof long_one, MSG_DONTWAIT), -1);
    close(way);
    end(&g);
}

/* What is sent along does not come into the giver's process. */
static void descriptors_of_who_asks_are_dropped(void **state)
{
    struct giver g = start(ANSWER, 0);
    struct question q = {{g.where.key[0], g.where.key[1]}, {.id = 8, .most = 1}};
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec one = {&q, sizeof q};
    struct msghdr message = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    struct reply reply;
    int32_t status;
    int ends[2], way = vs_handover_connect(&g.where);
    char c;
    assert_int_equal(pipe(ends), 0);
    memcpy(CMSG_DATA(&control.header), &ends[1], sizeof ends[1]);
    for (unsigned i = 0; i < 300; i++) {
        assert_int_equal(sendmsg(way, &message, 0), sizeof q);
        assert_int_equal(recv(way, &reply, sizeof reply, 0), sizeof reply);
    }
    close(ends[1]);
    assert_int_equal(ask_once(&g.where, 7, &status), 0);
    assert_int_equal(read(ends[0], &c, 1), 0); /* nobody has it any more */
    close(ends[0]);
    close(way);
    end(&g);
}

static void flood(const struct vs_handover_address *where)
{
    struct question q = {.ask = {.id = 7, .most = 1}};
    int way = vs_handover_connect(where);
    alarm(30);
    for (;;)
        if (way < 0 || (send(way, &q, sizeof q, 0) < 0 && errno != EAGAIN && errno != EINTR))
            _exit(0);
}

/* Questions without the key, as fast as they go, by some who read no answer: those would fill what the kernel
 * lets the giver send. */
static void a_flood_of_strangers_keeps_nobody_out(void **state)
{
    struct giver g = start(ANSWER, 0);
    struct vs_handover_address name_alone = {.name = g.where.name};
    pid_t pid[4];
    for (unsigned i = 0; i < 4; i++) {
        pid[i] = fork();
        if (pid[i] == 0)
            flood(&name_alone);
    }
    usleep(200000);
    time_t began = time(NULL);
    uint32_t right = take_all(&g.where);
    assert_true(time(NULL) - began < 5);
    for (unsigned i = 0; i < 4; i++) {
        kill(pid[i], SIGKILL);
        waitpid(pid[i], NULL, 0);
    }
    assert_int_equal(right, PIECES);
    end(&g);
}

/* ---- addresses ---- */

static bool share_nothing(const struct vs_handover_address *a, const struct vs_handover_address *b)
{
    return a->name != b->name && a->key[0] != b->key[0] && a->key[1] != b->key[1] && a->proof != b->proof;
}

/* The parent's address is of no use with the child, who has had all of its memory. */
static void a_forks_child_has_an_address_of_its_own(void **state)
{
    struct giver g = start(SERVE_IN_CHILD, 0);
    int32_t status;
    struct vs_handover_address child = next_act(&g), mixed = g.where;
    mixed.name = child.name;
    assert_true(share_nothing(&child, &g.where));
    assert_int_equal(ask_once(&mixed, 7, &status), -EKEYREJECTED);
    assert_int_equal(take_all(&child), PIECES);
    assert_int_equal(take_all(&g.where), PIECES);
    assert_int_equal(write(g.pipe, "", 1), 1);
    end(&g);
}

static void who_begins_anew_has_another_key(void **state)
{
    struct giver g = start(CLOSE_ALL, 0);
    int32_t status;
    next_act(&g);
    assert_int_equal(ask_once(&g.where, 7, &status), -ECONNREFUSED);
    struct vs_handover_address anew = next_act(&g), mixed = g.where;
    mixed.name = anew.name;
    assert_true(share_nothing(&anew, &g.where));
    assert_int_equal(ask_once(&mixed, 7, &status), -EKEYREJECTED);
    end(&g);
}

/* ---- who answers ---- */

enum squat {
    SILENT,  /* hears, and goes */
    EMPTY,   /* a datagram with nothing in it */
    REFUSES, /* as the giver does without a key */
    SHORT,
    LONG,
    ERROR, /* what follows is whole, but the proof is a guess */
    FILES,
    ONE_BIT /* of the proof is wrong */
};

static void send_reply_of(int on, enum squat how, struct reply *reply, int file, struct sockaddr_un *to,
                          socklen_t to_bytes)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    char room[2 * sizeof *reply] = {0};
    struct iovec one = {room, sizeof *reply};
    struct msghdr message = {.msg_name = to, .msg_namelen = to_bytes, .msg_iov = &one, .msg_iovlen = 1};
    memcpy(room, reply, sizeof *reply);
    if (how == EMPTY)
        one.iov_len = 0;
    else if (how != REFUSES && how != ERROR) {
        one.iov_len += (how == LONG) - (size_t)(how == SHORT);
        memcpy(CMSG_DATA(&control.header), &file, sizeof file);
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
    }
    sendmsg(on, &message, 0);
}

/* Hears one question at ON, and answers it with FILE. */
static void squat(int on, enum squat how, uint64_t proof, int file)
{
    struct question q;
    struct sockaddr_un who;
    socklen_t who_bytes = sizeof who;
    struct reply reply = {.proof = how == REFUSES ? 0 : how == ONE_BIT ? flipped(proof, 63) : 1};
    if (recvfrom(on, &q, sizeof q, 0, (struct sockaddr *)&who, &who_bytes) != sizeof q)
        _exit(1);
    if (how == ERROR)
        reply.answer.status = 400;
    else if (how != REFUSES)
        reply.answer = (struct vs_handover_answer){.files = 1, .pieces = 1, .piece_bytes = 4096};
    if (how == SHORT || how == LONG)
        reply.proof = proof;
    if (how != SILENT)
        send_reply_of(on, how, &reply, file, &who, who_bytes);
    close(file);
    usleep(how == SILENT ? 400000 : 0);
    _exit(0);
}

/* A process that has taken WHERE's name; it gives a pipe's end, the other is *LEFT. */
static pid_t start_squatter(const struct vs_handover_address *where, enum squat how, int *left)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int ends[2], on = socket(AF_UNIX, SOCK_DGRAM, 0);
    int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "vramscope-arena-%016llx",
                     (unsigned long long)where->name);
    assert_int_equal(pipe(ends), 0);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    assert_int_equal(bind(on, (struct sockaddr *)&name, bytes), 0);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        alarm(30);
        squat(on, how, where->proof, ends[1]);
    }
    close(on);
    close(ends[1]);
    *left = ends[0];
    return pid;
}

/* What who asks a squatter gets; the squatter's descriptor must be nobody's when it ends. */
static int ask_squatter(const struct vs_handover_address *where, enum squat how)
{
    int left, ended = -1;
    int32_t status;
    char c;
    pid_t pid = start_squatter(where, how, &left);
    unsigned were_open = open_files();
    time_t began = time(NULL);
    int error = ask_once(where, 7, &status);
    assert_true(time(NULL) - began < 5);
    assert_int_equal(open_files(), were_open);
    assert_int_equal(waitpid(pid, &ended, 0), pid);
    assert_int_equal(ended, 0);
    assert_int_equal(read(left, &c, 1), 0);
    close(left);
    return error;
}

static struct vs_handover_address address_of_one_gone(void)
{
    struct giver g = start(ANSWER, 0);
    end(&g);
    return g.where;
}

static void who_takes_the_name_later_is_not_believed(void **state)
{
    struct vs_handover_address where = address_of_one_gone();
    assert_int_equal(ask_squatter(&where, EMPTY), -EBADMSG);
    assert_int_equal(ask_squatter(&where, SHORT), -EBADMSG);
    assert_int_equal(ask_squatter(&where, LONG), -EBADMSG);
    assert_int_equal(ask_squatter(&where, ERROR), -EBADMSG);
    assert_int_equal(ask_squatter(&where, FILES), -EBADMSG);
    assert_int_equal(ask_squatter(&where, ONE_BIT), -EBADMSG);
    assert_int_equal(ask_squatter(&where, REFUSES), -EKEYREJECTED);
}

static void ring(int unused) {}

/* Signals that come faster than it is looked whether the other still is there. */
static void who_hears_and_goes_is_not_waited_for(void **state)
{
    struct vs_handover_address where = address_of_one_gone();
    struct sigaction act = {.sa_handler = ring}, before;
    struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    assert_int_equal(ask_squatter(&where, SILENT), -ECONNREFUSED);
    sigaction(SIGALRM, &act, &before);
    setitimer(ITIMER_REAL, &often, NULL);
    int error = ask_squatter(&where, SILENT);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    assert_int_equal(error, -ECONNREFUSED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whoever_has_the_address_is_answered_as_any_user),
        cmocka_unit_test(another_user_namespace_is_no_hindrance),
        cmocka_unit_test(who_knows_the_name_alone_is_refused_and_told_nothing),
        cmocka_unit_test(each_bit_of_the_key_counts),
        cmocka_unit_test(a_question_of_another_length_is_none),
        cmocka_unit_test(descriptors_of_who_asks_are_dropped),
        cmocka_unit_test(a_flood_of_strangers_keeps_nobody_out),
        cmocka_unit_test(a_forks_child_has_an_address_of_its_own),
        cmocka_unit_test(who_begins_anew_has_another_key),
        cmocka_unit_test(who_takes_the_name_later_is_not_believed),
        cmocka_unit_test(who_hears_and_goes_is_not_waited_for),
    };
    signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
