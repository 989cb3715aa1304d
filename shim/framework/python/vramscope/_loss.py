"""_loss - gives a Hugging Face model the fused loss, and takes it away again (docs/linear_cross_entropy.md).

What is replaced is the `forward` of two instances, the model and its output layer; classes stay as they are.  The model's runs the decoder
as the class's does, and then calls the output layer with labels, which gives the loss instead of logits.  Because the layer is called,
whatever stands around a call works as before: FSDP gathers its weight and scatters the gradient, peft chooses the adapter's copy,
`vramscope run` sees the phase "logits".

Models for which that could be wrong are refused when they are patched and, unless compiled, at every call: a model that is not in FAMILIES,
a forward that does more than is known here, a loss_function of its own, an output layer that is not a plain linear one (LoRA, quantized) or
has hooks, which would see a loss where they expect logits.
"""

import functools
import inspect
from types import MethodType
from typing import NamedTuple

import torch
import torch.nn as nn
import torch.nn.functional as F

from .cross_entropy import linear_cross_entropy

__all__ = ["patch_loss", "unpatch_loss", "LossPatch"]


class Family(NamedTuple):
    decoder: str  # the attribute that the decoder is
    capped: bool = False  # whether config.final_logit_softcapping, where it is set, caps the logits


FAMILIES = {
    "LlamaForCausalLM": Family("model"),
    "MistralForCausalLM": Family("model"),
    "Qwen2ForCausalLM": Family("model"),
    "Qwen3ForCausalLM": Family("model"),
    "GemmaForCausalLM": Family("model"),
    "Gemma2ForCausalLM": Family("model", capped=True),
    "Gemma3ForCausalLM": Family("model", capped=True),
    "GPT2LMHeadModel": Family("transformer"),
}

# The names in those classes' forwards.  A forward with other names, in an unknown version, may change the logits.
KNOWN_NAMES = frozenset(
    "CausalLMOutputWithPast CausalLMOutputWithCrossAttentions attentions config cross_attentions cuda device first_device "
    "hidden_states int isinstance last_hidden_state lm_head loss_function model model_parallel output_attentions "
    "output_hidden_states past_key_values set_device slice slice_logits_to_keep to torch transformer use_return_dict "
    "vocab_size weight".split()
)
CAP_NAMES = frozenset(("final_logit_softcapping", "tanh"))


def _refuse(what):
    raise ValueError(f"patch_loss: {what}")


# ---- the model inside of what was put around it, and what is known of it ----

WRAPPERS = {"OptimizedModule": "_orig_mod", "DistributedDataParallel": "module", "FullyShardedDataParallel": "module"}


def _inner(model):
    """The model itself, out of torch.compile, DDP, FSDP1 and peft; FSDP2 leaves it where it is."""
    while True:
        kind = type(model).__name__
        if kind == "DataParallel":
            _refuse("nn.DataParallel copies the model in every call, and its copies would run the original; use DistributedDataParallel")
        if kind in WRAPPERS:
            model = getattr(model, WRAPPERS[kind])
        elif hasattr(model, "get_base_model"):
            model = model.get_base_model()
        else:
            return model


def _family(model):
    """The family of MODEL, whose forward is that of the class of transformers that gives the family its name."""
    kind = type(model)
    for base in kind.__mro__:
        if base.__name__ in FAMILIES and base.__module__.startswith("transformers."):
            if kind.forward is not base.forward or not kind.forward.__module__.startswith("transformers."):
                own = f"{kind.forward.__module__}.{kind.forward.__qualname__}"
                _refuse(f"the forward of {kind.__name__} is {own}, not that of transformers' {base.__name__}; {BY_HAND}")
            family = FAMILIES[base.__name__]
            strange = set(_original(kind).__code__.co_names) - KNOWN_NAMES - (CAP_NAMES if family.capped else set())
            if strange:
                version = __import__("transformers").__version__
                _refuse(f"{base.__name__}.forward of transformers {version} has {', '.join(sorted(strange))}, which is unknown here; {BY_HAND}")
            return family
    _refuse(f"{kind.__name__} is none of {', '.join(FAMILIES)}; {BY_HAND}")


