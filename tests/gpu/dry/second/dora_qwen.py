"""DoRA by PEFT on all linear layers of a Qwen 2 in bf16, with the embedding trained, too; accumulation over two micro-batches."""
import argparse
import json

import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--hidden", type=int, default=896)
p.add_argument("--layers", type=int, default=10)
p.add_argument("--vocab", type=int, default=60_001)
p.add_argument("--rank", type=int, default=16)
p.add_argument("--batch", type=int, default=2)
p.add_argument("--seq", type=int, default=777)
a = p.parse_args()

torch.manual_seed(139)
with torch.device(a.device):
    base = Qwen2ForCausalLM(Qwen2Config(
        vocab_size=a.vocab, hidden_size=a.hidden, intermediate_size=a.hidden * 5, num_hidden_layers=a.layers,
        num_attention_heads=a.hidden // 64, num_key_value_heads=2, tie_word_embeddings=False)).to(torch.bfloat16)
model = get_peft_model(base, LoraConfig(r=a.rank, lora_alpha=2 * a.rank, use_dora=True, task_type="CAUSAL_LM",
                                        target_modules="all-linear", modules_to_save=["embed_tokens"])).to(a.device)
model.print_trainable_parameters()
optimizer = torch.optim.AdamW([w for w in model.parameters() if w.requires_grad], lr=1e-4)
for step in range(3):
    for micro in range(2):
        ids = torch.randint(0, a.vocab, (a.batch, a.seq)).to(a.device)
        with torch.autocast(a.device, dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss / 2
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
