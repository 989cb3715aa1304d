/*
 * test_passing_strangers.c - who is handed descriptors, and whose are taken: all who have the address, of
 * whatever user, and nobody else; and a stranger makes nobody wait.
 */
#define _GNU_SOURCE
#include "passing_kit.h"

#include <sched.h>

static uint64_t flipped(uint64_t word, unsigned bit)
{
    return word ^ (uint64_t)1 << bit;
}

/* Runs WHAT in a child, as UID where that is not 0: what it returns. */
static int in_child(uid_t uid, int (*what)(const struct vs_passing_address *),
                    const struct vs_passing_address *where)
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

static int takes_all(const struct vs_passing_address *where)
{
    return take_all(where) != PIECES;
}

TEST(whoever_has_the_address_is_answered_as_any_user)
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

static int takes_all_elsewhere(const struct vs_passing_address *where)
{
    return unshare(CLONE_NEWUSER) == 0 ? takes_all(where) : NO_NAMESPACE;
}

TEST(another_user_namespace_is_no_hindrance)
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

/* One who knows the name alone. */
static int is_refused(const struct vs_passing_address *where)
{
    struct vs_passing_address guess = {.name = where->name, .proof = 1};
    struct question q = question_to(&guess, 7);
    struct reply reply;
    int32_t status;
    int way = vs_passing_connect(&guess), own = ask_raw(way, &q, sizeof q);
    if (own < 0 || recv(own, &reply, sizeof reply, 0) != 0) /* closed, and nothing said */
        return 1;
    return ask_once(&guess, 7, &status) != -EKEYREJECTED;
}

TEST(who_knows_the_name_alone_is_refused_and_told_nothing)
{
    struct giver g = start(ANSWER, 0);
    time_t began = time(NULL);
    assert_int_equal(in_child(0, is_refused, &g.where), 0);
    if (geteuid() == 0)
        assert_int_equal(in_child(65534, is_refused, &g.where), 0);
    assert_true(time(NULL) - began < 9);
    assert_int_equal(take_all(&g.where), PIECES);
    end(&g);
}

TEST(each_bit_of_the_key_counts)
{
    struct giver g = start(ANSWER, 0);
    int32_t status;
    for (unsigned bit = 0; bit < 128; bit++) {
        struct vs_passing_address wrong = g.where;
        wrong.key[bit / 64] = flipped(wrong.key[bit / 64], bit % 64);
        assert_int_equal(ask_once(&wrong, 7, &status), -EKEYREJECTED);
    }
    assert_int_equal(ask_once(&g.where, 7, &status), 0);
    end(&g);
}

/* Questions of another length, the key in them or not. */
TEST(a_question_of_another_length_is_none)
{
    struct giver g = start(ANSWER, 0);
    char long_one[2 * sizeof(struct question)] = {0}, c;
    struct question q = question_to(&g.where, 7);
    int32_t status;
    int way = vs_passing_connect(&g.where);
    assert_true(way >= 0);
    memcpy(long_one, &q, sizeof q);
    for (size_t bytes = 0; bytes <= sizeof long_one; bytes++) {
        if (bytes == sizeof q)
            continue;
        int own = ask_raw(way, long_one, bytes);
        assert_true(own >= 0);
        assert_int_equal(recv(own, &c, 1, 0), 0);
        close(own);
    }
    assert_int_equal(ask_once(&g.where, 7, &status), 0);
    close(way);
    end(&g);
}

/* With the key or without, and nowhere to answer to: a pipe's end, none, or more than one. */
TEST(descriptors_of_who_asks_do_not_stay)
{
    struct giver g = start(ANSWER, 200);
    int32_t status;
    int ends[2], way = vs_passing_connect(&g.where);
    char c;
    assert_int_equal(pipe(ends), 0);
    for (unsigned i = 0; i < 600; i++) {
        struct question q = question_to(&g.where, 7);
        q.key[0] += i % 2;
        assert_true(put_question(way, &q, sizeof q, ends[1]));
        assert_int_equal(send(way, &q, sizeof q, 0), sizeof q);
    }
    close(ends[1]);
    assert_int_equal(ask_once(&g.where, 7, &status), 0);
    assert_int_equal(read(ends[0], &c, 1), 0); /* nobody has it any more */
    close(ends[0]);
    close(way);
    end(&g);
}

