"""A diffusion transformer with adaptive norms, classes dropped at random, every second block recomputed; fp32 sums, bf16 products."""
import argparse, json
import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint


def modulate(x, shift, scale):
    return x * (1 + scale.unsqueeze(1)) + shift.unsqueeze(1)


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.n1, self.n2 = (nn.LayerNorm(d, elementwise_affine=False, eps=1e-6) for _ in range(2))
        self.attn = nn.MultiheadAttention(d, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(approximate="tanh"), nn.Linear(4 * d, d))
        self.ada = nn.Sequential(nn.SiLU(), nn.Linear(d, 6 * d))

    def forward(self, x, c):
        s1, k1, g1, s2, k2, g2 = self.ada(c).chunk(6, dim=1)
        y = modulate(self.n1(x), s1, k1)
        x = x + g1.unsqueeze(1) * self.attn(y, y, y, need_weights=False)[0]
        return x + g2.unsqueeze(1) * self.mlp(modulate(self.n2(x), s2, k2))


class DiT(nn.Module):
    def __init__(self, d, depth, heads, size, patch):
        super().__init__()
        self.patch = nn.Conv2d(4, d, patch, patch)
        self.position = nn.Parameter(torch.zeros(1, (size // patch) ** 2, d))
        self.time, self.label = nn.Sequential(nn.Linear(256, d), nn.SiLU(), nn.Linear(d, d)), nn.Embedding(1001, d)
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(depth))
        self.out = nn.Linear(d, patch * patch * 4)

    def forward(self, x, t, y):
        b, _, h, _ = x.shape
        p = self.patch.kernel_size[0]
        x = self.patch(x).flatten(2).transpose(1, 2) + self.position
        f = t[:, None] * torch.exp(-torch.arange(128, device=t.device) / 14)
        c = self.time(torch.cat([f.cos(), f.sin()], 1)) + self.label(y)
        for i, block in enumerate(self.blocks):
            x = checkpoint(block, x, c, use_reentrant=False) if i % 2 else block(x, c)
        return self.out(x).view(b, h // p, h // p, p, p, 4).permute(0, 5, 1, 3, 2, 4).reshape(b, 4, h, h)


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--d", type=int, default=768)
p.add_argument("--depth", type=int, default=10)
p.add_argument("--batch", type=int, default=23)
p.add_argument("--latent", type=int, default=36)
a = p.parse_args()
torch.manual_seed(41)
net = DiT(a.d, a.depth, 12, a.latent, 2).to(a.device)
optimizer = torch.optim.AdamW(net.parameters(), 1e-4, weight_decay=0, fused=True)
for step in range(4):
    latent = torch.randn(a.batch, 4, a.latent, a.latent).to(a.device)
    y = torch.where(torch.rand(a.batch) < 0.1, 1000, torch.randint(0, 1000, (a.batch,))).to(a.device)
    t = torch.rand(a.batch, device=a.device)
    noise = torch.randn_like(latent)
    with torch.autocast(a.device, dtype=torch.bfloat16):
        v = net(torch.lerp(latent, noise, t[:, None, None, None]), t * 1000, y)
        loss = (v - (noise - latent)).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
