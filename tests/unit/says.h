/*
 * says.h - several members of a struct in one statement, for tests:
 *
 *      SAYS(e, .op = VS_OP_ALLOC, .space = VS_SPACE_DEVICE, .size = 4096);
 *
 * Each of at most 12 members must have that value; what is not named may be anything.
 */
#ifndef TESTS_UNIT_SAYS_H
#define TESTS_UNIT_SAYS_H

#include "unit/test.h"

/* What differs is shown as the eight bytes from there on. */
static inline void says(const void *found, const void *wanted, size_t size, const char *what,
                        const char *file, int line)
{
    uint64_t is = 0, should = 0;
    size_t at = 0;
    while (at < size && ((const char *)found)[at] == ((const char *)wanted)[at])
        at++;
    if (at == size)
        return;
    size_t shown = size - at < sizeof is ? size - at : sizeof is;
    memcpy(&is, (const char *)found + at, shown);
    memcpy(&should, (const char *)wanted + at, shown);
    print_error("%s is not so: 0x%llx, not 0x%llx\n", what, (unsigned long long)is,
                (unsigned long long)should);
    _fail(file, line);
}

#define SAYS_ONE(member)                                                                                     \
    memcpy(&wanted_, found_, sizeof wanted_);                                                                \
    wanted_ member;                                                                                          \
    says(found_, &wanted_, sizeof wanted_, #member, __FILE__, __LINE__);
#define SAYS_1(a)                                             SAYS_ONE(a)
#define SAYS_2(a, ...)                                        SAYS_ONE(a) SAYS_1(__VA_ARGS__)
#define SAYS_3(a, ...)                                        SAYS_ONE(a) SAYS_2(__VA_ARGS__)
#define SAYS_4(a, ...)                                        SAYS_ONE(a) SAYS_3(__VA_ARGS__)
#define SAYS_5(a, ...)                                        SAYS_ONE(a) SAYS_4(__VA_ARGS__)
#define SAYS_6(a, ...)                                        SAYS_ONE(a) SAYS_5(__VA_ARGS__)
#define SAYS_7(a, ...)                                        SAYS_ONE(a) SAYS_6(__VA_ARGS__)
#define SAYS_8(a, ...)                                        SAYS_ONE(a) SAYS_7(__VA_ARGS__)
#define SAYS_9(a, ...)                                        SAYS_ONE(a) SAYS_8(__VA_ARGS__)
#define SAYS_10(a, ...)                                       SAYS_ONE(a) SAYS_9(__VA_ARGS__)
#define SAYS_11(a, ...)                                       SAYS_ONE(a) SAYS_10(__VA_ARGS__)
#define SAYS_12(a, ...)                                       SAYS_ONE(a) SAYS_11(__VA_ARGS__)
#define SAYS_N(a, b, c, d, e, f, g, h, i, j, k, l, name, ...) name

#define SAYS(struct_, ...)                                                                                   \
    do {                                                                                                     \
        const __typeof__(*(struct_)) *found_ = (struct_);                                                    \
        __typeof__((__typeof__(*(struct_)))*found_) wanted_;                                                 \
        SAYS_N(__VA_ARGS__, SAYS_12, SAYS_11, SAYS_10, SAYS_9, SAYS_8, SAYS_7, SAYS_6, SAYS_5, SAYS_4,       \
               SAYS_3, SAYS_2, SAYS_1)                                                                       \
        (__VA_ARGS__)                                                                                        \
    } while (0)

#endif
