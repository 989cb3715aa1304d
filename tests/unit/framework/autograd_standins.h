/*
 * autograd_standins.h - what autograd.c calls: a recorder that says what it is set to, a journal of names
 * alone, and the stand-in for libtorch_cpu, opened as Python opens torch's libraries.
 */
#ifndef TESTS_UNIT_FRAMEWORK_AUTOGRAD_STANDINS_H
#define TESTS_UNIT_FRAMEWORK_AUTOGRAD_STANDINS_H

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/hot.h"
#include "core/options.h"
#include "framework/autograd.h"
#include "record/block.h"
#include "record/record.h"

uint64_t vs_sequence_number(void) __asm__("_ZN2at15sequence_number17get_and_incrementEv");

static struct {
    uint32_t stack; /* of whoever asks now */
    uint64_t lost;
    char strings[64][64];
    unsigned count;
} standin = {.count = 1};
static void *fake_library;
static struct vs_journal *const standin_journal = (struct vs_journal *)&standin;

struct vs_options vs_options = {.stacks = VS_STACKS_PYTHON};

static uint32_t standin_stack(struct vs_journal *j)
{
    return standin.stack;
}
struct vs_suppliers vs_suppliers = {.python_stack = standin_stack};

/* The recorder takes births, or does not: before a recording, or while it is paused. */
static inline void standin_takes(bool takes)
{
    vs_hot.journal = standin_journal;
    atomic_store(&vs_hot.careful, VS_CAREFUL_BIRTHS);
    atomic_store(&vs_hot.ring_header, takes ? (struct vs_journal_header *)&standin : NULL);
}

struct vs_journal *vs_record_journal(void)
{
    return standin_journal;
}

void vs_journal_lost_birth(struct vs_journal *j)
{
    standin.lost++;
}

uint32_t vs_journal_string(struct vs_journal *j, const char *text, size_t length)
{
    for (unsigned i = 1; i < standin.count; i++)
        if (strlen(standin.strings[i]) == length && !memcmp(standin.strings[i], text, length))
            return i;
    if (standin.count == 64 || length >= 64)
        return 0;
    memcpy(standin.strings[standin.count], text, length);
    return standin.count++;
}

/* A node's frame has its name's number. */
uint32_t vs_journal_named_frame(struct vs_journal *j, enum vs_frame_kind kind, uint32_t function,
                                uint32_t file, uint32_t line)
{
    return kind == VS_FRAME_NODE && !file && !line ? function : 0;
}

static inline const char *standin_string(uint32_t id)
{
    return id ? standin.strings[id] : "";
}

/* torch.c's: it is in the same archive */
uint64_t vs_record(struct vs_event *event)
{
    return VS_SEQ_NONE;
}
bool vs_record_enabled(void)
{
    return false;
}
bool vs_record_start(void)
{
    return false;
}
uint32_t vs_journal_tensor(struct vs_journal *j, uint32_t what, uint64_t request, const int64_t *sizes)
{
    return 0;
}
uint32_t vs_journal_stack(struct vs_journal *j, uint32_t parent, uint32_t frame)
{
    return 0;
}
void vs_record_block_rest(struct vs_journal_header *ring, uint64_t seq, bool published) {}

static inline void *fake_torch_function(const char *name)
{
    return dlsym(fake_library, name);
}

/* KIND: "shared", "intrusive" or "other", by how its nodes are held */
static inline void fake_torch_load(const char *self, const char *kind)
{
    char path[4096];
    const char *slash = strrchr(self, '/');
    snprintf(path, sizeof path, "%.*s/fakes/%s/libtorch_cpu.so", slash ? (int)(slash - self) : 1,
             slash ? self : ".", kind);
    fake_library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!fake_library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(1);
    }
}

#endif
