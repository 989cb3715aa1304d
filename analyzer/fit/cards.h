/* cards.h - the GPUs that a dry run can be of, as the simulated driver has them (dry/driver/cards.def). */
#ifndef VS_FIT_CARDS_H
#define VS_FIT_CARDS_H

#include "base/base.h"

struct fit_card {
    const char *key, *synonyms; /* with commas between */
    const char *name;           /* as the driver says it */
    int64_t bytes;
    int64_t context, code; /* that a process and PyTorch's kernels take beside what they ask for */
    bool measured;         /* these figures, on such a card */
};

/* By its key, or one of its synonyms, in any case; NULL: there is none. */
const struct fit_card *card_find(const char *key);
/* "H200, H100 and L40S"; the caller frees it. */
char *card_keys(void);

#endif
