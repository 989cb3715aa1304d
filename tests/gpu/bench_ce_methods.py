"""Every way to compute the linear cross-entropy that is compared: ours, PyTorch's own, its peers' from PyPI, each called as its own
documentation says.

An entry of METHODS is a `build(case)`: its object is called for one loss with all gradients, which it keeps until `release`;
`gradient_bytes` is what of them the call allocates. What is not there raises Absent.
"""
import importlib
import importlib.metadata
import os
import re
import sys

import torch
import torch.nn.functional as F

import kernels_lce as K


class Absent(Exception):
    """The method cannot run here; says why."""


class Case:
    """One set of inputs, and our library on their device."""

    def __init__(self, library, x, w, labels):
        self.library, self.x, self.w, self.labels = library, x, w, labels
        self.shape = (*x.shape, w.shape[0])


# ---- ours ----


class Ours:
    """Our library through its C interface; gradients, loss and workspace are allocated in the call, as PyTorch's are. VALUES are the problem's, BESIDE the inputs
    that it has besides: bias, class_weights, grad_entropy."""

    def __init__(self, case, mode, chunk=0, slab=0, main_grad=False, beside=(), **values):
        self.x, self.w, self.labels = case.x, case.w, case.labels
        n, h, v = case.shape
        if main_grad:
            values.update(grad_weight_dtype=K.F32, grad_weight_beta=1.0)
        problem = case.library.problem(tokens=n, hidden=h, vocab=v, **values)
        self.plan, self.wants = case.library.plan(problem, mode, chunk=chunk, slab=slab), problem.wants
        self.main = torch.zeros(self.w.shape, dtype=torch.float32, device=self.w.device) if main_grad else None
        self.flag = torch.zeros(1, dtype=torch.int32, device=self.x.device)
        made = {"bias": lambda: torch.randn(v, device=self.x.device, dtype=self.w.dtype) * 0.1, "class_weights": lambda: torch.rand(v, device=self.x.device) + 0.5,
                "grad_entropy": lambda: torch.randn(n, device=self.x.device) / n}
        self.beside = {name: made[name]() for name in beside}
        self.gradient_bytes = 2 * n * h + (0 if main_grad else 2 * v * h)
        info = self.plan.info
        slabs = f" by slabs of {info.slab_columns}" if info.slab_columns < v else ""
        self.note = f"chunks of {info.chunk_tokens}{slabs}, workspace {info.workspace_size / 2**20:.1f} MiB"
        self.held = None

    def __call__(self):
        self.held = None
        outputs = {"loss": torch.empty(1, device=self.x.device), "grad_input": torch.empty_like(self.x),
                   "grad_weight": torch.empty_like(self.w) if self.main is None else self.main}
        if self.wants & K.GRAD_BIAS:
            outputs["grad_bias"] = torch.zeros(len(self.w), device=self.x.device, dtype=outputs["grad_weight"].dtype)  # may be added to
        if self.wants & K.ENTROPY:
            outputs["entropy"] = torch.empty(len(self.x), device=self.x.device)
        workspace = torch.empty(self.plan.info.workspace_size, dtype=torch.uint8, device=self.x.device)
        stream = torch.cuda.current_stream().cuda_stream if self.x.is_cuda else None
        tensors = {"input": self.x, "weight": self.w, "labels": self.labels, "error_flag": self.flag, "workspace": workspace, **self.beside, **outputs}
        self.plan.run(K.Buffers(**{name: tensor.data_ptr() for name, tensor in tensors.items()}, workspace_size=workspace.numel()), stream)
        self.held = tuple(outputs.values())

    def results(self):
        """Loss, dX, dW; then the bias' gradient and the entropies, where they are wanted."""
        if self.main is not None:
            self.main.zero_()  # the sum of one call, not of all so far
        self()
        if self.flag.item():
            raise RuntimeError(f"our error flag is {self.flag.item()}")
        return self.held

    def release(self):
        self.held = None

    def close(self):
        self.held = self.main = None
        self.plan.close()


def ours(mode, flag=None, **how):
    def build(case):
        values = {}
        if flag:
            if not hasattr(K, flag):
                raise Absent(f"this library has no flag {flag}")
            values["flags"] = getattr(K, flag)
        return Ours(case, mode, **values, **how)

    return build


# ---- what PyTorch differentiates ----


class Autograd:
    """A loss of (x, w, labels) and its backward; the gradients are the leaves'."""

    note = ""

    def __init__(self, case, loss):
        self.x, self.w = case.x.detach().requires_grad_(), case.w.detach().requires_grad_()
        self.labels, self.loss, self.value = case.labels, loss, None
        self.gradient_bytes = 2 * (self.x.numel() + self.w.numel())

    def __call__(self):
        self.release()
        value = self.loss(self.x, self.w, self.labels)
        value.backward()
        self.value = value.detach()

    def results(self):
        self()
        return self.value, self.x.grad, self.w.grad

    def release(self):
        self.value = self.x.grad = self.w.grad = None

    def close(self):
        self.release()


def eager_loss(x, w, labels):
    """Hugging Face's: logits in bf16, as fp32 into the cross-entropy."""
    return F.cross_entropy(F.linear(x, w).float(), labels)


def eager(case):
    return Autograd(case, eager_loss)


def compiled(case):
    if not case.x.is_cuda:
        raise Absent("needs a GPU")
    return Autograd(case, torch.compile(eager_loss, dynamic=False))  # for each shape alone


