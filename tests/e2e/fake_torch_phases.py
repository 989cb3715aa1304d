"""fake_torch_phases.py - the cases of fake_torch_phases.sh."""

import sys

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self, head=True, fail=False):
        self.embed = nn.Embedding(128, 16)
        if head:
            self.lm_head = nn.Linear(16, 128)
        self.fail = fail

    def forward(self, x):
        x = self.embed(x)
        if self.fail:
            raise ValueError
        return self.lm_head(x) if hasattr(self, "lm_head") else x


class Broken(Model):
    def named_modules(self, prefix=""):
        raise RuntimeError("surprise")

    def parameters(self):
        return iter([1])


class Loss(nn.Module):
    def forward(self, x):
        return x


def iteration(model, optimizer=None):
    Loss()(model(1))
    torch.autograd.backward(lambda: model.embed(2))  # recomputed inside backward
    if optimizer:
        optimizer.step()


def train():
    optimizer = torch.optim.Optimizer()
    for _ in range(2):
        iteration(Model(), optimizer)


def no_head():
    iteration(Model(head=False))


def caught():
    for _ in range(2):
        try:
            Model(fail=True)(1)
        except ValueError:
            pass


def failing_optimizer():
    class Failing(torch.optim.Optimizer):
        def step(self, closure=None):
            raise ValueError

    try:
        Failing().step()
    except ValueError:
        pass
    iteration(Model())


def closure():
    model = Model()
    torch.optim.Optimizer().step(lambda: iteration(model))


def broken():
    optimizer = torch.optim.Optimizer()
    for _ in range(3):
        iteration(Model())
        iteration(Broken(), optimizer)


globals()[sys.argv[1]]()
