"""BERT, masked words: the loss of those positions alone, picked by labels that the host drew."""
import argparse
import json

import torch
from torch.nn import functional as F
from transformers import BertConfig, BertForMaskedLM

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--layers", type=int, default=12)
parser.add_argument("--hidden", type=int, default=768)
parser.add_argument("--batch", type=int, default=22)
parser.add_argument("--seq", type=int, default=384)
args = parser.parse_args()
torch.manual_seed(12)
model = BertForMaskedLM(BertConfig(num_hidden_layers=args.layers, hidden_size=args.hidden, intermediate_size=4 * args.hidden)).to(args.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
for step in range(4):
    ids = torch.randint(1000, 30_522, (args.batch, args.seq))
    chosen = torch.rand(ids.shape) < 0.15
    labels = torch.where(chosen, ids, -100)
    ids = torch.where(chosen, 103, ids)
    lengths = torch.randint(args.seq // 2, args.seq + 1, (args.batch,))
    mask = (torch.arange(args.seq)[None] < lengths[:, None]).long()
    ids, mask, labels = ids.to(args.device), mask.to(args.device), labels.to(args.device)
    with torch.autocast(args.device, dtype=torch.bfloat16):
        hidden = model.bert(ids, attention_mask=mask).last_hidden_state
        where = labels != -100
        loss = F.cross_entropy(model.cls(hidden[where]), labels[where])
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, "masked loss", loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
