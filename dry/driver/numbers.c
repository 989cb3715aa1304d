/*
 * numbers.c - moves the state of PyTorch's CPU generator (MT19937: Matsumoto and Nishimura, ACM TOMACS 8(1),
 * 1998) past random numbers that nobody looks at.
 *
 * A dry run does not fill large tensors of floats on the host (_dry_host of the Python package).  But what
 * the program draws afterwards, a mask or an order of samples, decides sizes and must be a real run's.  The
 * caller compares the result with PyTorch's own before it relies on the layout that Generator.get_state()
 * gives.
 */
#include "sim.h"

enum { WORDS = 624, AHEAD = 397 };

struct generator { /* how PyTorch's state begins */
    uint64_t seed;
    int32_t left, seeded; /* LEFT - 1 numbers are there before the words are made anew */
    uint64_t next, words[WORDS];
};

static uint32_t twisted(uint32_t high, uint32_t low, uint32_t ahead)
{
    uint32_t both = (high & 0x80000000u) | (low & 0x7fffffffu);
    return ahead ^ both >> 1 ^ (low & 1 ? 0x9908b0dfu : 0);
}

static void make_anew(uint32_t *w)
{
    int i = 0;
    for (; i < WORDS - AHEAD; i++)
        w[i] = twisted(w[i], w[i + 1], w[i + AHEAD]);
    for (; i < WORDS - 1; i++)
        w[i] = twisted(w[i], w[i + 1], w[i + AHEAD - WORDS]);
    w[i] = twisted(w[i], w[0], w[AHEAD - 1]);
}

/* Passes over COUNT numbers of 32 bits.  STATE, of at least 24 + 8 x 624 bytes, belongs to the caller alone.
 */
SIM_API void simcuda_pass_numbers(void *state, uint64_t count)
{
    struct generator *g = state;
    uint32_t words[WORDS];
    for (int i = 0; i < WORDS; i++)
        words[i] = (uint32_t)g->words[i];
    while (count > 0) {
        uint64_t there = g->left > 0 ? (uint64_t)g->left - 1 : 0, now = count < there ? count : there;
        g->left -= (int32_t)now;
        g->next += now;
        count -= now;
        if (count > 0) {
            make_anew(words);
            g->left = WORDS;
            g->next = 1;
            count--;
        }
    }
    for (int i = 0; i < WORDS; i++)
        g->words[i] = words[i];
}
