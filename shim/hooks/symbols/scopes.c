/* scopes.c - all loaded objects at once, and what is linked with what (symbols.h). */
#define _GNU_SOURCE
#include "symbols.h"

#include <string.h>
#include <sys/mman.h>

#include "core/walk.h"
#include "hooks/loader/loader.h"

static int collect(struct dl_phdr_info *info, size_t size, void *data)
{
    struct vs_scopes *c = data;
    if (c->count == c->room)
        return 1;
    struct vs_scope_object *o = &c->objects[c->count];
    if (!vs_image_read(&o->image, info))
        o->image = (struct vs_image){.start = 0};
    o->path = info->dlpi_name != NULL ? info->dlpi_name : "";
    uintptr_t here = (uintptr_t)collect;
    if (here >= o->image.start && here < o->image.end)
        c->self = c->count;
    c->adds = info->dlpi_adds;
    c->subs = info->dlpi_subs;
    c->count++;
    return 0;
}

struct use {
    struct vs_scopes *scopes;
    void (*function)(struct vs_scopes *, void *);
    void *context;
};

/* Called for the first object, under the lock, which is recursive: the walk inside sees the same list. */
static int locked(struct dl_phdr_info *info, size_t size, void *data)
{
    const struct use *use = data;
    vs_walk_objects(collect, use->scopes);
    use->function(use->scopes, use->context);
    return 1;
}

bool vs_scopes_take(void (*function)(struct vs_scopes *, void *), void *context)
{
    size_t room = (size_t)vs_loaded_count() + 64; /* others may be loading */
    size_t bytes = room * (sizeof(struct vs_scope_object) + 2 * sizeof(size_t));
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        return false;
    struct vs_scopes c = {.objects = memory, .room = room, .self = room, .asked = room};
    c.scope = (size_t *)(c.objects + room);
    c.with = c.scope + room;
    struct use use = {&c, function, context};
    vs_walk_objects(locked, &use);
    munmap(memory, bytes);
    return true;
}

static size_t find(const struct vs_scopes *c, const char *name)
{
    size_t at = 0;
    while (at < c->count && !vs_image_is_called(&c->objects[at].image, c->objects[at].path, name))
        at++;
    return at;
}

static bool among(const size_t *places, size_t n, size_t at)
{
    for (size_t i = 0; i < n; i++)
        if (places[i] == at)
            return true;
    return false;
}

size_t vs_scopes_of(struct vs_scopes *c, size_t at)
{
    size_t n = 0;
    c->scope[n++] = at;
    for (size_t i = 0; i < n; i++) {
        const struct vs_image *image = &c->objects[c->scope[i]].image;
        const char *name;
        for (size_t k = 0; (name = vs_image_needs(image, k)) != NULL; k++) {
            size_t needed = find(c, name);
            if (needed < c->count && !among(c->scope, n, needed))
                c->scope[n++] = needed;
        }
    }
    return n;
}

size_t vs_scopes_with(struct vs_scopes *c, size_t at, size_t from)
{
    if (c->asked == at && c->asked_from == from)
        return c->with_count;
    size_t n = 0;
    for (size_t i = from; i < c->count; i++)
        if (among(c->scope, vs_scopes_of(c, i), at))
            c->with[n++] = i;
    c->asked = at;
    c->asked_from = from;
    c->with_count = n;
    return n;
}

size_t vs_scopes_definer(const struct vs_scopes *c, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++) {
        const struct vs_image *image = &c->objects[c->scope[i]].image;
        if (c->scope[i] != c->self && image->symbols != NULL && vs_image_defines(image, name) != 0)
            return c->scope[i];
    }
    return c->count;
}
