"""Images and captions by two towers, on a stream each."""
import contextlib
import torch
from torch import nn
from torch.nn import functional as F

from kit import memory, options


class Layer(nn.Module):
    """A block of a convolutional tower: wide depthwise kernels, a norm over channels, responses normalized over the image."""
    def __init__(self, c):
        super().__init__()
        self.deep, self.norm = nn.Conv2d(c, c, 7, padding=3, groups=c), nn.LayerNorm(c, eps=1e-6)
        self.up, self.down = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
        self.gamma, self.beta = (nn.Parameter(torch.zeros(4 * c)) for _ in range(2))

    def forward(self, x):
        h = F.gelu(self.up(self.norm(self.deep(x).permute(0, 2, 3, 1))))
        size = torch.linalg.vector_norm(h, dim=(1, 2), keepdim=True)
        h = self.gamma * (h * (size / (size.mean(-1, keepdim=True) + 1e-6))) + self.beta + h
        return x + self.down(h).permute(0, 3, 1, 2)


class Images(nn.Module):
    def __init__(self, widths, depths, out):
        super().__init__()
        layers = [nn.Conv2d(3, widths[0], 4, 4)]
        for k, (c, depth) in enumerate(zip(widths, depths)):
            layers += ([nn.GroupNorm(1, widths[k - 1]), nn.Conv2d(widths[k - 1], c, 2, 2)] if k else []) + [Layer(c) for _ in range(depth)]
        self.body, self.out = nn.Sequential(*layers), nn.Linear(widths[-1], out)

    def forward(self, x):
        return F.normalize(self.out(self.body(x).mean((2, 3))).float(), dim=-1)


class Texts(nn.Module):
    def __init__(self, vocab, d, layers, longest, out):
        super().__init__()
        self.words, self.places = nn.Embedding(vocab, d, padding_idx=0), nn.Parameter(torch.randn(longest, d) * 0.01)
        self.body = nn.ModuleList(nn.TransformerEncoderLayer(d, 8, 4 * d, 0.0, "gelu", batch_first=True, norm_first=True) for _ in range(layers))
        self.out = nn.Linear(d, out)

    def forward(self, ids):
        x = self.words(ids) + self.places[:ids.shape[1]]
        for layer in self.body:
            x = layer(x)
        return F.normalize(self.out(x[:, -1]).float(), dim=-1)


a = options(batch=72, image=160, words=40, d=512, layers=8, vocab=32_000, out=384, widths=[80, 160, 320, 640], depths=[2, 2, 6, 2])
torch.manual_seed(1050)
images, texts = Images(a.widths, a.depths, a.out).to(a.device), Texts(a.vocab, a.d, a.layers, a.words, a.out).to(a.device)
scale, shift = (nn.Parameter(torch.tensor(v, device=a.device)) for v in (2.3, -10.0))
weights = [*images.parameters(), *texts.parameters(), scale, shift]
optimizer = torch.optim.AdamW(weights, lr=1e-3, betas=(0.9, 0.95), weight_decay=1e-4)
cuda = a.device == "cuda"
streams = [torch.cuda.Stream() for _ in range(2)] if cuda else []
signs = 2 * torch.eye(a.batch, device=a.device) - 1


def both(pixels, ids):
    """The two towers side by side."""
    out = []
    for k, (tower, x) in enumerate(((images, pixels), (texts, ids))):
        if cuda:
            streams[k].wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(streams[k]) if cuda else contextlib.nullcontext(), torch.autocast(a.device, dtype=torch.bfloat16):
            out.append(tower(x))
    for stream in streams:
        torch.cuda.current_stream().wait_stream(stream)
    return out


def draw():
    return torch.randn(a.batch, 3, a.image, a.image).to(a.device), torch.randint(1, a.vocab, (a.batch, a.words)).to(a.device)


for step in range(4):
    i, t = both(*draw())
    loss = -F.logsigmoid(signs * (i @ t.T * scale.exp() + shift)).sum() / a.batch
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, "loss", loss.item())
    memory(step=step)
with torch.no_grad():
    i, t = both(*draw())
    print("recall", ((i @ t.T).argmax(1) == torch.arange(a.batch, device=a.device)).float().mean().item())
