"""DeepSeek V3 from its configuration, small: latent attention, the first layer dense, then routed and shared experts."""
import argparse
import json

import torch
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--hidden", type=int, default=768)
p.add_argument("--layers", type=int, default=4)
p.add_argument("--experts", type=int, default=16)
p.add_argument("--batch", type=int, default=3)
p.add_argument("--seq", type=int, default=600)
a = p.parse_args()
torch.manual_seed(163)
with torch.device(a.device):
    model = DeepseekV3ForCausalLM(DeepseekV3Config(
        vocab_size=32_000, hidden_size=a.hidden, intermediate_size=2048, moe_intermediate_size=512, num_hidden_layers=a.layers,
        num_attention_heads=8, num_key_value_heads=8, n_routed_experts=a.experts, n_shared_experts=1, num_experts_per_tok=4,
        n_group=4, topk_group=2, first_k_dense_replace=1, q_lora_rank=256, kv_lora_rank=128, qk_rope_head_dim=32,
        qk_nope_head_dim=64, v_head_dim=64, max_position_embeddings=2048))
model.to(a.device).train()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
for step in range(3):
    ids = torch.randint(0, 32_000, (a.batch, a.seq)).to(a.device)
    with torch.autocast(a.device, dtype=torch.bfloat16):
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