BY_HAND = "call linear_cross_entropy(hidden, lm_head.weight, labels) where the model makes its loss"


def _original(kind):
    """The forward of class KIND as its file has it, without decorators."""
    return inspect.unwrap(kind.forward)


def _linears(head):
    """The linear layers that calling HEAD may end in: itself, or those inside of FSDP1 or of peft's modules_to_save."""
    kind = type(head).__name__
    if kind == "FullyShardedDataParallel":
        return _linears(head.module)
    _check_hooks(head)
    if kind == "ModulesToSaveWrapper":
        return [linear for copy in (head.original_module, *head.modules_to_save.values()) for linear in _linears(copy)]
    if not isinstance(head, nn.Linear) or type(head).forward is not nn.Linear.forward:
        what = f"{type(head).__module__}.{kind}"
        _refuse(f"the output layer is a {what}, more than weight and bias; leave it out of LoRA and quantization, or the loss as it is")
    if not _is_ours(head) and "forward" in head.__dict__:
        _refuse("the output layer's forward was replaced (accelerate's device_map does that), which the fused loss would pass by")
    return [head]


def _check_hooks(head):
    """FSDP2's hooks want the call and not the logits; others may want logits."""
    for hooks in (head._forward_pre_hooks, head._forward_hooks, head._backward_hooks, head._backward_pre_hooks):
        for hook in hooks.values():
            if not (getattr(hook, "__module__", None) or type(hook).__module__).startswith("torch.distributed.fsdp"):
                name = getattr(hook, "__qualname__", type(hook).__name__)
                _refuse(f"the output layer has a hook, {name}, that would see a loss where it expects logits; remove it first")


def _check_loss(model):
    from transformers.loss.loss_utils import ForCausalLMLoss

    if model.loss_function is not ForCausalLMLoss:
        name = getattr(model.loss_function, "__name__", type(model.loss_function).__name__)
        _refuse(f"the model's loss_function is {name}, not transformers' ForCausalLMLoss, and would not be called; {BY_HAND}")


# ---- what runs in the place of the two forwards ----


class _State:
    """The state of a patched model, in an attribute of the model: copied with it, and without a reference to it."""

    def __init__(self, family, kind, options):
        self.family, self.options, self.on = family, options, True
        self.names = tuple(inspect.signature(kind.forward).parameters)[1:]  # of arguments that come by position
        names = _original(kind).__globals__
        self.slicing = names.get("slice_logits_to_keep", _sliced)
        self.crossed = "cross_attentions" in _original(kind).__code__.co_names
        self.output = names["CausalLMOutputWithCrossAttentions" if self.crossed else "CausalLMOutputWithPast"]


def _sliced(hidden, keep):
    """As transformers did before it had a function for it."""
    return hidden[:, slice(-keep, None) if isinstance(keep, int) else keep, :]


STATE = "_vramscope_loss"
LOSS_ARGUMENTS = "num_items_in_batch", "ignore_index", "shift_labels"


def _is_ours(module):
    return getattr(getattr(module.__dict__.get("forward"), "__func__", None), "vramscope_loss", False)


@functools.cache
def _forward_of(kind):
    """The forward of a patched model of class KIND; inspect.signature sees the class's own, as Trainer wants it."""

    @functools.wraps(kind.forward)
    def forward(self, *args, skip_logits=None, **kwargs):
        state = getattr(self, STATE)
        named = dict(zip(state.names, args))
        named.update(kwargs)
        skip = self.training if skip_logits is None else skip_logits
        if not state.on or not skip or named.get("labels") is None:
            return type(self).forward(self, *args, **kwargs)
        return _fused(self, state, named)

    forward.vramscope_loss = True
    return forward


