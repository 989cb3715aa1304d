/* test_requests.c - the journal's page of requests: what is asked is carried out once or not at all. */
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/test.h"
#include "trace/journal/format.h"
#include "trace/journal/journal.h"

static char path[64];
static struct vs_journal *owner, *asker;

static int begin(void **state)
{
    struct vs_journal_config c = {.ring_slots = 64,
                                  .threads = 8,
                                  .contexts = 8,
                                  .devices = 4,
                                  .modules = 8,
                                  .frames = 64,
                                  .stacks = 64,
                                  .string_bytes = 4096};
    snprintf(path, sizeof path, "/tmp/vramscope-requests-%d.vsj", (int)getpid());
    unlink(path);
    return vs_journal_create(&owner, path, &c) || vs_journal_open(&asker, path, true);
}

static int end(void **state)
{
    vs_journal_close(asker);
    vs_journal_close(owner);
    return unlink(path);
}

static const struct vs_control_request suspend = {
    .kind = VS_CONTROL_SUSPEND, .keep = 2, .timeout_ns = 7, .to = "/there"};

static uint32_t ask(void)
{
    return vs_journal_ask(asker, &suspend, 1000);
}

static enum vs_request_state state_of(uint32_t number)
{
    struct vs_control_answer answer;
    return vs_journal_request_state(asker, number, &answer);
}

TEST(a_request_is_taken_once_and_answered, begin, end)
{
    struct vs_control_request q;
    struct vs_control_answer a = {0};
    assert_true(vs_journal_can_ask(asker));
    assert_false(vs_journal_requested(owner, &q, 0));
    uint32_t number = ask();
    assert_int_not_equal(number, 0);
    assert_int_equal(state_of(number), VS_REQUEST_WAITS);
    assert_true(vs_journal_requested(owner, &q, 1000));
    assert_int_equal(q.number, number);
    assert_int_equal(q.kind, VS_CONTROL_SUSPEND);
    assert_int_equal(q.keep, 2);
    assert_int_equal(q.timeout_ns, 7);
    assert_string_equal(q.to, "/there");
    assert_false(vs_journal_requested(owner, &q, 0));
    assert_int_equal(state_of(number), VS_REQUEST_TAKEN);
    assert_false(vs_journal_withdraw(asker, number));
    assert_int_equal(ask(), 0); /* another one has to wait */
    vs_journal_answer(owner, &(struct vs_control_answer){
                                 .number = number, .moved_bytes = 1ull << 40, .left_bytes = 3, .text = "so"});
    assert_int_equal(vs_journal_request_state(asker, number, &a), VS_REQUEST_ANSWERED);
    assert_int_equal(a.number, number);
    assert_int_equal(a.moved_bytes, 1ull << 40);
    assert_int_equal(a.left_bytes, 3);
    assert_string_equal(a.text, "so");
    uint32_t next = ask();
    assert_int_not_equal(next, number);
    assert_int_equal(state_of(number), VS_REQUEST_DROPPED);
    assert_int_equal(state_of(next), VS_REQUEST_WAITS);
}

TEST(a_request_that_is_withdrawn_or_late_is_never_taken, begin, end)
{
    struct vs_control_request q;
    uint32_t number = ask();
    assert_true(vs_journal_withdraw(asker, number));
    assert_false(vs_journal_withdraw(asker, number));
    assert_int_equal(state_of(number), VS_REQUEST_DROPPED);
    assert_false(vs_journal_requested(owner, &q, 0));
    number = ask();
    assert_false(vs_journal_requested(owner, &q, 1001));
    assert_int_equal(state_of(number), VS_REQUEST_DROPPED);
    assert_false(vs_journal_requested(owner, &q, 0));
}

