/*
 * test_export_race.c - a block that is freed while its descriptors are being made is not given away.
 *
 * The thread that frees it meanwhile, and gets the same addresses for another block, is a stand-in that runs
 * at exactly that point: in the place of vs_arena_handles (linked with --wrap) and of the driver's export.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <unistd.h>

#include "unit/test.h"
#include "arena/away/away.h"
#include "arena/core/backing.h"
#include "arena/share/share.h"
#include "arena/device/served.h"

#define CHUNK  (2ull << 20)
#define PIECES 4u

static struct vs_backing_count counters;
static struct vs_arena *arena;
static vs_passing_give *give;      /* as the thread that answers calls it */
static CUdeviceptr block;          /* that was exported */
static int opened[64], open_count; /* descriptors that the driver made */

/* Where another thread frees the block, and gets one of the same size. */
static enum { NOWHERE, BEFORE_THE_HANDLES, AT_A_DESCRIPTOR } other_thread;

static void free_and_allocate(void)
{
    uint64_t address = 0;
    vs_exports_block_ends(&vs_served[0], arena, block);
    assert_int_equal(vs_arena_free(arena, block, VS_ARENA_ANY, 0), 0);
    assert_int_equal(vs_arena_malloc(arena, VS_ARENA_ANY, PIECES * CHUNK, &address), 0);
    assert_int_equal(address, block); /* else nothing is proved */
    other_thread = NOWHERE;
}

struct vs_arena_ground __real_vs_arena_handles(struct vs_arena *a, uint64_t address, uint32_t first,
                                               uint64_t *handles, uint32_t most);
struct vs_arena_ground __wrap_vs_arena_handles(struct vs_arena *a, uint64_t address, uint32_t first,
                                               uint64_t *handles, uint32_t most);
struct vs_arena_ground __wrap_vs_arena_handles(struct vs_arena *a, uint64_t address, uint32_t first,
                                               uint64_t *handles, uint32_t most)
{
    if (other_thread == BEFORE_THE_HANDLES)
        free_and_allocate();
    return __real_vs_arena_handles(a, address, first, handles, most);
}

static CUresult export_handle(void *out, CUmemGenericAllocationHandle handle, CUmemAllocationHandleType type,
                              unsigned long long flags)
{
    if (other_thread == AT_A_DESCRIPTOR && open_count == 2)
        free_and_allocate();
    opened[open_count] = open("/dev/null", O_RDONLY | O_CLOEXEC);
    *(int *)out = opened[open_count++];
    return CUDA_SUCCESS;
}

/* ---- the rest of the shim ---- */

void vs_away_give(uint64_t address) {}

void vs_away_asked(void) {}

struct vs_served vs_served[VS_SERVED_DEVICES];
_Atomic(void *) vs_call_table[VS_CALL_END];

bool vs_served_in(void)
{
    return true;
}

void vs_served_out(void) {}

struct vs_arena *vs_served_owner(CUdeviceptr address, struct vs_served **s, struct vs_arena_block *found)
{
    *s = &vs_served[0];
    return vs_arena_find(arena, address, found) ? arena : NULL;
}

int vs_passing_serve(vs_passing_give *answers, struct vs_passing_address *where)
{
    give = answers;
    *where = (struct vs_passing_address){.name = 1};
    return 0;
}

uint64_t vs_passing_name(void)
{
    return 1;
}

void *vs_real_under(enum vs_api api)
{
    return NULL;
}

void *vs_cuda_real(const char *name)
{
    return NULL;
}

static CUresult get_current(CUcontext *context)
{
    return *context = (CUcontext)(uintptr_t)1, CUDA_SUCCESS;
}

/* ---- */

static int begin(void **state)
{
    struct vs_backing backing = vs_backing_of_counters(&counters, CHUNK);
    struct vs_arena_config config = {.capacity = 64 * CHUNK};
    if (vs_arena_create(&arena, &backing, &config) != 0 ||
        vs_arena_malloc(arena, VS_ARENA_ANY, PIECES * CHUNK, (uint64_t *)&block) != 0)
        return -1;
    vs_served[0].cuda.chunk = CHUNK;
    vs_served[0].cuda.prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    atomic_store(&vs_served[0].arena, arena);
    atomic_store(&vs_call_table[VS_CALL_cuCtxGetCurrent], (void *)get_current);
    atomic_store(&vs_call_table[VS_CALL_cuMemExportToShareableHandle], (void *)export_handle);
    open_count = 0;
    return 0;
}

static int end(void **state)
{
    vs_exports_arena_ends(&vs_served[0]);
    vs_arena_destroy(arena);
    for (int i = 0; i < open_count; i++)
        close(opened[i]);
    return 0;
}

/* As a program calls cuIpcGetMemHandle: the block's id. */
static uint64_t export_block(void)
{
    CUresult (*get)(CUipcMemHandle *, CUdeviceptr) = vs_stand_ins_exports[0].function;
    struct vs_ipc_ticket ticket;
    CUipcMemHandle handle;
    assert_int_equal(get(&handle, block), CUDA_SUCCESS);
    memcpy(&ticket, handle.reserved, sizeof ticket);
    return ticket.id;
}

static struct vs_passing_answer ask(uint64_t id, int *files)
{
    struct vs_passing_request question = {id, 0, VS_PASSING_FILES};
    struct vs_passing_answer answer = {0};
    give(&question, &answer, files);
    return answer;
}

static void nothing_is_given(const struct vs_passing_answer *answer)
{
    assert_int_equal(answer->status, CUDA_ERROR_INVALID_HANDLE);
    assert_int_equal(answer->files, 0);
    for (int i = 0; i < open_count; i++)
        assert_int_equal(fcntl(opened[i], F_GETFD), -1); /* none stays open */
}

TEST(a_block_that_lives_is_given_in_whole, begin, end)
{
    int files[VS_PASSING_FILES];
    struct vs_passing_answer answer = ask(export_block(), files);
    assert_int_equal(answer.status, CUDA_SUCCESS);
    assert_int_equal(answer.pieces, PIECES);
    assert_int_equal(answer.files, PIECES);
    assert_memory_equal(files, opened, PIECES * sizeof *files);
}

TEST(a_block_freed_after_its_look_up_is_not_given_as_the_next_one_there, begin, end)
{
    int files[VS_PASSING_FILES];
    uint64_t id = export_block();
    other_thread = BEFORE_THE_HANDLES;
    struct vs_passing_answer answer = ask(id, files);
    assert_int_equal(other_thread, NOWHERE);
    nothing_is_given(&answer);
}

TEST(a_block_freed_between_two_descriptors_is_not_given, begin, end)
{
    int files[VS_PASSING_FILES];
    uint64_t id = export_block();
    other_thread = AT_A_DESCRIPTOR;
    struct vs_passing_answer answer = ask(id, files);
    assert_int_equal(other_thread, NOWHERE);
    nothing_is_given(&answer);
}

TEST(the_next_block_there_is_given_by_its_own_handle_alone, begin, end)
{
    int files[VS_PASSING_FILES];
    uint64_t old = export_block();
    free_and_allocate();
    uint64_t id = export_block();
    assert_int_not_equal(id, old);
    struct vs_passing_answer answer = ask(old, files);
    nothing_is_given(&answer);
    answer = ask(id, files);
    assert_int_equal(answer.status, CUDA_SUCCESS);
    assert_int_equal(answer.files, PIECES);
}
