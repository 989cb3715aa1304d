"""Longformer: windows of attention, global words, lengths that differ by batch."""
import torch
from transformers import LongformerConfig, LongformerForSequenceClassification

from kit import memory, options

a = options(hidden=512, layers=6, window=128, batch=5, longest=1900, classes=20)
torch.manual_seed(1012)
model = LongformerForSequenceClassification(LongformerConfig(
    vocab_size=50_265, hidden_size=a.hidden, num_hidden_layers=a.layers, num_attention_heads=8, intermediate_size=4 * a.hidden,
    attention_window=[a.window] * a.layers, max_position_embeddings=a.longest + a.window + 2, pad_token_id=1, num_labels=a.classes)).to(a.device)
model.train()
no_decay = ("bias", "LayerNorm.weight")
named = list(model.named_parameters())
optimizer = torch.optim.AdamW([
    {"params": [w for n, w in named if not n.endswith(no_decay)], "weight_decay": 0.01},
    {"params": [w for n, w in named if n.endswith(no_decay)], "weight_decay": 0.0}], lr=3e-5)
right = count = 0
for step in range(4):
    lengths = torch.randint(a.longest // 3, a.longest + 1, (a.batch,))
    place = torch.arange(int(lengths.max()))[None]
    mask = (place < lengths[:, None]).long()
    ids = torch.randint(5, 50_265, mask.shape).masked_fill(mask == 0, 1)
    ids[:, 0] = 0
    headings = (torch.rand(mask.shape) < 0.004) & (mask == 1)
    everywhere = headings.long()
    everywhere[:, 0] = 1
    labels = torch.randint(0, a.classes, (a.batch,)).to(a.device)
    with torch.autocast(a.device, dtype=torch.bfloat16):
        out = model(input_ids=ids.to(a.device), attention_mask=mask.to(a.device), global_attention_mask=everywhere.to(a.device), labels=labels)
    out.loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    right += (out.logits.detach().argmax(-1) == labels).sum().item()
    count += a.batch
    print(f"batch {step}: {tuple(ids.shape)}, {int(everywhere.sum())} global, loss {out.loss.item():.3f}, accuracy {right / count:.2f}")
    memory(step=step)
