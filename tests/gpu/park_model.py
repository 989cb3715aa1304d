"""park_model.py SHAPE STEPS [NAME=VALUE...] - a training for park.py: a line of JSON for each step, with its loss to the bit, its time and
the most that PyTorch's allocator held in it.

    llama      1.5 billion parameters, fp32 and autocast to bf16, AdamW
    wide       an embedding with most of the parameters, a few layers: forward and backward are short, the states large
    parts      four micro-batches to a step, gradients that are kept and clipped, AdamW tensor list by tensor list
    logged     from the eighth step on, forward looks at each state in every third

tokens=N: of a step (llama) or of a micro-batch. checkpoints=1: forward is run again in backward. optimizer=host: states in pinned memory, moved for each step by the program itself;
optimizer=fsdp: fully_shard with CPUOffloadPolicy, on one GPU. small=1: for a machine without one.
"""
import gc
import json
import os
import statistics
import sys
import time
from argparse import Namespace

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
import torch  # noqa: E402
import torch.nn as nn  # noqa: E402
import torch.nn.functional as F  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(HERE, "../../examples"))  # the tree's own comes first
from torch_llama import Llama, PiecewiseAdamW, eager  # noqa: E402

LLAMAS = {
    "llama": dict(hidden=2048, layers=23, heads=16, kv_heads=4, ffn=8192, vocab=32000, length=2048, tokens=24576),
    "parts": dict(hidden=1536, layers=12, heads=12, kv_heads=12, ffn=4096, vocab=32000, length=1024, tokens=16384),
    "logged": dict(hidden=1280, layers=16, heads=20, kv_heads=5, ffn=5120, vocab=50000, length=1024, tokens=16384),
}
SMALL = dict(hidden=512, layers=3, heads=8, kv_heads=4, ffn=2048, vocab=4000, length=256, tokens=4096)


class Wide(nn.Module):
    def __init__(self, words, hidden, layers):
        super().__init__()
        self.embed = nn.Embedding(words, hidden)
        self.layers = nn.ModuleList(nn.TransformerEncoderLayer(hidden, 16, 4 * hidden, dropout=0, batch_first=True) for _ in range(layers))
        self.head = nn.Linear(hidden, 500)

    def forward(self, ids, labels):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(x).float().flatten(0, 1), labels.flatten() % 500)


def llama_of(shape, chosen):
    sizes = dict(LLAMAS[shape], **(SMALL if "small" in chosen else {}))
    sizes["tokens"] = int(chosen.get("tokens", sizes["tokens"]))
    batch = sizes["tokens"] // sizes.pop("length")
    return Namespace(batch=batch, tied=False, checkpointing="checkpoints" in chosen, offload=False, attention="flash", **sizes)


def fill_cheaply(model):
    """What normal_ makes of so much on the host takes longer than the training."""
    for parameter in model.parameters():
        if parameter.dim() == 2:
            some = torch.randn(997 * 64) * 0.02
            parameter.data.view(-1).copy_(some.repeat(parameter.numel() // len(some) + 1)[:parameter.numel()])


def sharded(a):
    """Parameters, gradients and states on the host, each layer's parameters on the device when they are needed."""
    import torch.distributed as dist
    from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard
    dist.init_process_group("nccl", store=dist.HashStore(), rank=0, world_size=1)
    how = dict(offload_policy=CPUOffloadPolicy(), mp_policy=MixedPrecisionPolicy(param_dtype=torch.bfloat16))
    initialise = nn.init.normal_, nn.init.kaiming_uniform_
    nn.init.normal_ = nn.init.kaiming_uniform_ = lambda *a, **k: None
    model = Llama(a, eager)
    nn.init.normal_, nn.init.kaiming_uniform_ = initialise
    fill_cheaply(model)
    model.tables = tuple(table.cuda() for table in model.tables)
    for layer in model.layers:
        fully_shard(layer, **how)
    return fully_shard(model, **how)


class Training:
    def __init__(self, shape, chosen):
        self.shape, self.parts, self.clips = shape, 4 if shape == "parts" else 1, shape == "parts"
        self.seen, self.logged = 0.0, shape == "logged"
        self.random = torch.Generator().manual_seed(11)
        torch.manual_seed(1)
        if shape == "wide":
            small = "small" in chosen
            self.words, self.batch = (20000, (4, 64)) if small else (300000, (16, 256))
            with torch.device("cuda"):
                self.model = Wide(self.words, 256 if small else 1024, 2 if small else 6)
        else:
            a = llama_of(shape, chosen)
            self.words, self.batch = a.vocab, (a.batch, a.tokens // a.batch)
            if chosen.get("optimizer") == "fsdp":
                self.model = sharded(a)
            else:
                with torch.device("cuda"):
                    self.model = Llama(a, eager)
        self.optimizer = self.make_optimizer(chosen.get("optimizer"))
        if self.logged:
            self.model.layers[1].register_forward_pre_hook(self.look)

    def make_optimizer(self, which):
        parameters, choices = list(self.model.parameters()), dict(lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1)
        if which == "host":
            return PiecewiseAdamW(parameters, torch.float32, True, **choices)
        return torch.optim.AdamW(parameters, **choices, **{"foreach" if self.shape == "parts" else "fused": True})

    def look(self, *_):
        if self.step_number >= 7 and self.step_number % 3 == 1:
            with torch.no_grad():
                self.seen = sum(state["exp_avg_sq"].sum() for state in self.optimizer.state.values())

    def words_of_batch(self):
        b, s = self.batch
        ids = torch.randint(self.words, (b, s + 1), generator=self.random).pin_memory().to("cuda", non_blocking=True)
        return ids[:, :-1], ids[:, 1:].contiguous()

    def step(self, number):
        """What is held against another run, to the bit."""
        self.step_number, found = number, []
        for _ in range(self.parts):
            ids, labels = self.words_of_batch()
            with torch.autocast("cuda", torch.bfloat16):
                loss = self.model(ids, labels)
            (loss / self.parts).backward()
            found.append(loss.detach())
        if self.clips:
            found.append(nn.utils.clip_grad_norm_(self.model.parameters(), 1.0))
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=self.shape != "parts")
        return [value.item().hex() for value in found] + [float(self.seen).hex()]


def peaks():
    return dict(reserved_bytes=torch.cuda.max_memory_reserved(), allocated_bytes=torch.cuda.max_memory_allocated())


def main():
    shape, steps, *rest = sys.argv[1:]
    chosen = dict(word.split("=", 1) for word in rest)
    torch.use_deterministic_algorithms(True)  # with warn_only flash attention adds up in any order
    torch.utils.deterministic.fill_uninitialized_memory = False
    training, times = Training(shape, chosen), []
    count = sum(p.numel() for p in training.model.parameters())
    print(json.dumps({"parameters": count, "state_bytes": 8 * count, "torch": torch.__version__}), flush=True)
    gc.disable()  # within a step
    for number in range(int(steps)):
        gc.collect()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        begun = time.perf_counter()
        loss = training.step(number)
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begun) * 1e3)
        print(json.dumps({"step": number + 1, "loss": loss, "ms": round(times[-1], 2), **peaks()}), flush=True)
    print(json.dumps({"end": True, "median_ms": statistics.median(times[len(times) // 2:])}), flush=True)


if __name__ == "__main__":
    main()
