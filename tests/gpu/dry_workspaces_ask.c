/*
 * dry_workspaces_ask.c - asks cuDNN how much room convolutions want, as PyTorch asks it, and runs none.
 *
 *     dry_workspaces_ask CASES SHARE SHARES SECONDS >ANSWERS
 *
 * A line of CASES is a layer with a batch: x, outputs, groups, kernel, padding, step, dilation, the sum of 1
 * << kind over KINDS:
 *
 *     16x64x56x56 128 1 3x3 1x1 2x2 1x1 63
 *
 * Each SHARESth line is asked about, from the SHAREth on. An answer is a line: the line of CASES (from 0),
 * the kind, and engine/bytes in forward, data and filter: the heuristics' first offer; then, of 32 bits, the
 * first that uses no tensor cores. -1/-1: none is offered.
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* What cuDNN's public headers call these. */
enum { TYPE_HANDLE, TYPE_DATA, TYPE_INT64 = 3, TYPE_FLOAT, TYPE_MODE = 7, TYPE_HEURISTIC, TYPE_NOTE = 11 };
enum { TYPE_DESCRIPTOR = 15 };
enum { CONVOLUTION = 1, ENGINE, CONFIG, HEURISTICS, GRAPH = 15, TENSOR = 17 };
enum { TENSOR_CORE = 0, NOTES = 10, DIMS = 8, OFFERS = 128, OPS = 3 };

static int (*create)(int kind, void **out);
static int (*destroy)(void *descriptor);
static int (*set_attribute)(void *descriptor, int name, int type, int64_t count, const void *values);
static int (*get_attribute)(void *descriptor, int name, int type, int64_t want, int64_t *count, void *out);
static int (*finalize)(void *descriptor);
static void *handle;

static const struct kind {
    int data;
    bool last;
} kinds[] = {{0, false}, {9, false}, {9, true},
             {2, false}, {0, true},  {2, true}}; /* as KINDS in scripts/dnn_rules.py */
enum { KINDS = sizeof kinds / sizeof *kinds };

struct layer {
    int rank;
    int64_t x[DIMS], w[DIMS], y[DIMS], pad[DIMS], step[DIMS], dilation[DIMS];
    unsigned kinds;
};

static void *made(int kind)
{
    void *out = NULL;
    if (create(kind, &out))
        abort();
    return out;
}

static void set(void *descriptor, int name, int type, int64_t count, const void *values)
{
    if (set_attribute(descriptor, name, type, count, values)) {
        fprintf(stderr, "attribute %d is refused\n", name);
        exit(1);
    }
}

static void give(void *descriptor, int name, void *child)
{
    set(descriptor, name, TYPE_DESCRIPTOR, 1, &child);
}

/* ---- a convolution, as PyTorch describes it ---- */

static void *tensor(int rank, const int64_t *dims, struct kind kind, int64_t name)
{
    int64_t strides[DIMS], next = 1, alignment = 32;
    if (kind.last)
        strides[1] = 1, next = dims[1];
    for (int i = rank - 1; i >= 0; i--) {
        if (kind.last && i == 1)
            continue;
        strides[i] = next;
        next *= dims[i];
    }
    void *out = made(TENSOR);
    set(out, 901, TYPE_DATA, 1, &kind.data);
    set(out, 902, TYPE_INT64, rank, dims);
    set(out, 903, TYPE_INT64, rank, strides);
    set(out, 906, TYPE_INT64, 1, &name);
    set(out, 900, TYPE_INT64, 1, &alignment);
    finalize(out);
    return out;
}

static void *convolution(const struct layer *l)
{
    int sum = 0, mode = 1; /* in floats of 32 bits; a cross-correlation */
    int64_t ways = l->rank - 2;
    void *out = made(CONVOLUTION);
    set(out, 100, TYPE_DATA, 1, &sum);
    set(out, 101, TYPE_MODE, 1, &mode);
    set(out, 106, TYPE_INT64, 1, &ways);
    set(out, 105, TYPE_INT64, ways, l->pad);
    set(out, 104, TYPE_INT64, ways, l->pad);
    set(out, 103, TYPE_INT64, ways, l->step);
    set(out, 102, TYPE_INT64, ways, l->dilation);
    finalize(out);
    return out;
}

