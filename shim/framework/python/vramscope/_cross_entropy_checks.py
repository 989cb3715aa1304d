"""_cross_entropy_checks - judges what linear_cross_entropy is asked before anything is computed: an error is one line that says what is
wrong.
"""

import torch
from torch.autograd import forward_ad

from ._cross_entropy_library import DTYPES, F32_ACCUMULATE, F32_LOGITS, LABEL_DTYPES, MODES, REDUCTIONS


def refuse(what):
    raise ValueError(f"linear_cross_entropy: {what}")


def check_tensors(input, weight, labels, bias, class_weights):
    if input.device.type not in ("cpu", "cuda"):
        refuse(f"input is on {input.device}; only cpu and cuda are supported")
    if weight.dim() != 2 or input.dim() < 1 or input.size(-1) != weight.size(1):
        refuse(f"input is {list(input.shape)} and weight {list(weight.shape)}; they must be [..., H] and [V, H]")
    if labels.shape != input.shape[:-1]:
        refuse(f"labels are {list(labels.shape)}; for this input they must be {list(input.shape[:-1])}")
    if labels.dtype not in LABEL_DTYPES:
        refuse(f"labels are {labels.dtype}; they must be int64 or int32")
    for name, vector in (("bias", bias), ("class_weights", class_weights)):
        if vector is not None and vector.shape != weight.shape[:1]:
            refuse(f"{name} is {list(vector.shape)}; it must be [{weight.size(0)}]")
    for name, tensor in (("weight", weight), ("labels", labels), ("bias", bias), ("class_weights", class_weights)):
        if tensor is not None and tensor.device != input.device:
            refuse(f"{name} is on {tensor.device} and input on {input.device}; they must be on the same device")


def refuse_transforms(*tensors):
    """Refuses torch.func and forward-mode differentiation, which the operator does not support."""
    if torch.compiler.is_compiling():
        return
    dual = forward_ad._current_level >= 0 and any(forward_ad.unpack_dual(t).tangent is not None for t in tensors if t is not None)
    if dual or torch._C._functorch.peek_interpreter_stack() is not None:
        refuse("torch.func and forward-mode derivatives are not supported; call .backward(), or use F.cross_entropy there")


def compute_dtype(input, weight, bias):
    """The type to compute in: autocast's, where that is on, as for F.linear; else that of all three."""
    kind = input.device.type
    named = [(name, t.dtype) for name, t in (("input", input), ("weight", weight), ("bias", bias)) if t is not None]
    for name, dtype in named:
        if dtype not in DTYPES:
            refuse(f"{name} is {dtype}; it must be float32, float16 or bfloat16")
    if torch.is_autocast_enabled(kind):
        return torch.get_autocast_dtype(kind)
    for name, dtype in named:
        if dtype != input.dtype:
            refuse(f"{name} is {dtype} and input {input.dtype}; they must be of one type outside of autocast")
    return input.dtype


def promised(name, upstream, what, shape, device):
    if upstream is None:
        return None
    if not isinstance(upstream, torch.Tensor):
        return torch.full(shape, float(upstream), dtype=torch.float32, device=device)
    if upstream.numel() != shape.numel() or upstream.device != device:
        refuse(f"{name} is {list(upstream.shape)} on {upstream.device}; it must be as the {what}, on {device}")
    return upstream.detach().float().contiguous().reshape(shape)


def choices(reduction, mode, f32_logits, f32_accumulate, dtype):
    if mode == "naive":
        refuse("mode naive is gone; use fast")
    for name, value, known in (("reduction", reduction, REDUCTIONS), ("mode", mode, MODES)):
        if value not in known:
            refuse(f"{name} is {value!r}; it must be one of {', '.join(known)}")
    flags = F32_LOGITS if f32_logits and dtype != torch.float32 else 0
    return flags | (F32_ACCUMULATE if f32_accumulate else 0)


def check_choices(temperature, return_entropy, group, vocab_range, upstream, above, main_grad):
    if not 0 < temperature < float("inf"):
        refuse(f"temperature is {temperature}; it must be above 0 and finite")
    if vocab_range is not None and group is None:
        refuse("vocab_range is given, and no group whose ranks have the other classes")
    for name, asked in (("return_entropy", return_entropy), ("group", group is not None)):
        if asked and main_grad:
            refuse(f"{name} does not go with main_grad")
    if above is not None and not return_entropy:
        refuse("entropy_upstream is given, and no return_entropy")
    if above is None and return_entropy and upstream is not None:
        refuse("with return_entropy, upstream is half of a promise; give entropy_upstream, too (0 where entropies get no gradient)")
    if upstream is None and (isinstance(above, torch.Tensor) or above):
        refuse("entropy_upstream is half of a promise; give upstream, too")
