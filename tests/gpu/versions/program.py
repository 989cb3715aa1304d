"""program.py FACTS.json [--kill] [--steps N] - a training with much that PyTorch's allocator can be asked for. Losses go to standard
output, to the last bit; PyTorch's counters to FACTS. --kill: dies of SIGKILL in backward. DEVICE=cpu leaves out what needs a GPU.
"""
import argparse
import gc
import json
import os
import signal
import sys
import threading

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from verify import counters  # noqa: E402

DEVICE = os.environ.get("DEVICE", "cuda")
GPU = DEVICE == "cuda"
WIDTH, HEADS, WORDS, LAYERS = (1176, 7, 10007, 5) if GPU else (168, 7, 1009, 5)


class Squeeze(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, gain):
        squeezed = torch.tanh(x * gain)
        ctx.save_for_backward(x, gain, squeezed)
        return squeezed

    @staticmethod
    def backward(ctx, grad):
        x, gain, squeezed = ctx.saved_tensors
        inner = grad * (1 - squeezed * squeezed)
        return inner * gain, (inner * x).flatten(0, -2).sum(0)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.gain = nn.Parameter(torch.ones(WIDTH))

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(self.norm(x)).chunk(3, -1))
        scores = (q @ k.transpose(-1, -2)) / (WIDTH // HEADS) ** 0.5
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
        mixed = scores.masked_fill(later, float("-inf")).softmax(-1) @ v
        return x + self.out(Squeeze.apply(mixed.transpose(1, 2).flatten(2), self.gain))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.head = nn.Linear(WIDTH, WORDS)

    def forward(self, ids, kept=0):
        x = self.words(ids)
        for number, layer in enumerate(self.layers):
            x = layer(x) if number < kept or not self.training else checkpoint(layer, x, use_reentrant=number % 2 == 0)
        return self.head(x)


def loss_of(model, ids, kept=LAYERS):
    logits = model(ids[:, :-1], kept)
    return F.cross_entropy(logits.flatten(0, 1).float(), ids[:, 1:].flatten())


def say(name, value):
    print(name, float(value).hex(), flush=True)


# ---- what happens in a step ----

class Inputs:
    """Copied on a stream of their own."""

    def __init__(self):
        self.data = torch.Generator().manual_seed(11)
        self.stream = torch.cuda.Stream() if GPU else None

    def next(self, batch):
        length = int(torch.randint(17, 211, (1,), generator=self.data))
        ids = torch.randint(WORDS, (batch, length), generator=self.data)
        if not GPU:
            return ids
        with torch.cuda.stream(self.stream):
            there = ids.pin_memory().to(DEVICE, non_blocking=True)
        torch.cuda.current_stream().wait_stream(self.stream)
        there.record_stream(torch.cuda.current_stream())
        return there


def train(model, optimizer, inputs, step):
    for part in range(3):
        loss = loss_of(model, inputs.next(3 + (step + part) % 4), kept=step % (LAYERS + 1)) / 3
        loss.backward()
        say(f"step {step} part {part}", loss.detach())
    optimizer.step()
    optimizer.zero_grad(set_to_none=step % 2 == 0)


def evaluate(model, inputs, step):
    model.eval()
    with torch.no_grad():
        say(f"evaluation {step}", loss_of(model, inputs.next(9)))
    model.train()


def penalty():
    """A gradient of a gradient."""
    net = nn.Sequential(nn.Linear(301, 77), nn.Tanh(), nn.Linear(77, 1)).to(DEVICE)
    x = torch.linspace(-1, 1, 53 * 301, device=DEVICE).reshape(53, 301).requires_grad_()
    slope, = torch.autograd.grad(net(x).sum(), x, create_graph=True)
    loss = (slope.square().sum(1) - 1).square().mean()
    loss.backward()
    say("penalty", loss.detach())


def beside():
    """Threads that train models of their own."""
    losses = {}

    def work(number):
        torch.cuda.set_device(0) if GPU else None
        generator = torch.Generator().manual_seed(number)
        weight = torch.randn(517, 129 + number, generator=generator).to(DEVICE).requires_grad_()
        for turn in range(12):
            x = torch.randn(7 * (turn + 1), 517, generator=generator).to(DEVICE)
            loss = (x @ weight).sin().square().mean()
            loss.backward()
            with torch.no_grad():
                weight -= 0.1 * weight.grad
            weight.grad = None
            losses[number, turn] = float(loss.detach())

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    for key in sorted(losses):
        say("thread %d turn %d" % key, losses[key])


# ---- of a GPU alone ----

def beyond():
    """A request beyond the limit, caught; what is cached goes back before it is refused."""
    torch.cuda.set_per_process_memory_fraction(0.1)
    cached = [torch.empty(n * 1_111_111, dtype=torch.uint8, device=DEVICE) for n in range(1, 30)]
    del cached
    try:
        torch.empty(int(0.11 * torch.cuda.get_device_properties(0).total_memory), dtype=torch.uint8, device=DEVICE)
        print("not refused")
    except torch.OutOfMemoryError:
        print("refused")
    torch.cuda.set_per_process_memory_fraction(1.0)


def graph():
    """A layer's forward and backward, captured and replayed, its pool kept meanwhile."""
    torch.manual_seed(21)
    net = nn.Sequential(nn.Linear(333, 999), nn.GELU(), nn.Linear(999, 333)).to(DEVICE)
    x = torch.linspace(-2, 2, 65 * 333, device=DEVICE).reshape(65, 333)
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            net.zero_grad(set_to_none=True)
            (net(x) - x).square().mean().backward()
    torch.cuda.current_stream().wait_stream(side)
    net.zero_grad(set_to_none=True)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured):
        loss = (net(x) - x).square().mean()
        loss.backward()
    for replay in range(6):
        captured.replay()
        with torch.no_grad():
            for p in net.parameters():
                p -= 0.3 * p.grad
        torch.empty(3_333_333, dtype=torch.uint8, device=DEVICE).fill_(replay)
        say(f"graph {replay}", loss.detach())
    net.zero_grad(set_to_none=True)
    captured.reset()


