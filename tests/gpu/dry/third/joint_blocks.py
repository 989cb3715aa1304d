"""Images from text by rectified flow: both look at each other."""
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from kit import memory, options


class Stream(nn.Module):
    """The weights of one kind of token within a block."""
    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.ada = heads, nn.Linear(d, 6 * d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.qn, self.kn = nn.RMSNorm(d // heads), nn.RMSNorm(d // heads)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU("tanh"), nn.Linear(4 * d, d))

    def look(self, x, c):
        self_shift, self_scale, *rest = self.ada(F.silu(c)).unsqueeze(1).chunk(6, -1)
        h = F.layer_norm(x, x.shape[-1:]) * (1 + self_scale) + self_shift
        q, k, v = (s.unflatten(-1, (self.heads, -1)).transpose(1, 2) for s in self.qkv(h).chunk(3, -1))
        return self.qn(q), self.kn(k), v, rest

    def finish(self, x, y, rest):
        gate, shift, scale, gate2 = rest
        x = x + gate * self.out(y.transpose(1, 2).flatten(2))
        return x + gate2 * self.mlp(F.layer_norm(x, x.shape[-1:]) * (1 + scale) + shift)


def turn(x, angles):
    a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack([a * angles.cos() - b * angles.sin(), a * angles.sin() + b * angles.cos()], -1).flatten(-2).type_as(x)


class Joint(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.image, self.text = Stream(d, heads), Stream(d, heads)

    def forward(self, x, y, c, angles):
        qi, ki, vi, ri = self.image.look(x, c)
        qt, kt, vt, rt = self.text.look(y, c)
        q, k, v = torch.cat([qt, turn(qi, angles)], 2), torch.cat([kt, turn(ki, angles)], 2), torch.cat([vt.to(vi.dtype), vi], 2)
        t, i = F.scaled_dot_product_attention(q.to(v.dtype), k.to(v.dtype), v).split([y.shape[1], x.shape[1]], 2)
        return self.image.finish(x, i, ri), self.text.finish(y, t, rt)


class Model(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.recompute, self.patch = a.recompute, nn.Linear(64, a.d)
        self.words, self.time = nn.Linear(768, a.d), nn.Sequential(nn.Linear(256, a.d), nn.SiLU(), nn.Linear(a.d, a.d))
        self.pooled, self.blocks = nn.Linear(768, a.d), nn.ModuleList(Joint(a.d, a.heads) for _ in range(a.depth))
        self.ada, self.last = nn.Linear(a.d, 2 * a.d), nn.Linear(a.d, 64)
        rates = 1 / 100 ** torch.linspace(0, 1, a.d // a.heads // 4)
        grid = torch.cartesian_prod(torch.arange(a.rows), torch.arange(a.columns)).float()
        self.register_buffer("angles", (grid[:, :, None] * rates).flatten(1), persistent=False)

    def forward(self, x, t, words):
        wave = t[:, None] * 1000 / 10000 ** torch.linspace(0, 1, 128, device=t.device)
        c = self.time(torch.cat([wave.cos(), wave.sin()], 1).to(t.dtype)) + self.pooled(words.mean(1))
        x, y = self.patch(x), self.words(words)
        for block in self.blocks:
            x, y = checkpoint(block, x, y, c, self.angles, use_reentrant=False) if self.recompute else block(x, y, c, self.angles)
        shift, scale = self.ada(F.silu(c)).unsqueeze(1).chunk(2, -1)
        return self.last(F.layer_norm(x, x.shape[-1:]) * (1 + scale) + shift)


a = options(d=640, heads=10, depth=9, batch=9, rows=24, columns=20, words=77, recompute=False, pure=False)
torch.manual_seed(1026)
kind = torch.bfloat16 if a.pure else torch.float32
model = Model(a).to(a.device, kind)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), fused=True)
for step in range(4):
    image = torch.randn(a.batch, a.rows * a.columns, 64).to(a.device, kind)
    words = torch.randn(a.batch, a.words, 768) * (torch.rand(a.batch, 1, 1) > 0.1)
    noise, t = torch.randn_like(image), torch.randn(a.batch, device=a.device).sigmoid().to(kind)
    mixed = torch.lerp(image, noise, t[:, None, None])
    with torch.autocast(a.device, dtype=torch.bfloat16, enabled=not a.pure):
        v = model(mixed, t, words.to(a.device, kind))
    loss = F.mse_loss(v.float(), (noise - image).float())
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} loss {loss.item():.4f} norm {norm.item():.3f}")
    memory(step=step)
