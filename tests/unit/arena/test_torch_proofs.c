/*
 * test_torch_proofs.c - what torch must be for the arena to be its allocator: a torch that is made of C here,
 * and in each case one thing is otherwise.  Nothing is called of what is not what it was taken for, and a
 * refusal ends in an error and not in NULL.
 *
 * What was found stays, so each case is a process of its own.
 */
#include <dlfcn.h>

#include "unit/child.h"
#include "arena/torch/torch.h"
#include "core/contracts.h"
#include "framework/torch.h"

#define VISIBLE __attribute__((visibility("default")))

/* ---- a C++ library: strings that keep their text elsewhere ---- */

struct string {
    char *text;
    size_t length;
};
static bool forgets;

static void string_begin(struct string *s)
{
    *s = (struct string){NULL, 0};
}

static struct string *string_assign(struct string *s, const char *text, size_t n)
{
    s->text = realloc(s->text, n + 1);
    memcpy(s->text, text, n);
    s->text[n] = '\0';
    s->length = forgets && n > 15 ? 15 : n;
    return s;
}

static void string_end(struct string *s)
{
    free(s->text);
}

static const char *string_data(const struct string *s)
{
    return s->text;
}

static size_t string_size(const struct string *s)
{
    return s->length;
}

/* ---- what was thrown ---- */

enum { NOTHING, THROWN_OOM, THROWN_TEXT, THROWN_STATUS };
static jmp_buf catcher;
static char thrown[128];
static const void *thrown_type;

static void *allocate(size_t size)
{
    return calloc(1, size);
}

static void throw_text(const char *message)
{
    snprintf(thrown, sizeof thrown, "%s", message);
    longjmp(catcher, THROWN_TEXT);
}

static void check(int32_t status, const char *file, const char *function, uint32_t line, bool device_side,
                  void *log)
{
    if (status != 0 && log == NULL)
        longjmp(catcher, THROWN_STATUS);
}

/* ---- c10::Error and c10::OutOfMemoryError ---- */

struct error {
    void **table;
    char text[96];
};
static int errors;        /* that live */
static int error_is_long; /* bytes that it writes behind itself */
static const char *instead;

static void error_end(struct error *e)
{
    errors--;
}

static const char *error_what(const struct error *e)
{
    return instead ? instead : e->text;
}

struct type {
    void *table;
    const char *name;
    const void *base;
};
#define TABLE(type)                                                                                          \
    NULL, (void *)&type, (void *)error_end, (void *)error_end, (void *)error_what, (void *)error_what

static struct type another_type = {NULL, "N3c1011SomeClassE", NULL};
static struct type error_type = {NULL, "N3c105ErrorE", NULL};
static struct type oom_type = {NULL, "N3c1016OutOfMemoryErrorE", &error_type};
VISIBLE void *fake_error_table[6] = {TABLE(error_type)};
VISIBLE void *fake_oom_table[6] = {TABLE(oom_type)};
VISIBLE void *fake_long_table[7] = {TABLE(oom_type), (void *)error_what};

static void error_begin(struct error *e, struct string *message, uintptr_t trace[2], const void *caller)
{
    e->table = fake_error_table + 2;
    snprintf(e->text, sizeof e->text, "%s", message->text);
    memset(e + 1, 1, (size_t)error_is_long);
    trace[0] = trace[1] = 0; /* moved from */
    errors++;
}

static void throw(struct error * e, const void *type, void (*end)(struct error *))
{
    thrown_type = type;
    snprintf(thrown, sizeof thrown, "%s", e->table == fake_oom_table + 2 ? error_what(e) : "another class");
    end(e);
    free(e);
    longjmp(catcher, THROWN_OOM);
}

/* ---- the libraries ---- */

#define NEW       "NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE"
#define CHECK     "_ZN3c104cuda29c10_cuda_check_implementationEiPKcS2_"
#define ALLOCATOR "_ZN5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocator"
#define STREAM    "P11CUstream_st"

