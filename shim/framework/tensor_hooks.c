/*
 * tensor_hooks.c - notes what tensor PyTorch is about to ask memory for.
 *
 * libtorch_cuda makes its tensors by two functions of libtorch_cpu, and changes the size of a storage by one
 * of its own (tensors.h has their names, of torch 2.3 to 2.15).  It calls them through the linker, so
 * preloaded definitions see each request.  Ours leave a note in the thread's own memory and go on into the
 * real function, whose allocator reports the block before it returns (torch.c).
 *
 * Every report, that of an out-of-memory too, clears the note, used or not.  A note is used only for a block
 * that is as large, reported from a little further down the same stack; a block without a note is "raw".
 */
#define _GNU_SOURCE
#include "tensors.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/arch/returned.h"
#include "core/contracts.h"
#include "core/log.h"
#include "core/readable.h"
#include "core/walk.h"
#include "torch.h"

/* ---- what C++ passes ---- */

struct sizes { /* c10::IntArrayRef */
    const int64_t *at;
    size_t n;
};

/* The words behind `keys` and `type` are narrower; they are passed on as they came. */
typedef VS_RETURNED generic_fn(VS_RETURNED_TO struct sizes, void *allocator, uint64_t keys, uint64_t type,
                               uint64_t format);
typedef VS_RETURNED strided_fn(VS_RETURNED_TO struct sizes, struct sizes strides, void *allocator,
                               uint64_t keys, uint64_t type);
typedef void resize_fn(void *storage, size_t bytes);
typedef void resize_at_fn(void *storage, size_t bytes, void *at);

#define EXPORT __attribute__((visibility("default")))
EXPORT generic_fn vs_empty_generic __asm__(VS_GENERIC);
EXPORT strided_fn vs_empty_strided_generic __asm__(VS_STRIDED);
EXPORT resize_fn vs_resize_bytes_cuda __asm__(VS_RESIZE_CUDA);
EXPORT resize_at_fn vs_resize_bytes_at __asm__(VS_RESIZE_AT);

#define CUDA_KEY 2u /* c10::BackendComponent::CUDABit */
/* The keys whose tensors leave notes; 0: none do, as the arguments are not what they should be. */
static VS_HOT _Atomic uint64_t noted_keys = CUDA_KEY;

/* ---- the note ---- */

static const uint8_t element_bytes[256] = {
#define X(n, text, bytes) [n] = bytes,
    VS_ELEMENT_TYPES(X)
#undef X
};

/* How many elements a tensor of this shape has, up to the last one that its strides reach; -1: no tensor can
 * have it.  The shape is copied into NOTE.  The loop has no branches but its own: it is run for every tensor.
 */
static inline int64_t count(struct vs_tensor_note *note, struct sizes size)
{
    int64_t elements = 1;
    bool bad = false;
    for (size_t i = 0; i < size.n; i++) {
        int64_t n = size.at[i];
        note->size[i] = n;
        bad |= n < 0;
        bad |= __builtin_mul_overflow(elements, n, &elements);
    }
    return bad ? -1 : elements;
}

static inline int64_t count_strided(struct vs_tensor_note *note, struct sizes size, const int64_t *strides)
{
    int64_t last = 0, step;
    bool bad = false, empty = false;
    for (size_t i = 0; i < size.n; i++) {
        int64_t n = size.at[i];
        note->size[i] = n;
        bad |= n < 0 || strides[i] < 0;
        empty |= n == 0;
        bad |= __builtin_mul_overflow(n - 1, strides[i], &step);
        bad |= __builtin_add_overflow(last, step, &last);
    }
    return bad ? -1 : empty ? 0 : last + 1;
}

