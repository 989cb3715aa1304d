"""torch_llama.py - trains a decoder like Llama 3 with the usual loss or the fused one, to see what the logits cost.

    vramscope run -o eager.db -- python examples/torch_llama.py --loss eager --tokens 8192
    vramscope run -o fused.db -- python examples/torch_llama.py --loss fused --tokens 8192
    vramscope report fused.db

Sizes are those of Llama 3 8B with fewer layers; weights are random, in bf16; AdamW has its states in bf16, or
(--state-dtype fp32) states and copies of the weights in fp32, 16 bytes a parameter in all.  Each token of the made-up text
is mostly followed by the same other one, so that the loss falls.  --device cpu with small sizes runs anywhere.

A long context on one GPU, the whole model: of each layer's activations only its input is kept, in pinned host memory,
where the optimizer's states are, too (62 GiB with bf16 states):

    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True vramscope run -o long.db -- python examples/torch_llama.py \\
        --layers 32 --tokens 131072 --batch 1 --steps 2 --offload --memory-limit 78

The loss is marked as phase "logits" in both variants: `vramscope run` finds only an output layer that is called as a
module, and the fused loss calls none.  --facts FILE writes losses, times and PyTorch's counters as JSON.
"""

import argparse
import json
import os
import sys
import time
from contextlib import nullcontext

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd.graph import save_on_cpu
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

HERE = os.path.dirname(os.path.realpath(__file__))  # `vramscope run` finds these by itself
sys.path += [os.path.join(HERE, "../python"), os.path.join(HERE, "../shim/framework/python")]  # installed, source tree
from vramscope.cross_entropy import check, linear_cross_entropy  # noqa: E402
from vramscope import phase  # noqa: E402

# ---- the model, as in Hugging Face's modeling_llama: what it keeps for the backward is what theirs keeps ----


class RMSNorm(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(hidden))

    def forward(self, x):
        wide = x.float()
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)
        return self.weight * wide.to(x.dtype)


def rotary_tables(length, size, base=500000.0):
    frequencies = base ** (-torch.arange(0, size, 2).float() / size)
    angles = torch.outer(torch.arange(length).float(), frequencies).repeat(1, 2)
    dtype = torch.get_default_dtype()
    return angles.cos().to(dtype), angles.sin().to(dtype)


def rotate(x, tables):
    cos, sin = tables
    left, right = x.chunk(2, dim=-1)
    return x * cos + torch.cat((-right, left), dim=-1) * sin


ATTENTION = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}


