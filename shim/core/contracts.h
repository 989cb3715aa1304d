/*
 * contracts.h - what is taken for granted of code that is not ours (contracts.def), and whether it is so in
 * this process.
 *
 * Whoever relies on a row proves it first, in the process at hand, by looks that cannot fault, and says here
 * how that went. What does not hold is not used: its row says what is lost with it, and that stands in the
 * recording (table contract), in `doctor`, and on stderr with VRAMSCOPE_VERBOSE.
 *
 *      UNASKED ──▶ PROVEN ──▶ BROKEN        broken is the end: an earlier proof does not count any more
 *         └───────────────────▲
 *
 * Any thread, no lock, no allocation.
 */
#ifndef VS_CORE_CONTRACTS_H
#define VS_CORE_CONTRACTS_H

#include <stdbool.h>
#include <stdint.h>

/* What was tried whole (tests/full/versions.py). */
#define VS_TRIED_TORCH  "2.4 to 2.15"
#define VS_TRIED_PYTHON "3.10 to 3.15"

enum vs_contract {
#define VS_CONTRACT(id, name, party, part, seen, proof, lost) VS_CONTRACT_##id,
#include "contracts.def"
#undef VS_CONTRACT
    VS_CONTRACTS
};

/* Whose code it is. */
#define VS_PARTIES_LIST(X)                                                                                   \
    X(TORCH, "PyTorch")                                                                                      \
    X(PYTHON, "CPython")                                                                                     \
    X(CUDA, "CUDA")                                                                                          \
    X(NVTX, "NVTX")                                                                                          \
    X(NVML, "NVML")                                                                                          \
    X(KERNEL, "Linux")                                                                                       \
    X(LIBC, "the C library")                                                                                 \
    X(LIBRARY, "other libraries")
enum vs_party {
#define X(id, name) VS_PARTY_##id,
    VS_PARTIES_LIST(X)
#undef X
        VS_PARTIES
};

enum vs_contract_state {
    VS_CONTRACT_UNASKED, /* what it is about is not in the process, or nobody needed it yet */
    VS_CONTRACT_PROVEN,
    VS_CONTRACT_BROKEN /* it is not so, or could not be proven */
};

/* The row's own words, which live as long as the process. */
struct vs_contract_row {
    const char *name; /* in databases: never renamed */
    enum vs_party party;
    const char *part;  /* of a report: contracts.def */
    const char *seen;  /* the versions that it was seen in */
    const char *proof; /* how it is proven */
    const char *lost;  /* what is not there without it: "lines and layers of backward are not known" */
};
extern const struct vs_contract_row vs_contract_rows[VS_CONTRACTS];

/* It is so: FORMAT says what was found ("its nodes are intrusive_ptr").  The first one counts. */
void vs_contract_proven(enum vs_contract c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* It is not so, and FORMAT says why ("its nodes are held otherwise than in 1.8 to 2.15").  Returns false. */
bool vs_contract_broken(enum vs_contract c, const char *format, ...) __attribute__((format(printf, 2, 3)));

enum vs_contract_state vs_contract_state(enum vs_contract c);
/* What was said with the state; "" where nothing was.  It does not change any more. */
const char *vs_contract_detail(enum vs_contract c);
/* VERSION is that of the PARTY in this process, "2.15.0"; the first one counts. */
void vs_party_version(enum vs_party party, const char *version);
/* "PyTorch 2.15.0", or "PyTorch" where no version is known. */
const char *vs_party_name(enum vs_party party);
/* How often anything was said, so that a reader knows when to look again. */
uint32_t vs_contracts_said(void);

#endif
