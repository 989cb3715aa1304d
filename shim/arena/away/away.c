/* away.c - see away.h. */
#include "away.h"

#include <stdio.h>

void vs_away_carry_out(const struct vs_control_request *request, const struct vs_control_block *blocks,
                       size_t count, bool held, struct vs_control_answer *answer)
{
    answer->status = VS_CONTROL_REFUSED;
    snprintf(answer->text, sizeof answer->text, "nothing of this process can be suspended");
}

bool vs_away_touches(uint64_t address, uint64_t size)
{
    return false;
}

void vs_away_needed(void) {}

void vs_away_before_malloc(void) {}

void vs_away_arena_ends(struct vs_served *s) {}
