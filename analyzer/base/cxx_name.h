/*
 * cxx_name.h - shortens the demangled name of a C++ function for people.
 *
 *      at::Tensor& at::native::foo<float, 4>(at::Tensor&, long) const [clone .isra.0]    at::native::foo
 *      (anonymous namespace)::run(int)::{lambda(auto)#1}::operator()() const             run::{lambda}
 *      thrust::NS::operator<<<int>(std::ostream&) thrust::NS::operator<<
 */
#ifndef VS_BASE_CXX_NAME_H
#define VS_BASE_CXX_NAME_H

/* The short form of NAME, which may be truncated; NAME itself if nothing would be left.  The caller frees
 * it. */
char *cxx_name(const char *name);

#endif
