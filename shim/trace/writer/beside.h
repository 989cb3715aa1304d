/*
 * beside.h - who holds device memory beside the arena, in one line for who suspends that.
 */
#ifndef VS_TRACE_WRITER_BESIDE_H
#define VS_TRACE_WRITER_BESIDE_H

#include <stddef.h>
#include <stdint.h>

#include "trace/ledger/ledger.h"
#include "trace/store/store.h"

/* The bytes of all; TEXT: "libnccl.so.2 32.00 MiB, graphs 12.00 MiB", "" where there is nothing. */
uint64_t vs_beside(const struct vs_ledger *l, const struct vs_store *s, char *text, size_t size);

#endif
