"""Two streams: a prefetcher copies pinned batches on its own, normalizes them there and hands them over with record_stream; a depthwise network learns."""
import argparse
import json
import torch
import torch.nn as nn


class Prefetcher:
    def __init__(self, batches, device):
        self.batches, self.device = iter(batches), device
        self.stream = torch.cuda.Stream() if device == "cuda" else None
        self.mean = torch.tensor([0.485, 0.456, 0.406], device=device).view(1, 3, 1, 1)
        self.preload()

    def preload(self):
        self.next = next(self.batches, None)
        if self.next is None or self.stream is None:
            return
        with torch.cuda.stream(self.stream):
            x, y = (t.cuda(non_blocking=True) for t in self.next)
            self.next = x.float().div_(255).sub_(self.mean), y

    def __iter__(self):
        while self.next is not None:
            if self.stream is not None:
                torch.cuda.current_stream().wait_stream(self.stream)
                for t in self.next:
                    t.record_stream(torch.cuda.current_stream())
                x, y = self.next
            else:
                x, y = self.next[0].float().div(255), self.next[1]
            self.preload()
            yield x, y


def separable(i, o, stride):
    return nn.Sequential(nn.Conv2d(i, i, 3, stride, 1, groups=i, bias=False), nn.BatchNorm2d(i), nn.Hardswish(), nn.Conv2d(i, o, 1, bias=False), nn.BatchNorm2d(o), nn.Hardswish())


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--batch", type=int, default=36)
p.add_argument("--image", type=int, default=230)
p.add_argument("--base", type=int, default=40)
a = p.parse_args()
torch.manual_seed(0)
b = a.base
net = nn.Sequential(nn.Conv2d(3, b, 3, 2, 1), *(separable(b * i, b * o, s) for i, o, s in [(1, 2, 1), (2, 4, 2), (4, 4, 1), (4, 8, 2), (8, 8, 1), (8, 16, 2)]),
                    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(16 * b, 100)).to(a.device)
optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)


def pinned(t):
    return t.pin_memory() if a.device == "cuda" else t


batches = [(pinned(torch.randint(0, 256, (a.batch - i, 3, a.image, a.image), dtype=torch.uint8)), pinned(torch.randint(0, 100, (a.batch - i,)))) for i in range(5)]
for step, (x, y) in enumerate(Prefetcher(batches, a.device)):
    loss = nn.functional.cross_entropy(net(x), y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    print(step, loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
