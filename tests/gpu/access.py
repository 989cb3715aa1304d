"""access.py LOG - a training that writes down what it gives to the device, for access.sh: in one step the storages of each operation,
and blocks that are planted (never used, freed late, allocated early, idle, in a CUDA graph). Times are CLOCK_MONOTONIC.
"""
import json
import sys
import time

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from bench_models import Decoder

try:
    import vramscope
except ImportError:
    vramscope = None
MIB = 1 << 20
KEEPS_STORAGE = ("view", "reshape", "t", "transpose", "permute", "expand", "unsqueeze", "squeeze", "slice", "select", "split", "detach",
                 "alias", "as_strided", "unbind", "_unsafe_view", "unflatten", "chunk", "narrow", "diagonal", "lift_fresh", "split_with_sizes")
NO_KERNEL = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "set_", "resize_", "record_stream", "is_pinned")


def step_of(model, optimizer, tokens):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(tokens)
        loss = F.cross_entropy(logits.float().view(-1, logits.shape[-1]), tokens.view(-1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


class Log(TorchDispatchMode):
    def __init__(self, file):
        super().__init__()
        self.file = file

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        begin = time.monotonic_ns()
        result = function(*args, **(kwargs or {}))
        end = time.monotonic_ns()
        name = function._schema.name.split("::")[1]
        if name in KEEPS_STORAGE or name in NO_KERNEL:
            return result
        seen = []

        def visit(value):
            if isinstance(value, torch.Tensor):
                if value.is_cuda and value.numel():
                    seen.append([value.data_ptr(), value.numel() * value.element_size()])
            elif isinstance(value, (list, tuple)):
                for v in value:
                    visit(v)

        if not name.endswith("_like") and not name.startswith("new_"):  # these look at the shape alone
            visit([a for a in args if not (name.endswith("attention_backward") and isinstance(a, torch.Tensor) and a.numel() <= 2)])
            visit(list((kwargs or {}).values()))
        if name.startswith("_scaled_dot_product"):  # the state of a dropout that is not asked for is made, and given to nobody
            result_seen = [r for r in result if isinstance(r, torch.Tensor) and r.numel() > 2] if isinstance(result, tuple) else result
            visit(result_seen)
        else:
            visit(result)
        self.file.write(json.dumps(["op", name, begin, end, seen]) + "\n")
        return result


def plant(size):
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def train(path):
    file = open(path, "w")

    def say(*what):
        file.write(json.dumps(what) + "\n")

    torch.manual_seed(0)
    model = Decoder(layers=4, width=512, heads=8, vocab=8192, context=512).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    tokens = torch.randint(0, 8192, (8, 512), device="cuda")
    never, idle, late, early, twin = plant(31 * MIB), plant(33 * MIB), plant(35 * MIB), plant(37 * MIB), plant(39 * MIB)
    for name, block in (("never", never), ("idle", idle), ("late", late), ("early", early), ("twin", twin)):
        say("planted", name, block.data_ptr(), time.monotonic_ns())
    pinned = torch.empty(twin.numel(), dtype=torch.uint8).pin_memory()
    for step in range(1, 9):
        if step == 1:
            idle.zero_()
            twin.copy_(pinned, non_blocking=True)
        if step <= 2:
            late.fill_(step)
        if step == 6:
            early.fill_(1)
        if step == 7:
            del late
        if step == 8:
            idle.add_(1)
            pinned.copy_(twin)
        if step == 5:
            with Log(file):
                step_of(model, optimizer, tokens)
        else:
            step_of(model, optimizer, tokens)
        vramscope.step()
    torch.cuda.synchronize()
    for name, parameter in model.named_parameters():
        say("held", "parameter " + name, parameter.data_ptr(), time.monotonic_ns())
    for state in optimizer.state.values():
        for key in ("exp_avg", "exp_avg_sq"):
            say("held", key, state[key].data_ptr(), time.monotonic_ns())
    graphs(say)
    file.close()


def graphs(say):
    """Nine replays, a step each: what the graph's kernels are given is used in each, what only was captured is not."""
    net = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024)).cuda()
    x, y = torch.randn(4096, 1024, device="cuda"), torch.empty(4096, 1024, device="cuda")
    other = torch.empty(3 * 4096, 1024, device="cuda")
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), torch.no_grad():
        net(x)
    torch.cuda.current_stream().wait_stream(stream)
    graph, unused = torch.cuda.CUDAGraph(), torch.cuda.CUDAGraph()
    with torch.no_grad():
        with torch.cuda.graph(graph):
            y.copy_(net(x))
        with torch.cuda.graph(unused):
            other.zero_()
    say("graph", "replayed x", x.data_ptr(), time.monotonic_ns())
    say("graph", "replayed y", y.data_ptr(), time.monotonic_ns())
    for p in net.parameters():
        say("graph", "replayed parameter", p.data_ptr(), time.monotonic_ns())
    say("graph", "captured only", other.data_ptr(), time.monotonic_ns())
    for _ in range(9):
        graph.replay()
        vramscope.step()
    torch.cuda.synchronize()


if __name__ == "__main__":
    train(sys.argv[1])
