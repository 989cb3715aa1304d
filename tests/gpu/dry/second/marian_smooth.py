"""Marian translating, with tokens per batch kept about constant, label smoothing by hand and a schedule of inverse square roots."""
import argparse
import json

import torch
from transformers import MarianConfig, MarianMTModel

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--width", type=int, default=512)
p.add_argument("--layers", type=int, default=6)
p.add_argument("--vocab", type=int, default=58_101)
p.add_argument("--tokens", type=int, default=4000)
a = p.parse_args()

torch.manual_seed(97)
model = MarianMTModel(MarianConfig(
    vocab_size=a.vocab, d_model=a.width, encoder_layers=a.layers, decoder_layers=a.layers, encoder_ffn_dim=4 * a.width,
    decoder_ffn_dim=4 * a.width, encoder_attention_heads=8, decoder_attention_heads=8, max_position_embeddings=512,
    pad_token_id=a.vocab - 1, decoder_start_token_id=a.vocab - 1, eos_token_id=0, forced_eos_token_id=0)).to(a.device)
model.train()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, betas=(0.9, 0.98), eps=1e-9)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min((s + 1) ** -0.5, (s + 1) * 4 ** -1.5))
for step in range(5):
    source, target = (int(n) for n in torch.randint(12, 120, (2,)))
    batch = max(1, a.tokens // max(source, target))
    ids = torch.randint(1, a.vocab - 1, (batch, source)).to(a.device)
    labels = torch.randint(1, a.vocab - 1, (batch, target)).to(a.device)
    with torch.autocast(a.device, dtype=torch.bfloat16):
        logits = model(input_ids=ids, decoder_input_ids=model.prepare_decoder_input_ids_from_labels(labels)).logits
    loss = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), labels.flatten(), label_smoothing=0.1)
    loss.backward()
    optimizer.step()
    schedule.step()
    optimizer.zero_grad()
    print("update", step, "batch", batch, "loss", loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
