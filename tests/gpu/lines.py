"""lines.py lines|layers WITNESS: trains | compare lines|layers DB WITNESS. A witness's word goes into PyTorch's memory history;
without a GPU cpu_blocks.c of tests/e2e/frameworks keeps it.
"""
import collections
import json
import os
import re
import sqlite3
import sys

from python_frames import column

HERE = os.path.dirname(os.path.abspath(__file__))
LOG = os.environ.get("CPU_BLOCKS_LOG")
WANTED = 0.995
STEPS = 3


# ---- what both witnesses say, and where it is kept ----

class Words:
    def __init__(self):
        self.numbers = {}
        import ctypes
        import torch

        self.torch, self.cpu = torch, ctypes.CDLL(None).cpu_blocks_say if LOG else None
        self.device = "cpu" if LOG else "cuda"
        if not LOG:
            torch.cuda.memory._record_memory_history(enabled="all", context="alloc", stacks="python")

    def say(self, word):
        if self.cpu:
            self.cpu(self.numbers.setdefault(word, len(self.numbers) + 1))
        else:
            self.torch.cuda.memory._set_memory_metadata(word)

    def write(self, path):
        """A line a block: address, size, whether Python code ran on its thread, the word."""
        if LOG:
            words = {0: "", **{number: word for word, number in self.numbers.items()}}
            rows = [[None, int(size), None, words[int(n)]] for size, n in map(str.split, open(LOG))]
        else:
            self.torch.cuda.synchronize()
            events = self.torch.cuda.memory._snapshot()["device_traces"][0]
            rows = [[e["addr"], e["size"], bool(e.get("frames")), e.get("user_metadata", "")] for e in events if e["action"] == "alloc"]
        with open(path, "w") as f:
            f.writelines(json.dumps(row) + "\n" for row in rows)


def programs(device):
    """(name, the model, its inputs, the loss of what it gives)"""
    import torch
    import torch.nn.functional as F

    sys.path.insert(0, HERE)
    from bench_models import Decoder, Separable

    torch.manual_seed(1)
    ids = torch.randint(512, (4, 129), device=device)

    def of_tokens(out):
        return F.cross_entropy(out.flatten(0, 1), ids[:, 1:].flatten())

    yield "decoder", Decoder(layers=6, width=256, heads=4, vocab=512, context=128).to(device), (ids[:, :-1],), of_tokens
    cnn = torch.nn.Sequential(torch.nn.Conv2d(3, 32, 3), *(Separable(32) for _ in range(6)), torch.nn.AdaptiveAvgPool2d(1),
                              torch.nn.Flatten(), torch.nn.Linear(32, 100)).to(device)
    yield "cnn", cnn, (torch.randn(8, 3, 30, 30, device=device),), lambda out: out.square().mean()
    try:
        import transformers
    except ImportError:
        return
    small = dict(vocab_size=512, hidden_size=256, intermediate_size=512, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=2)
    llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(**small)).to(device)
    yield "llama", llama, (ids[:, :-1],), lambda out: of_tokens(out.logits)
    llama = transformers.LlamaForCausalLM(transformers.LlamaConfig(**small)).to(device)
    llama.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    yield "llama, checkpointed", llama.train(), (ids[:, :-1],), lambda out: of_tokens(out.logits)


def open_driver():
    """On a real GPU PyTorch has done it."""
    if LOG:
        import ctypes

        driver, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p()
        assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0


# ---- lines ----

def made_at(node):
    """The lines that the call that made NODE is shown by, else its name."""
    text = "".join(node.metadata.get("traceback_", []))
    return column(re.findall(r'File "(.*)", line (\d+), in (.*)', text)[::-1]) or type(node).__name__


def lines(path):
    words = Words()
    torch = words.torch
    open_driver()

    def tell_all(root, case):
        seen, todo = set(), [root]
        while todo:
            node = todo.pop()
            if node is None or node in seen:
                continue
            seen.add(node)
            node.register_prehook(lambda grads, word=f"{case}\t{made_at(node)}": words.say(word))
            todo += [n for n, _ in node.next_functions]

    for case, model, inputs, loss_of in programs(words.device):
        for _ in range(STEPS):
            words.say("")
            with torch.autograd.set_detect_anomaly(True, check_nan=False):
                loss = loss_of(model(*inputs))
                tell_all(loss.grad_fn, case)
            loss.backward()
            words.say("")
    words.write(path)


