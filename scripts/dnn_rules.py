#!/usr/bin/env python3
"""dnn_rules.py TABLE... OUT - makes dry/dnn/convolutions.def of what tests/gpu/dry_workspaces.sh read off a GPU.

TABLE is workspaces.tsv or workspaces.tsv.gz.  Wants numpy and scikit-learn; 2.4.6 and 1.9.1 give the same file again.  Takes
a minute and a half of one processor, and 2 GB, for half a million rows.

A workspace is written as a form, a sum of three: some of the tensors, as they are or turned to channels last with their
channels rounded up for tensor cores; so many times the result in 32 bits, for partial sums; a number of bytes.  A form is
right where it falls into the same block of 512 bytes, which is what PyTorch's allocator takes.  For each operation
(forward, data, filter) and each group of types there are

    NAME_tree, NAME_forms    which form: a decision tree over a convolution's sizes.  Of f32 (with TF32) and f16 it has every
                             measured convolution right; others get their neighbours' form.  Of ieee (without TF32) it
                             has 400 leaves.
    NAME_about, NAME_ranges  between what and what the workspace of one that was not measured lies: see ranges()
    NAME_most                the most that any plan wants: see roughly()

and `layers` lists the layers that were measured in all three, with their batches.  A layer is known by its hash, of 68
million: one in six thousand that were not measured is taken for one that was.

The texts are made of the characters DIGITS, of which the first is 0, and read by dry/dnn/workspace.c:

    tree     in preorder; an inner node is its feature and two digits of the threshold (at most that: left), a leaf two
             digits from LEAF on: which form or range, or in a _most tree the logarithm as in roughly(); from FAR on
             two more digits follow, which with the rest of the two are the number less FAR
    form     its tensors in PARTS, two digits of times, four that say which bytes (more_digits)
    range    two digits each of the least and the most, as in ranges()
    layer    four digits of its hash, four of batches and kinds
"""

import collections, gzip, itertools, math, re, sys

DIGITS = "".join(chr(c) for c in range(33, 127) if chr(c) not in '"?\\')  # of 91: nothing that C would read otherwise in a text
BASE = len(DIGITS)
LEAF = 34
FAR = 55 * BASE  # of a leaf's number: behind it leaves have four digits
TYPES = {"f32": 4, "f16": 2, "bf16": 2}
BATCHES = (1, 2, 3, 4, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64, 96, 100, 128, 192, 256, 512)
KINDS = (("f32", "nchw"), ("bf16", "nchw"), ("bf16", "nhwc"), ("f16", "nchw"), ("f32", "nhwc"), ("f16", "nhwc"))
PARTS = ("", "xwy", "xy", "xw", "wy", "x", "y", "w", "XWY", "XY", "XW", "WY")  # small: turned and rounded up; large: as they are
BYTES = (16, 400, 663, 1024, 1500)  # what engines want beside, mostly; else whole blocks
MOST = 32 << 30  # workspaces above are left out: a form has no digits for them
WORK = 9  # of features(): multiplications
MOST_CELLS = 4_500_000_000  # rows times forms of one tree: scikit-learn keeps a number of each node and form; what has more is halved by WORK

Row = collections.namedtuple("Row", "op type layouts x w y pad step dilation groups bytes ieee most")


def digits(value, count):
    out = ""
    for _ in range(count):
        out = DIGITS[value % BASE] + out
        value //= BASE
    assert value == 0
    return out


def leaf(number):
    if number < FAR:
        return digits(LEAF * BASE + number, 2)
    return digits((LEAF * BASE + FAR) * BASE**2 + number - FAR, 4)


def blocks(size):
    return (size + 511) // 512


def up(value, to):
    return (value + to - 1) // to * to


# ---- what was measured ----


def read(path, op):
    pattern = re.compile(r"(forward|data|filter) x=(\S+) w=(\S+) y=(\S+) pad=(\S+) step=(\S+) dilation=(\S+) groups=(\d+)")
    with gzip.open(path, "rt") if path.endswith(".gz") else open(path) as file:
        for line in file:
            field = line.split("\t")
            found = pattern.match(field[2]) if field[0] == "graph" and field[1] == "tf32" else None
            if not found or found[1] != op:
                continue
            tensors = [part.split(":") for part in found.groups()[1:4]]
            if tensors[0][1] not in TYPES or any(t[2] == "strided" for t in tensors):
                continue
            numbers = [tuple(map(int, text.split("x"))) for text in [t[0] for t in tensors] + list(found.groups()[4:7])]
            row = Row(found[1], tensors[0][1], tuple(t[2] for t in tensors), *numbers, int(found[8]), int(field[4].split("/")[1]), int(field[5].split("/")[1]), int(field[8]))
            if max(row.bytes, row.ieee) <= MOST:
                yield row


