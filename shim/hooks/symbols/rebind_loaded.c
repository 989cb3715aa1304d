/*
 * rebind_loaded.c - binds the references of objects that are loaded later to what they would be without us,
 * and where that is the driver, to our wrappers.
 *
 * An object that dlopen loads with RTLD_DEEPBIND prefers its own libraries: linked with the driver, it is
 * bound past our exports.  An object with a weak reference to the driver, loaded where no driver is, is bound
 * to our export and takes it for a driver.  We do not hook dlopen (its caller's run path would get lost), so
 * each look-up by dlsym or dlvsym compares the loader's count of loads with the last one seen.  Calls of an
 * object's constructors before that bypass us.
 *
 *      slot holds                        becomes
 *      the driver's function             its wrapper
 *      nothing yet (lazy binding)        the wrapper, where the object's own libraries have the driver
 *      our wrapper, which would have     what it would have been: another library's function, or NULL where
 *      been something else               the reference is weak
 */
#define _GNU_SOURCE
#include <dlfcn.h>

#include "core/walk.h"
#include "hooks/driver.h"
#include "hooks/loader/loader.h"
#include "symbols.h"

/* What the last look saw; the count of loads is read without a lock.  Zero: too early for any of this.  The
 * other two are used under the loader's lock alone, which orders them; relaxed, for tools that do not know
 * it. */
static struct {
    _Atomic unsigned long long adds, subs;
    _Atomic size_t count;
} seen;
static size_t startup_objects; /* that many are the global scope for sure */

struct look {
    unsigned long long adds; /* when it began */
    size_t count;
    size_t from; /* the first that may be new, as of FROM_SUBS unloaded */
    unsigned long long from_subs;
    bool from_known;
    bool left_out; /* of those counted some, perhaps */
    bool unbound;  /* some of them are being loaded by this thread */
    bool driver_known, driver_is_global;
    bool needs_global;  /* a weak reference would be NULL, unless the global scope has grown a definition */
    bool nobody_global; /* it has not */
};

#define CHANGES 64u

struct object { /* that is being looked through */
    struct vs_scopes *scopes;
    struct look *look;
    size_t at, count;
    struct vs_got_change changes[CHANGES]; /* of slots, to be written */
};

/* ---- what a reference would have been without us ---- */

/* The first definition in the scope of AT or of an object that loaded it; the number of objects where there
 * is none. */
static size_t definer_in_scopes(struct vs_scopes *c, size_t at, const char *name)
{
    size_t found = vs_scopes_definer(c, vs_scopes_of(c, at), name);
    size_t n = found == c->count ? vs_scopes_with(c, at, startup_objects) : 0;
    for (size_t i = 0; i < n && found == c->count; i++)
        found = vs_scopes_definer(c, vs_scopes_of(c, c->with[i]), name);
    return found;
}

static size_t definer_at_startup(const struct vs_scopes *c, const char *name)
{
    for (size_t i = 0; i < startup_objects && i < c->count; i++)
        if (i != c->self && c->objects[i].image.symbols != NULL &&
            vs_image_defines(&c->objects[i].image, name) != 0)
            return i;
    return c->count;
}

static bool learnt_driver_exports(const struct vs_scopes *c, const char *name)
{
    for (size_t i = 0; i < c->count; i++)
        if (vs_image_is_driver(&c->objects[i].image) &&
            vs_driver_owns((const void *)vs_image_defines(&c->objects[i].image, name)))
            return true;
    return false;
}

static uintptr_t address_of(const struct vs_scopes *c, size_t at, const char *name)
{
    return at < c->count ? vs_image_defines(&c->objects[at].image, name) : 0;
}

/* ---- slots ---- */

static void write_changes(struct object *o)
{
    const struct vs_scope_object *object = &o->scopes->objects[o->at];
    vs_got_write_all(&object->image, o->changes, o->count);
    for (size_t i = 0; i < o->count; i++) {
        const struct vs_got_change *c = &o->changes[i];
        const struct vs_row *row = c->refused && c->value != 0 ? vs_row_find(c->slot.name) : NULL;
        if (row != NULL && c->value == (uintptr_t)row->wrapper + c->slot.addend)
            vs_uncovered("%s as called by %.120s, whose reference to it cannot be changed", c->slot.name,
                         object->path);
    }
    o->count = 0;
}