/* Who asked is gone before he is answered, and his socket's name is another's by then. */
TEST(who_takes_the_name_of_who_asked_gets_nothing)
{
    struct giver g = start(ANSWER, 0);
    struct question q = question_to(&g.where, 7);
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    socklen_t bytes = sizeof name;
    struct reply reply;
    int way = vs_passing_connect(&g.where);
    assert_int_equal(bind(way, (struct sockaddr *)&name, sizeof name.sun_family), 0);
    assert_int_equal(getsockname(way, (struct sockaddr *)&name, &bytes), 0);
    kill(g.pid, SIGSTOP); /* until the name is another's */
    int own = ask_raw(way, &q, sizeof q), other = socket(AF_UNIX, SOCK_DGRAM, 0);
    close(way);
    assert_int_equal(bind(other, (struct sockaddr *)&name, bytes), 0);
    kill(g.pid, SIGCONT);
    assert_int_equal(recv(own, &reply, sizeof reply, 0), sizeof reply);
    assert_int_equal(recv(other, &reply, sizeof reply, MSG_DONTWAIT), -1);
    close(own);
    close(other);
    end(&g);
}

static void flood(const struct vs_passing_address *where, int begun)
{
    struct question q = {.ask = {.id = 7, .most = 1}};
    int way = vs_passing_connect(where);
    alarm(30);
    for (int i = 0;; i++) {
        if (way < 0 || (send(way, &q, sizeof q, 0) < 0 && errno != EAGAIN && errno != EINTR))
            _exit(0);
        if (i == 1000 && write(begun, "", 1) != 1)
            _exit(1);
    }
}

/* Questions without the key, as fast as they go, by some who read no answer: those would fill what the kernel
 * lets the giver send. */
TEST(a_flood_of_strangers_keeps_nobody_out)
{
    struct giver g = start(ANSWER, 0);
    struct vs_passing_address name_alone = {.name = g.where.name};
    pid_t pid[4];
    int begun[2];
    char one;
    assert_int_equal(pipe(begun), 0);
    for (unsigned i = 0; i < 4; i++) {
        pid[i] = fork();
        if (pid[i] == 0)
            flood(&name_alone, begun[1]);
    }
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(read(begun[0], &one, 1), 1);
    close(begun[0]);
    close(begun[1]);
    time_t began = time(NULL);
    uint32_t right = take_all(&g.where);
    assert_true(time(NULL) - began < 9);
    for (unsigned i = 0; i < 4; i++) {
        kill(pid[i], SIGKILL);
        waitpid(pid[i], NULL, 0);
    }
    assert_int_equal(right, PIECES);
    end(&g);
}

/* ---- addresses ---- */

static bool share_nothing(const struct vs_passing_address *a, const struct vs_passing_address *b)
{
    return a->name != b->name && a->key[0] != b->key[0] && a->key[1] != b->key[1] && a->proof != b->proof;
}

/* The parent's address is of no use with the child, who has had all of its memory. */
TEST(a_forks_child_has_an_address_of_its_own)
{
    struct giver g = start(SERVE_IN_CHILD, 0);
    int32_t status;
    /* The giver forks only once its thread answers.  A thread that starts allocates under AddressSanitizer,
     * whose lock would stay taken in the child. */
    assert_int_equal(ask_once(&g.where, 7, &status), 0);
    struct vs_passing_address child = next_act(&g), mixed = g.where;
    mixed.name = child.name;
    assert_true(share_nothing(&child, &g.where));
    assert_int_equal(ask_once(&mixed, 7, &status), -EKEYREJECTED);
    assert_int_equal(take_all(&child), PIECES);
    assert_int_equal(take_all(&g.where), PIECES);
    assert_int_equal(write(g.pipe, "", 1), 1);
    end(&g);
}

TEST(who_begins_anew_has_another_key)
{
    struct giver g = start(CLOSE_ALL, 0);
    int32_t status;
    next_act(&g);
    assert_int_equal(ask_once(&g.where, 7, &status), -ECONNREFUSED);
    struct vs_passing_address anew = next_act(&g), mixed = g.where;
    mixed.name = anew.name;
    assert_true(share_nothing(&anew, &g.where));
    assert_int_equal(ask_once(&mixed, 7, &status), -EKEYREJECTED);
    end(&g);
}

