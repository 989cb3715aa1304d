"""torch_layers.py NAMES LOG - models whose blocks have layers, beside PyTorch's own ModuleTracker.

LOG gets a number for each block, 0 where no operation made it.  NAMES has for each number "forward" or "backward" and the innermost path
that the tracker had open, "?" where its open ones form no chain.  Lines without a number: two names of one module.
"""
import sys

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from torch.utils.module_tracker import ModuleTracker

torch.backends.cudnn.enabled = False  # layers are no matter of how it is computed
tracker, numbers, log, case, root = ModuleTracker(), {}, [], "", ""
torch.set_default_device("cuda")
torch.cuda.init()


def innermost():
    """A root beside others is a module that the tracker found nowhere: one that is called in them."""
    names = sorted(tracker.parents - {"Global"}, key=len)
    lost = [name for name in names if "." not in name and name != root]
    names = [name for name in names if name not in lost]
    if len(lost) > 1 or not all(b.startswith(a + ".") for a, b in zip(names, names[1:])):
        return "?"
    return (lost or names[-1:] or [""])[0]


class Telling(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        key = ("backward" if tracker.is_bw else "forward", innermost(), case)
        made(0)
        try:
            return func(*args, **(kwargs or {}))
        finally:
            made(numbers.setdefault(key, len(numbers) + 1))


def made(number):
    """The blocks since the last call."""
    log.extend([number] * (torch._C._cuda_memoryStats(0)["allocation"]["all"]["allocated"] - len(log)))


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.out(torch.softmax(q @ k.transpose(-1, -2), -1) @ v)


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.attn = nn.LayerNorm(width), Attention(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attn(self.norm(x))
        return x + self.mlp(x)


class Model(nn.Module):
    def __init__(self, width=32, layers=3, recompute=None):
        super().__init__()
        self.embed = nn.Embedding(100, width)
        self.layers = nn.ModuleList(Block(width) for _ in range(layers))
        self.head = nn.Linear(width, 100)
        self.recompute = recompute

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x) if self.recompute is None else checkpoint(layer, x, use_reentrant=self.recompute)
        return self.head(nn.Softplus()(x))  # made here: it lies nowhere


class Net(nn.Module):
    """A CNN with a shared activation and a module that comes later."""

    def __init__(self):
        super().__init__()
        self.act = nn.Tanh()
        self.features = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), self.act, nn.Conv2d(8, 8, 3), self.act)
        self.head = nn.Linear(8 * 12 * 12, 10)

    def forward(self, x):
        return self.head(self.features(x).flatten(1))


def train(name, model, *inputs):
    global case, root
    case, root = name, type(model).__name__
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(2):
        out = model(*inputs)
        nn.CrossEntropyLoss()(out.flatten(0, -2), torch.zeros(out.flatten(0, -2).shape[0], dtype=torch.long)).backward()
        with torch.device("cpu"):  # where an optimizer's counts are
            optimizer.step()
        optimizer.zero_grad()


with tracker, Telling():
    ids = torch.arange(64).reshape(4, 16) % 100
    train("model", Model(), ids)
    train("reentrant", Model(recompute=True), ids)
    train("not_reentrant", Model(recompute=False), ids)
    net = Net()
    train("net", net, torch.ones(4, 3, 16, 16))
    net.features.append(nn.Hardtanh())
    train("later", net, torch.ones(4, 3, 16, 16))
    try:
        import transformers
    except ImportError:
        transformers = None
    if transformers:
        small = dict(vocab_size=101, hidden_size=32, intermediate_size=64, num_hidden_layers=3, num_attention_heads=4,
                     num_key_value_heads=2)
        llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(**small, attn_implementation="eager"))
        case, root = "llama", "LlamaForCausalLM"
        for _ in range(2):
            llama(input_ids=ids, labels=ids).loss.backward()
made(0)
with open(sys.argv[2], "w") as file:
    file.writelines(f"{n}\n" for n in log)
with open(sys.argv[1], "w") as names:
    for (when, name, of), number in numbers.items():
        names.write(f"{number}\t{when}\t{name}\t{of}\n")
    paths = [f"Net.{path}" for path, module in net.named_modules(remove_duplicate=False) if module is net.act]
    for path in paths:
        names.write(f"\t{paths[0]}\t{path}\t\n")
    names.write("\tNet.features.5\tHardtanh\t\n")
