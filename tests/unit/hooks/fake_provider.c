/* fake_provider.c - stands in the driver's place in the tests of hooks/, by provider.h alone. */
#include "fake_provider.h"

#include <string.h>

#include "hooks/driver.h"

#define PUBLIC __attribute__((visibility("default")))

static struct fake_provider p;

PUBLIC struct fake_provider *vramscope_test_provider(void)
{
    return &p;
}

/* What the mover of memory calls. */
PUBLIC void vramscope_test_changed(int device);
void vramscope_test_changed(int device)
{
    vs_provided_changed(device);
}

static bool alloc(struct vs_given *g, CUdeviceptr *out, size_t size)
{
    p.allocs++;
    *g = p.given;
    if (!p.serves)
        g->space = VS_SPACE_NONE;
    else
        *out = p.address;
    return p.serves;
}

static bool alloc_rows(struct vs_given *g, CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                       unsigned int element)
{
    *pitch = 512;
    return alloc(g, out, 512 * height);
}

static bool alloc_ordered(struct vs_given *g, CUdeviceptr *out, size_t size, CUstream stream,
                          CUmemoryPool pool)
{
    return alloc(g, out, size);
}

static bool free_it(struct vs_given *g, CUdeviceptr address)
{
    p.frees++;
    *g = p.given;
    g->status = p.status;
    return p.serves;
}

static bool free_ordered(struct vs_given *g, CUdeviceptr address, CUstream stream)
{
    return free_it(g, address);
}

static bool shortage(void)
{
    bool more = p.gives_back;
    p.shortages++;
    p.gives_back = false;
    return more;
}

static bool owner(CUdeviceptr address, struct vs_owned *block)
{
    return false;
}

static bool holds(int device, struct vs_holding *h)
{
    *h = device == 0 ? p.held : (struct vs_holding){0};
    return true;
}

static bool figures(int device, bool at_once, uint64_t figure[VS_FIGURE_END])
{
    return false;
}

static bool ended(int device, uint64_t figure[VS_FIGURE_END])
{
    bool has = p.has_ended && device == 0;
    if (has)
        memcpy(figure, p.last, sizeof p.last);
    p.has_ended = p.has_ended && !has;
    return has;
}

/* In the place of a function that gives out nothing; the driver's own is asked all the same. */
static CUresult stand_in(unsigned int flags)
{
    CUresult (*own)(unsigned int) = vs_real_under(VS_API_cuInit);
    p.stood_in++;
    return own(flags);
}

static const struct vs_stand_in stand_ins[] = {{VS_API_cuInit, (void *)stand_in}, {0}};
static const struct vs_stand_in *const lists[] = {stand_ins, NULL};
static const struct vs_provider provider = {.alloc = alloc,
                                            .alloc_rows = alloc_rows,
                                            .alloc_ordered = alloc_ordered,
                                            .free = free_it,
                                            .free_ordered = free_ordered,
                                            .shortage = shortage,
                                            .owner = owner,
                                            .holds = holds,
                                            .figures = figures,
                                            .ended = ended,
                                            .stand_ins = lists};

__attribute__((constructor)) static void install(void)
{
    vs_provide(&provider);
}
