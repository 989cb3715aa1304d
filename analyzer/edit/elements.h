/* elements.h - how many bytes an element of a block has, by its type, and which blocks are copies in
 * other elements that autocast made (elements.c). */
#ifndef VS_EDIT_ELEMENTS_H
#define VS_EDIT_ELEMENTS_H

#include "program.h"

/* Bytes of an element of TYPE; 0: unknown. */
uint64_t element_bytes(uint8_t type);

static inline bool element_is_half(uint8_t type)
{
    return type == ELEMENT_FLOAT16 || type == ELEMENT_BFLOAT16;
}

/* What a change of types makes narrower: floating-point numbers; of an unknown type it is taken for one. */
static inline bool element_is_float(uint8_t type)
{
    return type == ELEMENT_UNKNOWN || type == ELEMENT_FLOAT32 || type == ELEMENT_FLOAT64 ||
           element_is_half(type);
}

enum cast { /* that autocast made, in 16 bits */
            CAST_NONE,
            CAST_WEIGHT, /* of a parameter, for as long as autocast keeps it */
            CAST_DATA    /* perhaps of what a layer is given, or a gradient before it is made wide */
};

/* Of each block, an enum cast; the caller frees it. */
uint8_t *element_casts(const struct program *p);
/* Whether there are such copies of parameters. */
bool elements_are_cast(const struct program *p);
bool elements_are_cast(const struct program *p);

#endif
