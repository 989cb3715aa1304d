/* hidden.c - see stack.h. */
#include "stack.h"

#include <fnmatch.h>
#include <stddef.h>

static const struct {
    enum frame_use use;
    const char *name;
} by_name[] = {
    {FRAME_OPERATOR, "at::_ops::*::call"},

    {FRAME_ALLOCATOR, "c10::*Allocator::*"},
    {FRAME_ALLOCATOR, "torch::cuda::*Allocator::*"},
    {FRAME_ALLOCATOR, "c10::alloc_*"},
    {FRAME_ALLOCATOR, "c10::StorageImpl::*"},
    {FRAME_ALLOCATOR, "c10::make_storage_impl"},
    {FRAME_ALLOCATOR, "at::detail::empty_*"},
    {FRAME_ALLOCATOR, "at::native::empty_*"},
    {FRAME_ALLOCATOR, "at::native::resize_*_cuda*"},
    {FRAME_ALLOCATOR, "at::empty"},
    {FRAME_ALLOCATOR, "at::empty_*"},
    {FRAME_ALLOCATOR, "at::create_out"},
    {FRAME_ALLOCATOR, "at::*::set_output*"},
    {FRAME_ALLOCATOR, "at::TensorIterator*::*"},

    {FRAME_DISPATCHER, "c10::impl::*"},
    {FRAME_DISPATCHER, "c10::Dispatcher::*"},
    {FRAME_DISPATCHER, "c10::KernelFunction::*"},
    {FRAME_DISPATCHER, "c10::BoxedKernel::*"},
    {FRAME_DISPATCHER, "c10::*OperatorHandle::*"},
    {FRAME_DISPATCHER, "at::_ops::*::redispatch"},
    {FRAME_DISPATCHER, "at::wrapper_*"},
    {FRAME_DISPATCHER, "at::meta::*"},
    {FRAME_DISPATCHER, "at::autocast::WrapFunction_::call"},
    {FRAME_DISPATCHER, "torch::ADInplaceOrView::*"},
    {FRAME_DISPATCHER, "torch::autograd::VariableType::*"},
    {FRAME_DISPATCHER, "torch::autograd::autogradNotImplementedFallbackImpl*"},
    {FRAME_DISPATCHER, "torch::autograd::generated::*_apply_functional"},
    {FRAME_DISPATCHER, "torch::autograd::generated::details::*"},
    {FRAME_DISPATCHER, "torch::autograd::Node::operator()"},
    {FRAME_DISPATCHER, "torch::autograd::Engine::*"},
    {FRAME_DISPATCHER, "torch::autograd::python::PythonEngine::*"},
    {FRAME_DISPATCHER, "std::_Function_handler::*"},
    {FRAME_DISPATCHER, "std::function::operator()"},
    {FRAME_DISPATCHER, "std::__invoke*"},
    {FRAME_DISPATCHER, "std::invoke*"},

    {FRAME_INTERPRETER, "torch::autograd::THP*"},
    {FRAME_INTERPRETER, "THP*"},
    {FRAME_INTERPRETER, "torch::autograd::TypeError_to_NotImplemented_"},
    {FRAME_INTERPRETER, "torch::autograd::dispatch_*"},
    {FRAME_INTERPRETER, "pybind11::*"},

    {FRAME_START, "_start"},
    {FRAME_START, "__libc_start_*"},
    {FRAME_START, "start_thread"},
    {FRAME_START, "clone"},
    {FRAME_START, "clone3"},
    {FRAME_START, "__clone*"},
    {FRAME_START, "execute_native_thread_routine"},
};

static const struct {
    enum frame_use use;
    const char *module;
} by_module[] = {
    {FRAME_INTERPRETER, "python[0-9]*"}, {FRAME_INTERPRETER, "libpython[0-9]*.so*"},
    {FRAME_LIBC, "libc.so.*"},           {FRAME_LIBC, "libpthread.so.*"},
    {FRAME_LIBC, "libstdc++.so.*"},
};

/* Functions of PyTorch and vramscope that only pass a call on to a module or optimizer.  Names are qualified
 * from Python 3.11 on. */
static const struct {
    const char *file, *function;
} wrappers[] = {
    {"*/torch/nn/modules/module.py", "*_call_impl"},   {"*/torch/optim/optimizer.py", "*wrapper"},
    {"*/torch/optim/optimizer.py", "*_use_grad"},      {"*/torch/utils/_contextlib.py", "*decorate_context"},
    {"*/share/vramscope/python/vramscope/_*.py", "*"}, {"*/shim/framework/python/vramscope/_*.py", "*"},
    {"*/share/vramscope/python/vramscope_*.py", "*"}, /* of recordings before 0.2.0 */
};

bool frame_is_wrapper(const char *file, const char *function)
{
    for (size_t i = 0; file && function && i < sizeof wrappers / sizeof *wrappers; i++)
        if (!fnmatch(wrappers[i].file, file, 0) && !fnmatch(wrappers[i].function, function, 0))
            return true;
    return false;
}

enum frame_use frame_use(const char *name, const char *module)
{
    for (size_t i = 0; name && i < sizeof by_name / sizeof *by_name; i++)
        if (fnmatch(by_name[i].name, name, 0) == 0)
            return by_name[i].use;
    for (size_t i = 0; module && i < sizeof by_module / sizeof *by_module; i++)
        if (fnmatch(by_module[i].module, module, 0) == 0)
            return by_module[i].use;
    return FRAME_TELLS;
}
