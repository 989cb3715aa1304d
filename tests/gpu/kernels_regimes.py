"""A part of kernels_check.py: exactness in every regime of the softmax, beside PyTorch's eager loss.

Loss, gradients and entropies may be off by no more than the eager loss's own error, 5 % and 1e-4 (bf16 logits, log-softmax in fp32,
gradient in bf16, here with NumPy); or, where that is more, than exact arithmetic on the same bf16 logits. With fp32 logits the loss
is right to a thousandth, but for what fp32 can say of a logit of 1e4 (1e-3).
"""
import numpy as np
import kernels_lce as K
from kernels_case import EMULATED, Case, problem, report
from kernels_parts import together

PEAKED = 1.0, 1e-2, 1e-4, 1e-6  # mean losses
OURS, BESIDE = 1 << 14, 3 << 13  # in proposals: our products, for few tokens, too; that of the logits beside cuBLASLt's others
NOISE = 1e-4  # of two methods that round alike, to different sides


def rounded(values):
    return K.from_type(K.to_type(np.asarray(values, np.float32), K.BF16), K.BF16)


def losses(z, labels):
    """-log p of each label in double precision, as a sum of small numbers."""
    rows = np.arange(len(labels))
    odds = z - z[rows, labels][:, None]
    odds[rows, labels] = -np.inf
    top = odds.max(1)
    return np.logaddexp(0, top + np.log(np.exp(odds - top[:, None]).sum(1)))


def sharpen(noise, w, labels, target):
    """Hidden states noise + s W[label], with s such that the mean loss is TARGET."""
    low, high = 0.0, 64.0
    for _ in range(60):
        middle = (low + high) / 2
        if losses((noise + middle * w[labels]) @ w.T, labels).mean() > target:
            low = middle
        else:
            high = middle
    return noise + high * w[labels]


