/*
 * test_stack_text.c - call stacks as people read them: which frames are left out, and that something is
 * always left.
 */

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

#define CPU "/v/torch/lib/libtorch_cpu.so"
#define N(module_, function_)                                                                                \
    {                                                                                                        \
        .kind = VS_FRAME_ADDRESS, .module = module_, .function = function_, .offset = 0x91, .line = UNKNOWN  \
    }
#define P(file_, line_, function_)                                                                           \
    {                                                                                                        \
        .kind = VS_FRAME_PYTHON, .file = file_, .function = function_, .line = line_, .offset = UNKNOWN      \
    }

static const struct trace_frame log_softmax[] = {
    N("/v/libc10_cuda.so",
      "c10::cuda::CUDACachingAllocator::Native::NativeCachingAllocator::allocate(unsigned long)"),
    N(CPU, "at::detail::empty_generic(c10::ArrayRef<long>, c10::Allocator*)"),
    N(CPU, "at::(anonymous namespace)::create_out(c10::ArrayRef<long>)"),
    N(CPU, "at::(anonymous namespace)::structured_log_softmax_cuda_out_functional::set_output_raw_strided("
           "long)"),
    N(CPU, "at::meta::structured__log_softmax::meta(at::Tensor const&, long, bool)"),
    N(CPU, "c10::impl::wrap_kernel_functor_unboxed_<c10::impl::detail::WrapFunctionIntoFunctor_<at::Ten..."),
    N(CPU, "at::_ops::_log_softmax::redispatch(c10::DispatchKeySet, at::Tensor const&, long, bool)"),
    N(CPU, "torch::autograd::VariableType::(anonymous namespace)::_log_softmax(c10::DispatchKeySet)"),
    N(CPU, "at::_ops::_log_softmax::call(at::Tensor const&, long, bool)"),
    N(CPU, "at::native::log_softmax(at::Tensor const&, long, std::optional<c10::ScalarType>)"),
    N(CPU, "at::_ops::log_softmax_int::call(at::Tensor const&, long, std::optional<c10::ScalarType>)"),
    N("/v/libtorch_python.so", "torch::autograd::THPVariable_log_softmax(_object*, _object*, _object*)"),
    N("/usr/bin/python3.12", NULL),
    N("/usr/bin/python3.12", "_PyObject_MakeTpCall"),
    P("/v/site-packages/torch/nn/modules/module.py", 1790, "Module._call_impl"),
    P("/opt/share/vramscope/python/vramscope/_torch.py", 193, "_wrap_call.<locals>.__call__"),
    P("/home/ada/train.py", 37, "train"),
    N("/usr/bin/python3.12", "Py_RunMain"),
    N("/usr/lib/libc.so.6", NULL),
    N("/usr/lib/libc.so.6", "__libc_start_main"),
    N("/usr/bin/python3.12", "_start"),
};

static void expect(const struct trace_frame *frames, size_t n, size_t hidden, const char *const *want)
{
    struct stack_lines s = stack_lines_of(frames, n, false);
    size_t i = 0;
    for (; want[i]; i++) {
        assert_true(i < s.count);
        assert_string_equal(s.line[i], want[i]);
    }
    assert_int_equal(s.count, i);
    assert_int_equal(s.hidden, hidden);
    stack_lines_free(&s);
}
#define EXPECT(frames, hidden, ...)                                                                          \
    expect(frames, sizeof frames / sizeof *frames, hidden, (const char *const[]){__VA_ARGS__, NULL})

TEST(of_a_pytorch_stack_the_operators_and_the_programs_lines_are_left)
{
    EXPECT(log_softmax, 18, "at::_log_softmax  (libtorch_cpu.so)", "at::log_softmax_int  (libtorch_cpu.so)",
           "/home/ada/train.py:37 train");
}

