/* pathed.c - see pathed.h. */
#include "pathed.h"

#include <stdlib.h>

#include "names.h"
#include "unit_names.h"

/* Numbers in the order in which forward came to them, and behind these what it never came to. */
static void put_in_order(const struct program *p, struct pathed *u, size_t layers)
{
    uint16_t *order = xrealloc(NULL, (u->n + 1u) * sizeof *order), next = 0;
    for (size_t i = 0; i < u->n; i++)
        order[i] = EDIT_NO_UNIT;
    for (size_t i = 0; i < p->block_count && next < u->n; i++) {
        uint16_t layer = program_stack(p, &p->blocks[i])->layer;
        uint16_t unit = layer < layers ? u->units[layer] : EDIT_NO_UNIT;
        if (unit != EDIT_NO_UNIT && order[unit] == EDIT_NO_UNIT &&
            program_is_forward(p->facts, p->events[p->blocks[i].born].phase))
            order[unit] = next++;
    }
    for (size_t i = 0; i < u->n; i++)
        order[i] = order[i] == EDIT_NO_UNIT ? next++ : order[i];
    for (size_t i = 0; i < layers; i++)
        u->units[i] = u->units[i] == EDIT_NO_UNIT ? EDIT_NO_UNIT : order[u->units[i]];
    free(order);
}

struct pathed pathed_units(const struct program *p, const char *path)
{
    const struct edit_facts *f = p->facts;
    struct names names = {0};
    struct pathed u = {.units = xrealloc(NULL, (f->layer_count + 1) * sizeof *u.units)};
    for (size_t i = 0; i < f->layer_count; i++) {
        size_t length = unit_names_match(f->layer_names[i], path);
        uint16_t unit = length ? names_number(&names, f->layer_names[i], length) : EDIT_NO_UNIT;
        u.units[i] = unit < UNITS_MOST ? unit : EDIT_NO_UNIT;
    }
    u.n = names.n < UNITS_MOST ? (uint16_t)names.n : UNITS_MOST;
    put_in_order(p, &u, f->layer_count);
    names_free(&names);
    return u;
}

void pathed_free(struct pathed *u)
{
    free(u->units);
    *u = (struct pathed){0};
}
