/*
 * given.c - the words that launches, copies and fills give to the device.
 */
#include "given.h"

#include <string.h>

#include "access/kernels.h"
#include "core/contracts.h"
#include "graph.h"
#include "record/record.h"
#include "rows.h"

static VS_HOT _Atomic uint32_t captures; /* under way */
static _Atomic uint32_t api_name[VS_API_END];
static VS_HOT _Atomic(struct vs_journal *)
    named_for; /* whose string ids these are, and those of the kernels */

/* ---- names ---- */

/* A new journal (of a fork's child, which has one thread then) numbers its strings anew. */
static struct vs_journal *journal(void)
{
    struct vs_journal *j = vs_record_journal();
    if (__builtin_expect(j == atomic_load_explicit(&named_for, memory_order_relaxed), 1) || j == NULL)
        return j;
    if (atomic_exchange_explicit(&named_for, j, memory_order_relaxed) != NULL) {
        vs_kernels_reset();
        for (int i = 0; i < VS_API_END; i++)
            atomic_store_explicit(&api_name[i], 0, memory_order_relaxed);
    }
    return j;
}

/* As programs know the function: of a symbol the part before its variant, _v2, _ptsz, _ptds. */
static size_t base_length(const char *symbol)
{
    const char *variant = strstr(symbol, "_v");
    if (variant == NULL)
        variant = strstr(symbol, "_pt");
    return variant != NULL ? (size_t)(variant - symbol) : strlen(symbol);
}

uint32_t vs_given_name(enum vs_api api)
{
    struct vs_journal *j = journal();
    uint32_t id = atomic_load_explicit(&api_name[api], memory_order_relaxed);
    const char *symbol = vs_api_name((uint64_t)api);
    if (id != 0 || j == NULL || symbol == NULL)
        return id;
    id = vs_journal_string(j, symbol, base_length(symbol));
    atomic_store_explicit(&api_name[api], id, memory_order_relaxed);
    return id;
}

/* ---- kernels ----
 *
 * The driver is asked for a kernel's parameters after the kernel's first recorded launch, so that nothing is
 * loaded just for us.  Drivers before 12.4 cannot be asked: then a launch with an array of pointers counts as
 * one that may use every block, and a buffer of packed parameters is searched as a whole. */

/* What the driver answered behind the last parameter, or instead of one. */
static CUresult query_params(CUfunction f, struct vs_kernel_params *p)
{
    size_t offset, size, end = 0;
    bool kernel = false;
    for (p->count = 0; p->count < VS_KERNEL_PARAMS; p->count++) {
        CUresult r = kernel ? vs_drv_cuKernelGetParamInfo((CUkernel)f, p->count, &offset, &size)
                            : vs_drv_cuFuncGetParamInfo(f, p->count, &offset, &size);
        if (r == CUDA_ERROR_INVALID_HANDLE && p->count == 0 && !kernel) {
            kernel = true;
            r = vs_drv_cuKernelGetParamInfo((CUkernel)f, 0, &offset, &size);
        }
        if (r != CUDA_SUCCESS)
            return r;
        if (offset < end || offset > UINT16_MAX || size > UINT16_MAX)
            return CUDA_SUCCESS;
        end = offset + size;
        p->at[p->count].offset = (uint16_t)offset;
        p->at[p->count].size = (uint16_t)size;
    }
    return CUDA_SUCCESS;
}

/* Whether the driver gave all parameters: it says that there are no more.  A driver before 12.4 gives none.
 */
static bool are_known(CUfunction f, struct vs_kernel_params *p)
{
    CUresult last = query_params(f, p);
    if (last == CUDA_ERROR_INVALID_VALUE) {
        if (p->count > 0)
            vs_contract_proven(VS_CONTRACT_CUDA_PARAMETERS, "%u parameters of the first kernel", p->count);
        return true;
    }
    if (p->count > 0 && p->count < VS_KERNEL_PARAMS)
        vs_contract_broken(VS_CONTRACT_CUDA_PARAMETERS, "of parameter %u of a kernel it answers %d", p->count,
                           (int)last);
    p->count = 0;
    return false;
}

/* What is known of the parameters by the kernel's NAME. */
static void layout_of(const char *name, struct vs_kernel_params *p)
{
    uint32_t n = p->count;
    p->list = n > 1 ? vs_foreach_of(name, p->at[0].size, p->at[1].size) : (struct vs_foreach){0};
    p->array = n > 2 && vs_foreach_is_array(name, p->at[2].size) ? 2 + 1 : 0;
    p->strided = n > 0 ? vs_strided_of(name, n, p->at[n - 1].size) : (struct vs_strided){0};
    for (uint32_t i = 0; i < n; i++)
        p->at[i].size = (uint16_t)vs_strided_room(name, p->at[i].size);
}

static __attribute__((noinline)) const struct vs_kernel *ask(struct vs_journal *j, CUfunction f)
{
    struct vs_kernel_params params;
    const char *name = NULL;
    params.known = are_known(f, &params);
    if (vs_drv_cuFuncGetName(&name, f) != CUDA_SUCCESS &&
        vs_drv_cuKernelGetName(&name, (CUkernel)f) != CUDA_SUCCESS)
        name = NULL;
    uint32_t id = name != NULL ? vs_journal_string(j, name, strlen(name)) : 0;
    layout_of(name != NULL ? name : "", &params);
    return vs_kernel_learn(f, id, name != NULL && vs_use_name_reaches(name), &params);
}

