/*
 * estimate.c - `vramscope estimate`: what a training step will need by formulas, and beside a recording what
 * it did.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "analysis/relabel.h"
#include "base/args.h"
#include "base/shown.h"
#include "base/units.h"
#include "base/page.h"
#include "estimate/estimate.h"
#include "read/config.h"
#include "show/estimate/estimate.h"

struct options {
    const char *params, *context;
    int recipe, optimizer, offload, recompute, attention, loss, gather; /* which word; offload, gather: -1 */
    int64_t layers, hidden, heads, vocab, batch, tokens, zero, gpus, tensor_parallel, chunk;
    int64_t device, process;
    bool sequence_parallel, fused_optimizer, keep_gradients, json, bytes;
};

static const struct option_row rows[] = {
    {"params", 'p', "N", ARG_TEXT, AT(params), "parameters, without a config.json: 8.03B, 124M, 14e9"},
    {"layers", 0, "N", ARG_COUNT, AT(layers), "layers, likewise"},
    {"hidden", 0, "N", ARG_COUNT, AT(hidden), "hidden size, likewise"},
    {"heads", 0, "N", ARG_COUNT, AT(heads), "attention heads, likewise"},
    {"vocab", 0, "N", ARG_COUNT, AT(vocab), "words of the vocabulary, likewise"},
    {"batch", 0, "N", ARG_COUNT, AT(batch), "sequences of a step on one GPU (1)"},
    {"seq", 0, "N", ARG_COUNT, AT(tokens), "tokens of a sequence: without it no activations and no logits"},
    {"recipe", 0, "mixed|mixed-fp32-gradients|bf16|fp32|autocast", ARG_INDEX, AT(recipe),
     "bytes a parameter: 2 + 2 + 12 (mixed), 2 + 4 + 12, 2 + 2 + 4, 4 + 4 + 8; autocast: as fp32, "
     "computed with in 16 bits"},
    {"optimizer", 0, "adam|adam8bit|momentum|sgd", ARG_INDEX, AT(optimizer),
     "the states: 2 values, 2 bytes, 1 value, none"},
    {"fused-optimizer", 0, NULL, ARG_FLAG, AT(fused_optimizer), "not PyTorch's foreach: no temporaries"},
    {"zero", 0, "N", ARG_COUNT, AT(zero), "ZeRO's stage, 0 to 3 (FSDP: 3)"},
    {"gpus", 0, "N", ARG_COUNT, AT(gpus), "over so many GPUs"},
    {"offload", 0, "optimizer|parameters", ARG_INDEX, AT(offload),
     "on the host: gradients and states; parameters too"},
    {"gather", 0, "bf16|fp32", ARG_INDEX, AT(gather), "type in which ZeRO 3 gathers (the weights')"},
    {"tensor-parallel", 0, "N", ARG_COUNT, AT(tensor_parallel), "each layer over N GPUs"},
    {"sequence-parallel", 0, NULL, ARG_FLAG, AT(sequence_parallel), "and its norms and dropouts too"},
    {"recompute", 0, "none|selective|full", ARG_INDEX, AT(recompute), "gradient checkpointing"},
    {"attention", 0, "flash|eager", ARG_INDEX, AT(attention),
     "whether attention's scores are written (flash: not)"},
    {"loss", 0, "eager|fused", ARG_INDEX, AT(loss), "copies of the logits, or chunks of them"},
    {"chunk", 0, "N", ARG_COUNT, AT(chunk), "tokens of the fused loss's chunk (1024)"},
    {"keep-gradients", 0, NULL, ARG_FLAG, AT(keep_gradients), "they live in forward too (accumulation)"},
    {"context", 0, "SIZE", ARG_TEXT, AT(context), "what CUDA's context takes"},
    {"device", 'd', "N", ARG_COUNT, AT(device), "of the recording this device alone"},
    {"process", 0, "N", ARG_COUNT, AT(process), "of a file with several processes this one"},
    {"json", 0, NULL, ARG_FLAG, AT(json), "for programs: see vramscope-estimate(1)"},
    {"bytes", 'b', NULL, ARG_FLAG, AT(bytes), "exact bytes instead of rounded GiB"},
    {0}};

