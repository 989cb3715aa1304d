/* ends.h - between which figures a change's answer lies, given those of the programs that it can mean.
 */
#ifndef VS_WHATIF_ENDS_H
#define VS_WHATIF_ENDS_H

#include "edit/answer.h"

/* A program more that the change can mean: LOW and HIGH then enclose its figures. */
void ends_widen(struct answer *low, struct answer *high, const struct answer *more);
/* The lower figures to LOW and the higher ones to HIGH.  PART: reserved may be off by one part of so many
 * (edit_reserved_part), allocated then by a 100th; 0: neither is. */
void ends_about(struct answer *low, struct answer *high, int part);

#endif
