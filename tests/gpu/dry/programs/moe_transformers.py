"""Mixtral or Qwen-MoE by transformers, bf16 weights, the router's own loss in the sum."""
import argparse
import json
import torch
from transformers import AutoConfig, AutoModelForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("kind", choices=["mixtral", "qwen3_moe"])
parser.add_argument("--device", default="cuda")
parser.add_argument("--layers", type=int, default=5)
parser.add_argument("--hidden", type=int, default=768)
parser.add_argument("--batch", type=int, default=4)
parser.add_argument("--seq", type=int, default=531)
args = parser.parse_args()
torch.manual_seed(44)
common = dict(hidden_size=args.hidden, num_hidden_layers=args.layers, num_attention_heads=12, num_key_value_heads=4, vocab_size=32_000,
              output_router_logits=True, router_aux_loss_coef=0.02)
if args.kind == "mixtral":
    config = AutoConfig.for_model("mixtral", intermediate_size=1536, num_local_experts=6, num_experts_per_tok=2, sliding_window=None, **common)
else:
    config = AutoConfig.for_model("qwen3_moe", intermediate_size=2048, moe_intermediate_size=384, num_experts=24, num_experts_per_tok=4, head_dim=64, **common)
model = AutoModelForCausalLM.from_config(config).to(args.device, torch.bfloat16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for step in range(3):
    ids = torch.randint(0, 32_000, (args.batch, args.seq)).to(args.device)
    out = model(input_ids=ids, labels=ids, use_cache=False)
    out.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"{step} loss {out.loss.item():.3f} aux {out.aux_loss.item():.3f}")
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
