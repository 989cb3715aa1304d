/*
 * init.c - the library's constructor, and the registration of its exit handlers.
 *
 * The library is linked -z initfirst: its constructor runs before libc's own, in every process that inherits
 * LD_PRELOAD, nearly all of which have nothing to do with CUDA.  So it makes no file, no thread and no
 * allocation, takes the environment from its arguments instead of from libc, and ends within microseconds.
 */
#define _GNU_SOURCE
#include <link.h>
#include <stddef.h>

#include "access/use.h"
#include "framework/autograd.h"
#include "framework/layers.h"
#include "framework/ranges.h"
#include "framework/torch.h"
#include "hooks/place.h"
#include "hooks/loader/loader.h"
#include "hooks/meminfo.h"
#include "hooks/provided.h"
#include "hooks/symbols/symbols.h"
#include "limit/limit.h"
#include "core/hot.h"
#include "core/log.h"
#include "core/options.h"
#include "provider/provider.h"
#include "record/recording.h"
#include "record/record.h"
#include "sample/sampler.h"
#include "stacks/modules.h"
#include "stacks/stacks.h"

#pragma weak _r_debug /* glibc's loader alone has it */

/* The C++ ABI's registration, which atexit is made from. */
extern int __cxa_atexit(void (*function)(void *), void *argument, void *dso);

/* Completes an allocation's stack: in backward with the call of the forward that it goes back to, and with
 * the program's layer. */
static uint32_t placed(struct vs_journal *j, uint32_t stack, const struct vs_autograd_run *run,
                       uint32_t layer)
{
    struct vs_stack_place place = {run->node, run->forward, layer ? vs_layer_frame(j, layer) : 0};
    return place.node || place.layer ? vs_stack_placed(j, stack, &place) : stack;
}

static uint32_t stack_of(struct vs_journal *j, int skip)
{
    struct vs_autograd_run run = {0};
    uint32_t stack = vs_stack_capture(j, skip);
    if (!j || vs_options.stacks < VS_STACKS_PYTHON)
        return stack;
    bool backward = vs_autograd_running(j, &run);
    return placed(j, stack, &run, vs_layer_here(backward));
}

static __attribute__((noinline)) uint32_t place_python(struct vs_journal *j,
                                                       const struct vs_autograd_run *run, uint32_t layer)
{
    return placed(j, vs_python_capture_in(j, 0, NULL), run, layer);
}

/* In forward, the usual case, stack and layer are looked up together. */
VS_HOT_CODE static uint32_t python_stack_of(struct vs_journal *j)
{
    struct vs_autograd_run run = {0};
    uint32_t stack;
    if (!j)
        return 0;
    bool backward = vs_autograd_running(j, &run);
    uint32_t layer = vs_layer_here(backward);
    if (__builtin_expect(backward, 0))
        return place_python(j, &run, layer);
    stack = vs_python_capture_in(j, layer, vs_layer_frame);
    return __builtin_expect(stack != 0 || layer == 0, 1) ? stack : place_python(j, &run, layer);
}

/* Connects the folders: record itself does not depend on its suppliers. */
static void put_together(void)
{
    vs_suppliers = (struct vs_suppliers){.range = vs_range_current,
                                         .stack = stack_of,
                                         .python_stack = python_stack_of,
                                         .track = vs_access_begin,
                                         .before = vs_access_before,
                                         .after = vs_access_after,
                                         .prepare = vs_stack_prepare,
                                         .round = vs_stack_refresh,
                                         .second_thread = vs_sampler_run,
                                         .last_look = vs_sampler_last_look,
                                         .control = vs_suppliers.control}; /* until a provider has one */
    vs_torch_rebind = vs_rebind_object;
    vs_pool_seen = vs_caller_pool;
    vs_sampler_init((struct vs_sampler_driver){vs_cuda_current, vs_cuda_used_bytes});
}

/* ---- unusual hosts: of another C library than glibc (core/other_libc.c), or built with sanitizers ---- */

extern const char *gnu_get_libc_version(void) __attribute__((weak));

static bool libc_is_other(void)
{
    return gnu_get_libc_version == NULL;
}