/* "8.03B", "124M", "14e9", "7000000000" */
static bool read_parameters(const char *text, int64_t *out)
{
    char *end;
    double n = strtod(text, &end), each = 1;
    if (*end == 'B' || *end == 'b')
        each = 1e9;
    else if (*end == 'M' || *end == 'm')
        each = 1e6;
    else if (*end == 'K' || *end == 'k')
        each = 1e3;
    if (end == text || (each > 1 ? end[1] : *end) || !(n * each >= 1 && n * each < 1e15))
        return false;
    *out = (int64_t)(n * each + 0.5);
    return true;
}

/* ---- what is asked ---- */

static void read_recipe(const struct options *o, struct setup *s)
{
    static const struct {
        double weights, gradients, master, state;
    } recipes[] = {{2, 2, 4, 4}, {2, 4, 4, 4}, {2, 2, 0, 2}, {4, 4, 0, 4}, {4, 4, 0, 4}};
    enum { ADAM = 0, AUTOCAST = 4 };
    double state = recipes[o->recipe].state, values[] = {2 * state, 2, state, 0};
    s->each.weights = recipes[o->recipe].weights;
    s->autocast = o->recipe == AUTOCAST;
    s->element = s->autocast ? 2 : s->each.weights;
    s->each.gradients = recipes[o->recipe].gradients;
    s->each.states = recipes[o->recipe].master + values[o->optimizer];
    s->each.copy = o->optimizer == ADAM && !o->fused_optimizer ? state : 0;
}

