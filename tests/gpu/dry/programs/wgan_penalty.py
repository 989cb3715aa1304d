"""A GAN with two optimizers: spectral norm, a gradient penalty (derivatives of derivatives), several critic steps to one of the generator."""
import argparse
import json
import torch
import torch.nn as nn
from torch.nn.utils.parametrizations import spectral_norm

parser = argparse.ArgumentParser()
parser.add_argument("--device", default="cuda")
parser.add_argument("--features", type=int, default=56)
parser.add_argument("--batch", type=int, default=50)
parser.add_argument("--critic", type=int, default=2)
opt = parser.parse_args()
torch.manual_seed(999)
f = opt.features


def up(i, o):
    return [nn.ConvTranspose2d(i, o, 4, 2, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(True)]


def down(i, o):
    return [spectral_norm(nn.Conv2d(i, o, 4, 2, 1)), nn.LeakyReLU(0.2)]


G = nn.Sequential(nn.ConvTranspose2d(100, f * 8, 4, 1, 0, bias=False), nn.BatchNorm2d(f * 8), nn.ReLU(True), *up(f * 8, f * 4),
                  *up(f * 4, f * 2), *up(f * 2, f), nn.ConvTranspose2d(f, 3, 4, 2, 1), nn.Tanh()).to(opt.device)
D = nn.Sequential(*down(3, f), *down(f, f * 2), *down(f * 2, f * 4), *down(f * 4, f * 8), nn.Conv2d(f * 8, 1, 4), nn.Flatten()).to(opt.device)
optD = torch.optim.Adam(D.parameters(), lr=1e-4, betas=(0.0, 0.9))
optG = torch.optim.Adam(G.parameters(), lr=1e-4, betas=(0.0, 0.9))


def penalty(real, fake):
    mix = torch.rand(real.shape[0], 1, 1, 1, device=real.device)
    x = (mix * real + (1 - mix) * fake).requires_grad_()
    grad, = torch.autograd.grad(D(x).sum(), x, create_graph=True)
    return (grad.flatten(1).norm(2, 1) - 1).pow(2).mean()


for i in range(4):
    for _ in range(opt.critic):
        real = torch.randn(opt.batch, 3, 64, 64).to(opt.device)
        with torch.no_grad():
            fake = G(torch.randn(opt.batch, 100, 1, 1, device=opt.device))
        lossD = D(fake).mean() - D(real).mean() + 10 * penalty(real, fake)
        optD.zero_grad()
        lossD.backward()
        optD.step()
    for q in D.parameters():
        q.requires_grad_(False)
    lossG = -D(G(torch.randn(opt.batch, 100, 1, 1, device=opt.device))).mean()
    optG.zero_grad()
    lossG.backward()
    optG.step()
    for q in D.parameters():
        q.requires_grad_(True)
    print("[%d] D %.3f G %.3f" % (i, lossD.item(), lossG.item()))
    print(json.dumps({"step": i, "allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
print(json.dumps({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}))