def through_pytorch(case):
    """Ours as a user of PyTorch calls it; its package lies beside the library in an installed tree."""
    package = os.path.join(os.path.dirname(os.path.abspath(case.library.path)), "../share/vramscope/python")
    os.environ.setdefault("LCE_LIBRARY", case.library.path)
    sys.path.append(package)
    try:
        from vramscope.cross_entropy import linear_cross_entropy
    except ImportError as error:
        raise Absent(f"no vramscope.cross_entropy in {os.path.normpath(package)}: {error}") from error
    return Autograd(case, lambda x, w, labels: linear_cross_entropy(x, w, labels))


def own(**options):
    """Without OPTIONS it makes all logits; with them it goes by chunks, on CUDA with a kernel in CuTe where that is installed."""

    def build(case):
        if not hasattr(F, "linear_cross_entropy"):
            raise Absent(f"torch {torch.__version__} has no torch.nn.functional.linear_cross_entropy")
        if not options:
            return Autograd(case, F.linear_cross_entropy)
        if not hasattr(torch.nn, "LinearCrossEntropyOptions"):
            raise Absent(f"torch {torch.__version__} has no torch.nn.LinearCrossEntropyOptions")
        chosen = torch.nn.LinearCrossEntropyOptions(**options)
        method = Autograd(case, lambda x, w, labels: F.linear_cross_entropy(x, w, labels, options=chosen))
        method.note = cute_note()
        return method

    return build


def cute_note():
    """Whether PyTorch's own kernels in CuTe are in use."""
    try:
        from torch._native import cutedsl_utils as cute

        there = cute.runtime_available() and cute._version_is_ok() and not cute.check_native_jit_disabled()
    except (ImportError, AttributeError) as error:
        return f"CuTe unknown: {error}"
    return f"CuTe {cute.runtime_version()}" if there else "without CuTe"


def peer(module, function, reduce=lambda value: value, **options):
    """FUNCTION(x, w, labels, **OPTIONS) of MODULE."""

    def build(case):
        if not case.x.is_cuda:
            raise Absent("needs a GPU")
        try:
            call = getattr(importlib.import_module(module), function)
        except Exception as error:  # a peer may fail in any way while it is imported
            raise Absent(f"{module}.{function}: {type(error).__name__}: {error}") from error
        return Autograd(case, lambda x, w, labels: reduce(call(x, w, labels, **options)))

    return build


LIGER = "liger_kernel.transformers.functional", "liger_fused_linear_cross_entropy"
LIGER_CUTE = "liger_kernel.ops.cutedsl.ops.fused_linear_cross_entropy_sm90", "liger_fused_linear_cross_entropy_sm90"
CCE = "cut_cross_entropy", "linear_cross_entropy"
QUACK = "quack.linear_cross_entropy", "chunked_linear_cross_entropy"

# Name and how it is made.  The name is the key in every table.
METHODS = {
    "ours": ours(K.AUTO),
    "ours fast": ours(K.FAST),
    "ours lean": ours(K.LEAN),
    "ours fast, fp32 logits": ours(K.FAST, flag="F32_LOGITS"),
    "ours lean, fp32 logits": ours(K.LEAN, flag="F32_LOGITS"),
    "ours fast, fp32 main_grad": ours(K.FAST, main_grad=True),
    "ours, through PyTorch": through_pytorch,
    "PyTorch eager": eager,
    "PyTorch compile": compiled,
    "PyTorch linear_cross_entropy": own(),
    "PyTorch linear_cross_entropy, chunked": own(chunking_method="auto"),
    "PyTorch linear_cross_entropy, quarter chunks": own(chunking_method="aspect_ratio:4"),
    "PyTorch linear_cross_entropy, accurate": own(acc_policy="accurate"),
    "Liger": peer(*LIGER),
    "Liger, chunk_mem_const 16": peer(*LIGER, chunk_mem_const=16),
    "Liger, accum fp32": peer(*LIGER, accum_dtype=torch.float32),
    "Liger CuTe": peer(*LIGER_CUTE),
    "CCE": peer(*CCE),
    "CCE, no filter": peer(*CCE, filter_eps=None),
    "QuACK": peer(*QUACK),
    "QuACK, chunk 2048": peer(*QUACK, chunk_size=2048),
}
# What is compiled when it is first called, and keeps that in a cache on disk: families, each called first in a process of
# its own, and the seconds that this may take
FAMILIES = {"PyTorch compile": 60, "PyTorch linear_cross_entropy,": 60, "Liger($|,)": 60, "Liger CuTe": 60, "CCE": 60, "QuACK$": 60, "QuACK, chunk": 60}
COMPILED = [name for name in METHODS if re.match("|".join(FAMILIES), name)]
PACKAGES = ("torch", "triton", "liger_kernel", "cut_cross_entropy", "quack-kernels", "nvidia-cutlass-dsl",
            "apache-tvm-ffi", "nvidia-cublas")


def chosen(pattern):
    """The methods whose names PATTERN (a regular expression, or None for all) finds."""
    return {name: build for name, build in METHODS.items() if not pattern or re.search(pattern, name)}


def families(pattern):
    """{a regular expression that finds the chosen methods of one family: seconds for their first calls}."""
    found = {}
    for family, seconds in FAMILIES.items():
        names = [name for name in chosen(pattern) if re.match(family, name)]
        if names:
            found[f"^({'|'.join(map(re.escape, names))})$"] = seconds
    return found


def versions():
    found = {}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "absent"
    return found


def reason(error):
    """An exception as one short line."""
    text = " ".join(str(error).split()) or type(error).__name__
    prefix = "" if isinstance(error, Absent) else f"{type(error).__name__}: "
    return (prefix + text)[:200]
