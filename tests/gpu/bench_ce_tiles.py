#!/usr/bin/env python3
"""bench_ce_tiles.py [--shapes H,V ...] [--chunks N ...]: what cuBLASLt proposes for the products of the linear
cross-entropy, and how long each proposal takes.

Asks cuBLASLt as the plan does (kernels/cuda/gemm.c), in PyTorch's copy of it: logits = X W^T, dX = G W, dW += G^T X, in bf16;
logits and dW with fp32 output as well.  A round is one call that is not timed and two that are, of each proposal in turn; five rounds after
one that does not count, no rest: the card's power cap is active soon.  A line a proposal: milliseconds of a call (median, least),
its scratch, rounds of tiles over the GPU, and its configuration, in cublasLt.h's numbers.
"""
import argparse
import ctypes as C
import statistics

import torch

ROUNDS, PROPOSALS, SCRATCH = 6, 8, 32 << 20
BF16, F32, COMPUTE_32F = 14, 0, 68
TRANSA, TRANSB = 3, 4  # of a product's description
SCRATCH_MOST, SCHEMES, ALIGNMENTS = 1, 3, (5, 6, 7, 8)  # of a preference
CONFIGURATION = {"algorithm": (0, 4), "tile": (1, 4), "split": (2, 4), "custom": (5, 4), "stages": (6, 4), "cluster": (8, 2)}


class Algorithm(C.Structure):
    _fields_ = [("data", C.c_uint64 * 8)]


class Proposal(C.Structure):
    _fields_ = [("algorithm", Algorithm), ("scratch", C.c_size_t), ("state", C.c_int), ("rounds", C.c_float), ("reserved", C.c_int * 4)]


def load():
    """The cuBLASLt that PyTorch has loaded by its first product."""
    torch.zeros(8, 8, device="cuda") @ torch.zeros(8, 8, device="cuda")
    path = sorted(line.split()[-1] for line in open("/proc/self/maps") if "libcublasLt" in line)[-1]
    blas = C.CDLL(path)
    blas.cublasLtMatmulAlgoGetHeuristic.argtypes = [C.c_void_p] * 7 + [C.c_int, C.c_void_p, C.c_void_p]
    blas.cublasLtMatmul.argtypes = [C.c_void_p] * 14 + [C.c_size_t, C.c_void_p]
    return blas


def check(status):
    if status:
        raise SystemExit(f"cuBLASLt: status {status}")


