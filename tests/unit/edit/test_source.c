/* test_source.c - what a line of Python asks for, as its file says: fp32, what it is given, or neither for
 * sure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "edit/source.h"

static const char module[] = "import torch\n"                                                     /* 1 */
                             "\n"                                                                 /* 2 */
                             "class Attention(nn.Module):\n"                                      /* 3 */
                             "    def forward(self, q, k, v, mask=None):\n"                       /* 4 */
                             "        scores = torch.matmul(q, k)\n"                              /* 5 */
                             "        # wide: in fp32\n"                                          /* 6 */
                             "        p = F.softmax(scores, dim=-1, dtype=torch.float32).to(q)\n" /* 7 */
                             "        r = F.softmax(\n"                                           /* 8 */
                             "            scores,\n"                                              /* 9 */
                             "            dim=-1,\n"                                              /* 10 */
                             "            dtype=torch.float32,\n"                                 /* 11 */
                             "        )\n"                                                        /* 12 */
                             "        s = F.softmax(scores.float(), -1).type_as(scores)\n"        /* 13 */
                             "        t = F.softmax(x, -1, dtype=torch.float32 if w else None)\n" /* 14 */
                             "        u = F.softmax(scores, dim=-1)\n"                            /* 15 */
                             "        return p\n"                                                 /* 16 */
                             "\n"                                                                 /* 17 */
                             "def eager(module, query, key, value, scale: float, mask=None):\n"   /* 18 */
                             "    scores = torch.matmul(query, key) * module.scaling\n"           /* 19 */
                             "    weights = nn.functional.softmax(scores, dim=-1)\n"              /* 20 */
                             "    out = weights.float()\n"                                        /* 21 */
                             "    return out\n"                                                   /* 22 */
                             "\n"                                                                 /* 23 */
                             "def other(\n"                                                       /* 24 */
                             "    scores,\n"                                                      /* 25 */
                             "):\n"                                                               /* 26 */
                             "    return F.softmax(scores, dim=-1)\n"                             /* 27 */
                             "\n"                                                                 /* 28 */
                             "p = F.softmax(x, dim=-1, dtype=torch.float32)\n"                    /* 29 */
                             "def wide(\n"                                                        /* 30 */
                             "    scores,\n"                                                      /* 31 */
                             ") -> torch.Tensor:\n"                                               /* 32 */
                             "    return F.softmax(scores, dim=-1, dtype=torch.float32)";         /* 33 */

static void a_statement_that_asks_for_fp32_says_so(void **state)
{
    (void)state;
    assert_int_equal(source_says(module, 7, "Attention.forward"), SOURCE_FP32);
    assert_int_equal(source_says(module, 8, "Attention.forward"), SOURCE_FP32);
    assert_int_equal(source_says(module, 13, "Attention.forward"), SOURCE_FP32);
    assert_int_equal(source_says(module, 33, "wide"), SOURCE_FP32);
}

/* Line 21 is behind it. */
static void a_function_that_names_no_other_type_takes_what_it_makes(void **state)
{
    (void)state;
    assert_int_equal(source_says(module, 20, "eager"), SOURCE_AS_GIVEN);
}

static void scores_of_queries_in_fp32_are_in_fp32(void **state)
{
    (void)state;
#define ATTENTION(statement, more)                                                                           \
    "def _attn(self, query, key):\n\n    # in fp32\n    mask = self.mask\n" statement                        \
    "    scores = torch.matmul(query, key) / 8\n" more "    return F.softmax(scores, dim=-1)\n"
    assert_int_equal(source_says(ATTENTION("    query = query.to(torch.float32)\n", ""), 7, "A._attn"),
                     SOURCE_FP32_SCORES);
    assert_int_equal(source_says(ATTENTION("    query = query.float()\n", ""), 7, "A._attn"),
                     SOURCE_FP32_SCORES);
    /* other than what the product is of; where a condition stands before it; and behind the product */
    assert_int_equal(source_says(ATTENTION("    value = value.float()\n", ""), 7, "A._attn"), SOURCE_UNKNOWN);
    assert_int_equal(source_says(ATTENTION("    if w:\n        query = query.float()\n", ""), 8, "A._attn"),
                     SOURCE_UNKNOWN);
    assert_int_equal(source_says(ATTENTION("", "    query = query.float()\n"), 7, "A._attn"), SOURCE_UNKNOWN);
    assert_int_equal(source_says(ATTENTION("", ""), 6, "A._attn"), SOURCE_AS_GIVEN);
}

