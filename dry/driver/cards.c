/*
 * cards.c - which GPU the simulated driver stands in for.
 *
 *      SIMCUDA_GPU=H200          a key of cards.def, in any case, or one of its synonyms
 */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static const struct sim_card cards[] = {
#define CARD(...) {__VA_ARGS__},
#include "cards.def"
#undef CARD
};
#define CARDS (sizeof cards / sizeof *cards)

/* The tests' own: of the H200's capability, so that the same code is chosen, and otherwise small. */
static const struct sim_card own = {.key = "simcuda",
                                    .synonyms = "",
                                    .name = "simcuda simulated GPU",
                                    .capability = 90,
                                    .multiprocessors = 1,
                                    .l2 = 4 << 20,
                                    .bus = 64,
                                    .clock = 1000000,
                                    .memory_clock = 1000000,
                                    .memory = 4ull << 30,
                                    .context_mib = 64};

static const struct sim_capability capabilities[] = {
#define CAPABILITY(...) {__VA_ARGS__},
#include "cards.def"
#undef CAPABILITY
};

static bool listed(const char *list, const char *key)
{
    size_t length = strlen(key);
    for (const char *at = list; *at; at += strspn(at, ",")) {
        size_t here = strcspn(at, ",");
        if (here == length && strncasecmp(at, key, length) == 0)
            return true;
        at += here;
    }
    return false;
}

__attribute__((noreturn)) static void refuse(const char *key)
{
    dprintf(STDERR_FILENO, "simcuda: SIMCUDA_GPU=%s is no GPU that is known; there are", key);
    for (size_t i = 0; i < CARDS; i++)
        dprintf(STDERR_FILENO, "%s %s", i ? "," : "", cards[i].key);
    dprintf(STDERR_FILENO, "\n");
    _exit(2);
}

static const struct sim_card *choose(void)
{
    const char *key = getenv("SIMCUDA_GPU");
    if (!key || !*key)
        return sim_dry() ? cards : &own;
    for (size_t i = 0; i < CARDS; i++)
        if (strcasecmp(cards[i].key, key) == 0 || listed(cards[i].synonyms, key))
            return &cards[i];
    refuse(key);
}

const struct sim_card *sim_card(void)
{
    static const struct sim_card *chosen; /* the same for every thread that looks */
    const struct sim_card *card = __atomic_load_n(&chosen, __ATOMIC_RELAXED);
    if (!card)
        __atomic_store_n(&chosen, card = choose(), __ATOMIC_RELAXED);
    return card;
}

bool sim_card_is_real(void)
{
    return sim_card() != &own;
}

const struct sim_capability *sim_capability(void)
{
    const struct sim_capability *c = capabilities;
    while (c->capability != sim_card()->capability)
        c++;
    return c;
}

const char *simcuda_card_name(void)
{
    return sim_card()->name;
}

const char *simcuda_card_key(void)
{
    return sim_card()->key;
}

int simcuda_card_measured(void)
{
    return sim_card()->measured;
}
