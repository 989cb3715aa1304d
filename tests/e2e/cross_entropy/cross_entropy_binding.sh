#!/bin/bash
# The PyTorch binding of the linear cross-entropy on the CPU: values, gradients, autograd's manners, errors.
. "$(dirname "$0")/torch.bash"
on_cpu cross_entropy_binding
