"""LoRA by PEFT on a frozen Mistral in bf16, with reentrant checkpointing; evaluation without gradients at the end of each step."""
import argparse
import json

import torch
from peft import LoraConfig, get_peft_model
from transformers import MistralConfig, MistralForCausalLM

cli = argparse.ArgumentParser()
cli.add_argument("--device", default="cuda")
cli.add_argument("--layers", type=int, default=10)
cli.add_argument("--hidden", type=int, default=1536)
cli.add_argument("--rank", type=int, default=13)
cli.add_argument("--batch", type=int, default=4)
cli.add_argument("--seq", type=int, default=1100)
cli = cli.parse_args()

torch.manual_seed(7)
base = MistralForCausalLM(MistralConfig(
    vocab_size=32_768, hidden_size=cli.hidden, intermediate_size=4000, num_hidden_layers=cli.layers,
    num_attention_heads=12, num_key_value_heads=3, sliding_window=None)).to(torch.bfloat16)
base.gradient_checkpointing_enable()
base.enable_input_require_grads()
model = get_peft_model(base, LoraConfig(r=cli.rank, lora_alpha=26, lora_dropout=0.05, task_type="CAUSAL_LM",
                                        target_modules=["q_proj", "v_proj", "down_proj"])).to(cli.device)
model.print_trainable_parameters()
optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=2e-4)
held = torch.randint(0, 32_768, (cli.batch * 2, cli.seq // 2)).to(cli.device)
for step in range(3):
    model.train()
    ids = torch.randint(0, 32_768, (cli.batch, cli.seq)).to(cli.device)
    model(input_ids=ids, labels=ids, use_cache=False).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        print("validation", model(input_ids=held, labels=held, use_cache=False).loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(),
                      "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
