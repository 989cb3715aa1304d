"""What PyTorch's allocator has counted, for verify.py."""
import time

import torch


def counters():
    stats = torch.cuda.memory_stats()
    return {"t_ns": time.monotonic_ns(), "max_memory_allocated": torch.cuda.max_memory_allocated(), "max_memory_reserved": torch.cuda.max_memory_reserved(),
            "memory_allocated": torch.cuda.memory_allocated(), "memory_reserved": torch.cuda.memory_reserved(),
            "allocations": stats["allocation.all.allocated"], "frees": stats["allocation.all.freed"]}
