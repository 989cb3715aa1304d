"""A GAN with styles: kernels changed per image, a lazy penalty, an average."""
import copy
import torch
from torch import nn
from torch.nn import functional as F

from kit import memory, options


class Even(nn.Linear):
    """A layer whose weights are scaled when it runs, so that all learn at one rate."""
    def forward(self, x):
        return F.linear(x, self.weight * self.in_features ** -0.5, self.bias)


class StyleConv(nn.Module):
    def __init__(self, i, o, w, k=3, up=False, demodulate=True):
        super().__init__()
        self.weight, self.style = nn.Parameter(torch.randn(1, o, i, k, k)), Even(w, i)
        self.up, self.demodulate, self.noise = up, demodulate, nn.Parameter(torch.zeros(()))
        self.bias = nn.Parameter(torch.zeros(1, o, 1, 1))

    def forward(self, x, w):
        b, c, h, _ = x.shape
        kernel = self.weight * (c * self.weight.shape[-1] ** 2) ** -0.5 * (self.style(w) + 1).view(b, 1, c, 1, 1)
        if self.demodulate:
            kernel = kernel * torch.rsqrt(kernel.square().sum((2, 3, 4), keepdim=True) + 1e-8)
        if self.up:
            x = F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)
        y = F.conv2d(x.reshape(1, -1, *x.shape[2:]), kernel.flatten(0, 1), padding=kernel.shape[-1] // 2, groups=b).view(b, -1, *x.shape[2:])
        return y + self.noise * torch.randn(b, 1, *y.shape[2:], device=y.device) + self.bias


class Generator(nn.Module):
    def __init__(self, w, widths):
        super().__init__()
        self.map = nn.Sequential(*(layer for _ in range(6) for layer in (Even(w, w), nn.LeakyReLU(0.2))))
        self.start, self.layers = nn.Parameter(torch.randn(1, widths[0], 4, 4)), nn.ModuleList()
        for i, o in zip(widths[:1] + widths, widths):
            self.layers.append(nn.ModuleList([StyleConv(i, o, w, up=len(self.layers) > 0), StyleConv(o, o, w), StyleConv(o, 3, w, 1, demodulate=False)]))

    def forward(self, z1, z2, cross):
        w1, w2 = self.map(F.normalize(z1, dim=1)), self.map(F.normalize(z2, dim=1))
        x, image = self.start.expand(len(z1), -1, -1, -1), None
        for n, (first, second, to_rgb) in enumerate(self.layers):
            w = w1 if n < cross else w2
            x = F.leaky_relu(second(F.leaky_relu(first(x, w), 0.2), w), 0.2)
            rgb = to_rgb(x, w)
            image = rgb if image is None else rgb + F.interpolate(image, scale_factor=2, mode="bilinear", align_corners=False)
        return image


class Critic(nn.Module):
    def __init__(self, widths):
        super().__init__()
        self.first = nn.Conv2d(3, widths[0], 1)
        self.layers = nn.ModuleList(nn.ModuleList([nn.Conv2d(i, i, 3, padding=1), nn.Conv2d(i, o, 3, padding=1), nn.Conv2d(i, o, 1, bias=False)])
                                    for i, o in zip(widths, widths[1:]))
        self.last = nn.Sequential(nn.Conv2d(widths[-1] + 1, widths[-1], 3, padding=1), nn.LeakyReLU(0.2), nn.Flatten(), nn.LazyLinear(1))

    def forward(self, x):
        x = F.leaky_relu(self.first(x), 0.2)
        for one, two, short in self.layers:
            y = F.avg_pool2d(F.leaky_relu(two(F.leaky_relu(one(x), 0.2)), 0.2), 2)
            x = (y + short(F.avg_pool2d(x, 2))) * 0.7071
        spread = x.std(0, unbiased=False).mean().expand(len(x), 1, *x.shape[2:])
        return self.last(torch.cat([x, spread], 1))


a = options(w=512, widths=[512, 512, 384, 256, 128, 64], batch=12, lazy=2)
torch.manual_seed(1029)
size = 4 << len(a.widths) - 1
g, d = Generator(a.w, a.widths).to(a.device), Critic(a.widths[::-1]).to(a.device)
with torch.no_grad():
    d(torch.zeros(2, 3, size, size, device=a.device))
average = copy.deepcopy(g).eval().requires_grad_(False)
og, od = torch.optim.Adam(g.parameters(), 2e-3, (0.0, 0.99)), torch.optim.Adam(d.parameters(), 2e-3, (0.0, 0.99))
for step in range(4):
    z = torch.randn(4, a.batch, a.w, device=a.device)
    cross = int(torch.randint(1, len(a.widths) + 1, ()))
    real = torch.rand(a.batch, 3, size, size).mul(2).sub(1).to(a.device)
    with torch.no_grad():
        fake = g(z[0], z[1], cross)
    loss_d = F.softplus(d(fake)).mean() + F.softplus(-d(real)).mean()
    od.zero_grad(set_to_none=True)
    loss_d.backward()
    if step % a.lazy == 0:
        real.requires_grad_()
        slope, = torch.autograd.grad(d(real).sum(), real, create_graph=True)
        (slope.square().sum((1, 2, 3)).mean() * 5 * a.lazy).backward()
    od.step()
    d.requires_grad_(False)
    loss_g = F.softplus(-d(g(z[2], z[3], cross))).mean()
    og.zero_grad(set_to_none=True)
    loss_g.backward()
    og.step()
    d.requires_grad_(True)
    for old, new in zip(average.parameters(), g.parameters()):
        old.lerp_(new.detach(), 0.002)
    print(f"step {step} d {loss_d.item():.3f} g {loss_g.item():.3f}")
    memory(step=step)
