"""Speech by CTC: spectrograms made on the device, subsampling convolutions, bidirectional GRUs or conformer-like blocks, utterances of uneven lengths."""
import argparse, json
import torch
from torch import nn
import torch.nn.functional as F


class Conformer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.n1, self.n2, self.n3 = nn.LayerNorm(d), nn.LayerNorm(d), nn.LayerNorm(d)
        self.attention = nn.MultiheadAttention(d, 4, dropout=0.1, batch_first=True)
        self.p1, self.depth, self.p2, self.bn = nn.Conv1d(d, 2 * d, 1), nn.Conv1d(d, d, 31, padding=15, groups=d), nn.Conv1d(d, d, 1), nn.BatchNorm1d(d)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.SiLU(), nn.Dropout(0.1), nn.Linear(4 * d, d))

    def forward(self, x, padding):
        y = self.n1(x)
        x = x + self.attention(y, y, y, key_padding_mask=padding, need_weights=False)[0]
        y = F.glu(self.p1(self.n2(x).transpose(1, 2)), 1)
        x = x + self.p2(F.silu(self.bn(self.depth(y)))).transpose(1, 2)
        return x + 0.5 * self.ff(self.n3(x))


class Recurrent(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.gru, self.norm = nn.GRU(d, d // 2, 1, batch_first=True, bidirectional=True), nn.LayerNorm(d)

    def forward(self, x, padding):
        return self.norm(x + self.gru(x)[0])


p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--body", choices=["conformer", "gru"], default="conformer")
p.add_argument("--d", type=int, default=336)
p.add_argument("--layers", type=int, default=8)
p.add_argument("--batch", type=int, default=12)
p.add_argument("--seconds", type=float, default=11.0)
a = p.parse_args()
torch.manual_seed(16)
stem = nn.Sequential(nn.Conv2d(1, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 64, 3, 2, 1), nn.ReLU())
body = nn.ModuleList((Conformer if a.body == "conformer" else Recurrent)(a.d) for _ in range(a.layers))
project, head = nn.Linear(64 * 51, a.d), nn.Linear(a.d, 33)
model = nn.ModuleList([stem, body, project, head]).to(a.device)
optimizer = torch.optim.NAdam(model.parameters(), 1e-3)
window = torch.hann_window(400, device=a.device)
for step in range(3):
    longest = int(16_000 * (a.seconds - step * 1.3))
    wave = torch.randn(a.batch, longest).to(a.device)
    spectrum = torch.stft(wave, 404, 160, 400, window, return_complex=True).abs().clamp(min=1e-5).log()
    x = stem(spectrum.transpose(1, 2).unsqueeze(1))
    x = project(x.permute(0, 2, 1, 3).flatten(2))
    lengths = torch.randint(x.shape[1] // 2, x.shape[1] + 1, (a.batch,))
    padding = (torch.arange(x.shape[1])[None] >= lengths[:, None]).to(a.device)
    for block in body:
        x = block(x, padding)
    words = torch.randint(5, 40, (a.batch,))
    text = torch.randint(1, 33, (int(words.sum()),))
    loss = F.ctc_loss(head(x).log_softmax(-1).transpose(0, 1), text.to(a.device), lengths.to(a.device), words.to(a.device), zero_infinity=True)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("frames", x.shape[1], "ctc", loss.item())
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
