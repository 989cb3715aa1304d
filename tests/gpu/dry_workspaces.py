"""dry_workspaces.py - what dry_workspaces.sh runs: makes cases, plays a share of them, makes the table.

    dry_workspaces.py cases FILE                 every case that is played, in the order of their weight
    dry_workspaces.py play FILE I N SECONDS      the Ith of N shares of them, until the time is over
    dry_workspaces.py table OUT LOG...           one table of all logs of dry_workspaces.c

A case is a convolution, normalization, recurrent layer or attention with real tensors, forward and backward.  The
shapes are those of networks that people train: torchvision's own (each layer's input is read off a run on the meta
device), and by hand those of diffusion U-Nets, autoencoders, speech, segmentation, GANs and volumes.  A convolution in
forty is played; all, and many more, are asked about (dry_workspaces_layers.py).
"""

import collections, ctypes, json, multiprocessing, os, sys, time


# ---- cases ----


def layers(name_size):
    """The convolutions and normalizations of a network of torchvision's: (kind, input without batch, parameters)."""
    import torch, torchvision

    name, size = name_size
    found = collections.OrderedDict()

    def hook(module, inputs, output):
        x = inputs[0]
        if isinstance(module, (torch.nn.Conv2d, torch.nn.Conv3d)):  # "same" and the like don't occur there
            key = ("conv", tuple(x.shape[1:]), module.out_channels, tuple(module.kernel_size), tuple(module.stride), tuple(module.padding), tuple(module.dilation), module.groups, False)
        else:
            key = ("norm", tuple(x.shape[1:]))
        found[key] = None

    volume = name.startswith(("r3d", "r2plus1d"))
    makers = torchvision.models.video if volume else torchvision.models.segmentation if name.startswith(("deeplab", "fcn", "lraspp")) else torchvision.models
    torch.nn.init.kaiming_normal_ = torch.nn.init.kaiming_uniform_ = torch.nn.init.trunc_normal_ = torch.nn.init.normal_ = lambda tensor, *a, **k: tensor  # nobody reads them
    more = {"weights_backbone": None} if makers is torchvision.models.segmentation else {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    network = getattr(makers, name)(**more).to("meta")
    for module in network.modules():
        if isinstance(module, (torch.nn.Conv2d, torch.nn.Conv3d, torch.nn.BatchNorm2d, torch.nn.BatchNorm3d)):
            module.register_forward_hook(hook)
    network(torch.empty((2, 3, 8, size, size) if volume else (2, 3, size, size), device="meta"))
    return list(found)


BATCHES = (32, 8, 64, 16, 128, 1, 2, 4, 256, 24, 48, 96, 12, 100, 512)
NETWORKS = [  # name, image size, how many of the batches above
    ("resnet18", 224, 15), ("resnet50", 224, 15), ("resnet18", 32, 15), ("efficientnet_b0", 224, 11), ("convnext_tiny", 224, 11), ("mobilenet_v2", 224, 11), ("vgg16", 224, 9), ("densenet121", 224, 9), ("mobilenet_v3_large", 224, 9),
    ("resnet50", 160, 5), ("resnet50", 192, 5), ("resnet50", 256, 7), ("resnet50", 288, 5), ("resnet50", 384, 5), ("resnet50", 512, 5), ("resnet18", 64, 9), ("resnet18", 96, 5), ("resnet18", 128, 7), ("resnet18", 256, 5),
    ("resnet50", 32, 7), ("resnet50", 64, 7), ("resnet50", 128, 5), ("vgg16_bn", 32, 7), ("alexnet", 224, 7), ("efficientnet_b3", 300, 5), ("efficientnet_b4", 380, 4), ("efficientnet_v2_s", 224, 5), ("efficientnet_v2_s", 384, 4), ("mobilenet_v3_small", 224, 7), ("mobilenet_v2", 32, 5), ("mobilenet_v2", 160, 5),
    ("regnet_y_400mf", 224, 7), ("resnext50_32x4d", 224, 7), ("wide_resnet50_2", 224, 5), ("squeezenet1_1", 224, 5), ("shufflenet_v2_x1_0", 224, 5), ("googlenet", 224, 5), ("inception_v3", 299, 5), ("mnasnet1_0", 224, 5), ("convnext_base", 224, 5), ("convnext_tiny", 288, 4), ("swin_t", 224, 7), ("maxvit_t", 224, 4),
    ("deeplabv3_resnet50", 256, 8), ("deeplabv3_resnet50", 512, 8), ("fcn_resnet50", 520, 8), ("lraspp_mobilenet_v3_large", 512, 8), ("r3d_18", 112, 8), ("r2plus1d_18", 112, 8), ("resnet34", 224, 9), ("resnet101", 224, 7), ("densenet121", 32, 5),
]  # fmt: skip


def conv(n, c, spatial, k, kernel, step=1, pad=None, dilation=1, groups=1, transposed=False):
    """One convolution; what is given once goes for every direction."""
    d = len(spatial)
    wide = lambda v: tuple(v) if isinstance(v, (tuple, list)) else (v,) * d  # noqa: E731
    kernel, dilation = wide(kernel), wide(dilation)
    pad = wide(pad) if pad is not None else tuple((a - 1) * b // 2 for a, b in zip(kernel, dilation))
    return ("conv", n, (c, *spatial), k, kernel, wide(step), pad, dilation, groups, transposed)


def by_hand():
    """Networks that torchvision does not have: a list of convolutions each."""
    nets = {}
    for n in (1, 2, 4, 8, 16):  # the U-Net of Stable Diffusion 1.5, latents of 64 x 64
        net = [conv(n, 4, (64, 64), 320, 3), conv(n, 320, (64, 64), 4, 3)]
        for c_in, c, s in ((320, 320, 64), (320, 640, 32), (640, 640, 32), (640, 1280, 16), (1280, 1280, 16), (1280, 1280, 8), (2560, 1280, 8), (2560, 1280, 16), (1920, 1280, 16), (1920, 640, 32), (1280, 640, 32), (960, 640, 32), (960, 320, 64), (640, 320, 64)):
            net += [conv(n, c_in, (s, s), c, 3)] + ([conv(n, c_in, (s, s), c, 1)] if c_in != c else [])
        net += [conv(n, c, (s, s), c, 3, 2) for c, s in ((320, 64), (640, 32), (1280, 16))] + [conv(n, c, (s, s), c, 3) for c, s in ((1280, 32), (640, 64))]
        net += [conv(n, c, (s, s), c, 1) for c, s in ((320, 64), (640, 32), (1280, 16), (1280, 8))]
        nets[f"sd-unet/{n}"] = net
    for n in (1, 2, 4):  # its autoencoder, images of 256 and 512
        for side in (256, 512):
            net = [conv(n, 3, (side, side), 128, 3), conv(n, 128, (side, side), 3, 3), conv(n, 512, (side // 8,) * 2, 8, 3), conv(n, 8, (side // 8,) * 2, 8, 1), conv(n, 4, (side // 8,) * 2, 512, 3)]
            for c_in, c, f in ((128, 128, 1), (128, 256, 2), (256, 256, 2), (256, 512, 4), (512, 512, 4), (512, 512, 8), (512, 256, 2), (256, 128, 1), (512, 512, 2), (256, 256, 1)):
                net += [conv(n, c_in, (side // f,) * 2, c, 3)] + ([conv(n, c_in, (side // f,) * 2, c, 1)] if c_in != c else [])
            net += [conv(n, c, (side // f + 1,) * 2, c, 3, 2, 0) for c, f in ((128, 1), (256, 2), (512, 4))]
            nets[f"vae{side}/{n}"] = net
    for n in (4, 8, 16, 32, 64, 128):  # small diffusion models: images of 32 and 64
        for side, width in ((32, 128), (64, 64), (64, 128)):
            net = [conv(n, 3, (side, side), width, 3), conv(n, width, (side, side), 3, 3)]
            for a, b, f in ((1, 1, 1), (1, 2, 2), (2, 2, 2), (2, 2, 4), (2, 4, 4), (4, 4, 4), (4, 4, 8), (8, 4, 8), (8, 4, 4), (6, 4, 4), (6, 2, 2), (4, 2, 2), (3, 2, 2), (3, 1, 1), (2, 1, 1)):
                net += [conv(n, a * width, (side // f,) * 2, b * width, 3), conv(n, a * width, (side // f,) * 2, b * width, 1)]
            net += [conv(n, a * width, (side // f,) * 2, a * width, 3, 2) for a, f in ((1, 1), (2, 2), (4, 4))]
            nets[f"ddpm{side}x{width}/{n}"] = net
    for n in (1, 2, 4, 8, 16):  # the U-Net of segmentation
        for side, width in ((128, 32), (256, 64), (512, 64)):
            net = [conv(n, c, (side, side), width, 3) for c in (1, 3)] + [conv(n, width, (side, side), k, 1) for k in (1, 2, 21)]
            for i in range(5):
                s, c = (side >> i, side >> i), width << i
                net += [conv(n, c, s, c, 3)] + ([conv(n, c // 2, s, c, 3)] if i else [])
                net += [conv(n, 2 * c, s, c, 3), conv(n, 2 * c, (side >> (i + 1),) * 2, c, 2, 2, 0, transposed=True)] if i < 4 else []
            nets[f"unet{side}x{width}/{n}"] = net
    for n in (16, 64, 128):  # DCGAN, and a style of image to image
        g = 64
        nets[f"dcgan/{n}"] = [conv(n, 100, (1, 1), 8 * g, 4, 1, 0, transposed=True), conv(n, 8 * g, (4, 4), 4 * g, 4, 2, 1, transposed=True), conv(n, 4 * g, (8, 8), 2 * g, 4, 2, 1, transposed=True), conv(n, 2 * g, (16, 16), g, 4, 2, 1, transposed=True), conv(n, g, (32, 32), 3, 4, 2, 1, transposed=True)]
        nets[f"dcgan/{n}"] += [conv(n, 3, (64, 64), g, 4, 2, 1), conv(n, g, (32, 32), 2 * g, 4, 2, 1), conv(n, 2 * g, (16, 16), 4 * g, 4, 2, 1), conv(n, 4 * g, (8, 8), 8 * g, 4, 2, 1), conv(n, 8 * g, (4, 4), 1, 4, 1, 0)]
    for n in (1, 4):
        nets[f"pix2pix/{n}"] = [conv(n, c, (s, s), k, 4, 2, 1) for c, s, k in ((3, 256, 64), (64, 128, 128), (128, 64, 256), (256, 32, 512), (512, 16, 512), (512, 8, 512), (512, 4, 512))] + [conv(n, c, (s, s), k, 4, 2, 1, transposed=True) for c, s, k in ((512, 2, 512), (1024, 4, 512), (1024, 8, 512), (1024, 16, 256), (512, 32, 128), (256, 64, 64), (128, 128, 3))] + [conv(n, 256, (64, 64), 256, 3), conv(n, 3, (262, 262), 64, 7, 1, 0), conv(n, 64, (262, 262), 3, 7, 1, 0)]
    for n in (1, 2, 4):  # volumes
        for side, width in ((32, 16), (64, 32), (96, 32), (128, 16)):
            net = [conv(n, 1, (side,) * 3, width, 3), conv(n, 4, (side,) * 3, width, 3), conv(n, width, (side,) * 3, 3, 1)]
            for i in range(4):
                s, c = (side >> i,) * 3, width << i
                net += [conv(n, c, s, c, 3)] + ([conv(n, c // 2, s, c, 3), conv(n, c // 2, (side >> (i - 1),) * 3, c, 3, 2)] if i else [])
                net += [conv(n, 2 * c, s, c, 3), conv(n, 2 * c, (side >> (i + 1),) * 3, c, 2, 2, 0, transposed=True)] if i < 3 else []
            nets[f"unet3d-{side}x{width}/{n}"] = net
    for n in (1, 4, 8, 16):  # speech: Whisper, wav2vec 2, HiFi-GAN
        for c, width in ((80, 384), (80, 512), (80, 768), (80, 1024), (128, 1280)):
            nets[f"whisper{width}/{n}"] = [conv(n, c, (3000,), width, 3), conv(n, width, (3000,), width, 3, 2)]
        for length in (16000, 160000, 250000):
            net, size = [], length
            for c, k, s in ((1, 10, 5), (512, 3, 2), (512, 3, 2), (512, 3, 2), (512, 3, 2), (512, 2, 2), (512, 2, 2)):
                net.append(conv(n, c, (size,), 512, k, s, 0))
                size = (size - k) // s + 1
            nets[f"wav2vec2-{length}/{n}"] = net + [conv(n, 768, (size,), 768, 128, 1, 64, groups=16), conv(n, 512, (size,), 512, 31, 1, 15, groups=512)]
        nets[f"hifigan/{n}"] = [conv(n, 80, (32,), 512, 7)] + [conv(n, c, (s,), c // 2, k, u, (k - u) // 2, transposed=True) for c, s, k, u in ((512, 32, 16, 8), (256, 256, 16, 8), (128, 2048, 4, 2), (64, 4096, 4, 2))] + [conv(n, c, (s,), c, k, 1, None, d) for c, s in ((256, 256), (128, 2048), (64, 4096), (32, 8192)) for k in (3, 7, 11) for d in (1, 3, 5)]
    for n in (1, 8, 32, 64, 128, 256):  # patches of vision transformers
        nets[f"patches/{n}"] = [conv(n, 3, (side, side), width, p, p, 0) for side, width, p in ((224, 192, 16), (224, 384, 16), (224, 768, 16), (224, 1024, 14), (224, 768, 32), (224, 1152, 14), (336, 1024, 14), (384, 1152, 14), (512, 768, 16), (448, 1024, 14), (32, 192, 4), (32, 512, 4), (224, 96, 4), (512, 768, 8))] + [conv(n, 3, (2, 28, 28), 1280, (2, 14, 14), (2, 14, 14), 0), conv(n, 16, (32, 32), 1152, 2, 2, 0), conv(n, 4, (32, 32), 384, 2, 2, 0), conv(n, 4, (32, 32), 1152, 2, 2, 0)]
    for n in (16, 64, 128):  # small classifiers, sequences, other things that people begin with
        nets[f"small/{n}"] = [conv(n, 1, (28, 28), 32, 3, 1, 0), conv(n, 32, (26, 26), 64, 3, 1, 0), conv(n, 1, (28, 28), 6, 5), conv(n, 6, (14, 14), 16, 5, 1, 0), conv(n, 3, (32, 32), 32, 3), conv(n, 32, (32, 32), 32, 3), conv(n, 32, (16, 16), 64, 3), conv(n, 64, (16, 16), 64, 3), conv(n, 64, (8, 8), 128, 3), conv(n, 3, (32, 32), 16, 3), conv(n, 16, (32, 32), 16, 3), conv(n, 1, (1000,), 64, 7), conv(n, 64, (500,), 128, 5), conv(n, 128, (250,), 256, 3), conv(n, 64, (128,), 64, 3, 1, None, 2), conv(n, 64, (128,), 64, 3, 1, None, 4), conv(n, 256, (512,), 512, 3), conv(n, 256, (512,), 1024, 9), conv(n, 1024, (512,), 256, 9), conv(n, 768, (512,), 768, 3), conv(n, 5120, (512,), 5120, 4, 1, 3, groups=5120), conv(n, 4, (84, 84), 32, 8, 4, 0), conv(n, 32, (20, 20), 64, 4, 2, 0), conv(n, 64, (9, 9), 64, 3, 1, 0), conv(n, 119, (19, 19), 256, 3), conv(n, 256, (19, 19), 256, 3)]
    for n in (2, 8):  # detection: a pyramid and its heads
        nets[f"pyramid/{n}"] = [conv(n, 256, (s, s), k, 3) for s in (200, 100, 50, 25, 13) for k in (256, 720, 36)] + [conv(n, c, (s, s), 256, 1) for c, s in ((256, 200), (512, 100), (1024, 50), (2048, 25))]
        nets[f"yolo/{n}"] = [conv(n, c, (s, s), k, f, t) for c, s, k, f, t in ((3, 640, 32, 3, 2), (32, 320, 64, 3, 2), (64, 160, 64, 1, 1), (32, 160, 32, 3, 1), (64, 160, 128, 3, 2), (128, 80, 128, 1, 1), (64, 80, 64, 3, 1), (128, 80, 256, 3, 2), (256, 40, 256, 1, 1), (128, 40, 128, 3, 1), (256, 40, 512, 3, 2), (512, 20, 512, 1, 1), (256, 20, 256, 3, 1), (512, 20, 255, 1, 1), (256, 40, 255, 1, 1), (128, 80, 255, 1, 1))]
    return nets


def drawn(count):
    """Shapes of no network, the same ones each time: between them rules show where they end."""
    import random

    draw = random.Random(20)
    widths = (1, 2, 3, 4, 8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 100, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1024)
    out = []
    while len(out) < count:
        n, side, kernel = draw.choice((1, 2, 4, 8, 16, 32, 64)), draw.choice((4, 7, 8, 14, 16, 20, 28, 32, 56, 64, 112, 128, 224, 256)), draw.choice((1, 1, 3, 3, 3, 5, 7))
        c, k, step = draw.choice(widths), draw.choice(widths), draw.choice((1, 1, 2))
        if side >= kernel and n * side * side * (c + k) <= 1 << 27:
            out.append(conv(n, c, (side, side), k, kernel, step))
    return out


WAYS = [("f32", "nchw"), ("bf16", "nchw"), ("bf16", "nhwc"), ("f16", "nchw"), ("f32", "nhwc"), ("f16", "nhwc")]


def grid():
    """What most networks are made of: 3 x 3, 1 x 1, halving and doubling, at powers of two and half as much again."""
    out = []
    widths = (16, 32, 48, 64, 96, 128, 192, 256, 320, 384, 512, 640, 768, 1024, 1280)
    for side in (8, 16, 32, 64, 128, 256, 512, 7, 14, 28, 56, 112, 224, 12, 24, 48, 96, 192, 384, 20, 40, 80, 160, 320):
        for c in widths:
            for k in (c, 2 * c, c // 2, 3 * c // 2, 3, 1):
                for n in (1, 2, 4, 8, 16, 32, 64, 128):
                    if n * side * side * (c + k) > 1 << 27 or side * c > 24000:
                        continue
                    out += [conv(n, c, (side, side), k, 3)] + ([conv(n, c, (side, side), k, 1)] if k > 3 or side > 100 else [])
                    if k in (c, 2 * c):
                        out += [conv(n, c, (side, side), k, 3, 2)]
                    if k in (c, c // 2) and n * side * side * 4 * k <= 1 << 28:
                        out += [conv(n, c, (side, side), k, 2, 2, 0, transposed=True), conv(n, c, (side, side), k, 4, 2, 1, transposed=True)]
    return out


def convolutions():
    """(weight, case): the lower the weight the earlier.  Most are only asked about; a few of each are played."""
    out = []

    def add(weight, name, one, ways=WAYS):
        for w, way in enumerate(ways):
            case = (name, *one, *way)
            out.append((weight + w, ("conv" if hash_of(case) % 40 == 0 else "ask", *case)))

    with multiprocessing.Pool(min(16, os.cpu_count())) as pool:
        found = pool.map(layers, [(name, size) for name, size, _ in NETWORKS], 1)
    for i, ((name, size, count), shapes) in enumerate(zip(NETWORKS, found)):
        for b, n in enumerate(BATCHES[:count]):
            for kind, shape, *rest in shapes:
                if kind == "conv":
                    add(b * 0.7 + (i > 8) * 2, f"{name}-{size}/{n}", (n, shape, *rest))
                elif i < 9 and b < 4 or b < 1:
                    out += [(b + w, ("norm", f"{name}-{size}/{n}", n, shape, *way)) for w, way in enumerate(WAYS)]
    for name, net in by_hand().items():
        for one in net:
            add(1 + hash_of((name,)) % 3, name, one[1:])
    for one in drawn(1500):
        add(6, "drawn", one[1:], WAYS[:4])
    for one in grid():
        add(3 + hash_of(one) % 50 / 10, "grid", one[1:])
    for name in ("small/16", "unet128x32/1"):
        for one in by_hand()[name]:
            add(3, name, one[1:], [("f64", "nchw"), ("f32-ieee", "nchw"), ("f32-ieee", "nhwc")])
    for w, way in enumerate((("f32", "nchw"), ("bf16", "nchw"), ("f32", "nhwc"), ("bf16", "nhwc"))):  # as the settings say
        for shapes, batches in ((found[0], (8, 64)), (found[1], (8, 64)), (found[3], (32,))):
            for n in batches:
                for kind, shape, *rest in shapes:
                    if kind == "conv":
                        out.append((2 + w, ("benchmark", f"benchmark/{n}", n, shape, *rest, *way)))
                        out.append((5 + w, ("deterministic", f"deterministic/{n}", n, shape, *rest, *way)))
        for name in ("sd-unet/2", "ddpm64x128/16", "unet256x64/4", "unet3d-64x32/2"):
            out += [(3 + w, ("benchmark", "benchmark-" + name, *one[1:], *way)) for one in by_hand()[name]]
    return out


def others():
    """Recurrent layers, attention, the CTC loss."""
    out = []
    for cell in ("LSTM", "GRU", "RNN"):
        for i, hidden, layers_, both in ((64, 64, 1, 0), (128, 256, 2, 0), (256, 512, 2, 1), (512, 512, 3, 0), (80, 320, 4, 1), (300, 650, 2, 0), (1024, 1024, 1, 0), (1, 32, 1, 0), (28, 128, 2, 0), (650, 650, 2, 0), (100, 100, 1, 1), (40, 200, 2, 1)):
            for n, steps in ((1, 50), (4, 35), (20, 35), (32, 128), (64, 100), (128, 28), (16, 512), (256, 64)):
                for d, data in enumerate(("f32", "f16", "bf16")):
                    for how in ("train", "infer", "packed", "nobias", "dropout", "projection"):
                        if how == "projection" and cell != "LSTM":
                            continue
                        weight = (0 if how == "train" else 2 if how in ("infer", "packed") else 4) + d
                        out.append((weight, ("rnn", cell, i, hidden, layers_, both, n, steps, data, how)))
    for n, heads, few, q, k, width in ((1, 12, 12, 1024, 1024, 64), (4, 12, 12, 1024, 1024, 64), (8, 12, 12, 512, 512, 64), (2, 32, 32, 2048, 2048, 128), (1, 32, 8, 4096, 4096, 128), (2, 32, 8, 2048, 2048, 128), (4, 16, 16, 256, 256, 64), (8, 8, 2, 512, 512, 64), (1, 14, 2, 2048, 2048, 64), (2, 28, 4, 1024, 1024, 128), (1, 16, 16, 8192, 8192, 128), (16, 12, 12, 197, 197, 64), (8, 16, 16, 257, 257, 64), (32, 12, 12, 50, 50, 64), (4, 8, 8, 4096, 4096, 40), (4, 8, 8, 1024, 1024, 80), (2, 8, 8, 4096, 77, 40), (2, 10, 10, 4096, 77, 64), (4, 20, 20, 1500, 1500, 64), (4, 20, 20, 448, 1500, 64), (2, 24, 24, 4608, 4608, 128), (8, 12, 12, 333, 333, 64), (2, 8, 1, 1024, 1024, 128), (2, 4, 4, 100, 100, 96), (1, 32, 32, 1, 1024, 128), (1, 8, 8, 512, 512, 256), (4, 16, 16, 1000, 1000, 32), (2, 40, 8, 4096, 4096, 128), (1, 64, 8, 2048, 2048, 128), (3, 6, 6, 128, 128, 48)):  # fmt: skip
        for data in ("bf16", "f16"):
            for w, how in enumerate(("plain", "causal", "dropout", "mask", "learnt-mask", "causal-dropout", "infer", "bhsd", "varlen")):
                out.append((w // 2, ("sdpa", n, heads, few, q, k, width, data, how)))
    out += [(1, ("ctc", t, n, a, l)) for t, n, a, l in ((50, 4, 20, 10), (100, 16, 30, 20), (200, 32, 32, 30), (500, 8, 100, 40), (1000, 4, 5000, 60), (150, 64, 29, 25))]
    return out


def cases(path):
    """Every case, the important first, those of a weight in an order that is the same each time but not by network."""
    every, seen, out = [one for one in convolutions() + others() if one[1][0] != "ask"], set(), []
    every.sort(key=lambda one: (one[0], hash_of(one[1])))
    for _, case in every:
        key = json.dumps(case[:1] + case[2:] if case[0] in ("conv", "norm", "benchmark", "deterministic") else case)
        if key not in seen:
            seen.add(key)
            out.append(case)
    with open(path, "w") as file:
        for case in out:
            file.write(json.dumps(case) + "\n")
    print(f"{len(out)} cases", collections.Counter(case[0] for case in out))


def hash_of(case):
    import zlib

    return zlib.crc32(json.dumps(case).encode())


# ---- playing them ----

LIMIT = 6 << 30  # bytes of one case's tensors


def play_convolution(kind, name, n, shape, k, kernel, step, pad, dilation, groups, transposed, data, layout):
    import torch

    types = {"f64": torch.float64, "f32": torch.float32, "f32-ieee": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
    d, c, type_ = len(kernel), shape[0], types[data]
    place = {("nhwc", 2): torch.channels_last, ("nhwc", 3): torch.channels_last_3d}.get((layout, d), torch.contiguous_format)
    if layout == "nhwc" and d == 1:
        return
    torch.backends.cudnn.allow_tf32 = data != "f32-ieee"
    torch.backends.cudnn.benchmark = kind == "benchmark"
    torch.backends.cudnn.deterministic = kind == "deterministic"
    size = n * (c + 2 * k)
    for s, t in zip(shape[1:], step):
        size *= s * (t if transposed else 1)
    if size * 4 > LIMIT:
        return
    weight = (c, k // groups, *kernel) if transposed else (k, c // groups, *kernel)
    x = torch.empty((n, *shape), device="cuda", dtype=type_, requires_grad=True)
    w = torch.empty(weight, device="cuda", dtype=type_, requires_grad=True)
    with torch.no_grad():
        x.data, w.data = (t.detach().contiguous(memory_format=place) for t in (x, w))
    y = torch.convolution(x, w, None, step, pad, dilation, transposed, (0,) * d, groups)
    y.backward(torch.empty_like(y))


def play_norm(name, n, shape, data, layout):
    import torch

    d = len(shape) - 1
    place = {("nhwc", 2): torch.channels_last, ("nhwc", 3): torch.channels_last_3d}.get((layout, d), torch.contiguous_format)
    if 4 * n * shape[0] * (shape[1] ** d) * 4 > LIMIT:
        return
    x = torch.empty((n, *shape), device="cuda", dtype={"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[data]).contiguous(memory_format=place).requires_grad_()
    norm = (torch.nn.BatchNorm2d if d == 2 else torch.nn.BatchNorm3d)(shape[0]).cuda()
    y = norm(x)
    y.backward(torch.empty_like(y))


def play_rnn(cell, i, hidden, layers_, both, n, steps, data, how):
    import torch

    type_ = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[data]
    more = {"proj_size": hidden // 2} if how == "projection" else {}
    net = getattr(torch.nn, cell)(i, hidden, layers_, bidirectional=bool(both), bias=how != "nobias", dropout=0.1 if how == "dropout" and layers_ > 1 else 0.0, **more).to("cuda", type_)
    x = torch.zeros(steps, n, i, device="cuda", dtype=type_, requires_grad=True)
    if how == "infer":
        net.eval()
        with torch.no_grad():
            net(x)
        return
    given = torch.nn.utils.rnn.pack_padded_sequence(x, [max(1, steps - j * steps // (2 * n)) for j in range(n)]) if how == "packed" else x
    y = net(given)[0]
    (y.data if how == "packed" else y).sum().backward()


def play_sdpa(n, heads, few, q, k, width, data, how):
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    type_ = {"f16": torch.float16, "bf16": torch.bfloat16}[data]
    grad = how != "infer"
    if how == "varlen":
        lengths = torch.tensor([max(1, q - j * q // (2 * n)) for j in range(n)])
        make = lambda h: torch.nested.nested_tensor([torch.zeros(int(l), h, width, dtype=type_) for l in lengths], layout=torch.jagged, device="cuda", requires_grad=True).transpose(1, 2)  # noqa: E731
        if few != heads or q != k:
            return
    elif how == "bhsd":
        make = lambda h, s=None: torch.zeros(n, h, s or q, width, device="cuda", dtype=type_, requires_grad=grad)  # noqa: E731
    else:  # as projections leave them: the heads beside each other
        make = lambda h, s=None: torch.zeros(n, s or q, h, width, device="cuda", dtype=type_, requires_grad=grad).transpose(1, 2)  # noqa: E731
    query, key, value = (make(heads), make(few), make(few)) if how == "varlen" else (make(heads), make(few, k), make(few, k))
    mask = torch.zeros(n, 1, q, k, device="cuda", dtype=type_, requires_grad=how == "learnt-mask") if "mask" in how else None
    with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
        y = torch.nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=0.1 if "dropout" in how else 0.0, is_causal="causal" in how and q == k, enable_gqa=few != heads)
    if grad:
        (y.values() if how == "varlen" else y).sum().backward()


def play_ctc(t, n, a, length):
    import torch

    x = torch.zeros(t, n, a, device="cuda").log_softmax(2).requires_grad_()
    torch.backends.cudnn.deterministic = False
    torch.nn.functional.ctc_loss(x, torch.ones(n * length, dtype=torch.int32), [t] * n, [length] * n).backward()


def play(path, share, shares, seconds):
    import torch

    torch.set_num_threads(1)
    end = time.monotonic() + float(seconds)
    tracer = ctypes.CDLL(None)
    say = getattr(tracer, "dry_workspaces_case", lambda text: None)
    players = {"norm": play_norm, "rnn": play_rnn, "sdpa": play_sdpa, "ctc": play_ctc}
    say(f"machine cudnn={torch.backends.cudnn.version()} torch={torch.__version__} card={torch.cuda.get_device_name()}".encode())
    played, failed = 0, collections.Counter()
    with open(path) as file:
        mine = [json.loads(line) for i, line in enumerate(file) if i % int(shares) == int(share)]
    for case in mine:
        if time.monotonic() > end:
            break
        say(json.dumps(case).encode())
        torch.backends.cudnn.benchmark = torch.backends.cudnn.deterministic = False
        try:
            if case[0] in players:
                torch.backends.cudnn.allow_tf32 = True
                players[case[0]](*case[1:])
            else:
                play_convolution(*case)
            torch.cuda.synchronize()
        except Exception as error:  # what PyTorch or cuDNN refuses is a line of the log
            failed[(case[0], str(error).split("\n")[0][:80])] += 1
            say(f"refused {type(error).__name__}".encode())
        played += 1
        if torch.cuda.memory_reserved() > 6 << 30:
            torch.cuda.empty_cache()
    print(f"share {share}: {played} of {len(mine)} cases", dict(failed.most_common(6)), flush=True)


def own():
    """What the device holds beside PyTorch's memory, after each library's first call; nothing else may run meanwhile."""
    import torch

    say = getattr(ctypes.CDLL(None), "dry_workspaces_case", lambda text: None)
    before = torch.cuda.mem_get_info(0)[0]  # NVML's: no context yet would be better, but this call makes one

    def after(what):
        torch.cuda.synchronize()
        free, total = torch.cuda.mem_get_info(0)
        text = f"own {what} used={total - free - torch.cuda.memory_reserved()} since={before - free - torch.cuda.memory_reserved()}"
        print(text, flush=True)
        say(text.encode())

    after("context")
    x = torch.zeros(64, 64, device="cuda")
    after("tensor")
    x @ x
    after("matmul")
    for d in (torch.float32, torch.bfloat16):
        for n in (1, 2):
            y = torch.nn.functional.conv2d(torch.zeros(8, 64, 56, 56, device="cuda", dtype=d, requires_grad=True), torch.zeros(64, 64, 3, 3, device="cuda", dtype=d, requires_grad=True), padding=1)
            after(f"conv-{d}-{n}-forward")
            y.sum().backward()
            after(f"conv-{d}-{n}-backward")
    play_norm("", 8, (64, 56, 56), "f32", "nchw")
    after("norm")
    play_rnn("LSTM", 128, 256, 2, 0, 20, 35, "f32", "train")
    after("lstm")
    play_sdpa(4, 12, 12, 1024, 1024, 64, "bf16", "causal")
    after("sdpa")


# ---- the table ----


def settings(case):
    if not isinstance(case, list):
        return "?"
    tf32 = "ieee" if "f32-ieee" in case else "tf32"
    return tf32 + ("" if case[0] not in ("benchmark", "deterministic") else "-" + case[0])


def rows(log):
    """(what, settings, description, case, what was offered and taken) of each graph; of other functions their own lines."""
    case, graphs = None, {}
    for line in open(log, errors="replace"):
        what, *field = line.rstrip("\n").split("\t")
        if what == "case":
            yield from finished(graphs, case)
            graphs = {}
            case = json.loads(field[0]) if field[0].startswith("[") else field[0]
            if field[0].startswith(("machine", "own")):
                yield ("machine", "", field[0], "", "")
        elif what == "graph":
            graphs[field[0]] = {"text": field[1], "offer": [], "plan": [], "took": []}
        elif what in ("offer", "plan", "took"):
            if field[0] in graphs:
                graphs[field[0]][what].append(field[1:])
        else:
            yield (what, settings(case), "\t".join(field), "", "")
    yield from finished(graphs, case)


def first_of(offers, no_tensor_cores, deterministic):
    for _, engine, notes, size, _ in offers:
        if not (no_tensor_cores and "0" in notes.split(",")) and not (deterministic and "4" in notes.split(",")):
            return f"{engine}/{size}"
    return "-1/-1"


def finished(graphs, case):
    """A graph's row ends with engine/bytes of what PyTorch takes: as it is, without TF32, deterministic, both; and the most bytes of any offer."""
    for one in graphs.values():
        name = json.dumps(case[1]) if isinstance(case, list) else str(case)
        if one["offer"]:
            offers = one["offer"]
            tried = [first_of(offers, a, b) for b in (0, 1) for a in (0, 1)]
            took = "/".join(one["took"][0]) if one["took"] else ""
            yield ("graph", settings(case), one["text"], name, "\t".join([*tried, str(max(int(o[3]) for o in offers)), took]))


def table(out, logs):
    seen, machine = set(), set()
    with open(out, "w") as file:
        for log in logs:
            for what, how, text, case, tried in rows(log):
                if what == "machine":
                    machine.add(text)
                    continue
                key = (what, how, text)
                if key not in seen:
                    seen.add(key)
                    file.write("\t".join((what, how, text, case, tried)).rstrip("\t") + "\n")
        for text in sorted(machine):
            file.write(text + "\n")
    print(f"{len(seen)} rows, {os.path.getsize(out)} bytes")


if __name__ == "__main__":
    {"cases": cases, "own": own, "play": play, "table": lambda out, *logs: table(out, logs)}[sys.argv[1]](*sys.argv[2:])
