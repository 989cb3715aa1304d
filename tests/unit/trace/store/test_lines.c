/*
 * test_lines.c - what the database says of a call stack: its owner, the line of the program's own code, the
 * layer, and for what was born in backward the line of the forward.
 *
 * Stacks are put into the journal frame by frame, as the recorder does.
 */
#define _GNU_SOURCE
#include "job_kit.h"

/* An allocation of so many bytes, by which it is found again. */
static void lives(struct job *job, uint64_t size, uint32_t stack)
{
    emit(job->j, &(struct vs_event){.op = VS_OP_ALLOC,
                                    .space = VS_SPACE_DEVICE,
                                    .address = size << 12,
                                    .size = size,
                                    .stack = stack});
}

TEST(owner_is_the_first_library_that_is_not_cudas)
{
    struct job job;
    job_open(&job, "owner");
    uint32_t module[3], stack = 0;
    const char *path[] = {"/usr/lib/libpython3.12.so", "/opt/nccl/libnccl.so.2", "/usr/lib/libcuda.so.1"};
    for (int i = 0; i < 3; i++) {
        struct vs_module_row m = {.base = 0x1000u * (unsigned)(i + 1), .start = 0, .end = 0x100};
        m.path = vs_journal_string(job.j, path[i], strlen(path[i]));
        module[i] = vs_journal_module(job.j, &m);
        stack = vs_journal_stack(job.j, stack,
                                 vs_journal_frame(job.j, 0x1000u * (unsigned)(i + 1) + 5, module[i]));
    }
    lives(&job, 777, stack);
    job_close(&job);
    assert_int_equal(ask(job.db, "SELECT owner='libnccl.so.2' AND size_bytes=777 FROM leak"), 1);
    assert_int_equal(ask(job.db, "SELECT count(*) FROM stack"), 3);
    assert_int_equal(ask(job.db, "SELECT count(*) FROM frame WHERE offset=5"), 3);
}

static uint32_t python_frame(struct job *job, const char *file, uint32_t line, const char *function)
{
    return vs_journal_named_frame(job->j, VS_FRAME_PYTHON,
                                  vs_journal_string(job->j, function, strlen(function)),
                                  vs_journal_string(job->j, file, strlen(file)), line);
}

static uint32_t marking(struct job *job, enum vs_frame_kind kind, const char *name)
{
    return vs_journal_named_frame(job->j, kind, vs_journal_string(job->j, name, strlen(name)), 0, 0);
}

/* Stacks of backward, each innermost frame first: what ran, the node, the forward. */
TEST(what_was_born_in_backward_has_a_line_that_ran_there_or_else_the_forwards)
{
    enum { USERS = 'u', TORCH = 't', NODE = 'n', LAYER = 'l' };
    static const struct {
        const char *frames, *line, *layer;
    } cases[] = {{"nu", "forward: /a/train.py:2 f", NULL},
                 {"ntu", "forward: /a/train.py:3 f", NULL},
                 {"nt", "forward: /v/site-packages/torch/a.py:2 f", NULL},
                 {"unu", "/a/train.py:1 f", NULL},
                 {"tnu", "forward: /a/train.py:3 f", NULL},
                 {"tnt", "/v/site-packages/torch/a.py:1 f", NULL},
                 {"tn", "/v/site-packages/torch/a.py:1 f", NULL},
                 {"n", "AddmmBackward0", NULL},
                 {"nlu", "forward: /a/train.py:3 f", "model.layers.2"},
                 {"lunlu", "/a/train.py:2 f", "model.layers.1"},
                 {"nn", "AddmmBackward0", NULL},
                 {"lu", "/a/train.py:2 f", "model.layers.1"},
                 {"l", NULL, "model.layers.1"}};
    size_t n = sizeof cases / sizeof *cases;
    char sql[256], name[32];
    struct job job;
    job_open(&job, "forward");
    for (size_t i = 0; i < n; i++) {
        uint32_t stack = 0;
        for (size_t at = strlen(cases[i].frames); at-- > 0;) {
            char kind = cases[i].frames[at];
            uint32_t line = (uint32_t)at + 1;
            snprintf(name, sizeof name, "model.layers.%u", line);
            stack = vs_journal_stack(job.j, stack,
                                     kind == USERS ? python_frame(&job, "/a/train.py", line, "f")
                                     : kind == TORCH
                                         ? python_frame(&job, "/v/site-packages/torch/a.py", line, "f")
                                     : kind == NODE ? marking(&job, VS_FRAME_NODE, "AddmmBackward0")
                                                    : marking(&job, VS_FRAME_LAYER, name));
        }
        lives(&job, i + 1, stack);
    }
    job_close(&job);
    for (size_t i = 0; i < n; i++) {
        const char *layer = cases[i].frames[0] == NODE && cases[i].layer ? "model.layers.2" : cases[i].layer;
        snprintf(sql, sizeof sql, "SELECT line IS %s%s%s FROM leak WHERE size_bytes=%zu",
                 cases[i].line ? "'" : "", cases[i].line ? cases[i].line : "NULL", cases[i].line ? "'" : "",
                 i + 1);
        assert_int_equal(ask(job.db, sql), 1);
        snprintf(sql, sizeof sql, "SELECT layer IS %s%s%s FROM allocation WHERE size_bytes=%zu",
                 layer ? "'" : "", layer ? layer : "NULL", layer ? "'" : "", i + 1);
        assert_int_equal(ask(job.db, sql), 1);
    }
}