class Product:
    """out[m, n] (+)= a b, row-major; cuBLASLt is column-major, so a and b change places."""

    def __init__(self, blas, handle, m, n, k, a, b, out, transposed, strides, beta):
        self.blas, self.handle, self.tensors, self.beta = blas, handle, (a, b, out), C.c_float(beta)
        self.description = self.made("MatmulDesc", COMPUTE_32F, F32)
        for attribute, value in ((TRANSA, transposed[1]), (TRANSB, transposed[0])):
            value = C.c_int32(value)
            check(blas.cublasLtMatmulDescSetAttribute(self.description, attribute, C.byref(value), C.c_size_t(4)))
        out_type = F32 if out.dtype == torch.float32 else BF16
        self.b = self.layout(BF16, n, k, transposed[1], strides[1])
        self.a = self.layout(BF16, k, m, transposed[0], strides[0])
        self.out = self.layout(out_type, n, m, False, strides[2])
        self.proposals = self.ask()

    def made(self, what, *arguments):
        made = C.c_void_p()
        check(getattr(self.blas, f"cublasLt{what}Create")(C.byref(made), *arguments))
        return made

    def layout(self, kind, rows, columns, transposed, stride):
        rows, columns = (columns, rows) if transposed else (rows, columns)
        return self.made("MatrixLayout", kind, C.c_uint64(rows), C.c_uint64(columns), C.c_int64(stride))

    def ask(self):
        preference = self.made("MatmulPreference")
        wanted = [(SCRATCH_MOST, C.c_uint64(SCRATCH)), (SCHEMES, C.c_uint32(2 | 4))] + [(i, C.c_uint32(256)) for i in ALIGNMENTS]
        for attribute, value in wanted:
            check(self.blas.cublasLtMatmulPreferenceSetAttribute(preference, attribute, C.byref(value), C.c_size_t(C.sizeof(value))))
        found, results = C.c_int(), (Proposal * PROPOSALS)()
        layouts = (self.b, self.a, self.out, self.out)
        check(self.blas.cublasLtMatmulAlgoGetHeuristic(self.handle, self.description, *layouts, preference, PROPOSALS, results, C.byref(found)))
        return results[: found.value]

    def run(self, proposal, scratch):
        a, b, out = (t.data_ptr() for t in self.tensors)
        one = C.c_float(1)
        check(self.blas.cublasLtMatmul(self.handle, self.description, C.addressof(one), b, self.b, a, self.a, C.addressof(self.beta), out, self.out, out,
                                       self.out, C.addressof(proposal.algorithm), scratch.data_ptr(), proposal.scratch,
                                       torch.cuda.current_stream().cuda_stream))

    def timed(self, proposal, scratch):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.run(proposal, scratch)
        begin.record()
        self.run(proposal, scratch)
        self.run(proposal, scratch)
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / 2

    def configuration(self, proposal):
        told = []
        for name, (attribute, size) in CONFIGURATION.items():
            value, written = C.c_uint32(), C.c_size_t()
            status = self.blas.cublasLtMatmulAlgoConfigGetAttribute(C.byref(proposal.algorithm), attribute, C.byref(value), C.c_size_t(size), C.byref(written))
            told.append(f"{name} {'unknown' if status else value.value}")
        return ", ".join(told)


def race(name, product, scratch):
    times = [[product.timed(p, scratch) for p in product.proposals] for _ in range(ROUNDS)][1:]
    for i, proposal in enumerate(product.proposals):
        mine = [row[i] for row in times]
        print(f"{name:28s} {i}  {statistics.median(mine):7.3f} ms (least {min(mine):7.3f})  scratch {proposal.scratch:9d}  "
              f"rounds {proposal.rounds:7.2f}  {product.configuration(proposal)}", flush=True)


def products(blas, handle, n, h, v):
    half = dict(device="cuda", dtype=torch.bfloat16)
    x, w, g = torch.randn(n, h, **half), torch.randn(v, h, **half) * 0.02, torch.randn(n, v, **half) * 0.01
    for kind in (torch.bfloat16, torch.float32):
        logits, dw = torch.empty(n, v, device="cuda", dtype=kind), torch.zeros(v, h, device="cuda", dtype=kind)
        told = "bf16" if kind == torch.bfloat16 else "fp32"
        yield f"logits {told}", Product(blas, handle, n, v, h, x, w, logits, (False, True), (h, h, v), 0)
        if kind == torch.bfloat16:
            yield "dX bf16", Product(blas, handle, n, h, v, g, w, torch.empty_like(x), (False, False), (v, h, h), 0)
        yield f"dW {told}", Product(blas, handle, v, h, n, g, x, dw, (True, False), (v, h, h), 1)


def main():
    parser = argparse.ArgumentParser(prog="bench_ce_tiles.py", description=__doc__.split("\n")[0])
    parser.add_argument("--shapes", nargs="+", default=["4096,128256", "2304,256000", "5120,152064"])
    parser.add_argument("--chunks", nargs="+", type=int, default=[2048, 1024, 512])
    a = parser.parse_args()
    blas, handle = load(), C.c_void_p()
    check(blas.cublasLtCreate(C.byref(handle)))
    scratch = torch.empty(SCRATCH, dtype=torch.uint8, device="cuda")
    for h, v in (map(int, shape.split(",")) for shape in a.shapes):
        for n in a.chunks:
            for name, product in products(blas, handle, n, h, v):
                race(f"{n} x {h} x {v} {name}", product, scratch)


if __name__ == "__main__":
    main()
