"""values_bytes.py: what PyTorch's allocator holds at most, for programs in which no value matters."""
import torch
from torch.utils.checkpoint import checkpoint

device = "cuda"


def told(name, function):
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    for _ in range(3):
        function()
        print(name, torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), torch.cuda.memory_allocated())


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.a, self.b, self.c = torch.nn.LayerNorm(width), torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (4, -1)).transpose(1, 2) for part in self.a(self.norm(x)).chunk(3, -1))
        x = x + torch.nn.functional.scaled_dot_product_attention(q * 2 + 1, k.neg(), v, is_causal=True).transpose(1, 2).flatten(2)
        return x * torch.sigmoid(x.mean(-1, keepdim=True)) + self.c(torch.cat([self.b(x).sin().chunk(2, -1)[0], self.b(x)[..., : 2 * x.size(-1)].pow(2)], -1))


def training(steps, optimizer, recompute=False, dtype=None, foreach=None):
    model = torch.nn.Sequential(torch.nn.Embedding(500, 64), *[Block(64) for _ in range(3)], torch.nn.Linear(64, 500)).to(device)
    states = optimizer(model.parameters(), foreach=foreach)
    ids = torch.randint(0, 500, (4, 96)).to(device)

    def step():
        with torch.autocast("cuda", dtype, enabled=dtype is not None):
            x = model[0](ids)
            for block in model[1:-1]:
                x = checkpoint(block, x, use_reentrant=False) if recompute else block(x)
            loss = torch.nn.functional.cross_entropy(model[-1](x).flatten(0, 1), ids.flatten(), ignore_index=0)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        states.step()
        states.zero_grad()

    return step


def convolutions():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 16, 3), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Conv2d(16, 8, 3), torch.nn.Upsample(scale_factor=2)).to(device)
    return lambda: model(torch.randn(4, 3, 64, 64, device=device)).square().mean().backward()


def raising():
    """What an exception passes is let go of as without our frames."""
    a = torch.randn(300, 300, device=device)

    def step():
        try:
            torch.cat([a * 2, (a * 3)[:, :7]])
        except RuntimeError:
            print("raised", torch.cuda.memory_allocated())

    return step


for name, function in {
    "plain": training(3, torch.optim.AdamW),
    "one by one": training(3, torch.optim.AdamW, foreach=False),
    "momentum": training(3, torch.optim.Adagrad),
    "recomputed": training(3, torch.optim.AdamW, recompute=True),
    "bf16": training(3, torch.optim.AdamW, dtype=torch.bfloat16),
    "convolutions": convolutions(),
    "raising": raising(),
}.items():
    told(name, function)