TEST(line_is_the_innermost_outside_of_torch_and_its_caller_the_programs_own)
{
    enum { NONE, OWN, PACKAGE };
    static const struct {
        const char *file;
        int is;
    } files[] = {
        {"/home/ada/train.py", OWN},
        {"/usr/lib/python3.12/threading.py", NONE},
        {"/venv/lib/python3.12/site-packages/transformers/trainer.py", PACKAGE},
        {"/venv/lib/python3.12/site-packages/torch/nn/modules/linear.py", NONE},
        {"/usr/lib/python3/dist-packages/model/layers.py", PACKAGE},
        {"/venv/bin/accelerate", NONE},
        {"/src/pytorch/torch/nn/modules/linear.py", NONE},
        {"/home/ada/torch/train.py", OWN},
        {"/opt/lib/torch/torch/_compile.py", NONE},
        {"/home/ada/torch/__main__.py", OWN},
        {"/home/ada/torch/utils/__init__.py", OWN},
        {"/usr/lib/python3/dist-packages/torch/nn/functional.py", NONE},
        {"/tmp/torchinductor_ada/xy/cxy.py", NONE},
        {"/tmp/torch_geometric.nn.conv.gcn_conv_GCNConv_propagate_rbsc0fye.py", NONE},
        {"/home/ada/torch_geometric/train.py", OWN},
        {"/venv/lib/python3.12/site-packages/vramscope/share/vramscope/python/vramscope/_torch.py", NONE},
        {"/src/shim/framework/python/vramscope/_torch.py", NONE},
        {"/home/ada/python/vramscope/train.py", OWN},
        {"<frozen runpy>", NONE},
        {"<ipython-input-3-4f2a>", OWN},
        {"<stdin>", OWN}};
    struct job job;
    job_open(&job, "line");
    uint32_t stack = 0;
    char sql[256];
    size_t n = sizeof files / sizeof *files;
    for (size_t i = 0; i < n; i++) {
        stack = vs_journal_stack(job.j, stack, python_frame(&job, files[i].file, (uint32_t)i + 1, "f"));
        lives(&job, i + 1, stack);
    }
    uint32_t alone = vs_journal_stack(job.j, 0, python_frame(&job, files[1].file, 0, "g"));
    lives(&job, 99, vs_journal_stack(job.j, alone, vs_journal_frame(job.j, 5, 0)));
    job_close(&job);
    for (size_t i = 0, own = 0, line = 0; i < n; i++) {
        char by[160] = "";
        own = files[i].is == OWN ? i : own;
        line = files[i].is == NONE ? line : i;
        if (own != line)
            snprintf(by, sizeof by, "%s:%zu > ", files[own].file, own + 1);
        snprintf(sql, sizeof sql, "SELECT line='%s%s:%zu f' FROM leak WHERE size_bytes=%zu", by,
                 files[line].file, line + 1, i + 1);
        assert_int_equal(ask(job.db, sql), 1);
    }
    /* none of its own: the innermost; no line, no number */
    assert_int_equal(ask(job.db, "SELECT line='/usr/lib/python3.12/threading.py g' FROM allocation WHERE "
                                 "size_bytes=99"),
                     1);
    assert_int_equal(
        ask(job.db, "SELECT count(*) FROM frame WHERE kind=2 AND module IS NULL AND offset IS NULL"),
        (int)n + 1);
    assert_int_equal(ask(job.db, "SELECT line IS NULL FROM frame WHERE function='g'"), 1);
    assert_int_equal(ask(job.db, "SELECT count(*) FROM frame WHERE kind=1 AND offset=5"), 1);
}

/* Stacks of a program that calls packages, each innermost frame first: P the program, Q its module's forward,
 * I a notebook's cell, E einops, T transformers, W its module's forward, H a wrapper of modules', F torch, L
 * its module's forward, C torch's call of a module, M its other methods, S Python's library, B the script of
 * a package's command, N an autograd node. */