static void rebind(struct object *o, const struct vs_got_slot *slot, const void *function)
{
    uintptr_t value = function != NULL ? (uintptr_t)function + slot->addend : 0;
    o->changes[o->count++] = (struct vs_got_change){.slot = *slot, .value = value};
    if (o->count == CHANGES)
        write_changes(o);
}

/* A slot with our wrapper in it: is that right? */
static void check_ours(struct object *o, const struct vs_got_slot *slot, const struct vs_row *row)
{
    struct vs_scopes *c = o->scopes;
    size_t definer = definer_at_startup(c, slot->name);
    if (definer == c->count && o->look->driver_is_global && learnt_driver_exports(c, slot->name))
        return;
    if (definer == c->count)
        definer = definer_in_scopes(c, o->at, slot->name);
    uintptr_t found = address_of(c, definer, slot->name);
    if (definer < c->count && vs_image_is_driver(&c->objects[definer].image))
        return;
    if (vs_interposer_owns((const void *)found)) {
        vs_interpose(row, (void *)found);
        return;
    }
    /* a strong reference that nothing satisfies would have kept the object out: something that we do not
     * see does, or it was loaded because of us; it stays */
    if (found != 0 || (slot->weak && o->look->nobody_global))
        rebind(o, slot, (const void *)found);
    else if (slot->weak)
        o->look->needs_global = true;
}

/* A slot of the PLT that is bound at its first call; past us only where the object prefers its own libraries,
 * to us otherwise: the wrapper is right in both cases. */
static void check_lazy(struct object *o, const struct vs_got_slot *slot, const struct vs_row *row)
{
    struct vs_scopes *c = o->scopes;
    if (definer_at_startup(c, slot->name) != c->count)
        return;
    size_t definer = vs_scopes_definer(c, vs_scopes_of(c, o->at), slot->name);
    if (vs_driver_owns((const void *)address_of(c, definer, slot->name)))
        rebind(o, slot, row->wrapper);
}

static void check_slot(const struct vs_got_slot *slot, void *context)
{
    struct object *o = context;
    const struct vs_image *image = &o->scopes->objects[o->at].image;
    const struct vs_row *row = vs_row_find(slot->name);
    uintptr_t value = vs_got_value(slot);
    if (row == NULL) {
        if (vs_driver_owns((const void *)value) && vs_row_lacks(slot->name))
            vs_uncovered(VS_UNCOVERED_REFERRED, slot->name);
    } else if (value == (uintptr_t)row->wrapper) {
        check_ours(o, slot, row);
    } else if (o->look->driver_known && vs_driver_owns((const void *)value)) {
        if (value == (uintptr_t)vs_driver_own(row->api))
            rebind(o, slot, row->wrapper);
    } else if (slot->plt && value >= image->start && value < image->end) {
        if (o->look->driver_known)
            check_lazy(o, slot, row);
    } else {
        vs_uncovered_driver((const void *)value);
    }
}

/* ---- the look ----
 *
 * The list of objects grows at its end: with N objects looked at and S unloaded since, all from N - S on may
 * be new.  To look at one twice changes nothing.
 *
 * An object on the list may still be being bound by the thread that loads it, which would find its pages
 * read-only if we bound it now, and die.  So the objects are counted first; then the loader's lock, which
 * that thread holds, is taken once; and as many at the end of the list are left out as were loaded since the
 * count.  Where some of these are gone again, that leaves out older ones: then all of it is done again.  The
 * look itself holds the lock under which objects come and go, so nothing is unloaded meanwhile, and two
 * threads do not write the same pages.  The thread that looks a name up may itself be in the midst of a load,
 * whose lock does not stop it: what it has not bound yet is left to a later look. */

static size_t first_new(const struct vs_scopes *c, struct look *look)
{
    if (!look->from_known) { /* the first of two looks */
        look->from_known = true;
        size_t gone = (size_t)(c->subs - atomic_load_explicit(&seen.subs, memory_order_relaxed));
        size_t count = atomic_load_explicit(&seen.count, memory_order_relaxed);
        look->from = count > gone ? count - gone : 0;
        look->from_subs = c->subs;
    }
    size_t gone = (size_t)(c->subs - look->from_subs), from = look->from > gone ? look->from - gone : 0;
    return from > startup_objects ? from : startup_objects;
}

/* Behind the last that was surely on the list when LOOK counted. */
static size_t end_of_counted(const struct vs_scopes *c, const struct look *look)
{
    unsigned long long since = c->adds - look->adds;
    return c->count > since ? c->count - (size_t)since : 0;
}

