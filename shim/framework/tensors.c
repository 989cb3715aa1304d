/*
 * tensors.c - see tensors.h.
 */
#include "tensors.h"

__thread struct vs_tensor_note vs_tensor_note __attribute__((tls_model("initial-exec")));
VS_HOT _Atomic bool vs_tensor_seen;
