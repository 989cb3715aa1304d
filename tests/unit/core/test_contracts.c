/*
 * test_contracts.c - what is said of a contract: the first word of a state counts, broken is the end, and
 * texts stay as they were said.
 */
#include <pthread.h>

#include "unit/test.h"
#include "core/contracts.h"

/* rows of the list, of which this process relies on none */
static const enum vs_contract FIRST = 0, SECOND = 1, THIRD = 2;

TEST(nothing_is_said_of_what_nobody_asked)
{
    assert_int_equal(vs_contract_state(THIRD), VS_CONTRACT_UNASKED);
    assert_string_equal(vs_contract_detail(THIRD), "");
}

TEST(the_first_proof_counts_and_a_break_ends_it)
{
    uint32_t said = vs_contracts_said();
    vs_contract_proven(FIRST, "held by %s", "one");
    vs_contract_proven(FIRST, "held by %s", "another");
    const char *proof = vs_contract_detail(FIRST);
    assert_string_equal(proof, "held by one");
    assert_int_equal(vs_contracts_said(), said + 1);
    assert_false(vs_contract_broken(FIRST, "not at %d", 8));
    assert_false(vs_contract_broken(FIRST, "not at %d", 16));
    vs_contract_proven(FIRST, "after all");
    assert_int_equal(vs_contract_state(FIRST), VS_CONTRACT_BROKEN);
    assert_string_equal(vs_contract_detail(FIRST), "not at 8");
    assert_string_equal(proof, "held by one"); /* whoever has it still can read it */
    assert_int_equal(vs_contracts_said(), said + 2);
}

static void *say(void *arg)
{
    vs_contract_broken(SECOND, "thread %d", (int)(intptr_t)arg);
    return NULL;
}

TEST(of_many_threads_one_is_heard)
{
    enum { THREADS = 8 };
    pthread_t threads[THREADS];
    uint32_t said = vs_contracts_said();
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, say, (void *)(intptr_t)i);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(vs_contracts_said(), said + 1);
    assert_int_equal(strncmp(vs_contract_detail(SECOND), "thread ", 7), 0);
}

TEST(a_party_has_its_version_once_it_is_known)
{
    assert_string_equal(vs_party_name(VS_PARTY_TORCH), "PyTorch");
    vs_party_version(VS_PARTY_TORCH, "2.16.0");
    vs_party_version(VS_PARTY_TORCH, "2.17.0");
    assert_string_equal(vs_party_name(VS_PARTY_TORCH), "PyTorch 2.16.0");
}

TEST(names_of_rows_differ)
{
    for (unsigned i = 0; i < VS_CONTRACTS; i++)
        for (unsigned k = 0; k < i; k++)
            assert_string_not_equal(vs_contract_rows[i].name, vs_contract_rows[k].name);
}
