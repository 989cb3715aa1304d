#!/usr/bin/env python3
"""kernels_time.py LIBRARY [--shape N,H,V] [--tune]: what the ways of the softmax pass and the type of the logits cost.

Loss and all gradients, bf16, peaked inputs; every method once a round, 0.2 s of rest before each; median and spread in
ms, workspace, errors of dinput and dweight against fp64, then what each kernel takes of it.  --tune: each of the first
proposals that cuBLASLt has for each product.  Half a minute, with PyTorch; the comparison with other programs is
another test.
"""
import argparse
import statistics
import time

import torch
import kernels_lce as K

METHODS = {
    "fast": dict(),
    "fast, exponentials kept": dict(proposals=K.KEEP_EXPONENTIALS),
    "fast, fp32 logits": dict(flags=K.F32_LOGITS),
    "fast, fp32 logits, 1 GiB": dict(flags=K.F32_LOGITS, budget=1 << 30),
    "lean": dict(mode=K.LEAN),
    "lean, fp32 logits": dict(mode=K.LEAN, flags=K.F32_LOGITS),
}


def inputs(n, h, v):
    torch.manual_seed(1)
    weight = torch.randn(v, h, device="cuda", dtype=torch.bfloat16) * 0.02
    labels = torch.randint(0, v, (n,), device="cuda")
    x = torch.randn(n, h, device="cuda", dtype=torch.bfloat16) * 0.3
    return x + weight[labels] * (12 / (h * 0.02 * 0.02)), weight, labels


class Method:
    def __init__(self, library, x, w, labels, mode=K.FAST, budget=0, **values):
        (n, h), v = x.shape, w.shape[0]
        self.plan = library.plan(library.problem(tokens=n, hidden=h, vocab=v, **values), mode, budget)
        self.dx, self.dw = torch.empty_like(x), torch.empty_like(w)
        self.loss, self.flag = torch.empty(1, device="cuda"), torch.zeros(1, dtype=torch.int32, device="cuda")
        self.workspace = torch.empty(self.plan.info.workspace_size, dtype=torch.uint8, device="cuda")
        self.buffers = K.Buffers(
            input=x.data_ptr(), weight=w.data_ptr(), labels=labels.data_ptr(), loss=self.loss.data_ptr(),
            grad_input=self.dx.data_ptr(), grad_weight=self.dw.data_ptr(), error_flag=self.flag.data_ptr(),
            workspace=self.workspace.data_ptr(), workspace_size=self.workspace.numel())

    def __call__(self):
        self.plan.run(self.buffers, torch.cuda.current_stream().cuda_stream)

    def timed(self, spin, rest=0.2):
        time.sleep(rest)
        for _ in range(20):  # out of the idle clock
            torch.matmul(spin, spin)
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self()
        end.record()
        end.synchronize()
        return start.elapsed_time(end)


def exact(x, w, labels):
    """Gradients in fp64, by chunks."""
    dx = torch.empty(x.shape, device="cuda", dtype=torch.float64)
    dw, w = torch.zeros(w.shape, device="cuda", dtype=torch.float64), w.double()
    for i in range(0, len(x), 1024):
        part, label = x[i : i + 1024].double(), labels[i : i + 1024]
        g = torch.softmax(part @ w.T, 1)
        g[torch.arange(len(label), device="cuda"), label] -= 1
        g /= len(x)
        dx[i : i + 1024] = g @ w
        dw.addmm_(g.T, part)
    return dx, dw


def error(got, want):
    squares = sum(((a.double() - b) ** 2).sum() for a, b in zip(got.split(8192), want.split(8192)))
    return (squares.sqrt() / want.norm()).item()


def kernels(name, method):
    from torch.profiler import ProfilerActivity, profile

    with profile(activities=[ProfilerActivity.CUDA]) as p:
        method()
        torch.cuda.synchronize()
    for event in sorted(p.key_averages(), key=lambda e: -e.device_time_total)[:5]:
        print(f"  {name:26s} {event.device_time_total / 1e3:8.3f} ms {event.count:4d} x {event.key[:90]}", flush=True)


def tune(library, tensors, spin):
    """Each product's proposals: the call that has that product and as few others as can be."""
    for place, (product, wants) in enumerate({"logits": 1, "dinput": 3, "dweight": 5}.items()):
        methods = [Method(library, *tensors, wants=wants, proposals=proposal << 4 * place) for proposal in range(6)]
        times = [[m.timed(spin, 0.1) for m in methods] for _ in range(4)][1:]
        medians = [statistics.median(values) for values in zip(*times)]
        print(f"tune {product}: " + "  ".join(f"{i}: {ms:.2f} ms" for i, ms in enumerate(medians)), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--shape", default="8192,4096,128256")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--tune", action="store_true")
    a = parser.parse_args()
    torch.zeros(1, device="cuda")
    library = K.Library(a.library, K.CUDA)
    x, w, labels = inputs(*map(int, a.shape.split(",")))
    methods = {name: Method(library, x, w, labels, **values) for name, values in METHODS.items()}
    spin = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
    times = {name: [] for name in methods}
    for lap in range(a.rounds + 1):
        for name, method in methods.items():
            value = method.timed(spin)
            if lap:
                times[name].append(value)
    want = exact(x, w, labels)
    for name, method in methods.items():
        info, values = method.plan.info, times[name]
        print(f"{name:26s} {statistics.median(values):6.2f} ms ({min(values):.2f}-{max(values):.2f})  "
              f"{info.workspace_size / 2**20:7.1f} MiB  chunk {info.chunk_tokens} x{info.chunks}  "
              f"dinput {error(method.dx, want[0]):.2e} dweight {error(method.dw, want[1]):.2e}", flush=True)
    for name, method in methods.items():
        kernels(name, method)
    if a.tune:
        tune(library, (x, w, labels), spin)
    if any(method.flag.item() for method in methods.values()):
        raise SystemExit("an error flag was set")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {a.shape}: all was timed")


if __name__ == "__main__":
    main()
