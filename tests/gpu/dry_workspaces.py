"""What dry_workspaces.sh runs beside dry_workspaces_ask.c, which asks cuDNN.

    dry_workspaces.py libraries                     cuDNN's version with the card's name; where PyTorch has cuDNN and what that loads
    dry_workspaces.py layers FILE                   the layers of tests/data/dnn_measured.txt
    dry_workspaces.py answers OUT LAYERS ANSWERS... a table (OUT, .gz) of what was answered about LAYERS
    dry_workspaces.py compare TABLE                 with tests/data/dnn_measured.txt
"""

import collections, gzip, os, re, sys

MEASURED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../data/dnn_measured.txt")
KINDS = (("f32", "nchw"), ("bf16", "nchw"), ("bf16", "nhwc"), ("f16", "nchw"), ("f32", "nhwc"), ("f16", "nhwc"))  # as in dry_workspaces_ask.c
OPS = ("forward", "data", "filter")


def libraries():
    import torch

    if not torch.cuda.is_available():
        sys.exit(77)
    torch.nn.functional.conv2d(torch.zeros(1, 1, 4, 4, device="cuda"), torch.zeros(1, 1, 3, 3, device="cuda"))
    loaded = re.findall(r"/\S*/lib(?:cudnn|cublas|nvrtc|cudart)\S*", open("/proc/self/maps").read())
    print(torch.backends.cudnn.version(), torch.cuda.get_device_name())
    print(":".join(dict.fromkeys(os.path.dirname(path) for path in loaded)))


def measured():
    """((layer, kind), op, bytes) of each line whose tensors lie the same way: others cannot be asked about here."""
    for line in open(MEASURED):
        op, kind, x, w, y, pad, step, dilation, size = line.split() if line[0] != "#" else [""] * 9
        places = {text.partition(":")[2] for text in (x, w, y)}
        if op and len(places) == 1:
            x, (k, c, *kernel) = x.partition(":")[0], w.partition(":")[0].split("x")
            groups = int(x.split("x")[1]) // int(c)
            yield (f"{x} {k} {groups} {'x'.join(kernel)} {pad} {step} {dilation}", KINDS.index((kind, *places))), op, int(size)


def layers(path):
    masks = collections.defaultdict(int)
    for (layer, kind), _, _ in measured():
        masks[layer] |= 1 << kind
    with open(path, "w") as file:
        file.writelines(f"{layer} {mask}\n" for layer, mask in masks.items())


def answers(out, layers_, *files):
    """Rows as scripts/dnn_rules.py reads them: engine/bytes of PyTorch's choice with TF32 and without."""
    lines, count = open(layers_).read().splitlines(), 0
    with gzip.open(out, "wt") as file:
        for line in (line for path in files for line in open(path)):
            if not line.endswith("\n"):
                continue  # cut off
            number, kind, *said = line.split()
            count += 1
            x, k, groups, kernel, pad, step, dilation, _ = lines[int(number)].split()
            n, c, *sides = map(int, x.split("x"))
            after = [(s + 2 * p - d * (f - 1) - 1) // t + 1 for s, f, p, t, d in zip(sides, *(map(int, v.split("x")) for v in (kernel, pad, step, dilation)))]
            a = ":".join(("", *KINDS[int(kind)]))
            y = "x".join(map(str, (n, int(k), *after)))
            shapes = f"x={x}{a} w={k}x{c // int(groups)}x{kernel}{a} y={y}{a} pad={pad} step={step} dilation={dilation} groups={groups} sum=f32 ops=1 products=0 reduced=0"
            for i, op in enumerate(OPS):
                tried = (said[2 * i], said[2 * i + 1]) if len(said) == 6 else (said[i], "-1/-1")
                if tried[0] != "-1/-1":
                    file.write("\t".join(("graph", "tf32", f"{op} {shapes}", '"asked"', *tried, "-1/-1", "-1/-1", "-1")) + "\n")
    print(f"{count} of {sum(int(line.split()[-1]).bit_count() for line in lines)} were answered")


def compare(table):
    said = {}
    for line in gzip.open(table, "rt"):
        field = line.split("\t")
        op, x, w, _, pad, step, dilation, groups, *_ = (part.partition("=")[2] or part for part in field[2].split())
        x, kind, place = x.split(":")
        k, _, *kernel = w.split(":")[0].split("x")
        said[(f"{x} {k} {groups} {'x'.join(kernel)} {pad} {step} {dilation}", KINDS.index((kind, place))), op] = int(field[4].split("/")[1])
    wrong = [(*key, op, size, said.get((key, op))) for key, op, size in measured() if said.get((key, op)) != size]
    for one in wrong[:20]:
        print("FAIL: layer, kind, operation, bytes measured and said:", *one)
    print(f"{sum(1 for _ in measured()) - len(wrong)} as measured, {len(wrong)} not")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    {"libraries": libraries, "layers": layers, "answers": answers, "compare": compare}[sys.argv[1]](*sys.argv[2:])