TEST(the_package_of_an_open_module_is_shown_and_wrappers_and_helpers_are_not)
{
    enum { ALONE = -1 };
    static const struct {
        const char *frames;
        int line, caller;                                   /* from 0 */
    } cases[] = {{"FEP", 1, 2},        {"EP", 0, 1},        /* no module: the innermost outside of torch */
                 {"FSTSTP", 2, 5},                          /* optimizer.step() in a trainer of a package */
                 {"MTMTP", 1, 4},                           /* PreTrainedModel.to, by the program */
                 {"FWCP", 1, 3},                            /* a package's module that the program calls */
                 {"FWCI", 1, 3},                            /* from a notebook */
                 {"FTWCTWCP", 1, 7},                        /* its package's innermost */
                 {"FEWCP", 2, 4},                           /* a helper of it */
                 {"TEWCP", 0, 4},                           /* which it calls back */
                 {"FECQCP", 3, ALONE},                      /* of the program's module */
                 {"FPCWCP", 1, ALONE},                      /* the program's module inside of a package's */
                 {"LCWCP", 2, 4},                           /* torch's own module inside of it */
                 {"LHCWCP", 3, 5},                          /* with a wrapper around it */
                 {"FWHCP", 1, 4},                           /* and one around the package's */
                 {"FHCP", 1, 3},                            /* whose own request it is */
                 {"FTB", 1, ALONE},    {"FETTB", 1, ALONE}, /* a package that is a program */
                 {"FSTMS", 2, ALONE},  {"ENQCP", 2, ALONE}, /* a helper's backward: the forward's line */
                 {"FNEWCP", 3, 5},     {"FWCNWCP", 1, 6},   /* computed again */
                 {"FMS", 0, ALONE}};
    static const struct {
        char kind;
        const char *file, *function;
    } files[] = {{'P', "/a/train.py", "f"},
                 {'Q', "/a/net.py", "Net.forward"},
                 {'I', "/tmp/ipykernel_7/123.py", "<module>"},
                 {'W', "/v/lib/python3.12/site-packages/transformers/b.py", "make.<locals>.Mlp.forward"},
                 {'H', "/v/lib/python3.12/site-packages/accelerate/hooks.py", "add.<locals>.forward"},
                 {'L', "/v/lib/python3.12/site-packages/torch/nn/modules/linear.py", "Linear.forward"},
                 {'E', "/v/lib/python3.12/site-packages/einops/einops.py", "rearrange"},
                 {'T', "/v/lib/python3.12/site-packages/transformers/a.py", "g"},
                 {'F', "/v/lib/python3.12/site-packages/torch/nn/functional.py", "linear"},
                 {'C', "/v/lib/python3.12/site-packages/torch/nn/modules/module.py", "Module._call_impl"},
                 {'M', "/v/lib/python3.12/site-packages/torch/nn/modules/module.py", "Module.to"},
                 {'S', "/usr/lib/python3.12/contextlib.py", "inner"},
                 {'B', "/v/bin/accelerate", "<module>"}};
    size_t n = sizeof cases / sizeof *cases;
    char sql[256];
    struct job job;
    job_open(&job, "packages");
    for (size_t i = 0; i < n; i++) {
        uint32_t stack = 0;
        for (size_t at = strlen(cases[i].frames); at-- > 0;) {
            size_t k = 0;
            while (k < sizeof files / sizeof *files && files[k].kind != cases[i].frames[at])
                k++;
            stack = vs_journal_stack(
                job.j, stack,
                cases[i].frames[at] == 'N'
                    ? marking(&job, VS_FRAME_NODE, "AddmmBackward0")
                    : python_frame(&job, files[k].file, (uint32_t)at + 1, files[k].function));
        }
        lives(&job, i + 1, stack);
    }
    job_close(&job);
    for (size_t i = 0; i < n; i++) {
        char by[24] = "";
        if (cases[i].caller != ALONE)
            snprintf(by, sizeof by, "%%:%d > ", cases[i].caller + 1);
        snprintf(
            sql, sizeof sql,
            "SELECT line LIKE '%s%%:%d %%' AND (line LIKE '%% > %%') = %d FROM leak WHERE size_bytes=%zu", by,
            cases[i].line + 1, cases[i].caller != ALONE, i + 1);
        if (ask(job.db, sql) != 1)
            fail_msg("%s: another line than frame %d by %d", cases[i].frames, cases[i].line, cases[i].caller);
    }
}

int main(void)
{
    return run_all_tests(make_dir, drop_dir);
}