static struct symbol {
    const char *name;
    void *at;
} symbols[] = {
    {"_Z" NEW "C1Ev", (void *)string_begin},
    {"_Z" NEW "6assignEPKcm", (void *)string_assign},
    {"_Z" NEW "D1Ev", (void *)string_end},
    {"_ZNKSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE4dataEv", (void *)string_data},
    {"_ZNKSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE4sizeEv", (void *)string_size},
    {"_ZNSsC1Ev", (void *)string_begin},
    {"_ZNSs6assignEPKcm", (void *)string_assign},
    {"_ZNSsD1Ev", (void *)string_end},
    {"_ZNKSs4dataEv", (void *)string_data},
    {"_ZNKSs4sizeEv", (void *)string_size},
    {"__cxa_allocate_exception", (void *)allocate},
    {"__cxa_throw", (void *) throw},
    {"_ZSt21__throw_runtime_errorPKc", (void *)throw_text},
    {"_ZN3c105ErrorC1E" NEW "ESt10shared_ptrIKNS_9LazyValueIS6_EEEPKv", (void *)error_begin},
    {"_ZTVN3c105ErrorE", fake_error_table},
    {"_ZTVN3c1016OutOfMemoryErrorE", fake_oom_table},
    {"_ZTIN3c1016OutOfMemoryErrorE", &oom_type},
    {CHECK "jbPNS0_19CUDAErrorLogCaptureE", (void *)check},
    {ALLOCATOR "C1ESt8functionIFPvmi" STREAM "EES3_IFvS4_miS6_EE", (void *)check},
    {ALLOCATOR "20set_record_stream_fnESt8functionIFvPv" STREAM "EE", (void *)check},
    {ALLOCATOR "17set_base_alloc_fnESt8functionIFPvS4_PmEE", (void *)check},
    {ALLOCATOR "12set_reset_fnESt8functionIFvvEE", (void *)check},
    {ALLOCATOR "22set_memory_fraction_fnESt8functionIFvdiEE", (void *)check},
    {ALLOCATOR "26set_begin_allocate_to_poolESt8functionIFviSt4pairIyyES3_IFb" STREAM "EEEE", (void *)check},
    {ALLOCATOR "27set_end_allocate_to_pool_fnESt8functionIFviSt4pairIyyEEE", (void *)check},
    {ALLOCATOR "16set_release_poolESt8functionIFviSt4pairIyyEEE", (void *)check},
};
#define SYMBOLS (sizeof symbols / sizeof *symbols)

static bool torch_is_there = true;
static int handle;

void *vs_torch_library(const char *name)
{
    return torch_is_there ? &handle : NULL;
}

void *__real_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name)
{
    if (library != &handle)
        return __real_dlsym(library, name);
    for (size_t i = 0; i < SYMBOLS; i++)
        if (strcmp(symbols[i].name, name) == 0)
            return symbols[i].at;
    return NULL;
}

static struct symbol *symbol(const char *part)
{
    for (size_t i = 0; i < SYMBOLS; i++)
        if (strstr(symbols[i].name, part))
            return &symbols[i];
    fail_msg("there is no %s", part);
    return NULL;
}

static void is_gone(const char *part)
{
    symbol(part)->name = "";
}

/* ---- what is expected ---- */

/* How a refusal of the driver ends: which of them was thrown. */
static int ends(bool oom)
{
    int how = setjmp(catcher);
    if (how == NOTHING) {
        if (oom)
            vs_torch_raise_oom("there is no memory");
        else
            vs_torch_raise(CUDA_ERROR_LAUNCH_FAILED);
    }
    return how;
}

static bool holds(enum vs_contract c)
{
    return vs_contract_state(c) == VS_CONTRACT_PROVEN;
}

static bool is_served(void)
{
    const char *why = vramscope_torch_refusal();
    bool good = !why && holds(VS_CONTRACT_TORCH_EXCEPTION) && holds(VS_CONTRACT_TORCH_PLUGGABLE);
    good = good && errors == 0 && ends(true) == THROWN_OOM && errors == 0;
    if (!good)
        printf("not served: %s\n", why ? why : thrown);
    return good && thrown_type == &oom_type && !strcmp(thrown, "there is no memory");
}

/* Torch keeps its own allocator, because of CONTRACT, and the sentence has WHY. */
static bool is_refused(enum vs_contract contract, const char *why)
{
    const char *said = vramscope_torch_refusal();
    bool good = said && strstr(said, why) && strstr(said, "PyTorch: it keeps its own allocator") == said &&
                vs_contract_state(contract) == VS_CONTRACT_BROKEN;
    if (!good)
        printf("said: %s\n", said ? said : "nothing");
    return good && errors == 0;
}

#define REFUSED(why) (is_refused(VS_CONTRACT_TORCH_EXCEPTION, why) && ends(true) == THROWN_TEXT)

/* ---- the cases ---- */

CHILD_TEST(a_torch_as_2_15_is_served)
{
    return is_served() && holds(VS_CONTRACT_TORCH_CHECK) && ends(false) == THROWN_STATUS;
}

CHILD_TEST(the_check_of_2_10_to_2_13_is_called)
{
    symbol(CHECK)->name = CHECK "jb";
    return is_served() && holds(VS_CONTRACT_TORCH_CHECK) && ends(false) == THROWN_STATUS;
}

