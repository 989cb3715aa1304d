"""Experts choose their tokens, each as many, multiplied in a batch."""
import torch
from torch import nn
from torch.nn import functional as F

from kit import memory, options


class Experts(nn.Module):
    def __init__(self, d, inner, experts, factor):
        super().__init__()
        self.score, self.factor, self.experts = nn.Linear(d, experts, bias=False), factor, experts
        self.gate, self.up, self.down = (nn.Parameter(torch.randn(experts, *s) * 0.02) for s in ((d, inner), (d, inner), (inner, d)))

    def forward(self, x):
        flat = x.flatten(0, 1)
        room = int(self.factor * len(flat) / self.experts)
        shares = self.score(flat).float().softmax(-1)
        weight, index = shares.t().topk(room, dim=1, sorted=False)
        h = flat[index]
        h = torch.bmm(F.silu(torch.bmm(h, self.gate)) * torch.bmm(h, self.up), self.down)
        h = (h * weight[..., None].to(h.dtype)).flatten(0, 1)
        return torch.zeros_like(flat, dtype=h.dtype).index_add(0, index.flatten(), h).view_as(x)


class Dense(nn.Module):
    def __init__(self, d, inner):
        super().__init__()
        self.both, self.down = nn.Linear(d, 2 * inner, bias=False), nn.Linear(inner, d, bias=False)

    def forward(self, x):
        gate, up = self.both(x).chunk(2, -1)
        return self.down(F.silu(gate) * up)


class Block(nn.Module):
    def __init__(self, d, heads, mlp):
        super().__init__()
        self.heads, self.mlp, self.n1, self.n2 = heads, mlp, nn.RMSNorm(d), nn.RMSNorm(d)
        self.q, self.kv, self.o = nn.Linear(d, d, bias=False), nn.Linear(d, 2 * d // heads, bias=False), nn.Linear(d, d, bias=False)

    def forward(self, x):
        h = self.n1(x)
        q, (k, v) = self.q(h).unflatten(-1, (self.heads, -1)).transpose(1, 2), self.kv(h).unsqueeze(1).chunk(2, -1)
        y = F.scaled_dot_product_attention(q, k.expand_as(q), v.expand_as(q), is_causal=True)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.n2(x))


def main():
    a = options(d=640, layers=6, heads=10, experts=12, vocab=32_768, batch=5, seq=760, factor=2.0)
    torch.manual_seed(1047)
    mlps = [Experts(a.d, 2 * a.d, a.experts, a.factor) if i % 2 else Dense(a.d, 3 * a.d) for i in range(a.layers)]
    model = nn.Sequential(nn.Embedding(a.vocab, a.d), *(Block(a.d, a.heads, mlp) for mlp in mlps), nn.RMSNorm(a.d), nn.Linear(a.d, a.vocab, bias=False))
    model[-1].weight = model[0].weight
    model.to(a.device)
    optimizer = torch.optim.Adafactor(model.parameters(), lr=1e-2, foreach=False)
    for step in range(4):
        ids = torch.randint(0, a.vocab, (a.batch, a.seq + 1)).to(a.device)
        with torch.autocast(a.device, dtype=torch.bfloat16):
            logits = model(ids[:, :-1])
            z = logits.float().logsumexp(-1)
            loss = (z - logits.gather(2, ids[:, 1:, None]).squeeze(2).float()).mean() + 1e-4 * z.square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("step", step, "loss", loss.item())
        memory(step=step)


main()
