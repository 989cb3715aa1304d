/* test_frames_text.c - places in code as reports show them. */

#include "unit/test.h"
#include "show/report/stack.h"
#include "trace/journal/journal.h"
#include "read/stacks.h"

/* what needs a database is not asked here */
int trace_stack(struct trace *t, int64_t id, struct trace_frame **out, size_t *n)
{
    return -1;
}

const char *trace_line(struct trace *t, int64_t stack)
{
    return NULL;
}

static void expect(char *text, const char *want)
{
    assert_string_equal(text, want);
    free(text);
}

TEST(a_python_frame_is_file_line_and_function_and_packages_are_cut)
{
    struct trace_frame f = {.kind = VS_FRAME_PYTHON,
                            .file = "/home/ada/train.py",
                            .function = "main",
                            .line = 41,
                            .offset = UNKNOWN};
    expect(frame_text(&f, true), "/home/ada/train.py:41 main");
    f.file = "/v/lib/python3.12/site-packages/torch/nn/modules/linear.py";
    f.function = "Linear.forward";
    expect(frame_text(&f, true), "torch/nn/modules/linear.py:41 Linear.forward");
    f.file = "<stdin>";
    f.line = UNKNOWN;
    expect(frame_text(&f, true), "<stdin> Linear.forward");
    f.file = "/home/\033[2J.py"; /* a name as data */
    expect(frame_text(&f, true), "/home/\\x1b[2J.py Linear.forward");
}

TEST(a_native_frame_has_its_module_or_its_offset)
{
    struct trace_frame f = {.kind = VS_FRAME_ADDRESS,
                            .module = "/usr/lib/libtorch.so",
                            .function = "at::empty",
                            .offset = 0x91,
                            .line = UNKNOWN};
    expect(frame_text(&f, true), "at::empty  (libtorch.so)");
    f.file = "empty.cpp";
    f.line = 7;
    expect(frame_text(&f, true), "at::empty  (libtorch.so)  empty.cpp:7");
    expect(frame_text(&f, false), "at::empty  (libtorch.so)");
    f.function = NULL;
    expect(frame_text(&f, false), "libtorch.so+0x91");
}

TEST(what_is_no_code_is_said_to_be_none)
{
    struct trace_frame f = {
        .kind = VS_FRAME_NODE, .function = "AddmmBackward0", .line = UNKNOWN, .offset = UNKNOWN};
    expect(frame_text(&f, true), "backward: AddmmBackward0");
    f.kind = VS_FRAME_LAYER;
    f.function = "Llama.layers.7.mlp";
    expect(frame_text(&f, true), "in Llama.layers.7.mlp");
    f.file = "LlamaMLP";
    expect(frame_text(&f, false), "in Llama.layers.7.mlp (LlamaMLP)");
}

TEST(a_line_in_a_table_has_the_files_name_alone)
{
    expect(line_text("/home/ada/train.py:41 main"), "train.py:41 main");
    expect(line_text("/home/ada/model/__init__.py:3 f"), "model/__init__.py:3 f");
    expect(line_text("__init__.py:3 f"), "__init__.py:3 f");
    expect(line_text("/my runs/a b.py:41 C.f"), "a b.py:41 C.f");
    expect(line_text("<stdin>:1 <module>"), "<stdin>:1 <module>");
    expect(line_text("forward: /home/ada/train.py:41 main"), "forward: train.py:41 main");
    expect(line_text("forward: /home/ada/model/__init__.py:3 f"), "forward: model/__init__.py:3 f");
    expect(line_text("AddmmBackward0"), "AddmmBackward0");
    expect(line_text("/tmp/ipykernel_9/12.cell:2 g</x>"), "12.cell:2 g</x>");
}
