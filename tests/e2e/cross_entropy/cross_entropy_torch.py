"""cross_entropy_torch.py - the reference of the linear cross-entropy, and the CPU back end of LCE_LIBRARY, against torch.nn.functional.cross_entropy
in double precision: losses and gradients, NaN where PyTorch has NaN.  FULL: every combination of options.
"""
import itertools
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../gpu"))
import kernels_lce as K
from kernels_case import Case, problem

NAMES = {K.MEAN: "mean", K.SUM: "sum", K.NONE: "none"}


def theirs(case):
    p, v = case.problem, case.values
    x, w = (torch.tensor(K.from_type(v[name], p.dtype), requires_grad=True) for name in ("input", "weight"))
    bias = torch.tensor(K.from_type(v["bias"], p.dtype)[0], requires_grad=True)
    weights = None if v["class_weights"] is None else torch.tensor(v["class_weights"]).double()
    z = F.linear(x, w, bias)
    if p.softcap:
        z = p.softcap * torch.tanh(z / p.softcap)
    loss = F.cross_entropy(z, torch.tensor(case.labels), weights, ignore_index=p.ignore_index, reduction=NAMES[p.reduction],
                           label_smoothing=p.label_smoothing)
    if p.z_loss:
        counted = torch.tensor(case.labels != p.ignore_index)
        squares = p.z_loss * torch.logsumexp(z[counted], 1) ** 2
        every = torch.zeros(len(z), dtype=torch.float64).masked_scatter(counted, squares)
        loss = loss + {K.MEAN: squares.mean(), K.SUM: squares.sum(), K.NONE: every}[p.reduction]
    up = 1 if v["grad_output"] is None else torch.tensor(v["grad_output"]).double()
    (loss * (up if p.reduction == K.NONE or isinstance(up, int) else up[0])).sum().backward()
    return {"loss": loss.detach().numpy().reshape(-1, 1), "grad_input": x.grad.numpy(), "grad_weight": w.grad.numpy(),
            "grad_bias": bias.grad.numpy()[:, None]}


def compare(what, case):
    bad, want = [], theirs(case)
    for name, array in want.items():
        if not np.allclose(case.want[name], array, rtol=1e-6, atol=1e-9, equal_nan=True):
            bad.append(f"{what}: {name} of the reference is not PyTorch's: {case.want[name].ravel()[:4]} {array.ravel()[:4]}")
    case.want = want
    got, _, problems = case.run(chunk=7)
    return bad + [f"{what}: CPU: {text}" for text in problems + case.compare(got)]


def main():
    library, memory, bad, count = K.Library(os.environ["LCE_LIBRARY"], K.CPU), K.Host(), [], 0
    axes = itertools.product((0.0, 0.1, 1.0), (False, True), (0.0, 0.5, 1.1), (K.MEAN, K.SUM, K.NONE), (-100, 3), (0.0, 2.0),
                             (0.0, 0.01), (1, 23))
    share = 1 if os.environ.get("FULL") else 5  # no axis has a multiple of five values, so each pair of values comes up
    for smoothing, weights, ignored, reduction, ignore_index, softcap, z_loss, tokens in itertools.islice(axes, 0, None, share):
        # float32 as the header has it: PyTorch is to be told the same numbers
        values = dict(label_smoothing=smoothing, softcap=softcap, z_loss=z_loss, ignore_index=ignore_index, reduction=reduction)
        p = problem(library, tokens, 9, 31, dtype=K.F32, **values)
        case = Case(library, memory, p, bias=True, weights=weights, upstream=True, ignored=ignored)
        bad += compare(f"{values} weights {weights} ignored {ignored} tokens {tokens}", case)
        count += 1
    for reduction in NAMES:
        case = Case(library, memory, problem(library, 0, 9, 31, dtype=K.F32, reduction=reduction), bias=True)
        bad += compare(f"no token, {NAMES[reduction]}", case)
        count += 1
    print("\n".join(bad[:20]))
    print(f"{count} cases, {len(bad)} differences from PyTorch {torch.__version__}")
    return bool(bad)


sys.exit(main())
