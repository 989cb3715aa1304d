/*
 * torch_tensors.cc - stands for libtorch_cuda before the real libtorch_cpu and libc10: makes tensors by PyTorch's own
 * functions, with CUDA's dispatch key and an allocator that reports its blocks as c10's CUDA allocator does.
 * With -DMAIN the program that loads it RTLD_LOCAL, as Python loads PyTorch.
 */
#ifdef MAIN
#include <cstdio>
#include <dlfcn.h>

int main(int argc, char **argv)
{
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    int (*run)() = library ? (int (*)())dlsym(library, "script") : nullptr;
    if (!run)
        std::printf("%s\n", dlerror());
    return run ? run() : 1;
}
#else
#include <ATen/EmptyTensor.h>
#include <c10/core/Allocator.h>
#include <cstdio>
#include <cstdlib>
#include <string>

struct Reporting final : c10::Allocator {
    size_t allocated = 0, limit = SIZE_MAX;
    std::vector<void *> blocks;
    const c10::Device device{c10::DeviceType::CUDA, 0};

    c10::DataPtr allocate(size_t bytes) override
    {
        if (bytes == 0)
            return {nullptr, nullptr, &free, c10::Device(c10::DeviceType::CPU)};
        size_t rounded = (bytes + 511) / 512 * 512;
        if (bytes > limit) {
            c10::reportOutOfMemoryToProfiler((int64_t)rounded, allocated, 1 << 30, device);
            TORCH_CHECK_WITH(OutOfMemoryError, false, "refused ", bytes);
        }
        void *p = nullptr;
        if (posix_memalign(&p, 512, rounded))
            throw std::bad_alloc();
        allocated += rounded;
        blocks.push_back(p); /* none is freed: each address is of one block */
        c10::reportMemoryUsageToProfiler(p, (int64_t)rounded, allocated, 1 << 30, device);
        return {p, p, [](void *) {}, c10::Device(c10::DeviceType::CPU)};
    }
    c10::DeleterFnPtr raw_deleter() const override
    {
        return [](void *) {};
    }
    void copy_data(void *to, const void *from, std::size_t n) const override
    {
        default_copy_data(to, from, n);
    }
};
static Reporting allocator;
static const c10::DispatchKeySet cuda(c10::DispatchKey::CUDA), cpu(c10::DispatchKey::CPU);

/* What PyTorch itself says of the tensor, as the recording should. */
static void say(const at::TensorBase &t)
{
    std::printf("%zu|%zu|%s|[", (size_t)(t.storage().nbytes() + 511) / 512 * 512, (size_t)t.storage().nbytes(),
                std::string(c10::getDtypeNames(t.scalar_type()).first).c_str());
    for (int64_t i = 0; i < t.dim(); i++)
        std::printf("%s%ld", i ? ", " : "", (long)t.size(i));
    std::printf("]\n");
}
static void made(at::IntArrayRef size, at::ScalarType type, std::optional<at::MemoryFormat> format = {})
{
    say(at::detail::empty_generic(size, &allocator, cuda, type, format));
}
template <class F> static void refused(const char *what, F f)
{
    try {
        f();
        std::fprintf(stderr, "%s: nothing was thrown\n", what);
        std::exit(1);
    } catch (const c10::Error &) {
    }
}

extern "C" int script()
{
    using at::ScalarType;
    made({}, ScalarType::Float);
    for (int type = 0; type < (int)ScalarType::NumOptions; type++)
        if (type != (int)ScalarType::Undefined)
            made({3, 5, type + 1}, (ScalarType)type);
    made({2, 3, 8, 8}, ScalarType::Half, at::MemoryFormat::ChannelsLast);
    say(at::detail::empty_strided_generic({3, 5}, {64, 2}, &allocator, cuda, ScalarType::BFloat16));
    say(at::detail::empty_strided_generic({4, 6}, {0, 1}, &allocator, cuda, ScalarType::Double));
    at::detail::empty_generic({0, 4096}, &allocator, cuda, ScalarType::Float, {});
    at::detail::empty_generic({1 << 20}, c10::GetAllocator(c10::DeviceType::CPU), cpu, ScalarType::Float, {});
    refused("negative", [] { made({4, -1}, ScalarType::Float); });
    allocator.limit = 1 << 20;
    refused("out of memory", [] { made({1 << 20}, ScalarType::Float); });
    allocator.limit = SIZE_MAX;
    allocator.allocate(4 << 20); /* raw, though what was refused would fit */
    return 0;
}
#endif
