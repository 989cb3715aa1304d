/*
 * modules.c - see modules.h.
 *
 * Rows that exist are remembered in a fixed open-addressing table.  An entry goes empty -> busy (by
 * compare-and-swap, one thread fills it)
 * -> ready, and stays.  Its key is the mapping and an identity (a hash of the build-id, else of the path), so
 * a library mapped where another one was gets an entry and a row of its own.
 */
#define _GNU_SOURCE
#include "modules.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/arch/cpu.h"
#include "core/contracts.h"
#include "core/fork.h"
#include "core/walk.h"
#include "hooks/loader/loader.h"
#include "record/record.h"

typedef int (*find_object_fn)(void *, struct dl_find_object *);
static find_object_fn find_object;

static struct {
    char exe[PATH_MAX], cwd[PATH_MAX], self[PATH_MAX];
    uintptr_t self_start, self_end; /* empty where we are linked into the main program (tests) */
} names;

/* ---- objects ---- */

bool vs_object_find(uintptr_t address, struct vs_object *object)
{
    struct dl_find_object found;
    if (!find_object || find_object((void *)address, &found) != 0 || !found.dlfo_link_map)
        return false;
    *object = (struct vs_object){(uintptr_t)found.dlfo_map_start, (uintptr_t)found.dlfo_map_end,
                                 found.dlfo_link_map, found.dlfo_eh_frame};
    return true;
}

const char *vs_module_self(void)
{
    return names.self;
}

bool vs_module_is_self(uintptr_t address)
{
    return address - names.self_start < names.self_end - names.self_start;
}

/* A library preloaded by a relative path has a relative name for ever; the kernel knows the absolute one. */
static void path_of_mapping(uintptr_t address, char *path, size_t size)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[PATH_MAX + 128];
    while (maps && fgets(line, sizeof line, maps)) {
        unsigned long from, to;
        char *name = strchr(line, '/');
        if (sscanf(line, "%lx-%lx", &from, &to) != 2 || address < from || address >= to || !name)
            continue;
        name[strcspn(name, "\n")] = 0;
        snprintf(path, size, "%s", name);
        break;
    }
    if (maps)
        fclose(maps);
}

static bool make_table(void);

/* Known answers: where we lie, and our own dynamic section. */
static bool finds_us(struct vs_object *self)
{
    extern ElfW(Dyn) _DYNAMIC[] __attribute__((visibility("hidden")));
    uintptr_t here = (uintptr_t)&vs_modules_prepare, there = (uintptr_t)_DYNAMIC;
    if (!vs_object_find(here, self) || here < self->start || here >= self->end || there < self->start ||
        there >= self->end || self->map->l_ld != _DYNAMIC) {
        vs_contract_broken(VS_CONTRACT_LIBC_OBJECTS, "_dl_find_object does not find vramscope's own library");
        return false;
    }
    vs_contract_proven(VS_CONTRACT_LIBC_OBJECTS, "_dl_find_object finds vramscope's own library");
    return true;
}

bool vs_modules_prepare(void)
{
    find_object = (find_object_fn)dlsym(RTLD_DEFAULT, "_dl_find_object");
    if (!find_object)
        return vs_contract_broken(VS_CONTRACT_LIBC_OBJECTS,
                                  "glibc has no _dl_find_object (older than 2.35), so stacks can't be taken "
                                  "without the loader's lock");
    ssize_t n = readlink("/proc/self/exe", names.exe, sizeof names.exe - 1);
    names.exe[n > 0 ? n : 0] = 0;
    if (!getcwd(names.cwd, sizeof names.cwd))
        names.cwd[0] = 0;
    struct vs_object self;
    if (!finds_us(&self) || !make_table())
        return false;
    path_of_mapping((uintptr_t)&vs_modules_prepare, names.self, sizeof names.self);
    if (self.map->l_name[0]) {
        names.self_start = self.start;
        names.self_end = self.end;
    }
    return true;
}

/* ---- the loader's count of loads ---- */

