/*
 * got.h - GOT slots: the words of a loaded object that the loader fills with the addresses of functions (of
 * the global offset table, of the procedure linkage table, of plain data); finding and writing them.
 */
#ifndef VS_HOOKS_SYMBOLS_GOT_H
#define VS_HOOKS_SYMBOLS_GOT_H

#include "hooks/loader/image.h"

struct vs_got_slot {
    uintptr_t at;     /* address of the word */
    uintptr_t addend; /* what it holds beyond the function's address */
    const char *name; /* the function that is referred to */
    bool weak;
    bool plt; /* may be bound at the first call: until then it leads into its own object */
};

/* The word as it is now, without the addend. */
static inline uintptr_t vs_got_value(const struct vs_got_slot *slot)
{
    /* relaxed: code at the address has been mapped for as long as the word has held it */
    return __atomic_load_n((uintptr_t *)slot->at, __ATOMIC_RELAXED) - slot->addend;
}

/* Calls VISIT for every slot of IMAGE that refers to a function of another object whose name begins "cu". */
void vs_got_visit(const struct vs_image *image, void (*visit)(const struct vs_got_slot *slot, void *context),
                  void *context);

struct vs_got_change {
    struct vs_got_slot slot;
    uintptr_t value; /* that its word is to have */
    bool refused;    /* the word lies in code or in read-only data (a library with text relocations), which
                      * stays as it is, or the kernel keeps its page sealed */
};

/* Writes N changes in their order, those that follow each other on one page at once.  Nobody else may write
 * slots of IMAGE meanwhile. */
void vs_got_write_all(const struct vs_image *image, struct vs_got_change *changes, size_t n);

/* One; false: it was refused. */
bool vs_got_write(const struct vs_image *image, const struct vs_got_slot *slot, uintptr_t value);

#endif
