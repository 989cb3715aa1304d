/*
 * forecast.h - foretells when a block is used next, by how it was used so far, and says by that which block
 * goes to the host first; time is a count of works.
 *
 * A program's loop uses what lives on in turns that repeat: weights in forward, backward and optimizer, say.
 * Uses close to each other are one.  The last gaps between them are held against those that came one, two,
 * three, four gaps before; if one of these distances fits, the next gap is what followed then.
 */
#ifndef VS_ARENA_AWAY_FORECAST_H
#define VS_ARENA_AWAY_FORECAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vs_served;
struct vs_watched;

#define VS_FORECAST_GAPS 8u

struct vs_forecast {
    uint64_t begun, last;           /* of the latest use: its first work and its last; at first its birth */
    uint32_t gap[VS_FORECAST_GAPS]; /* from beginning to beginning, the latest first */
    uint32_t gaps;
    uint32_t foretold; /* the next one; 0: unknown */
};

static inline struct vs_forecast vs_forecast_born(uint64_t now)
{
    return (struct vs_forecast){.begun = now, .last = now};
}
void vs_forecast_used(struct vs_forecast *f, uint64_t now);
/* Of the gaps that are known. */
uint32_t vs_forecast_longest(const struct vs_forecast *f);

/* Works from NOW to the next use; *KNOWN: as foretold, otherwise as many as it has not been used for. */
uint64_t vs_forecast_next(const struct vs_forecast *f, uint64_t now, bool *known);

/* Some blocks of S are to go, none that was given to work from OLDEST on or whose address is stored. */
void vs_forecast_begin(const struct vs_served *s, uint64_t oldest, uint64_t now);
/* The one that goes next where NEED bytes lack: of those that are needed about last the one that fits best.
 * NULL: each was chosen. */
struct vs_watched *vs_forecast_choose(uint64_t need);

#endif
