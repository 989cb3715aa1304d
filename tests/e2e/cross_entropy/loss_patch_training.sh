#!/bin/bash
# vramscope.patch_loss on the CPU: fifty steps of eight models, and a Trainer, as without it.
. "$(dirname "$0")/torch.bash"
on_cpu loss_patch_training transformers accelerate
