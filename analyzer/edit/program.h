/*
 * program.h - the recorded program as blocks and events that can be edited and replayed.
 *
 *      events   | step 1: born 0, born 1, died 0, ... | step end | step 2 ...
 *               where another phase begins there is an event more (MOMENT_PHASE), which edits leave
 *      blocks   how large, what for (kind), in which unit of the model, by which call stack
 *
 * An edit makes another program of one, so edits can follow each other; struct edit_facts is the same for all
 * of them.  Sizes are bytes.  Not thread-safe; a program that nobody changes can be read by several threads.
 */
#ifndef VS_EDIT_PROGRAM_H
#define VS_EDIT_PROGRAM_H

#include "read/tape.h"

#define BLOCK_NEVER UINT32_MAX

enum trace_moment_what { MOMENT_BORN, MOMENT_DIED, MOMENT_STEP, MOMENT_REFUSED, MOMENT_PHASE };
struct trace_moment { /* without a gap, as programs are compared byte by byte */
    uint32_t block;   /* of BORN and DIED; of REFUSED: index into the tape's refusals */
    uint16_t phase;   /* index into phase_names */
    uint16_t what;
};

enum edit_kind {
    KIND_OTHER,
    KIND_PARAMETER,
    KIND_BUFFER,
    KIND_STATE,    /* the optimizer's, kept */
    KIND_GRADIENT, /* of a parameter */
    KIND_UPDATE,   /* temporary of an optimizer's step */
    KIND_LOGITS,   /* born in logits */
    KIND_SAVED,    /* born in forward, died in backward */
    KIND_FORWARD,  /* born and died in forward or logits */
    KIND_BACKWARD, /* born and died in backward */
    KIND_REQUEST   /* the one that was refused */
};

#define EDIT_NO_UNIT  UINT16_MAX
#define EDIT_NO_PHASE UINT16_MAX

struct edit_stack { /* what is known of a call stack */
    uint16_t unit;  /* of the model: one of its repeated layers, in the order of their first forward */
    uint16_t layer; /* 0: none; else a number of the layer's path */
    bool foreach;   /* PyTorch's foreach implementation of an optimizer */
    bool adam;      /* of Adam or AdamW */
    bool update;    /* in the optimizer's arithmetic, whichever it is */
    bool recurrent; /* in backward of cuDNN's recurrent layers */
    bool convolves; /* in backward of a convolution */
    bool squares;   /* in backward of a power, as norms that are written in Python have it */
    bool attends;   /* in a function, or a method of a class, that is named for attention */
    bool norm;      /* in a layer whose class is named for a norm */
    bool softmax;   /* in PyTorch's softmax, called in Python, or in backward of one */
};

struct edit_facts {
    uint16_t none, forward, logits, backward, optimizer,
        evaluation; /* index into phase_names; EDIT_NO_PHASE: unused */
    const char *const *phase_names;
    size_t phase_count;
    struct edit_stack *stacks; /* by id */
    size_t stack_count;
    uint16_t units;
    char *units_name;   /* "LlamaForCausalLM.model.layers.*"; NULL: none */
    char **layer_names; /* paths, by the layers' numbers from 1 on */
    size_t layer_count; /* numbers of them; 0: no layer has one */
    bool layers, roles; /* whether anything is known of them */
    bool imported;      /* of a snapshot, which has neither layers nor element types */
    bool types;         /* element types are known of most bytes (ELEMENT_... of read/asked.h) */
    struct asked_table asked;
    int64_t steps; /* that ended in the recording */
    bool cut;      /* the program ends with a request that was refused */
    int64_t ranks; /* of the job that the recording is of; 1 where nothing says that there are several */
    int64_t refusals;
    uint64_t limit; /* of the allocator when the request was refused; 0: none is known */
};

struct edit_block {
    uint64_t size;
    uint32_t stack, born, died; /* born, died: index into events, BLOCK_NEVER */
    uint32_t asked;             /* what it was made for as recorded: index into facts->asked.at; 0 unknown */
    uint16_t stream;
    uint8_t kind; /* enum edit_kind */
    uint8_t as;   /* of KIND_REQUEST: the kind that it would have been */
    uint8_t type; /* ELEMENT_...; as an edit left it */
    bool made;    /* by an edit */
};

