"""A two-way LSTM with projections over letters' convolutions, fp32, sentences of other lengths each step, packed."""
import argparse
import json
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--hidden", type=int, default=900)
p.add_argument("--projection", type=int, default=300)
p.add_argument("--layers", type=int, default=3)
p.add_argument("--batch", type=int, default=64)
p.add_argument("--longest", type=int, default=120)
a = p.parse_args()
torch.manual_seed(137)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters, self.words = nn.Embedding(100, 32), nn.Embedding(40_000, 200)
        self.conv = nn.Conv1d(32, 100, 3, padding=1)
        self.lstm = nn.LSTM(300, a.hidden, a.layers, batch_first=True, bidirectional=True, proj_size=a.projection, dropout=0.3)
        self.out = nn.Linear(2 * a.projection, 50)

    def forward(self, words, letters, lengths):
        b, t, n = letters.shape
        c = self.conv(self.letters(letters).view(b * t, n, -1).transpose(1, 2)).relu().amax(2).view(b, t, -1)
        packed = pack_padded_sequence(torch.cat([self.words(words), c], 2), lengths, batch_first=True, enforce_sorted=False)
        return self.out(pad_packed_sequence(self.lstm(packed)[0], batch_first=True)[0])


model = Tagger().to(a.device)
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
for step in range(4):
    lengths = torch.randint(6, a.longest, (a.batch,))
    t = int(lengths.max())
    words, letters = torch.randint(0, 40_000, (a.batch, t)).to(a.device), torch.randint(0, 100, (a.batch, t, 12)).to(a.device)
    tags = torch.where(torch.arange(t)[None] < lengths[:, None], torch.randint(0, 50, (a.batch, t)), -1).to(a.device)
    loss = nn.functional.cross_entropy(model(words, letters, lengths).transpose(1, 2), tags, ignore_index=-1)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    print(step, t, loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
