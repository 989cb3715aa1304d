/* ends.h - between which figures a change's answer lies, given those of the programs that it can mean.
 */
#ifndef VS_WHATIF_ENDS_H
#define VS_WHATIF_ENDS_H

#include "edit/answer.h"

#define ENDS_ABOUT_RESERVED 40 /* a 40th of it, where kernels are not the recorded ones */

/* A program more that the change can mean: LOW and HIGH then enclose its figures. */
void ends_widen(struct answer *low, struct answer *high, const struct answer *more);
/* The lower figures to LOW and the higher ones to HIGH; ABOUT: with what is left to kernels. */
void ends_about(struct answer *low, struct answer *high, bool about);

#endif
