"""A decoder with attention by one backend; where that takes one, a learned bias."""
import contextlib
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from kit import memory, options

BACKENDS = {"math": SDPBackend.MATH, "efficient": SDPBackend.EFFICIENT_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}


class Bias(nn.Module):
    """A number for each head and each bucket of distances, by logarithm."""
    def __init__(self, heads, buckets=32):
        super().__init__()
        self.table, self.buckets = nn.Embedding(buckets, heads), buckets

    def forward(self, t):
        distance = (torch.arange(t)[:, None] - torch.arange(t)[None]).clamp(min=0)
        bucket = (distance.float().add(1).log2() * 3).long().clamp(max=self.buckets - 1).to(self.table.weight.device)
        far = torch.full((t, t), float("-inf"), device=bucket.device).triu(1)
        return (self.table(bucket).permute(2, 0, 1) + far).contiguous()


class Block(nn.Module):
    def __init__(self, d, heads, drop):
        super().__init__()
        self.heads, self.drop = heads, drop
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.Mish(), nn.Linear(4 * d, d), nn.Dropout(drop))

    def forward(self, x, bias):
        b, t, d = x.shape
        q, k, v = (s.view(b, t, self.heads, -1).transpose(1, 2) for s in self.qkv(self.n1(x)).chunk(3, -1))
        mask = None if bias is None else bias.to(q.dtype).expand(b, -1, -1, -1)
        y = F.scaled_dot_product_attention(q, k, v, mask, dropout_p=self.drop if bias is not None else 0.0, is_causal=bias is None)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.n2(x))


def main():
    a = options("backend", d=768, heads=12, layers=7, vocab=32_000, batch=7, seq=720)
    torch.manual_seed(1007)
    blocks = nn.ModuleList(Block(a.d, a.heads, 0.1) for _ in range(a.layers))
    bias = None if a.backend == "cudnn" else Bias(a.heads)
    model = nn.ModuleDict({"words": nn.Embedding(a.vocab, a.d), "blocks": blocks, "norm": nn.LayerNorm(a.d), "head": nn.Linear(a.d, a.vocab)})
    if bias is not None:
        model["bias"] = bias
    model.to(a.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    scaler = torch.amp.GradScaler(a.device, init_scale=2.0 ** 10)
    chosen = sdpa_kernel([BACKENDS[a.backend]]) if a.device == "cuda" else contextlib.nullcontext()
    with chosen:
        for step in range(4):
            ids = torch.randint(0, a.vocab, (a.batch, a.seq + 1)).to(a.device)
            with torch.autocast(a.device, dtype=torch.float16):
                x, b = model["words"](ids[:, :-1]), None if bias is None else bias(a.seq)
                for block in blocks:
                    x = block(x, b)
                loss = F.cross_entropy(model["head"](model["norm"](x)).transpose(1, 2), ids[:, 1:])
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
            print(a.backend, step, loss.item())
            memory(step=step)


main()
