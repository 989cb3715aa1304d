"""Translation with torch.nn.Transformer: padding masks, Noam schedule, beam-free greedy decoding of a few words after each step."""
import argparse
import json

import torch
from torch import nn


class Translator(nn.Module):
    def __init__(self, source, target, d, layers):
        super().__init__()
        self.s, self.t = nn.Embedding(source, d, padding_idx=0), nn.Embedding(target, d, padding_idx=0)
        self.position = nn.Parameter(torch.randn(1, 512, d) * 0.02)
        self.core = nn.Transformer(d, 8, layers, layers, 4 * d, 0.1, batch_first=True, norm_first=True)
        self.out = nn.Linear(d, target)

    def encode(self, source):
        return self.core.encoder(self.s(source) + self.position[:, :source.shape[1]], src_key_padding_mask=source == 0)

    def decode(self, target, memory, source):
        causal = nn.Transformer.generate_square_subsequent_mask(target.shape[1], device=target.device)
        x = self.t(target) + self.position[:, :target.shape[1]]
        return self.out(self.core.decoder(x, memory, tgt_mask=causal, tgt_is_causal=True, memory_key_padding_mask=source == 0))


def padded(rng, count, longest, vocab):
    lengths = torch.randint(5, longest + 1, (count, 1), generator=rng)
    ids = torch.randint(1, vocab, (count, longest), generator=rng)
    return ids.masked_fill(torch.arange(longest) >= lengths, 0)


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--d", type=int, default=640)
p.add_argument("--layers", type=int, default=5)
p.add_argument("--batch", type=int, default=33)
p.add_argument("--length", type=int, default=111)
p.add_argument("--vocab", type=int, default=23_457)
a = p.parse_args()
torch.manual_seed(4)
rng = torch.Generator().manual_seed(4)
model = Translator(a.vocab, a.vocab + 10, a.d, a.layers).to(a.device)
optimizer = torch.optim.Adam(model.parameters(), lr=1.0, betas=(0.9, 0.98), eps=1e-9)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda n: a.d ** -0.5 * min((n + 1) ** -0.5, (n + 1) * 4000 ** -1.5))
for step in range(4):
    model.train()
    source = padded(rng, a.batch, a.length - 7 * step, a.vocab).to(a.device)
    target = padded(rng, a.batch, a.length + 3 * step, a.vocab + 10).to(a.device)
    logits = model.decode(target[:, :-1], model.encode(source), source)
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), target[:, 1:].flatten(), ignore_index=0, label_smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    model.eval()
    with torch.no_grad():
        memory = model.encode(source[:4])
        words = torch.ones(4, 1, dtype=torch.long, device=a.device)
        for _ in range(6):
            words = torch.cat([words, model.decode(words, memory, source[:4])[:, -1:].argmax(-1)], 1)
    print("sample:", words[0].tolist())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
