/*
 * cxx.h - PyTorch's C++ as C finds it: its strings, by functions of its own C++ library, and looks at what
 * would be called.
 *
 * libstdc++ has two kinds of std::string, which differ in size and layout and stand in the names of functions
 * that take one.  Both are made, filled, read and ended by functions of that library which every program that
 * has strings has, so nothing is taken for granted of how they lie.
 *
 * Any thread.  Takes the loader's lock; the host does not find in dlerror() what was not found here.
 */
#ifndef VS_ARENA_TORCH_CXX_H
#define VS_ARENA_TORCH_CXX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A std::string: one word of the old kind, four of the new one. */
struct vs_cxx_string {
    uint64_t words[4];
};

/* How a kind is spelled in the names of functions, and its own functions. */
struct vs_cxx_kind {
    const char *type, *of, *of_const;
};
extern const struct vs_cxx_kind vs_cxx_kinds[2];

struct vs_cxx_strings {
    void (*begin)(struct vs_cxx_string *);
    struct vs_cxx_string *(*assign)(struct vs_cxx_string *, const char *, size_t);
    void (*end)(struct vs_cxx_string *);
    const char *(*data)(const struct vs_cxx_string *);
    size_t (*size)(const struct vs_cxx_string *);
};

/* The functions for strings of KIND that LIBRARY uses; false: they are not there, or do not give back what
 * they were given. */
bool vs_cxx_strings(struct vs_cxx_strings *s, void *library, const struct vs_cxx_kind *kind);
/* Makes a string at TO, which ends by the caller's C++ or by `end`.  May throw where the process has no
 * memory. */
void vs_cxx_string(const struct vs_cxx_strings *s, struct vs_cxx_string *to, const char *bytes, size_t n);

/* Whether each of the N addresses from FIRST on lies in code of a loaded object. */
bool vs_cxx_is_code(void *const *first, size_t n);
/* Whether TYPE is what C++ has of a class of that NAME, as it is mangled. */
bool vs_cxx_is_type(const void *type, const char *name);
/* The words of the virtual table at TABLE, by its symbol; 0: it has none. */
size_t vs_cxx_table_words(void *table);

#endif
