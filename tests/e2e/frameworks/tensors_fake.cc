/*
 * tensors_fake.cc - PyTorch's way from a tensor to a block of its allocator, by its names and signatures.
 *
 * Macros choose the file: TORCH_CPU makes tensors, TORCH_CUDA calls it through the linker and has the
 * allocator, C10 is reported to, C10_CUDA says which allocator there is, MAIN loads them RTLD_LOCAL as
 * Python does, EXTENSION calls what only TORCH_CUDA has.  SHIFTED: functions have an argument more in
 * front.  WHO tells two PyTorches apart.
 */
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <dlfcn.h>
#include <new>
#include <optional>
#include <thread>
#include <vector>

namespace c10 {
template <class T> struct ArrayRef {
    const T *data;
    size_t length;
};
struct Device {
    int8_t type, index;
};
struct DispatchKeySet {
    uint64_t bits;
};
enum class ScalarType : int8_t { Float = 6, Half = 5, BFloat16 = 15, Strange = 99 };
enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast };
struct StorageImpl {
    uint64_t bytes;
    bool resizable = true;
};
struct Allocator {
    virtual void *allocate(size_t bytes) = 0;
};
void reportMemoryUsageToProfiler(void *, int64_t, size_t, size_t, Device);
void reportOutOfMemoryToProfiler(int64_t, size_t, size_t, Device);
} // namespace c10

using Format = std::optional<c10::MemoryFormat>;
static const Format channels_last = c10::MemoryFormat::ChannelsLast;
#define VALUE(f) ((f) ? (int)*(f) : -1)
using Sizes = c10::ArrayRef<long>;

namespace at {
struct TensorBase { /* not trivial: returned through a hidden pointer */
    void *block;
    explicit TensorBase(void *b) : block(b) {}
    TensorBase(const TensorBase &) = delete;
    ~TensorBase();
};
namespace detail {
#ifdef SHIFTED
#define MORE       int,
#define MORE_ONE   1,
#define NAMED(...) __asm__(__VA_ARGS__)
#else
#define MORE
#define MORE_ONE
#define NAMED(...)
#endif
TensorBase empty_generic(MORE Sizes, c10::Allocator *, c10::DispatchKeySet, c10::ScalarType, Format)
    NAMED("_ZN2at6detail13empty_genericEN3c108ArrayRefIlEEPNS1_9AllocatorENS1_14DispatchKeySetENS1_10ScalarTypeE"
          "St8optionalINS1_12MemoryFormatEE");
TensorBase empty_strided_generic(MORE Sizes, Sizes, c10::Allocator *, c10::DispatchKeySet, c10::ScalarType)
    NAMED("_ZN2at6detail21empty_strided_genericEN3c108ArrayRefIlEES3_PNS1_9AllocatorENS1_14DispatchKeySetENS1_"
          "10ScalarTypeE");
} // namespace detail
namespace native {
void resize_bytes_cuda(c10::StorageImpl *, size_t);
void resize_bytes_cuda_with_addr(c10::StorageImpl *, size_t, void *);
}
} // namespace at

/* c10::cuda::CUDACachingAllocator::allocator, an atomic pointer */
extern "C" c10::Allocator *current_allocator __asm__("_ZN3c104cuda20CUDACachingAllocator9allocatorE");
#ifdef C10_CUDA
c10::Allocator *current_allocator;
#endif

#ifdef C10
namespace c10 {
void reportMemoryUsageToProfiler(void *, int64_t, size_t, size_t, Device) {}
void reportOutOfMemoryToProfiler(int64_t, size_t, size_t, Device) {}
} // namespace c10
#endif

