/*
 * test_barrier.c - of two threads that each write a word, pass their side of the barrier and read the other's
 * word, at least one reads what the other wrote.
 *
 * Where the barrier is missing both read the old words in about one of a hundred rounds, if the machine has
 * two idle processors.
 */
#include "core/barrier.h"

#include <pthread.h>
#include <sched.h>

#include "unit/test.h"

#define ROUNDS 100000u
#define SPINS  500u

static struct {
    _Alignas(128) _Atomic uint32_t a, seen_b; /* of the thread that passes often */
    _Alignas(128) _Atomic uint32_t b;
    _Alignas(128) _Atomic uint32_t begun, ended; /* the round */
} word;

static void await(_Atomic uint32_t *round, uint32_t n)
{
    for (uint32_t spins = 0; atomic_load_explicit(round, memory_order_acquire) != n; spins++)
        if (spins > SPINS)
            sched_yield();
}

static void *passes_often(void *unused)
{
    for (uint32_t n = 1; n <= ROUNDS; n++) {
        await(&word.begun, n);
        atomic_store_explicit(&word.a, n, memory_order_relaxed);
        vs_barrier_often();
        uint32_t seen = atomic_load_explicit(&word.b, memory_order_relaxed);
        atomic_store_explicit(&word.seen_b, seen, memory_order_relaxed);
        atomic_store_explicit(&word.ended, n, memory_order_release);
    }
    return NULL;
}

/* Whether one of the two saw the other's word. */
static bool one_sees(uint32_t n)
{
    atomic_load_explicit(&word.a, memory_order_relaxed); /* so that writing it takes a while */
    atomic_store_explicit(&word.begun, n, memory_order_release);
    for (uint32_t i = 0; i < n % 97; i++) /* the two meet in ever different ways */
        atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&word.b, n, memory_order_relaxed);
    assert_true(vs_barrier_seldom());
    uint32_t seen = atomic_load_explicit(&word.a, memory_order_relaxed);
    await(&word.ended, n);
    return seen == n || atomic_load_explicit(&word.seen_b, memory_order_relaxed) == n;
}

static uint32_t rounds_in_which_none_sees(void)
{
    pthread_t thread;
    uint32_t none = 0;
    memset(&word, 0, sizeof word);
    assert_int_equal(pthread_create(&thread, NULL, passes_often, NULL), 0);
    for (uint32_t n = 1; n <= ROUNDS; n++)
        none += !one_sees(n);
    pthread_join(thread, NULL);
    return none;
}

TEST(with_fences_one_of_two_sees_the_other)
{
    assert_false(atomic_load(&vs_barrier_of_kernel));
    assert_int_equal(rounds_in_which_none_sees(), 0);
}

TEST(with_the_kernels_barrier_one_of_two_sees_the_other)
{
    vs_barrier_prepare();
    if (!atomic_load(&vs_barrier_of_kernel))
        skip(); /* this kernel has none */
    assert_int_equal(rounds_in_which_none_sees(), 0);
}

int main(void)
{
    return run_all_tests(NULL, NULL);
}
