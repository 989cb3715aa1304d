"""What a person looks at next: drawn items, ranks among all afterwards."""
import torch
from torch import nn
from torch.nn import functional as F

from kit import memory, options


class Next(nn.Module):
    def __init__(self, items, d, length, layers, heads, drop):
        super().__init__()
        self.items, self.places, self.drop = nn.Embedding(items + 1, d, padding_idx=0), nn.Embedding(length, d), nn.Dropout(drop)
        self.attention = nn.ModuleList(nn.MultiheadAttention(d, heads, drop) for _ in range(layers))
        self.n1, self.n2 = (nn.ModuleList(nn.LayerNorm(d, eps=1e-8) for _ in range(layers)) for _ in range(2))
        self.ff = nn.ModuleList(nn.Sequential(nn.Conv1d(d, d, 1), nn.Dropout(drop), nn.ReLU(), nn.Conv1d(d, d, 1), nn.Dropout(drop)) for _ in range(layers))
        self.last = nn.LayerNorm(d, eps=1e-8)

    def forward(self, seen):
        t = seen.shape[1]
        there = (seen != 0).unsqueeze(-1)
        x = self.drop(self.items(seen) * self.items.embedding_dim ** 0.5 + self.places(torch.arange(t, device=seen.device))) * there
        mask = ~torch.tril(torch.ones(t, t, dtype=torch.bool, device=seen.device))
        for attention, n1, n2, ff in zip(self.attention, self.n1, self.n2, self.ff):
            x = x.transpose(0, 1)
            q = n1(x)
            x = n2((q + attention(q, x, x, attn_mask=mask)[0]).transpose(0, 1))
            x = (x + ff(x.transpose(1, 2)).transpose(1, 2)) * there
        return self.last(x)


def histories(a):
    """Items as people looked at them, the popular ones more often, zeros on the left where a history is short."""
    lengths = torch.randint(3, a.length + 2, (a.batch, 1))
    items = 1 + (torch.rand(a.batch, a.length + 1).pow(4) * a.items).long().clamp(max=a.items - 1)
    return items * (torch.arange(a.length, -1, -1)[None] < lengths)


def main():
    a = options(items=350_000, d=192, length=100, layers=3, heads=2, batch=190, drawn=48)
    torch.manual_seed(1045)
    model = Next(a.items, a.d, a.length, a.layers, a.heads, 0.2).to(a.device)
    for w in model.parameters():
        if w.ndim > 1:
            nn.init.xavier_normal_(w)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98))
    for step in range(4):
        model.train()
        history = histories(a)
        seen, true = history[:, :-1].to(a.device), history[:, 1:].to(a.device)
        drawn = torch.randint(1, a.items + 1, (a.batch, a.length, a.drawn)).to(a.device)
        h = model(seen)
        yes = (h * model.items(true)).sum(-1)
        no = torch.einsum("btd,btnd->btn", h, model.items(drawn)).masked_fill(drawn == true[..., None], -1e4)
        there = (true != 0).float()
        loss = ((F.softplus(-yes) + F.softplus(no).mean(-1)) * there).sum() / there.sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.eval()
        with torch.no_grad():
            people = histories(a)[:64].to(a.device)
            scores = model(people[:, :-1])[:, -1] @ model.items.weight.T
            scores[:, 0] = float("-inf")
            top = scores.topk(10, 1).indices
            hit = (top == people[:, -1:]).any(1).float().mean().item()
        print(f"epoch {step} loss {loss.item():.4f} HR@10 {hit:.4f}")
        memory(step=step)


main()