/* More dimensions than a note has room for: its shape is not kept. */
static __attribute__((noinline, cold)) int64_t count_many(struct vs_tensor_note *note, struct sizes size,
                                                          const int64_t *strides)
{
    int64_t last = 0, part;
    for (size_t i = 0; i < size.n; i += VS_TENSOR_DIMS_MAX) {
        size_t n = size.n - i < VS_TENSOR_DIMS_MAX ? size.n - i : VS_TENSOR_DIMS_MAX;
        struct sizes some = {size.at + i, n};
        part = strides ? count_strided(note, some, strides + i) : count(note, some);
        if (part <= 0)
            return part;
        if (strides ? __builtin_add_overflow(last, part - 1, &last)
                    : __builtin_mul_overflow(last + 1, part, &last) || last-- == 0)
            return -1;
    }
    return last + 1;
}

/* A note that nobody takes must not be given to another block.  So none is made where no memory will be asked
 * for: without elements, and for CPU and meta tensors, which the dispatch keys name. */
static inline void note_tensor(struct sizes size, const int64_t *strides, uint64_t keys, uint64_t type,
                               const void *frame)
{
    struct vs_tensor_note *note = &vs_tensor_note;
    /* relaxed: a word by itself */
    if (!(keys & atomic_load_explicit(&noted_keys, memory_order_relaxed)))
        return;
    uint64_t item = element_bytes[(uint8_t)type];
    uint32_t dims = (uint32_t)size.n;
    int64_t elements;
    note->stack = (uintptr_t)frame;
    if (__builtin_expect(size.n > VS_TENSOR_DIMS_MAX, 0)) {
        dims = VS_TENSOR_NO_SHAPE;
        elements = count_many(note, size, strides);
    } else {
        elements = strides ? count_strided(note, size, strides) : count(note, size);
    }
    note->request = (uint64_t)elements * item;
    note->what = elements ? vs_tensor_what(VS_TENSOR_WHOLE, (uint8_t)type, dims) : 0;
    if (__builtin_expect(elements < 0 || item == 0, 0))
        note->what = VS_TENSOR_UNCLEAR;
}

/* ---- the real functions ---- */

/* Two PyTorches in one process do not see each other, so each library that calls gets its own real function:
 *
 *      calls from 0x7f10.. to 0x7f12.. (libtorch_cuda of one)      its libtorch_cpu's
 *      calls from 0x7f50.. to 0x7f52.. (libtorch_cuda of another)  its libtorch_cpu's
 *
 * The first place is that of the first caller, as a rule the only one.  Places fill in order; whoever takes
 * one by its `begin` writes the rest, and so may anybody else with the same code, because it is the same. */
struct callers {
    _Atomic uintptr_t begin; /* of their code; 0: free */
    _Atomic uintptr_t bytes;
    void *_Atomic real; /* NULL: the others are not written yet */
};

enum { CALLERS = 16 };

static _Alignas(64) struct callers generic[CALLERS], strided[CALLERS], resize[CALLERS], resize_at[CALLERS];

static inline void *real_for(const struct callers *c, uintptr_t caller)
{
    /* Acquire: pairs with keep().  The other two never change then. */
    void *real = atomic_load_explicit(&c->real, memory_order_acquire);
    uintptr_t begin = atomic_load_explicit(&c->begin, memory_order_relaxed);
    uintptr_t bytes = atomic_load_explicit(&c->bytes, memory_order_relaxed);
    return caller - begin < bytes ? real : NULL;
}

static void keep(struct callers *all, uintptr_t begin, uintptr_t bytes, void *real)
{
    for (struct callers *c = all; c < all + CALLERS; c++) {
        uintptr_t there = 0;
        atomic_compare_exchange_strong_explicit(&c->begin, &there, begin, memory_order_relaxed,
                                                memory_order_relaxed);
        if (there != 0 && there != begin)
            continue;
        atomic_store_explicit(&c->bytes, bytes, memory_order_relaxed);
        atomic_store_explicit(&c->real, real, memory_order_release);
        return;
    }
}

/* The library of an address, and the part of its code that the address is in. */
struct place {
    uintptr_t address, begin, bytes;
    void *library; /* a handle; NULL: the address is in none, or it cannot be had */
    char path[4096];
};

