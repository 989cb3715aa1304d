/*
 * modules.h - finds the object file of an address without a lock, and its row in the journal.
 *
 * glibc's _dl_find_object answers lock-free and is async-signal-safe.  Only vs_modules_refresh (drain thread)
 * takes the loader's lock, and only where the loader's count of loads can't be read directly.
 */
#ifndef VS_STACKS_MODULES_H
#define VS_STACKS_MODULES_H

#include <link.h>
#include <stdbool.h>
#include <stdint.h>

#include "trace/journal/journal.h"

struct vs_object {
    uintptr_t start, end; /* its mapping */
    const struct link_map *map;
    void *eh_frame_hdr;
};

/* Finds _dl_find_object, the main program's path, our own object.  False where glibc lacks it (< 2.35). */
bool vs_modules_prepare(void);

/* The object that ADDRESS lies in.  What it points to stays valid while code of that object runs on the
 * calling thread's stack. */
bool vs_object_find(uintptr_t address, struct vs_object *object);

/* OBJECT's row in J, made at its first sight: 0 where the table is full.  An object that was unloaded and
 * another that took its place are two rows. */
uint32_t vs_module_id(struct vs_journal *j, const struct vs_object *object);

/* Counts loads of objects: while it stays the same no address has changed its owner.  As a rule it is the
 * loader's own word; otherwise the drain thread's polling, which sees a load some ms later. */
uint64_t vs_module_loads(void);
/* Learns where the loader keeps its count of loads, by watching its data while FILE is loaded, unloaded and
 * loaded again.  Returns FILE's handle (dlopen), or NULL with dlerror() set. */
void *vs_modules_watch_load(const char *file);

/* Absolute path of the object that this code lies in ("" = unknown), and whether that is the main program. */
const char *vs_module_self(void);
bool vs_module_is_self(uintptr_t address);

/* Called by the drain thread in every round: follows the loader's dlpi_adds and dlpi_subs.  False where glibc
 * lacks _dl_find_object. */
bool vs_modules_refresh(void);

#endif
