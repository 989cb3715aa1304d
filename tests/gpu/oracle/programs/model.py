"""model.py - a small language model, the same in every PyTorch program here."""
import os
import sys

import torch
from torch import nn

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
from bench_models import Block  # noqa: E402


class Model(nn.Module):
    def __init__(self, vocabulary=8192, width=512, blocks=4, heads=8):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(blocks)))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, tokens):
        return self.head(self.blocks(self.embed(tokens)))


def loss_of(model, tokens):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        logits = model(tokens[:, :-1])
    return nn.functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())


def batches(count, device, batch=4, length=513, vocabulary=8192, seed=1):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield torch.randint(vocabulary, (batch, length), generator=generator).to(device)
