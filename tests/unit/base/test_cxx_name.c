/* test_cxx_name.c - the names of C++ functions, cut down for people. */

#include "unit/test.h"
#include "base/shown.h"

static void expect(const char *name, const char *want)
{
    char *got = cxx_name(name);
    assert_string_equal(got, want);
    free(got);
}

TEST(parameters_templates_and_return_types_go)
{
    expect("at::Tensor& at::native::fill<float, 4>(at::Tensor&, long) const", "at::native::fill");
    expect("std::vector<at::Tensor, std::allocator<at::Tensor> > at::native::foreach_unary_op<float, "
           "at::native::Sqrt>(c10::ArrayRef<at::Tensor>)",
           "at::native::foreach_unary_op");
    expect("unsigned long f<(E)0>(int (*)(char const*), T[4])", "f");
    expect("char const* g<1>(char)", "g");
    expect("decltype(auto) h<int>()", "h");
    expect("non-virtual thunk to A::B::run(int)", "A::B::run");
    expect("c10::impl::wrap_<c10::CompileTime<at::Tensor (at::Tensor const&), &at::(anonymous "
           "namespace)::wrapper_CUDA_mm>, at::Tensor ()>::call(c10::OperatorKernel*)",
           "c10::impl::wrap_::call");
}

TEST(unnamed_things_keep_their_place)
{
    expect("at::(anonymous namespace)::(anonymous namespace)::wrapper(at::Tensor)", "at::wrapper");
    expect("(anonymous namespace)::run(int)::{lambda(auto, int)#1}::operator()(int) const::{lambda()#2}::"
           "operator()() const",
           "run::{lambda}");
    expect("at::native::fill(at::TensorIterator&)::{lambda()#1}::operator()() const [clone .isra.0]",
           "at::native::fill::{lambda}");
    expect("f(int)::{unnamed type#1}::g()", "f::{unnamed}::g");
    expect("s[abi:cxx11](int)", "s");
    expect("A<B>::~A()", "A::~A");
}

TEST(the_name_of_an_operator_is_no_bracket)
{
    expect("bool a::operator< <int>(a::T const&, int)", "a::operator<");
    expect("std::ostream& operator<< <char>(std::ostream&, char)", "operator<<");
    expect("A::operator()(int) const", "A::operator()");
    expect("A::operator->() const", "A::operator->");
    expect("f<&A::operator>, (&A::operator->)>(int)", "f");
    expect("f<decltype (a->b), 3>(int)", "f");
    expect("operator new[](unsigned long)", "operator new[]");
    expect("A::operator unsigned long<int>() const", "A::operator unsigned long");
    expect("my_operator<int>(int)", "my_operator");
}

TEST(what_is_no_cxx_name_stays)
{
    expect("main", "main");
    expect("_PyEval_EvalFrameDefault", "_PyEval_EvalFrameDefault");
    expect("sum.constprop.0", "sum");
    expect("reduce.isra.0.cold", "reduce");
    expect(".cold", ".cold");
    expect("", "");
    expect("<T as core::Trait>::run", "<T as core::Trait>::run");
    expect("(int)", "(int)");
    expect("größe(int)", "größe");
}

/* A name of thousands of characters is stored without its end; any may be in a damaged file. */
TEST(any_text_gives_some_text)
{
    static const char whole[] = "void a::b<c (d), {lambda(e)#1}>::operator<< <f>(g)::{unnamed type#1}::h [i]";
    char part[sizeof whole];
    for (size_t n = 0; n < sizeof whole; n++) {
        memcpy(part, whole, n);
        part[n] = 0;
        char *got = cxx_name(part);
        assert_true(n == 0 || got[0]);
        free(got);
    }
    static const char *const odd[] = {"{",        "}",         "{}{}{}{}{",  ">>>>", "((((", " ",       "a ",
                                      "operator", "operator ", "operator <", "->",   ")::",  "a\xff<b", NULL};
    for (const char *const *o = odd; *o; o++) {
        char *got = cxx_name(*o);
        assert_true(got[0]);
        free(got);
    }
    expect("void c10::impl::wrap_<c10::Comp...", "c10::impl::wrap_");
}
