"""whatif_edits.py [checkpoint] [loop] [steps N] - trains a small model on the CPU, as recorded or as changed: see whatif_edits.sh."""
import sys

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Unit(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(128, 512), nn.Linear(512, 128)

    def forward(self, x):
        return x + self.down(torch.relu(self.up(x)))


class Net(nn.Module):
    def __init__(self, again):
        super().__init__()
        self.layers, self.again = nn.ModuleList(Unit() for _ in range(6)), again

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.again else layer(x)
        return x


net = Net("checkpoint" in sys.argv)
optimizer = torch.optim.AdamW(net.parameters(), foreach="loop" not in sys.argv)
for _ in range(4):
    x = torch.randn(1024, 128, requires_grad=True)
    net(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