static void the_type_of_another_tensor_is_no_wider_one(void **state)
{
    (void)state;
    static const char *const keep[] = {"scale.to(dtype=query.dtype)", "torch.finfo(query.dtype).min",
                                       "mask.to(scores.device)", "torch.full([], x, dtype=scores.dtype)"},
                             *const leave[] = {"scale.to(dtype)", "scores.to(w)",
                                               "torch.zeros(1, dtype=dtype)", "scores.to(torch.float64)",
                                               "scores.type(t)"};
    for (size_t i = 0; i < sizeof keep / sizeof *keep + sizeof leave / sizeof *leave; i++) {
        bool good = i < sizeof keep / sizeof *keep;
        char text[400];
        snprintf(text, sizeof text, ATTENTION("", "    s = %s\n"),
                 good ? keep[i] : leave[i - sizeof keep / sizeof *keep]);
        assert_int_equal(source_says(text, 7, "A._attn"), good ? SOURCE_AS_GIVEN : SOURCE_UNKNOWN);
    }
}

static void what_could_be_otherwise_is_not_known(void **state)
{
    (void)state;
    assert_int_equal(source_says(module, 14, "Attention.forward"), SOURCE_UNKNOWN); /* a condition */
    assert_int_equal(source_says(module, 15, "Attention.forward"), SOURCE_UNKNOWN); /* fp32 is named before */
    assert_int_equal(source_says(module, 27, "other"), SOURCE_UNKNOWN); /* its scores were made elsewhere */
    assert_int_equal(source_says(module, 29, "wide"), SOURCE_UNKNOWN);  /* in no function */
    assert_int_equal(source_says(module, 7, "Attention.backward"), SOURCE_UNKNOWN);
    assert_int_equal(source_says(module, 20, "Attention.forward"), SOURCE_UNKNOWN); /* another file by now */
    assert_int_equal(source_says(module, 0, "eager"), SOURCE_UNKNOWN);
    assert_int_equal(source_says(module, 99, "eager"), SOURCE_UNKNOWN);
    assert_int_equal(source_says("", 1, ""), SOURCE_UNKNOWN);
}

static void a_file_that_is_younger_than_the_recording_may_be_another(void **state)
{
    (void)state;
    char path[] = "/tmp/vramscope-source-XXXXXX.py";
    int fd = mkstemps(path, 3);
    struct stat st;
    assert_int_equal(write(fd, module, sizeof module - 1), sizeof module - 1);
    assert_int_equal(fstat(fd, &st), 0);
    close(fd);
    struct sources later = {.before_ns = ((int64_t)st.st_mtim.tv_sec + 1) * INT64_C(1000000000)},
                   before = {.before_ns = ((int64_t)st.st_mtim.tv_sec - 1) * INT64_C(1000000000)};
    assert_int_equal(sources_say(&later, path, 7, "Attention.forward"), SOURCE_FP32);
    assert_int_equal(sources_say(&before, path, 7, "Attention.forward"), SOURCE_UNKNOWN);
    unlink(path);
    assert_int_equal(sources_say(&later, path, 20, "eager"), SOURCE_AS_GIVEN); /* read once */
    assert_int_equal(later.n, 1);
    assert_int_equal(sources_say(&later, "/nowhere/x.py", 1, "f"), SOURCE_UNKNOWN);
    assert_int_equal(sources_say(&later, "/dev/zero", 1, "f"), SOURCE_UNKNOWN);
    sources_free(&later);
    sources_free(&before);
}

#define SAYS_LOSS(statement)                                                                                 \
    source_says_of_loss("def step(net, x, y):\n    out = net(x)\n    " statement, 3, "Trainer.step",         \
                        "cross_entropy")

static void a_loss_that_is_given_fp32_by_its_own_line_says_so(void **state)
{
    (void)state;
    assert_int_equal(SAYS_LOSS("loss = F.cross_entropy(out.flatten(0, -2).float(), y)\n"), SOURCE_FP32);
    assert_int_equal(SAYS_LOSS("return criterion(out.float().view(-1, n), y.view(-1))\n"), SOURCE_FP32);
    assert_int_equal(SAYS_LOSS("total += self.loss_fn(input=out.to(torch.float32), target=y)\n"),
                     SOURCE_FP32);
    assert_int_equal(SAYS_LOSS("F.cross_entropy(\n        net(x)[0].to(dtype=torch.float32),\n        y)\n"),
                     SOURCE_FP32);
    assert_int_equal(SAYS_LOSS("losses.append(F.cross_entropy(net(x).float(), y).item())\n"), SOURCE_FP32);
    assert_int_equal(
        source_says_of_loss("loss = F.cross_entropy(out.float(), y)", 1, "<module>", "cross_entropy"),
        SOURCE_FP32);
}

