/*
 * workspace.c - how much room a plan wants beside its tensors.  For convolutions decision trees say it, grown
 * of what an H200 asked for (convolutions.def, by scripts/dnn_rules.py).  For those that were measured in
 * TF32 or 16 bits it is exactly that, to a block of 512 bytes; for others the nearest ones', told as a guess.
 * Attention takes the same for all shapes that were measured.
 */
#include "dnn.h"

#include <math.h>
#include <string.h>

enum feature {
    F_N,
    F_C,
    F_K,
    F_EACH,
    F_SPACE_OUT,
    F_SPACE_IN,
    F_GEMM_M,
    F_GEMM_N,
    F_GEMM_K,
    F_WORK,
    F_X,
    F_Y,
    F_W,
    F_TILES,
    F_TILES_W,
    F_TILES_X,
    F_KERNEL_FIRST,
    F_KERNEL_LAST,
    F_STEP_FIRST,
    F_STEP_LAST,
    F_PAD,
    F_DILATION,
    F_RANK,
    F_GROUPED,
    F_DEPTHWISE,
    F_TWOS_C,
    F_TWOS_K,
    F_TWOS_OUT,
    F_TWOS_IN,
    F_ODD,
    F_ONE_ROW,
    F_NHWC,
    F_HALF,
    F_WIDTH,
    FEATURES
};

enum { BASE = 91, FAR = 55 * BASE, FORM = 7, LAYER = 8, BATCHES = 20 };

static int digit(char c)
{
    return c - 33 - (c > '"') - (c > '?') - (c > '\\');
}

static int64_t digits(const char *text, int count)
{
    int64_t value = 0;
    for (int i = 0; i < count; i++)
        value = value * BASE + digit(text[i]);
    return value;
}

#define TEXT(name, text) static const char name[] = text;
#include "convolutions.def"
#undef TEXT

#define KNOWN(name)                                                                                          \
    {                                                                                                        \
        name##_tree, name##_forms, name##_about, name##_ranges                                               \
    }
static const struct knowledge {
    const char *tree, *forms;
    const char *about,
        *ranges; /* what similar ones take: a coarser tree, and of each leaf the least and most */
} known[3][3] = {
    /* of forward, data, filter: 32 bits with TF32, 16 bits, 32 bits without */
    {KNOWN(forward_f32), KNOWN(forward_f16), KNOWN(forward_ieee)},
    {KNOWN(data_f32), KNOWN(data_f16), KNOWN(data_ieee)},
    {KNOWN(filter_f32), KNOWN(filter_f16), KNOWN(filter_ieee)},
};

static const char *const most_of[3][2] = {
    /* the most that any plan wants: of forward, data, filter, with 32 bits and with 16 */
    {forward_f32_most, forward_f16_most},
    {data_f32_most, data_f16_most},
    {filter_f32_most, filter_f16_most},
};

/* ---- where a convolution stands in a tree ---- */

static int in_log(int64_t value)
{
    return value > 0 ? (int)(log2((double)value) * 64 + 0.5) : 0;
}

static int twos(int64_t value)
{
    int n = value ? __builtin_ctzll((unsigned long long)value) : 6;
    return n < 6 ? n : 6;
}

static int64_t space(const struct dnn_shape *s)
{
    int64_t n = 1;
    for (int i = 2; i < s->rank; i++)
        n *= s->dims[i];
    return n;
}

static void measure_products(const struct dnn_task_of *t, int *out)
{
    int64_t m = t->x.dims[0] * space(&t->y), n = t->w.dims[0], k = t->w.dims[1] * space(&t->w);
    n = t->groups > 1 ? n / t->groups : n;
    n = n > 0 ? n : 1;
    int64_t tiles_m = (m + 127) / 128, tiles_n = (n + 127) / 128, tiles_k = (k + 127) / 128;
    out[F_GEMM_M] = in_log(m);
    out[F_GEMM_N] = in_log(n);
    out[F_GEMM_K] = in_log(k);
    out[F_WORK] = in_log(m * n * k);
    out[F_TILES] = in_log(tiles_m * tiles_n);
    out[F_TILES_W] = in_log(tiles_k * tiles_n);
    out[F_TILES_X] = in_log(tiles_k * tiles_m);
}

