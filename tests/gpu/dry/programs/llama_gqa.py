"""A Llama of odd sizes with grouped-query attention, all in bfloat16, AdamW fused, gradients clipped."""
import argparse
import json

import torch
from transformers import LlamaConfig, LlamaForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--layers", type=int, default=9)
parser.add_argument("--hidden", type=int, default=1152)
parser.add_argument("--vocab", type=int, default=32003)
parser.add_argument("--batch", type=int, default=5)
parser.add_argument("--seq", type=int, default=777)
parser.add_argument("--steps", type=int, default=4)
args = parser.parse_args()

torch.manual_seed(1)
config = LlamaConfig(vocab_size=args.vocab, hidden_size=args.hidden, intermediate_size=args.hidden * 3 - 64,
                     num_hidden_layers=args.layers, num_attention_heads=12, num_key_value_heads=4,
                     max_position_embeddings=2048)
model = LlamaForCausalLM(config).to(args.device, torch.bfloat16)
print("parameters:", sum(p.numel() for p in model.parameters()))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
model.train()
for step in range(args.steps):
    ids = torch.randint(0, args.vocab, (args.batch, args.seq)).to(args.device)
    loss = model(input_ids=ids, labels=ids, use_cache=False).loss
    loss.backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print(f"step {step} loss {loss.item():.3f} norm {float(norm):.3f}")
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(),
                      "reserved": torch.cuda.max_memory_reserved()}), flush=True)
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
