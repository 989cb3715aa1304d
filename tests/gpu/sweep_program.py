"""The programs of sweep.sh: a training of four steps at one size, and the same again at many sizes in one process.

    sweep_program.py train MODEL BATCH SEQ
    sweep_program.py measure MODEL LIMIT GRID OUT     GRID "2x512,4x1024"; the longest at each batch by bisection

SEQ is the length, of a CNN the side of its images. CPU=1: tiny models on the CPU (train only).
"""
import gc
import json
import os
import sys

import torch

STEPS = 4
CPU = os.environ.get("CPU") == "1"
DEVICE = "cpu" if CPU else "cuda"
LIMIT = 0


def make(name):
    torch.manual_seed(0)
    if name.startswith("llama"):
        from transformers import LlamaConfig, LlamaForCausalLM
        size = dict(vocab_size=2000, hidden_size=128, intermediate_size=344, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2) if CPU else \
            dict(vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=4)
        config = LlamaConfig(max_position_embeddings=1 << 17, attn_implementation=name.split("-")[1], **size)
        with torch.device(DEVICE):
            return LlamaForCausalLM(config).to(torch.bfloat16), size["vocab_size"]
    if name == "qwen":  # with checkpoints: forward runs again in backward
        from transformers import Qwen2Config, Qwen2ForCausalLM
        size = dict(vocab_size=2000, hidden_size=128, intermediate_size=344, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2) if CPU else \
            dict(vocab_size=152064, hidden_size=896, intermediate_size=4864, num_hidden_layers=12, num_attention_heads=14, num_key_value_heads=2)
        with torch.device(DEVICE):
            model = Qwen2ForCausalLM(Qwen2Config(max_position_embeddings=1 << 17, **size)).to(torch.bfloat16)
        model.gradient_checkpointing_enable()
        return model, size["vocab_size"]
    if name == "gpt2":
        from transformers import GPT2Config, GPT2LMHeadModel
        size = dict(vocab_size=2000, n_embd=128, n_layer=2, n_head=4) if CPU else dict(n_embd=768, n_layer=12, n_head=12)
        with torch.device(DEVICE):
            return GPT2LMHeadModel(GPT2Config(n_positions=1 << 15, **size)), size.get("vocab_size", 50257)
    import torchvision
    with torch.device(DEVICE):
        return (torchvision.models.convnext_tiny if name == "convnext" else torchvision.models.resnet50)(num_classes=1000), 0


def train(name, batch, seq):
    model, vocab = make(name)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(STEPS):
        if vocab:
            x = torch.randint(vocab, (batch, seq), device=DEVICE)
            with torch.autocast(DEVICE, torch.bfloat16, enabled=name == "gpt2"):
                loss = model(input_ids=x, labels=x, use_cache=False).loss
        else:
            x = torch.randn(batch, 3, seq, seq, device=DEVICE)
            loss = torch.nn.functional.cross_entropy(model(x), torch.randint(1000, (batch,), device=DEVICE))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return loss.item()


def point(name, batch, seq):
    """(allocated, reserved) at most; None where it ran out."""
    torch._C._cuda_clearCublasWorkspaces()
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    left = torch.cuda.memory_reserved()
    try:
        train(name, batch, seq)
        result = [torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved(), left]
    except torch.cuda.OutOfMemoryError:
        result = None
        if torch.cuda.memory_reserved() + torch.cuda.mem_get_info()[0] < LIMIT:
            sys.exit("other processes have taken the GPU's memory: where this one runs out says nothing")
    gc.collect()
    return result


def longest(name, batch, least, most, step):
    low, high, tried = 0, (most - least) // step + 1, {}
    while high - low > 1:
        middle = (low + high) // 2
        tried[least + middle * step] = point(name, batch, least + middle * step)
        if tried[least + middle * step]:
            low = middle
        else:
            high = middle
    return least + low * step, tried


def measure(name, limit, grid, out):
    global LIMIT
    LIMIT = limit
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(limit / total)
    sizes = [tuple(map(int, g.split("x"))) for g in grid.split(",")]
    result = {"grid": [[b, s, point(name, b, s)] for b, s in sizes], "longest": []}
    json.dump(result, open(out, "w"))
    images = name in ("cnn", "convnext")
    step = 32 if images else 64
    for batch in sorted({b for b, _ in sizes}):
        least = min(s for b, s in sizes if b == batch)
        most = 1024 if images else 4096 if name == "llama-eager" else 12288
        best, tried = longest(name, batch, least, most, step)
        result["longest"].append([batch, best, {str(k): v for k, v in tried.items()}])
        json.dump(result, open(out, "w"))


if sys.argv[1] == "train":
    print(train(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
else:
    measure(sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5])
