#!/bin/bash
# The reference of the linear cross-entropy, and its CPU back end, are torch.nn.functional.cross_entropy in double precision.
. "$(dirname "$0")/torch.bash"
on_cpu cross_entropy_torch numpy # in_full all combinations
