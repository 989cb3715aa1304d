"""dry_workspaces_nets.py - the convolutions of networks that people train: what dry_workspaces.py asks cuDNN about.

A layer is (x without batch, outputs, groups, kernel, padding, step, dilation).  Each of the last four has as many numbers as
x has directions.  A transposed layer is given as the convolution whose gradient it is, and one of one direction has one row:
so PyTorch asks cuDNN.  zoo() has networks of libraries and of papers, drawn(seed) one that nobody has published:
widths, depths, kernels and sizes are drawn as people choose them.
"""

import itertools

# ---- by hand: a net collects layers, and follows the size of what it computes ----


class Net:
    def __init__(self, channels, *sides):
        self.c, self.s, self.layers = channels, tuple(sides), []

    def wide(self, v):
        return tuple(v) if isinstance(v, (tuple, list)) else (v,) * len(self.s)

    def add(self, x, k, groups, kernel, pad, step, dilation):
        if len(x) == 2:  # one direction: one row
            x, kernel, pad, step, dilation = (x[0], 1, x[1]), (1, *kernel), (0, *pad), (1, *step), (1, *dilation)
        self.layers.append((tuple(x), k, groups, kernel, pad, step, dilation))

    def conv(self, k, kernel=3, step=1, pad=None, dilation=1, groups=1, c=None):
        """One layer; C: its inputs where something was joined to what came before."""
        c = c or self.c
        kernel, step, dilation = self.wide(kernel), self.wide(step), self.wide(dilation)
        pad = self.wide(pad) if pad is not None else tuple((a - 1) * b // 2 for a, b in zip(kernel, dilation))
        out = tuple((s + 2 * p - d * (a - 1) - 1) // t + 1 for s, p, d, a, t in zip(self.s, pad, dilation, kernel, step))
        if min(out) < 1:
            return self  # nothing would be left
        self.add((c, *self.s), k, groups, kernel, pad, step, dilation)
        self.c, self.s = k, out
        return self

    def up(self, k, kernel=2, step=2, pad=0, more=0, groups=1, c=None):
        """A transposed one."""
        c = c or self.c
        kernel, step, pad = self.wide(kernel), self.wide(step), self.wide(pad)
        out = tuple((s - 1) * t - 2 * p + a + more for s, p, a, t in zip(self.s, pad, kernel, step))
        self.add((k, *out), c, groups, kernel, pad, step, self.wide(1))
        self.c, self.s = k, out
        return self

    def pool(self, by=2):
        self.s = tuple(max(1, s // by) for s in self.s)
        return self

    def grow(self, by=2):
        self.s = tuple(s * by for s in self.s)
        return self

    def at(self, c, *sides):
        self.c, self.s = c, tuple(sides) or self.s
        return self


def residual(n, k, step=1, bottleneck=False, groups=1, width=None):
    c, s, width = n.c, n.s, width or k
    if bottleneck:
        n.conv(width, 1).conv(width, 3, step, groups=groups).conv(k, 1)
    else:
        n.conv(k, 3, step).conv(k, 3)
    if c != k or step != 1:
        end = n.s
        n.at(c, *s).conv(k, 1, step).at(k, *end)


def resnet(channels, side, widths, depths, stem=(7, 2, True), bottleneck=False, dims=2):
    n = Net(channels, *(side,) * dims)
    n.conv(widths[0], stem[0], stem[1])
    if stem[2]:
        n.s = tuple((s + 1) // 2 for s in n.s)
    for i, (w, depth) in enumerate(zip(widths, depths)):
        for j in range(depth):
            residual(n, w * (4 if bottleneck else 1), 2 if i and not j else 1, bottleneck, width=w)
    return n.layers


def unet(channels, side, widths, out=1, each=2, up="transposed", kernel=3, pad=None, dims=2, down="pool"):
    """The U-Net of segmentation; one direction per DIMS."""
    n, skips = Net(channels, *(side if isinstance(side, tuple) else (side,) * dims)), []
    for i, w in enumerate(widths):
        for j in range(each):
            n.conv(w, kernel, 2 if down == "step" and i and not j else 1, pad)
        skips.append((w, n.s))
        if i + 1 < len(widths) and down == "pool":
            n.pool()
    for i in range(len(widths) - 2, -1, -1):
        w, s = skips[i]
        if up == "transposed":
            n.up(w)
        elif up == "conv":
            n.at(n.c, *s).conv(w, kernel, 1, pad)
        joined = n.c + w
        n.at(joined, *s)
        for j in range(each):
            n.conv(w, kernel, 1, pad)
    n.conv(out, 1)
    return n.layers


def diffusion(channels, side, widths, each=2, out=None, attention=(), head=None, first=3, time=True):
    """A U-Net as diffusers builds it: residual blocks, each with its own skip; ATTENTION: levels with projections of 1 x 1."""
    n, skips = Net(channels, side, side), []
    n.conv(widths[0], first)
    skips.append(n.c)

    def attend(level):
        if level in attention:
            n.conv(n.c, 1)

    for i, w in enumerate(widths):
        for _ in range(each):
            residual(n, w)
            attend(i)
            skips.append(w)
        if i + 1 < len(widths):
            n.conv(w, 3, 2)
            skips.append(w)
    residual(n, widths[-1])
    attend(len(widths) - 1)
    residual(n, widths[-1])
    for i in range(len(widths) - 1, -1, -1):
        for _ in range(each + 1):
            n.at(n.c + skips.pop())
            residual(n, widths[i])
            attend(i)
        if i:
            n.grow().conv(widths[i], 3)
    n.conv(out or channels, 3)
    return n.layers


def autoencoder(channels, side, widths, latent, each=2, double=True):
    """The one of latent diffusion: the decoder has one block more, the steps down are padded on one side."""
    n = Net(channels, side, side).conv(widths[0], 3)
    for i, w in enumerate(widths):
        for _ in range(each):
            residual(n, w)
        if i + 1 < len(widths):
            n.s = tuple(s + 1 for s in n.s)
            n.conv(w, 3, 2, 0)
    residual(n, widths[-1])
    n.conv((2 if double else 1) * latent, 3).conv(n.c, 1).at(latent).conv(latent, 1).conv(widths[-1], 3)
    residual(n, widths[-1])
    for i in range(len(widths) - 1, -1, -1):
        for _ in range(each + 1):
            residual(n, widths[i])
        if i:
            n.grow().conv(widths[i], 3)
    n.conv(channels, 3)
    return n.layers


def ddpm(channels, side, dim, mults):
    """As in small repositories: a stem of 7 x 7, steps down that fold pixels into channels, linear attention."""
    n = Net(channels, side, side).conv(dim, 7)
    widths, skips = [dim] + [dim * m for m in mults], []
    for i, (a, b) in enumerate(zip(widths, widths[1:])):
        for _ in range(2):
            residual(n, a)
            skips.append(n.c)
        n.conv(384, 1).at(128).conv(a, 1)
        if i + 1 < len(mults):
            n.conv(b, 4, 2, 1).layers.pop()
            n.at(4 * a).conv(b, 1)
        else:
            n.conv(b, 3)
    for _ in range(2):
        residual(n, n.c)
    n.conv(384, 1).at(128).conv(widths[-1], 1)
    for i, (a, b) in reversed(list(enumerate(zip(widths, widths[1:])))):
        for _ in range(2):
            n.at(b + skips.pop())
            residual(n, b)
        n.conv(384, 1).at(128).conv(b, 1)
        (n.grow() if i else n).conv(a, 3)
    n.at(2 * dim)
    residual(n, dim)
    n.conv(channels, 1)
    return n.layers


def gan(side, g, d, z=100, channels=3):
    """DCGAN's two."""
    steps = side.bit_length() - 3
    n = Net(z, 1, 1).up(g << (steps - 1), 4, 1, 0)
    for i in range(steps - 2, -1, -1):
        n.up(g << i, 4, 2, 1)
    n.up(channels, 4, 2, 1)
    n.at(channels, side, side)
    for i in range(steps):
        n.conv(d << i, 4, 2, 1)
    if n.s[0] == 4:
        n.conv(1, 4, 1, 0)
    return n.layers


def plain(channels, side, stages, kernel=3, pad=None, pool="max", dims=2):
    """STAGES: the widths of each, between which is pooled."""
    n = Net(channels, *(side if isinstance(side, tuple) else (side,) * dims))
    for i, stage in enumerate(stages):
        for j, w in enumerate(stage):
            n.conv(w, kernel, 2 if pool == "step" and (i or dims == 1) and not j else 1, pad)
        if pool == "max":
            n.pool()
    return n.layers


def coder(channels, side, widths, kernel=4, dims=2, latent=None, step=2):
    """Steps down, and as many transposed ones up."""
    n = Net(channels, *(side if isinstance(side, tuple) else (side,) * dims))
    pad, more = (kernel - 1) // 2, step - 2 + kernel % 2
    sides = []
    for w in widths:
        sides.append((n.c, n.s))
        n.conv(w, kernel, step, pad)
    if latent:
        n.conv(latent, 1).conv(widths[-1], 1)
    for c, s in reversed(sides):
        n.up(c, kernel, step, pad, more if kernel % 2 or step > 2 else 0)
        n.at(c, *s)
    return n.layers


def mobile(channels, side, stem, blocks, kernel=3):
    """Inverted residuals: (outputs, expansion, step)."""
    n = Net(channels, side, side).conv(stem, 3, 2)
    for k, expand, step in blocks:
        wide = n.c * expand
        if expand > 1:
            n.conv(wide, 1)
        n.conv(wide, kernel, step, groups=wide).conv(k, 1)
    n.conv(4 * n.c, 1)
    return n.layers


def enlarging(side, width, blocks, by, channels=3, kernel=3, dense=False):
    """Super-resolution, and its like."""
    n = Net(channels, side, side).conv(width, kernel)
    n.conv(width, 3)
    if dense:
        for i in range(1, 4):
            n.at(width + 32 * i).conv(32, 3)
        n.at(width + 128).conv(width, 3)
    for _ in range({2: 1, 3: 1, 4: 2, 8: 3}[by]):
        n.conv(width * (9 if by == 3 else 4), 3).grow(3 if by == 3 else 2).at(width)
    n.conv(width, 3).conv(channels, kernel)
    return n.layers


def speech(length, widths, kernels, steps, pad=0):
    n = Net(1, length)
    for w, k, t in zip(widths, kernels, steps):
        n.conv(w, k, t, pad)
    return n.layers


def codec(length, width, ratios, latent=128, kernel=7):
    """Residual units between steps down, and the same up again."""
    n = Net(1, length).conv(width, kernel)
    for r in ratios:
        c = n.c
        n.conv(c // 2, 3).conv(c, 1).conv(2 * c, 2 * r, r, (r + 1) // 2)
    n.conv(latent, kernel).conv(16 * width, kernel)
    for r in reversed(ratios):
        n.up(n.c // 2, 2 * r, r, (r + 1) // 2, r % 2)
        c = n.c
        n.conv(c // 2, 3).conv(c, 1)
    return n.conv(1, kernel).layers


def temporal(channels, length, widths, kernel, dilations=True):
    n = Net(channels, length)
    for i, w in enumerate(widths):
        d = 1 << i if dilations else 1
        n.conv(w, kernel, 1, (kernel - 1) * d, d).at(w, length).conv(w, kernel, 1, (kernel - 1) * d, d).at(w, length)
    return n.layers


def separator(n_filters, kernel, length, bottleneck, hidden):
    n = Net(1, length).conv(n_filters, kernel, kernel // 2, 0)
    end = n.s
    n.conv(bottleneck, 1)
    for i in range(8):
        n.conv(hidden, 1).conv(hidden, 3, 1, None, 1 << i, hidden).conv(bottleneck, 1)
    return n.conv(2 * n_filters, 1).at(n_filters, *end).up(1, kernel, kernel // 2, 0).layers


def boards(planes, side, width):
    return Net(planes, side, side).conv(width, 3).conv(width, 3).conv(2, 1).at(width).conv(1, 1).at(width).conv(32, 1).layers


def pyramid(h, w, widths=(256, 512, 1024, 2048), classes=91, anchors=3):
    """Detection on images of H x W after a ResNet: the pyramid, its proposals and heads."""
    n = Net(3, h, w).conv(64, 7, 2)
    n.s = tuple((s + 1) // 2 for s in n.s)
    levels = []
    for i, (k, depth) in enumerate(zip(widths, (3, 4, 6, 3))):
        for j in range(min(depth, 2)):
            residual(n, k, 2 if i and not j else 1, True, width=k // 4)
        levels.append((k, n.s))
    for k, s in levels:
        n.at(k, *s).conv(256, 1).conv(256, 3).conv(anchors, 1).at(256).conv(4 * anchors, 1).at(256)
        n.conv(256, 3).at(256).conv(9 * classes, 3).at(256).conv(36, 3)
    return n.layers


def yolo(side, depth, width, classes=80):
    c = lambda v: max(8, int(v * width + 7) // 8 * 8)  # noqa: E731
    n = Net(3, side, side).conv(c(64), 3, 2).conv(c(128), 3, 2)
    outs = []

    def block(k, times):
        half = k // 2
        n.conv(k, 1).at(half)
        for _ in range(min(times, 2)):
            n.conv(half, 3).conv(half, 3)
        n.at(half * (2 + times)).conv(k, 1)

    for k, times in ((128, 3), (256, 6), (512, 6), (1024 if width < 1 else 512, 3)):
        if k > 128:
            n.conv(c(k), 3, 2)
        block(c(k), max(1, round(times * depth)))
        outs.append((n.c, n.s))
    n.conv(n.c // 2, 1).at(2 * n.c).conv(outs[-1][0], 1)
    for i in (2, 1):
        n.at(n.c + outs[i][0], *outs[i][1])
        block(outs[i][0], max(1, round(3 * depth)))
    for k, s in outs[1:]:
        n.at(k, *s).conv(max(16, outs[1][0] // 4, 64), 3).conv(n.c, 3).conv(64, 1).at(k).conv(max(outs[1][0], classes), 3).conv(n.c, 3).conv(classes, 1)
    return n.layers


# ---- networks of papers and repositories ----

FEW, SOME, MANY = (1, 2, 4, 8, 16), (1, 2, 4, 8, 16, 32, 64), (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def zoo():
    """(family, layers, batches)"""

    def of(family, batches, nets):
        yield from ((family, layers, batches) for layers in nets)

    yield from of("first", MANY, [
        Net(1, 28, 28).conv(32, 3, 1, 0).conv(64, 3, 1, 0).layers, Net(1, 28, 28).conv(10, 5, 1, 0).pool().conv(20, 5, 1, 0).layers,
        Net(1, 28, 28).conv(32, 5).pool().conv(64, 5).layers, Net(1, 28, 28).conv(16, 5).pool().conv(32, 5).layers, Net(1, 28, 28).conv(20, 5, 1, 0).pool().conv(50, 5, 1, 0).layers,
        Net(3, 32, 32).conv(6, 5, 1, 0).pool().conv(16, 5, 1, 0).layers, Net(1, 32, 32).conv(6, 5, 1, 0).pool().conv(16, 5, 1, 0).conv(120, 5, 1, 0).layers,
        *(plain(c, s, stages, pad=pad) for c, s in ((1, 28), (3, 32), (3, 64), (3, 128), (3, 224), (3, 96), (3, 150), (3, 256), (1, 64), (1, 48), (3, 48)) for pad in (None, 0)
          for stages in (((32,), (64,)), ((16,), (32,)), ((16,), (32,), (64,)), ((32,), (64,), (128,)), ((32, 32), (64, 64), (128, 128)), ((64,), (128,), (256,)), ((64, 64), (128, 128), (256, 256)), ((32,), (64,), (128,), (256,)), ((64,), (128,), (256,), (512,)), ((16,), (32,), (64,), (128,)), ((64, 128), (256, 256), (512, 512)))
          if s > 40 or len(stages) < 4 or pad is None),
        Net(3, 32, 32).conv(64, 3).conv(128, 3).pool().conv(128, 3).conv(128, 3).at(128).conv(256, 3).pool().conv(512, 3).pool().conv(512, 3).conv(512, 3).layers,
        Net(3, 32, 32).conv(96, 3).conv(96, 3).conv(96, 3, 2).conv(192, 3).conv(192, 3).conv(192, 3, 2).conv(192, 3).conv(192, 1).conv(10, 1).layers,
    ])  # fmt: skip
    yield from of("resnet", MANY, [
        *(resnet(c, s, (16, 32, 64), (2, 2, 2), (3, 1, False)) for c, s in ((3, 32), (1, 28), (1, 32))), *(resnet(c, s, (64, 128, 256, 512), (2, 2, 2, 2), (3, 1, False)) for c, s in ((3, 32), (1, 28), (3, 64), (1, 32), (3, 96), (3, 128))),
        *(resnet(3, 32, (16 * k, 32 * k, 64 * k), (2, 2, 2), (3, 1, False)) for k in (2, 4, 8, 10)), resnet(3, 32, (64, 128, 256, 512), (2, 2, 2, 2), (3, 1, False), True), *(resnet(3, s, (64, 128, 256, 512), (2, 2, 2, 2), bottleneck=b) for s in (32, 64, 84, 96, 112, 128, 160, 192, 224, 256, 288, 300, 320, 384, 448, 480, 512) for b in (False, True)),
        *(resnet(1, s, (64, 128, 256, 512), (2, 2, 2, 2), bottleneck=b) for s in (28, 64, 128, 224, 256, 512) for b in (False, True)), *(resnet(3, s, (32, 64, 128, 256), (2, 2, 2, 2), (3, 1, False)) for s in (32, 64)), resnet(3, 84, (64, 128, 256, 512), (1, 1, 1, 1), (3, 1, False)), resnet(3, 84, (64, 160, 320, 640), (1, 1, 1, 1), (3, 1, False)),
    ])  # fmt: skip
    yield from of("unet", SOME, [
        *(unet(c, s, tuple(w << i for i in range(depth)), out, up=up) for s in (64, 96, 128, 160, 192, 224, 256, 320, 384, 512) for w in (16, 32, 48, 64) for depth in (4, 5) for c, out in ((3, 1), (1, 1), (3, 21), (1, 2)) for up in ("transposed", "none", "conv")),
        *(unet(c, s, (64, 128, 256, 512, 512), 2, up="none") for c in (1, 3) for s in ((640, 959), (320, 480), (256, 256))), unet(1, 572, (64, 128, 256, 512, 1024), 2, pad=0), *(unet(3, s, (64, 128, 256, 512), 3, up="none") for s in (128, 256)),
    ])  # fmt: skip
    yield from of("diffusion", FEW, [
        *(diffusion(4, s, (320, 640, 1280, 1280), attention=(0, 1, 2)) for s in (32, 64, 96)), *(diffusion(4, s, (320, 640, 1280)) for s in (64, 96, 128)), diffusion(9, 64, (320, 640, 1280, 1280), out=4), diffusion(8, 32, (320, 640, 1280, 1280), out=4),
        *(autoencoder(3, s, (128, 256, 512, 512), k) for s in (128, 256, 512, 1024) for k in (4, 16)), *(autoencoder(3, s, w, k, double=False) for s in (64, 128, 256) for w in ((128, 128, 256, 256, 512), (128, 256, 512), (64, 128, 256), (128, 256, 512, 512)) for k in (3, 4, 64, 256)),
    ])  # fmt: skip
    yield from of("ddpm", MANY[:9], [
        *(diffusion(c, s, w, each) for c, s in ((3, 32), (1, 28), (1, 32), (3, 64), (3, 128), (3, 16), (4, 32), (4, 16)) for each in (1, 2) for w in ((128, 256, 256, 256), (64, 128, 256), (64, 128, 128), (64, 128, 256, 256), (32, 64, 128), (32, 64, 64), (128, 256, 512), (64, 128, 256, 512), (128, 128, 256, 256), (192, 384, 576, 768), (96, 192, 384)) if s % (1 << (len(w) - 1)) == 0),
        *(diffusion(3, s, (128, 128, 256, 256, 512, 512)) for s in (64, 128, 256)), diffusion(3, 64, (224, 448, 672, 896)), *(ddpm(c, s, dim, m) for c, s in ((3, 32), (1, 28), (1, 32), (3, 64), (3, 128)) for dim in (32, 64, 128) for m in ((1, 2, 4), (1, 2, 4, 8)) if s % (1 << len(m) - 1) == 0),
    ])  # fmt: skip
    yield from of("gan", (8, 16, 32, 64, 100, 128, 256), [
        *(gan(s, g, g, z, c) for s in (32, 64, 128) for g in (16, 32, 64, 96, 128) for z in (64, 100, 128) for c in (1, 3)),
        *(Net(z, 7, 7).up(64, 4, 2, 1).up(1, 4, 2, 1).conv(64, 4, 2, 1).conv(128, 4, 2, 1).layers for z in (128, 256)), Net(128, 7, 7).up(128, 4, 2, 1).conv(64, 3).conv(1, 7).layers, Net(100, 1, 1).up(256, 7, 1, 0).up(128, 4, 2, 1).up(1, 4, 2, 1).layers,
    ])  # fmt: skip
    yield from of("style", FEW, [
        [layer for r in range(2, int(s).bit_length()) for c in (min(512, (32768 if s > 256 else 16384) >> r),) for layer in (Net(c, 1 << r, 1 << r).conv(c, 3).conv(3, 1).layers + Net(c, 1 << r, 1 << r).conv(min(512, 2 * c), 3).layers + Net(2 * c if c < 512 else c, 1 << r - 1, 1 << r - 1).up(c, 3, 2, 0).layers + Net(3, s, s).conv(c, 1).layers)] for s in (32, 64, 128, 256, 512, 1024)
    ])  # fmt: skip
    yield from of("translation", FEW, [
        [*Net(3, s + 6, s + 6).conv(64, 7, 1, 0).conv(128, 3, 2, 1).conv(256, 3, 2, 1).grow(1).layers, *Net(256, s // 4 + 2, s // 4 + 2).conv(256, 3, 1, 0).up(128, 3, 2, 1, 1).up(64, 3, 2, 1, 1).layers, *Net(64, s + 6, s + 6).conv(3, 7, 1, 0).layers, *Net(3, s, s).conv(64, 4, 2, 1).conv(128, 4, 2, 1).conv(256, 4, 2, 1).conv(512, 4, 1, 1).conv(1, 4, 1, 1).layers] for s in (128, 256)
    ] + [coder(c, s, (64, 128, 256, 512, 512, 512)) for c in (1, 3) for s in (128, 256)] + [Net(6, s, s).conv(64, 4, 2, 1).conv(128, 4, 2, 1).conv(256, 4, 2, 1).conv(512, 4, 1, 1).conv(1, 4, 1, 1).layers for s in (128, 256)])  # fmt: skip
    yield from of("coder", MANY, [
        *(coder(c, s, w, kernel, latent=latent) for c, s in ((1, 28), (3, 32), (3, 64), (1, 64), (3, 128), (3, 256), (1, 32), (3, 96)) for w in ((32, 64), (16, 32), (32, 64, 128), (16, 32, 64), (64, 128, 256), (32, 64, 128, 256), (32, 64, 128, 256, 512), (64, 128), (32, 32, 64, 64)) for kernel in (3, 4) for latent in (None, 64) if s >> len(w) >= 1 and (latent is None or s > 28)),
        *([*Net(3, s, s).conv(h // 2, 4, 2, 1).conv(h, 4, 2, 1).conv(h, 3).conv(r, 3).conv(h, 1).conv(64, 1).conv(h, 3).up(h // 2, 4, 2, 1).up(3, 4, 2, 1).layers] for s in (32, 64, 128, 256) for h, r in ((128, 32), (256, 256), (64, 32))),
    ])  # fmt: skip
    yield from of("enlarging", SOME, [enlarging(s, w, 1, by, c, k, dense) for s in (17, 24, 32, 33, 41, 48, 64, 96, 128) for w in (32, 64, 128, 256) for by in (2, 3, 4) for c in (1, 3) for k in (3, 9) for dense in (False, True) if (w == 64 or c == 3) and (not dense or k == 3)] + [Net(1, s, s).conv(64, k).conv(32, j).conv(b, 5).layers for s in (32, 33, 64, 128, 256) for k, j, b in ((9, 1, 1), (5, 3, 9), (9, 5, 1))] + [plain(c, s, ((64,) * 3, ), pool="") for c in (1, 3) for s in (40, 41, 50, 64, 128, 180, 256)])  # fmt: skip
    yield from of("mobile", MANY, [
        mobile(3, s, stem, blocks, k) for s in (32, 64, 96, 128, 160, 192, 224, 240, 256, 300, 320, 380) for stem, blocks, k in (
            (32, ((16, 1, 1), (24, 6, 2), (24, 6, 1), (32, 6, 2), (32, 6, 1), (64, 6, 2), (64, 6, 1), (96, 6, 1), (96, 6, 1), (160, 6, 2), (160, 6, 1), (320, 6, 1)), 3), (16, ((16, 1, 2), (24, 4, 2), (24, 3, 1), (40, 4, 2), (40, 6, 1), (48, 3, 1), (96, 6, 2), (96, 6, 1)), 5),
            (32, ((16, 1, 1), (24, 6, 2), (40, 6, 2), (80, 6, 2), (112, 6, 1), (192, 6, 2), (320, 6, 1)), 3), (32, ((16, 1, 1), (24, 6, 2), (40, 6, 2), (80, 6, 2), (112, 6, 1), (192, 6, 2), (320, 6, 1)), 5))
    ] + [list(itertools.chain.from_iterable(Net(c, s, s).conv(c, 3, t, groups=c).conv(k, 1).layers for c, k, t, s in ((32, 64, 1, side // 2), (64, 128, 2, side // 2), (128, 128, 1, side // 4), (128, 256, 2, side // 4), (256, 256, 1, side // 8), (256, 512, 2, side // 8), (512, 512, 1, side // 16), (512, 1024, 2, side // 16)))) for side in (32, 64, 128, 224)])  # fmt: skip
    yield from of("speech", SOME, [
        *(speech(n, (512,) * 7, (10, 3, 3, 3, 3, 2, 2), (5, 2, 2, 2, 2, 2, 2)) for n in (16000, 32000, 48000, 80000, 160000, 240000, 250000, 320000, 400)), *(codec(n, w, r, d) for n in (16000, 24000, 32000, 44100, 48000, 72000, 8192, 16384) for w, r, d in ((32, (2, 4, 5, 8), 128), (64, (2, 4, 8, 8), 1024), (32, (2, 4, 8), 64))),
        *(separator(f, k, n, b, h) for n in (8000, 16000, 32000, 64000) for f, k, b, h in ((512, 16, 128, 512), (256, 20, 256, 512), (256, 16, 128, 256))), *(Net(80, n).conv(512, 5).conv(512, 5).conv(80, 5).layers for n in (400, 500, 800, 1000)), *(Net(m, n).conv(d, 3).conv(d, 3, 2).layers for m in (80, 128) for n in (3000, 1500, 1000) for d in (256, 384, 512, 768, 1024, 1280)),
        *(Net(1, 80 if t else 128, n).conv(w, k, t).conv(w, 3, t).layers for n in (400, 500, 1000, 1600) for w, k, t in ((32, 3, 2), (256, 3, 2), (512, 3, 2), (144, 3, 2))), *(Net(d, n).conv(2 * d, 1).at(d).conv(d, k, groups=d).conv(d, 1).layers for n in (100, 200, 250, 400, 500) for d in (144, 256, 512) for k in (15, 31, 32)),
        *(plain(1, (64, n), ((64, 64), (128, 128), (256, 256), (512, 512), (1024, 1024), (2048, 2048))) for n in (1001, 501, 1000, 300)), *(Net(1, n).conv(w, 80, t, k).pool(4).conv(w, 3).pool(4).conv(2 * w, 3).pool(4).conv(2 * w, 3).layers for n in (8000, 16000, 32000) for w in (32, 64, 128) for t, k in ((16, 0), (4, 38))),
    ])  # fmt: skip
    yield from of("rows", MANY, [
        *(plain(c, (n,), stages, k, dims=1, pad=pad) for c in (1, 2, 3, 6, 8, 9, 12) for n in (100, 128, 140, 187, 256, 360, 500, 512, 1000, 1024, 2048, 3600, 4096, 5000) for k in (3, 5, 7) for pad in (None, 0) for stages in (((32,), (64,)), ((16,), (32,), (64,)), ((32,), (64,), (128,)), ((64,), (128,), (256,)), ((64, 64), (128, 128)))),
        *(temporal(c, n, (w,) * 4, k) for c in (1, 3, 16, 64, 88) for n in (32, 50, 100, 128, 200, 256, 400, 512, 784, 1000) for w in (25, 32, 64, 128, 150) for k in (2, 3, 7)), *(Net(c, n).conv(k, w).layers for c in (64, 128, 256, 300, 512, 768, 1024) for n in (50, 64, 100, 128, 200, 256, 512) for k in (100, 128, 256) for w in (2, 3, 4, 5)),
        *(unet(c, (n,), tuple(w << i for i in range(4)), 1, kernel=3) for c in (1, 2, 12) for n in (256, 512, 1024, 2048, 4096, 16384) for w in (16, 32, 64)), *(Net(c, n).conv(64, 1).conv(128, 1).conv(1024, 1).at(1088).conv(512, 1).conv(256, 1).conv(128, 1).layers for c in (3, 6) for n in (1024, 2048, 2500, 4096)),
        *(resnet(c, n, (64, 128, 256, 512), (2, 2, 2, 2), dims=1, stem=(k, 2, True)) for c in (1, 2, 12) for n in (1000, 1024, 2500, 4096, 5000) for k in (7, 15)), *(Net(d, n).conv(d, 4, 1, 3, groups=d).layers for d in (768, 1536, 2048, 3072, 4096, 5120) for n in (128, 256, 512, 1024, 2048, 4096)),
    ])  # fmt: skip
    yield from of("volumes", FEW[:4], [
        *(unet(c, s, tuple(w << i for i in range(depth)), out, dims=3, up=up) for s in (32, 48, 64, 80, 96, 112, 128) for w in (8, 16, 32) for depth in (4, 5) for c, out in ((1, 2), (4, 3), (1, 1)) for up in ("transposed", "none") if s % (1 << depth - 1) == 0), *(plain(c, s, ((16,), (32,), (64,)), dims=3) for c in (1, 3) for s in (16, 32, 64, 96, 128)), *(plain(c, s, ((32,), (64,), (128,)), dims=3) for c in (1, 3) for s in (16, 32, 64, 96, 128)),
        *(plain(3, (t, s, s), ((64,), (128,), (256, 256), (512, 512)), dims=3) for t in (8, 16, 32) for s in (112, 64)), *(resnet(c, s, (64, 128, 256, 512), (2, 2, 2, 2), dims=3) for c in (1, 3) for s in (32, 64, 96, 128)), *(coder(1, s, w, k, dims=3) for s in (32, 64, 128) for w in ((16, 32, 64), (32, 64, 128)) for k in (3, 4)),
        *(Net(3, t, 224, 224).conv(768, (2, 16, 16), (2, 16, 16), 0).layers for t in (8, 16, 32)), *(diffusion_volume for diffusion_volume in (Net(4, t, s, s).conv(320, (1, 3, 3)).conv(320, (3, 1, 1)).layers for t in (8, 16) for s in (32, 64))),
    ])  # fmt: skip
    yield from of("boards", MANY, [*(boards(p, s, w) for p in (3, 4, 17, 18, 119, 12, 20) for s in (3, 6, 8, 9, 15, 19) for w in (32, 64, 128, 192, 256)), *(Net(c, s, s).conv(32, 8, 4, 0).conv(64, 4, 2, 0).conv(64, 3, 1, 0).layers for c in (1, 2, 3, 4, 9, 12) for s in (64, 84, 96)), *(plain(c, s, ((16,), (32,), (32,))) + Net(c, s, s).conv(16, 8, 4, 0).conv(32, 4, 2, 0).layers for c in (3, 4) for s in (64, 72, 84)), *(Net(c, 84, 84).conv(32, 3, 2, 0).conv(32, 3, 1, 0).conv(32, 3, 1, 0).conv(32, 3, 1, 0).layers for c in (9, 3, 4)), *(coder(3, 64, (w, 2 * w, 4 * w, 8 * w)) for w in (32, 48, 96)), *(Net(c, s, s).conv(16, 2, 1, 0).pool().conv(32, 2, 1, 0).conv(64, 2, 1, 0).layers for c in (3,) for s in (7, 8))])  # fmt: skip
    yield from of("detection", FEW, [*(pyramid(h, w) for h, w in ((800, 1344), (800, 1216), (800, 1088), (800, 800), (512, 512), (640, 640), (320, 320), (416, 416), (1024, 1024), (256, 256), (300, 300))), *(yolo(s, d, w, k) for s in (320, 416, 512, 640) for d, w in ((0.33, 0.25), (0.33, 0.5), (0.67, 0.75), (1, 1)) for k in (80, 20, 1)), *(plain(3, s, ((32,), (64,), (128, 64, 128), (256, 128, 256), (512, 256, 512))) for s in (224, 416, 448)), *(Net(c, s, s).conv(256, 3).conv(k, 3).layers for s in (7, 14, 28) for c in (256, 512, 1024, 2048) for k in (80, 256))])  # fmt: skip
    yield from of("patches", MANY, [Net(c, s, s).conv(w, p, p, 0).layers for c, s, p in ((3, 224, 16), (3, 32, 4), (3, 224, 14), (3, 224, 32), (3, 384, 16), (3, 336, 14), (3, 64, 8), (3, 64, 4), (1, 28, 7), (1, 28, 4), (3, 32, 2), (3, 32, 8), (3, 224, 4), (3, 224, 8), (3, 96, 8), (3, 96, 16), (3, 128, 16), (3, 256, 16), (3, 256, 32), (3, 512, 16), (4, 32, 2), (4, 64, 2), (4, 32, 4), (4, 32, 8), (16, 64, 2), (3, 72, 6), (1, 128, 16), (1, 32, 4), (3, 48, 16), (3, 518, 14), (3, 256, 8), (3, 128, 8)) for w in (64, 96, 128, 192, 256, 384, 512, 768, 1024, 1152, 1280)])  # fmt: skip
    yield from of("convnext", MANY[:8], [list(itertools.chain.from_iterable(Net(w, s >> i, s >> i).conv(w, 7, groups=w).layers + (Net(w, s >> i, s >> i).conv(2 * w, 2, 2, 0).layers if i < 3 else []) + Net(w, s >> i, s >> i).conv(4 * w, 1).conv(w, 1).layers for i, w in enumerate((d, 2 * d, 4 * d, 8 * d)))) + Net(3, 4 * s, 4 * s).conv(d, 4, 4, 0).layers for d in (40, 48, 64, 80, 96, 128, 192) for s in (8, 16, 32, 40, 48, 56, 64, 72, 96)] + [Net(3, s, s).conv(w, p, p, 0).conv(w, k, groups=w).conv(w, 1).layers for s, p in ((32, 1), (32, 2), (224, 7), (224, 14), (64, 4)) for w in (256, 512, 768, 1536) for k in (5, 7, 9)])  # fmt: skip


def drawn(draw):
    """(family, layers, batches) of a network that nobody has published."""
    pick = lambda *pairs: draw.choices([p[0] for p in pairs], [p[1] for p in pairs])[0]  # noqa: E731
    kind = pick(("plain", 5), ("resnet", 2), ("unet", 3), ("coder", 2), ("diffusion", 3), ("gan", 1), ("rows", 2), ("volumes", 1), ("mobile", 1), ("enlarging", 1))
    channels = pick((3, 6), (1, 3), (4, 0.4), (2, 0.3))
    side = pick((32, 5), (64, 4), (28, 3), (128, 3), (224, 3), (256, 3), (96, 1), (512, 1), (48, 0.5), (16, 0.4), (160, 0.7), (192, 0.7), (320, 0.3), (384, 0.3), (100, 0.2), (80, 0.3), (112, 0.3))
    w = pick((16, 3), (32, 6), (64, 6), (8, 1), (24, 1), (48, 2), (96, 1.5), (128, 2), (40, 0.4), (20, 0.4), (80, 0.3), (192, 0.3), (256, 0.3))
    kernel, pad = pick((3, 9), (5, 2), (7, 0.6), (4, 0.3)), pick((None, 4), (0, 1))
    depth, each = pick((2, 2), (3, 4), (4, 3), (5, 1)), pick((1, 3), (2, 3), (3, 0.7))
    batch = pick((1, 1), (2, 2), (4, 3), (8, 4), (16, 4), (32, 4), (64, 4), (128, 3), (256, 2), (512, 0.5), (6, 0.2), (10, 0.3), (12, 0.4), (20, 0.3), (24, 0.4), (48, 0.4), (96, 0.3), (100, 0.3), (192, 0.1))
    growth = pick(("double", 6), ("same", 1), ("slow", 1), ("late", 1))
    widths = [w << i if growth == "double" else w if growth == "same" else w * (i + 1) if growth == "slow" else w << min(i, 2) for i in range(depth)]
    if kind == "plain":
        return kind, plain(channels, side, [[v] * each for v in widths], kernel, pad, pick(("max", 3), ("step", 1))), [batch]
    if kind == "resnet":
        return kind, resnet(channels, side, widths, [each] * depth, pick(((3, 1, False), 3), ((7, 2, True), 2)), pick((False, 3), (True, 1))), [batch]
    if kind == "unet":
        return kind, unet(channels, side // 16 * 16, [w << i for i in range(max(3, depth))], pick((1, 3), (2, 1), (3, 2), (21, 0.5), (4, 0.5), (10, 0.3)), each, pick(("transposed", 3), ("none", 1), ("conv", 1))), [batch if side < 200 else min(batch, 16)]
    if kind == "coder":
        return kind, coder(channels, side, widths, pick((3, 2), (4, 2)), latent=pick((None, 2), (64, 1), (w, 1))), [batch]
    if kind == "diffusion":
        return kind, diffusion(pick((3, 3), (1, 1), (4, 1)), max(16, min(side, 256) // 16 * 16), [v for v in widths], each, attention=pick(((), 1), ((depth - 1,), 1), ((1, 2), 1))), [batch if side < 100 else min(batch, 16)]
    if kind == "gan":
        return kind, gan(pick((64, 3), (32, 2), (128, 1)), w, pick((w, 3), (64, 1)), pick((100, 3), (128, 2), (64, 1), (256, 0.3)), channels), [batch]
    if kind == "rows":
        length = pick((128, 2), (256, 2), (512, 2), (1024, 3), (1000, 2), (2048, 1), (4096, 1), (100, 1), (200, 1), (5000, 1), (16000, 1), (8000, 0.5), (300, 0.5), (64, 1), (32, 0.5))
        inputs = pick((1, 5), (3, 1), (12, 1), (8, 0.6), (6, 0.5), (2, 0.7), (64, 0.7), (80, 0.5), (128, 0.6), (256, 0.4))
        return kind, plain(inputs, (length,), [[v] * each for v in widths], pick((3, 5), (5, 3), (7, 2), (9, 0.5), (15, 0.5), (11, 0.3)), pad, pick(("max", 3), ("step", 1), ("", 1)), 1), [batch]
    if kind == "volumes":
        cube = pick((32, 3), (64, 3), (96, 1), (16, 1), (128, 0.5), (48, 0.5))
        return kind, unet(channels, cube, [min(w, 32) << i for i in range(3)], 2, each, dims=3) if draw.random() < 0.5 else plain(channels, cube, [[v] * each for v in widths[:4]], dims=3), [min(batch, 8)]
    if kind == "mobile":
        return kind, mobile(channels, side, w, [(v * (1 if j else 1), pick((6, 2), (4, 1), (2, 0.5)), 1 if j else pick((2, 3), (1, 1))) for v in widths for j in range(each)], pick((3, 3), (5, 1))), [batch]
    return kind, enlarging(min(side, 128), w, 1, pick((2, 2), (4, 2), (3, 0.5)), channels, pick((3, 2), (9, 1)), draw.random() < 0.2), [batch]
