#!/bin/bash
# vramscope.patch_loss on the CPU: values and gradients of eight models, torch.compile, peft, refusals, and the way back.
. "$(dirname "$0")/torch.bash"
on_cpu loss_patch transformers peft
