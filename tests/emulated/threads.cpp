/*
 * threads.cpp - coroutines for the threads of a cluster, and what they wait for each other at.
 *
 * The order of turns changes from cluster to cluster, so that no result hangs on it.
 */
#include "threads.h"

#include <stdlib.h>
#include <string.h>
#include <map>
#include <vector>

extern "C" void emulated_switch(void **from, void *to);

asm(R"(
    .text
    .globl emulated_switch
    .hidden emulated_switch
    .type emulated_switch, @function
emulated_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size emulated_switch, . - emulated_switch
)");

namespace emulated
{
namespace
{

constexpr size_t STACK = 32768, SHARED = 196608; /* of all kernels together: of one, ptxas counts it */

struct Barrier {
    unsigned size, arrived, generation;

    unsigned arrive()
    {
        const unsigned mine = generation;
        if (++arrived == size) {
            arrived = 0;
            generation++;
        }
        return mine;
    }
};

struct Warp {
    uint64_t value[2][32]; /* of this exchange and of the one before, which lanes may still read */
    Barrier barrier;

    uint64_t *values() { return value[barrier.generation % 2]; }
};

struct Thread {
    void *stack;
    unsigned block, index;
    Warp *warp;
    unsigned generation; /* of the cluster's barrier, at which it arrived */
    const Barrier *at;   /* where it waits for the generation after UNTIL; else NULL */
    unsigned until;
    bool done;

    bool waits() const { return done || (at && at->generation == until); }
};

struct Cluster {
    unsigned first, size, block; /* its first block, blocks, threads in each */
    Barrier barrier;
    std::vector<Barrier> blocks;
    std::vector<std::vector<char>> shared;
    std::vector<Warp> warps;
    std::vector<Thread> threads;
};

Cluster *cluster;
Thread *now;
void *scheduler;
void (*kernel_now)(const void *);
const void *argument_now;

void give_way()
{
    emulated_switch(&now->stack, scheduler);
}

void wait_for(const Barrier &barrier, unsigned generation)
{
    static const bool barriers = !getenv("EMULATED_NO_BARRIERS"); /* for a test of the test */
    if (!barriers || barrier.generation != generation)
        return;
    now->at = &barrier;
    now->until = generation;
    give_way();
    now->at = nullptr;
}

void run_thread()
{
    kernel_now(argument_now);
    now->done = true;
    give_way(); /* for ever */
}

void *first_stack(char *stack)
{
    void **top = reinterpret_cast<void **>(stack + STACK) - 8;
    memset(top, 0, 8 * sizeof *top); /* six registers, run_thread, and nothing to return to */
    top[6] = reinterpret_cast<void *>(run_thread);
    return top;
}

void fill(Cluster *c, char *stacks)
{
    const unsigned warps = (c->block + 31) / 32;
    c->barrier = {c->size * c->block, 0, 0};
    c->blocks.assign(c->size, Barrier{c->block, 0, 0});
    static const std::vector<char> garbage(SHARED, 0x7b); /* nobody clears it */
    c->shared.assign(c->size, garbage);
    c->warps.assign(c->size * warps, Warp{{}, {32, 0, 0}});
    c->threads.resize(c->size * c->block);
    for (unsigned i = 0; i < c->threads.size(); i++) {
        const unsigned block = i / c->block, index = i % c->block;
        Warp *warp = &c->warps[block * warps + index / 32];
        c->threads[i] = {first_stack(stacks + i * STACK), block, index, warp, 0, nullptr, 0, false};
    }
}

void run(Cluster *c, bool backwards)
{
    const unsigned count = static_cast<unsigned>(c->threads.size());
    cluster = c;
    for (unsigned left = count; left > 0;)
        for (unsigned i = 0; i < count; i++) {
            now = &c->threads[backwards ? count - 1 - i : i];
            if (now->waits())
                continue;
            emulated_switch(&scheduler, now->stack);
            left -= now->done;
        }
}

} // namespace

void launch(void (*kernel)(const void *), const void *argument, unsigned grid, unsigned size, unsigned block)
{
    static std::vector<char> stacks; /* kept: making them anew would cost more than most kernels */
    if (stacks.size() < STACK * size * block + 16)
        stacks.resize(STACK * size * block + 16);
    char *aligned = stacks.data() + 15 - (reinterpret_cast<uintptr_t>(stacks.data()) + 15) % 16;
    static Cluster c; /* kept, too */
    static bool backwards;
    kernel_now = kernel;
    argument_now = argument;
    c.size = size;
    c.block = block;
    for (c.first = 0; c.first < grid; c.first += size) {
        fill(&c, aligned);
        run(&c, backwards = !backwards);
    }
}

Index thread_index()
{
    return {now->index};
}

Index block_index()
{
    return {cluster->first + now->block};
}

Index block_size()
{
    return {cluster->block};
}

unsigned cluster_size()
{
    return cluster->size;
}

unsigned rank_in_cluster()
{
    return now->block;
}

void wait_for_block()
{
    Barrier &barrier = cluster->blocks[now->block];
    wait_for(barrier, barrier.arrive());
}

void arrive_at_cluster()
{
    now->generation = cluster->barrier.arrive();
}

void wait_for_cluster()
{
    wait_for(cluster->barrier, now->generation);
}

uint64_t exchange(uint64_t value, unsigned from)
{
    Warp *warp = now->warp;
    uint64_t *values = warp->values();
    values[now->index % 32] = value;
    wait_for(warp->barrier, warp->barrier.arrive());
    return values[from];
}

unsigned ballot(bool vote)
{
    Warp *warp = now->warp;
    uint64_t *values = warp->values();
    unsigned votes = 0;
    values[now->index % 32] = vote;
    wait_for(warp->barrier, warp->barrier.arrive());
    for (unsigned lane = 0; lane < 32; lane++)
        votes |= static_cast<unsigned>(values[lane]) << lane;
    return votes;
}

/* Each variable has its place once and for all, the same in every block. */
void *shared(void *variable, unsigned long size)
{
    static std::map<void *, size_t> places;
    static size_t used;
    auto found = places.find(variable);
    if (found == places.end()) {
        found = places.emplace(variable, used).first;
        used += (size + 15) / 16 * 16;
    }
    if (used > SHARED)
        abort();
    return cluster->shared[now->block].data() + found->second;
}

void *shared_of(void *address, unsigned rank)
{
    return cluster->shared[rank].data() + (static_cast<char *>(address) - cluster->shared[now->block].data());
}

} // namespace emulated