#ifdef TORCH_CPU
#ifndef WHO
#define WHO "generic"
#endif
#include <stdexcept>
at::TensorBase::~TensorBase() {}
/* What every register and the stack held, so that a wrong one shows. */
at::TensorBase at::detail::empty_generic(MORE Sizes size, c10::Allocator *allocator, c10::DispatchKeySet keys,
                                         c10::ScalarType type, Format format)
{
    size_t elements = 1;
    for (size_t i = 0; i < size.length; i++) {
        if (size.data[i] < 0)
            throw std::runtime_error("negative");
        elements *= (size_t)size.data[i];
    }
    size_t bytes = elements * (type == c10::ScalarType::Float ? 4 : 2);
    void *block = allocator->allocate(bytes);
    std::printf("%s %zu dimensions, keys %#lx, type %d, format %d, %zu bytes\n", WHO, size.length, (long)keys.bits,
                (int)type, VALUE(format), bytes);
    return at::TensorBase(block);
}
at::TensorBase at::detail::empty_strided_generic(MORE Sizes size, Sizes stride, c10::Allocator *allocator,
                                                 c10::DispatchKeySet keys, c10::ScalarType type)
{
    if (size.length != stride.length)
        throw std::runtime_error("dimensions differ");
    size_t elements = 1;
    for (size_t i = 0; i < size.length; i++)
        elements += (size_t)(size.data[i] - 1) * (size_t)stride.data[i];
    void *block = allocator->allocate(elements * (type == c10::ScalarType::Float ? 4 : 2));
    std::printf("strided %zu dimensions, keys %#lx, type %d\n", stride.length, (long)keys.bits, (int)type);
    return at::TensorBase(block);
}
#endif

#ifdef TORCH_CUDA
#include <cstdlib>
#include <stdexcept>
static const c10::DispatchKeySet cuda = {0x10002}, cpu = {0x10001};
static const c10::Device device = {1, 0};
static std::size_t next = 0x7f0000000000, allocated;

/* Blocks as c10's allocator makes them: multiples of 512, each reported while its lock is held. */
struct Caching : c10::Allocator {
    size_t limit = SIZE_MAX;
    bool silent = false;
    void *allocate(size_t bytes) override
    {
        size_t rounded = (bytes + 511) / 512 * 512;
        if (bytes == 0)
            return nullptr;
        if (rounded > limit) {
            if (!silent)
                c10::reportOutOfMemoryToProfiler((int64_t)rounded, allocated, 1 << 30, device);
            throw std::bad_alloc();
        }
        void *block = (void *)__atomic_fetch_add(&next, rounded, __ATOMIC_RELAXED);
        c10::reportMemoryUsageToProfiler(block, (int64_t)rounded, allocated += rounded, 1 << 30, device);
        return block;
    }
};
struct Host : c10::Allocator {
    void *allocate(size_t bytes) override
    {
        return std::malloc(bytes);
    }
};
static Caching caching;
static Host host;

static void make(std::vector<long> size, c10::ScalarType type, c10::DispatchKeySet keys = cuda)
{
    c10::Allocator *from = keys.bits & 2 ? (c10::Allocator *)&caching : &host;
    at::TensorBase t = at::detail::empty_generic(MORE_ONE {size.data(), size.size()}, from, keys, type, channels_last);
}
static void make_strided(std::vector<long> size, std::vector<long> stride, c10::ScalarType type)
{
    at::TensorBase t = at::detail::empty_strided_generic(MORE_ONE {size.data(), size.size()}, {stride.data(), stride.size()},
                                                         &caching, cuda, type);
}
void at::native::resize_bytes_cuda(c10::StorageImpl *storage, size_t bytes)
{
    if (!storage->resizable)
        throw std::runtime_error("not resizable");
    storage->bytes = bytes;
    caching.allocate(bytes);
}
void at::native::resize_bytes_cuda_with_addr(c10::StorageImpl *storage, size_t bytes, void *)
{
    storage->bytes = bytes;
    caching.allocate(bytes);
}
/* Further down the stack than what the script calls itself. */
__attribute__((noinline)) static void allocate_deeper(size_t bytes)
{
    volatile char room[1024];
    room[0] = 0;
    caching.allocate(bytes);
    room[1] = 0;
}
template <class F> static void throws(const char *what, F f)
{
    try {
        f();
        std::printf("%s: nothing was thrown\n", what);
    } catch (const std::exception &e) {
        std::printf("%s: %s\n", what, e.what());
    }
}

