/* options.c - the command line: one row an option, from which the help is printed. */
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* X(name, field, default, least, most, help) */
#define NUMBERS(X)                                                                                           \
    X("--steps", steps, 60, 1, 1000000, "training iterations")                                               \
    X("--batch", shape.rows, 256, 1, 1 << 20, "positions that one iteration learns from")                    \
    X("--context", shape.context, 8, 1, 1024, "tokens before the one to predict")                            \
    X("--hidden", shape.hidden, 128, 8, 16384, "width of the embedding and of the layers")                   \
    X("--layers", shape.layers, 2, 1, MODEL_MAX_LAYERS, "hidden layers")                                     \
    X("--vocab", shape.vocab, 2048, 256, 1 << 18, "tokens: 256 = bytes; above, byte pairs")                  \
    X("--report", report, 10, 1, 1000000, "iterations between two printed losses")                           \
    X("--seed", seed, 1, 0, 1000000000, "of weights and batches")

static void help(void)
{
    printf(
        "usage: train_lm [OPTION...] [TEXT]\n\n"
        "Trains a small language model on a text file through the CUDA driver API, its phases marked for\n"
        "vramscope.  On the simulated driver it computes on the CPU.  TEXT is the LICENSE unless named.\n\n");
#define X(name, field, standard, least, most, text) printf("  %-10s N   %s (%d)\n", name, text, standard);
    NUMBERS(X)
#undef X
    printf("  %-10s X   learning rate (0.003)\n  %-10s X   output layer: %s (naive)\n"
           "  --device       name the device that it would use with these options, and end\n"
           "\nExit status: 0 the loss fell, 1 it did not or something failed, 2 bad usage.\n",
           "--rate", "--loss", LOSS_NAMES);
}

static void fail(const char *option, const char *value, const char *what)
{
    fprintf(stderr, "train_lm: %s%s%s: %s; see train_lm --help\n", option, value ? " " : "",
            value ? value : "", what);
    exit(2);
}

static int number(const char *option, const char *value, int least, int most)
{
    char *end = NULL, what[64];
    errno = 0;
    long result = strtol(value, &end, 10);
    if (errno == 0 && end != value && *end == 0 && result >= least && result <= most)
        return (int)result;
    snprintf(what, sizeof what, "not a whole number from %d to %d", least, most);
    fail(option, value, what);
    return 0;
}

/* Whether NAME is an option with a value, which then is stored. */
static bool set(struct options *o, const char *name, const char *value)
{
#define X(option, field, standard, least, most, text)                                                        \
    if (strcmp(name, option) == 0) {                                                                         \
        if (!value)                                                                                          \
            fail(name, NULL, "wants a value");                                                               \
        o->field = number(name, value, least, most);                                                         \
        return true;                                                                                         \
    }
    NUMBERS(X)
#undef X
    if (strcmp(name, "--rate") != 0 && strcmp(name, "--loss") != 0)
        return false;
    if (!value)
        fail(name, NULL, "wants a value");
    if (strcmp(name, "--loss") == 0) {
        o->loss = loss_named(value);
        if (!o->loss)
            fail(name, value, "there is no such loss; the losses are: " LOSS_NAMES);
        return true;
    }
    char *end = NULL;
    o->rate = strtod(value, &end);
    if (end == value || *end != 0 || !(o->rate > 0 && o->rate < 1))
        fail(name, value, "not a number between 0 and 1");
    return true;
}

void options_parse(struct options *o, int argc, char **argv)
{
    *o = (struct options){.rate = 0.003, .loss = loss_named("naive")};
#define X(option, field, standard, least, most, text) o->field = standard;
    NUMBERS(X)
#undef X
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            help();
            exit(0);
        }
        if (strcmp(argv[i], "--device") == 0)
            o->device_only = true;
        else if (set(o, argv[i], argv[i + 1]))
            i++;
        else if (argv[i][0] == '-')
            fail(argv[i], NULL, "no such option");
        else if (o->text)
            fail(argv[i], NULL, "one text is enough");
        else
            o->text = argv[i];
    }
    if (!o->text && !(o->text = text_default_path()))
        fail("TEXT", NULL, "no LICENSE here to learn from: name a text file");
}