static const uint64_t *loads_word;        /* inside the loader's data; NULL = not known */
static _Atomic uint64_t loads_polled = 1; /* otherwise: how often vs_modules_refresh saw a change */

uint64_t vs_module_loads(void)
{
    /* acquire: a thread learns of a new object only after the loader has counted it */
    if (__builtin_expect(loads_word != NULL, 1))
        return __atomic_load_n(loads_word, __ATOMIC_ACQUIRE);
    return atomic_load_explicit(&loads_polled, memory_order_acquire);
}

struct counts {
    uint64_t adds, subs;
};

static int take_counts(struct dl_phdr_info *info, size_t size, void *data)
{
    *(struct counts *)data = (struct counts){info->dlpi_adds, info->dlpi_subs};
    return 1;
}

static struct counts loader_counts(void)
{
    struct counts counts = {0, 0};
    vs_walk_objects(take_counts, &counts);
    return counts;
}

enum { WATCH_WORDS = 4096, WATCH_STEPS = 4 };

struct watch {
    const uint64_t *data;
    size_t words;
    uint64_t adds[WATCH_STEPS];
    uint64_t seen[WATCH_STEPS][WATCH_WORDS];
};

static bool loader_data(struct watch *watch)
{
    struct vs_object loader;
    struct vs_image image;
    void *global = dlsym(RTLD_DEFAULT, "_rtld_global");
    if (!global || !vs_object_find((uintptr_t)global, &loader) ||
        !vs_image_of(&image, loader.map->l_addr, loader.map->l_ld))
        return false;
    const ElfW(Sym) *symbol = vs_image_symbol(&image, "_rtld_global");
    if (!symbol || symbol->st_size > sizeof watch->seen[0])
        return false;
    watch->data = vs_image_address(&image, symbol);
    watch->words = symbol->st_size / sizeof(uint64_t);
    return true;
}

static void watch_step(struct watch *watch, int step)
{
    watch->adds[step] = loader_counts().adds;
    for (size_t i = 0; i < watch->words; i++)
        watch->seen[step][i] = __atomic_load_n(&watch->data[i], __ATOMIC_RELAXED);
}

/* The one word that went with the count.  The number of objects loaded now is excluded by the unload between
 * the two loads.  NULL where none or several did. */
static const uint64_t *watch_result(const struct watch *watch)
{
    const uint64_t *found = NULL;
    if (!(watch->adds[0] < watch->adds[1] && watch->adds[2] < watch->adds[3]))
        return NULL;
    for (size_t i = 0; i < watch->words; i++) {
        int step = 0;
        while (step < WATCH_STEPS && watch->seen[step][i] == watch->adds[step])
            step++;
        if (step < WATCH_STEPS)
            continue;
        if (found)
            return NULL;
        found = &watch->data[i];
    }
    return found;
}

static void *load(const char *file)
{
    return dlopen(file, RTLD_NOW | RTLD_LOCAL);
}

void *vs_modules_watch_load(const char *file)
{
    static struct watch watch;
    if (!loader_data(&watch))
        return load(file);
    void *handle = NULL;
    for (int attempt = 0; attempt < 3 && !loads_word; attempt++) { /* others may load at the same time */
        if (handle)
            dlclose(handle);
        watch_step(&watch, 0);
        if (!(handle = load(file)))
            return NULL;
        watch_step(&watch, 1);
        dlclose(handle);
        watch_step(&watch, 2);
        if (!(handle = load(file)))
            return NULL;
        watch_step(&watch, 3);
        loads_word = watch_result(&watch);
    }
    return handle;
}

/* ---- rows ---- */

enum { KNOWN = 2048, PROBES = 64, EMPTY = 0, BUSY = 1, READY = 2 };

struct known {
    _Atomic uint32_t state;
    uint32_t id;
    uintptr_t start, end;
    uint64_t identity;
    struct vs_journal *journal;
};
static struct known
    *known; /* wiped in a fork child: its journal has rows of its own, perhaps at the same address */

static bool make_table(void)
{
    known = vs_fork_wiped_memory(KNOWN * sizeof *known, NULL);
    return known != NULL;
}