static void measure_tensors(const struct dnn_task_of *t, int *out)
{
    int64_t n = t->x.dims[0], c = t->x.dims[1], k = t->w.dims[0], each = t->w.dims[1];
    int64_t so = space(&t->y), si = space(&t->x);
    out[F_N] = in_log(n);
    out[F_C] = in_log(c);
    out[F_K] = in_log(k);
    out[F_EACH] = in_log(each);
    out[F_SPACE_OUT] = in_log(so);
    out[F_SPACE_IN] = in_log(si);
    out[F_X] = in_log(n * c * si);
    out[F_Y] = in_log(n * k * so);
    out[F_W] = in_log(k * each * space(&t->w));
    out[F_TWOS_C] = twos(c);
    out[F_TWOS_K] = twos(k);
    out[F_TWOS_OUT] = twos(so);
    out[F_TWOS_IN] = twos(si);
}

static void measure_kind(const struct dnn_task_of *t, int *out)
{
    int last = t->x.rank - 1, way = last - 2;
    int64_t width = t->x.dims[last];
    out[F_KERNEL_FIRST] = (int)t->w.dims[2];
    out[F_KERNEL_LAST] = (int)t->w.dims[last];
    out[F_STEP_FIRST] = (int)t->step[0];
    out[F_STEP_LAST] = (int)t->step[way];
    out[F_PAD] = (int)t->pad[way];
    out[F_DILATION] = (int)t->dilation[way];
    out[F_RANK] = way + 1;
    out[F_GROUPED] = t->groups > 1;
    out[F_DEPTHWISE] = t->groups > 1 && t->w.dims[1] == 1;
    out[F_ODD] = width % 2 != 0;
    out[F_ONE_ROW] = t->x.dims[2] == 1;
    out[F_NHWC] = t->x.layout == DNN_NHWC;
    out[F_HALF] = t->x.data == DNN_HALF;
    out[F_WIDTH] = in_log(width);
}

/* Past the tree that TEXT begins with. */
static const char *past(const char *text)
{
    for (int open = 1; open > 0;) {
        int first = digit(*text);
        bool leaf = first >= FEATURES, far = first >= FEATURES + FAR / BASE;
        open += leaf ? -1 : 1;
        text += far ? 4 : leaf ? 2 : 3;
    }
    return text;
}

/* Which form the tree leads to. */
static int64_t walk(const char *tree, const int *at)
{
    while (digit(*tree) < FEATURES) {
        bool left = at[digit(*tree)] <= digits(tree + 1, 2);
        tree += 3;
        if (!left)
            tree = past(tree);
    }
    int64_t number = digits(tree, 2) - FEATURES * BASE;
    return number < FAR ? number : FAR + (number - FAR) * BASE * BASE + digits(tree + 2, 2);
}

/* ---- what a form comes to ---- */

static int64_t up(int64_t value, int64_t to)
{
    return (value + to - 1) / to * to;
}

/* A tensor turned to channels last, its channels rounded up; nothing where it lies so already. */
static int64_t turned(const struct dnn_shape *s, bool filter)
{
    int64_t to = dnn_width(s->data) == 2 ? 8 : 4, n = filter ? up(s->dims[0], to) : s->dims[0];
    if (s->layout == DNN_NHWC && s->dims[1] % to == 0 && n == s->dims[0])
        return 0;
    return n * up(s->dims[1], to) * space(s) * dnn_width(s->data);
}

static int64_t part(const struct dnn_task_of *t, char which)
{
    switch (which) {
    case 'x':
        return turned(&t->x, false);
    case 'w':
        return turned(&t->w, true);
    case 'y':
        return turned(&t->y, false);
    default:
        return dnn_shape_bytes(which == 'X' ? &t->x : which == 'W' ? &t->w : &t->y);
    }
}

static int64_t sums(const struct dnn_task_of *t)
{
    const struct dnn_shape *result = t->task == DNN_CONV_FORWARD ? &t->y
                                     : t->task == DNN_CONV_DATA  ? &t->x
                                                                 : &t->w;
    return dnn_shape_bytes(result) / dnn_width(result->data) * 4;
}

