/*
 * contracts.c - see contracts.h.  Each state of a contract has its own text, written once by the thread that
 * claims it and published by the state behind it.
 */
#include "contracts.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>

#include "log.h"

const struct vs_contract_row vs_contract_rows[] = {
#define VS_CONTRACT(id, name, party, part, seen, proof, lost)                                                \
    {name, VS_PARTY_##party, #part, seen, proof, lost},
#include "contracts.def"
#undef VS_CONTRACT
};

static const char *const party_names[] = {
#define X(id, name) name,
    VS_PARTIES_LIST(X)
#undef X
};

static struct {
    _Atomic int state;
    _Atomic bool claimed[3]; /* by the state that somebody is going to say */
    char detail[3][192];
} contracts[VS_CONTRACTS];
static _Atomic uint32_t said;

static struct {
    _Atomic bool claimed, there;
    char name[48];
} versions[VS_PARTIES];

void vs_party_version(enum vs_party party, const char *version)
{
    if (atomic_exchange(&versions[party].claimed, true))
        return;
    snprintf(versions[party].name, sizeof versions[party].name, "%s %s", party_names[party], version);
    /* release: pairs with the acquire in vs_party_name() */
    atomic_store_explicit(&versions[party].there, true, memory_order_release);
}

const char *vs_party_name(enum vs_party party)
{
    bool there = atomic_load_explicit(&versions[party].there, memory_order_acquire);
    return there ? versions[party].name : party_names[party];
}

enum vs_contract_state vs_contract_state(enum vs_contract c)
{
    /* acquire: pairs with the release in say(); with the state its text is there */
    return (enum vs_contract_state)atomic_load_explicit(&contracts[c].state, memory_order_acquire);
}

const char *vs_contract_detail(enum vs_contract c)
{
    return contracts[c].detail[vs_contract_state(c)];
}

uint32_t vs_contracts_said(void)
{
    return atomic_load_explicit(&said, memory_order_acquire);
}

/* False: it was said before. */
static bool say(enum vs_contract c, enum vs_contract_state state, const char *format, va_list args)
{
    if (vs_contract_state(c) >= state || atomic_exchange(&contracts[c].claimed[state], true))
        return false;
    int before = VS_CONTRACT_UNASKED, saved = errno;
    vsnprintf(contracts[c].detail[state], sizeof contracts[c].detail[state], format, args);
    /* release: the text comes first.  A proof that comes behind a break changes nothing. */
    if (state == VS_CONTRACT_BROKEN)
        atomic_store_explicit(&contracts[c].state, state, memory_order_release);
    else
        atomic_compare_exchange_strong_explicit(&contracts[c].state, &before, state, memory_order_release,
                                                memory_order_relaxed);
    atomic_fetch_add_explicit(&said, 1, memory_order_release);
    errno = saved;
    return true;
}

void vs_contract_proven(enum vs_contract c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    say(c, VS_CONTRACT_PROVEN, format, args);
    va_end(args);
}

bool vs_contract_broken(enum vs_contract c, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (say(c, VS_CONTRACT_BROKEN, format, args))
        vs_log_verbose("%s: %s: %s", vs_party_name(vs_contract_rows[c].party), vs_contract_rows[c].lost,
                       contracts[c].detail[VS_CONTRACT_BROKEN]);
    va_end(args);
    return false;
}
