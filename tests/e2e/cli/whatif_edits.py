"""whatif_edits.py [checkpoint] [loop] [stages] [every N] [whole] - trains a small model, as recorded or as changed (whatif_edits.sh,
whatif_stages.sh).
"""
import sys
from collections import OrderedDict

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


class Staged(nn.Module):
    """As vision models have it: between stages of blocks there are some operations that make the rows larger."""

    def __init__(self, every, whole):
        super().__init__()
        self.features = nn.Sequential(
            nn.Sequential(nn.Linear(128, 128), nn.GELU()),
            nn.Sequential(Unit(), Unit(), Unit()),
            nn.Sequential(nn.LayerNorm(128), nn.Linear(128, 128)),
            nn.Sequential(OrderedDict((f"b2-{i}", Unit()) for i in range(4))),
        )
        self.head = nn.Sequential(nn.LayerNorm(128), nn.Linear(128, 16))
        stem, first, between, second = self.features
        layers = list(self.features) if whole else [stem, *first, between, *second]
        for layer in layers[::every] if every else ():
            layer.forward = lambda x, was=layer.forward: checkpoint(was, x, use_reentrant=False)

    def forward(self, x):
        return self.head(self.features(x))


every = int(sys.argv[sys.argv.index("every") + 1]) if "every" in sys.argv else 0
net = Staged(every, "whole" in sys.argv) if "stages" in sys.argv else Net("checkpoint" in sys.argv)
net.cuda()
optimizer = torch.optim.AdamW(net.parameters(), foreach="loop" not in sys.argv)
for _ in range(4):
    x = torch.randn(1024, 128, device="cuda", requires_grad=True)
    net(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