extern "C" void script(void)
{
    using c10::ScalarType;
    c10::StorageImpl storage;
    current_allocator = &caching;
    caching.allocate(1024);                    /* before any tensor: not known what it is */
    make({4, 20, 8}, ScalarType::BFloat16);    /* 1280 of 1536 */
    make({}, ScalarType::Float);               /* a scalar: 4 of 512 */
    make_strided({3, 5}, {8, 1}, ScalarType::Float); /* 21 elements: 84 of 512 */
    caching.allocate(4096);                    /* raw */
    make({7, 0}, ScalarType::Float);           /* no memory, no note */
    caching.allocate(2048);                    /* raw */
    make({1024}, ScalarType::Float, cpu);      /* another allocator, no note */
    caching.allocate(4096);                    /* raw */
    at::native::resize_bytes_cuda(&storage, 3000); /* 3000 of 3072 */
    std::printf("storage %zu\n", (size_t)storage.bytes);
    at::native::resize_bytes_cuda_with_addr(&storage, 6000, nullptr); /* 6000 of 6144 */
    at::native::resize_bytes_cuda(&storage, 0);
    caching.allocate(512);                     /* raw */
    make({2, 2}, ScalarType::Strange);         /* an element type that nobody knows: not "raw" */
    throws("negative", [] { make({512, -1}, ScalarType::Float); });
    caching.allocate(2048);                    /* after it: not known */
    throws("dimensions", [] { make_strided({512}, {1, 1}, ScalarType::Float); });
    caching.allocate(2048);                    /* likewise */
    caching.allocate(2048);                    /* raw */
    caching.limit = 8192;
    throws("refused", [] { make({4096}, ScalarType::Float); }); /* its report has the tensor */
    caching.limit = SIZE_MAX;
    caching.allocate(16384);                   /* raw, though the refused tensor would fit */
    caching.limit = 1000, caching.silent = true;
    throws("unreported", [] { make({600}, ScalarType::Half); });
    caching.limit = SIZE_MAX;
    make({99}, ScalarType::Half);              /* its own note, not the one that was left */
    make({1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 300}, ScalarType::Half); /* 17 dimensions */
    storage.resizable = false;
    throws("another's memory", [&] { at::native::resize_bytes_cuda(&storage, 512); });
    allocate_deeper(4 << 20);                  /* far more than 512 bytes: not known */

    std::vector<std::thread> threads;
    for (long id = 1; id <= 2; id++)
        threads.emplace_back([id] {
            for (long i = 0; i < 200; i++) {
                make({1000 * id, 8}, ScalarType::Half); /* 16000 and 32000 bytes */
                if (i % 4 == 0)
                    caching.allocate((size_t)id << 20); /* raw */
            }
        });
    for (auto &t : threads)
        t.join();
}
#endif

#ifdef EXTENSION
#include <exception>
extern "C" void script(void)
{
    try {
        c10::StorageImpl storage{0};
        at::native::resize_bytes_cuda(&storage, 512);
        std::printf("made\n");
    } catch (const std::exception &e) {
        std::printf("not made: %s\n", e.what());
    }
}
#endif

#ifdef MAIN
int main(int argc, char **argv)
{
    std::vector<void (*)(void)> run;
    for (int i = 1; i < argc; i++) {
        void *library = dlopen(argv[i], RTLD_NOW | RTLD_LOCAL);
        run.push_back(library ? (void (*)(void))dlsym(library, "script") : nullptr);
        if (!run.back()) {
            std::printf("%s\n", dlerror());
            return 1;
        }
    }
    for (auto script : run)
        script();
    std::printf("left in dlerror: %s\n", dlerror() ? "something" : "nothing");
    return 0;
}
#endif
