"""A student, and a slow teacher whose pass is a CUDA graph."""
import copy
import torch
from torch import nn
from torch.nn import functional as F

from kit import memory, options


class Net(nn.Module):
    def __init__(self, d, layers, out):
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(80, d, 3, padding=1), nn.GELU(), nn.Conv1d(d, d, 3, stride=2, padding=1), nn.GELU())
        layer = nn.TransformerEncoderLayer(d, 8, 4 * d, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
        self.body, self.head = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False), nn.Linear(d, out)

    def forward(self, x):
        h = self.body(self.front(x).transpose(1, 2))
        return self.head(h), h


class Captured:
    """A module's pass without gradients, replayed from a graph with inputs and outputs that stay where they are."""
    def __init__(self, module, example):
        self.module, self.input = module, example.clone()
        if example.is_cuda:
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(3):
                    self.run()
            torch.cuda.current_stream().wait_stream(side)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.output = self.run()

    @torch.no_grad()
    def run(self):
        with torch.autocast(self.input.device.type, dtype=torch.bfloat16, cache_enabled=False):
            return tuple(t.float() for t in self.module(self.input))

    def __call__(self, x):
        self.input.copy_(x)
        if not x.is_cuda:
            return self.run()
        self.graph.replay()
        return self.output


a = options(d=512, layers=8, out=500, batch=12, frames=900)
torch.manual_seed(1032)
student = Net(a.d, a.layers, a.out).to(a.device)
teacher = copy.deepcopy(student).requires_grad_(False)
for m in teacher.modules():
    if isinstance(m, (nn.Dropout, nn.MultiheadAttention)):
        m.dropout, m.p = 0.0, 0.0
aim = Captured(teacher, torch.zeros(a.batch, 80, a.frames, device=a.device))
optimizer = torch.optim.AdamW(student.parameters(), lr=3e-4)
for step in range(4):
    frames = torch.randn(a.batch, 80, a.frames)
    hidden = torch.rand(a.batch, 1, a.frames) < 0.4
    soft, deep = aim(frames.to(a.device))
    with torch.autocast(a.device, dtype=torch.bfloat16):
        guess, h = student(frames.masked_fill(hidden, 0.0).to(a.device))
    loss = F.cross_entropy(guess.float().flatten(0, 1), soft.softmax(-1).flatten(0, 1)) + F.smooth_l1_loss(h.float(), F.layer_norm(deep, (a.d,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    torch._foreach_mul_(list(teacher.parameters()), 0.999)
    torch._foreach_add_(list(teacher.parameters()), [w.detach() for w in student.parameters()], alpha=0.001)
    print("update", step, "loss", loss.item())
    memory(step=step)
