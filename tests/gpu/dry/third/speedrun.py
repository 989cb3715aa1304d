"""A GPT as speed runs write it: skips between the halves, Lion by foreach."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from kit import memory, options


def norm(x):
    return F.rms_norm(x, (x.size(-1),))


class CastLinear(nn.Linear):
    """Weights stay in float32 and are cast each time they are used."""
    def __init__(self, i, o, zero=False):
        super().__init__(i, o, bias=False)
        if zero:
            self.weight.data.zero_()

    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype))


class Block(nn.Module):
    def __init__(self, d, heads, longest):
        super().__init__()
        self.heads, self.qkv, self.out = heads, CastLinear(d, 3 * d), CastLinear(d, d, zero=True)
        self.up, self.down = CastLinear(d, 4 * d), CastLinear(4 * d, d, zero=True)
        self.mix = nn.Parameter(torch.tensor([1.0, 0.0]))
        rates = (1 / 1024) ** torch.linspace(0, 1, d // heads // 4)
        angles = torch.outer(torch.arange(longest), torch.cat([rates, rates.new_zeros(d // heads // 4)]))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def turn(self, x):
        a, b = x.float().chunk(2, -1)
        cos, sin = self.cos[:x.size(-2)], self.sin[:x.size(-2)]
        return torch.cat([a * cos + b * sin, b * cos - a * sin], -1).type_as(x)

    def forward(self, x, first):
        x = self.mix[0].to(x.dtype) * x + self.mix[1].to(x.dtype) * first
        b, t, d = x.shape
        q, k, v = self.qkv(norm(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(self.turn(norm(q)), self.turn(norm(k)), v, is_causal=True, scale=0.12)
        x = x + self.out(y.transpose(1, 2).reshape(b, t, d))
        return x + self.down(F.relu(self.up(norm(x))).square())


class GPT(nn.Module):
    def __init__(self, vocab, d, layers, heads, longest):
        super().__init__()
        self.embed, self.head = nn.Embedding(vocab, d), CastLinear(d, vocab, zero=True)
        self.blocks, self.skips = nn.ModuleList(Block(d, heads, longest) for _ in range(layers)), nn.Parameter(torch.ones(layers // 2))

    def forward(self, ids, targets, dtype):
        x = first = norm(self.embed(ids)).to(dtype)
        half, kept = len(self.blocks) // 2, []
        for i, block in enumerate(self.blocks):
            if i >= len(self.blocks) - half:
                x = x + self.skips[i - len(self.blocks)].to(dtype) * kept.pop()
            x = block(x, first)
            if i < half:
                kept.append(x)
        logits = 30 * torch.tanh(self.head(norm(x)).float() / 30)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


@torch.no_grad()
def lion(weights, momenta, rate, decay=0.1):
    grads = [w.grad for w in weights]
    update = torch._foreach_lerp(momenta, grads, 0.1)
    torch._foreach_sign_(update)
    torch._foreach_mul_(weights, 1 - rate * decay)
    torch._foreach_add_(weights, update, alpha=-rate)
    torch._foreach_lerp_(momenta, grads, 0.01)


a = options(d=768, layers=11, heads=6, vocab=50_304, batch=4, seq=1024, precision="bfloat16")
torch.manual_seed(1004)
model = GPT(a.vocab, a.d, a.layers, a.heads, a.seq).to(a.device)
weights = list(model.parameters())
momenta = [torch.zeros_like(w) for w in weights]
stream = torch.randint(0, a.vocab, (1_000_000,), dtype=torch.int32)
for step in range(4):
    at = step * a.batch * a.seq
    piece = stream[at:at + a.batch * a.seq + 1].to(a.device, dtype=torch.int64, non_blocking=True)
    loss = model(piece[:-1].view(a.batch, a.seq), piece[1:], getattr(torch, a.precision))
    loss.backward()
    lion(weights, momenta, 1e-4 * min(1, (step + 1) / 3))
    model.zero_grad(set_to_none=True)
    print(f"step:{step} train_loss:{loss.item():.4f}")
    memory(step=step)