/* Operation OP of HOW and the tensors x, w, y; NULL where cuDNN has none such. */
static void *graph(int op, void *how, void *const *tensors)
{
    static const int where[OPS][7] = {{10, 702, 704, 703, 705, 700, 701},
                                      {12, 708, 710, 709, 711, 706, 707},
                                      {11, 714, 716, 715, 717, 712, 713}};
    const int *at = where[op];
    float one = 1, none = 0;
    void *operation = made(at[0]), *out = made(GRAPH);
    give(operation, at[1], how);
    for (int i = 0; i < 3; i++)
        give(operation, at[2 + i], tensors[i]);
    set(operation, at[5], TYPE_FLOAT, 1, &one);
    set(operation, at[6], TYPE_FLOAT, 1, &none);
    bool is = !finalize(operation);
    if (is)
        set(out, 800, TYPE_HANDLE, 1, &handle);
    if (is)
        give(out, 801, operation);
    is = is && !finalize(out);
    destroy(operation);
    if (!is)
        destroy(out);
    return is ? out : NULL;
}

/* ---- what is offered ---- */

struct offer {
    int64_t engine, bytes;
};

static bool rounds(void *engine)
{
    int notes[NOTES + 8];
    int64_t count = 0;
    get_attribute(engine, 1303, TYPE_NOTE, NOTES, &count, notes);
    for (int i = 0; i < count && i < NOTES; i++)
        if (notes[i] == TENSOR_CORE)
            return true;
    return false;
}

/* The first offer, and where BOTH the first without tensor cores. */
static void look(void **configs, int64_t n, bool both, struct offer *out)
{
    for (int64_t i = 0; i < n && (out[0].engine < 0 || (both && out[1].engine < 0)); i++) {
        void *engine = made(ENGINE);
        int64_t count;
        get_attribute(configs[i], 300, TYPE_DESCRIPTOR, 1, &count, &engine);
        bool plain = both && !rounds(engine);
        struct offer one = {-1, -1};
        if (i == 0 || plain) {
            get_attribute(engine, 1301, TYPE_INT64, 1, &count, &one.engine);
            get_attribute(configs[i], 303, TYPE_INT64, 1, &count, &one.bytes);
        }
        if (i == 0)
            out[0] = one;
        if (plain && out[1].engine < 0)
            out[1] = one;
        destroy(engine);
    }
}

static void ask(void *of, bool both, struct offer *out)
{
    int mode = 0; /* the instant one */
    void *heuristics = made(HEURISTICS), *configs[OFFERS];
    int64_t count = 0;
    give(heuristics, 201, of);
    set(heuristics, 200, TYPE_HEURISTIC, 1, &mode);
    if (!finalize(heuristics))
        get_attribute(heuristics, 202, TYPE_DESCRIPTOR, 0, &count, NULL);
    count = count < OFFERS ? count : OFFERS;
    for (int64_t i = 0; i < count; i++)
        configs[i] = made(CONFIG);
    int64_t got = 0;
    if (count)
        get_attribute(heuristics, 202, TYPE_DESCRIPTOR, count, &got, configs);
    look(configs, got < count ? got : count, both, out);
    for (int64_t i = 0; i < count; i++)
        destroy(configs[i]);
    destroy(heuristics);
}

static int answer_of(const struct layer *l, struct kind kind, char *text, size_t size)
{
    void *how = convolution(l),
         *tensors[] = {tensor(l->rank, l->x, kind, 'x'), tensor(l->rank, l->w, kind, 'w'),
                       tensor(l->rank, l->y, kind, 'y')};
    int at = 0;
    for (int op = 0; op < OPS; op++) {
        struct offer first[2] = {{-1, -1}, {-1, -1}};
        void *of = graph(op, how, tensors);
        if (of) {
            ask(of, kind.data == 0, first);
            destroy(of);
        }
        for (int i = 0; i <= (kind.data == 0); i++)
            at += snprintf(text + at, size - (size_t)at, "\t%lld/%lld", (long long)first[i].engine,
                           (long long)first[i].bytes);
    }
    for (int i = 0; i < 3; i++)
        destroy(tensors[i]);
    destroy(how);
    return at;
}

