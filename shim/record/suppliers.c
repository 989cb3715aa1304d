/* suppliers.c - what record.h has of other folders before they supply it: functions that do nothing. */
#include "recording.h"

#include <stdio.h>

#include "core/hot.h"

static uint32_t no_range(void)
{
    return 0;
}

static uint32_t no_stack(struct vs_journal *j, int skip)
{
    return 0;
}

static uint32_t no_python_stack(struct vs_journal *j)
{
    return 0;
}

static void no_track(struct vs_journal *j) {}

static void no_before(struct vs_event *event) {}

static void no_after(const struct vs_event *event, uint64_t seq) {}

static void nothing(void) {}

static void no_round(struct vs_journal *j) {}

static void nobody(struct vs_recording *r) {}

void vs_control_refuse(const struct vs_control_request *request, const struct vs_control_block *blocks,
                       size_t count, struct vs_control_answer *answer)
{
    answer->status = VS_CONTROL_REFUSED;
    snprintf(answer->text, sizeof answer->text,
             "it does not run under the arena: vramscope run --allocator=arena");
}

VS_HOT struct vs_suppliers vs_suppliers = {.range = no_range,
                                           .stack = no_stack,
                                           .python_stack = no_python_stack,
                                           .track = no_track,
                                           .before = no_before,
                                           .after = no_after,
                                           .prepare = nothing,
                                           .round = no_round,
                                           .second_thread = nobody,
                                           .last_look = nobody,
                                           .control = vs_control_refuse};