TEST(full_shows_every_frame_with_its_whole_name)
{
    size_t n = sizeof log_softmax / sizeof *log_softmax;
    struct stack_lines s = stack_lines_of(log_softmax, n, true);
    assert_int_equal(s.count, n);
    assert_int_equal(s.hidden, 0);
    assert_string_equal(s.line[7], "torch::autograd::VariableType::(anonymous "
                                   "namespace)::_log_softmax(c10::DispatchKeySet)  (libtorch_cpu.so)");
    assert_string_equal(s.line[12], "python3.12+0x91");
    stack_lines_free(&s);
}

TEST(a_node_of_backward_is_known_by_its_class)
{
    static const struct trace_frame frames[] = {
        N(CPU, "at::_ops::mm::call(at::Tensor const&, at::Tensor const&)"),
        N(CPU, "torch::autograd::generated::AddmmBackward0_apply_functional(std::vector<at::Tensor>&&)"),
        N(CPU, "torch::autograd::generated::AddmmBackward0::apply(std::vector<at::Tensor>&&)"),
        N(CPU, "torch::autograd::Node::operator()(std::vector<at::Tensor>&&)"),
        N(CPU, "torch::autograd::Engine::thread_main(std::shared_ptr<torch::autograd::GraphTask> const&)"),
        N("/usr/lib/libstdc++.so.6", NULL),
        N("/usr/lib/libc.so.6", NULL),
    };
    EXPECT(frames, 5, "at::mm  (libtorch_cpu.so)", "AddmmBackward0  (libtorch_cpu.so)");
    static const struct trace_frame made[] = {
        /* under the node lies the forward that made it */
        N(CPU, "at::_ops::mm::call(at::Tensor const&, at::Tensor const&)"),
        N(CPU, "torch::autograd::generated::AddmmBackward0::apply(std::vector<at::Tensor>&&)"),
        N("/usr/lib/libstdc++.so.6", NULL),
        N("/usr/lib/libc.so.6", "start_thread"),
        {.kind = VS_FRAME_NODE, .function = "AddmmBackward0", .offset = UNKNOWN, .line = UNKNOWN},
        P("/home/ada/model.py", 7, "Model.forward"),
    };
    EXPECT(made, 3, "at::mm  (libtorch_cpu.so)", "backward: AddmmBackward0",
           "/home/ada/model.py:7 Model.forward");
}

/* What makes room is shown where it is all that the program asked for. */
TEST(an_allocation_by_name_stays)
{
    static const struct trace_frame empty[] = {
        N(CPU, "at::detail::empty_generic(c10::ArrayRef<long>)"),
        N(CPU, "at::_ops::empty_memory_format::redispatch(c10::DispatchKeySet)"),
        N(CPU, "at::_ops::empty_memory_format::call(c10::ArrayRef<c10::SymInt>)"),
        P("/home/ada/train.py", 5, "<module>"),
    };
    static const struct trace_frame zeros[] = {
        N(CPU, "at::_ops::empty_memory_format::call(c10::ArrayRef<c10::SymInt>)"),
        N(CPU, "at::native::zeros(c10::ArrayRef<long>)"),
        N(CPU, "at::_ops::zeros::call(c10::ArrayRef<c10::SymInt>)"),
    };
    static const struct trace_frame allocator[] = {
        N("/v/libc10_cuda.so", "c10::cuda::CUDACachingAllocator::Native::alloc(unsigned long)"),
        N("/usr/lib/libc.so.6", NULL),
    };
    static const struct trace_frame nameless[] = {
        N(CPU, "at::native::empty_cuda(c10::ArrayRef<long>)"),
        N(CPU, "at::empty(c10::ArrayRef<long>)"),
        N("/usr/bin/python3.12", "_PyEval_EvalFrameDefault"),
    };
    EXPECT(nameless, 1, "at::empty  (libtorch_cpu.so)", "_PyEval_EvalFrameDefault  (python3.12)");
    EXPECT(empty, 2, "at::empty_memory_format  (libtorch_cpu.so)", "/home/ada/train.py:5 <module>");
    EXPECT(zeros, 2, "at::zeros  (libtorch_cpu.so)");
    EXPECT(allocator, 0, "c10::cuda::CUDACachingAllocator::Native::alloc  (libc10_cuda.so)",
           "libc.so.6+0x91");
}

