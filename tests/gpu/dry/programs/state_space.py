"""A selective state-space model written out (chunked scan in float32), depthwise causal convolutions, Muon for matrices and AdamW for the rest."""
import argparse
import json
import torch
import torch.nn as nn
import torch.nn.functional as F


class Mixer(nn.Module):
    def __init__(self, d, n):
        super().__init__()
        self.e, self.n = 2 * d, n
        self.norm, self.into, self.out = nn.LayerNorm(d), nn.Linear(d, 4 * d, bias=False), nn.Linear(2 * d, d, bias=False)
        self.conv = nn.Conv1d(2 * d, 2 * d, 4, groups=2 * d, padding=3)
        self.select = nn.Linear(2 * d, 2 * n + 1)
        self.a = nn.Parameter(torch.log(torch.arange(1, n + 1).float()).repeat(2 * d, 1))

    def forward(self, x):
        u, gate = self.into(self.norm(x)).chunk(2, -1)
        u = F.silu(self.conv(u.transpose(1, 2))[..., :x.shape[1]].transpose(1, 2))
        dt, b, c = self.select(u).split([1, self.n, self.n], -1)
        dt = F.softplus(dt)
        state, ys = u.new_zeros(u.shape[0], self.e, self.n, dtype=torch.float32), []
        for uc, dc, bc, cc in zip(*(t.split(24, 1) for t in (u, dt, b, c))):
            decay = (-dc.float().unsqueeze(-1) * self.a.exp()).cumsum(1)
            put = ((dc * uc).unsqueeze(-1) * bc.unsqueeze(2)).float()
            h = decay.exp() * (state.unsqueeze(1) + (put * (-decay).clamp(max=30).exp()).cumsum(1))
            ys.append((h * cc.unsqueeze(2)).sum(-1).to(u.dtype))
            state = h[:, -1]
        return x + self.out(torch.cat(ys, 1) * F.silu(gate))


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--d", type=int, default=384)
p.add_argument("--n", type=int, default=12)
p.add_argument("--layers", type=int, default=4)
p.add_argument("--batch", type=int, default=5)
p.add_argument("--seq", type=int, default=290)
a = p.parse_args()
torch.manual_seed(66)
embed, layers, head = nn.Embedding(9999, a.d), nn.Sequential(*(Mixer(a.d, a.n) for _ in range(a.layers))), nn.Linear(a.d, 9999)
model = nn.Sequential(embed, layers, head).to(a.device)
matrices = [q for m in layers for q in (m.into.weight, m.out.weight)]
rest = [q for q in model.parameters() if all(q is not m for m in matrices)]
optimizers = [torch.optim.Muon(matrices, lr=0.02), torch.optim.AdamW(rest, lr=3e-4)]
for step in range(3):
    ids = torch.randint(0, 9999, (a.batch, a.seq + 1)).to(a.device)
    loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    for o in optimizers:
        o.step()
        o.zero_grad()
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
