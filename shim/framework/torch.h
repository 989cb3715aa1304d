/* torch.h - what the rest of the shim may ask of torch.c. */
#ifndef VS_FRAMEWORK_TORCH_H
#define VS_FRAMEWORK_TORCH_H

/* Finds torch's own report functions, where libc10 is loaded by now.  Idempotent; call it from a place where
 * taking the loader's lock is safe and before the first block is reported (beside vs_stack_prepare). */
void vs_torch_prepare(void);

#endif
