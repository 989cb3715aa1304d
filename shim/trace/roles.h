/*
 * roles.h - the words for what a block of memory is for, which pages, plots, JSON and SQL use; and the rules
 * that give a block its role where no framework says it.
 *
 * docs/report.md explains each word.  The views of schema.sql repeat the words, as people read a file with
 * sqlite3 too (test_role_words.c compares).
 */
#ifndef VS_TRACE_ROLES_H
#define VS_TRACE_ROLES_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* X(number, NAME, "word", "the word until 0.2.0", which stands beside it in this version).  Numbers are
 * fixed. */
#define VS_ROLES(X)                                                                                          \
    X(0, UNTOLD, "not told", "unknown")                                                                      \
    X(1, PARAMETER, "parameter", "parameter")                                                                \
    X(2, GRADIENT, "gradient", "gradient")                                                                   \
    X(3, STATE, "optimizer state", "optimizer state")                                                        \
    X(4, BUFFER, "buffer", "buffer")                                                                         \
    X(5, ACTIVATION, "activation", "activation")                                                             \
    X(6, RECOMPUTED, "recomputed activation", "activation")                                                  \
    X(7, OUTPUT, "output", "logits")                                                                         \
    X(8, INPUT, "input", "input")                                                                            \
    X(9, TEMPORARY, "temporary", "temporary")                                                                \
    X(10, WORKSPACE, "workspace", "workspace")                                                               \
    X(11, COMMUNICATION, "communication", "communication buffer")                                            \
    X(12, CACHE, "cache", "unknown")

enum vs_role {
#define X(n, NAME, word, old) VS_ROLE_##NAME = n,
    VS_ROLES(X)
#undef X
        VS_ROLE_COUNT
};

static inline const char *vs_role_word(unsigned role)
{
    static const char *const words[VS_ROLE_COUNT] = {
#define X(n, NAME, word, old) word,
        VS_ROLES(X)
#undef X
    };
    return words[role < VS_ROLE_COUNT ? role : VS_ROLE_UNTOLD];
}

/* The role that WORD names; VS_ROLE_UNTOLD of NULL and of what is no word. */
static inline enum vs_role vs_role_named(const char *word)
{
    for (unsigned i = 0; word && i < VS_ROLE_COUNT; i++)
        if (strcmp(word, vs_role_word(i)) == 0)
            return (enum vs_role)i;
    return VS_ROLE_UNTOLD;
}

/* What WORD was called until 0.2.0; WORD itself where it is no role's. */
static inline const char *vs_role_before(const char *word)
{
    static const char *const before[VS_ROLE_COUNT] = {
#define X(n, NAME, word, old) old,
        VS_ROLES(X)
#undef X
    };
    enum vs_role role = vs_role_named(word);
    return role != VS_ROLE_UNTOLD || (word && strcmp(word, vs_role_word(VS_ROLE_UNTOLD)) == 0) ? before[role]
                                                                                               : word;
}

/* Roles below it are what a framework says; of several it is the lowest.  Their numbers are part of the
 * format. */
#define VS_FRAMEWORK_ROLES 5

/* By which rule a block has its role, by its call stacks and its life, in the same column.  Part of the
 * format. X(number, NAME, its role) */
