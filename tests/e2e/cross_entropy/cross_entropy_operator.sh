#!/bin/bash
# The PyTorch operator of the linear cross-entropy on the CPU: opcheck, torch.compile in one graph, autocast, refusals.
. "$(dirname "$0")/torch.bash"
on_cpu cross_entropy_operator
