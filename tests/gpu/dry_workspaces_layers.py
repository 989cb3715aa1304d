#!/usr/bin/env python3
"""dry_workspaces_layers.py - which convolutions dry_workspaces_ask.c asks about, and a table of its answers.

    dry_workspaces_layers.py layers FILE COUNT [TABLE]     the COUNT that are most likely met, the likeliest first, but
                                                           those that TABLE has: 3000 of these begin, to be compared
    dry_workspaces_layers.py answers OUT LAYERS ANSWERS... a table (OUT, .gz) of what was answered about them
    dry_workspaces_layers.py compare OUT TABLE             whether both say the same where both say something

How likely a layer is met is counted: in networks of torchvision and transformers, those of dry_workspaces_nets.py and
dry_workspaces_papers.py, and in hundreds of thousands that are drawn in the first.
"""

import collections, gzip, multiprocessing, os, random, re, sys

import dry_workspaces, dry_workspaces_nets as nets, dry_workspaces_papers as papers

# ---- networks of libraries, as they run on the meta device ----

VISION = [("resnet18", 32), ("resnet18", 64), ("resnet18", 128), ("resnet18", 224), ("resnet18", 256), ("resnet34", 224), ("resnet50", 32), ("resnet50", 64), ("resnet50", 128), ("resnet50", 224), ("resnet50", 256), ("resnet101", 224), ("resnext50_32x4d", 224), ("resnext101_32x8d", 224), ("wide_resnet50_2", 224), ("wide_resnet50_2", 32), ("alexnet", 224), ("vgg11", 32), ("vgg11", 224), ("vgg16", 32), ("vgg16", 64), ("vgg16", 128), ("vgg16", 224), ("vgg19", 224), ("densenet121", 32), ("densenet121", 64), ("densenet121", 224), ("densenet169", 224), ("densenet161", 224), ("squeezenet1_0", 224), ("squeezenet1_1", 224), ("googlenet", 224), ("inception_v3", 299), ("mnasnet0_5", 224), ("mnasnet1_0", 224), ("shufflenet_v2_x0_5", 224), ("shufflenet_v2_x1_0", 224), ("mobilenet_v2", 32), ("mobilenet_v2", 128), ("mobilenet_v2", 224), ("mobilenet_v3_small", 32), ("mobilenet_v3_small", 224), ("mobilenet_v3_large", 224), ("efficientnet_b0", 32), ("efficientnet_b0", 64), ("efficientnet_b0", 128), ("efficientnet_b0", 224), ("efficientnet_b0", 256), ("efficientnet_b1", 240), ("efficientnet_b2", 260), ("efficientnet_b2", 288), ("efficientnet_b3", 300), ("efficientnet_b4", 380), ("efficientnet_b4", 224), ("efficientnet_b5", 456), ("efficientnet_v2_s", 224), ("efficientnet_v2_s", 300), ("efficientnet_v2_s", 384), ("efficientnet_v2_m", 224), ("regnet_y_400mf", 224), ("regnet_y_800mf", 224), ("regnet_y_1_6gf", 224), ("regnet_y_3_2gf", 224), ("regnet_y_8gf", 224), ("regnet_x_400mf", 224), ("regnet_x_800mf", 224), ("regnet_x_1_6gf", 224), ("regnet_x_3_2gf", 224), ("convnext_tiny", 224), ("convnext_small", 224), ("convnext_base", 224), ("convnext_large", 224), ("convnext_tiny", 64), ("swin_t", 224), ("swin_s", 224), ("swin_b", 224), ("swin_v2_t", 256), ("maxvit_t", 224), ("vit_b_16", 224), ("vit_b_32", 224), ("vit_l_16", 224)]  # fmt: skip
SEGMENTATION = [(name, side) for name in ("fcn_resnet50", "deeplabv3_resnet50", "deeplabv3_resnet101", "deeplabv3_mobilenet_v3_large", "lraspp_mobilenet_v3_large") for side in (224, 256, 320, 480, 512, 513, 520)]
VIDEO = [("r3d_18", 112), ("mc3_18", 112), ("r2plus1d_18", 112), ("s3d", 224), ("mvit_v1_b", 224), ("mvit_v2_s", 224), ("swin3d_t", 224)]
TRANSFORMERS = ["beit", "bit", "clip_vision_model", "convnext", "convnextv2", "cvt", "data2vec-audio", "data2vec-vision", "deit", "dinov2", "dpt", "efficientnet", "focalnet", "glpn", "hiera", "hubert", "ijepa", "levit", "mobilenet_v1", "mobilenet_v2", "mobilevit", "mobilevitv2", "poolformer", "pvt", "pvt_v2", "regnet", "resnet", "segformer", "sew", "sew-d", "siglip_vision_model", "speech_to_text", "swin", "swin2sr", "swinv2", "swiftformer", "timesformer", "unispeech", "unispeech-sat", "videomae", "vit", "vit_mae", "vit_msn", "vitdet", "vivit", "wav2vec2", "wav2vec2-bert", "wav2vec2-conformer", "wavlm", "whisper", "yolos", "dac", "audio-spectrogram-transformer", "vits", "univnet", "sam_vision_model", "textnet", "moonshine"]  # fmt: skip