# ---- layers ----

def layers(path):
    words = Words()
    torch = words.torch
    open_driver()
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.module_tracker import ModuleTracker

    tracker, case, root = ModuleTracker(), "", ""

    def innermost():
        names = sorted(tracker.parents - {"Global"}, key=len)
        lost = [name for name in names if "." not in name and name != root]  # found nowhere: called in the others
        names = [name for name in names if name not in lost]
        if len(lost) > 1 or not all(b.startswith(a + ".") for a, b in zip(names, names[1:])):
            return "?"
        return (lost or names[-1:] or [""])[0]

    class Telling(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            words.say("\t".join((case, "backward" if tracker.is_bw else "forward", innermost())))
            try:
                return func(*args, **(kwargs or {}))
            finally:
                words.say("")

    with tracker, Telling():
        for case, model, inputs, loss_of in programs(words.device):
            root = type(model).__name__
            for _ in range(STEPS):
                loss_of(model(*inputs)).backward()
    words.write(path)


# ---- the comparison ----

def compare(what, database, witness):
    theirs = [json.loads(line) for line in open(witness)]
    rows = sqlite3.connect(database).execute(
        "SELECT a.address, a.size_bytes, a.line, a.layer, s.node IS NOT NULL FROM allocation a LEFT JOIN stack s ON s.id = a.stack "
        "WHERE a.op = 'block_alloc' AND a.device = 0 ORDER BY a.alloc_seq").fetchall()
    same_place = sum(t[0] in (None, o[0]) for o, t in zip(rows, theirs))
    print(f"  blocks: {len(rows)} recorded, {len(theirs)} witnessed, {same_place} at the same address in the same place")
    good = len(rows) == len(theirs) == same_place and len(rows) > 1000
    return (compare_lines if what == "lines" else compare_layers)(rows, theirs) and good


def tell(found, differing, wanted):
    """(case, when, what) -> bytes"""
    good = True
    for case, when in sorted({key[:2] for key in found}):
        agree, other, out = (found[case, when, kind] for kind in ("same", "other", "left out"))
        share = agree / max(1, agree + other)
        good = good and share >= wanted[when]
        print(f"  {case:20} {when:9} {100 * share:7.3f} % of {(agree + other) / 2**20:8.2f} MiB agree, {out / 2**20:.2f} MiB left out")
    for (case, when, ours, theirs), size in differing.most_common(6):
        print(f"    {case}, {when}: {size / 2**20:.2f} MiB: ours {ours}, theirs {theirs}")
    return good and bool(found)


def compare_lines(rows, theirs):
    found, differing = collections.Counter(), collections.Counter()
    for (_, size, line, _, node), (_, _, python, word) in zip(rows, theirs):
        if not word:
            continue
        case, place = word.split("\t")
        if not node or python or (python is None and not (line or "").startswith("forward: ")):
            # code of Python's ran in the node: its own line counts (python_frames.py)
            found[case, "backward", "left out"] += size
            continue
        ours = re.sub(r"^forward: ", "", line or "")
        same = ours == place or ours.startswith(place + " ")
        found[case, "backward", "same" if same else "other"] += size
        if not same:
            differing[case, "backward", line, place] += size
    return tell(found, differing, {"backward": WANTED})


def compare_layers(rows, theirs):
    found, differing = collections.Counter(), collections.Counter()
    for (_, size, _, layer, _), (_, _, _, word) in zip(rows, theirs):
        if not word:
            continue
        case, when, name = word.split("\t")
        same = (layer or "") == name or re.sub(r"^.*\.\((\w+)\)", r"\1", layer or "") == name
        unclear = name == "?" or (when == "backward" and not name)
        found[case, when, "left out" if unclear else "same" if same else "other"] += size
        if not unclear and not same:
            differing[case, when, layer, name] += size
    return tell(found, differing, {"forward": WANTED, "backward": 0.9})


if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    sys.exit(not {"lines": lambda: lines(*rest) is None, "layers": lambda: layers(*rest) is None, "compare": lambda: compare(*rest)}[command]())
