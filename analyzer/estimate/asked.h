/*
 * asked.h - the parameters of a model as its own code makes them: transformers, in a process of its own.
 *
 * For what model.h refuses (other types and classes, quantized weights), and for models of which a part alone
 * is trained.  The process is `python3` of PATH, which runs _model_shapes.py of our package (its head says
 * what it prints).  The process sees no GPU, has no way to the network's hub, and is ended after two minutes.
 */
#ifndef VS_ESTIMATE_ASKED_H
#define VS_ESTIMATE_ASKED_H

#include "model.h"

struct asked_options {
    const char *script;                /* the path of _model_shapes.py */
    const char *lora, *qlora, *frozen; /* as the command line has them; NULL */
};

/* The model of the config.json at PATH; 0, or -1 with a line that says why not. */
int model_ask(struct model *m, const char *path, const struct asked_options *o, char *why, size_t size);

#endif