static void a_loss_of_two_alike_is_in_fp32_where_both_are_given_so(void **state)
{
    (void)state;
    const char *both = "loss = F.mse_loss(out.float(), y.float(), reduction=r)\n",
               *target = "loss = F.mse_loss(y.float(), out)\n", *one = "loss = F.mse_loss(out.float())\n";
    assert_int_equal(source_says_of_loss(both, 1, "<module>", "mse_loss"), SOURCE_FP32);
    assert_int_equal(source_says_of_loss(target, 1, "<module>", "mse_loss"), SOURCE_UNKNOWN);
    assert_int_equal(source_says_of_loss(one, 1, "<module>", "mse_loss"), SOURCE_UNKNOWN);
    assert_int_equal(source_says_of_loss("F.mse_loss(out.float()", 1, "<module>", "mse_loss"),
                     SOURCE_UNKNOWN);
    assert_int_equal(source_says_of_loss("F.mse_loss(out.float(),", 1, "<module>", "mse_loss"),
                     SOURCE_UNKNOWN);
}

static void what_else_of_a_loss_s_line_is_fp32_says_nothing(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "F.cross_entropy(out, y)\n",                   /* the model may have made it fp32 */
        "F.cross_entropy(out, y, weight=w.float())\n", /* another argument */
        "F.cross_entropy(net.float()(x), y)\n",        /* the model, whose parameters are fp32 then */
        "F.cross_entropy(out.float().view(torch.bfloat16), y)\n",    /* what it is then is open */
        "F.cross_entropy(out, y).float()\n",                         /* the result */
        "F.cross_entropy(net(x.float()), y)\n",                      /* what the model is given */
        "F.cross_entropy(out.float().half(), y)\n",                  /* made narrow again */
        "F.cross_entropy(out.float().to(out.dtype), y)\n",           /* likewise */
        "F.cross_entropy(out.float() if w else out, y)\n",           /* under a condition */
        "F.cross_entropy(out.float(), y) if w else 0\n",             /* likewise */
        "F.cross_entropy(target=y.float(), input=out)\n",            /* by name */
        "F.cross_entropy(out.float(), y) + F.cross_entropy(z, y)\n", /* one of two */
        "F.cross_entropy(out * t.float(), y)\n",                     /* a sum or a product */
        "F.cross_entropy(re(out, 'a.float()').float(), y)\n",        /* a string */
        "F.cross_entropy(out, # .float()\n y)\n",                    /* a comment */
        "compute(out.float(), y)\n",                                 /* not known to be the loss */
        "scale_loss(self.ce(out, y).float())\n",                     /* of the loss: it has no target */
        "nn.CrossEntropyLoss()(out.float(), y)\n",                   /* a class makes the loss */
        "nn.CrossEntropyLoss(w.float(), -1)(out, y)\n",              /* likewise: of the weights */
        "nn.CrossEntropyLoss(w.float(), -1).to(d)(out, y)\n"};       /* likewise */
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char text[256];
        snprintf(text, sizeof text, "def step(net, x, y):\n    out = net(x)\n    %s", lines[i]);
        if (source_says_of_loss(text, 3, "step", "cross_entropy") != SOURCE_UNKNOWN)
            fail_msg("%s", lines[i]);
    }
    assert_int_equal(source_says_of_loss("", 1, "step", "cross_entropy"), SOURCE_UNKNOWN);
    assert_int_equal(source_says_of_loss("F.cross_entropy(", 1, "step", "cross_entropy"), SOURCE_UNKNOWN);
    assert_int_equal(source_says_of_loss("\n\n", 7, "step", "cross_entropy"), SOURCE_UNKNOWN);
}

/* BEFORE stands before the loss's line, in its function. */
static enum source_says named(const char *before)
{
    char text[512];
    int64_t line = 3;
    snprintf(text, sizeof text,
             "def step(net, x, y):\n    net.train()\n%s    loss = F.cross_entropy(out.view(-1, n), y)\n",
             before);
    for (const char *at = before; (at = strchr(at, '\n')); at++)
        line++;
    return source_says_of_loss(text, line, "step", "cross_entropy");
}