#define VS_LIFE_RULES(X)                                                                                     \
    X(16, UNKNOWN, UNTOLD)                                                                                   \
    X(17, BEFORE, UNTOLD)                                                                                    \
    X(18, STATE_MADE, STATE)                                                                                 \
    X(19, STATE_KEPT, STATE)                                                                                 \
    X(20, GRADIENT_ZEROED, GRADIENT)                                                                         \
    X(21, GRADIENT_STEPPED, GRADIENT)                                                                        \
    X(22, GRADIENT_KEPT, GRADIENT)                                                                           \
    X(23, PARAMETER_COUNTED, PARAMETER)                                                                      \
    X(24, PARAMETER_MOVED, PARAMETER)                                                                        \
    X(25, BUFFER_MOVED, BUFFER)                                                                              \
    X(26, ACTIVATION, ACTIVATION)                                                                            \
    X(27, TEMPORARY, TEMPORARY)                                                                              \
    X(28, WORKSPACE, WORKSPACE)                                                                              \
    X(29, LIKE_GRADIENT, GRADIENT)                                                                           \
    X(30, LIKE_ACTIVATION, ACTIVATION)                                                                       \
    X(31, LIKE_TEMPORARY, TEMPORARY)                                                                         \
    X(32, STATE_REPLACED, STATE)                                                                             \
    X(33, SEVERAL, UNTOLD)                                                                                   \
    X(34, TOLD_PARAMETER, PARAMETER)                                                                         \
    X(35, TOLD_GRADIENT, GRADIENT)                                                                           \
    X(36, TOLD_STATE, STATE)                                                                                 \
    X(37, TOLD_ACTIVATION, ACTIVATION)                                                                       \
    X(38, TOLD_TEMPORARY, TEMPORARY)                                                                         \
    X(39, TOLD_LOGITS, OUTPUT)                                                                               \
    X(40, TOLD_INPUT, INPUT)                                                                                 \
    X(41, TOLD_WORKSPACE, WORKSPACE)                                                                         \
    X(42, TOLD_COMMUNICATION, COMMUNICATION)                                                                 \
    X(43, TOLD_UNUSED, UNTOLD)                                                                               \
    X(44, TOLD_UNKNOWN, UNTOLD)                                                                              \
    /* of a recording, found by its readers (analyzer/read/found_roles.c) and in no file */                  \
    X(45, WORKSPACE_RAW, WORKSPACE)                                                                          \
    X(46, LOGITS, OUTPUT)                                                                                    \
    X(47, GRADIENT_LIVED, GRADIENT)                                                                          \
    X(48, ACTIVATION_AGAIN, RECOMPUTED)                                                                      \
    X(49, LIKE_GRADIENT_LIVED, GRADIENT)                                                                     \
    X(50, LIKE_LOGITS, OUTPUT)                                                                               \
    X(51, LIBRARY, WORKSPACE)                                                                                \
    X(52, LIBRARY_COMMUNICATES, COMMUNICATION)                                                               \
    /* of an import again */                                                                                 \
    X(53, TOLD_RECOMPUTED, RECOMPUTED)                                                                       \
    X(54, LIKE_RECOMPUTED, RECOMPUTED)                                                                       \
    /* found by readers, as 45 to 52 */                                                                      \
    X(55, CACHE, CACHE)

enum vs_life_rule {
#define X(n, NAME, role) VS_LIFE_##NAME = n,
    VS_LIFE_RULES(X)
#undef X
};

static inline bool vs_life_is_rule(uint64_t n)
{
    return n >= VS_LIFE_UNKNOWN && n <= VS_LIFE_CACHE;
}

/* The role by N: a framework's own word, or a rule. */
static inline enum vs_role vs_role_of(uint64_t n)
{
    switch (n) {
#define X(number, NAME, role)                                                                                \
    case number:                                                                                             \
        return VS_ROLE_##role;
        VS_LIFE_RULES(X)
#undef X
    default:
        return n < VS_FRAMEWORK_ROLES ? (enum vs_role)n : VS_ROLE_UNTOLD;
    }
}

/* Likewise of what a framework says too; 0: another role, none, or what a reader found of a recording's
 * lives. */
static inline uint8_t vs_role_number(uint64_t n)
{
    if (n >= VS_LIFE_WORKSPACE_RAW && n <= VS_LIFE_LIBRARY_COMMUNICATES)
        return 0;
    enum vs_role role = vs_role_of(n);
    return role < VS_FRAMEWORK_ROLES ? (uint8_t)role : 0;
}

#endif