TEST(an_asker_that_dies_leaves_nothing_that_the_next_one_cannot_replace, begin, end)
{
    struct vs_control_request q;
    uint32_t left = ask(), number = ask();
    assert_int_not_equal(number, left);
    assert_int_equal(state_of(left), VS_REQUEST_DROPPED);
    assert_true(vs_journal_requested(owner, &q, 0));
    assert_int_equal(q.number, number);
    vs_journal_answer(owner, &(struct vs_control_answer){.number = number});
    /* in the middle of its words: the page's number is the last thing that changes */
    unsigned char *page = vs_journal_row(asker, VS_SEC_PAGES, VS_PAGE, VS_PAGE_REQUESTS);
    memset(page + 16, 0x55, sizeof q);
    assert_false(vs_journal_requested(owner, &q, 0));
    number = ask();
    assert_true(vs_journal_requested(owner, &q, 0));
    assert_string_equal(q.to, "/there");
}

TEST(a_page_of_anything_is_bounded, begin, end)
{
    unsigned char *page = vs_journal_row(asker, VS_SEC_PAGES, VS_PAGE, VS_PAGE_REQUESTS);
    struct vs_control_request q;
    struct vs_control_answer a;
    unsigned taken = 0, answered = 0;
    for (unsigned byte = 0; byte < 256; byte++) {
        memset(page, (int)byte, VS_PAGE);
        uint32_t number = UINT32_C(0x01010101) * byte >> 2;
        if (vs_journal_request_state(asker, number, &a) == VS_REQUEST_ANSWERED) {
            assert_true(memchr(a.text, 0, sizeof a.text));
            answered++;
        }
        if (vs_journal_requested(owner, &q, 0)) {
            assert_true(memchr(q.to, 0, sizeof q.to));
            taken++;
        }
        vs_journal_withdraw(asker, number);
        ask();
    }
    assert_int_equal(taken, 64);
    assert_int_equal(answered, 64);
}

/* ---- one that is taken while it is withdrawn ---- */

enum { MOST = 1 << 20, ENOUGH = 20000 };
static _Atomic bool over;
static _Atomic unsigned char taken[MOST + 1];

static void *take_all(void *unused)
{
    struct vs_control_request q;
    while (!over)
        if (vs_journal_requested(owner, &q, 0)) {
            taken[q.number]++;
            vs_journal_answer(owner, &(struct vs_control_answer){.number = q.number});
        }
    return NULL;
}

/* After PAUSE turns; false: it was taken. */
static bool try_to_withdraw(uint32_t number, unsigned pause)
{
    for (volatile unsigned i = 0; i < pause; i++)
        continue;
    bool withdrawn = vs_journal_withdraw(asker, number);
    while (!withdrawn && state_of(number) != VS_REQUEST_ANSWERED)
        continue;
    return withdrawn;
}

TEST(it_is_either_withdrawn_or_carried_out, begin, end)
{
    static bool withdrawn[MOST + 1];
    unsigned count[2] = {0, 0};
    uint32_t number = 0;
    pthread_t thread;
    over = false;
    pthread_create(&thread, NULL, take_all, NULL);
    /* until either has come first often enough; on one processor alone that may never be */
    while (number < MOST && (count[0] < ENOUGH || count[1] < ENOUGH)) {
        uint32_t next = ask();
        if (next == 0)
            continue;
        number = next;
        withdrawn[number] = try_to_withdraw(number, number % 31);
        count[withdrawn[number]]++;
    }
    over = true;
    pthread_join(thread, NULL);
    for (uint32_t i = 1; i <= number; i++)
        assert_int_equal(taken[i], !withdrawn[i]);
}

TEST(a_journal_without_such_a_page_cannot_be_asked, begin, end)
{
    struct vs_journal *old;
    struct vs_now now = {.t = 5};
    vs_journal_publish(owner, &now);
    owner->header->place[VS_SEC_PAGES].capacity = 1; /* as vramscope 0.2.0 made it */
    assert_int_equal(vs_journal_open(&old, path, true), 0);
    assert_false(vs_journal_can_ask(old));
    assert_int_equal(vs_journal_now(old, &now), VS_NOW_SEEN);
    assert_int_equal(now.t, 5);
    vs_journal_close(old);
    owner->header->place[VS_SEC_PAGES].capacity = VS_JOURNAL_PAGES;
    assert_int_equal(vs_journal_open(&old, path, false), 0);
    assert_false(vs_journal_can_ask(old)); /* read only */
    vs_journal_close(old);
}
