"""A GPT in plain PyTorch, compiled, bf16 autocast, with tied weights."""
import argparse
import json
import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, n, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(n, 3 * n, bias=False)
        self.proj = nn.Linear(n, n, bias=False)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.heads, c // self.heads).transpose(1, 2) for y in self.qkv(x).split(c, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, n, heads):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(n), nn.LayerNorm(n)
        self.attention = Attention(n, heads)
        self.mlp = nn.Sequential(nn.Linear(n, 4 * n), nn.GELU(), nn.Linear(4 * n, n))

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self, vocab, n, layers, heads, length):
        super().__init__()
        self.token, self.position = nn.Embedding(vocab, n), nn.Embedding(length, n)
        self.blocks = nn.ModuleList(Block(n, heads) for _ in range(layers))
        self.ln = nn.LayerNorm(n)
        self.head = nn.Linear(n, vocab, bias=False)
        self.head.weight = self.token.weight

    def forward(self, x, y):
        h = self.token(x) + self.position(torch.arange(x.shape[1], device=x.device))
        for block in self.blocks:
            h = block(h)
        return F.cross_entropy(self.head(self.ln(h)).view(-1, self.head.out_features), y.view(-1))


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--layers", type=int, default=6)
p.add_argument("--n", type=int, default=768)
p.add_argument("--vocab", type=int, default=50304)
p.add_argument("--batch", type=int, default=6)
p.add_argument("--length", type=int, default=768)
p.add_argument("--mode", default="default")
a = p.parse_args()
torch.manual_seed(1337)
model = GPT(a.vocab, a.n, a.layers, a.n // 64, a.length).to(a.device)
step_model = torch.compile(model, mode=a.mode)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=a.device == "cuda")
for step in range(4):
    x = torch.randint(0, a.vocab, (a.batch, a.length + 1)).to(a.device)
    with torch.autocast(a.device, dtype=torch.bfloat16):
        loss = step_model(x[:, :-1].contiguous(), x[:, 1:].contiguous())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(f"step {step}: {loss.item():.3f}")
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
