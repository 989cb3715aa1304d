"""torch_unharmed.py - a training with what programs hang into autograd; prints every loss and gradient on the CPU, bit by bit, after one on a
device.
"""

import gc
import threading
import weakref

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return 3 * x * x * grad


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(64, 32)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 32)) for _ in range(3))
        self.head = nn.Linear(32, 64)

    def forward(self, x):
        h = self.embed(x)
        for i, block in enumerate(self.blocks):
            h = h + (block(h) if i == 0 else checkpoint(block, h, use_reentrant=i == 1))
        return self.head(Cube.apply(h).tanh())


calls = []


def hooked(model):
    """Hooks of every kind, that change what flows through them."""
    return [
        model.head.register_forward_pre_hook(lambda m, a: calls.append("pre")),
        model.blocks[0].register_forward_hook(lambda m, a, out: out * 1.01),
        model.head.register_full_backward_hook(lambda m, into, out: calls.append("backward")),
        model.embed.weight.register_hook(lambda g: g * 0.5),
        model.embed.weight.register_post_accumulate_grad_hook(lambda p: calls.append("grad")),
    ]


def train(seed, device="cpu"):
    torch.manual_seed(seed)
    model = Model().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    data = torch.randint(0, 64, (4, 17), generator=torch.Generator().manual_seed(seed)).to(device)
    handles = hooked(model)
    for step in range(4):
        if step == 2:
            for handle in handles:
                handle.remove()
        logits = model(data[:, :-1])
        logits.grad_fn.register_hook(lambda into, out: None)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), data[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        yield f"{seed} {step} {loss.item().hex()} {model.head.weight.grad.norm().item().hex()}"
    with torch.no_grad():
        yield f"{seed} evaluation {model.eval()(data).sum().item().hex()}"


def refused():
    """A backward that fails is the same failure."""
    x = torch.ones(300, requires_grad=True)
    y = x.exp()
    y.add_(1)
    try:
        y.sum().backward()
    except RuntimeError as error:
        return str(error).split(":")[0]


def is_freed(device):
    """Whether a sparse gradient, of which nobody can ask where it lies, is gone once the program lets go of it."""
    bag = nn.EmbeddingBag(50, 4, mode="sum", sparse=True, device=device)
    optimizer = torch.optim.SparseAdam(list(bag.parameters()))
    bag(torch.arange(40, device=device), torch.arange(0, 40, 5, device=device)).sum().backward()
    gradient = weakref.ref(bag.weight.grad)
    gc.disable()
    optimizer.step()
    optimizer.zero_grad()
    freed = gradient() is None
    gc.enable()
    return freed


class Functions(torch.overrides.TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.seen.append(function.__name__)
        return function(*args, **(kwargs or {}))


def functions():
    """What a mode of the program's sees of memory that is given to a second stream."""
    block, stream = torch.ones(8, device="cuda"), torch.cuda.Stream()
    with Functions() as mode:
        block.record_stream(stream)
    return mode.seen


torch.set_num_threads(1)
print("functions", functions() if torch.cuda.is_available() else ["record_stream"])
print("freed", is_freed("cuda" if torch.cuda.is_available() else "cpu"))
if torch.cuda.is_available():
    list(train(3, "cuda"))  # and the recording begins
    other = threading.Thread(target=lambda: list(train(4, "cuda")))
    other.start()
    other.join()
    calls.clear()
for line in train(1):
    print(line)
said = []
thread = threading.Thread(target=lambda: said.extend(train(2)))
thread.start()
thread.join()
print("\n".join(said))
print(sorted(set(calls)), len(calls))
print(refused())
x = torch.linspace(0, 1, 512, dtype=torch.float64, requires_grad=True)
(first,) = torch.autograd.grad(Cube.apply(x).sum(), x, create_graph=True)
(second,) = torch.autograd.grad(first.sum(), x)
print(second.sum().item().hex())
print(torch.func.grad(lambda t: (t.sin() ** 2).sum())(torch.ones(300)).sum().item().hex())
