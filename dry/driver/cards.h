/*
 * cards.h - the GPU that is stood in for (cards.def).
 */
#ifndef DRY_DRIVER_CARDS_H
#define DRY_DRIVER_CARDS_H

#include <stdbool.h>
#include <stdint.h>

struct sim_card {
    const char *key, *synonyms; /* with commas between */
    const char *name;
    int capability; /* 90: 9.0 */
    int multiprocessors, l2, bus, clock, memory_clock, pci_device;
    uint64_t memory;
    int context_mib, code_mib;
    bool measured;
};
struct sim_capability {
    int capability, threads, blocks, shared, shared_of_block, doubles;
};

/* SIMCUDA_GPU's; without it the H200 in dry mode, else one of the driver's own that is no real one's.  An
 * unknown key ends the process: figures of another card than the one asked for would be false. */
const struct sim_card *sim_card(void);
bool sim_card_is_real(void); /* one of cards.def */
const struct sim_capability *sim_capability(void);

#endif