struct program {
    const struct edit_facts *facts;
    struct edit_block *blocks;
    size_t block_count;
    struct trace_moment *events;
    size_t event_count;
};

/* Of the blocks of DEVICE, up to REFUSAL (its index; SIZE_MAX: all of them): then the request that was
 * refused is the last event.  0, or -1 with t->why.  FACTS live as long as the program and those made of it.
 */
int program_read(struct trace *t, int64_t device, size_t refusal, struct program *p,
                 struct edit_facts *facts);
void program_free(struct program *p);
void program_free_facts(struct edit_facts *f);

static inline const struct edit_stack *program_stack(const struct program *p, const struct edit_block *b)
{
    return &p->facts->stacks[b->stack < p->facts->stack_count ? b->stack : 0];
}
/* Whether a phase is part of a model's forward. */
static inline bool program_is_forward(const struct edit_facts *f, uint16_t phase)
{
    return phase && (phase == f->forward || phase == f->logits);
}
/* The kind of a block; of the request that was refused, what it would have been. */
static inline enum edit_kind program_kind(const struct edit_block *b)
{
    return (enum edit_kind)(b->kind == KIND_REQUEST ? b->as : b->kind);
}
static inline const struct asked *program_asked(const struct program *p, const struct edit_block *b)
{
    static const struct asked none;
    return b->asked < p->facts->asked.n ? &p->facts->asked.at[b->asked] : &none;
}
/* cuBLAS's workspace, which its first call makes, is as large as this by PyTorch's default. */
static inline bool program_is_workspace(uint64_t size)
{
    return size == UINT64_C(32) << 20 || size == (UINT64_C(8) << 20) + (UINT64_C(128) << 10);
}
/* ---- sizes, to find what is as large ---- */

struct sizes {
    uint64_t *at; /* bytes; owned */
    size_t n;
};

void sizes_sort(struct sizes *s);
/* Of a sorted list the index of the first that is SIZE or larger; n: there is none. */
size_t sizes_from(const struct sizes *s, uint64_t size);
bool sizes_have(const struct sizes *s, uint64_t size);
/* Of the blocks of more than LEAST bytes whose kind is in the set KINDS, 1u << KIND_...; sorted.  The caller
 * frees at. */
struct sizes program_sizes(const struct program *p, unsigned kinds, uint64_t least);
/* By event how many steps ended before it; one more entry says how many there are.  The caller frees it. */
uint32_t *program_steps(const struct program *p);
/* Bytes of all blocks of a kind that live at once, at the most. */
uint64_t program_most(const struct program *p, enum edit_kind kind);

/* ---- call stacks (stacks.c) ---- */

/* 0, or -1 with t->why. */
int stacks_read(struct trace *t, struct edit_facts *facts);
/* Which unit each stack of P is in, into its FACTS. */
void stacks_find_units(const struct program *p, struct edit_facts *facts);
/* By layer the number of its unit, whose name is the first LENGTHS[layer] bytes of the layer's path, of *N;
 * EDIT_NO_UNIT for 0.  They are numbered in the order in which forward came to them.  The caller frees it. */
uint16_t *stacks_units(const struct program *p, const size_t *lengths, uint16_t *n);

/* ---- which part of a module's path names the layer that is checkpointed, or sharded (unit_names.c) ---- */

#define UNITS_MOST 4096 /* what a model has beyond that is in no unit */

/* LENGTHS[i]: that of the unit's name in PATHS[i]; 0: it is in none.  Of the N paths none stands twice. */
void unit_names_find(const char *const *paths, size_t n, size_t *lengths);

/* How much of PATH is a module whose path is PATTERN, name by name, with * for a part of one; 0: none. */
size_t unit_names_match(const char *path, const char *pattern);

/* "ConvNeXt.features.*.*": the first LENGTH bytes of PATH without its modules' numbers.  The caller frees it.
 */
char *unit_names_pattern(const char *path, size_t length);

#endif
