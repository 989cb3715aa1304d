"""driver_torch.py CASE... - what a real PyTorch is given by the simulated driver in dry mode; run by driver_torch.sh."""

import ctypes
import sys

import torch
from torch import nn

MIB, GIB = 1 << 20, 1 << 30


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


def train():
    model = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 1024)).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(3):
        model(torch.randn(512, 1024, device="cuda")).pow(2).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()


def books():
    """Sizes are PyTorch's own: 512 bytes, and segments of 2 MiB, 20 MiB or what is asked for."""
    small, large = torch.empty(1000, dtype=torch.uint8, device="cuda"), torch.empty(30 * MIB, dtype=torch.uint8, device="cuda")
    assert torch.cuda.memory_allocated() == 1024 + 30 * MIB, torch.cuda.memory_allocated()
    assert torch.cuda.memory_reserved() == 32 * MIB, torch.cuda.memory_reserved()
    free, total = torch.cuda.mem_get_info()
    assert total - free == (518 + 32) * MIB, total - free
    assert torch.cuda.get_device_name() == "NVIDIA H200"
    nvml = ctypes.CDLL("libnvidia-ml.so.1")
    device, name = ctypes.c_void_p(), ctypes.create_string_buffer(96)
    assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)) == 0
    assert nvml.nvmlDeviceGetName(device, name, 96) == 0 and name.value == b"NVIDIA H200"
    del small, large


def trains():
    """The second line differs where addresses do, on which the allocator's choice among equal blocks depends."""
    train()
    print(torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved())
    print(sorted((s["address"], s["total_size"]) for s in torch.cuda.memory_snapshot()))


def huge():
    """72 B parameters in 16 bits, their gradients and a copy on the host take no memory of the machine."""
    before = resident()
    layers = [torch.empty(10**9, dtype=torch.bfloat16, device="cuda") for _ in range(72)]
    gradients = [torch.zeros_like(layer) for layer in layers]
    host = torch.empty(10**9, dtype=torch.bfloat16, pin_memory=True)
    for layer, gradient in zip(layers, gradients):
        layer.add_(gradient)
        host.copy_(layer)
    torch.cuda.synchronize()
    assert torch.cuda.memory_allocated() >= 288 * 10**9
    assert resident() - before < 300 * MIB, (resident() - before) // MIB


def dies():
    """8 GiB hold a context of 518 MiB and seven tensors of 1 GiB, and not eight."""
    held = []
    try:
        for _ in range(9):
            held.append(torch.empty(GIB, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError as error:
        assert len(held) == 7, len(held)
        assert "a total capacity of 8.00 GiB" in str(error), error
    else:
        raise AssertionError("nothing ran out")


def eight():
    for device in range(torch.cuda.device_count()):
        torch.empty((device + 1) * 32 * MIB, dtype=torch.uint8, device=f"cuda:{device}")
    assert [torch.cuda.max_memory_reserved(d) // MIB for d in range(8)] == [32 * (d + 1) for d in range(8)]
    used = [total - free for free, total in map(torch.cuda.mem_get_info, range(8))]
    assert used == [(518 + 32 * (d + 1)) * MIB for d in range(8)], used
    moved = torch.arange(1000, device="cuda:1").to("cuda:7")
    assert moved.device.index == 7


def graph():
    x, static = torch.zeros(1 << 20, device="cuda"), None
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        x * 2 + 1
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        static = x * 2 + 1
    for _ in range(3):
        graph.replay()
    torch.cuda.synchronize()
    assert static.numel() == 1 << 20


for case in sys.argv[1:]:
    globals()[case]()
    torch.cuda.empty_cache()
