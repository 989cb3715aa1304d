"""torch_recorded.py - a training that allocates in every phase, by ctypes, sizes that say where.

1 MiB before anything, 2 in forward, 3 in the head, 4 in the loss, 5 in backward, 6 in the optimizer, 7 between steps.
"""

import ctypes

import torch
from torch import nn
from torch.nn import functional as F

driver = ctypes.CDLL("libcuda.so.1")
MIB = 1 << 20


def allocate(megabytes):
    pointer = ctypes.c_uint64()
    assert driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(megabytes * MIB)) == 0
    assert driver.cuMemFree_v2(pointer) == 0


def begin():
    device, context = ctypes.c_int(), ctypes.c_void_p()
    assert driver.cuInit(0) == 0
    assert driver.cuDeviceGet(ctypes.byref(device), 0) == 0
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    assert driver.cuCtxSetCurrent(context) == 0


class Touch(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        allocate(2)
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        allocate(5)
        return grad


class Head(nn.Linear):
    def forward(self, x):
        allocate(3)
        return super().forward(x)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(128, 16)
        self.head = Head(16, 128)

    def forward(self, x):
        return self.head(Touch.apply(self.embed(x)))


class Optimizer(torch.optim.SGD):
    def step(self, closure=None):
        allocate(6)
        return super().step(closure)


begin()
torch.manual_seed(1)
allocate(1)
model = Model()
optimizer = Optimizer(model.parameters(), lr=0.1)
for _ in range(3):
    x = torch.randint(0, 128, (2, 8))
    allocate(7)
    logits = model(x)
    allocate(4)
    F.cross_entropy(logits.flatten(0, 1), x.flatten()).backward()
    optimizer.step()
    optimizer.zero_grad()
