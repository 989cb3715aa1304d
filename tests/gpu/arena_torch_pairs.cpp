/*
 * arena_torch_pairs.cpp - the loop of arena_pairs.c on PyTorch's own caching allocator, entered below the
 * tensor, for arena_pairs.py.
 */
#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace
{

constexpr unsigned blocks = 64;

struct worker {
    cudaStream_t stream;
    uint32_t random;
    unsigned pairs;
    double ns = 0;
    void *block[blocks] = {};
    size_t size[blocks] = {};

    uint32_t rnd(uint32_t below)
    {
        random = random * 1664525u + 1013904223u;
        return static_cast<uint32_t>(static_cast<uint64_t>(random) * below >> 32);
    }
    void turn_over(c10::cuda::CUDACachingAllocator::CUDAAllocator *a, unsigned count)
    {
        for (unsigned n = 0; n < count; n++) {
            unsigned i = rnd(blocks);
            a->raw_delete(block[i]);
            block[i] = a->raw_alloc_with_stream(size[i], stream);
        }
    }
};

void work(worker &w, std::barrier<> &both)
{
    auto *a = c10::cuda::CUDACachingAllocator::get();
    cudaSetDevice(0);
    for (unsigned i = 0; i < blocks; i++) {
        w.size[i] = (size_t{512} << w.rnd(14)) + size_t{512} * w.rnd(4);
        w.block[i] = a->raw_alloc_with_stream(w.size[i], w.stream);
    }
    w.turn_over(a, w.pairs / 4);
    both.arrive_and_wait();
    auto begin = std::chrono::steady_clock::now();
    w.turn_over(a, w.pairs);
    w.ns =
        std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count() / w.pairs;
    both.arrive_and_wait();
    for (void *p : w.block)
        a->raw_delete(p);
}

} // namespace

/* ns a pair and thread, of the slowest of THREADS; STREAMS: a cudaStream_t for each. */
extern "C" double arena_torch_round(unsigned threads, unsigned pairs, void **streams)
{
    std::vector<worker> all(threads);
    std::vector<std::thread> running;
    std::barrier<> both(threads);
    double slowest = 0;
    for (unsigned t = 0; t < threads; t++) {
        all[t].stream = static_cast<cudaStream_t>(streams[t]);
        all[t].random = t + 1;
        all[t].pairs = pairs;
        running.emplace_back(work, std::ref(all[t]), std::ref(both));
    }
    for (auto &thread : running)
        thread.join();
    for (auto &w : all)
        slowest = std::max(slowest, w.ns);
    return slowest;
}
