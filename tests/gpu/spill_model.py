"""spill_model.py SHAPE STEPS [NAME=VALUE...] - a job for spill.py. It prints a line of JSON for each step: the loss to the bit, the time, what
PyTorch's allocator held, and what else of the device was in use. What the arena holds idle counts as free.

    llama    park_model.py's, with fewer tokens or its arguments
    vit      a vision transformer, SGD with momentum, gradients clipped
    layers   inference over wide layers, one after the other
    convs    a residual network of convolutions, whose memory is activations
    experts  many small matrices, a few of which share a chunk, AdamW
"""
import gc
import json
import os
import sys
import time

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

from park_model import Training  # noqa: E402

SMALL = os.environ.get("SIMULATED") == "1"


class Job:
    """A training; each has parameters, an optimizer, and the loss of a step."""
    clips = False

    def step(self, number):
        loss = self.loss(number)
        loss.backward()
        if self.clips:
            nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


class Vit(Job):
    clips = True

    def __init__(self):
        width, depth, batch = (128, 2, 4) if SMALL else (1280, 32, 96)
        torch.manual_seed(2)
        with torch.device("cuda"):
            self.patches = nn.Conv2d(3, width, 16, 16)
            layer = nn.TransformerEncoderLayer(width, 16, 4 * width, dropout=0, batch_first=True, norm_first=True)
            self.model = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
            self.head = nn.Linear(width, 1000)
        self.parameters = [p for m in (self.patches, self.model, self.head) for p in m.parameters()]
        self.optimizer = torch.optim.SGD(self.parameters, lr=1e-3, momentum=0.9)
        self.random, self.batch = torch.Generator().manual_seed(3), batch

    def loss(self, number):
        images = torch.randn(self.batch, 3, 224, 224, generator=self.random).to("cuda")
        labels = torch.randint(1000, (self.batch,), generator=self.random).to("cuda")
        with torch.autocast("cuda", torch.bfloat16):
            seen = self.model(self.patches(images).flatten(2).transpose(1, 2)).mean(1)
            return F.cross_entropy(self.head(seen).float(), labels)


class Block(nn.Module):
    def __init__(self, given, width, stride):
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(given, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(inplace=True),
            nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))
        self.outer = nn.Sequential(nn.Conv2d(given, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)) if given != 4 * width else nn.Identity()

    def forward(self, x):
        return F.relu(self.inner(x) + self.outer(x))


class Convs(Job):
    def __init__(self):
        self.batch, side, depths = (4, 64, (1, 1)) if SMALL else (160, 224, (3, 4, 6, 3))
        torch.manual_seed(5)
        blocks, given = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)], 64
        for stage, depth in enumerate(depths):
            for i in range(depth):
                blocks.append(Block(given, 64 << stage, 2 if stage and not i else 1))
                given = 256 << stage
        self.model = nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(given, 1000)).to("cuda", memory_format=torch.channels_last)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-2, momentum=0.9, weight_decay=1e-4)
        self.images = torch.randn(self.batch, 3, side, side).to("cuda", memory_format=torch.channels_last)
        self.random = torch.Generator().manual_seed(6)

    def loss(self, number):
        labels = torch.randint(1000, (self.batch,), generator=self.random).to("cuda")
        with torch.autocast("cuda", torch.bfloat16):
            return F.cross_entropy(self.model(self.images).float(), labels)


class Experts(Job):
    def __init__(self):
        self.width, inner, depth, self.count, self.tokens = (64, 128, 2, 4, 64) if SMALL else (768, 1536, 10, 32, 16384)
        torch.manual_seed(7)
        shapes = [(self.width, inner), (inner, self.width)] * (depth * self.count)
        self.parameters = [nn.Parameter((torch.randn(shape) * 0.02).to("cuda")) for shape in shapes]
        self.optimizer = torch.optim.AdamW(self.parameters, lr=1e-4, foreach=False)
        self.given = torch.randn(self.tokens, self.width).to("cuda")

    def loss(self, number):
        x, rest = self.given * (1 + 1e-3 * number), self.parameters
        with torch.autocast("cuda", torch.bfloat16):
            while rest:
                some, rest = rest[:2 * self.count], rest[2 * self.count:]
                parts = x.chunk(self.count)
                x = x + torch.cat([F.gelu(part @ some[2 * i]) @ some[2 * i + 1] for i, part in enumerate(parts)])
                x = F.layer_norm(x, x.shape[-1:])
        return (x.float() - self.given).square().mean()


class Layers:
    def __init__(self):
        width, depth = (256, 6) if SMALL else (8192, 64)
        torch.manual_seed(4)
        with torch.device("cuda"):
            self.layers = nn.ModuleList(nn.Linear(width, width, dtype=torch.bfloat16) for _ in range(depth))
        self.input = torch.randn(64 if SMALL else 4096, width).to("cuda", torch.bfloat16)

    @torch.no_grad()
    def step(self, number):
        x = self.input + number
        for layer in self.layers:
            x = F.layer_norm(x + layer(x), x.shape[-1:])
        return x.float().square().mean()


class Llama:
    def __init__(self, *chosen):
        chosen = dict({"tokens": "8192"}, **dict(word.split("=", 1) for word in chosen))
        self.training = Training("llama", dict(chosen, small="1", tokens="4096") if SMALL else chosen)

    def step(self, number):
        return self.training.step(number)[0]


def main():
    shape, steps, *chosen = sys.argv[1:]
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    job = {"llama": Llama, "vit": Vit, "layers": Layers, "convs": Convs, "experts": Experts}[shape](*chosen)
    gc.disable()
    for number in range(int(steps)):
        gc.collect()
        torch.cuda.synchronize()
        begun = time.perf_counter()
        loss = job.step(number)
        torch.cuda.synchronize()
        ms = (time.perf_counter() - begun) * 1e3
        left, total = torch.cuda.mem_get_info()
        loss = loss if isinstance(loss, str) else loss.item().hex()
        print(json.dumps({"step": number + 1, "loss": loss, "ms": round(ms, 2), "reserved_bytes": torch.cuda.max_memory_reserved(),
                          "allocated_bytes": torch.cuda.max_memory_allocated(), "total_bytes": total, "beside_bytes": total - left - torch.cuda.memory_allocated()}), flush=True)


if __name__ == "__main__":
    main()
