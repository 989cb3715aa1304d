#!/bin/bash
# torch.compile, torch.jit and torch.export under the automatic phases: same graphs, same results, phases balanced.
exec "$(dirname "$0")/torch_phases.sh" compiling
