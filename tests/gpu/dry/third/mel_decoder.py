"""Speech from letters: an LSTM reads, two LSTM cells write frame by frame."""
import torch
from torch import nn
from torch.nn import functional as F

from kit import memory, options


class Reader(nn.Module):
    def __init__(self, letters, d):
        super().__init__()
        self.embed = nn.Embedding(letters, d)
        self.convs = nn.ModuleList(nn.Sequential(nn.Conv1d(d, d, 5, padding=2), nn.BatchNorm1d(d), nn.ReLU(), nn.Dropout(0.5)) for _ in range(3))
        self.lstm = nn.LSTM(d, d // 2, batch_first=True, bidirectional=True)

    def forward(self, ids, lengths):
        x = self.embed(ids).transpose(1, 2)
        for conv in self.convs:
            x = conv(x)
        x = nn.utils.rnn.pack_padded_sequence(x.transpose(1, 2), lengths, batch_first=True, enforce_sorted=False)
        return nn.utils.rnn.pad_packed_sequence(self.lstm(x)[0], batch_first=True, total_length=ids.shape[1])[0]


class Look(nn.Module):
    def __init__(self, query, memory, d=128):
        super().__init__()
        self.query, self.memory, self.score = nn.Linear(query, d, bias=False), nn.Linear(memory, d, bias=False), nn.Linear(d, 1, bias=False)
        self.place = nn.Sequential(nn.Conv1d(2, 32, 31, padding=15, bias=False), nn.Flatten(2))
        self.widen = nn.Linear(32, d, bias=False)

    def forward(self, query, keys, memory, before, empty):
        place = self.widen(self.place(before).transpose(1, 2))
        energy = self.score(torch.tanh(self.query(query)[:, None] + keys + place)).squeeze(-1).masked_fill(empty, float("-inf"))
        shares = energy.softmax(1)
        return torch.bmm(shares[:, None], memory).squeeze(1), shares


class Speaker(nn.Module):
    def __init__(self, letters, d, h, mels):
        super().__init__()
        self.reader, self.look, self.h = Reader(letters, d), Look(h, d), h
        self.before = nn.Sequential(nn.Linear(mels, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 256), nn.ReLU(), nn.Dropout(0.5))
        self.one, self.two = nn.LSTMCell(256 + d, h), nn.LSTMCell(h + d, h)
        self.frame, self.stop = nn.Linear(h + d, mels), nn.Linear(h + d, 1)
        sizes = [mels, 512, 512, 512, mels]
        self.after = nn.Sequential(*(nn.Sequential(nn.Conv1d(i, o, 5, padding=2), nn.BatchNorm1d(o), nn.Tanh() if o != mels else nn.Identity())
                                     for i, o in zip(sizes, sizes[1:])))

    def forward(self, ids, lengths, frames):
        memory = self.reader(ids, lengths)
        empty = (torch.arange(ids.shape[1])[None] >= lengths[:, None]).to(ids.device)
        keys, inputs = self.look.memory(memory), self.before(F.pad(frames, (0, 0, 1, 0))[:, :-1])
        state1 = state2 = (memory.new_zeros(len(ids), self.h), memory.new_zeros(len(ids), self.h))
        context, now, total, out = memory.new_zeros(len(ids), memory.shape[2]), memory.new_zeros(ids.shape), memory.new_zeros(ids.shape), []
        for t in range(frames.shape[1]):
            state1 = self.one(torch.cat([inputs[:, t], context], 1), state1)
            context, now = self.look(state1[0], keys, memory, torch.stack([now, total], 1), empty)
            total = total + now
            state2 = self.two(torch.cat([F.dropout(state1[0], 0.1, self.training), context], 1), state2)
            out.append(torch.cat([state2[0], context], 1))
        out = torch.stack(out, 1)
        made = self.frame(out)
        return made, made + self.after(made.transpose(1, 2)).transpose(1, 2), self.stop(out).squeeze(-1)


a = options(d=512, h=1024, mels=80, batch=26, letters=120, frames=170)
torch.manual_seed(1040)
model = Speaker(70, a.d, a.h, a.mels).to(a.device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, eps=1e-6, weight_decay=1e-6)
for step in range(3):
    letters = torch.randint(a.letters // 2, a.letters + 1, (a.batch,))
    count = torch.randint(a.frames // 2, a.frames + 1, (a.batch,))
    ids = (torch.randint(1, 70, (a.batch, int(letters.max()))) * (torch.arange(int(letters.max()))[None] < letters[:, None])).to(a.device)
    there = torch.arange(int(count.max()))[None] < count[:, None]
    frames = (torch.randn(a.batch, int(count.max()), a.mels) * there[..., None]).to(a.device)
    ends = (torch.arange(int(count.max()))[None] >= count[:, None] - 1).float().to(a.device)
    made, better, stop = model(ids, letters, frames)
    loss = F.mse_loss(made, frames) + F.mse_loss(better, frames) + F.binary_cross_entropy_with_logits(stop, ends)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print(f"Train loss {step} {loss.item():.6f} Grad Norm {norm:.6f}")
    memory(step=step)
