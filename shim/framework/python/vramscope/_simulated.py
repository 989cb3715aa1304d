"""_simulated - what `vramscope run --simulated` says to a program that imports PyTorch: it finds no GPU there, and why.

CUDA's runtime, which PyTorch is built on, asks a driver for tables of functions that are documented nowhere.  The simulated driver has what
NVIDIA documents.
"""

import os
import sys


def install(_torch):
    """One line, once in a process and the processes that it starts."""
    os.environ["VRAMSCOPE_SIMULATED"] = "told"
    print(
        "vramscope: PyTorch finds no GPU on the simulated driver: CUDA's runtime asks a driver for more than it documents;"
        " vramscope fit -- python train.py runs it without a GPU",
        file=sys.stderr,
    )