CHILD_TEST(the_check_of_2_4_to_2_9_is_called)
{
    symbol(CHECK)->name = CHECK "ib";
    return is_served() && holds(VS_CONTRACT_TORCH_CHECK) && ends(false) == THROWN_STATUS;
}

CHILD_TEST(a_check_of_another_type_is_not_called_and_an_error_is_one_all_the_same)
{
    symbol(CHECK)->name = CHECK "jbPKc";
    return is_served() && vs_contract_state(VS_CONTRACT_TORCH_CHECK) == VS_CONTRACT_BROKEN &&
           ends(false) == THROWN_TEXT && strstr(thrown, "CUDA error 719");
}

CHILD_TEST(a_torch_of_old_strings_is_served)
{
    symbol("9LazyValueIS6_E")->name = "_ZN3c105ErrorC1ESsSt10shared_ptrIKNS_9LazyValueISsEEEPKv";
    is_gone("_Z" NEW "6assign"); /* those of the new kind are not asked */
    return is_served();
}

CHILD_TEST(an_error_that_is_made_otherwise_is_not_made)
{
    symbol("9LazyValueIS6_E")->name = "_ZN3c105ErrorC1E" NEW "ES6_PKv";
    return REFUSED("c10::Error is made otherwise");
}

CHILD_TEST(strings_that_do_not_give_back_what_they_were_given_are_not_used)
{
    forgets = true;
    return REFUSED("c10::Error is made otherwise");
}

CHILD_TEST(strings_that_cannot_end_are_not_begun)
{
    is_gone("_Z" NEW "D1Ev");
    return REFUSED("c10::Error is made otherwise");
}

CHILD_TEST(without_a_throw_the_arena_is_refused)
{
    is_gone("__cxa_throw");
    return REFUSED("has not the functions that throw");
}

CHILD_TEST(without_out_of_memory_the_arena_is_refused)
{
    is_gone("_ZTVN3c1016OutOfMemoryErrorE");
    return REFUSED("there is no c10::OutOfMemoryError");
}

CHILD_TEST(out_of_memory_with_one_function_more_is_not_ours)
{
    symbol("_ZTVN3c1016OutOfMemoryErrorE")->at = fake_long_table;
    return REFUSED("another class");
}

CHILD_TEST(out_of_memory_of_another_base_class_is_not_ours)
{
    oom_type.base = &another_type;
    return REFUSED("another class");
}

CHILD_TEST(a_table_that_leads_to_data_is_not_called)
{
    fake_oom_table[3] = &another_type;
    return REFUSED("another class");
}

CHILD_TEST(a_constructor_that_is_no_code_is_not_called)
{
    symbol("9LazyValueIS6_E")->at = &another_type;
    return REFUSED("another class");
}

CHILD_TEST(an_error_that_says_another_thing_is_not_thrown)
{
    instead = "another thing";
    return REFUSED("does not say what it was given");
}

CHILD_TEST(what_an_error_says_is_not_read_where_it_cannot_be)
{
    instead = (const char *)64;
    return REFUSED("does not say what it was given");
}

CHILD_TEST(an_error_longer_than_its_room_might_be_is_not_thrown)
{
    error_is_long = 600;
    return REFUSED("does not say what it was given");
}

CHILD_TEST(a_setter_of_another_type_gets_nothing)
{
    symbol("17set_base_alloc_fn")->name = ALLOCATOR "17set_base_alloc_fnESt8functionIFPvS4_PmiEE";
    return is_refused(VS_CONTRACT_TORCH_PLUGGABLE,
                      "set_base_alloc_fn of CUDAPluggableAllocator takes another type");
}

CHILD_TEST(a_function_of_another_library_gets_nothing)
{
    symbol("26set_begin")->name =
        ALLOCATOR "26set_begin_allocate_to_poolENSt3__18functionIFviSt4pairIyyES3_IFb" STREAM "EEEE";
    return is_refused(VS_CONTRACT_TORCH_PLUGGABLE, "set_begin_allocate_to_pool");
}

/* A program that hands the functions over itself. */
CHILD_TEST(a_program_that_proved_nothing_gets_its_errors)
{
    return ends(true) == THROWN_OOM && !strcmp(thrown, "there is no memory") && ends(false) == THROWN_STATUS;
}

CHILD_TEST(without_torch_nothing_is_thrown)
{
    torch_is_there = false;
    return ends(true) == NOTHING && ends(false) == NOTHING;
}

/* The last resort: no NULL where torch would take it for memory. */
CHILD_TEST(where_nothing_can_be_thrown_the_process_ends)
{
    is_gone("__cxa_throw");
    is_gone("__throw_runtime_error");
    signal(SIGABRT, SIG_DFL);
    pid_t child = fork();
    if (child == 0) {
        ends(true);
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
}
