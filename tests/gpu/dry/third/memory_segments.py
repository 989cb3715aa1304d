"""Memories of the segment before, relative places, an adaptive softmax; float32."""
import torch
from torch import nn
from torch.nn import functional as F

from kit import memory, options


class RelativeLayer(nn.Module):
    def __init__(self, d, heads, inner, drop):
        super().__init__()
        self.heads, self.scale = heads, (d // heads) ** -0.5
        self.q, self.kv, self.r, self.o = nn.Linear(d, d, bias=False), nn.Linear(d, 2 * d, bias=False), nn.Linear(d, d, bias=False), nn.Linear(d, d, bias=False)
        self.u, self.w = (nn.Parameter(torch.zeros(heads, d // heads)) for _ in range(2))
        self.n1, self.n2, self.drop = nn.LayerNorm(d), nn.LayerNorm(d), nn.Dropout(drop)
        self.ff = nn.Sequential(nn.Linear(d, inner), nn.ReLU(inplace=True), nn.Dropout(drop), nn.Linear(inner, d), nn.Dropout(drop))

    def forward(self, x, memory, positions, mask):
        t, b, d = x.shape
        both = torch.cat([memory, x])
        q = self.q(x).view(t, b, self.heads, -1)
        k, v = (s.view(len(both), b, self.heads, -1) for s in self.kv(both).chunk(2, -1))
        r = self.r(positions).view(len(both), self.heads, -1)
        content = torch.einsum("ibnd,jbnd->bnij", q + self.u, k)
        place = torch.einsum("ibnd,jnd->bnij", q + self.w, r)
        place = F.pad(place, (1, 0)).view(b, self.heads, len(both) + 1, t)[:, :, 1:].reshape(b, self.heads, t, len(both))
        score = ((content + place) * self.scale).masked_fill(mask, float("-inf"))
        y = torch.einsum("bnij,jbnd->ibnd", self.drop(score.softmax(-1)), v).reshape(t, b, d)
        x = self.n1(x + self.drop(self.o(y)))
        return self.n2(x + self.ff(x))


class Model(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.words, self.drop = nn.Embedding(a.vocab, a.d), nn.Dropout(0.1)
        self.layers = nn.ModuleList(RelativeLayer(a.d, a.heads, 4 * a.d, 0.1) for _ in range(a.layers))
        self.loss = nn.AdaptiveLogSoftmaxWithLoss(a.d, a.vocab, [a.vocab // 20, a.vocab // 4], div_value=4.0)
        self.register_buffer("rates", 10000 ** (-torch.arange(0, a.d, 2) / a.d))

    def forward(self, ids, targets, memories):
        t, m = len(ids), len(memories[0])
        angle = torch.arange(t + m - 1, -1, -1, device=ids.device)[:, None] * self.rates
        positions = self.drop(torch.cat([angle.sin(), angle.cos()], -1))
        mask = torch.ones(t, t + m, dtype=torch.bool, device=ids.device).triu(1 + m)
        x, kept = self.drop(self.words(ids)), []
        for layer, memory in zip(self.layers, memories):
            kept.append(torch.cat([memory, x.detach()])[-len(memory):] if m else x.detach())
            x = layer(x, memory, positions, mask)
        return self.loss(self.drop(x).flatten(0, 1), targets.flatten()).loss, kept


a = options(d=512, heads=8, layers=8, vocab=120_000, batch=14, segment=190)
torch.manual_seed(1006)
model = Model(a).to(a.device)
optimizer = torch.optim.Adam(model.parameters(), lr=2.5e-4)
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 1000, eta_min=1e-6)
text = (torch.rand(a.segment * 6 + 1, a.batch) ** 3 * a.vocab).long()
memories = [torch.zeros(0, a.batch, a.d, device=a.device) for _ in range(a.layers)]
for step in range(5):
    part = text[step * a.segment:(step + 1) * a.segment + 1].to(a.device)
    loss, memories = model(part[:-1], part[1:], memories)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    optimizer.step()
    schedule.step()
    print(f"| segment {step} | loss {loss.item():5.2f} | memory {len(memories[0])}")
    memory(step=step)
