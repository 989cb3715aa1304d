/*
 * glob.c - shell patterns without malloc.
 *
 * One pass with one point to backtrack to: only the last `*` seen may ever have to match one more character,
 * so the cost is at most pattern times text, without recursion.
 */
#include "glob.h"

/* Matches one [...] against C; *AT is behind the '[' at the call and behind the ']' after it.  -1: no ']'
 * follows. */
static int match_set(const char *pattern, size_t length, size_t *at, unsigned char c)
{
    size_t i = *at;
    bool negated = i < length && (pattern[i] == '!' || pattern[i] == '^');
    bool found = false;

    i += negated;
    for (size_t first = i; i < length && (pattern[i] != ']' || i == first); i++) {
        unsigned char low = (unsigned char)pattern[i], high = low;

        if (i + 2 < length && pattern[i + 1] == '-' && pattern[i + 2] != ']') {
            high = (unsigned char)pattern[i + 2];
            i += 2;
        }
        found |= low <= c && c <= high;
    }
    if (i >= length)
        return -1;
    *at = i + 1;
    return found != negated;
}

/* Matches the one pattern element at *AT against C and steps over it. */
static bool match_one(const char *pattern, size_t length, size_t *at, unsigned char c)
{
    unsigned char p = (unsigned char)pattern[(*at)++];

    if (p == '?')
        return true;
    if (p == '[') {
        int set = match_set(pattern, length, at, c);

        if (set >= 0)
            return set;
    }
    if (p == '\\' && *at < length)
        p = (unsigned char)pattern[(*at)++];
    return p == c;
}

bool vs_glob(const char *pattern, size_t pattern_length, const char *text, size_t text_length)
{
    size_t p = 0, t = 0, star = pattern_length, retry = 0;
    bool seen_star = false;

    while (t < text_length) {
        if (p < pattern_length && pattern[p] == '*') {
            seen_star = true;
            star = ++p;
            retry = t;
            continue;
        }
        if (p < pattern_length && match_one(pattern, pattern_length, &p, (unsigned char)text[t])) {
            t++;
            continue;
        }
        if (!seen_star)
            return false;
        p = star;
        t = ++retry;
    }
    while (p < pattern_length && pattern[p] == '*')
        p++;
    return p == pattern_length;
}
