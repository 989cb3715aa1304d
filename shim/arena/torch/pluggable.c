/*
 * pluggable.c - whether torch's class for allocators takes the functions of abi.h for what they are.
 *
 * They are handed over as addresses, so no compiler compares the types; but the class's own functions take
 * each as a std::function, and their names spell its type out, std::pair and the filter of a pool included.
 * A name that has no word for an ABI (St8function) is libstdc++'s.
 */
#include "torch.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

#include "core/contracts.h"
#include "framework/torch.h"

#define CLASS  "N5torch4cuda22CUDAPluggableAllocator22CUDAPluggableAllocator"
#define STREAM "P11CUstream_st"
#define POOL   "St4pairIyyE"

/* What _arena.py sets, by its name in C++ and by its type. */
static const struct {
    const char *name, *mangled;
} setters[] = {
    {"the constructor", "C1ESt8functionIFPvmi" STREAM "EES3_IFvS4_miS6_EE"},
    {"set_record_stream_fn", "20set_record_stream_fnESt8functionIFvPv" STREAM "EE"},
    {"set_base_alloc_fn", "17set_base_alloc_fnESt8functionIFPvS4_PmEE"},
    {"set_reset_fn", "12set_reset_fnESt8functionIFvvEE"},
    {"set_memory_fraction_fn", "22set_memory_fraction_fnESt8functionIFvdiEE"},
    {"set_begin_allocate_to_pool",
     "26set_begin_allocate_to_poolESt8functionIFvi" POOL "S3_IFb" STREAM "EEEE"},
    {"set_end_allocate_to_pool_fn", "27set_end_allocate_to_pool_fnESt8functionIFvi" POOL "EE"},
    {"set_release_pool", "16set_release_poolESt8functionIFvi" POOL "EE"},
};

/* From torch 2.5 on the class lies in libtorch_cuda. */
void *vs_torch_pluggable(const char *before, const char *after)
{
    void *cuda = vs_torch_library("libtorch_cuda"), *python = vs_torch_library("libtorch_python");
    char name[256];
    snprintf(name, sizeof name, "%s" CLASS "%s", before, after);
    void *found = cuda ? dlsym(cuda, name) : NULL;
    if (!found && python)
        found = dlsym(python, name);
    dlerror(); /* the host must not find what was not found here */
    return found;
}

static const char *prove(void)
{
    static char why[96];
    for (size_t i = 0; i < sizeof setters / sizeof *setters; i++)
        if (!vs_torch_pluggable("_Z", setters[i].mangled)) {
            snprintf(why, sizeof why, "%s of CUDAPluggableAllocator takes another type than in 2.4 to 2.15",
                     setters[i].name);
            vs_contract_broken(VS_CONTRACT_TORCH_PLUGGABLE, "%s", why);
            return why;
        }
    vs_contract_proven(VS_CONTRACT_TORCH_PLUGGABLE, "the names of its functions spell out the types");
    return NULL;
}

const char *vramscope_torch_refusal(void)
{
    static char sentence[384];
    const char *why = prove(), *cannot_raise = vs_torch_raise_prove();
    enum vs_contract broken = why ? VS_CONTRACT_TORCH_PLUGGABLE : VS_CONTRACT_TORCH_EXCEPTION;
    if (!why && !cannot_raise)
        return NULL;
    snprintf(sentence, sizeof sentence, "%s: %s: %s", vs_party_name(VS_PARTY_TORCH),
             vs_contract_rows[broken].lost, why ? why : cannot_raise);
    return sentence;
}
