/*
 * test_passing.c - descriptors from one process to another: all of them, the right ones, and an error where
 * the giver is gone or has lost its socket.  test_passing_strangers.c is about who may have them.
 */
#define _GNU_SOURCE
#include "passing_kit.h"

#include <poll.h>

TEST(a_thousand_pieces_need_few_open_files)
{
    struct giver g = start(ANSWER, 160);
    struct rlimit before, few = {160, 160};
    getrlimit(RLIMIT_NOFILE, &before);
    few.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_NOFILE, &few);
    assert_int_equal(take_all(&g.where), PIECES);
    assert_int_equal(take_all(&g.where), PIECES);
    setrlimit(RLIMIT_NOFILE, &before);
    end(&g);
}

TEST(the_givers_error_is_told)
{
    struct giver g = start(ANSWER, 0);
    int32_t status = 0;
    assert_int_equal(ask_once(&g.where, 8, &status), 0);
    assert_int_equal(status, 400);
    end(&g);
}

TEST(who_is_gone_is_not_waited_for)
{
    struct giver g = start(ANSWER, 0);
    int32_t status;
    end(&g);
    assert_int_equal(ask_once(&g.where, 7, &status), -ECONNREFUSED);
}

/* A child of the giver has all of its descriptors: it must not keep the name alive. */
TEST(a_forks_child_does_not_keep_the_name)
{
    struct giver g = start(LEAVE_CHILD, 0);
    int32_t status;
    pid_t child = (pid_t)next_act(&g).name;
    end(&g);
    time_t began = time(NULL);
    assert_int_equal(ask_once(&g.where, 7, &status), -ECONNREFUSED);
    assert_true(time(NULL) - began < 9);
    kill(child, SIGKILL);
}

/* The thread that answers notices, and what is asked for later is answered under another name. */
TEST(a_program_that_closes_everything_ends_it)
{
    struct giver g = start(CLOSE_ALL, 0);
    int32_t status;
    next_act(&g);
    time_t began = time(NULL);
    assert_int_equal(ask_once(&g.where, 7, &status), -ECONNREFUSED);
    assert_true(time(NULL) - began < 9);
    struct vs_passing_address anew = next_act(&g);
    assert_int_not_equal(anew.name, g.where.name);
    assert_int_equal(take_all(&anew), PIECES);
    end(&g);
}

/* A datagram of a stranger, of another size, with descriptors that nobody wants. */
TEST(nonsense_is_passed_over)
{
    struct giver g = start(ANSWER, 0);
    int32_t status;
    int way = vs_passing_connect(&g.where);
    assert_true(way >= 0);
    for (size_t bytes = 0; bytes < 40; bytes++)
        assert_int_equal(send(way, "nonsensenonsensenonsensenonsensenonsense", bytes, 0), bytes);
    close(way);
    assert_int_equal(ask_once(&g.where, 7, &status), 0);
    assert_int_equal(status, 0);
    end(&g);
}

/* Not all of an answer's descriptors fit: an error, and none of them stays. */
TEST(who_may_open_no_more_is_told)
{
    struct giver g = start(ANSWER, 0);
    struct vs_passing_request ask = {.id = 7, .most = VS_PASSING_FILES};
    struct vs_passing_answer answer;
    int files[VS_PASSING_FILES], way = vs_passing_connect(&g.where);
    struct rlimit before, few = {40, 0};
    assert_true(way >= 0);
    getrlimit(RLIMIT_NOFILE, &before);
    few.rlim_max = before.rlim_max;
    setrlimit(RLIMIT_NOFILE, &few);
    unsigned were_open = open_files();
    int error = vs_passing_request(way, &g.where, &ask, &answer, files);
    setrlimit(RLIMIT_NOFILE, &before);
    assert_int_equal(error, -EMFILE);
    assert_int_equal(open_files(), were_open);
    close(way);
    end(&g);
}

TEST(a_giver_who_may_open_no_more_answers_later)
{
    struct giver g = start(OPEN_ALL, 160);
    assert_int_equal(next_act(&g).name, 1);
    time_t began = time(NULL);
    assert_int_equal(take_all(&g.where), PIECES);
    assert_true(time(NULL) - began < 9);
    end(&g);
}

static void ring(int unused) {}

/* A program's own signals, at a rate that lets nothing be waited for in peace. */
TEST(signals_are_no_error)
{
    struct giver g = start(ANSWER, 0);
    struct sigaction act = {.sa_handler = ring}, before;
    struct itimerval often = {{0, 200}, {0, 200}}, never = {{0, 0}, {0, 0}};
    sigaction(SIGALRM, &act, &before);
    setitimer(ITIMER_REAL, &often, NULL);
    assert_int_equal(take_all(&g.where), PIECES);
    setitimer(ITIMER_REAL, &never, NULL);
    sigaction(SIGALRM, &before, NULL);
    end(&g);
}

TEST(two_ask_at_once)
{
    struct giver g = start(ANSWER, 0);
    pid_t pid = fork();
    if (pid == 0)
        _exit(take_all(&g.where) != PIECES);
    assert_int_equal(take_all(&g.where), PIECES);
    int ended = -1;
    assert_int_equal(waitpid(pid, &ended, 0), pid);
    assert_int_equal(ended, 0);
    end(&g);
}

/* Asks for as many as there may be, and does not read the answer: they stay on their way. */
static int leave_on_the_way(const struct vs_passing_address *where)
{
    struct question q = question_to(where, 7);
    int way = vs_passing_connect(where);
    struct pollfd p = {.fd = ask_raw(way, &q, sizeof q), .events = POLLIN};
    assert_true(p.fd >= 0);
    close(way);
    assert_int_equal(poll(&p, 1, 5000), 1);
    return p.fd;
}

/* The kernel sends no more than one process may open, of all that a user's processes have on their way; so
 * where many ask at once, and are slow to read, some are put off: none is forgotten. */
TEST(too_many_on_their_way_are_waited_for)
{
    bool root = geteuid() == 0; /* for whom there is no such end */
    if (root)
        assert_int_equal(setresuid(65532, 65532, 0), 0);
    struct giver g = start(ANSWER, 160);
    if (root)
        assert_int_equal(setresuid(0, 0, 0), 0);
    int first = leave_on_the_way(&g.where), second = leave_on_the_way(&g.where);
    pid_t pid = fork();
    if (pid == 0) {
        usleep(500000);
        _exit(0); /* the last who has them */
    }
    close(first);
    close(second);
    time_t began = time(NULL);
    assert_int_equal(take_all(&g.where), PIECES);
    assert_true(time(NULL) - began < 9);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    end(&g);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    return run_all_tests(NULL, NULL);
}