static int find_place(struct dl_phdr_info *info, size_t size, void *data)
{
    struct place *p = data;
    (void)size;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + h->p_vaddr;
        if (h->p_type != PT_LOAD || p->address - begin >= h->p_memsz)
            continue;
        if (strlen(info->dlpi_name) < sizeof p->path) {
            strcpy(p->path, info->dlpi_name);
            p->begin = begin;
            p->bytes = h->p_memsz;
        }
        return 1;
    }
    return 0;
}

static void *in_library(void *library, const char *name, const void *ours)
{
    void *found = library ? dlsym(library, name) : NULL;
    return found == ours ? NULL : found;
}

/* As the linker would have found it: in what all libraries see, and then with the caller's own library and
 * what that needs. */
static void *search(const char *name, const void *ours, const struct place *caller)
{
    void *found = in_library(RTLD_NEXT, name, ours);
    if (!found)
        found = in_library(caller->library, name, ours);
    if (!found)
        found = in_library(vs_torch_library("libtorch_cpu"), name, ours);
    return found ? found : in_library(vs_torch_library("libtorch_cuda"), name, ours);
}

/* The caller was made for another PyTorch than the one that it has, and was loaded only because our
 * definition has the name.  Where the linker would have refused to load it, the program could have gone on
 * without it; so it can if it catches the exception. */
static __attribute__((noreturn)) void missing(const char *name, const struct place *caller)
{
    void (*throw_)(const char *) =
        (void (*)(const char *))search("_ZSt21__throw_runtime_errorPKc", NULL, caller);
    char text[512];
    snprintf(text, sizeof text, "vramscope: symbol lookup error: undefined symbol: %s", name);
    if (throw_)
        throw_(text);
    vs_log("symbol lookup error: undefined symbol: %s", name);
    _exit(127);
}

/* ---- whether the arguments are what they should be ---- */

/* What a call has in the places where its arguments should be. */
struct call {
    struct sizes size;
    const void *allocator;
    uint64_t keys, type;
};

#define ALLOCATOR "_ZN3c104cuda20CUDACachingAllocator9allocatorE" /* std::atomic<CUDAAllocator *> */

/* The allocator of CUDA's tensors, which libc10_cuda exports as a variable; NULL: not found. */
static const void *cuda_allocator(void)
{
    void *library = vs_torch_library("libc10_cuda");
    void *const *variable = library ? dlsym(library, ALLOCATOR) : NULL;
    return variable && vs_readable((uintptr_t)variable) ? *variable : NULL;
}

/* The names of the functions have the types of all arguments but say nothing of registers.  One argument is
 * known beforehand: the allocator of the tensors that are on CUDA's devices.  Where it stands in its place,
 * so do its neighbours.  Another allocator, of the program's own, decides nothing. */
static bool is_likely(const struct call *c)
{
    size_t bytes = c->size.n * sizeof *c->size.at;
    return c->size.n < 512 && (uint8_t)c->type < 128 &&
           (bytes == 0 || vs_readable_bytes((uintptr_t)c->size.at, bytes));
}

static void prove_call(const struct call *c)
{
    if (!is_likely(c)) {
        atomic_store_explicit(&noted_keys, 0, memory_order_relaxed);
        vs_contract_broken(VS_CONTRACT_TORCH_TENSORS,
                           vs_readable((uintptr_t)c)
                               ? "it makes tensors with other arguments than 2.3 to 2.15"
                               : "arguments can't be looked at (kernel_readable)");
    } else if ((c->keys & CUDA_KEY) && c->allocator && c->allocator == cuda_allocator()) {
        vs_contract_proven(VS_CONTRACT_TORCH_TENSORS,
                           "empty_generic has CUDA's allocator where it should be");
    }
}

