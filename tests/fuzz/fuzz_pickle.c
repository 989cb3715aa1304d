/*
 * fuzz_pickle.c - pickles in which anything may stand: the unpickler, the snapshot made of its values; and,
 * where the first byte says so, all of `import`.  The good pickle is a small snapshot of two devices.
 */
#include "kit.h"

#include "import/import.h"
#include "import/phases.h"
#include "import/rewind.h"

enum { RAW = 1, WHOLE = 2 };

/* A pickle of protocol 4 by hand: texts are SHORT_BINUNICODE, numbers LONG1 of 8 bytes. */
struct writer {
    uint8_t at[16384];
    size_t n;
};

static void put(struct writer *w, const void *bytes, size_t n)
{
    memcpy(w->at + w->n, bytes, n);
    w->n += n;
}

static void op(struct writer *w, char c)
{
    put(w, &c, 1);
}

static void text(struct writer *w, const char *s)
{
    uint8_t head[] = {0x8c, (uint8_t)strlen(s)};
    put(w, head, 2);
    put(w, s, strlen(s));
}

static void number(struct writer *w, const char *key, uint64_t n)
{
    uint8_t head[] = {0x8a, 8};
    text(w, key);
    put(w, head, 2);
    put(w, &n, 8);
}

static void frames(struct writer *w, const char *name, const char *file)
{
    text(w, "frames");
    put(w, "](}(", 4);
    text(w, "name");
    text(w, name);
    text(w, "filename");
    text(w, file);
    number(w, "line", 7);
    put(w, "ue", 2);
}

static void entry(struct writer *w, const char *action, uint64_t address, uint64_t size, uint64_t t)
{
    static const char *const names[] = {"torch::autograd::generated::MmBackward0::apply(int)", "_call_impl",
                                        "??", "_start"},
                             *const files[] = {"??", "/x-packages/torch/nn/modules/module.py", "/l/libc.so.6",
                                               "/usr/bin/python3.12"};
    put(w, "}(", 2);
    text(w, "action");
    text(w, action);
    number(w, "addr", address);
    number(w, "size", size);
    number(w, "stream", 0);
    number(w, "time_us", t);
    text(w, "pool_id");
    put(w, "K\0K\1\x86", 5);
    text(w, "user_metadata");
    text(w, t % 3 ? "" : "packed");
    frames(w, names[t % 4], files[t % 4]);
    op(w, 'u');
}

static void mark(struct writer *w, const char *stage, uint64_t t)
{
    put(w, "}(", 2);
    text(w, "name");
    text(w, "Optimizer.step#SGD.step");
    text(w, "stage");
    text(w, stage);
    number(w, "time_us", t);
    op(w, 'u');
}

static void segment(struct writer *w, uint64_t device, uint64_t address, uint64_t size, bool expandable)
{
    put(w, "}(", 2);
    number(w, "device", device);
    number(w, "address", address);
    number(w, "total_size", size);
    number(w, "stream", 0);
    text(w, "is_expandable");
    op(w, expandable ? '\x88' : '\x89');
    text(w, "blocks");
    put(w, "](}(", 4);
    number(w, "address", address);
    number(w, "size", 1024);
    number(w, "requested_size", 1000);
    text(w, "state");
    text(w, "active_allocated");
    put(w, "ueu", 3);
}

static struct bytes good_pickle(void)
{
    static struct writer w;
    put(&w, "\x80\x04}(", 4);
    text(&w, "device_traces");
    put(&w, "](](", 4);
    entry(&w, "segment_alloc", 0x10000000, 2 << 20, 1);
    entry(&w, "alloc", 0x10000000, 1000, 2);
    entry(&w, "alloc", 0x10000400, 512, 3);
    entry(&w, "annotate", 0x10000000, 1024, 3);
    entry(&w, "free_requested", 0x10000400, 512, 4);
    entry(&w, "free_completed", 0x10000400, 512, 5);
    put(&w, "e](", 3);
    entry(&w, "segment_map", 0x20000000, 4 << 20, 2);
    entry(&w, "alloc", 0x20000000, 1000, 3);
    entry(&w, "segment_unmap", 0x20200000, 2 << 20, 4);
    entry(&w, "oom", 0, 1 << 30, 5);
    put(&w, "ee", 2);
    text(&w, "segments");
    put(&w, "](", 2);
    segment(&w, 0, 0x10000000, 2 << 20, false);
    segment(&w, 1, 0x20000000, 2 << 20, true);
    op(&w, 'e');
    text(&w, "external_annotations");
    put(&w, "](", 2);
    mark(&w, "START", 2);
    mark(&w, "END", 4);
    op(&w, 'e');
    text(&w, "host_traces");
    put(&w, "](", 2);
    entry(&w, "segment_alloc", 0x30000000, 4096, 3);
    entry(&w, "alloc", 0x30000000, 4096, 3);
    entry(&w, "free_completed", 0x30000000, 4096, 4);
    op(&w, 'e');
    text(&w, "host_segments");
    put(&w, "](", 2);
    segment(&w, UINT64_MAX, 0x30000000, 4096, false);
    put(&w, "eu.", 3);
    return (struct bytes){w.at, w.n};
}

static void in_memory(const char *path)
{
    struct bytes b = kit_read(path);
    struct snapshot s;
    struct phases p;
    struct rewound r;
    char why[256];
    if (snapshot_read(&s, b.at, b.n, why, sizeof why) == 0) {
        ranges_read(&s);
        phases_read(&p, &s);
        for (int d = 0; d < s.devices; d++)
            if (rewind_device(&r, &s, d, why, sizeof why) == 0)
                rewound_free(&r);
        phases_free(&p);
        snapshot_free(&s);
    }
    free(b.at);
}

static void whole(const char *path)
{
    char why[768], database[128];
    struct import_result result;
    snprintf(database, sizeof database, "%s", kit_path("import.db"));
    import_snapshot(&(struct import_job){path, database, "fuzz"}, &result, why, sizeof why);
    unlink(database);
    unlink(kit_path("import.db-wal"));
    unlink(kit_path("import.db-shm"));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct bytes good;
    static char path[128];
    if (!good.at) {
        good = good_pickle();
        snprintf(path, sizeof path, "%s", kit_path("x.pickle"));
    }
    if (size < 1)
        return 0;
    kit_spoil(path, good, data + 1, size - 1, data[0] & RAW);
    if (data[0] & WHOLE)
        whole(path);
    else
        in_memory(path);
    unlink(path);
    return 0;
}
