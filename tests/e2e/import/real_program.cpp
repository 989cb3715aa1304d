// real_program.cpp - a random program on the allocator of a PyTorch: its requests, its frees and what each
// got are lines of the output, among those of real_cudart.c.
//
//   real_program SEED STEPS FRACTION    of the memory that it may hold; 0: no limit
#include <c10/cuda/CUDACachingAllocator.h>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <vector>

struct Block {
    unsigned id;
    void *address;
};

// Of any magnitude up to 60 MiB, two of three of the dozen sizes that the seed says.
static size_t some_size(size_t seed)
{
    size_t which = random() % 18, r = random();
    if (which < 12)
        r = (seed + which) * 2654435761u % 4294967291u;
    return 1 + r % (60u << 20 >> r / 7 % 15);
}

int main(int, char **argv)
{
    const size_t seed = strtoul(argv[1], nullptr, 10), steps = strtoul(argv[2], nullptr, 10);
    srandom(seed);
    auto *allocator = c10::cuda::CUDACachingAllocator::get();
    if (void *init =
            dlsym(RTLD_DEFAULT, "_ZN3c104cuda6detail21init_p2p_access_cacheEl")) // as torch.cuda does
        ((void (*)(long))init)(1);
    allocator->init(1);
    if (atof(argv[3]) > 0)
        allocator->setMemoryFraction(atof(argv[3]), 0);
    std::vector<Block> live;
    for (unsigned i = 0; i < steps; i++) {
        if (i % 2500 == 2499) {
            puts("empty");
            allocator->emptyCache();
        }
        if (!live.empty() && (live.size() > 700 || random() % 100 > (i / 600 % 2 ? 30 : 75))) {
            Block &gone = live[random() % live.size()];
            printf("free %u\n", gone.id);
            allocator->raw_delete(gone.address);
            gone = live.back();
            live.pop_back();
            continue;
        }
        size_t size = some_size(seed);
        int stream = random() % 3;
        try {
            void *got = allocator->raw_alloc_with_stream(size, (cudaStream_t)(uintptr_t)(stream << 12));
            printf("alloc %u %zu %d %llu\n", i, size, stream, (unsigned long long)(uintptr_t)got);
            live.push_back({i, got});
        } catch (const c10::Error &) {
            printf("alloc %u %zu %d 0\n", i, size, stream);
        }
    }
    fflush(stdout);
    _Exit(0); // nothing is torn down
}
