"""Gemma 3 with sliding windows in some layers: bf16 weights for the passes, fp32 masters for the optimizer, copied after each step."""
import argparse
import json

import torch
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--hidden", type=int, default=768)
p.add_argument("--layers", type=int, default=8)
p.add_argument("--vocab", type=int, default=65_537)
p.add_argument("--batch", type=int, default=2)
p.add_argument("--seq", type=int, default=1500)
p.add_argument("--window", type=int, default=300)
a = p.parse_args()

torch.manual_seed(29)
model = Gemma3ForCausalLM(Gemma3TextConfig(
    vocab_size=a.vocab, hidden_size=a.hidden, intermediate_size=4 * a.hidden, num_hidden_layers=a.layers, num_attention_heads=4,
    num_key_value_heads=1, head_dim=256, sliding_window=a.window, max_position_embeddings=4096)).to(a.device, torch.bfloat16)
weights = list(model.parameters())
masters = [w.detach().float().clone().requires_grad_() for w in weights]
optimizer = torch.optim.AdamW(masters, lr=1e-4, betas=(0.9, 0.99))
for step in range(4):
    ids = torch.randint(0, a.vocab, (a.batch, a.seq)).to(a.device)
    loss = model(input_ids=ids, labels=ids, use_cache=False).loss
    loss.backward()
    for master, weight in zip(masters, weights):
        master.grad = weight.grad.float()
        weight.grad = None
    torch.nn.utils.clip_grad_norm_(masters, 1.0)
    optimizer.step()
    optimizer.zero_grad()
    with torch.no_grad():
        torch._foreach_copy_(weights, masters)
    print(f"{step} {loss.item():.3f}")
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
