"""types_survey.py OUT.json - what PyTorch's operators ask the allocator for, in fp32 and in bf16: the laws that `whatif --edit=types=bf16` rests on.

Each case is a small module that runs forward and backward twice (what a first call makes once, as cuBLAS's workspace, is not of it); of the second the sizes of all requests are printed,
one list for each type, forward and backward apart: "+" where a block was made, "-" where one went, and at the end the peaks.  Needs a GPU.
"""
import itertools
import json
import sys

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel


def requests(run):
    torch.cuda.synchronize()
    torch.cuda.memory._record_memory_history(context=None, max_entries=100000)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    got = run()
    torch.cuda.synchronize()
    peak = torch.cuda.max_memory_allocated() - before
    trace = torch.cuda.memory._snapshot()["device_traces"][0]
    torch.cuda.memory._record_memory_history(enabled=None)
    sign = {"alloc": "+", "free_completed": "-"}
    return got, [sign[e["action"]] + str(e["size"]) for e in trace if e["action"] in sign], peak


def case(make, shapes, dtype):
    torch.manual_seed(1)
    net = make().cuda().to(dtype) if isinstance(make(), nn.Module) else make()
    inputs = [torch.randn(s, device="cuda", dtype=dtype, requires_grad=True) for s in shapes]

    def forward():
        out = net(*inputs)
        return out[0] if isinstance(out, tuple) else out

    for turn in range(3):
        y, made, peak = requests(forward)
        gradient = torch.ones_like(y)
        _, back, back_peak = requests(lambda: y.backward(gradient))
        for t in list(inputs) + (list(net.parameters()) if isinstance(net, nn.Module) else []):
            t.grad = None
        del y, gradient
    return {"forward": made, "backward": back, "peaks": [peak, back_peak]}


class Attention:
    def __init__(self, backend, causal=False, gqa=False, strided=False):
        self.how = backend, causal, gqa, strided

    def __call__(self, q, k, v):
        backend, causal, gqa, strided = self.how
        if strided:
            q, k, v = (t.transpose(-1, -2) for t in (q, k, v))
        f = nn.functional.scaled_dot_product_attention
        if backend is None:
            return f(q, k, v, is_causal=causal, enable_gqa=gqa)
        with sdpa_kernel(backend):
            return f(q, k, v, is_causal=causal, enable_gqa=gqa)


def cases():
    for kind, layers, both, drop in itertools.product(("LSTM", "GRU", "RNN"), (1, 3), (False, True), (0.0, 0.2)):
        if drop and layers == 1:
            continue
        for b, t, i, h in ((24, 250, 768, 768), (16, 100, 300, 512), (64, 33, 128, 1536)):
            if (b, t) != (16, 100) and (both or drop or kind == "RNN"):
                continue
            yield f"{kind} layers={layers} both={both} dropout={drop} {b}x{t}x{i} to {h}", lambda: getattr(nn, kind)(
                i, h, layers, bidirectional=both, dropout=drop, batch_first=True), [(b, t, i)]
    yield "LSTM projected", lambda: nn.LSTM(300, 512, 2, proj_size=128, batch_first=True, bidirectional=True), [(16, 100, 300)]
    for n, inner, outer, size, kernel, options in (
            (16, 96, 192, 64, 3, {}), (16, 384, 384, 32, 3, {}), (16, 768, 384, 32, 3, {}), (16, 3, 96, 128, 3, {}), (16, 96, 3, 128, 3, {}), (16, 192, 96, 128, 1, {}), (32, 64, 128, 56, 3, {"stride": 2}),
            (32, 256, 512, 56, 1, {"stride": 2}), (32, 3, 64, 224, 7, {"stride": 2}), (16, 96, 96, 56, 7, {"groups": 96}), (16, 128, 128, 56, 3, {"groups": 4}), (16, 128, 128, 56, 3, {"dilation": 2}),
            (24, 3, 768, 384, 32, {"stride": 32})):
        yield (f"Conv2d {n}x{inner}x{size} to {outer} by {kernel} {options}", lambda: nn.Conv2d(inner, outer, kernel, padding=0 if kernel == 32 else kernel // 2, **options),
               [(n, inner, size, size)])
    yield "ConvTranspose2d", lambda: nn.ConvTranspose2d(192, 96, 2, stride=2), [(16, 192, 64, 64)]
    yield "Conv1d", lambda: nn.Conv1d(128, 256, 5, padding=2), [(16, 128, 4000)]
    yield "Conv3d", lambda: nn.Conv3d(32, 64, 3, padding=1), [(4, 32, 16, 56, 56)]
    yield "BatchNorm2d", lambda: nn.BatchNorm2d(128), [(16, 128, 56, 56)]
    yield "GroupNorm", lambda: nn.GroupNorm(8, 128), [(16, 128, 56, 56)]
    yield "LayerNorm", lambda: nn.LayerNorm(768), [(16, 500, 768)]
    yield "Softmax", lambda: nn.Softmax(-1), [(16, 12, 500, 500)]
    yield "Embedding bag of linears", lambda: nn.Sequential(nn.Linear(768, 3072), nn.GELU(), nn.Dropout(0.1), nn.Linear(3072, 768)), [(16, 500, 768)]
    for backend in (None, SDPBackend.MATH):
        for causal in (False, True):
            yield f"attention {backend} causal={causal}", lambda: Attention(backend, causal), [(4, 12, 600, 64)] * 3
    yield "attention of strided heads", lambda: Attention(None, strided=True), [(4, 12, 64, 600)] * 3
    yield "attention of grouped heads", lambda: Attention(None, gqa=True), [(4, 12, 600, 64)] + [(4, 3, 600, 64)] * 2
    yield "attention of grouped heads, in parts", lambda: Attention(SDPBackend.MATH, gqa=True), [(4, 12, 600, 64)] + [(4, 3, 600, 64)] * 2
    yield "attention of heads of 66", lambda: Attention(None), [(4, 12, 600, 66)] * 3
    yield "attention of heads of 65", lambda: Attention(None), [(4, 12, 600, 65)] * 3


def main(path):
    said = {}
    for name, make, shapes in cases():
        for dtype in (torch.float32, torch.bfloat16):
            try:
                said[f"{name}, {str(dtype)[6:]}"] = case(make, shapes, dtype)
            except Exception as error:  # an operator that has no such kernel is a row, too
                said[f"{name}, {str(dtype)[6:]}"] = {"error": str(error)[:300]}
    json.dump(said, open(path, "w"), indent=0)
    print(len(said), "cases,", sum("error" in v for v in said.values()), "without figures")


main(sys.argv[1])
