"""A convolutional variational autoencoder with a codebook of vectors (quantized by nearest neighbour), perceptual loss by a frozen VGG."""
import argparse
import json

import torch
import torchvision
from torch import nn
from torch.nn import functional as F

p = argparse.ArgumentParser()
p.add_argument("--device", default="cuda")
p.add_argument("--width", type=int, default=72)
p.add_argument("--batch", type=int, default=14)
p.add_argument("--image", type=int, default=128)
p.add_argument("--codes", type=int, default=1000)
a = p.parse_args()
torch.manual_seed(15)


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.body = nn.Sequential(nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, c, 3, 1, 1), nn.GroupNorm(8, c), nn.SiLU(), nn.Conv2d(c, c, 1))

    def forward(self, x):
        return x + self.body(x)


w = a.width
encoder = nn.Sequential(nn.Conv2d(3, w, 4, 2, 1), Residual(w), nn.Conv2d(w, 2 * w, 4, 2, 1), Residual(2 * w), nn.Conv2d(2 * w, 128, 3, 1, 1))
decoder = nn.Sequential(nn.Conv2d(64, 2 * w, 3, 1, 1), Residual(2 * w), nn.ConvTranspose2d(2 * w, w, 4, 2, 1), Residual(w),
                        nn.ConvTranspose2d(w, 3, 4, 2, 1), nn.Sigmoid())
codebook = nn.Embedding(a.codes, 64)
model = nn.ModuleList([encoder, decoder, codebook]).to(a.device)
vgg = torchvision.models.vgg16(weights=None).features[:16].eval().requires_grad_(False).to(a.device)
optimizer = torch.optim.RAdam(model.parameters(), lr=2e-4)
for step in range(3):
    x = torch.rand(a.batch, 3, a.image, a.image).to(a.device)
    mean, logvar = encoder(x).chunk(2, 1)
    z = mean + torch.randn_like(mean) * (0.5 * logvar).exp()
    flat = z.permute(0, 2, 3, 1).reshape(-1, 64)
    nearest = torch.cdist(flat, codebook.weight).argmin(1)
    q = codebook(nearest).view(a.batch, *z.shape[2:], 64).permute(0, 3, 1, 2)
    straight = z + (q - z).detach()
    y = decoder(straight)
    kl = -0.5 * (1 + logvar - mean.pow(2) - logvar.exp()).mean()
    loss = F.l1_loss(y, x) + 0.1 * F.mse_loss(vgg(y), vgg(x)) + 1e-3 * kl + F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"rec {loss.item():.3f} kl {kl.item():.3f} codes used {nearest.unique().numel()}")
    print(json.dumps({"step": step, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