/* Handles of libraries with a place are never closed: the pointers stay good, and the code stays theirs. */
static __attribute__((noinline, cold)) void *look_up(struct callers *all, const char *name, const void *ours,
                                                     uintptr_t address, struct call call)
{
    int saved = errno;
    struct place caller = {.address = address};
    if (vs_walk_objects(find_place, &caller) && caller.bytes)
        caller.library = dlopen(caller.path, RTLD_NOLOAD | RTLD_LAZY);
    void *found = search(name, ours, &caller);
    if (!found)
        missing(name, &caller);
    prove_call(&call);
    if (caller.library)
        keep(all, caller.begin, caller.bytes, found);
    dlerror(); /* the host must not see the error of our search */
    errno = saved;
    return found;
}

/* Of a caller that is not the first one. */
static __attribute__((noinline)) void *find_real(struct callers *all, const char *name, const void *ours,
                                                 uintptr_t caller, struct call call)
{
    for (struct callers *c = all + 1; c < all + CALLERS; c++) {
        void *real = real_for(c, caller);
        if (real)
            return real;
        if (!atomic_load_explicit(&c->begin, memory_order_relaxed))
            break;
    }
    return look_up(all, name, ours, caller, call);
}

/* The real function of the caller.  On x86-64 the call goes on by a jump, where the compiler optimizes: no
 * frame of ours is on the stack when the allocator throws, or when a call stack is taken.  Otherwise there is
 * one, which exceptions pass like any other.  CALL: its arguments, which are passed on by value so that no
 * address of theirs hinders the jump. */
#define REAL(all, name, ours, call)                                                                          \
    ({                                                                                                       \
        uintptr_t caller_ = (uintptr_t)__builtin_return_address(0);                                          \
        void *real_ = real_for(all, caller_);                                                                \
        if (__builtin_expect(!real_, 0))                                                                     \
            real_ = find_real(all, name, (const void *)(ours), caller_, call);                               \
        (typeof(&ours))real_;                                                                                \
    })

/* ---- in their place ---- */

VS_HOT_CODE VS_RETURNED vs_empty_generic(VS_RETURNED_TO struct sizes size, void *allocator, uint64_t keys,
                                         uint64_t type, uint64_t format)
{
    generic_fn *call =
        REAL(generic, VS_GENERIC, vs_empty_generic, ((struct call){size, allocator, keys, type}));
    note_tensor(size, NULL, keys, type, __builtin_frame_address(0));
    return call(VS_RETURNED_PASS size, allocator, keys, type, format);
}

VS_HOT_CODE VS_RETURNED vs_empty_strided_generic(VS_RETURNED_TO struct sizes size, struct sizes strides,
                                                 void *allocator, uint64_t keys, uint64_t type)
{
    strided_fn *call =
        REAL(strided, VS_STRIDED, vs_empty_strided_generic, ((struct call){size, allocator, keys, type}));
    /* of an unknown type where the real function is going to throw */
    note_tensor(size, strides.at, keys, strides.n == size.n ? type : UINT8_MAX, __builtin_frame_address(0));
    return call(VS_RETURNED_PASS size, strides, allocator, keys, type);
}

static void note_storage(size_t bytes, const void *frame)
{
    struct vs_tensor_note *note = &vs_tensor_note;
    note->stack = (uintptr_t)frame;
    note->request = bytes;
    note->what = bytes ? vs_tensor_what(VS_TENSOR_STORAGE, VS_TENSOR_NO_TYPE, VS_TENSOR_NO_SHAPE) : 0;
}

void vs_resize_bytes_cuda(void *storage, size_t bytes)
{
    resize_fn *call = REAL(resize, VS_RESIZE_CUDA, vs_resize_bytes_cuda, (struct call){0});
    note_storage(bytes, __builtin_frame_address(0));
    call(storage, bytes);
}

void vs_resize_bytes_at(void *storage, size_t bytes, void *at)
{
    resize_at_fn *call = REAL(resize_at, VS_RESIZE_AT, vs_resize_bytes_at, (struct call){0});
    note_storage(bytes, __builtin_frame_address(0));
    call(storage, bytes, at);
}