/* ---- cases ---- */

static int numbers(const char *text, int64_t *out)
{
    int n = 0;
    for (char *end; n < DIMS; text = end + 1) {
        out[n++] = strtoll(text, &end, 10);
        if (*end != 'x')
            break;
    }
    return n;
}

static bool read_layer(const char *line, struct layer *l)
{
    char x[96], kernel[64], pad[64], step[64], dilation[64];
    long long outputs, groups;
    if (sscanf(line, "%95s %lld %lld %63s %63s %63s %63s %u", x, &outputs, &groups, kernel, pad, step,
               dilation, &l->kinds) != 8)
        return false;
    l->rank = numbers(x, l->x);
    numbers(kernel, l->w + 2);
    numbers(pad, l->pad);
    numbers(step, l->step);
    numbers(dilation, l->dilation);
    l->w[0] = l->y[1] = outputs;
    l->w[1] = l->x[1] / groups;
    l->y[0] = l->x[0];
    for (int i = 0; i < l->rank - 2; i++)
        l->y[2 + i] = (l->x[2 + i] + 2 * l->pad[i] - l->dilation[i] * (l->w[2 + i] - 1) - 1) / l->step[i] + 1;
    return true;
}

static void say(const char *text, int n)
{
    if (write(1, text, (size_t)n) != n) /* at once: several write into one pipe */
        exit(1);
}

static long ask_about(const struct layer *l, long number)
{
    long asked = 0;
    for (int i = 0; i < KINDS; i++) {
        char text[512];
        if (!(l->kinds >> i & 1))
            continue;
        int at = snprintf(text, sizeof text, "%ld\t%d", number, i);
        at += answer_of(l, kinds[i], text + at, sizeof text - (size_t)at - 1);
        text[at++] = '\n';
        say(text, at);
        asked++;
    }
    return asked;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- cuDNN ---- */

static void *function(void *library, const char *name)
{
    void *out = dlsym(library, name);
    if (!out) {
        fprintf(stderr, "no %s: %s\n", name, dlerror());
        exit(77);
    }
    return out;
}

static void begin(void)
{
    void *library = dlopen("libcudnn.so.9", RTLD_NOW | RTLD_GLOBAL);
    if (!library) {
        fprintf(stderr, "SKIP: %s\n", dlerror());
        exit(77);
    }
    create = (int (*)(int, void **))function(library, "cudnnBackendCreateDescriptor");
    destroy = (int (*)(void *))function(library, "cudnnBackendDestroyDescriptor");
    set_attribute =
        (int (*)(void *, int, int, int64_t, const void *))function(library, "cudnnBackendSetAttribute");
    get_attribute =
        (int (*)(void *, int, int, int64_t, int64_t *, void *))function(library, "cudnnBackendGetAttribute");
    finalize = (int (*)(void *))function(library, "cudnnBackendFinalize");
    if (((int (*)(void **))function(library, "cudnnCreate"))(&handle)) {
        fprintf(stderr, "SKIP: no GPU\n");
        exit(77);
    }
}

int main(int count, char **arguments)
{
    FILE *cases = count == 5 ? fopen(arguments[1], "r") : NULL;
    if (!cases)
        return 2;
    begin();
    long share = atol(arguments[2]), shares = atol(arguments[3]), asked = 0, number = 0;
    double end = now() + atof(arguments[4]);
    char line[512];
    for (; fgets(line, sizeof line, cases) && now() < end; number++) {
        struct layer l = {0};
        if (number % shares == share && read_layer(line, &l))
            asked += ask_about(&l, number);
    }
    fprintf(stderr, "share %ld: %ld asked, up to line %ld\n", share, asked, number);
    fflush(stderr);
    _exit(0);
}
