"""GPT-2 with tied embeddings and dropout: float32 weights, autocast, gradient accumulation, warm-up."""
import argparse
import json

import torch
from transformers import GPT2Config, GPT2LMHeadModel, get_cosine_schedule_with_warmup


def memory(**more):
    print(json.dumps({**more, "allocated": torch.cuda.max_memory_allocated(),
                      "reserved": torch.cuda.max_memory_reserved()}), flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--device", default="cuda")
    p.add_argument("--n-layer", type=int, default=12)
    p.add_argument("--n-embd", type=int, default=768)
    p.add_argument("--batch", type=int, default=7)
    p.add_argument("--block", type=int, default=640)
    p.add_argument("--accumulate", type=int, default=3)
    p.add_argument("--steps", type=int, default=3)
    a = p.parse_args()
    torch.manual_seed(1337)
    model = GPT2LMHeadModel(GPT2Config(n_layer=a.n_layer, n_embd=a.n_embd, n_head=12, n_positions=1024))
    model.to(a.device).train()
    decay = [q for q in model.parameters() if q.dim() >= 2]
    rest = [q for q in model.parameters() if q.dim() < 2]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=6e-4)
    schedule = get_cosine_schedule_with_warmup(opt, 2, 10)
    data = torch.randint(0, 50257, (100_000,))
    for step in range(a.steps):
        total = 0.0
        for _ in range(a.accumulate):
            at = torch.randint(len(data) - a.block, (a.batch,))
            x = torch.stack([data[i:i + a.block] for i in at]).to(a.device)
            with torch.autocast(a.device, dtype=torch.bfloat16):
                loss = model(x, labels=x).loss / a.accumulate
            loss.backward()
            total += loss.detach()
        opt.step()
        schedule.step()
        opt.zero_grad()
        memory(step=step)
    memory()


main()