def inputs(cell, n, h, v, random):
    """Hidden states, weight, bias or None, labels of a cell."""
    w = rounded(random.normal(0, 0.3, (v, h)))
    labels = np.minimum((np.exp(random.uniform(0, np.log(v), n)) - 1).astype(np.int64), v - 1)  # as words are
    labels[:3] = v - 1, v - 2, 0  # the last classes have kernels of their own
    x, bias = random.normal(0, 0.3, (n, h)), None
    if cell == "flat":
        x *= 1e-3
    elif cell.startswith("peaked"):
        x = sharpen(x, w, labels, float(cell.split()[1]))
    elif cell == "logits of +-1e4":
        x *= 1e4 / np.abs(x @ w.T).max()
    elif cell == "all by 1e4":
        x = sharpen(x, w, labels, 1e-2)
        x[:, 0], w[:, 0] = 100, 100
    elif cell == "certain and wrong by 1e4":  # entropies of 1e-11, whose largest share is not the label's
        labels[:] = (labels + 1 + random.integers(0, v - 1, n)) % v
        x = sharpen(x, w, (labels + 7) % v, 1e-12)
        x[:, 0], w[:, 0] = 100, 100
    elif cell == "masked":
        bias = np.zeros(v)
        bias[random.permutation(v)[: v // 2]] = -np.inf
        bias[labels] = 0
    elif cell == "overflowing":  # logits of -inf without a bias, and so in the fast passes
        x[:, 0], w[:, 0] = 10, 0
        w[np.setdiff1d(random.permutation(v)[: v // 2], labels), 0] = -3e38
    elif cell == "duplicates":
        labels[:] = labels % (v // 2)
        w[v // 2 : v // 2 * 2] = w[: v // 2]  # every label's row twice
        x = sharpen(x, w, labels, np.log(2) * 1.01)
    return x, w, bias, labels


def eager(x, w, bias, labels, above, temperature, f=np.float32, wide=False):
    """(loss, dinput, dweight, entropies) as PyTorch's bf16 has them: of the mean, and with ABOVE of that much of the mean
    entropy, too.  F: the type of what comes between logits and gradient; WIDE: logits are not rounded to bf16."""
    n = int((labels != -100).sum())
    rows = np.flatnonzero(labels != -100)
    with np.errstate(over="ignore"):
        z = (x @ w.T + (0 if bias is None else bias)).astype(f)
        z = (z if wide else rounded(z)).astype(f)[rows] / f(temperature)
    with np.errstate(divide="ignore"):
        z -= z.max(1, keepdims=True)
        log_p = z - np.log(np.exp(z).sum(1, keepdims=True, dtype=f))
    picked = np.arange(len(rows)), labels[rows]
    g = np.exp(log_p)
    p = g.copy()
    g[picked] -= 1
    entropies = np.zeros(len(x), f)
    with np.errstate(invalid="ignore"):
        each = np.where(p > 0, p * log_p, f(0))
    entropies[rows] = -each.sum(1, dtype=f)
    if above:
        up = -f(above) * np.where(p > 0, each / np.where(p > 0, p, f(1)) + 1, f(0)) * p
        g += up - p * up.sum(1, keepdims=True, dtype=f)
    g, dx = rounded(g / f(n * temperature)), np.zeros(x.shape)
    dx[rows] = rounded(g @ w)
    return -log_p[picked].mean(dtype=f), dx, rounded(g.T @ x[rows]), entropies[:, None]


def distance(got, want):
    return np.linalg.norm(got - want) / (np.linalg.norm(want) or 1)


def one(library, memory, cell, shape, flags, ways, above=0.0, temperature=1.0):
    n, h, v = shape
    x, w, bias, labels = inputs(cell, n, h, v, np.random.default_rng(7))
    x = x * temperature  # so that the softmax is the cell's
    if cell == "one counts":
        labels[np.arange(n) != n // 2] = -100

    def change(values):
        values.update(input=K.to_type(x, K.BF16), weight=K.to_type(w, K.BF16), labels=labels,
                      bias=None if bias is None else K.to_type(bias, K.BF16),
                      grad_entropy=np.full(n, above / (labels != -100).sum(), np.float32) if above else None)

    case = Case(library, memory, problem(library, n, h, v, flags=flags, wants=7 | K.ENTROPY, temperature=temperature), change=change)
    names = "loss", "grad_input", "grad_weight", "entropy"
    theirs, exact = (dict(zip(names, eager(rounded(x), w, bias, labels, above, temperature, f))) for f in (np.float32, np.float64))
    for how in ways:
        how = dict(how)
        cuts = how.pop("cuts", None)
        got, _, problems = case.run(**how) if cuts is None else together(case, cuts, **how)
        how = {**how, **({} if cuts is None else {"parts": len(cuts) + 1}), **({"above": above} if above else {}),
               **({"temperature": temperature} if temperature != 1 else {})}
        for name in names:
            want = case.want[name]
            ours, eagers, least = (distance(a, want) for a in (K.from_type(got[name], case.outputs[name][0]), theirs[name], exact[name]))
            limit = 1.05 * (eagers if flags & K.F32_LOGITS else max(eagers, least)) + NOISE
            if name in ("loss", "entropy") and flags & K.F32_LOGITS:
                limit = 2e-2 if "1e4" in cell else 1e-3
                if cell.startswith("certain"):  # beside the largest, whose exponential is 1, the others' sum has no digits
                    limit = 5e-2
            if cuts and name == "grad_input":  # two ranks' shares, each rounded to bf16; of duplicates they cancel
                limit = 2 * limit if cell == "duplicates" else limit + 2e-3
            print(f"      {cell}, flags {flags} {how}: {name} is off by {ours:.2e}, eager by {eagers:.2e}", flush=True)
            if not ours <= limit:
                problems.append(f"{name} is off by {ours:.2e}, not at most {limit:.2e}; eager by {eagers:.2e}")
        report(f"{cell}, flags {flags} {how}", problems)


def regimes(library, memory, quick):
    cells = ["flat", "words"] + [f"peaked {loss}" for loss in PEAKED]
    cells += ["logits of +-1e4", "all by 1e4", "certain and wrong by 1e4", "masked", "overflowing", "duplicates", "one counts"]
    shape = (40, 64, 1003) if quick else (96, 128, 4099)
    for cell in cells:
        for flags in (K.F32_LOGITS,) if EMULATED and cell.startswith("certain") else (0, K.F32_LOGITS):
            ways = [{"chunk": shape[0]}]
            if memory.stream is not None:
                ways += [{"chunk": shape[0], "slab": 256}]
            few = EMULATED and not (cell == "masked" or cell == "peaked 1e-06" and flags)
            one(library, memory, cell, shape, flags, ways)
            if not few:
                one(library, memory, cell, shape, flags, ways + [{"chunk": shape[0], "cuts": (shape[2] // 2,)}], above=1.0)
            if not EMULATED or cell in ("peaked 1e-06", "overflowing") or "1e4" in cell and flags:
                one(library, memory, cell, shape, flags, ways, above=0.5, temperature=0.7)


LOGITS = 1 << 12  # in proposals: 16-bit logits, where exponentials would be stored
EXACT = 3e-3  # gradients, where the softmax is peaked


def exponential(library, memory, cell, shape, chunk, most=1.0, seed=11, whose=OURS, **values):
    """A cell with products of ours, or that of the logits beside cuBLASLt's: held to exact arithmetic of exact logits with a gradient in bf16, gradients to MOST as well.
    Returns the error of dinput with 16-bit logits."""
    n, h, v = shape
    x, w, bias, labels = inputs(cell, n, h, v, np.random.default_rng(seed))
    temperature = values.get("temperature", 1.0)
    x = x * temperature
    if cell == "one counts":
        labels[np.arange(n) != n // 2] = -100
    as_bits = dict(input=K.to_type(x, K.BF16), weight=K.to_type(w, K.BF16), labels=labels, bias=None if bias is None else K.to_type(bias, K.BF16))
    case = Case(library, memory, problem(library, n, h, v, wants=7, proposals=whose, **values), change=lambda v: v.update(as_bits))
    theirs = dict(zip(("loss", "grad_input", "grad_weight"), eager(rounded(x), w, bias, labels, 0, temperature, np.float64, wide=bias is None)))
    got, flag, problems = case.run(chunk=chunk)
    before = K.from_type(case.before[0], case.outputs["grad_weight"][0]) if case.before else 0  # which is added to: rows of dinput are lent then
    if case.before:
        problems += [] if case.info[2] < v else ["no segments"]
    elif whose & K.BORROW and case.info[2] != v or whose >> K.SLAB_SHIFT == 0 and case.borrows != bool(whose & K.BORROW):
        problems.append("borrows nothing" if whose & K.BORROW else "borrows")
    for name, eagers in theirs.items():
        kept = before if name == "grad_weight" else 0
        want = case.want[name] - kept
        ours, least = distance(K.from_type(got[name], case.outputs[name][0]) - kept, want), distance(eagers, want)
        limit = min(1.05 * least + NOISE, most)
        if name == "grad_input":  # a row's product is rounded before the label's part is added
            limit = min(1.2 * least + NOISE, most)
        if "1e4" in cell or cell == "duplicates":  # columns of 100, or rows that are equal, cancel in dinput and leave what was rounded: in
            limit = (2.5 if cell == "duplicates" and n < 100 else 2) * least + NOISE  # exact arithmetic p and 1 - p of two classes are rounded alike, exponentials once more
        if "1e4" in cell:  # of which fp32 can say no more than 1e-3
            limit = max(limit, 1e-2)
        if name == "grad_weight" and case.before:  # beside which a small gradient is rounded in each chunk
            limit += (n / chunk) ** 0.5 * 2**-24 * np.linalg.norm(kept) / np.linalg.norm(want)
        if name == "loss":
            limit = 2e-2 if "1e4" in cell else 1e-3 if bias is None else 1.05 * least + NOISE
        elif name == "grad_weight" and chunk < n:
            limit = 2 * limit  # it is rounded once a chunk
        print(f"      {cell}, exponentials, chunk {chunk} {values}, {whose >> 13}: {name} is off by {ours:.2e}, eager with exact logits by {least:.2e}", flush=True)
        if not ours <= limit:
            problems.append(f"{name} is off by {ours:.2e}, not at most {limit:.2e}")
    again = case.run(chunk=chunk)[0]
    problems += ["other bits in a second run"] if any(got[name].tobytes() != again[name].tobytes() for name in theirs) else []
    report(f"{cell}, exponentials, {shape}, chunk {chunk} {values}, {whose >> 13}", problems + ([f"error flag {flag}"] if flag else []))
    case.problem.proposals |= LOGITS
    return distance(K.from_type(case.run(chunk=chunk)[0]["grad_input"], K.BF16), case.want["grad_input"])


def exponentials(library, memory, quick):
    """Where the products are ours their tiles end in exponentials, and 16 bits are as exact as fp32 logits: compute capability 9.0 alone."""
    if memory.stream is None or memory.capability() != (9, 0):
        return
    cells = ["flat", "words"] + [f"peaked {loss}" for loss in PEAKED]
    cells += ["logits of +-1e4", "all by 1e4", "masked", "overflowing", "duplicates", "one counts"]
    shape, seed = ((129, 72, 769), 11) if quick else ((300, 128, 4099), 12)  # with which rounding g alone leaves less than EXACT
    for cell in cells:
        before = exponential(library, memory, cell, shape, shape[0], EXACT if cell.startswith("peaked") else 1.0, seed)
        if cell in ("peaked 0.0001", "peaked 1e-06"):  # what this test is there for
            report(f"{cell}: 16-bit logits are worse", [] if before > 2 * EXACT else [f"they are off by {before:.2e}"])
        exponential(library, memory, cell, shape, shape[0], whose=BESIDE)
        if not quick:
            exponential(library, memory, cell, shape, 128)
            exponential(library, memory, cell, (129, 72, 769), 64, whose=BESIDE, max_counted=100 if cell == "one counts" else 0)
            exponential(library, memory, cell, shape, shape[0], temperature=0.7)
            exponential(library, memory, cell, (129, 72, 769), 129)