static int64_t form_bytes(const struct dnn_task_of *t, const char *form)
{
    static const char *const parts[] = {"", "xwy", "xy", "xw", "wy", "x", "y", "w", "XWY", "XY", "XW", "WY"};
    static const int bytes[] = {0, 16, 400, 663, 1024, 1500};
    enum { KINDS = sizeof bytes / sizeof *bytes };
    int64_t more = digits(form + 3, 4);
    int64_t all = digits(form + 1, 2) * sums(t) + (more < KINDS ? bytes[more] : (more - KINDS) * 512);
    for (const char *p = parts[digit(form[0])]; *p; p++)
        all += part(t, *p);
    return all;
}

/* ---- whether it was measured ---- */

static uint64_t mix(uint64_t hash, int n, const int64_t *numbers)
{
    for (int i = 0; i < n; i++)
        hash = (hash ^ (uint64_t)numbers[i]) * 1099511628211u;
    return hash;
}

static int64_t hashed(const struct dnn_task_of *t)
{
    int ways = t->x.rank - 2;
    uint64_t hash = mix(1469598103934665603u, ways + 1, t->x.dims + 1);
    hash = mix(hash, t->w.rank, t->w.dims);
    hash = mix(hash, ways, t->pad);
    hash = mix(hash, ways, t->step);
    hash = mix(hash, ways, t->dilation);
    return (int64_t)((hash >> 20) % ((uint64_t)BASE * BASE * BASE * BASE));
}

static bool same_kind(const struct dnn_shape *a, const struct dnn_shape *b)
{
    return a->data == b->data && a->layout == b->layout;
}

/* -1 of what was not measured: tensors of several kinds, more padding on one side than on the other. */
static int kind_bit(const struct dnn_task_of *t)
{
    if (!same_kind(&t->x, &t->w) || !same_kind(&t->x, &t->y) || memcmp(t->pad, t->post, sizeof t->pad))
        return -1;
    static const struct {
        int data;
        enum dnn_layout layout;
    } kinds[] = {{DNN_FLOAT, DNN_NCHW}, {DNN_BFLOAT16, DNN_NCHW}, {DNN_BFLOAT16, DNN_NHWC},
                 {DNN_HALF, DNN_NCHW},  {DNN_FLOAT, DNN_NHWC},    {DNN_HALF, DNN_NHWC}};
    for (int i = 0; i < 6; i++)
        if (kinds[i].data == t->x.data && kinds[i].layout == t->x.layout)
            return BATCHES + i;
    return -1;
}

