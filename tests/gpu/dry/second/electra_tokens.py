"""ELECTRA for tagging words: sentences sorted into buckets of like length, so that each step has another shape."""
import argparse
import json

import torch
from transformers import ElectraConfig, ElectraForTokenClassification

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--hidden", type=int, default=768)
p.add_argument("--layers", type=int, default=12)
p.add_argument("--sentences", type=int, default=160)
p.add_argument("--longest", type=int, default=254)
p.add_argument("--batch", type=int, default=32)
a = p.parse_args()
torch.manual_seed(37)
model = ElectraForTokenClassification(ElectraConfig(
    hidden_size=a.hidden, embedding_size=128, intermediate_size=4 * a.hidden, num_hidden_layers=a.layers, num_attention_heads=12,
    num_labels=17)).to(a.device)
head = list(model.classifier.parameters())
body = [w for n, w in model.named_parameters() if not n.startswith("classifier")]
optimizer = torch.optim.AdamW([{"params": body, "lr": 2e-5}, {"params": head, "lr": 1e-3}])
lengths = torch.randint(9, a.longest, (a.sentences,)).sort().values
order = torch.randperm(-(-a.sentences // a.batch))
for step, bucket in enumerate(order.tolist()):
    n = lengths[bucket * a.batch:(bucket + 1) * a.batch]
    t = int(n.max())
    mask = (torch.arange(t)[None] < n[:, None])
    ids = torch.randint(1000, 30_000, mask.shape).masked_fill(~mask, 0).to(a.device)
    tags = torch.randint(0, 17, mask.shape).masked_fill(~mask, -100).to(a.device)
    mask = mask.long().to(a.device)
    with torch.autocast(a.device, dtype=torch.bfloat16):
        out = model(input_ids=ids, attention_mask=mask, labels=tags)
    out.loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    right = ((out.logits.argmax(-1) == tags) & (tags >= 0)).sum() / (tags >= 0).sum()
    print(f"{step} length {t} loss {out.loss.item():.3f} right {right.item():.3f}")
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
