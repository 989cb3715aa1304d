/*
 * colors.c - which phase and which role is drawn in which colour.
 *
 * Phases have Okabe and Ito's colours, which colour-blind readers tell apart; the yellow is darker, to be
 * read on white.  The four usual phases have one each in every picture, and differ in lightness by 6 and
 * more, so that they stay apart in print; what is left goes to the phases that peaked highest.  Roles have
 * Tol's muted scheme, as one picture may show both.
 */
#include "picture.h"

#include <string.h>

/* Lightness beside each (L* of CIELAB). */
static const struct {
    const char *phase, *color;
} palette[PICTURE_PHASES] = {
    {"forward", "#56b4e9"},   /* 70 */
    {"logits", "#d55e00"},    /* 54 */
    {"backward", "#0072b2"},  /* 46 */
    {"optimizer", "#a39100"}, /* 60 */
    {NULL, "#009e73"},        /* 58 */
    {NULL, "#cc79a7"},        /* 61 */
    {NULL, "#e69f00"},        /* 71 */
    {NULL, "#4d4d4d"},        /* 33 */
};
#define OTHER_COLOR "#a9a9a9"

/* Of each composition_role. */
static const char *const role_colors[COMPOSITION_ROLES] = {
    [VS_ROLE_UNTOLD] = "#c4b8a8",     [VS_ROLE_PARAMETER] = "#332288", [VS_ROLE_GRADIENT] = "#44aa99",
    [VS_ROLE_STATE] = "#88ccee",      [VS_ROLE_BUFFER] = "#661100",    [VS_ROLE_ACTIVATION] = "#ddcc77",
    [VS_ROLE_RECOMPUTED] = "#e8601c", [VS_ROLE_OUTPUT] = "#cc6677",    [VS_ROLE_INPUT] = "#999933",
    [VS_ROLE_TEMPORARY] = "#882255",  [VS_ROLE_WORKSPACE] = "#6699cc", [VS_ROLE_COMMUNICATION] = "#aa4499",
    [VS_ROLE_CACHE] = "#117733",      [VS_ROLE_COUNT] = "#b8c4c8", /* made in forward */
    [VS_ROLE_COUNT + 1] = "#c8b8b8",                               /* ... logits */
    [VS_ROLE_COUNT + 2] = "#a9b4c8",                               /* ... backward */
    [VS_ROLE_COUNT + 3] = "#c8c4a9",                               /* ... optimizer */
    [VS_ROLE_COUNT + 4] = "#b4c8b8",                               /* ... evaluation */
    [VS_ROLE_COUNT + 5] = "#bdbdbd",                               /* ... another phase */
    [VS_ROLE_COUNT + 6] = "#d5d0c8",                               /* made outside any phase */
};

/* The phase without a colour that peaked highest; 0: all have one, or are not shown. */
static size_t next_phase(const struct picture *p)
{
    size_t best = 0;
    for (size_t i = 1; i < p->phase_count; i++)
        if (!p->phases[i].color && (!best || p->phases[i].peak > p->phases[best].peak))
            best = i;
    return best;
}

void picture_color(struct picture *p)
{
    bool taken[PICTURE_PHASES] = {false};
    for (size_t i = 1; i < p->phase_count; i++)
        for (size_t k = 0; k < 4; k++)
            if (!strcmp(p->phases[i].name, palette[k].phase)) {
                p->phases[i].color = palette[k].color;
                taken[k] = taken[k] || p->phases[i].shown;
            }
    /* those without a name first; a usual phase's where it does not come */
    for (size_t k = 4; k < PICTURE_PHASES + 4; k++) {
        size_t i = next_phase(p);
        if (i && !taken[k % PICTURE_PHASES])
            p->phases[i].color = palette[k % PICTURE_PHASES].color;
    }
    for (size_t i = 1; i < p->phase_count; i++)
        if (!p->phases[i].color)
            p->phases[i].color = OTHER_COLOR;
}

const char *picture_group_name(const struct picture *p, size_t group)
{
    if (p->by == COMPOSITION_ROLE)
        return composition_role(group);
    return group == 0 ? "outside any phase, or unknown" : group < p->phase_count ? p->phases[group].name : "";
}

const char *picture_group_color(const struct picture *p, size_t group)
{
    if (p->by == COMPOSITION_ROLE)
        return role_colors[group < COMPOSITION_ROLES ? group : VS_ROLE_UNTOLD];
    return group && group < p->phase_count && p->phases[group].color ? p->phases[group].color
                                                                     : role_colors[VS_ROLE_UNTOLD];
}
