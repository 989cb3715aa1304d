#!/bin/bash
# vramscope.patch_loss in two processes on the CPU: DDP, FSDP2, compiled.
. "$(dirname "$0")/torch.bash"
on_cpu loss_patch_ranks transformers
