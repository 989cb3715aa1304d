"""limited.py BYTES PROGRAM ARGUMENTS: runs a program that may reserve so many bytes, and says which request was refused."""
import json
import runpy
import sys

import torch

limit = int(sys.argv[1])
asked = []
torch.cuda.init()
torch._C._cuda_attach_out_of_memory_observer(lambda device, request, total, free: asked.append(request))
torch.cuda.set_per_process_memory_fraction((limit + 512) / torch.cuda.get_device_properties(0).total_memory)
sys.argv = sys.argv[2:]
try:
    runpy.run_path(sys.argv[0], run_name="__main__")
except torch.cuda.OutOfMemoryError as e:
    figures = torch.cuda.memory_stats()
    print("\n" + json.dumps({
        "refused": asked[-1] if asked else None, "message": str(e).split(". GPU")[0], "retries": figures["num_alloc_retries"],
        "peak_allocated": figures["allocated_bytes.all.peak"], "peak_reserved": figures["reserved_bytes.all.peak"],
        "allocated_then": figures["allocated_bytes.all.current"], "reserved_then": figures["reserved_bytes.all.current"]}))