def pool():
    kept = torch.cuda.MemPool()
    for turn in range(4):
        with torch.cuda.use_mem_pool(kept):
            inside = torch.full((1_234_567 + 89 * turn,), float(turn), device=DEVICE)
        outside = inside * 2
        say(f"pool {turn}", outside.sum())
        del inside, outside
    del kept


# ---- the whole ----

def save(path, **more):
    torch.cuda.synchronize() if GPU else None
    with open(path, "w") as f:
        json.dump({"counters": counters() if GPU else {}, "torch": torch.__version__, **more}, f)
        f.flush()
        os.fsync(f.fileno())


def kill_in_backward(model, facts):
    def die(module, grads):
        save(facts)
        os.kill(os.getpid(), signal.SIGKILL)

    model.layers[LAYERS // 2].register_full_backward_pre_hook(die)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("facts")
    p.add_argument("--kill", action="store_true")
    p.add_argument("--steps", type=int, default=10)
    args = p.parse_args()
    torch.use_deterministic_algorithms(True, warn_only=True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    torch.manual_seed(5)
    model, inputs = Model().to(DEVICE), Inputs()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    penalty()
    for step in range(args.steps):
        if args.kill and step == args.steps // 2:
            kill_in_backward(model, args.facts)
        train(model, optimizer, inputs, step)
        if step % 4 == 3:
            evaluate(model, inputs, step)
        if step == args.steps // 2:
            beside()
            for part in (beyond, graph, pool, torch.cuda.empty_cache) if GPU else ():
                part()
                gc.collect()
    save(args.facts, ooms=int(GPU))


if __name__ == "__main__":
    sys.exit(main())
