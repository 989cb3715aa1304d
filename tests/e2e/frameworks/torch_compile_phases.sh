#!/bin/bash
# torch.compile, torch.jit and torch.export under the automatic phases: same graphs, same results, phases balanced.  (torch_phases.sh has
# a compiled training; all of it: tests/run.sh full.)
exec "$(dirname "$0")/torch_phases.sh" compiling
