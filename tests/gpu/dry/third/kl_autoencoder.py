"""An autoencoder with an adversary whose weight follows from two gradients."""
import torch
from torch import nn
from torch.nn import functional as F

from kit import memory, options


def norm(c):
    return nn.GroupNorm(min(32, c), c, eps=1e-6)


class Res(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.f = nn.Sequential(norm(i), nn.SiLU(), nn.Conv2d(i, o, 3, padding=1), norm(o), nn.SiLU(), nn.Conv2d(o, o, 3, padding=1))
        self.g = nn.Conv2d(i, o, 1) if i != o else nn.Identity()

    def forward(self, x):
        return self.g(x) + self.f(x)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.norm, self.q, self.k, self.v, self.o = norm(c), *(nn.Conv2d(c, c, 1) for _ in range(4))

    def forward(self, x):
        b, c, h, w = x.shape
        y = self.norm(x)
        q, k, v = self.q(y).flatten(2), self.k(y).flatten(2), self.v(y).flatten(2)
        shares = torch.bmm(q.transpose(1, 2), k).mul(c ** -0.5).softmax(2)
        return x + self.o(torch.bmm(v, shares.transpose(1, 2)).view(b, c, h, w))


class Shrink(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv = nn.Conv2d(c, c, 3, stride=2)

    def forward(self, x):
        return self.conv(F.pad(x, (0, 1, 0, 1)))


def encoder(c, factors, z):
    layers, i = [nn.Conv2d(3, c, 3, padding=1)], c
    for k, f in enumerate(factors):
        layers += [Res(i, c * f), Res(c * f, c * f)] + ([Shrink(c * f)] if k < len(factors) - 1 else [])
        i = c * f
    return nn.Sequential(*layers, Res(i, i), Attention(i), Res(i, i), norm(i), nn.SiLU(), nn.Conv2d(i, 2 * z, 3, padding=1))


def decoder(c, factors, z):
    i = c * factors[-1]
    layers = [nn.Conv2d(z, i, 3, padding=1), Res(i, i), Attention(i), Res(i, i)]
    for k, f in reversed(list(enumerate(factors))):
        layers += [Res(i, c * f), Res(c * f, c * f)] + ([nn.Upsample(scale_factor=2), nn.Conv2d(c * f, c * f, 3, padding=1)] if k else [])
        i = c * f
    return nn.Sequential(*layers, norm(i), nn.SiLU(), nn.Conv2d(i, 3, 3, padding=1))


def critic(c):
    layers = [nn.Conv2d(3, c, 4, 2, 1), nn.LeakyReLU(0.2, True)]
    for i in range(2):
        layers += [nn.Conv2d(c << i, c << i + 1, 4, 2, 1, bias=False), nn.BatchNorm2d(c << i + 1), nn.LeakyReLU(0.2, True)]
    return nn.Sequential(*layers, nn.Conv2d(c << 2, 1, 4, 1, 1))


a = options(c=96, factors=[1, 2, 4], batch=6, image=128, begin=1)
torch.manual_seed(1028)
torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
down, up, judge = encoder(a.c, a.factors, 4).to(a.device), decoder(a.c, a.factors, 4).to(a.device), critic(64).to(a.device)
variance = nn.Parameter(torch.zeros((), device=a.device))
optimizer = torch.optim.Adam([*down.parameters(), *up.parameters(), variance], lr=4.5e-6, betas=(0.5, 0.9))
against = torch.optim.Adam(judge.parameters(), lr=4.5e-6, betas=(0.5, 0.9))
for step in range(4):
    x = torch.rand(a.batch, 3, a.image, a.image).mul(2).sub(1).to(a.device)
    mean, log = down(x).chunk(2, 1)
    log = log.clamp(-30, 20)
    made = up(mean + (0.5 * log).exp() * torch.randn_like(mean))
    kl = 0.5 * (mean.square() + log.exp() - 1 - log).sum((1, 2, 3)).mean()
    fit = ((x - made).abs() / variance.exp() + variance).sum() / a.batch
    fool = -judge(made).mean()
    last = up[-1].weight
    g1, g2 = (torch.autograd.grad(loss, last, retain_graph=True)[0] for loss in (fit, fool))
    weight = (g1.norm() / (g2.norm() + 1e-4)).clamp(0, 1e4).detach() * (step >= a.begin)
    loss = fit + 1e-6 * kl + weight * fool
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    against.zero_grad()
    if step >= a.begin:
        hinge = 0.5 * (F.relu(1 - judge(x)).mean() + F.relu(1 + judge(made.detach())).mean())
        hinge.backward()
        against.step()
    print(f"{step} loss {loss.item():.1f} kl {kl.item():.2f} weight {float(weight):.2f}")
    memory(step=step)