class Attention(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.size = a.hidden // a.heads
        self.kernels = [ATTENTION[a.attention]]  # PyTorch's choice would differ between versions, and with it the memory
        width = a.kv_heads * self.size
        self.q_proj, self.o_proj = nn.Linear(a.hidden, a.hidden, bias=False), nn.Linear(a.hidden, a.hidden, bias=False)
        self.k_proj, self.v_proj = nn.Linear(a.hidden, width, bias=False), nn.Linear(a.hidden, width, bias=False)

    def forward(self, x, tables):
        batch, length, hidden = x.shape
        q, k, v = (f(x).view(batch, length, -1, self.size).transpose(1, 2) for f in (self.q_proj, self.k_proj, self.v_proj))
        with sdpa_kernel(self.kernels if x.is_cuda else [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
            y = F.scaled_dot_product_attention(rotate(q, tables), rotate(k, tables), v, is_causal=True, enable_gqa=True)
        return self.o_proj(y.transpose(1, 2).reshape(batch, length, hidden))


class Block(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.attention_norm, self.mlp_norm, self.attention = RMSNorm(a.hidden), RMSNorm(a.hidden), Attention(a)
        self.gate_proj, self.up_proj = nn.Linear(a.hidden, a.ffn, bias=False), nn.Linear(a.hidden, a.ffn, bias=False)
        self.down_proj = nn.Linear(a.ffn, a.hidden, bias=False)

    def forward(self, x, tables):
        x = x + self.attention(self.attention_norm(x), tables)
        y = self.mlp_norm(x)
        return x + self.down_proj(F.silu(self.gate_proj(y)) * self.up_proj(y))


class Llama(nn.Module):
    """Gives the loss; LOSS(hidden, output weight, labels) is the one thing that the variants differ in."""

    def __init__(self, a, loss):
        super().__init__()
        self.embed_tokens = nn.Embedding(a.vocab, a.hidden)
        self.layers = nn.ModuleList(Block(a) for _ in range(a.layers))
        self.norm = RMSNorm(a.hidden)
        self.lm_head = nn.Linear(a.hidden, a.vocab, bias=False)
        if a.tied:
            self.lm_head.weight = self.embed_tokens.weight
        self.tables = rotary_tables(a.tokens // a.batch, a.hidden // a.heads)
        self.loss, self.checkpointing, self.offload = loss, a.checkpointing or a.offload, a.offload
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, ids, labels):
        x = self.embed_tokens(ids)
        for layer in self.layers:
            with save_on_cpu(pin_memory=x.is_cuda) if self.offload else nullcontext():  # what is saved is the layer's input alone
                x = checkpoint(layer, x, self.tables, use_reentrant=False) if self.checkpointing else layer(x, self.tables)
        x = self.norm(x)
        with phase("logits"):
            return self.loss(x, self.lm_head.weight, labels)


# ---- the losses ----


def eager(hidden, weight, labels):
    """As Hugging Face's ForCausalLMLoss: logits in bf16, the same in fp32, and what cross_entropy makes of them."""
    logits = F.linear(hidden, weight)
    return F.cross_entropy(logits.float().flatten(0, 1), labels.flatten())


def halves(hidden, weight, labels):
    """The same sum in another order: how far bf16 training drifts by itself."""
    parts = zip(hidden.flatten(0, 1).chunk(2), labels.flatten().chunk(2))
    return sum(F.cross_entropy(F.linear(x, weight).float(), y, reduction="sum") for x, y in parts) / labels.numel()


def fused(hidden, weight, labels):
    return linear_cross_entropy(hidden, weight, labels)


DTYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}
LOSSES = {"eager": eager, "halves": halves, "fused": fused}


# ---- the optimizer that works by pieces ----


class PiecewiseAdamW(torch.optim.Optimizer):
    """AdamW in fp32, a piece of a weight at a time, so that its temporaries stay small.

    Its states are in STATE_DTYPE; where that is wider than the weights, a copy of these is among them.  With ON_HOST they
    lie in pinned host memory: each piece's go to the device and back, in the order of the stream.
    """

    PIECE = 1 << 24  # elements

    def __init__(self, parameters, state_dtype, on_host, **choices):
        super().__init__(parameters, choices)
        self.state_dtype, self.on_host = state_dtype, on_host

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update(parameter, group, self.state[parameter])

    def _home(self, piece):
        """Where a state of a piece stays between steps."""
        pinned = self.on_host and piece.is_cuda
        return torch.empty(piece.shape, dtype=self.state_dtype, device="cpu" if self.on_host else piece.device, pin_memory=pinned)

    def _update(self, parameter, group, state):
        pieces = list(zip(parameter.view(-1).split(self.PIECE), parameter.grad.view(-1).split(self.PIECE)))
        if not state:
            master = torch.finfo(self.state_dtype).bits > torch.finfo(parameter.dtype).bits
            state["step"], state["homes"] = 0, [[self._home(value) for _ in range(3 if master else 2)] for value, _ in pieces]
        state["step"] += 1
        for (value, grad), homes in zip(pieces, state["homes"]):
            self._update_piece(value, grad.float(), homes, group, state["step"])

    def _update_piece(self, value, grad, homes, group, step):
        if step == 1:
            mean, square, master = torch.zeros_like(grad), torch.zeros_like(grad), value.float()
        else:
            here = [home.to(value.device, non_blocking=True).float() for home in homes]
            mean, square, master = here if len(here) == 3 else (*here, value.float())
        first, second = group["betas"]
        lr, decay = group["lr"], 1 - group["lr"] * group["weight_decay"]
        bias, root = 1 - first**step, (1 - second**step) ** 0.5
        mean.lerp_(grad, 1 - first)
        square.mul_(second).addcmul_(grad, grad, value=1 - second)
        master.mul_(decay).addcdiv_(mean, square.sqrt().div_(root).add_(1e-8), value=-lr / bias)
        value.copy_(master)
        for home, new in zip(homes, (mean, square, master)):
            home.copy_(new.to(home.dtype), non_blocking=True)


def make_optimizer(model, a):
    choices = dict(lr=a.lr, betas=(0.9, 0.95), weight_decay=0.1)
    if a.offload or (a.state_dtype == "fp32" and a.dtype != "fp32"):
        return PiecewiseAdamW(model.parameters(), DTYPES[a.state_dtype], a.offload, **choices)
    return torch.optim.AdamW(model.parameters(), fused=True, **choices)  # without temporaries, unlike foreach


# ---- the text ----


class Text:
    """A ring of ALPHABET tokens out of the vocabulary: nine times out of ten the next one follows, else any."""

    def __init__(self, a, alphabet=1024):
        self.random = torch.Generator().manual_seed(a.seed + 1)
        self.ring = torch.randperm(a.vocab, generator=self.random)[:alphabet]
        self.shape = a.batch, a.tokens // a.batch + 1

    def batch(self, device):
        anywhere = torch.randint(len(self.ring), self.shape, generator=self.random)
        follows = torch.rand(self.shape, generator=self.random) < 0.9
        steps = torch.where(follows, 1, anywhere)
        steps[:, 0] = anywhere[:, 0]
        tokens = self.ring[steps.cumsum(1) % len(self.ring)].to(device)
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


# ---- training ----


def parse():
    p = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    p.add_argument("--loss", choices=LOSSES, default="fused")
    p.add_argument("--tokens", type=int, default=8192, help="of a step, all sequences together")
    p.add_argument("--batch", type=int, default=4, help="sequences")
    p.add_argument("--layers", type=int, default=2)
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--lr", type=float, default=5e-5)
    p.add_argument("--warmup", type=int, default=10, help="steps in which the learning rate rises to --lr")
    p.add_argument("--checkpointing", action="store_true", help="keeps a layer's input, and computes the rest again")
    p.add_argument("--offload", action="store_true", help="--checkpointing, with the inputs and the optimizer's states in the host's memory")
    p.add_argument("--memory-limit", type=float, metavar="GIB", help="as if the GPU had so much for PyTorch")
    p.add_argument("--attention", choices=ATTENTION, default="flash", help="on a GPU")
    p.add_argument("--tied", action="store_true", help="the embedding's weight is the output layer's")
    p.add_argument("--dtype", choices=("bf16", "fp32"), default="bf16")
    p.add_argument("--state-dtype", choices=("bf16", "fp32"), default="bf16", help="AdamW's states")
    p.add_argument("--deterministic", action="store_true", help="the same bits each time, slower")
    p.add_argument("--device", default="cuda")
    p.add_argument("--facts", help="write a JSON file")
    for name, value in (("hidden", 4096), ("heads", 32), ("kv-heads", 8), ("ffn", 14336), ("vocab", 128256)):
        p.add_argument("--" + name, type=int, default=value)
    a = p.parse_args()
    if a.tokens % a.batch:
        p.error(f"--tokens {a.tokens} is no multiple of --batch {a.batch}")
    return a


def build(a):
    """The model and its optimizer, weights and tables born on the device in their type."""
    torch.manual_seed(a.seed)
    torch.set_default_dtype(DTYPES[a.dtype])
    with torch.device(a.device):
        model = Llama(a, LOSSES[a.loss])
    torch.set_default_dtype(torch.float32)
    return model, make_optimizer(model, a)


def synchronize(a):
    if a.device.startswith("cuda"):
        torch.cuda.synchronize()


def train_step(model, optimizer, ids, labels):
    loss = model(ids, labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss


def counters(a):
    if not a.device.startswith("cuda"):
        return {}
    return {
        "max_memory_allocated": torch.cuda.max_memory_allocated(),
        "max_memory_reserved": torch.cuda.max_memory_reserved(),
        "memory_allocated": torch.cuda.memory_allocated(),
    }


def main():
    a = parse()
    if a.deterministic:
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        torch.use_deterministic_algorithms(True)  # with warn_only flash attention adds up in any order
        torch.utils.deterministic.fill_uninitialized_memory = False
    if a.memory_limit and a.device.startswith("cuda"):
        torch.cuda.set_per_process_memory_fraction(min(1.0, a.memory_limit * 2**30 / torch.cuda.get_device_properties(a.device).total_memory))
    model, optimizer = build(a)
    text, losses, step_ms = Text(a), [], []
    parameters = sum(p.numel() for p in model.parameters())
    print(f"{parameters} parameters, {a.loss} loss, {a.tokens} tokens a step, {a.layers} layers", flush=True)
    for step in range(1, a.steps + 1):
        ids, labels = text.batch(a.device)
        for group in optimizer.param_groups:
            group["lr"] = a.lr * min(1, step / max(1, a.warmup))
        synchronize(a)
        begin = time.perf_counter()
        losses.append(train_step(model, optimizer, ids, labels).item())
        synchronize(a)
        step_ms.append((time.perf_counter() - begin) * 1e3)
        print(f"step {step:4d}  loss {losses[-1]:.7f}  {step_ms[-1]:9.2f} ms", flush=True)
    check()
    facts = dict(vars(a), parameters=parameters, losses=losses, step_ms=step_ms, torch=torch.__version__, **counters(a))
    if "max_memory_allocated" in facts:
        print(f"max_memory_allocated {facts['max_memory_allocated']} bytes, reserved {facts['max_memory_reserved']}")
    if a.facts:
        with open(a.facts, "w") as file:
            json.dump(facts, file)


if __name__ == "__main__":
    main()
