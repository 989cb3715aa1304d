#!/bin/bash
# The linear cross-entropy in three PyTorch processes on the CPU that have a part of the vocabulary each.
. "$(dirname "$0")/torch.bash"
RANKS=3 on_cpu cross_entropy_parts
