"""cross_entropy_ranks_kit.py - RANKS processes (2) that run the tests of a file together, on the CPU or a GPU each.  With ONE_GPU=1 they share the
first GPU and talk through Gloo; NCCL refuses that.
"""
import os
import runpy
import sys
import tempfile
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.distributed.tensor import DTensor, init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from cross_entropy_binding_kit import DEVICE, main

RANKS = int(os.environ.get("RANKS", 2))
ONE_GPU = bool(os.environ.get("ONE_GPU"))


def here():
    """This process's device."""
    return torch.device("cuda", 0 if ONE_GPU else dist.get_rank()) if DEVICE.type == "cuda" else DEVICE


def mesh(*shape):
    return init_device_mesh(DEVICE.type, shape)


def ddp(model):
    return DistributedDataParallel(model, device_ids=[here().index] if DEVICE.type == "cuda" else None)


def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def _process(rank, file, folder):
    if DEVICE.type == "cuda":
        torch.cuda.set_device(0 if ONE_GPU else rank)
    torch.set_num_threads(1)
    backend = "nccl" if DEVICE.type == "cuda" and not ONE_GPU else "gloo"
    dist.init_process_group(backend, init_method=f"file://{folder}/meet", rank=rank, world_size=RANKS, timeout=timedelta(seconds=60))
    if rank:
        sys.stdout = open(os.devnull, "w")
    failed = main(runpy.run_path(file))
    dist.destroy_process_group()
    sys.exit(failed)


def spawn(file):
    """Runs the tests of FILE in all processes at once, and ends with their status; 77 where there are too few GPUs."""
    if DEVICE.type == "cuda" and not ONE_GPU and torch.cuda.device_count() < RANKS:
        print(f"skipped: {RANKS} GPUs are needed, and {torch.cuda.device_count()} here")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as meeting:
        try:
            # a fork has imported all of it already; CUDA survives none
            mp.start_processes(_process, (os.path.abspath(file), meeting), RANKS, start_method="fork" if DEVICE.type == "cpu" else "spawn")
        except (mp.ProcessExitedException, mp.ProcessRaisedException) as error:
            sys.exit(f"FAIL: {error}")
