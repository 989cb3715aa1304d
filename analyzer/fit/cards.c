/* cards.c - see cards.h. */
#include "cards.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MIB INT64_C(1048576)

static const struct fit_card cards[] = {
#define CARD(key, synonyms, name, capability, multiprocessors, l2, bus, clock, memory_clock, pci, bytes,     \
             context, code, measured)                                                                        \
    {key, synonyms, name, bytes, (context)*MIB, (code)*MIB, measured},
#include <cards.def>
#undef CARD
};
#define CARDS (sizeof cards / sizeof *cards)

static bool is_listed(const char *list, const char *key)
{
    size_t n = strlen(key);
    for (const char *at = list; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == n && !strncasecmp(at, key, n))
            return true;
    return false;
}

const struct fit_card *card_find(const char *key)
{
    for (size_t i = 0; i < CARDS; i++)
        if (!strcasecmp(cards[i].key, key) || is_listed(cards[i].synonyms, key))
            return &cards[i];
    return NULL;
}

char *card_keys(void)
{
    char *text = xstrdup(cards[0].key);
    for (size_t i = 1; i < CARDS; i++) {
        char *longer = xformat("%s%s%s", text, i + 1 < CARDS ? ", " : " and ", cards[i].key);
        free(text);
        text = longer;
    }
    return text;
}
