/* test_facts.c - what is said of PyTorch's allocator is recorded once, whenever the recording begins. */

#include "unit/test.h"
#include "framework/torch.h"
#include "record/record.h"
#include "vramscope.h"

int vramscope_auto_allocator(unsigned op, int device, uint64_t number, uint64_t more, const char *key,
                             const char *value);

enum { SAID = 3 };
static int journal; /* its address is the recording's */
static bool on;
static int asked, begins_at; /* that many questions for the journal later, on another thread */
static unsigned recorded[SAID + 1];

_Atomic(vs_c10_stream_fn *) vs_torch_current_stream;

uint8_t vs_torch_stream_number(int64_t id)
{
    return (uint8_t)id;
}

void vs_torch_stream_distrust(void) {}

bool vs_record_enabled(void)
{
    return true;
}

struct vs_journal *vs_record_journal(void)
{
    struct vs_journal *found = on ? (struct vs_journal *)&journal : NULL;
    if (++asked == begins_at) {
        on = true;
        vs_torch_facts_due(); /* the other thread's first report */
    }
    return found;
}

uint64_t vs_record(struct vs_event *event)
{
    assert_in_range(event->address, 1, SAID);
    recorded[event->address]++;
    return 1;
}

static void say(uint64_t number)
{
    assert_int_equal(vramscope_auto_allocator(VS_OP_POOL_BEGIN, 0, number, 0, NULL, NULL), 1);
}

TEST(each_is_recorded_once)
{
    for (begins_at = 1; begins_at < 9; begins_at++) {
        on = false, asked = 0;
        for (uint64_t number = 1; number <= SAID; number++)
            recorded[number] = 0, say(number);
        on = true;
        vs_torch_facts_due();
        for (int number = 1; number <= SAID; number++)
            assert_int_equal(recorded[number], 1);
    }
}

TEST(only_so_many_wait)
{
    on = false, begins_at = 0;
    int kept = 0;
    while (kept < 1000 && vramscope_auto_allocator(VS_OP_POOL_BEGIN, 0, 1, 0, NULL, NULL))
        kept++;
    assert_int_equal(kept, 34); /* two places are for what the environment says */
    on = true, recorded[1] = 0;
    vs_torch_facts_due();
    assert_int_equal(recorded[1], 34);
    say(1);
    assert_int_equal(recorded[1], 35);
}