/* A program of which nothing is known keeps all but the start of its threads. */
TEST(a_program_of_ones_own_keeps_its_frames)
{
    static struct trace_frame frames[] = {
        N("/home/ada/trainer", "allocate"),
        N("/home/ada/trainer", "descend"),
        N("/home/ada/trainer", "descend"),
        N("/usr/lib/libc.so.6", "qsort"),
        N("/home/ada/trainer", "wrapper<float>::empty_like(int)"),
        N("/home/ada/trainer", NULL),
        N("/home/ada/trainer", "main"),
        N("/usr/lib/libc.so.6", "__libc_start_main"),
        N("/home/ada/trainer", "_start"),
    };
    frames[0].file = "/home/ada/trainer.c";
    frames[0].line = 12;
    EXPECT(frames, 2, "allocate  (trainer)  /home/ada/trainer.c:12", "descend ×2  (trainer)",
           "qsort  (libc.so.6)", "wrapper::empty_like  (trainer)", "trainer+0x91", "main  (trainer)");
    char *place = stack_place(frames, 1), *caller = stack_place(frames, 3),
         *same = stack_place(frames + 1, 2);
    assert_string_equal(place, "trainer.c:12 allocate");
    assert_string_equal(caller, "descend → allocate  (trainer)");
    assert_string_equal(same, "descend  (trainer)");
    static const struct trace_frame layer[] = {
        {.kind = VS_FRAME_LAYER, .function = "logits", .offset = UNKNOWN, .line = UNKNOWN},
        N("/home/ada/trainer", "descend"),
    };
    char *code = stack_place(layer, 2);
    assert_string_equal(code, "descend  (trainer)"); /* the layer is where it runs, and no code */
    assert_null(stack_place(layer, 1));
    free(code);
    free(place);
    free(caller);
    free(same);
    assert_null(stack_place(frames, 0));
}

TEST(frames_that_nobody_named_share_a_line)
{
    static const struct trace_frame frames[] = {
        N("/v/libcudart.so.13", "cudaMalloc"),
        N("/v/libcublasLt.so.13", NULL),
        N("/v/libcublasLt.so.13", NULL),
        N("/v/libcublasLt.so.13", NULL),
        N("/v/libcublas.so.13", NULL),
        N("/v/libcublas.so.13", "cublasCreate_v2"),
        N(NULL, NULL),
    };
    EXPECT(frames, 0, "cudaMalloc  (libcudart.so.13)", "libcublasLt.so.13+0x91, and 2 more",
           "libcublas.so.13+0x91", "cublasCreate_v2  (libcublas.so.13)", "?+0x91");
}

/* Without lines of Python its own frames are all that is known of the program. */
TEST(the_interpreter_stays_where_there_is_no_line_of_python)
{
    static const struct trace_frame frames[] = {
        N("/usr/lib/libpython3.11.so.1.0", "_PyEval_EvalFrameDefault"),
        N("/usr/lib/libpython3.11.so.1.0", "Py_RunMain"),
        N("/usr/lib/libc.so.6", NULL),
    };
    EXPECT(frames, 1, "_PyEval_EvalFrameDefault  (libpython3.11.so.1.0)",
           "Py_RunMain  (libpython3.11.so.1.0)");
    struct stack_lines none = stack_lines_of(frames, 0, false);
    assert_int_equal(none.count, 0);
    stack_lines_free(&none);
}

TEST(the_kernel_that_is_launched_is_named)
{
    static const struct trace_frame frames[] = {
        N("/v/libtorch_cuda.so", "__device_stub__ZN2at6native6reduceIfEEvi"),
        N("/v/libtorch_cuda.so", "__device_stub__"),
    };
    EXPECT(frames, 0, "launch of at::native::reduce  (libtorch_cuda.so)",
           "__device_stub__  (libtorch_cuda.so)");
}
