"""Phases that a program names itself, on a GPU: markers through `import vramscope`, real NVTX through torch.cuda.nvtx, one inside the other.

Prints what the recording must show, one line per name: "NAME BYTES" = the peak of torch's counter inside the range, and the number of ranges.
"""
import sys

import torch

import vramscope


def peak_inside(action):
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    keep = action()
    inside = max(torch.cuda.max_memory_allocated(), before)
    return inside, keep


def allocate(mib):
    return torch.empty(mib << 20, dtype=torch.uint8, device="cuda")


def spike():
    """A temporary that is gone when the range ends."""
    temporary = allocate(300)
    kept = allocate(20)
    del temporary
    return kept


def main():
    peaks = {}
    allocate(64)
    for i in range(3):
        with vramscope.phase("encoder"):
            peaks["encoder"], kept = peak_inside(spike)
            torch.cuda.nvtx.range_push("library detail")  # names no phase
            inner = allocate(10)
            torch.cuda.nvtx.range_pop()
        torch.cuda.nvtx.range_push("logits")
        peaks["logits"], more = peak_inside(lambda: allocate(100))
        torch.cuda.nvtx.range_pop()
        torch.cuda.nvtx.mark("a moment")
        del kept, inner, more
        vramscope.step()
    for name, bytes_ in peaks.items():
        print(name, bytes_, 3)
    return 0


if __name__ == "__main__":
    sys.exit(main())