const struct vs_kernel *vs_given_kernel(CUfunction f)
{
    struct vs_journal *j = journal();
    const struct vs_kernel *k = j != NULL ? vs_kernel_find(f) : NULL;
    return __builtin_expect(k != NULL, 1) || j == NULL ? k : ask(j, f);
}

const void *vs_given_buffer(void **extra, size_t *size)
{
    const void *buffer = NULL;
    *size = 0;
    for (int i = 0; extra != NULL && i < 16 && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
        if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
            buffer = extra[i + 1];
        else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[i + 1] != NULL)
            *size = *(const size_t *)extra[i + 1];
    }
    return buffer;
}

void vs_given_capture(int begun)
{
    atomic_fetch_add_explicit(&captures, (uint32_t)begun, memory_order_relaxed);
}

/* Relaxed: a thread that gives work to a captured stream knows of the capture, by the program's own
 * synchronization.  If the driver does not answer the work counts, which may be a use too many. */
bool vs_given_captured(CUstream stream)
{
    return __builtin_expect(atomic_load_explicit(&captures, memory_order_relaxed) != 0, 0) &&
           vs_capturing(stream) == VS_CAPTURE_YES;
}

VS_HOT_CODE void vs_given_launch(CUfunction f, CUstream stream, struct vs_grid grid, void **params,
                                 void **extra)
{
    vs_use_fetch();
    if (vs_given_captured(stream))
        return;
    const struct vs_kernel *k = vs_given_kernel(f);
    if (k == NULL) {
        vs_use_reaching();
        return;
    }
    size_t size = 0;
    const void *buffer = __builtin_expect(extra != NULL, 0) ? vs_given_buffer(extra, &size) : NULL;
    struct vs_use u = vs_use_begin(k->name, VS_ACCESS_KERNEL);
    vs_kernel_given(k, &u, grid, buffer != NULL ? NULL : params, buffer, size);
    if (__builtin_expect(k->reaches || (!k->known && buffer == NULL), 0))
        vs_use_reaching();
}

void vs_given_unseen(CUstream stream)
{
    if (!vs_given_captured(stream))
        vs_use_reaching();
}

/* ---- copies, fills ---- */

static void copy(enum vs_api api, CUstream stream, uint64_t to, uint64_t size, const struct vs_box *from,
                 uint16_t kinds)
{
    if (size == 0 || vs_given_captured(stream))
        return;
    struct vs_use u = vs_use_begin(vs_given_name(api), kinds);
    vs_use_copy(&u, to, size, from);
}

void vs_given_copy(enum vs_api api, CUstream stream, uint64_t to, uint64_t from, uint64_t size,
                   uint16_t kinds)
{
    copy(api, stream, to, size, &VS_BOX_FLAT(from, size), kinds);
}

void vs_given_copies(enum vs_api api, CUstream stream, const CUdeviceptr *to, const CUdeviceptr *from,
                     const size_t *size, size_t count)
{
    for (size_t i = 0; i < count; i++)
        vs_given_copy(api, stream, to[i], from[i], size[i], 0);
}

/* From the first byte of rows to behind the last. */
static uint64_t span(size_t pitch, size_t width, size_t rows)
{
    return rows == 0 ? 0 : (pitch > width ? pitch : width) * (rows - 1) + width;
}

/* As many rows as there are, by the smaller pitch: no further than either side reaches. */
static void copy_rows(enum vs_api api, CUstream stream, CUDA_MEMCPY3D c)
{
    struct vs_box from = VS_ROWS_BOX(&c, src);
    copy(api, stream, VS_ROWS_BOX(&c, dst).begin,
         span(c.srcPitch < c.dstPitch ? c.srcPitch : c.dstPitch, c.WidthInBytes, c.Height * c.Depth), &from,
         0);
}

void vs_given_copy_2d(enum vs_api api, CUstream stream, const CUDA_MEMCPY2D *c)
{
    if (c != NULL)
        copy_rows(api, stream, vs_rows_2d(c));
}

void vs_given_copy_3d(enum vs_api api, CUstream stream, const CUDA_MEMCPY3D *c)
{
    if (c != NULL)
        copy_rows(api, stream, *c);
}

void vs_given_copy_peer(enum vs_api api, CUstream stream, const CUDA_MEMCPY3D_PEER *c)
{
    if (c != NULL)
        copy_rows(api, stream, vs_rows_peer(c));
}

void vs_given_copy_ops(enum vs_api api, CUstream stream, const struct CUDA_MEMCPY3D_BATCH_OP_st *list,
                       size_t count)
{
    CUDA_MEMCPY3D c;
    for (size_t i = 0; i < count; i++)
        if (vs_rows_op(&list[i], &c))
            copy_rows(api, stream, c);
        else
            vs_given_unseen(stream);
}

void vs_given_fill(enum vs_api api, CUstream stream, uint64_t to, uint64_t size)
{
    if (size == 0 || vs_given_captured(stream))
        return;
    struct vs_use u = vs_use_begin(vs_given_name(api), VS_ACCESS_FILL);
    vs_use_memory(&u, to, size);
}

/* ---- tensor maps ---- */

void vs_given_map(const CUtensorMap *map, const void *address)
{
    if (map != NULL)
        vs_map_made(map, (uint64_t)(uintptr_t)address);
}