static void remember(const struct vs_scopes *c, const struct look *look, size_t end)
{
    if (look->adds <= atomic_load_explicit(&seen.adds, memory_order_relaxed))
        return;
    atomic_store_explicit(&seen.subs, c->subs, memory_order_relaxed);
    atomic_store_explicit(&seen.count, end, memory_order_relaxed);
    /* release: pairs with the load in count_loads, which skips what has been done */
    if (!look->left_out && !look->unbound)
        atomic_store_explicit(&seen.adds, look->adds, memory_order_release);
}

static void look_through(struct vs_scopes *c, void *context)
{
    struct look *look = context;
    size_t from = first_new(c, look), end = end_of_counted(c, look), done = end > from ? end : from;
    look->unbound = false;
    for (size_t at = from; at < end; at++) {
        struct object o;
        o.scopes = c;
        o.look = look;
        o.at = at;
        o.count = 0;
        const struct vs_image *image = &c->objects[at].image;
        if (image->symbols == NULL || at == c->self || vs_image_is_driver(image))
            continue;
        if (vs_loaded_is_bound((const void *)image->start)) {
            vs_got_visit(image, check_slot, &o);
            write_changes(&o);
        } else if (!look->unbound) {
            look->unbound = true;
            done = at;
        }
    }
    look->left_out = end < look->count && c->adds != look->adds;
    remember(c, look, done);
}

/* Stops at the first object where no load has happened since the last look. */
static int count_loads(struct dl_phdr_info *info, size_t size, void *data)
{
    struct look *look = data;
    look->adds = info->dlpi_adds;
    look->from_subs = info->dlpi_subs;
    look->count++;
    return look->adds == atomic_load_explicit(&seen.adds, memory_order_acquire);
}

/* Whoever is loading objects now has bound them afterwards. */
static void wait_for_loads(void)
{
    void *program = dlopen(NULL, RTLD_LAZY | RTLD_NOLOAD);
    if (program != NULL)
        dlclose(program);
}

static bool driver_is_global(void)
{
    bool found = vs_driver_owns(vs_dlsym_real(RTLD_NEXT, "cuInit"));
    if (!found)
        dlerror();
    return found;
}

/* Whether all objects that were on the list have been looked at, or can't be yet. */
static bool looked(void)
{
    struct look look = {0};
    if (vs_walk_objects(count_loads, &look) != 0)
        return true;
    wait_for_loads();
    look.driver_known = vs_driver_learn();
    look.driver_is_global = look.driver_known && driver_is_global();
    vs_scopes_take(look_through, &look);
    bool whole = !look.left_out;
    if (!look.needs_global)
        return whole;
    look.nobody_global = vs_dlsym_real(RTLD_NEXT, "cuInit") == NULL;
    dlerror();
    if (look.nobody_global)
        vs_scopes_take(look_through, &look);
    return whole && !look.left_out;
}

#define TRIES 64 /* where other threads load and unload all the time; the next look-up goes on */

void vs_rebind_loaded(void)
{
    for (int i = 0; i < TRIES && vs_walk_may() && !looked(); i++) {
    }
}

VS_NO_SANITIZE bool vs_rebind_ready(void)
{
    return atomic_load_explicit(&seen.adds, memory_order_relaxed) != 0;
}

void vs_rebind_begin(void)
{
    struct look look = {0};
    vs_walk_objects(count_loads, &look);
    startup_objects = look.count;
    atomic_store_explicit(&seen.count, look.count, memory_order_relaxed);
    atomic_store_explicit(&seen.subs, look.from_subs, memory_order_relaxed);
    atomic_store_explicit(&seen.adds, look.adds, memory_order_release);
}

/* ---- RTLD_DEFAULT as seen from an object that brings no driver along itself ---- */

struct loaders {
    const void *caller;
    bool found;
};

static void look_at_loaders(struct vs_scopes *c, void *context)
{
    struct loaders *l = context;
    uintptr_t p = (uintptr_t)l->caller;
    for (size_t at = 0; at < c->count; at++)
        if (p >= c->objects[at].image.start && p < c->objects[at].image.end) {
            size_t definer = definer_in_scopes(c, at, "cuInit");
            l->found = vs_driver_owns((const void *)address_of(c, definer, "cuInit"));
        }
}

bool vs_loaders_find_driver(const void *caller)
{
    struct loaders l = {caller, false};
    vs_scopes_take(look_at_loaders, &l);
    return l.found;
}
