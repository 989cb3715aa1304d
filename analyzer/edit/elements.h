/*
 * elements.h - how many bytes an element of a block has, and which blocks are copies in other elements that
 * autocast made (elements.c).  Where types are not recorded, widths.h knows what sizes tell.
 */
#ifndef VS_EDIT_ELEMENTS_H
#define VS_EDIT_ELEMENTS_H

#include "program.h"

/* Bytes of an element of TYPE; 0: unknown. */
uint64_t element_bytes(uint8_t type);
/* The type's name, static. */
const char *element_name(uint8_t type);

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
            CAST_WEIGHT,  /* of a parameter, for as long as autocast keeps it */
            CAST_DATA,    /* perhaps of what a layer is given */
            CAST_INPUT,   /* of what a layer is given, which is the block in struct casts */
            CAST_GRADIENT /* what may be a gradient before it is made as wide as its parameter */
};

struct casts {
    uint8_t *of;    /* by block, an enum cast */
    uint32_t *from; /* by block: of CAST_INPUT, what it is a copy of; else BLOCK_NEVER */
};

struct casts element_casts(const struct program *p);
void element_free_casts(struct casts *c);

#endif