/* Where in the list the layers with HASH begin, or what comes behind them. */
static size_t first_layer(int64_t hash)
{
    size_t low = 0, high = sizeof layers / LAYER;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (digits(layers + middle * LAYER, 4) < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool was_measured(const struct dnn_task_of *t)
{
    static const int batches[BATCHES] = {1,  2,  3,  4,  6,  8,   10,  12,  16,  20,
                                         24, 32, 48, 64, 96, 100, 128, 192, 256, 512};
    int kind = kind_bit(t), batch = 0;
    while (batch < BATCHES && batches[batch] != t->x.dims[0])
        batch++;
    if (kind < 0 || batch == BATCHES)
        return false;
    int64_t hash = hashed(t);
    for (size_t i = first_layer(hash); i < sizeof layers / LAYER && digits(layers + i * LAYER, 4) == hash;
         i++) {
        int64_t word = digits(layers + i * LAYER + 4, 4);
        if ((word >> kind & 1) && (word >> batch & 1))
            return true;
    }
    return false;
}

/* ---- the answer ---- */

static void measure(const struct dnn_task_of *task, int *at)
{
    measure_products(task, at);
    measure_tensors(task, at);
    measure_kind(task, at);
}

static bool has_trees(const struct dnn_task_of *task)
{
    int width = dnn_width(task->x.data);
    return task->task >= DNN_CONV_FORWARD && task->task <= DNN_CONV_FILTER && (width == 2 || width == 4) &&
           task->x.rank > 2;
}

/* So many times the bytes of the tensors, as a logarithm; 0: nothing. */
static int64_t scaled(const struct dnn_task_of *task, int64_t logarithm)
{
    enum { MIDDLE = 2500 };
    double tensors = (double)(part(task, 'X') + part(task, 'W') + part(task, 'Y'));
    return logarithm ? (int64_t)(tensors * exp2((double)(logarithm - MIDDLE) / 64)) : 0;
}

static struct dnn_room convolution(const struct dnn_task_of *task, bool tf32)
{
    enum { RANGE = 4 };
    bool wide = dnn_width(task->x.data) == 4;
    if (!has_trees(task))
        return (struct dnn_room){0};
    const struct knowledge *k = &known[task->task - DNN_CONV_FORWARD][wide ? (tf32 ? 0 : 2) : 1];
    int at[FEATURES];
    measure(task, at);
    const char *range = k->ranges + walk(k->about, at) * RANGE;
    int64_t bytes = form_bytes(task, k->forms + walk(k->tree, at) * FORM);
    int64_t least = scaled(task, digits(range, 2)), most = scaled(task, digits(range + 2, 2));
    return (struct dnn_room){.bytes = bytes,
                             .least = least < bytes ? least : bytes,
                             .most = most > bytes ? most : bytes,
                             .sure = (tf32 || !wide) && !task->fused && !task->legacy && was_measured(task)};
}

/* A guess: what cuDNN's hungriest plan wants follows no rule. */
int64_t dnn_workspace_most(const struct dnn_task_of *task)
{
    if (!has_trees(task))
        return 0;
    int at[FEATURES];
    measure(task, at);
    return scaled(task, walk(most_of[task->task - DNN_CONV_FORWARD][dnn_width(task->x.data) == 2], at));
}

/* Of one query the keys are split among blocks, whose results are summed; how many was read off one shape. Of
 * attention as one operation backward was not measured. */
static struct dnn_room attention(const struct dnn_task_of *task)
{
    enum { FEW = 256 };
    bool was = task->task == DNN_SDPA_FORWARD || task->matmuls > 0;
    bool one_query = task->task == DNN_SDPA_FORWARD && task->x.rank == 4 && task->x.dims[2] == 1;
    int64_t bytes = one_query ? 2176 + task->x.dims[0] * task->x.dims[1] * task->x.dims[3] * 32
                    : task->ragged && task->task == DNN_SDPA_FORWARD
                        ? 768 + FEW * task->x.dims[0]
                        : task->reduced + (task->ragged ? 1024 + 384 * task->x.dims[0] : FEW);
    return (struct dnn_room){.bytes = bytes, .most = 2 * bytes, .sure = !one_query && !task->ragged && was};
}

struct dnn_room dnn_workspace(const struct dnn_task_of *task, bool tf32)
{
    if (task->task == DNN_SDPA_FORWARD || task->task == DNN_SDPA_BACKWARD)
        return attention(task);
    return task->task == DNN_OTHER ? (struct dnn_room){0} : convolution(task, tf32);
}

/* Where results must repeat another plan may be taken: for what, follows from all that was measured. */
static bool takes_the_same(const struct dnn_task_of *task, enum dnn_engine engine)
{
    return engine != DNN_HUNGRY && (engine != DNN_REPEATING || task->task == DNN_CONV_FORWARD ||
                                    (task->task == DNN_CONV_FILTER && dnn_width(task->x.data) == 2));
}

int64_t dnn_workspace_told(const struct dnn_task_of *task, enum dnn_engine engine)
{
    struct dnn_room room = dnn_workspace(task, engine != DNN_PLAIN);
    if (room.sure && dnn_measured_here() && takes_the_same(task, engine))
        return room.bytes;
    if (engine == DNN_HUNGRY) /* of all plans one is taken: the one that PyTorch prefers, or a hungrier one */
        room.most = dnn_workspace_most(task);
    char text[768];
    dnn_graph_text(task, text, sizeof text);
    return dry_guess("cudnn", text, engine == DNN_HUNGRY ? room.most : room.bytes, room.least, room.most);
}
