"""Speech by a transducer: conformer or LSTM, and an LSTM, joined per frame and word."""
import torch
from torch import nn
from torch.nn import functional as F

from kit import memory, options


class Conformer(nn.Module):
    def __init__(self, d, heads, kernel):
        super().__init__()
        self.ff = nn.ModuleList(nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Dropout(0.1), nn.Linear(4 * d, d)) for _ in range(2))
        self.n1, self.attention = nn.LayerNorm(d), nn.MultiheadAttention(d, heads, dropout=0.1, batch_first=True)
        self.n2, self.wide = nn.LayerNorm(d), nn.Conv1d(d, 2 * d, 1)
        self.deep, self.bn, self.narrow = nn.Conv1d(d, d, kernel, padding=kernel // 2, groups=d), nn.BatchNorm1d(d), nn.Conv1d(d, d, 1)
        self.last = nn.LayerNorm(d)

    def forward(self, x, empty):
        x = x + 0.5 * self.ff[0](x)
        h = self.n1(x)
        x = x + self.attention(h, h, h, key_padding_mask=empty, need_weights=False)[0]
        h = F.glu(self.wide(self.n2(x).transpose(1, 2)), 1).masked_fill(empty[:, None], 0.0)
        x = x + self.narrow(F.silu(self.bn(self.deep(h)))).transpose(1, 2)
        return self.last(x + 0.5 * self.ff[1](x))


class Transducer(nn.Module):
    def __init__(self, a):
        super().__init__()
        self.sub = nn.Sequential(nn.Conv2d(1, 64, 3, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 2), nn.ReLU())
        self.into = nn.Linear(64 * 19, a.d)
        self.layers = nn.ModuleList(Conformer(a.d, 4, 15) for _ in range(a.layers)) if a.body == "conformer" else None
        self.lstm = nn.LSTM(a.d, a.d, a.layers, batch_first=True, dropout=0.1) if a.body == "lstm" else None
        self.words, self.predict = nn.Embedding(a.vocab, a.d), nn.LSTM(a.d, a.d, batch_first=True)
        self.hear, self.say, self.join = nn.Linear(a.d, 320), nn.Linear(a.d, 320), nn.Linear(320, a.vocab)

    def forward(self, x, lengths, words):
        h = self.sub(x[:, None])
        h, lengths = self.into(h.transpose(1, 2).flatten(2)), ((lengths - 1) // 2 - 1) // 2
        empty = (torch.arange(h.shape[1])[None] >= lengths[:, None]).to(h.device)
        if self.lstm is not None:
            h = self.lstm(h)[0]
        else:
            for layer in self.layers:
                h = layer(h, empty)
        said = self.predict(F.pad(self.words(words), (0, 0, 1, 0)))[0]
        return self.join(torch.tanh(self.hear(h)[:, :, None] + self.say(said)[:, None])).float(), lengths


def loss_of(logits, words, frames, counts):
    """Minus the logarithm of all ways' probability: the sum along words is a cumulative one, that along frames a loop."""
    logs = logits.log_softmax(-1)
    blank = logs[..., 0]
    emit = logs[:, :, :-1].gather(3, words[:, None, :, None].expand(-1, logs.shape[1], -1, 1)).squeeze(3)
    sums = F.pad(emit.cumsum(2), (1, 0))
    alpha, rows = sums[:, 0], []
    rows.append(alpha)
    for t in range(1, logs.shape[1]):
        alpha = sums[:, t] + torch.logcumsumexp(alpha + blank[:, t - 1] - sums[:, t], 1)
        rows.append(alpha)
    each = torch.arange(len(words), device=words.device)
    last = frames - 1, counts
    return -(torch.stack(rows, 1)[each, last[0], last[1]] + blank[each, last[0], last[1]]).mean()


a = options(body="conformer", d=320, layers=8, vocab=500, batch=12, frames=560, words=36)
torch.manual_seed(1041)
model = Transducer(a).to(a.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-3)
for step in range(3):
    frames, counts = torch.randint(a.frames // 2, a.frames + 1, (a.batch,)), torch.randint(a.words // 2, a.words + 1, (a.batch,))
    x = torch.randn(a.batch, int(frames.max()), 80).to(a.device)
    words = torch.randint(1, a.vocab, (a.batch, int(counts.max()))).to(a.device)
    with torch.autocast(a.device, dtype=torch.bfloat16):
        logits, heard = model(x, frames, words)
    loss = loss_of(logits, words, heard.to(a.device), counts.to(a.device))
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, tuple(logits.shape), "loss", loss.item())
    memory(step=step)
