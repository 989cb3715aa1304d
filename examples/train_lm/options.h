/* options.h - the command line of train_lm. */
#ifndef EXAMPLES_TRAIN_LM_OPTIONS_H
#define EXAMPLES_TRAIN_LM_OPTIONS_H

#include "loss.h"
#include "model.h"

struct options {
    struct model_shape shape;
    int steps, report, seed;
    double rate;
    const struct loss *loss;
    const char *text;
    bool device_only;
};

/* Fills in what ARGV says; bad input, and --help, end the program. */
void options_parse(struct options *options, int argc, char **argv);

#endif