/* Sizes that are numbers of something, 1 at least. */
static int check_counts(const struct options *o)
{
    const struct {
        const char *name;
        int64_t value, most;
    } counts[] = {{"layers", o->layers, 1 << 12},
                  {"hidden", o->hidden, 1 << 20},
                  {"heads", o->heads, 1 << 12},
                  {"vocab", o->vocab, 1 << 24},
                  {"batch", o->batch, 1 << 24},
                  {"seq", o->tokens, 1 << 30},
                  {"gpus", o->gpus, 1 << 24},
                  {"chunk", o->chunk, 1 << 30},
                  {"tensor-parallel", o->tensor_parallel, 1 << 16}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (counts[i].value != UNKNOWN && (counts[i].value < 1 || counts[i].value > counts[i].most))
            return complain("estimate: --%s is from 1 to %lld", counts[i].name, (long long)counts[i].most);
    if (o->zero > 3)
        return complain("estimate: --zero is 0, 1, 2 or 3");
    if (o->zero == 0 && o->gpus > 1)
        return complain("estimate: --gpus shards nothing without --zero=1, 2 or 3");
    if (o->zero > 0 && o->gpus == UNKNOWN)
        return complain("estimate: --zero=%lld over how many GPUs? --gpus=N", (long long)o->zero);
    if (o->sequence_parallel && o->tensor_parallel == UNKNOWN)
        return complain("estimate: --sequence-parallel needs --tensor-parallel=N");
    return 0;
}

static void read_ways(const struct options *o, struct setup *s)
{
    s->offload = (enum offload)(o->offload + 1);
    s->recompute = (enum recompute)o->recompute;
    s->scores = o->attention == 1;
    s->fused_loss = o->loss == 1;
    s->gather = o->gather < 0 ? s->each.weights : o->gather == 0 ? 2 : 4;
}

static int64_t or_one(int64_t n)
{
    return n == UNKNOWN ? 1 : n;
}

static int read_setup(const struct options *o, struct setup *s)
{
    int bad = check_counts(o);
    if (bad)
        return bad;
    read_recipe(o, s);
    read_ways(o, s);
    s->batch = or_one(o->batch);
    s->tokens = o->tokens;
    s->stage = o->zero == UNKNOWN ? 0 : (int)o->zero;
    s->gpus = or_one(o->gpus);
    s->tensor_parallel = or_one(o->tensor_parallel);
    s->sequence_parallel = o->sequence_parallel;
    s->keep_gradients = o->keep_gradients;
    s->chunk = o->chunk == UNKNOWN ? 1024 : o->chunk;
    return 0;
}

/* Flags say what a config.json does not, and nothing against it. */
static int read_sizes(const struct options *o, struct setup *s, const char *config)
{
    struct model *m = &s->model;
    const int64_t sizes[] = {o->layers, o->hidden, o->heads, o->vocab};
    int64_t *const fields[] = {&m->layers, &m->hidden, &m->heads, &m->vocab};
    bool any = o->params != NULL;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        any = any || sizes[i] != UNKNOWN;
    if (config && any)
        return complain(
            "estimate: %s has the sizes: leave out --params, --layers, --hidden, --heads and --vocab",
            config);
    if (config)
        return 0;
    if (!o->params)
        return complain("estimate: of which model? vramscope estimate config.json, or --params N");
    if (!read_parameters(o->params, &m->parameters))
        return complain("estimate: --params '%s' is no number of parameters, such as 8.03B, 124M or 14e9",
                        o->params);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        *fields[i] = sizes[i];
    if (m->vocab != UNKNOWN && m->hidden != UNKNOWN)
        m->embedding = m->vocab * m->hidden;
    m->outputs = m->vocab;
    return 0;
}

static int read_model(struct setup *s, const char *path)
{
    struct config c;
    char why[512];
    if (config_read(&c, path, why, sizeof why))
        return complain("%s", why);
    int result = model_read(&s->model, &c, path, why, sizeof why);
    config_free(&c);
    return result ? complain("%s", why) : 0;
}

/* ---- a recording ---- */

static void show_devices(const struct report *r, const struct setup *s, const struct estimate *e,
                         const struct options *o, struct json *j)
{
    bool any = false;
    for (size_t i = 0; i < r->device_count; i++) {
        if (o->device != UNKNOWN && r->devices[i].device != o->device)
            continue;
        struct beside b = beside_make(r, &r->devices[i], s, e);
        any = true;
        if (j)
            beside_json(&b, e, j);
        else
            beside_text(&b, e, stdout, o->bytes);
        beside_free(&b);
    }
    if (!any && !j)
        printf("\n  %s\n",
               r->device_count ? "the recording has nothing on that device" : trace_no_device(r->trace));
}

struct recording {
    struct trace t;
    struct report r;
};

/* 0, or 2, said, and nothing is open. */
static int open_recording(struct recording *rec, const char *file, const struct options *o)
{
    struct relabel relabel = {.process = o->process};
    if (relabel_open(&rec->t, file, &relabel))
        return complain("%s", rec->t.why);
    if (!report_load(&rec->r, &rec->t,
                     REPORT_HELD | REPORT_GROWTH | REPORT_SAVINGS | REPORT_RESIDUAL | REPORT_COSTS))
        return 0;
    int status = complain("%s", rec->t.why);
    report_free(&rec->r);
    trace_close(&rec->t);
    return status;
}

/* And closes it. */
static int show_beside(struct recording *rec, const char *file, const struct setup *s,
                       const struct estimate *e, const struct options *o, struct json *j)
{
    if (!j)
        printf("\nbeside %s\n", shown(file));
    if (!j)
        report_dry_text(&rec->t, stdout);
    show_devices(&rec->r, s, e, o, j);
    int status = trace_whole(&rec->t) ? EXIT_GOOD : EXIT_INCOMPLETE;
    report_free(&rec->r);
    trace_close(&rec->t);
    return status;
}

/* ---- all ---- */

static int show(const struct setup *s, const struct options *o, int64_t context, const char *recording)
{
    struct recording rec;
    struct estimate e;
    struct json j;
    char why[256];
    int status = EXIT_GOOD;
    if (estimate_make(&e, s, why, sizeof why))
        return complain("estimate: %s", why);
    if (recording && open_recording(&rec, recording, o)) { /* before anything is shown */
        estimate_free(&e);
        return EXIT_USAGE;
    }
    if (o->json) {
        json_document(&j, stdout);
        estimate_json(s, &e, context, &j);
        json_text(&j, "dry", recording ? trace_dry(&rec.t) : NULL);
        json_begin(&j, "devices", '[');
    } else {
        wrap_page_begin(false);
        estimate_text(s, &e, context, stdout, o->bytes);
    }
    if (recording)
        status = show_beside(&rec, recording, s, &e, o, o->json ? &j : NULL);
    if (o->json)
        json_close(&j);
    wrap_page_end();
    estimate_free(&e);
    return status;
}

/* Of learned positions there are so many and no more; of computed ones a model is merely not trained beyond.
 */
static void warn_of_length(const struct setup *s)
{
    const struct model *m = &s->model;
    if (s->tokens == UNKNOWN || m->positions == UNKNOWN || s->tokens <= m->positions)
        return;
    if (m->kind == MODEL_GPT2)
        complain("estimate: --seq=%lld is beyond the model's n_positions, %lld: it has no embedding for "
                 "the others, and fails with them",
                 (long long)s->tokens, (long long)m->positions);
    else
        complain("estimate: --seq=%lld is beyond the model's max_position_embeddings, %lld: it was not "
                 "made for that",
                 (long long)s->tokens, (long long)m->positions);
}

/* What an operand is: a config.json (or the directory that has one), or a recording. */
static bool is_config(const char *path, char **config)
{
    struct stat st;
    size_t length = strlen(path);
    bool directory = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    if (!directory && (length < 5 || strcmp(path + length - 5, ".json") != 0))
        return false;
    free(*config);
    *config = directory ? xformat("%s/config.json", path) : xstrdup(path);
    return true;
}

/* A recording that is not there is most likely the name of a model, mistyped. */
static int check_there(const char *path)
{
    struct stat st;
    char *file = trace_file(path, NULL);
    int error = stat(file, &st) ? errno : 0;
    free(file);
    return error ? complain("estimate: %s: %s: give a model's config.json, and beside it a recording if "
                            "there is one",
                            shown(path), strerror(error))
                 : 0;
}

static int estimate(const struct options *o, char *const *operands, int n)
{
    struct setup s = {.model = model_none()};
    char *config = NULL;
    const char *recording = NULL;
    int64_t context = 0;
    int configs = 0, recordings = 0, status = 0;
    for (int i = 0; i < n && !status; i++) {
        if (is_config(operands[i], &config)) {
            configs++;
        } else {
            recording = operands[i];
            recordings++;
            status = check_there(recording);
        }
    }
    if (!status)
        status =
            configs > 1 || recordings > 1
                ? complain(
                      "estimate: one config.json and one recording: vramscope estimate config.json run.db")
                : read_setup(o, &s);
    if (!status)
        status = read_sizes(o, &s, config);
    if (!status && config)
        status = read_model(&s, config);
    if (!status && o->context &&
        (!units_read_bytes(o->context, &context) || context < 0 || context >= INT64_C(1) << 50))
        status = complain("estimate: --context '%s' is no size, such as 500MiB", o->context);
    if (!status)
        warn_of_length(&s);
    if (!status)
        status = show(&s, o, context, recording);
    free(config);
    return status;
}

static int call(void *options, char **operands, int n)
{
    struct options *o = options;
    return estimate(o, operands, n);
}

const struct command command_estimate = {
    "estimate",
    "what a training step will hold, by formulas; beside a recording, what it did",
    "[options] [config.json|DIR] [FILE]",
    "What a training step will hold, by formulas: parameters, gradients, optimizer states, activations, "
    "logits, the optimizer's temporaries, gathered parameters; in each phase, and which phase is the "
    "peak. The model is a Hugging Face config.json, whose parameters are counted exactly, or sizes.\n"
    "With a recording, FILE, each row beside what was measured, and which row explains the difference.\n"
    "A formula knows no allocator and no library: what it leaves out is said.",
    rows,
    call,
    COMMAND_OPTIONS(.offload = -1, .gather = -1, .layers = UNKNOWN, .hidden = UNKNOWN, .heads = UNKNOWN,
                    .vocab = UNKNOWN, .batch = UNKNOWN, .tokens = UNKNOWN, .zero = UNKNOWN, .gpus = UNKNOWN,
                    .tensor_parallel = UNKNOWN, .chunk = UNKNOWN, .device = UNKNOWN)};
