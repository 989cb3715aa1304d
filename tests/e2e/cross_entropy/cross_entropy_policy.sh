#!/bin/bash
# Temperature, log-probabilities and entropies of the linear cross-entropy in PyTorch on the CPU.
. "$(dirname "$0")/torch.bash"
on_cpu cross_entropy_policy
