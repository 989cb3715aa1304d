"""Cohere 2 (attention and MLP side by side, sliding windows) on chats."""
import torch
from torch.nn import functional as F
from transformers import Cohere2Config, Cohere2ForCausalLM

from kit import memory, options

args = options(hidden=1024, layers=8, vocab=64_000, window=200, micro=2, accumulate=3, longest=900)

torch.manual_seed(1002)
model = Cohere2ForCausalLM(Cohere2Config(
    vocab_size=args.vocab, hidden_size=args.hidden, intermediate_size=args.hidden * 11 // 4, num_hidden_layers=args.layers,
    num_attention_heads=args.hidden // 64, num_key_value_heads=args.hidden // 256, sliding_window=args.window,
    max_position_embeddings=4096, pad_token_id=0, bos_token_id=1, eos_token_id=2)).to(args.device)
model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, weight_decay=0.0)


def chats():
    """A micro-batch as a collator gives it: ids padded on the right to the longest, a mask, labels of the answers."""
    lengths = torch.randint(args.longest // 2, args.longest + 1, (args.micro,))
    prompts = (lengths.float() * torch.empty(args.micro).uniform_(0.2, 0.6)).long()
    t = int(lengths.max())
    place = torch.arange(t)[None]
    mask = place < lengths[:, None]
    ids = torch.randint(3, args.vocab, (args.micro, t)) * mask
    labels = ids.masked_fill(~mask | (place < prompts[:, None]), -100)
    return ids, mask.long(), labels


for step in range(3):
    micros = [chats() for _ in range(args.accumulate)]
    total = sum(int((labels[:, 1:] != -100).sum()) for _, _, labels in micros)
    seen = 0.0
    for ids, mask, labels in micros:
        ids, mask, labels = ids.to(args.device), mask.to(args.device), labels.to(args.device)
        with torch.autocast(args.device, dtype=torch.bfloat16):
            logits = model(input_ids=ids, attention_mask=mask, use_cache=False).logits
        loss = F.cross_entropy(logits[:, :-1].float().reshape(-1, args.vocab), labels[:, 1:].reshape(-1), ignore_index=-100, reduction="sum") / total
        loss.backward()
        seen += loss.detach()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print({"step": step, "tokens": total, "norm": round(float(norm), 3), "loss": round(float(seen), 4)})
    memory(step=step)
