#!/bin/bash
# The linear cross-entropy in two PyTorch processes on the CPU: DDP, FSDP2, accumulation, a weight that is sharded where it is called.
. "$(dirname "$0")/torch.bash"
on_cpu cross_entropy_ranks
