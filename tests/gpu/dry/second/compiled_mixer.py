"""An MLP-Mixer in fp32 with TF32: the loss of a batch is compiled whole, and so is the optimizer's step."""
import argparse
import json
import torch
from torch import nn

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--w", type=int, default=512)
p.add_argument("--depth", type=int, default=6)
p.add_argument("--image", type=int, default=192)
p.add_argument("--batch", type=int, default=128)
a = p.parse_args()
torch.manual_seed(127)
torch.backends.cuda.matmul.allow_tf32 = True
n = (a.image // 16) ** 2


class Mixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(a.w), nn.LayerNorm(a.w)
        self.places, self.channels = (nn.Sequential(nn.Linear(i, o), nn.GELU(), nn.Linear(o, i)) for i, o in ((n, a.w // 2), (a.w, 4 * a.w)))

    def forward(self, x):
        x = x + self.places(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.n2(x))


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.body = nn.Conv2d(3, a.w, 16, 16), nn.Sequential(*(Mixer() for _ in range(a.depth)))
        self.head = nn.Sequential(nn.LayerNorm(a.w), nn.Linear(a.w, 100))

    def forward(self, x):
        return self.head(self.body(self.embed(x).flatten(2).transpose(1, 2)).mean(1))


net = Net().to(a.device)
optimizer = torch.optim.Adam(net.parameters(), lr=torch.tensor(1e-3, device=a.device), capturable=a.device == "cuda")


@torch.compile(fullgraph=True)
def loss_of(x, y):
    return nn.functional.cross_entropy(net(x), y, label_smoothing=0.05)


@torch.compile(fullgraph=False)
def update():
    optimizer.step()


for step in range(4):
    x, y = torch.randn(a.batch, 3, a.image, a.image).to(a.device), torch.randint(0, 100, (a.batch,)).to(a.device)
    loss = loss_of(x, y)
    loss.backward()
    update()
    optimizer.zero_grad()
    print("step", step, loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
