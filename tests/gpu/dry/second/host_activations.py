"""StableLM whose saved activations go to pinned memory of the host in the forward pass and come back in the backward one."""
import argparse
import json

import torch
from transformers import StableLmConfig, StableLmForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--hidden", type=int, default=1024)
parser.add_argument("--layers", type=int, default=6)
parser.add_argument("--batch", type=int, default=1)
parser.add_argument("--seq", type=int, default=1900)
args = parser.parse_args()

torch.manual_seed(101)
with torch.device(args.device):
    model = StableLmForCausalLM(StableLmConfig(
        vocab_size=50_304, hidden_size=args.hidden, intermediate_size=2752, num_hidden_layers=args.layers, num_attention_heads=16,
        num_key_value_heads=16, partial_rotary_factor=0.25, use_qkv_bias=True))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=args.device == "cuda")
for step in range(3):
    ids = torch.randint(0, 50_304, (args.batch, args.seq)).to(args.device)
    with torch.autocast(args.device, dtype=torch.bfloat16):
        with torch.autograd.graph.save_on_cpu(pin_memory=args.device == "cuda"):
            hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state
        loss = torch.nn.functional.cross_entropy(model.lm_head(hidden)[0, :-1].float(), ids[0, 1:])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, "loss", loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
