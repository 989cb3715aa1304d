"""dry_workspaces_papers.py - networks that papers, tutorials and courses have and people write again, as far as their convolutions go.

papers() gives (name, layers, batches) as zoo() of dry_workspaces_nets.py does.  Two of five of their layers are neither there
nor in what drawn() gives.
"""

from dry_workspaces_nets import Net, residual, unet

OFTEN = (1, 2, 4, 8, 16, 32, 64, 128)


def papers():
    out = []

    def add(name, batches, net):
        out.append((name, net.layers if isinstance(net, Net) else net, sorted({*batches, *OFTEN})))

    N = Net
    add("crnn-ocr", (32, 64), N(1, 32, 100).conv(64).pool().conv(128).pool().conv(256).conv(256).at(256, 4, 26).conv(512).conv(512).at(512, 2, 27).conv(512, 2, 1, 0))
    add("mtcnn-p", (64, 128), N(3, 12, 12).conv(10, 3, 1, 0).pool().conv(16, 3, 1, 0).conv(32, 3, 1, 0).conv(2, 1).at(32).conv(4, 1))
    add("mtcnn-r", (64, 128), N(3, 24, 24).conv(28, 3, 1, 0).at(28, 11, 11).conv(48, 3, 1, 0).at(48, 4, 4).conv(64, 2, 1, 0))
    add("mtcnn-o", (64, 128), N(3, 48, 48).conv(32, 3, 1, 0).at(32, 23, 23).conv(64, 3, 1, 0).at(64, 10, 10).conv(64, 3, 1, 0).at(64, 4, 4).conv(128, 2, 1, 0))
    n = N(3, 112, 112).conv(64, 3)
    for i, w in enumerate((64, 128, 256, 512)):
        for j in range(2):
            s = n.s
            c = n.c
            n.conv(w, 3, 1)
            n.conv(w, 3, 2 if j == 0 else 1)
            if j == 0:
                e = n.s
                n.at(c, *s).conv(w, 1, 2).at(w, *e)
    add("iresnet", (64, 128), n)
    n = N(3, 256, 256).conv(64, 7, 2)
    residual(n, 128, 1, True, width=64)
    n.pool()
    residual(n, 128, 1, True, width=64)
    residual(n, 256, 1, True, width=128)
    for _ in range(4):
        residual(n, 256, 1, True, width=128)
        n.pool()
    n.at(256, 64, 64).conv(256, 1).conv(16, 1).conv(256, 1)
    add("hourglass", (6, 16), n)
    add("deepspeech2", (8, 32), N(1, 161, 400).conv(32, (41, 11), 2, (20, 5)).conv(32, (21, 11), (2, 1), (10, 5)))
    add(
        "segnet",
        (4, 12),
        N(3, 360, 480)
        .conv(64)
        .conv(64)
        .pool()
        .conv(128)
        .conv(128)
        .pool()
        .conv(256)
        .conv(256)
        .pool()
        .conv(512)
        .conv(512)
        .pool()
        .conv(512)
        .conv(512)
        .at(512, 45, 60)
        .conv(256)
        .at(256, 90, 120)
        .conv(128)
        .at(128, 180, 240)
        .conv(64)
        .at(64, 360, 480)
        .conv(12),
    )
    n = N(3, 512, 512).conv(13, 3, 2)
    n.at(16, 256, 256).conv(16, 2, 2, 0).conv(16, 3).conv(64, 1).at(64, 128, 128).conv(32, 2, 2, 0).conv(32, 3).conv(128, 1)
    for d in (2, 4, 8, 16):
        n.at(128, 64, 64).conv(32, 1).conv(32, 3, 1, None, d).conv(128, 1)
    add("enet", (4, 10), n)
    add("dncnn", (16, 128), N(1, 40, 40).conv(64).conv(64).conv(1))
    add("dncnn50", (64, 128), N(1, 50, 50).conv(64).conv(64).conv(1))
    add("vdsr", (64, 128), N(1, 41, 41).conv(64).conv(64).conv(1))
    add("textcnn2d", (50, 64), [l for k in (3, 4, 5) for l in N(1, 56, 300).conv(100, (k, 300), 1, 0).layers])
    add("eegnet", (16, 64), N(1, 22, 1000).conv(8, (1, 64), 1, (0, 32)).conv(16, (22, 1), 1, 0, 1, 8).at(16, 1, 250).conv(16, (1, 16), 1, (0, 8), 1, 16).conv(16, 1))
    add("ecg1d", (64, 128), N(1, 187).conv(32, 5, 1, 0).conv(32, 5, 1, 2).conv(32, 5, 1, 2).at(32, 92).conv(32, 5, 1, 2))
    add("c3d", (8, 16), N(3, 16, 112, 112).conv(64).at(64, 16, 56, 56).conv(128).at(128, 8, 28, 28).conv(256).conv(256).at(256, 4, 14, 14).conv(512).conv(512).at(512, 2, 7, 7).conv(512))
    add("voxnet", (32, 128), N(1, 32, 32, 32).conv(32, 5, 2, 0).conv(32, 3, 1, 0))
    add("convlstm", (8, 16), N(1, 64, 64).at(65).conv(256, 3).at(128).conv(256, 3).at(64).conv(1, 3))
    add("glow", (32, 64), [l for c, s in ((12, 16), (24, 8), (48, 4)) for l in N(c, s, s).conv(c, 1).at(c // 2, s, s).conv(512, 3).conv(512, 1).conv(c, 3).layers])
    add("realnvp", (32, 64), [l for c, s in ((6, 32), (12, 16), (24, 8)) for l in N(c, s, s).conv(64, 3).conv(64, 3).conv(64, 1).conv(2 * c // 2, 1).layers])
    n = N(3, 32, 32).conv(120, 7)
    for _ in range(2):
        n.conv(60, 1).conv(60, 3).conv(120, 1)
    add("pixelcnn", (64, 128), n)
    n = N(3, 32, 32).conv(256, 3)
    for s in (32, 16, 8):
        n.at(256, s, s).conv(256, 3).conv(256, 1)
    add("snresnet-d", (64, 128), n)
    add("sngan-g", (64,), N(256, 8, 8).conv(256).conv(256, 1).at(256, 16, 16).conv(256).conv(256, 1).at(256, 32, 32).conv(256).conv(3))
    n = N(96, 4, 4).at(1536, 4, 4)
    for a, b, s in ((1536, 1536, 8), (1536, 768, 16), (768, 384, 32), (384, 192, 64), (192, 96, 128)):
        n.at(a, s, s).conv(b, 3).conv(b, 3).at(a, s, s).conv(b, 1)
    add("biggan128", (16, 32), n.at(96, 128, 128).conv(3))
    n = N(3, 224, 224).conv(16, 3, 2)
    for c, e, s, k, t in (
        (16, 16, 112, 3, 1),
        (16, 48, 112, 3, 2),
        (24, 72, 56, 3, 1),
        (24, 72, 56, 5, 2),
        (40, 120, 28, 5, 1),
        (40, 240, 28, 3, 2),
        (80, 200, 14, 3, 1),
        (80, 184, 14, 3, 1),
        (80, 480, 14, 3, 1),
        (112, 672, 14, 5, 2),
        (160, 960, 7, 5, 1),
    ):
        n.at(c, s, s).conv(e // 2, 1).conv(e // 2, 3, 1, 1, 1, e // 2)
    add("ghostnet", (64, 256), n)
    n = N(3, 224, 224).conv(64, 3, 2).conv(64, 3, 2)
    for i, w in enumerate((18, 36, 72, 144)):
        n.at(w, 56 >> i, 56 >> i).conv(w).conv(w)
        (n.conv(2 * w, 3, 2) if i < 3 else n)
    add("hrnet18", (16, 32), n)
    add(
        "unet++",
        (4, 8),
        [l for i, w in enumerate((32, 64, 128, 256, 512)) for k in range(2, 6 - i if i < 4 else 2) for l in N(w * (k + 1), 256 >> i, 256 >> i).conv(w).conv(w).layers]
        + unet(3, 256, (32, 64, 128, 256, 512), 1, up="none"),
    )
    n = N(3, 256, 256)
    for i, w in enumerate((64, 128, 256, 512, 1024)):
        n.conv(w).conv(w).pool()
    for w, s in ((512, 32), (256, 64), (128, 128), (64, 256)):
        n.at(2 * w, s, s).conv(w).at(w, s, s).conv(w // 2, 1).at(w // 2).conv(1, 1).at(2 * w, s, s).conv(w).conv(w)
    add("attention-unet", (4, 8, 16), n.conv(1, 1))
    n = N(3, 256, 256).conv(64, 7, 2)
    n.pool()
    residual(n, 64)
    for w in (128, 256, 512):
        residual(n, w, 2)
    for c, k in ((512, 256), (256, 128), (128, 64), (64, 64)):
        n.at(c).conv(c // 4, 1).up(c // 4, 3, 2, 1, 1).conv(k, 1)
    add("linknet", (8, 16), n.up(32, 3, 2, 1, 1).conv(32, 3).conv(1, 1))
    add("wavenet", (4, 8), [l for d in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512) for l in N(64, 16000).conv(128, 2, 1, 0, d).at(64).conv(64, 1).layers])
    add(
        "samplecnn", (16, 32), N(1, 59049).conv(128, 3, 3, 0).conv(128, 3).pool(3).conv(128, 3).pool(3).conv(256, 3).pool(3).conv(256, 3).pool(3).conv(256, 3).pool(3).conv(256, 3).pool(3).conv(512, 3)
    )
    add("vggish", (32, 128), N(1, 96, 64).conv(64).pool().conv(128).pool().conv(256).conv(256).pool().conv(512).conv(512))
    add("pointnet", (24, 32), N(3, 1024).conv(64, 1).conv(128, 1).conv(1024, 1).at(64).conv(64, 1).conv(128, 1).conv(1024, 1))
    add("dgcnn", (16, 32), N(6, 1024, 20).conv(64, 1).at(128).conv(64, 1).at(128).conv(128, 1).at(256).conv(256, 1))
    add("alphazero-othello", (64,), N(1, 8, 8).conv(512).conv(512).conv(512, 3, 1, 0).conv(512, 3, 1, 0))
    add(
        "fast-style",
        (4,),
        N(3, 264, 264)
        .conv(32, 9, 1, 0)
        .at(32, 258, 258)
        .conv(64, 3, 2, 0)
        .at(64, 130, 130)
        .conv(128, 3, 2, 0)
        .at(128, 66, 66)
        .conv(128, 3, 1, 0)
        .at(128, 66, 66)
        .conv(128, 3, 1, 0)
        .at(64, 130, 130)
        .conv(64, 3, 1, 0)
        .at(64, 258, 258)
        .conv(32, 3, 1, 0)
        .at(32, 264, 264)
        .conv(3, 9, 1, 0),
    )
    add("super-resolution-example", (64,), N(1, 72, 72).conv(64, 5).conv(64).conv(32).conv(9))
    add("mnist-vae-conv", (128,), N(1, 28, 28).conv(32, 4, 2, 1).conv(64, 4, 2, 1).up(32, 4, 2, 1).up(1, 4, 2, 1))
    add(
        "celeba-vae",
        (144, 64),
        N(3, 64, 64)
        .conv(32, 3, 2)
        .conv(64, 3, 2)
        .conv(128, 3, 2)
        .conv(256, 3, 2)
        .conv(512, 3, 2)
        .up(256, 3, 2, 1, 1)
        .up(128, 3, 2, 1, 1)
        .up(64, 3, 2, 1, 1)
        .up(32, 3, 2, 1, 1)
        .up(32, 3, 2, 1, 1)
        .conv(3),
    )
    add(
        "ncsnpp-cifar",
        (64, 128),
        [l for c, s in ((128, 32), (256, 16), (256, 8), (256, 4)) for l in N(c, s, s).conv(c).conv(c, 1).conv(c).layers]
        + [l for a, b, s in ((3, 128, 32), (128, 256, 16), (512, 256, 4), (512, 256, 8), (512, 256, 16), (384, 256, 16), (384, 128, 32), (256, 128, 32)) for l in N(a, s, s).conv(b).layers],
    )
    add("kaggle-cats", (20, 32), N(3, 150, 150).conv(32, 3, 1, 0).pool().conv(64, 3, 1, 0).pool().conv(128, 3, 1, 0).pool().conv(128, 3, 1, 0))
    add("dogs-cnn", (16, 32), N(3, 200, 200).conv(16).pool().conv(32).pool().conv(64).pool())
    add("landmark", (10, 16), N(1, 224, 224).conv(32, 5, 1, 0).pool().conv(64, 3, 1, 0).pool().conv(128, 3, 1, 0).pool().conv(256, 3, 1, 0).pool().conv(512, 1))
    add("traffic-signs", (64, 128), N(3, 32, 32).conv(100, 5, 1, 0).pool().conv(150, 3, 1, 0).pool().conv(250, 3, 1, 0))
    add("nature-cnn", (32, 256), N(4, 84, 84).conv(32, 8, 4, 0).conv(64, 4, 2, 0).conv(64, 3, 1, 0))
    add("impala", (32,), [l for a, b, s in ((4, 16, 84), (16, 16, 42), (16, 32, 42), (32, 32, 21), (32, 32, 11)) for l in N(a, s, s).conv(b).layers])
    add("toy-ddpm", (128,), N(1, 28, 28).conv(64).conv(128).conv(128).pool().conv(256).conv(256).at(384, 28, 28).conv(128).conv(64).conv(1))
    add("resnet9", (512, 400), N(3, 32, 32).conv(64).conv(128).pool().conv(128).conv(128).conv(256).pool().conv(512).pool().conv(512))
    add("convmixer", (64,), N(3, 224, 224).conv(512, 14, 14, 0).conv(512, 9, 1, 4, 1, 512).conv(512, 1))
    add("unet-carvana", (1, 4), unet(3, (640, 959), (64, 128, 256, 512, 1024), 2))
    add("unet-isbi", (2, 8), unet(1, 256, (64, 128, 256, 512, 1024), 1))
    add("vnet", (2, 4), N(1, 64, 128, 128).conv(16, 5).conv(32, 2, 2, 0).conv(32, 5).conv(64, 2, 2, 0).conv(64, 5).conv(128, 2, 2, 0).conv(128, 5).up(128, 2, 2).conv(2, 1))
    add("brain3d", (2,), unet(4, 96, (16, 32, 64, 128), 3, dims=3))

    return out
