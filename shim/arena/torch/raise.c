/*
 * raise.c - torch's own exceptions, thrown from C.
 *
 * torch takes whatever pointer the allocator gives; a NULL becomes a tensor at address 0.  Only
 * c10::OutOfMemoryError becomes the torch.OutOfMemoryError that programs catch.  This library has no C++
 * runtime, so the steps of a throw are taken by hand.
 */
#define _GNU_SOURCE
#include "torch.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/contracts.h"
#include "core/log.h"
#include "core/readable.h"
#include "framework/torch.h"

#define ROOM      1024 /* of an Error, which has some 130 bytes; at most half of it is believed */
#define UNTOUCHED 0xa5
#define CHECK     "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_"

/* How C++ lays out the table of a class: where the whole object begins, its type, then the functions. */
enum { OFFSET, TYPE, END, DELETE, WHAT, WHAT_ALONE, TABLE_WORDS };

/* Up to 2.9, of 2.10 to 2.13, from 2.14 on: a number's sign and one more argument, which may be NULL.  Where
 * it is not asked for it is not looked at. */
typedef void check_fn(int32_t status, const char *file, const char *function, uint32_t line, bool device_side,
                      void *log);

struct throwing {
    bool torch; /* there is one in the process */
    void (*plain)(const char *message);
    check_fn *check;
    const char *why_not; /* NULL: what follows is there, and is what it is taken for */
    struct vs_cxx_strings strings;
    void *(*allocate)(size_t size);
    void (*throw)(void *exception, void *type, void (*destroy)(void *));
    void (*error)(void *self, struct vs_cxx_string *message, uintptr_t trace[2], const void *caller);
    void **error_table, **table;
    void *const *type;
};

/* What was found when torch was given the arena; it does not change any more. */
static struct throwing known;
static bool is_known; /* atomic */

/* ---- what there is ---- */

static bool find(void *to, void *library, const char *name)
{
    void *found = library ? dlsym(library, name) : NULL;
    memcpy(to, &found, sizeof found);
    return found != NULL;
}

/* The constructor's name says which kind of strings this torch has. */
static bool find_error(struct throwing *t, void *c10)
{
    static const char *const spelled[] = {
        "_ZN3c105ErrorC1ENSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE"
        "St10shared_ptrIKNS_9LazyValueIS6_EEEPKv",
        "_ZN3c105ErrorC1ESsSt10shared_ptrIKNS_9LazyValueISsEEEPKv"};
    for (int kind = 0; kind < 2; kind++)
        if (find(&t->error, c10, spelled[kind]))
            return vs_cxx_strings(&t->strings, c10, &vs_cxx_kinds[kind]);
    return false;
}

/* libc10_cuda throws it as well, and so has what libc10 need not have.  NULL: all is there. */
static const char *find_all(struct throwing *t, void *c10, void *c10_cuda)
{
    void *thrower = c10_cuda ? c10_cuda : c10;
    if (!find(&t->allocate, c10, "__cxa_allocate_exception") || !find(&t->throw, c10, "__cxa_throw"))
        return "its C++ library has not the functions that throw";
    if (!find_error(t, c10) || !find(&t->error_table, c10, "_ZTVN3c105ErrorE"))
        return "c10::Error is made otherwise than in 2.4 to 2.15";
    if (!find(&t->table, thrower, "_ZTVN3c1016OutOfMemoryErrorE") ||
        !find(&t->type, thrower, "_ZTIN3c1016OutOfMemoryErrorE"))
        return "there is no c10::OutOfMemoryError";
    return NULL;
}

/* ---- whether it is what it is taken for ----
 *
 * What the functions' names do not say is tried out before torch is given the arena: an Error is made, asked
 * what it says, and ended, in a room of ours. */

static bool is_table(void **table, const char *class)
{
    return vs_cxx_table_words(table) == TABLE_WORDS && table[OFFSET] == NULL &&
           vs_cxx_is_type(table[TYPE], class) && vs_cxx_is_code(table + END, TABLE_WORDS - END);
}

/* A class with one base class at its beginning, and that is c10::Error. */
static bool is_an_error(void *const *type)
{
    enum { BASE = 2 };
    return vs_cxx_is_type(type, "N3c1016OutOfMemoryErrorE") &&
           vs_readable_bytes((uintptr_t)type, (BASE + 1) * sizeof *type) &&
           vs_cxx_is_type(type[BASE], "N3c105ErrorE");
}

/* Whether what is in ROOM calls itself TEXT by both of the functions for that. */
static bool says(void *room, const char *text)
{
    void **table = *(void ***)room;
    char said[128];
    for (int which = WHAT; which <= WHAT_ALONE; which++) {
        const char *(*what)(const void *) = NULL;
        memcpy(&what, &table[which - END], sizeof what);
        vs_copy_text(said, sizeof said, (uintptr_t)what(room));
        if (strcmp(said, text) != 0)
            return false;
    }
    return true;
}

/* As it is thrown: an object of ours in ROOM, which nobody has to give back but by its own destructor. */
static void make(const struct throwing *t, void **room, const char *message)
{
    uintptr_t no_trace[2] = {0}; /* it is moved from, as the message is */
    struct vs_cxx_string text;
    vs_cxx_string(&t->strings, &text, message, strlen(message));
    t->error(room, &text, no_trace, NULL);
    t->strings.end(&text);
}

static void (*end_of(const struct throwing *t))(void *)
{
    void (*end)(void *) = NULL;
    memcpy(&end, &t->table[END], sizeof end);
    return end;
}

