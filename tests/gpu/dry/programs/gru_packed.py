"""Sequence to sequence by GRUs: packed sequences, a bidirectional encoder, an attending decoder word by word with teacher forcing by the host's dice."""
import argparse, json, random
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class Encoder(nn.Module):
    def __init__(self, vocab, n):
        super().__init__()
        self.embed, self.gru, self.bridge = nn.Embedding(vocab, n), nn.GRU(n, n, 2, bidirectional=True, batch_first=True, dropout=0.2), nn.Linear(2 * n, n)

    def forward(self, ids, lengths):
        packed = pack_padded_sequence(self.embed(ids), lengths, batch_first=True, enforce_sorted=False)
        out, h = self.gru(packed)
        out, _ = pad_packed_sequence(out, batch_first=True)
        return self.bridge(out), torch.tanh(self.bridge(torch.cat([h[-2], h[-1]], -1)))


class Decoder(nn.Module):
    def __init__(self, vocab, n):
        super().__init__()
        self.embed, self.cell, self.out = nn.Embedding(vocab, n), nn.GRUCell(2 * n, n), nn.Linear(2 * n, vocab)

    def forward(self, word, h, memory, mask):
        score = torch.bmm(memory, h.unsqueeze(2)).squeeze(2).masked_fill(mask, -1e9)
        context = torch.bmm(score.softmax(1).unsqueeze(1), memory).squeeze(1)
        h = self.cell(torch.cat([self.embed(word), context], 1), h)
        return self.out(torch.cat([h, context], 1)), h


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--n", type=int, default=500)
p.add_argument("--batch", type=int, default=64)
p.add_argument("--longest", type=int, default=90)
p.add_argument("--words", type=int, default=25)
p.add_argument("--vocab", type=int, default=12_001)
a = p.parse_args()
torch.manual_seed(5)
dice = random.Random(5)
encoder, decoder = Encoder(a.vocab, a.n).to(a.device), Decoder(a.vocab, a.n).to(a.device)
optimizers = [torch.optim.Adam(m.parameters(), lr=1e-3) for m in (encoder, decoder)]
for step in range(4):
    lengths = torch.tensor([dice.randint(5, a.longest) for _ in range(a.batch)])
    source = torch.randint(1, a.vocab, (a.batch, int(lengths.max()))).to(a.device)
    target = torch.randint(1, a.vocab, (a.batch, a.words + step)).to(a.device)
    memory, h = encoder(source, lengths)
    mask = (torch.arange(memory.shape[1])[None] >= lengths[:, None]).to(a.device)
    word, loss = torch.zeros(a.batch, dtype=torch.long, device=a.device), 0
    for i in range(target.shape[1]):
        logits, h = decoder(word, h, memory, mask)
        loss = loss + nn.functional.cross_entropy(logits, target[:, i])
        word = target[:, i] if dice.random() < 0.5 else logits.argmax(1)
    loss.backward()
    for m, o in zip((encoder, decoder), optimizers):
        nn.utils.clip_grad_norm_(m.parameters(), 1.0)
        o.step()
        o.zero_grad()
    print("loss", loss.item() / target.shape[1])
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
