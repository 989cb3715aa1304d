"""spill_model.py SHAPE STEPS - a job for spill.py. It prints a line of JSON for each step: the loss to the bit, the time, what PyTorch's allocator
held, and what else of the device was in use; what the arena holds idle counts as free.

    llama    park_model.py's, with fewer tokens
    vit      a vision transformer, SGD with momentum, gradients clipped
    layers   inference over wide layers, one after the other
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


class Vit:
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

    def step(self, number):
        images = torch.randn(self.batch, 3, 224, 224, generator=self.random).to("cuda")
        labels = torch.randint(1000, (self.batch,), generator=self.random).to("cuda")
        with torch.autocast("cuda", torch.bfloat16):
            seen = self.model(self.patches(images).flatten(2).transpose(1, 2)).mean(1)
            loss = F.cross_entropy(self.head(seen).float(), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


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
    def __init__(self):
        self.training = Training("llama", {"small": "1"} if SMALL else {"tokens": "8192"})

    def step(self, number):
        return self.training.step(number)[0]


def main():
    shape, steps = sys.argv[1:]
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = False
    job = {"llama": Llama, "vit": Vit, "layers": Layers}[shape]()
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
                          "beside_bytes": total - left - torch.cuda.memory_allocated()}), flush=True)


if __name__ == "__main__":
    main()