# ---- forms ----


def sizes(r):
    """Bytes of each part, and of the result in 32 bits."""
    width = TYPES[r.type]
    to = 8 if width == 2 else 4

    def of(shape, rounding):
        return shape[0] * up(shape[1], rounding) * math.prod(shape[2:]) * width

    turned = {"x": of(r.x, to) if r.layouts[0] != "nhwc" or r.x[1] % to else 0, "y": of(r.y, to) if r.layouts[2] != "nhwc" or r.y[1] % to else 0}
    turned["w"] = up(r.w[0], to) * up(r.w[1], to) * math.prod(r.w[2:]) * width if r.layouts[1] != "nhwc" or r.w[0] % to or r.w[1] % to else 0
    plain = {"X": of(r.x, 1), "Y": of(r.y, 1), "W": math.prod(r.w) * width}
    result = {"forward": r.y, "data": r.x, "filter": r.w}[r.op]
    return {**turned, **plain, "sums": 4 * math.prod(result)}


def more_digits(more):
    return digits((0, *BYTES).index(more) if more in (0, *BYTES) else 1 + len(BYTES) + more // 512, 4)


def value(form, size):
    return sum(size[part] for part in form[0]) + form[1] * size["sums"] + form[2]


def forms(r, bytes_):
    """Every form that gives the block of 512 bytes of BYTES_."""
    if bytes_ <= 0:
        return [("", 0, 0)]
    size, out = sizes(r), []
    for parts in PARTS:
        base = sum(size[part] for part in parts)
        if (parts and not base) or base > bytes_:
            continue
        rest = bytes_ - base
        times = rest // size["sums"]
        out += [(parts, 0, more) for more in (0, *BYTES)] + ([(parts, times, more) for more in (0, *BYTES[:4])] if 1 <= times <= 600 else [])
        if parts in ("", "xwy", "xw") and rest > 1500:
            out += [(parts, 0, blocks(rest) * 512), (parts, 0, blocks(rest) * 512 - 512)]
    return [form for form in dict.fromkeys(out) if blocks(value(form, size)) == blocks(bytes_)]


def chosen(rows, sizes_):
    """For each row the form that most rows have."""
    possible = [forms(r, b) for r, b in zip(rows, sizes_)]
    count = collections.Counter(itertools.chain.from_iterable(possible))
    for _ in range(3):
        out = [max(some, key=lambda form: (count[form], -form[1])) if some else None for some in possible]
        count = collections.Counter(form for form in out if form)
    return out


# ---- trees ----


def log(value_):
    return int(math.log2(value_) * 64 + 0.5) if value_ > 0 else 0


def twos(value_):
    return min(6, (value_ & -value_).bit_length() - 1) if value_ else 6


def features(r):
    """In the order of enum feature in dry/dnn/workspace.c."""
    n, c = r.x[:2]
    k, each = r.w[:2]
    kernel, so, si = math.prod(r.w[2:]), math.prod(r.y[2:]), math.prod(r.x[2:])
    m, n_, k_ = n * so, max(1, k // r.groups), each * kernel
    tiles = [(v + 127) // 128 for v in (m, n_, k_)]
    logs = [n, c, k, each, so, si, m, n_, k_, m * n_ * k_, n * c * si, n * k * so, k * each * kernel, tiles[0] * tiles[1], tiles[2] * tiles[1], tiles[2] * tiles[0]]
    plain = [r.w[2], r.w[-1], r.step[0], r.step[-1], r.pad[-1], r.dilation[-1], len(r.x) - 2, int(r.groups > 1), int(each == 1 and r.groups > 1)]
    return [log(v) for v in logs] + plain + [twos(v) for v in (c, k, so, si)] + [r.x[-1] % 2, int(r.x[2] == 1), int(r.layouts[0] == "nhwc"), int(r.type == "f16"), log(r.x[-1])]


def split(x, y, leaves):
    """A tree of (feature, threshold, left, right), a leaf a number of Y; and how many come out right."""
    from sklearn.tree import DecisionTreeClassifier

    import numpy as np

    middle = int(np.median(x[:, WORK]))
    low = x[:, WORK] <= middle
    if leaves is None and len(np.unique(y)) * len(y) > MOST_CELLS and low.any() and not low.all():
        (left, some), (right, more) = split(x[low], y[low], None), split(x[~low], y[~low], None)
        return (WORK, middle, left, right), some + more
    tree = DecisionTreeClassifier(random_state=0, max_leaf_nodes=leaves).fit(x, y)
    t = tree.tree_
    of = {node: int(tree.classes_[t.value[node][0].argmax()]) for node in range(t.node_count) if t.children_left[node] < 0}

    def node(i):
        return of[i] if i in of else (int(t.feature[i]), max(0, math.floor(t.threshold[i])), node(t.children_left[i]), node(t.children_right[i]))

    right = sum(of[i] == form for i, form in zip(tree.apply(x), y))  # predict() would want a number of each row and form
    return node(0), right


def leaves_of(tree):
    return [tree] if isinstance(tree, int) else leaves_of(tree[2]) + leaves_of(tree[3])


def written(tree, number_of):
    if isinstance(tree, int):
        return leaf(number_of[tree])
    return DIGITS[tree[0]] + digits(tree[1], 2) + written(tree[2], number_of) + written(tree[3], number_of)


def grown(rows, sizes_, leaves=None):
    """(text of the tree, texts of its forms, share that comes out right)"""
    import numpy as np

    sys.setrecursionlimit(10000)
    wanted = chosen(rows, sizes_)
    known = [i for i, form in enumerate(wanted) if form]
    number = {form: i for i, (form, _) in enumerate(collections.Counter(wanted[i] for i in known).most_common())}
    tree, right = split(np.array([features(rows[i]) for i in known], np.int32), np.array([number[wanted[i]] for i in known]), leaves)
    used = [form for form, _ in collections.Counter(leaves_of(tree)).most_common()]
    by_number = {i: form for form, i in number.items()}
    texts = [DIGITS[PARTS.index(by_number[form][0])] + digits(by_number[form][1], 2) + more_digits(by_number[form][2]) for form in used]
    return written(tree, {form: i for i, form in enumerate(used)}), "".join(texts), right / len(rows)


# ---- which layers were measured ----


def hashed(r):
    out = 1469598103934665603
    for number in (*r.x[1:], *r.w, *r.pad, *r.step, *r.dilation):
        out = ((out ^ number) * 1099511628211) % (1 << 64)
    return (out >> 20) % BASE**4


def joined(groups):
    """Groups of (batches, kinds), as words of bits, fewer where that forgets no more than an eighth of what was measured."""

    def much(group):
        return group[0].bit_count() * group[1].bit_count()

    spare = sum(map(much, groups)) // 8
    while len(groups) > 1:
        pairs = [(a, b, (a[0] & b[0], a[1] | b[1])) for a, b in itertools.combinations(groups, 2)]
        a, b, both = min(pairs, key=lambda pair: much(pair[0]) + much(pair[1]) - much(pair[2]))
        lost = much(a) + much(b) - much(both)
        if lost > spare:
            break
        spare -= lost
        groups = [group for group in groups if group not in (a, b)] + [both]
    return sorted(group for group in groups if much(group))


def with_batches(rows):
    """(hash, kind, batch) of each, as numbers."""
    return {(hashed(r), KINDS.index((r.type, r.layouts[0])), BATCHES.index(r.x[0])) for r in rows if r.x[0] in BATCHES and len(set(r.layouts)) == 1}


def measured(keys):
    """Layers, sorted by their hash: the batches that kinds of them were measured with, kinds with the same batches together."""
    seen = collections.defaultdict(lambda: collections.defaultdict(int))
    for key, kind, batch in keys:
        seen[key][kind] |= 1 << batch
    out = []
    for key, kinds in sorted(seen.items()):
        groups = [(batches, 1 << kind) for kind, batches in sorted(kinds.items())]
        out += [digits(key, 4) + digits(batches + (some << len(BATCHES)), 4) for batches, some in joined(groups)]
    return "".join(out)


def lines(name, text):
    return f"TEXT({name},\n" + "\n".join(f'     "{text[i:i + 1000]}"' for i in range(0, len(text), 1000)) + ")\n"


def roughly(rows):
    """The most that any plan wants follows no form: a tree of 500 leaves to its logarithm, less that of the tensors' bytes, to the base of 2,
    times 64, and 2500."""
    import numpy as np
    from sklearn.tree import DecisionTreeRegressor

    def tensors(r):
        return sum(sizes(r)[part] for part in "XWY")

    x = np.array([features(r) for r in rows], np.int32)
    y = np.array([math.log2(max(r.most, 512) / tensors(r)) for r in rows])
    tree = DecisionTreeRegressor(random_state=0, max_leaf_nodes=500).fit(x, y)
    t, out = tree.tree_, []

    def walk(node):
        if t.children_left[node] < 0:
            out.append(leaf(min(4999, max(0, round(float(t.value[node][0][0]) * 64) + 2500))))
            return
        out.append(DIGITS[t.feature[node]] + digits(max(0, math.floor(t.threshold[node])), 2))
        walk(t.children_left[node])
        walk(t.children_right[node])

    walk(0)
    near = sum(abs(a - b) < math.log2(1.1) for a, b in zip(tree.predict(x), y)) / len(rows)
    return "".join(out), near


def ranges(rows, sizes_):
    """For a convolution that was not measured: a tree of 300 leaves, and of each leaf what one in twenty of its convolutions stays below and what one in
    twenty exceeds, as in roughly(); 0: nothing.  With the share of layers held out that lie between."""
    import numpy as np
    from sklearn.tree import DecisionTreeRegressor

    tensors = np.array([sum(sizes(r)[part] for part in "XWY") for r in rows], float)
    x = np.array([features(r) for r in rows], np.int32)
    y = np.where(np.array(sizes_) > 0, np.clip(np.round(np.log2(np.maximum(sizes_, 1) / tensors) * 64) + 2500, 1, 4999), 0)
    smooth = np.log2(np.maximum(sizes_, 512) / tensors)

    def leaves(some):
        tree = DecisionTreeRegressor(random_state=0, max_leaf_nodes=300, min_samples_leaf=40).fit(x[some], smooth[some])
        at = tree.apply(x[some])
        order = np.argsort(at, kind="stable")
        parts = np.split(y[some][order], np.flatnonzero(np.diff(at[order])) + 1)
        return tree, {int(leaf): tuple(int(q) for q in np.quantile(part, (0.05, 0.95), method="nearest")) for leaf, part in zip(np.unique(at), parts)}

    held = np.array([hashed(r) % 5 == 0 for r in rows])
    tree, found = leaves(~held)
    inside = np.mean([found[leaf][0] - 1 <= value_ <= found[leaf][1] + 1 for leaf, value_ in zip(tree.apply(x[held]), y[held])])
    tree, found = leaves(np.ones(len(rows), bool))
    t, out, table = tree.tree_, [], []

    def walk(node):
        if t.children_left[node] < 0:
            out.append(leaf(len(table)))
            table.append(digits(found[node][0], 2) + digits(found[node][1], 2))
            return
        out.append(DIGITS[t.feature[node]] + digits(max(0, math.floor(t.threshold[node])), 2))
        walk(t.children_left[node])
        walk(t.children_right[node])

    walk(0)
    return "".join(out), "".join(table), inside


def main(*paths):
    *tables, path = paths
    known = None  # layers that were measured in all three: else what is said of one would be taken for all
    with open(path, "w") as file:
        file.write("/* Made by scripts/dnn_rules.py: cuDNN 9.19.0's workspaces on an H200, read off by tests/gpu/dry_workspaces.sh. */\n")
        for op in ("forward", "data", "filter"):
            rows = list(itertools.chain.from_iterable(read(table, op) for table in tables))
            known = with_batches(rows) & known if known is not None else with_batches(rows)
            for group, types in (("f32", ("f32",)), ("f16", ("bf16", "f16")), ("ieee", ("f32",))):
                some = [r for r in rows if r.type in types]
                tree, texts, right = grown(some, [r.ieee if group == "ieee" else r.bytes for r in some], 400 if group == "ieee" else None)
                print(f"{op} {group}: {len(some)} measured, {right:.4f} of them right, {len(tree)} characters of tree, {len(texts)} of forms", flush=True)
                file.write(lines(f"{op}_{group}_tree", tree) + lines(f"{op}_{group}_forms", texts))
                tree, texts, inside = ranges(some, [r.ieee if group == "ieee" else r.bytes for r in some])
                print(f"{op} {group}: of layers held out {inside:.3f} are in their ranges", flush=True)
                file.write(lines(f"{op}_{group}_about", tree) + lines(f"{op}_{group}_ranges", texts))
            for group, types in (("f32", ("f32",)), ("f16", ("bf16", "f16"))):
                tree, near = roughly([r for r in rows if r.type in types and r.most >= 0])
                print(f"{op} {group}: the most of any plan within a tenth for {near:.3f}", flush=True)
                file.write(lines(f"{op}_{group}_most", tree))
        text = measured(known)
        print(f"{len(text) // 8} layers measured")
        file.write(lines("layers", text))


if __name__ == "__main__":
    main(*sys.argv[1:])
