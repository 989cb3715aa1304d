"""Granite with checkpointing by transformers, and micro-batches of different sizes and lengths that add up to a step."""
import argparse
import json

import torch
from transformers import GraniteConfig, GraniteForCausalLM

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--hidden", type=int, default=1280)
p.add_argument("--layers", type=int, default=12)
p.add_argument("--vocab", type=int, default=49_152)
p.add_argument("--shapes", nargs="*", default=["6x512", "3x1023", "1x2048", "2x77"])
a = p.parse_args()

torch.manual_seed(61)
with torch.device(a.device):
    model = GraniteForCausalLM(GraniteConfig(
        vocab_size=a.vocab, hidden_size=a.hidden, intermediate_size=a.hidden * 5 // 2, num_hidden_layers=a.layers,
        num_attention_heads=20, num_key_value_heads=5, tie_word_embeddings=True, residual_multiplier=0.22))
model.gradient_checkpointing_enable({"use_reentrant": False})
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=0.05, amsgrad=True)
shapes = [tuple(int(n) for n in s.split("x")) for s in a.shapes]
tokens = sum(b * t for b, t in shapes)
for step in range(3):
    shown = torch.zeros((), device=a.device)
    for b, t in shapes:
        ids = torch.randint(0, a.vocab, (b, t)).to(a.device)
        with torch.autocast(a.device, dtype=torch.bfloat16):
            logits = model(input_ids=ids, use_cache=False).logits
            loss = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten(), reduction="sum") / tokens
        loss.backward()
        shown += loss.detach()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    print("step", step, shown.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
