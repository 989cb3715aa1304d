"""Mamba 2 in plain PyTorch operations; rows of two lengths, two micro-batches."""
import torch
from transformers import Mamba2Config, Mamba2ForCausalLM

from kit import memory, options

a = options(hidden=512, layers=7, state=64, chunk=64, batch=3, lengths=[896, 640])


def build():
    return Mamba2ForCausalLM(Mamba2Config(
        vocab_size=260, hidden_size=a.hidden, state_size=a.state, num_hidden_layers=a.layers, expand=2, head_dim=64,
        num_heads=2 * a.hidden // 64, n_groups=1, conv_kernel=4, chunk_size=a.chunk, pad_token_id=256, bos_token_id=257, eos_token_id=258))


def groups(model):
    plain = [w for n, w in model.named_parameters() if w.ndim < 2 or n.endswith(("A_log", "D", "dt_bias"))]
    chosen = {id(w) for w in plain}
    return [{"params": plain, "weight_decay": 0.0}, {"params": [w for w in model.parameters() if id(w) not in chosen], "weight_decay": 0.1}]


torch.manual_seed(1042)
model = build().to(a.device)
model.train()
print(sum(w.numel() for w in model.parameters()), "parameters")
optimizer = torch.optim.AdamW(groups(model), lr=4e-4, betas=(0.9, 0.95))
text = torch.randint(0, 256, (400_000,), dtype=torch.uint8)
for step in range(3):
    total = 0.0
    for micro in range(2):
        length = a.lengths[(step + micro) % len(a.lengths)]
        at = torch.randint(0, len(text) - length, (a.batch,)).tolist()
        ids = torch.stack([text[i:i + length] for i in at]).long().to(a.device)
        with torch.autocast(a.device, dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss / 2
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: {total / 0.6931:.3f} bits a byte")
    memory(step=step)
