/*
 * kit.h - what the fuzz targets share: a directory, files of bytes, a recording to spoil.
 *
 * Noise alone dies at the first check, so most inputs are patches to a good file: twelve bytes each, four
 * that say where and up to eight that are written there.
 */
#ifndef TESTS_FUZZ_KIT_H
#define TESTS_FUZZ_KIT_H

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trace/journal/format.h"
#include "trace/writer/writer.h"

#include "unit/trace/stream.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct bytes {
    uint8_t *at;
    size_t n;
};

static char kit_directory[64];

static void kit_remove(void)
{
    char command[96];
    snprintf(command, sizeof command, "rm -rf %s", kit_directory);
    if (system(command) != 0)
        perror(kit_directory);
}

/* NAME in the directory; good until the next four calls. */
static inline const char *kit_path(const char *name)
{
    static char path[4][128];
    static int next;
    if (!*kit_directory) {
        snprintf(kit_directory, sizeof kit_directory, "%s/vs-fuzz-XXXXXX",
                 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
        if (!mkdtemp(kit_directory))
            abort();
        atexit(kit_remove);
    }
    char *p = path[next++ % 4];
    snprintf(p, sizeof path[0], "%s/%s", kit_directory, name);
    return p;
}

static inline struct bytes kit_read(const char *path)
{
    struct bytes b = {NULL, 0};
    FILE *f = fopen(path, "rb");
    if (!f || fseek(f, 0, SEEK_END) != 0)
        abort();
    b.n = (size_t)ftell(f);
    rewind(f);
    b.at = malloc(b.n);
    if (!b.at || fread(b.at, 1, b.n, f) != b.n)
        abort();
    fclose(f);
    return b;
}

static inline void kit_write(const char *path, const void *at, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd < 0 || write(fd, at, n) != (ssize_t)n)
        abort();
    close(fd);
}

/* Writes GOOD with the patches of DATA to PATH; with DATA as it is where RAW. */
static inline void kit_spoil(const char *path, struct bytes good, const uint8_t *data, size_t size, int raw)
{
    if (raw) {
        kit_write(path, data, size);
        return;
    }
    uint8_t *copy = malloc(good.n);
    memcpy(copy, good.at, good.n);
    for (size_t i = 0; i + 12 <= size; i += 12) {
        uint32_t where;
        memcpy(&where, data + i, 4);
        size_t at = (where & 0xffffff) % good.n, n = 1 + (where >> 24) % 8;
        memcpy(copy + at, data + i + 4, n < good.n - at ? n : good.n - at);
    }
    kit_write(path, copy, good.n);
    free(copy);
}

static inline void kit_emit(void *journal, const struct vs_event *e)
{
    vs_journal_append(journal, e);
}

/* A journal with a row in every table and EVENTS steps of a training job, of a process that is gone. */
static inline struct vs_journal *kit_journal(const char *path, uint32_t slots, int steps)
{
    struct vs_journal *j;
    struct vs_journal_config c = {.ring_slots = slots,
                                  .string_bytes = 4096,
                                  .threads = 16,
                                  .contexts = 8,
                                  .devices = 8,
                                  .modules = 16,
                                  .frames = 64,
                                  .stacks = 64,
                                  .database = kit_path("named.db"),
                                  .start_ns = 1000,
                                  .start_realtime_ns = 1000};
    struct stream *s = malloc(sizeof *s);
    unlink(path);
    if (!s || vs_journal_create(&j, path, &c) != 0)
        abort();
    j->header->owner_pid = 0x3fffffff;
    vs_journal_set_fact(j, "host", "here");
    vs_journal_set_fact(j, "command", "train");
    vs_journal_set_fact(j, "max_bytes", "1000000000");
    vs_journal_thread(j, 11, 0, "main");
    vs_journal_thread(j, 12, VS_THREAD_AUTOGRAD, "pt_autograd_0");
    vs_journal_context(j, 1, 0);
    vs_journal_device(j, &(struct vs_device_row){.ordinal = 0, .total_bytes = 1u << 30, .name = "device"});
    struct vs_module_row m = {.base = 0x1000,
                              .start = 0x1000,
                              .end = 0x9000,
                              .path = vs_journal_string(j, "/lib/x.so", 9),
                              .build_id = vs_journal_string(j, "abcdef", 6)};
    uint32_t module = vs_journal_module(j, &m), stack = 0;
    for (uint64_t a = 0; a < 5; a++)
        stack = vs_journal_stack(j, stack, vs_journal_frame(j, 0x2000 + a, module));
    stack = vs_journal_stack(j, stack,
                             vs_journal_named_frame(j, VS_FRAME_PYTHON, vs_journal_string(j, "main", 4),
                                                    vs_journal_string(j, "/home/ada/train.py", 18), 41));
    stream_init(s, kit_emit, j);
    s->persistent = 10;
    s->activations = 5;
    static const char *const names[] = {"forward", "logits", "backward", "optimizer"};
    for (int i = 0; i < 4; i++)
        s->name[i] = vs_journal_string(j, names[i], strlen(names[i]));
    for (int i = 0; i < steps; i++)
        stream_step(s);
    const struct vs_event more[] = {
        {.op = VS_OP_ALLOC,
         .space = VS_SPACE_PINNED,
         .address = 0x10,
         .size = 100,
         .thread = 1,
         .device = -1,
         .stack = stack},
        {.op = VS_OP_ALLOC,
         .space = VS_SPACE_DEVICE,
         .address = 0x20,
         .size = 1 << 20,
         .thread = 1,
         .stack = stack},
        {.op = VS_OP_SAMPLE, .size = 1 << 25, .arg0 = VS_SAMPLE_NVML_PROCESS, .arg1 = 1 << 20},
        {.op = VS_OP_BLOCK_OOM, .size = 1 << 30, .thread = 1, .stack = stack},
        {.op = VS_OP_PHYS_CREATE, .space = VS_SPACE_DEVICE, .address = 7, .size = 2 << 20, .thread = 1},
        {.op = VS_OP_FREE, .address = 0x10, .thread = 1, .device = -1},
        {.op = VS_OP_RANGE_PUSH,
         .range = 5000,
         .address = s->name[0],
         .arg1 = VS_SOURCE_MARKER | VS_RANGE_NAMES_PHASE,
         .thread = 1},
    };
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        vs_journal_append(j, &more[i]);
    free(s);
    return j;
}

/* The database that a journal like that becomes. */
static inline struct bytes kit_database(void)
{
    char why[256] = "";
    const char *path = kit_path("good.db"), *journal = kit_path("good.vsj");
    vs_journal_close(kit_journal(journal, 1024, 4));
    if (vs_recover(journal, path, why, sizeof why) < 0) {
        fprintf(stderr, "%s\n", why);
        abort();
    }
    return kit_read(path);
}

static inline void kit_drop_database(const char *path)
{
    static const char *const beside[] = {"", "-wal", "-shm", "-journal"};
    char name[256];
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof name, "%s%s", path, beside[i]);
        unlink(name);
    }
}

#endif