static void logits_that_the_function_made_fp32_before_are_in_fp32(void **state)
{
    (void)state;
    assert_int_equal(named("    out = net(x).float()\n"), SOURCE_FP32);
    assert_int_equal(named("    out = net(x)\n    out = out[0].to(torch.float32)\n\n    # why\n    z = 1\n"),
                     SOURCE_FP32);
    assert_int_equal(named("    out = net(\n        x,\n    ).float()\n"), SOURCE_FP32);
    /* something else made it since, or may have */
    assert_int_equal(named("    out = out.float()\n    out = net(x)\n"), SOURCE_UNKNOWN);
    assert_int_equal(named("    out = net(x).float()\n    out, z = net(x)\n"), SOURCE_UNKNOWN);
    assert_int_equal(named("    out = net(x).float()\n    out *= w\n"), SOURCE_UNKNOWN);
    assert_int_equal(named("    out = net(x).float()\n    for out in z:\n        pass\n"), SOURCE_UNKNOWN);
    assert_int_equal(named("    out = net(x).float()\n    if w:\n        out = net(x)\n"), SOURCE_UNKNOWN);
    assert_int_equal(named("    if w:\n        out = net(x).float()\n"), SOURCE_UNKNOWN);
    assert_int_equal(named("    if w:\n        out = net(x).float()\n    else:\n        pass\n"),
                     SOURCE_UNKNOWN);
    assert_int_equal(named("    out = net(x).float()\n    with w:\n        z = 1\n"), SOURCE_FP32);
    assert_int_equal(source_says_of_loss("def step(net, x, y):\n    out = net(x).float()\n    for z in y:\n"
                                         "        F.cross_entropy(out, z)\n        out = net(x)\n",
                                         4, "step", "cross_entropy"),
                     SOURCE_UNKNOWN);
    assert_int_equal(named("    if w: out = net(x).float()\n"), SOURCE_UNKNOWN);
    assert_int_equal(named("    out = net.float()(x)\n"), SOURCE_UNKNOWN);
    assert_int_equal(
        source_says_of_loss("def step(x, y):\n    net = Net().float()\n    F.cross_entropy(net(x), y)\n", 3,
                            "step", "cross_entropy"),
        SOURCE_UNKNOWN);
    assert_int_equal(source_says_of_loss("def step(x, y):\n    net = Net().float()\n"
                                         "    F.cross_entropy(net.forward(x), y)\n",
                                         3, "step", "cross_entropy"),
                     SOURCE_UNKNOWN);
    assert_int_equal(named("    z.out = net(x).float()\n"), SOURCE_UNKNOWN);
}

/* Where a change of the name is easily overlooked. */
static void logits_that_are_made_anew_in_passing_are_not_known(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "    z = out = net(x)\n",             /* behind another name */
        "    z = 1; out = net(x)\n",          /* behind another statement */
        "    z, \\\n        out = net(x)\n",  /* in a line that goes on */
        "    print('(')\n    out = net(x)\n", /* behind a string that seems to open a parenthesis */
        "    print('#')\n    out = net(x)\n", /* behind one that seems to hide where it is closed */
        "    print('(')\n    out = net(x)\n    print(')')\n    z = 1\n"};
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char text[256];
        snprintf(text, sizeof text, "    out = net(x).float()\n%s", lines[i]);
        if (named(text) != SOURCE_UNKNOWN)
            fail_msg("%s", lines[i]);
    }
    assert_int_equal(named("    out = net(x).float()\n    print('step', out)\n"), SOURCE_FP32);
    assert_int_equal(named("    out = net(x).float()\n    print('step',\n          x)\n"), SOURCE_FP32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_statement_that_asks_for_fp32_says_so),
        cmocka_unit_test(a_loss_that_is_given_fp32_by_its_own_line_says_so),
        cmocka_unit_test(a_loss_of_two_alike_is_in_fp32_where_both_are_given_so),
        cmocka_unit_test(what_else_of_a_loss_s_line_is_fp32_says_nothing),
        cmocka_unit_test(logits_that_the_function_made_fp32_before_are_in_fp32),
        cmocka_unit_test(logits_that_are_made_anew_in_passing_are_not_known),
        cmocka_unit_test(a_function_that_names_no_other_type_takes_what_it_makes),
        cmocka_unit_test(scores_of_queries_in_fp32_are_in_fp32),
        cmocka_unit_test(the_type_of_another_tensor_is_no_wider_one),
        cmocka_unit_test(what_could_be_otherwise_is_not_known),
        cmocka_unit_test(a_file_that_is_younger_than_the_recording_may_be_another),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
