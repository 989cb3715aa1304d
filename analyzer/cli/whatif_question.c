/* whatif_question.c - reads what `vramscope whatif` is asked: policies, a capacity, PyTorch's settings. */
#include <stdlib.h>
#include <string.h>

#include "base/shown.h"
#include "base/units.h"
#include "whatif.h"

#define SIZE_MOST (INT64_C(1) << 50)

bool question_size(const char *text, uint64_t *bytes)
{
    int64_t n;
    if (!units_read_bytes(text, &n) || n < 1 || n >= SIZE_MOST)
        return false;
    *bytes = (uint64_t)n;
    return true;
}

/* A capacity of "80" is no device's: who left the unit out would read that nothing fits. */
int question_capacity(const char *text, uint64_t *bytes)
{
    if (!question_size(text, bytes))
        return complain("whatif: --capacity takes a size such as 80GiB, not '%s'", shown(text));
    if (*bytes < UINT64_C(1) << 20 && text[strspn(text, "0123456789. ")] == '\0')
        return complain("whatif: --capacity=%s would be bytes: give its unit, such as %sGiB", shown(text),
                        shown(text));
    return 0;
}

static int read_policies(struct question *q)
{
    if (!q->o->policy) {
        memset(q->wanted, true, sizeof q->wanted);
        return 0;
    }
    char *list = xstrdup(q->o->policy), *rest = list, *word;
    int bad = 0;
    while (!bad && (word = strsep(&rest, ","))) {
        int i = 0;
        while (i < FEED_POLICIES && strcmp(word, feed_policy_names[i]))
            i++;
        if (i < FEED_POLICIES) {
            q->wanted[i] = true;
            continue;
        }
        if (!strcmp(word, "packed")) {
            bad = complain(
                "whatif: the policy packed is gone: --policy=live is at most 1 %% lower in trainings");
            break;
        }
        const char *near = args_nearest(word, feed_policy_names);
        bad = near ? complain("whatif: no policy '%s': did you mean '%s'?", shown(word), near)
                   : complain("whatif: no policy '%s': there are live, torch-native, torch-expandable "
                              "and arena",
                              shown(word));
    }
    free(list);
    return bad;
}

/* Sizes named _mb are in MiB, as PyTorch has them. */
static bool read_mb(const char *value, uint64_t *bytes)
{
    char *text = xformat("%sMiB", value);
    bool good = question_size(text, bytes);
    free(text);
    return good;
}

static bool read_fraction(const char *value, double *out)
{
    char *end;
    *out = strtod(value, &end);
    return end != value && !*end && *out > 0 && *out < 1;
}

static bool read_divisions(const char *value, uint32_t *out)
{
    char *end;
    unsigned long n = strtoul(value, &end, 10);
    *out = (uint32_t)n;
    return end != value && !*end && n >= 1 && n <= 64 && (n & (n - 1)) == 0;
}

/* A pointer, as an argument may be worked out before READ is. */
static bool at_least(bool read, const uint64_t *bytes, uint64_t least)
{
    return read && *bytes >= least;
}

int question_setting(struct torch_settings *s, const char *word)
{
    const char *value = strchr(word, '=');
    size_t n = value ? (size_t)(value - word) : strlen(word);
    bool good = false, known = true;
#define IS(name) (value && n == strlen(name) && !strncmp(word, name, n))
    if (IS("max_split_size"))
        good = at_least(question_size(value + 1, &s->max_split), &s->max_split, UINT64_C(20) << 20);
    else if (IS("max_split_size_mb"))
        good = at_least(read_mb(value + 1, &s->max_split), &s->max_split, UINT64_C(20) << 20);
    else if (IS("large_segment_size"))
        good = at_least(question_size(value + 1, &s->large_segment), &s->large_segment, UINT64_C(2) << 20);
    else if (IS("large_segment_size_mb"))
        good = at_least(read_mb(value + 1, &s->large_segment), &s->large_segment, UINT64_C(2) << 20);
    else if (IS("roundup_power2_divisions"))
        good = read_divisions(value + 1, &s->roundup);
    else if (IS("garbage_collection_threshold"))
        good = read_fraction(value + 1, &s->gc_threshold);
    else
        known = false;
#undef IS
    if (!known)
        return complain(
            "whatif: '%s' is neither a setting nor the one file: vramscope whatif --help lists both",
            shown(word));
    if (!good)
        return complain("whatif: %.*s cannot be '%s': PyTorch takes sizes from 20 MiB (a segment: 2 MiB) on, "
                        "powers of two to 64, and fractions between 0 and 1",
                        (int)n, word, shown(value + 1));
    if (s->large_segment % (UINT64_C(2) << 20))
        return complain("whatif: large_segment_size takes a multiple of 2 MiB, such as 4MiB");
    return 0;
}

int question_read(struct question *q, char **words, int n)
{
    struct torch_settings settings = torch_defaults();
    q->settings = words;
    q->setting_count = n;
    int bad = q->o->capacity ? question_capacity(q->o->capacity, &q->capacity) : 0;
    if (!bad)
        bad = edits_check(&q->o->edits);
    if (!bad)
        bad = read_policies(q);
    for (int i = 0; i < n && !bad; i++)
        bad = question_setting(&settings, words[i]);
    if (!bad && settings.gc_threshold > 0 && !q->capacity)
        bad = complain("whatif: garbage_collection_threshold is a share of the memory: give --capacity too");
    return bad;
}
