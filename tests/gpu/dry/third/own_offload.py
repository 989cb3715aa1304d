"""Activations leave for the host by hooks of one's own, on a second stream."""
import collections
import contextlib
import torch
from torch import nn
from torch.nn import functional as F

from kit import memory, options


class Offload:
    def __init__(self, model, least, device):
        self.owned = {w.untyped_storage().data_ptr() for w in model.parameters()}
        self.least, self.cuda, self.moved = least, device == "cuda", 0
        self.stream, self.leaving = torch.cuda.Stream() if self.cuda else None, collections.deque()

    def finish(self, allowed):
        while len(self.leaving) > allowed:
            event, _ = self.leaving.popleft()
            event.synchronize()

    def pack(self, t):
        if t.nbytes < self.least or t.untyped_storage().data_ptr() in self.owned:
            return t
        there = torch.empty(t.shape, dtype=t.dtype, pin_memory=self.cuda)
        self.moved += t.nbytes
        if not self.cuda:
            return there.copy_(t)
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            there.copy_(t.detach(), non_blocking=True)
            event = torch.cuda.Event()
            event.record()
        self.leaving.append((event, t))
        self.finish(2)
        return event, there, t.device

    def unpack(self, kept):
        if not isinstance(kept, tuple):
            return kept
        event, there, device = kept
        event.wait()
        return there.to(device, non_blocking=True)

    @contextlib.contextmanager
    def __call__(self):
        with torch.autograd.graph.saved_tensors_hooks(self.pack, self.unpack):
            yield
        self.finish(0)


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads, self.n1, self.n2 = heads, nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.up, self.down = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        q, k, v = (s.unflatten(-1, (self.heads, -1)).transpose(1, 2) for s in self.qkv(self.n1(x)).chunk(3, -1))
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.n2(x))))


a = options(d=1024, layers=8, heads=16, vocab=20_000, batch=4, seq=1536, least=8 << 20)
torch.manual_seed(1049)
embed, head = nn.Embedding(a.vocab, a.d), nn.Linear(a.d, a.vocab, bias=False)
blocks = nn.Sequential(*(Block(a.d, a.heads) for _ in range(a.layers)), nn.LayerNorm(a.d))
model = nn.ModuleList([embed, blocks, head]).to(a.device, torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
offload = Offload(model, a.least, a.device)
for step in range(3):
    ids = torch.randint(0, a.vocab, (a.batch, a.seq + 1)).to(a.device)
    x = embed(ids[:, :-1])
    with offload():
        x = blocks(x)
    loss = F.cross_entropy(head(x).flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} loss {loss.item():.4f}, {offload.moved / 2**20:.0f} MiB have left so far")
    memory(step=step)