/* An Error in a room full of a pattern, and then the same as an OutOfMemoryError.  What lies behind it is
 * zero by then, in case that a later class has members of its own there. */
static const char *try_out(const struct throwing *t)
{
    static const char text[] = "made to see whether out of memory can be told";
    _Alignas(16) unsigned char room[ROOM];
    void **object = (void **)room;
    size_t size = ROOM;
    memset(room, UNTOUCHED, sizeof room);
    make(t, object, text);
    if (*object != t->error_table + END)
        return "c10::Error does not begin with its virtual table";
    while (size > 0 && room[size - 1] == UNTOUCHED)
        size--;
    memset(room + size, 0, sizeof room - size);
    bool same = size <= ROOM / 2 && says(object, text);
    *object = t->table + END;
    same = same && says(object, text);
    end_of(t)(object);
    return same ? NULL : "c10::Error does not say what it was given";
}

/* NULL: it can be thrown; otherwise why not. */
static const char *prove(struct throwing *t, void *c10, void *c10_cuda)
{
    const char *why = find_all(t, c10, c10_cuda);
    if (why)
        return why;
    void *const functions[] = {(void *)t->allocate, (void *)t->throw, (void *)t->error};
    if (!is_table(t->error_table, "N3c105ErrorE") || !is_table(t->table, "N3c1016OutOfMemoryErrorE") ||
        !is_an_error(t->type) || !vs_cxx_is_code(functions, 3))
        return "c10::OutOfMemoryError is another class than in 2.4 to 2.15";
    return try_out(t);
}

static void find_check(struct throwing *t, void *c10_cuda)
{
    static const char *const spelled[] = {CHECK "jbPNS0_19CUDAErrorLogCaptureE", CHECK "jb", CHECK "ib"};
    for (int i = 0; i < 3 && !t->check; i++)
        find(&t->check, c10_cuda, spelled[i]);
}

static void look(struct throwing *t)
{
    void *c10 = vs_torch_library("libc10"), *c10_cuda = vs_torch_library("libc10_cuda");
    *t = (struct throwing){.torch = c10 != NULL};
    find(&t->plain, c10, "_ZSt21__throw_runtime_errorPKc");
    find_check(t, c10_cuda);
    t->why_not = prove(t, c10, c10_cuda);
    dlerror(); /* the host must not find what was not found here */
}

const char *vs_torch_raise_prove(void)
{
    if (__atomic_load_n(&is_known, __ATOMIC_ACQUIRE))
        return known.why_not;
    look(&known);
    /* release: pairs with the acquire in how() */
    __atomic_store_n(&is_known, true, __ATOMIC_RELEASE);
    if (known.check)
        vs_contract_proven(VS_CONTRACT_TORCH_CHECK, "torch's check of the runtime takes what it took");
    else
        vs_contract_broken(VS_CONTRACT_TORCH_CHECK, "its check of the runtime has another name");
    if (known.why_not)
        vs_contract_broken(VS_CONTRACT_TORCH_EXCEPTION, "%s", known.why_not);
    else
        vs_contract_proven(VS_CONTRACT_TORCH_EXCEPTION, "an error was made, and said what it was given");
    return known.why_not;
}

/* ---- throwing ----
 *
 * As the C++ ABI of Linux spells it out:
 *
 *      room = __cxa_allocate_exception(size)
 *      c10::Error::Error(room, message, trace, caller)  the message and the trace, a std::shared_ptr to
 *                                                       nothing: by the addresses of ones that the caller has
 *      room->vptr = vtable of c10::OutOfMemoryError     which adds nothing but its name to Error
 *      __cxa_throw(room, its typeinfo, its destructor)
 *
 * So such an error has no C++ stack, which torch's own takes with TORCH_SHOW_CPP_STACKTRACES.  No lock is
 * held at a throw, and the frames in between, in C, have unwind tables. */

/* A program that takes the functions by itself has asked for no proof before: ROOM is for what is found now.
 */
static const struct throwing *how(struct throwing *room)
{
    if (__atomic_load_n(&is_known, __ATOMIC_ACQUIRE))
        return &known;
    look(room);
    return room;
}

static void throw_oom(const struct throwing *t, const char *message)
{
    void **exception = t->allocate(ROOM);
    memset(exception, 0, ROOM);
    make(t, exception, message);
    *exception = t->table + END;
    t->throw(exception, (void *)t->type, end_of(t));
}

/* In a process with torch the call ends here, whatever there is: NULL would be taken for memory. */
static void throw_text(const struct throwing *t, const char *message)
{
    if (!t->torch)
        return;
    if (t->plain)
        t->plain(message);
    vs_log("%s: and this PyTorch can't be told by an exception", message);
    abort();
}

void vs_torch_raise_text(const char *message)
{
    struct throwing room;
    throw_text(how(&room), message);
}

void vs_torch_raise_oom(const char *message)
{
    struct throwing room;
    const struct throwing *t = how(&room);
    if (!t->why_not)
        throw_oom(t, message);
    throw_text(t, message);
}

/* Other errors than out of memory go through the function that torch's own checks of the runtime use.  Where
 * a process has torch, and one of these cannot be thrown, std::runtime_error is, which becomes a
 * RuntimeError. */
void vs_torch_raise(CUresult status)
{
    struct throwing room;
    const struct throwing *t = how(&room);
    char text[96];
    /* the runtime's numbers are the driver's */
    if (t->check)
        t->check((int32_t)status, "vramscope", "vramscope_torch_malloc", 0, false, NULL);
    snprintf(text, sizeof text, "CUDA error %d of the driver, in vramscope's arena", (int)status);
    throw_text(t, text);
}