def traced(run):
    """The convolutions that RUN computes."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode

    found = {}

    class Listen(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, arguments=(), named=None):
            if function is torch.ops.aten.convolution.default:
                x, w, _, step, pad, dilation, transposed, _, groups = arguments
                y = function(*arguments, **(named or {}))
                a, k = (y, w.shape[0]) if transposed else (x, w.shape[0])
                of = (tuple(a.shape[1:]), k, groups, tuple(w.shape[2:]), tuple(pad), tuple(step), tuple(dilation))
                if len(w.shape) == 3:
                    of = ((of[0][0], 1, of[0][1]), k, groups, (1, *of[3]), (0, *of[4]), (1, *of[5]), (1, *of[6]))
                found[(a.shape[0], of)] = None
                return y
            return function(*arguments, **(named or {}))

    with torch.no_grad(), Listen():
        run()
    return list(found)


def of_vision(name, side):
    import torch, torchvision

    all_ = torchvision.models
    makers = next(place for place in (all_, all_.video, all_.segmentation) if hasattr(place, name))
    more = {"weights_backbone": None} if makers is torchvision.models.segmentation else {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    try:
        with torch.device("meta"):
            net = getattr(makers, name)(**more)
    except (RuntimeError, NotImplementedError):  # it reads a number while it is made
        net = getattr(makers, name)(**more).to("meta")
    frames = (16,) if makers is torchvision.models.video else ()
    return traced(lambda: net(torch.empty((2, 3, *frames, side, side), device="meta")))


def of_transformers(name):
    import torch, transformers

    config = transformers.models.auto.configuration_auto.CONFIG_MAPPING[name]()
    try:
        with torch.device("meta"):
            net = transformers.AutoModel.from_config(config).eval()
    except (RuntimeError, NotImplementedError):
        net = transformers.AutoModel.from_config(config).eval().to("meta")
    with torch.device("meta"):
        size = getattr(config, "image_size", 224)
        side = tuple(size) if isinstance(size, (list, tuple)) else (size, size)
        frames = (getattr(config, "num_frames", 8),) if name in ("timesformer", "vivit", "videomae") else ()
        tries = {
            "pixel_values": lambda: torch.empty((2, *frames, getattr(config, "num_channels", 3), *side)),
            "input_values": lambda: torch.empty((2, 1024, 128) if "spectrogram" in name else (2, 1, 24000) if name in ("encodec", "dac", "mimi") else (2, 16000)),
            "input_features": lambda: torch.empty((2, 80, 3000) if "whisper" in name or "audio" in name else (2, 500, 160 if "bert" in name else 80)),
            "input_ids": lambda: torch.zeros((2, 512), dtype=torch.long),
        }
        make = tries[net.main_input_name if net.main_input_name in tries else "pixel_values"]

        def run():
            try:
                net(**{net.main_input_name: make()})
            except Exception:  # what came before is kept
                pass

        return traced(run)


# ---- layers that are asked about ----

KINDS = (("f32", "nchw"), ("bf16", "nchw"), ("bf16", "nhwc"), ("f16", "nchw"), ("f32", "nhwc"), ("f16", "nhwc"))  # as in dry_workspaces_ask.c
OFTEN = (1, 0.6, 0.3, 0.3, 0.15, 0.12)  # how often people take each, about
SIZES = {1: 0.6, 2: 0.7, 4: 0.9, 8: 1, 16: 1, 32: 1, 64: 1, 128: 0.9, 256: 0.5, 512: 0.25}
DRAWN = 400000  # networks


def wanted(c, layer, n, kind):
    """Whether PyTorch asks cuDNN: not where it has kernels of its own for a channel at a time, nor of what is too large to be trained."""
    x, k, groups, kernel, pad, step, dilation = layer
    data, place = KINDS[kind]
    own = groups > 1 and groups == c and (len(x) == 4 or (place == "nchw" and data != "f16"))
    if own or (place == "nhwc" and x[1] == 1 and kernel[0] == 1 and x[2] > 1 and len(x) == 3):
        return False
    inside = outside = 1
    for s, f, p, t, d in zip(x[1:], kernel, pad, step, dilation):
        inside, outside = inside * s, outside * ((s + 2 * p - d * (f - 1) - 1) // t + 1)
    return outside > 0 and n * (c * inside + k * outside) <= 1 << 29


def weights():
    """{(layer, batch): how often it is met, of DRAWN networks}"""
    found = collections.Counter()
    with multiprocessing.Pool(min(16, os.cpu_count())) as pool:
        jobs = [pool.apply_async(of_vision, one) for one in VISION + SEGMENTATION + VIDEO] + [pool.apply_async(of_transformers, (name,)) for name in TRANSFORMERS]
        for job in jobs:
            try:
                layers_ = job.get()
            except Exception as error:  # another version of the library
                print("left out:", str(error).split("\n")[0][:100], flush=True)
                continue
            for n, layer in layers_:
                for batch, often in SIZES.items():
                    found[layer, batch * n // 2 if n % 2 == 0 else n] += 12 * often
    for of, often in ((nets.zoo(), 6), (papers.papers(), 12)):
        for family, layers_, batches in of:
            for layer in set(layers_):
                for n in batches:
                    found[layer, n] += often * SIZES.get(n, 0.5) / (3 if family == "rows" else 1)  # lengths are anybody's
    draw = random.Random(20)
    for _ in range(DRAWN):
        _, layers_, (n,) = nets.drawn(draw)
        for layer in set(layers_):
            found[layer, n] += 1
    return found


def of_table(path):
    """(layer, batch, kind) of the convolutions of a table, with their rows."""
    pattern = re.compile(r"(forward|data|filter) x=(\S+) w=(\S+) y=(\S+) pad=(\S+) step=(\S+) dilation=(\S+) groups=(\d+)")
    for line in gzip.open(path, "rt") if path.endswith(".gz") else open(path):
        field = line.rstrip("\n").split("\t")
        found = pattern.match(field[2]) if field[0] == "graph" and field[1] == "tf32" else None
        tensors = [tuple(part.split(":")) for part in found.groups()[1:4]] if found else [("", "", "")]
        if found and len({t[1:] for t in tensors}) == 1 and tensors[0][1:] in KINDS:
            x, w, pad, step, dilation = (tuple(map(int, text.split("x"))) for text in (tensors[0][0], tensors[1][0], *found.groups()[4:7]))
            yield found[1], ((x[1:], w[0], int(found[8]), w[2:], pad, step, dilation), x[0], KINDS.index(tensors[0][1:])), field[4:]


def likely(path, count, table=None):
    known = {key for _, key, _ in of_table(table)} if table else set()
    every = [(often * OFTEN[kind], layer, n, kind) for (layer, n), often in weights().items() for kind in range(len(KINDS)) if n > 0 and (layer, n, kind) not in known and wanted(layer[0][0], layer, n, kind)]
    every.sort(key=lambda one: (-one[0], dry_workspaces.hash_of(one[1:])))
    every = every[: int(count)]
    again = sorted(known, key=dry_workspaces.hash_of)[:3000]
    print(f"{len(every)} asked about, {len(known)} known", collections.Counter(one[3] for one in every), "the least likely is met in", every[-1][0], "of", DRAWN)
    step = max(1, len(every) // 12)
    with open(path, "w") as file:
        for part in [[(0, *one) for one in again]] + [every[i : i + step] for i in range(0, len(every), step)]:
            masks = collections.defaultdict(int)
            for _, layer, n, kind in part:
                masks[layer, n] |= 1 << kind
            for (x, k, groups, *rest), n in masks:
                file.write(" ".join(["x".join(map(str, (n, *x))), str(k), str(groups), *("x".join(map(str, v)) for v in rest), str(masks[(x, k, groups, *rest), n])]) + "\n")


def answers(out, layers_, *files):
    """Rows as in table()."""
    lines, seen, ops = open(layers_).read().split("\n"), set(), ("forward", "data", "filter")
    with gzip.open(out, "wt") as file:
        for path in files:
            for line in whole_lines(path):
                number, kind, *said = line.split("\t")
                if len(said) not in (3, 6) or (number, kind) in seen or int(number) >= len(lines) - 1:  # LAYERS may be the first of them only
                    continue
                seen.add((number, kind))
                x, k, groups, kernel, pad, step, dilation, _ = lines[int(number)].split()
                n, c, *sides = map(int, x.split("x"))
                after = [(s + 2 * p - d * (f - 1) - 1) // t + 1 for s, f, p, t, d in zip(sides, *(map(int, v.split("x")) for v in (kernel, pad, step, dilation)))]
                a = ":".join(("", *KINDS[int(kind)]))
                shapes = f"x={x}{a} w={k}x{c // int(groups)}x{kernel}{a} y={'x'.join(map(str, (n, int(k), *after)))}{a} pad={pad} step={step} dilation={dilation} groups={groups} sum=f32 ops=1 products=0 reduced=0"
                for i, op in enumerate(ops):
                    tried = (said[2 * i], said[2 * i + 1]) if len(said) == 6 else (said[i], "-1/-1")
                    if tried[0] != "-1/-1":
                        file.write("\t".join(("graph", "tf32", f"{op} {shapes}", '"asked"', *tried, "-1/-1", "-1/-1", "-1")) + "\n")
    print(f"{len(seen)} of {sum(int(line.split()[-1]).bit_count() for line in lines if line)} were answered")


def whole_lines(path):
    """Of a file that may have been cut off."""
    try:
        with gzip.open(path, "rt") if path.endswith(".gz") else open(path) as file:
            for line in file:
                if line.endswith("\n"):
                    yield line.rstrip("\n")
    except EOFError:
        pass


def compare(out, table_):
    before = {(op, key): tried[:2] for op, key, tried in of_table(table_)}
    same = other = 0
    for op, key, tried in of_table(out):
        if (op, key) in before:
            was = before[op, key][: 2 if key[2] in (0, 4) else 1]
            same, other = (same + 1, other) if was == tried[: len(was)] else (same, other + 1)
            if was != tried[: len(was)] and other < 10:
                print("before", was, "now", tried[:2], op, key)
    print(f"{same} the same, {other} not")


if __name__ == "__main__":
    {"layers": likely, "answers": answers, "compare": compare}[sys.argv[1]](*sys.argv[2:])