/* ---- who answers ---- */

enum squat {
    SILENT, /* hears, and goes */
    DROPS,  /* as the giver does without a key */
    SHORT,
    LONG,
    ERROR, /* what follows is whole, but the proof is a guess */
    FILES,
    ONE_BIT /* of the proof is wrong */
};

static void send_reply_of(int back, enum squat how, const struct reply *reply, int file)
{
    char room[2 * sizeof *reply] = {0};
    size_t bytes = sizeof *reply + (how == LONG) - (size_t)(how == SHORT);
    memcpy(room, reply, sizeof *reply);
    if (how == ERROR)
        send(back, room, sizeof *reply, 0);
    else
        put_question(back, room, bytes, file);
}

static int hear_question(int on)
{
    struct question q;
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec one = {&q, sizeof q};
    struct msghdr message = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    int back;
    if (recvmsg(on, &message, 0) != sizeof q || !CMSG_FIRSTHDR(&message))
        _exit(1);
    memcpy(&back, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof back);
    return back;
}

/* Hears one question at ON, and answers it with FILE. */
static void squat(int on, enum squat how, uint64_t proof, int file)
{
    struct reply reply = {.proof = how == ONE_BIT ? flipped(proof, 63) : 1};
    int back = hear_question(on);
    if (how == ERROR)
        reply.answer.status = 400;
    else
        reply.answer = (struct vs_passing_answer){.files = 1, .pieces = 1, .piece_bytes = 4096};
    if (how == SHORT || how == LONG)
        reply.proof = proof;
    if (how == DROPS)
        close(back);
    else if (how != SILENT)
        send_reply_of(back, how, &reply, file);
    close(file);
    usleep(how == SILENT || how == DROPS ? 400000 : 0);
    _exit(0);
}

/* A process that has taken WHERE's name; it gives a pipe's end, the other is *LEFT. */
static pid_t start_squatter(const struct vs_passing_address *where, enum squat how, int *left)
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
static int ask_squatter(const struct vs_passing_address *where, enum squat how)
{
    int left, ended = -1;
    int32_t status;
    char c;
    pid_t pid = start_squatter(where, how, &left);
    unsigned were_open = open_files();
    time_t began = time(NULL);
    int error = ask_once(where, 7, &status);
    assert_true(time(NULL) - began < 9);
    assert_int_equal(open_files(), were_open);
    assert_int_equal(waitpid(pid, &ended, 0), pid);
    assert_int_equal(ended, 0);
    assert_int_equal(read(left, &c, 1), 0);
    close(left);
    return error;
}

static struct vs_passing_address address_of_one_gone(void)
{
    struct giver g = start(ANSWER, 0);
    end(&g);
    return g.where;
}

TEST(who_takes_the_name_later_is_not_believed)
{
    struct vs_passing_address where = address_of_one_gone();
    assert_int_equal(ask_squatter(&where, DROPS), -EKEYREJECTED);
    assert_int_equal(ask_squatter(&where, SHORT), -EBADMSG);
    assert_int_equal(ask_squatter(&where, LONG), -EBADMSG);
    assert_int_equal(ask_squatter(&where, ERROR), -EBADMSG);
    assert_int_equal(ask_squatter(&where, FILES), -EBADMSG);
    assert_int_equal(ask_squatter(&where, ONE_BIT), -EBADMSG);
}

/* Its sockets close one after the other: who asks sees that the second is closed, or, where the machine is
 * busy, still open. */
static bool has_ended(int error)
{
    return error == -ECONNREFUSED || error == -EKEYREJECTED;
}

static void ring(int unused) {}

/* Signals that come faster than it is looked whether the other still is there. */
TEST(who_hears_and_goes_is_not_waited_for)
{
    struct vs_passing_address where = address_of_one_gone();
    struct sigaction act = {.sa_handler = ring}, before;
    struct itimerval often = {{0, 20000}, {0, 20000}}, never = {{0, 0}, {0, 0}};
    assert_true(has_ended(ask_squatter(&where, SILENT)));
    sigaction(SIGALRM, &act, &before);
    setitimer(ITIMER_REAL, &often, NULL);
    int error = ask_squatter(&where, SILENT);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    assert_true(has_ended(error));
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    return run_all_tests(NULL, NULL);
}