struct build_id {
    const uint8_t *bytes;
    size_t length;
};

static struct build_id find_build_id(const struct vs_object *object)
{
    struct build_id id = {NULL, 0};
    size_t count = 0;
    const ElfW(Phdr) *phdr = vs_image_phdrs(object->start, object->end - object->start, &count);
    if (!phdr && !object->map->l_name[0]) { /* the kernel passes the main program's */
        phdr = (const void *)getauxval(AT_PHDR);
        count = getauxval(AT_PHNUM);
    }
    if (phdr)
        id.bytes =
            vs_image_build_id(phdr, count, object->map->l_addr, object->start, object->end, &id.length);
    return id;
}

static uint64_t hash_bytes(const void *bytes, size_t length)
{
    const uint8_t *p = bytes;
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < length; i++)
        h = (h ^ p[i]) * 0x100000001b3u;
    return h;
}

static size_t module_path(const struct link_map *map, char *path, size_t size)
{
    const char *name = map->l_name;
    int n;
    if (!name[0])
        n = snprintf(path, size, "%s", names.exe);
    else if (name[0] == '/' || !strchr(name, '/')) /* without a slash: the vDSO */
        n = snprintf(path, size, "%s", name);
    else
        n = snprintf(path, size, "%s/%s", names.cwd, strncmp(name, "./", 2) == 0 ? name + 2 : name);
    return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

static uint32_t make_row(struct vs_journal *j, const struct vs_object *object, struct build_id id)
{
    char path[1024], hex[129];
    size_t length = module_path(object->map, path, sizeof path), digits = 0;
    for (size_t i = 0; i < id.length && digits + 2 < sizeof hex; i++) {
        hex[digits++] = "0123456789abcdef"[id.bytes[i] >> 4];
        hex[digits++] = "0123456789abcdef"[id.bytes[i] & 15];
    }
    struct vs_module_row row = {.base = object->map->l_addr, .start = object->start, .end = object->end};
    row.path = vs_journal_string(j, path, length);
    row.build_id = digits ? vs_journal_string(j, hex, digits) : 0;
    return vs_journal_module(j, &row);
}

/* Waits, for a few microseconds at most, for the thread that fills ENTRY. */
static bool entry_ready(struct known *entry)
{
    for (int i = 0; i < 10000; i++) {
        /* acquire: the fields were written before `ready` */
        if (atomic_load_explicit(&entry->state, memory_order_acquire) == READY)
            return true;
        vs_arch_relax();
    }
    return false; /* its thread is off the processor: a second row of the same module does no harm */
}

uint32_t vs_module_id(struct vs_journal *j, const struct vs_object *object)
{
    struct build_id id = find_build_id(object);
    uint64_t identity = id.bytes ? hash_bytes(id.bytes, id.length)
                                 : hash_bytes(object->map->l_name, strlen(object->map->l_name));
    size_t at = (object->start >> 12) * 0x9e3779b97f4a7c15u >> 40;
    for (int probe = 0; probe < PROBES; probe++) {
        struct known *entry = &known[(at + (size_t)probe) % KNOWN];
        uint32_t state = EMPTY;
        if (atomic_compare_exchange_strong_explicit(&entry->state, &state, BUSY, memory_order_acquire,
                                                    memory_order_relaxed)) {
            entry->start = object->start;
            entry->end = object->end;
            entry->identity = identity;
            entry->journal = j;
            entry->id = make_row(j, object, id);
            atomic_store_explicit(&entry->state, READY, memory_order_release);
            return entry->id;
        }
        if (entry_ready(entry) && entry->start == object->start && entry->end == object->end &&
            entry->identity == identity && entry->journal == j)
            return entry->id;
    }
    return 0;
}

/* ---- the drain thread's part ---- */

bool vs_modules_refresh(void)
{
    static struct counts last;
    if (!find_object)
        return false;
    if (!loads_word) {
        struct counts now = loader_counts();
        if (now.adds != last.adds || now.subs != last.subs)
            atomic_fetch_add_explicit(&loads_polled, 1, memory_order_release);
        last = now;
    }
    return true;
}
