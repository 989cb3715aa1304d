/*
 * source.h - whether a line of Python asks for fp32, read from its file (source.c; of losses: source_loss.c).
 *
 *      struct sources s = {.before_ns = start of the recording};
 *      says = sources_say(&s, "/.../modeling_bloom.py", 283, "BloomAttention.forward");
 *      sources_free(&s);
 *
 * A recording has where its lines stand, and not what they are.  In a run in fp32 nothing else shows that a
 * softmax is asked for fp32, or that a loss is given a copy in fp32: what they make in 16 bits is not there.
 */
#ifndef VS_EDIT_SOURCE_H
#define VS_EDIT_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum source_says {
    SOURCE_UNKNOWN, /* the file is not there, or is younger than the recording, or the line leaves it open */
    SOURCE_FP32,    /* the statement makes fp32 of what it is given */
    SOURCE_FP32_SCORES, /* the function makes its scores, the first product, of what it has made fp32 */
    SOURCE_AS_GIVEN     /* the function makes a product, up to the statement, and names no wider type */
};

struct sources {
    int64_t before_ns; /* by the wall clock: a file that was written later may be another one */
    struct source_file {
        char *path, *text; /* text NULL: it can't be read, or may be another one */
    } * files;
    size_t n;
};

/* Of the statement that begins at, or contains, LINE of PATH, in FUNCTION ("Class.name"). */
enum source_says sources_say(struct sources *s, const char *path, int64_t line, const char *function);

/* Of the statement that calls PyTorch's FUNCTION, a loss, or a module that does, in CALLER: SOURCE_FP32 where
 * it gives that fp32, or SOURCE_UNKNOWN. */
enum source_says sources_say_of_loss(struct sources *s, const char *path, int64_t line, const char *caller,
                                     const char *function);
void sources_free(struct sources *s);

/* Likewise of a TEXT. */
enum source_says source_says(const char *text, int64_t line, const char *function);
enum source_says source_says_of_loss(const char *text, int64_t line, const char *caller,
                                     const char *function);

#endif
