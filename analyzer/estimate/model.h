/*
 * model.h - a transformer as a list of sizes, and how many parameters follow from them.
 *
 * The counts are exact: each is the sum over the weights that Hugging Face's class of that model_type makes,
 * as its source has them (transformers, src/transformers/models/NAME/modeling_NAME.py).  The tests hold it
 * against what that class counts.  An architecture that is not known here is refused, never guessed.
 */
#ifndef VS_ESTIMATE_MODEL_H
#define VS_ESTIMATE_MODEL_H

#include "read/config.h"

/* Which operations a layer is made of: what it keeps for backward follows (formulas.h). */
enum model_kind {
    MODEL_UNKNOWN, /* sizes by flags: no operations are known */
    MODEL_LLAMA,
    MODEL_QWEN3, /* norms of queries and keys */
    MODEL_GEMMA, /* norms that compute their weight's product in fp32 */
    MODEL_GEMMA2,
    MODEL_GEMMA3,
    MODEL_GPT2,
    MODEL_FALCON
};

struct model { /* a size that is not known is UNKNOWN */
    enum model_kind kind;
    char type[32];
    int64_t layers, hidden, heads, kv_heads, head_dim, ffn, vocab, positions;
    bool unsaid;        /* the file names no class: an output layer is assumed */
    int64_t outputs;    /* of each token: the vocabulary, or labels; 0: there is no layer behind the last */
    bool words;         /* the outputs are the vocabulary's */
    bool tied;          /* and their layer's weights are the embedding's */
    int64_t norms;      /* of a layer */
    double dropout;     /* of GPT-2: where it is not 0 masks are kept */
    int64_t parameters; /* all */
    int64_t embedding;  /* of them the embedding of tokens */
    int64_t layer;      /* of them one layer */
};

/* The model that C describes, read from PATH, with its counts.  0; -1 with a line that names what is missing,
 * or not known here. */
int model_read(struct model *m, const struct config *c, const char *path, char *why, size_t size);
/* A model of which nothing is known. */
struct model model_none(void);

/* Parameters of the part that is gathered at a time under ZeRO 3: the largest of a layer and the embedding;
 * UNKNOWN. */
int64_t model_largest(const struct model *m);

#endif