def _fused(model, state, named):
    """The class's forward with NAMED arguments, but for the logits."""
    family, head = state.family, model.get_output_embeddings()
    if not torch.compiler.is_compiling():
        _check_loss(model)
        if not all(_is_ours(linear) for linear in _linears(head)):
            _refuse("the output layer was replaced after patch_loss; call unpatch_loss and patch_loss again")
    labels, keep = named.pop("labels"), named.pop("logits_to_keep", 0)
    count, ignore_index, shifted = (named.pop(name, default) for name, default in zip(LOSS_ARGUMENTS, (None, -100, None)))
    return_dict = named.pop("return_dict", None)
    outputs = getattr(model, family.decoder)(**named)

    hidden = outputs.last_hidden_state
    if not isinstance(keep, int) or keep:
        hidden = state.slicing(hidden, keep)
    if shifted is None:
        shifted = F.pad(labels, (0, 1), value=ignore_index)[..., 1:]
    cap = (model.config.final_logit_softcapping or 0.0) if family.capped else 0.0
    labels = shifted.reshape(-1).to(hidden.device)
    reduction = "mean" if count is None else "sum"
    loss = head(hidden.reshape(-1, hidden.size(-1)), labels, reduction, ignore_index, cap, state.options)
    if count is not None:
        loss = loss / (count.to(loss.device) if isinstance(count, torch.Tensor) else count)
    rest = {"cross_attentions": outputs.cross_attentions} if state.crossed else {}
    output = state.output(
        loss=loss, logits=None, past_key_values=outputs.past_key_values, hidden_states=outputs.hidden_states,
        attentions=outputs.attentions, **rest,
    )  # fmt: skip
    return output if (model.config.return_dict if return_dict is None else return_dict) else output.to_tuple()


def _head_forward(self, hidden, *fused):
    if not fused:
        return type(self).forward(self, hidden)
    labels, reduction, ignore_index, cap, options = fused
    return linear_cross_entropy(
        hidden, self.weight, labels, self.bias, reduction=reduction, ignore_index=ignore_index, softcap=cap, **dict(options)
    )


_head_forward.vramscope_loss = True


# ---- what the caller sees ----


class LossPatch:
    """A model whose loss was patched; as a context manager it takes the patch away at the end."""

    def __init__(self, model):
        self.model = model

    def unpatch(self):
        unpatch_loss(self.model)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if is_patched(self.model):
            self.unpatch()
        return False


def is_patched(model):
    state = getattr(_inner(model), STATE, None)
    return state is not None and state.on


def patch_loss(model, *, mode="auto", budget=None, f32_logits=False, f32_accumulate=False):
    """Has MODEL make its training loss without logits; `mode` and the rest are linear_cross_entropy's.

    MODEL may be compiled, or inside of peft, DDP, FSDP1 or FSDP2.  Returns a LossPatch.
    """
    inner = _inner(model)
    if is_patched(inner):
        _refuse("the model's loss is patched already; call unpatch_loss first")
    family = _family(inner)
    if "forward" in inner.__dict__ and not hasattr(inner, STATE):
        _refuse("the model's forward was replaced (accelerate's prepare does that), which the fused loss would pass by; patch it before")
    _check_loss(inner)
    linears = _linears(inner.get_output_embeddings())
    options = (("mode", mode), ("budget", budget), ("f32_logits", f32_logits), ("f32_accumulate", f32_accumulate))
    for linear in linears:
        linear.forward = MethodType(_head_forward, linear)
    setattr(inner, STATE, _State(family, type(inner), options))
    if "forward" not in inner.__dict__:
        inner.forward = MethodType(_forward_of(type(inner)), inner)
    return LossPatch(model)


def unpatch_loss(model):
    """MODEL as it was before patch_loss.  Where something has wrapped its forward since, that stays, and runs the original."""
    inner = _inner(model)
    if not is_patched(inner):
        raise ValueError("unpatch_loss: the model's loss is not patched")
    getattr(inner, STATE).on = False
    for module in inner.modules():
        if module is not inner and _is_ours(module):
            del module.forward
    if _is_ours(inner):
        del inner.forward
        delattr(inner, STATE)