/* AddressSanitizer's runtime, where it is a library (gcc; clang with -shared-libasan), ends the program at
 * the start unless it is the first library of all, and a preloaded one comes before it.  It must be first in
 * order to replace malloc and other functions of the C library, none of which we define.  So we switch that
 * check off as a program does, by a function that the runtime calls.  If the program defines that function
 * itself, ours is not called; ASAN_OPTIONS=verify_asan_link_order=0 does the same there. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);

const char *__asan_default_options(void)
{
    return "verify_asan_link_order=0";
}

/* clang's ThreadSanitizer lies in the program, replaces the C library's functions, and crashes where one is
 * called before it has begun.  It begins in the program's .preinit_array, which the loader runs right behind
 * our constructor.  Begun by us it does nothing there. */
static void begin_sanitizer(void)
{
    struct vs_image program;
    const struct link_map *first = &_r_debug != NULL ? _r_debug.r_map : NULL;
    uintptr_t begin = first != NULL && vs_image_of(&program, first->l_addr, first->l_ld)
                          ? vs_image_defines(&program, "__tsan_init")
                          : 0;
    if (begin != 0)
        ((void (*)(void))begin)();
}

/* ---- the constructor ---- */

static void at_exit(void *unused)
{
    vs_drain_finish();
}

#ifndef VRAMSCOPE_ARENA
const struct vs_provider *vs_arena_provider(bool serves)
{
    return NULL;
}
#endif

static const struct vs_provider *provider; /* NULL: this build has none */

/* On a thread of ours: what it does to the program's memory is recorded as if the program did. */
static void control(const struct vs_control_request *request, const struct vs_control_block *blocks,
                    size_t count, struct vs_control_answer *answer)
{
    vs_record_leave_internal();
    provider->carry_out(request, blocks, count, true, answer);
    vs_record_enter_internal();
}

#define TAKES "it takes VRAMSCOPE_ALLOCATOR=arena with VRAMSCOPE_ACCESS=on, and no VRAMSCOPE_ARENA_VIEWS=off"

/* MOVES: the arena can let blocks go to the host. */
static void check_spill(bool moves)
{
    uint64_t bytes = 0;
    const char *given = vs_options.spill;
    bool known = strcmp(given, "on") == 0 || vs_option_bytes(given, &bytes);
    if (*given == 0 || strcmp(given, "off") == 0 || (known && moves && !*vs_options.park))
        return;
    vs_options_lack("VRAMSCOPE_SPILL", given,
                    !known   ? "it is on, or a size such as 64GiB"
                    : !moves ? TAKES
                             : "not with VRAMSCOPE_PARK: what is idle goes by itself");
}

static void install_provider(void)
{
    bool serves = vs_options.allocator == VS_ALLOCATOR_ARENA;
    provider = vs_arena_provider(serves);
    if (provider != NULL)
        vs_provide(provider);
    else if (serves)
        vs_options_lack("VRAMSCOPE_ALLOCATOR", "arena", "the arena is not in this build of vramscope");
    if (provider != NULL && serves)
        vs_record_at_exit = vs_provided_last;
    if (provider != NULL && provider->carry_out != NULL)
        vs_suppliers.control = control;
    bool moves = serves && provider != NULL && vs_options.access && vs_options.arena_views;
    if (*vs_options.park && moves)
        vs_roles_told = provider->told;
    else if (*vs_options.park)
        vs_options_lack("VRAMSCOPE_PARK", vs_options.park, TAKES);
    check_spill(moves);
}

/* Exit handlers run last in, first out, and ours goes in before the loader registers the run of all
 * libraries' destructors: so it runs after them.  NULL means that it belongs to no library; otherwise it
 * would run early, with our own destructors. */
static __attribute__((constructor)) void init(int argc, char **argv, char **environment)
{
    if (libc_is_other()) {
        atomic_store_explicit(&vs_recording->state, VS_RECORDING_OFF, memory_order_relaxed);
        return;
    }
    begin_sanitizer();
    put_together();
    vs_log_init(environment);
    vs_options_load(environment);
    vs_stack_set_depth((unsigned)vs_options.stack_depth);
    vs_output_init();
    vs_recording_prepare();
    vs_ranges_init();
    vs_torch_facts_init(environment);
    __cxa_atexit(at_exit, NULL, NULL);
    if (vs_options.help)
        vs_options_print();
    install_provider();
    vs_limit_install();
    vs_nvml_stand_in = *vs_options.limit ? vs_limit_nvml : NULL;
    vs_hooks_init();
    if (vs_hooks_late()) /* loaded by the driver as its injection library, or by NVTX: see injection.c */
        atomic_store_explicit(&vs_recording->state, VS_RECORDING_OFF, memory_order_relaxed);
}
