/* model.h - `vramscope fit config.json`: a model without a program, trained by one that comes with vramscope.
 */
#ifndef VS_FIT_MODEL_H
#define VS_FIT_MODEL_H

#include "base/args.h"

/* If the first operand of ARGV is a config.json, or a directory with one, the arguments of a `fit` whose
 * command trains that model, with options of ROWS in front; *ARGC says how many.  Else ARGV itself.
 * "--zero=3:8" is DeepSpeed's stage 3 over 8 ranks.  What is made here lives as long as the process; a caller
 * may free the array. */
char **model_arguments(const struct option_row *rows, int *argc, char **argv);

#endif
