/*
 * text.h - a text file as tokens, and batches of it.  Tokens begin as bytes; with a vocabulary above 256 the
 * most frequent pair of neighbours becomes a new token, again and again (byte pair encoding), until it is
 * full or no pair comes twice.
 */
#ifndef EXAMPLES_TRAIN_LM_TEXT_H
#define EXAMPLES_TRAIN_LM_TEXT_H

#include <stdint.h>

struct text {
    int32_t *token;
    int count;
    int used; /* distinct token ids, at most the vocabulary */
};

/* Reads PATH.  Ends the program with one line where it can't be read or is shorter than CONTEXT + 1 tokens.
 */
void text_read(struct text *text, const char *path, int vocab, int context);
void text_free(struct text *text);

/* A file that is surely there, for the default: the LICENSE beside or above the program.  NULL = not found.
 */
const char *text_default_path(void);

/* ROWS windows of CONTEXT tokens at random places and the token that follows each. */
struct batch {
    int rows, context;
    int32_t *window; /* [rows, context] */
    int32_t *target; /* [rows] */
};
void batch_init(struct batch *batch, int rows, int context);
void batch_next(struct batch *batch, const struct text *text, uint64_t *random);
void batch_free(struct batch *batch);

uint64_t random_next(uint64_t *state);

#endif
