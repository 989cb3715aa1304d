/* model.h - `vramscope fit config.json`: a model without a program, trained by one that comes with vramscope.
 */
#ifndef VS_FIT_MODEL_H
#define VS_FIT_MODEL_H

#include "base/args.h"

/* Whether PATH is a config.json, or a directory with one. */
bool model_is(const char *path);
/* The command that trains the model of WORDS[0] by the others of N words, of which those that are options of
 * FIT go into OPTIONS; of "--zero=3:8", DeepSpeed's stage 3 over 8 ranks, these into *RANKS.  For free(),
 * NULL at its end; the words stay the caller's and may be cut.  NULL: an option is wrong, said. */
char **model_command(const struct command *fit, char **words, int n, void *options, const char **ranks);

#endif
