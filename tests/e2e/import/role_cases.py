"""role_cases.py make|check DIR - snapshots of made-up programs, and their imports (CASE.db) against the role that each block must have.

Each rule has a program in which it decides, and near ones in which nothing may be said.
"""
import os
import pickle
import sqlite3
import sys

TORCH = "/env/site-packages/torch"
MAIN = [("train", "/app/train.py", 9), ("<module>", "/app/train.py", 30)]
MODULE = [("forward", "/app/model.py", 5), ("_call_impl", f"{TORCH}/nn/modules/module.py", 1700), *MAIN]
HEAD = [("forward", "/app/model.py", 8), ("_call_impl", f"{TORCH}/nn/modules/module.py", 1700), *MAIN]
BACKWARD = []  # autograd's own thread runs no Python
ROOT = [("backward", f"{TORCH}/_tensor.py", 600), *MAIN]
LOSS = [("cross_entropy", "/app/train.py", 12), *MAIN]
INIT = [("_init_group", f"{TORCH}/optim/adam.py", 160), ("step", f"{TORCH}/optim/adam.py", 220), *MAIN]
STEP = [("_multi_tensor_adam", f"{TORCH}/optim/adam.py", 600), ("step", f"{TORCH}/optim/adam.py", 220), *MAIN]
AVERAGE = [("update", f"{TORCH}/optim/swa_utils.py", 60), *MAIN]
CLOSURE = [("forward", "/app/model.py", 5), ("_call_impl", f"{TORCH}/nn/modules/module.py", 1700), ("closure", "/app/train.py", 3), ("step", f"{TORCH}/optim/lbfgs.py", 300), *MAIN]
ZERO = [("zero_grad", f"{TORCH}/optim/optimizer.py", 1000), *MAIN]
BELOW_ZERO = [("__del__", "/app/train.py", 2), ("zero_grad", f"{TORCH}/optim/optimizer.py", 1000), *MAIN]
PARAMETERS = [("convert", f"{TORCH}/nn/modules/module.py", 1370), ("_apply", f"{TORCH}/nn/modules/module.py", 965), *MAIN]
BUFFERS = [("convert", f"{TORCH}/nn/modules/module.py", 1370), ("_apply", f"{TORCH}/nn/modules/module.py", 1035), *MAIN]
LINEAR = [("__init__", f"{TORCH}/nn/modules/linear.py", 106), *MAIN]
CUBLAS = [("at::cuda::getCurrentCUDABlasHandle()", "CublasHandlePool.cpp", 0), ("torch::autograd::Engine::thread_main()", "engine.cpp", 0)]
WEIGHTS = (4000, 70000)  # of two parameters


class Program:
    def __init__(self, name):
        self.name, self.trace, self.blocks, self.next, self.time, self.expected, self.told = name, [], {}, 0x7F0000000000, 1_700_000_000_000_000, {}, True
        self.lists = {}

    def frames(self, stack):
        return self.lists.setdefault(tuple(stack), [{"name": n, "filename": f, "line": line} for n, f, line in stack])

    def note(self, action, address, size, stack):
        self.time += 5
        self.trace.append({"action": action, "addr": address, "size": size, "stream": 0, "time_us": self.time, "frames": self.frames(stack)})

    def take(self, size, stack, expected):
        """A block; EXPECTED: its role, or None: unknown."""
        address, self.next = self.next, self.next + (size + 1023) // 512 * 512
        self.blocks[address] = (size, stack)
        self.expected[address] = expected
        self.note("alloc", address, size, stack)
        return address

    def free(self, address, stack):
        size, born = self.blocks.pop(address)
        for action in ("free_requested", "free_completed"):
            self.note(action, address, size, stack if self.told else born)

    def through(self, size, stack, expected):
        self.free(self.take(size, stack, expected), stack)

    def forget(self):
        """The trace begins here, and what is there has no frames."""
        self.trace, self.blocks = [], {a: (size, ()) for a, (size, _) in self.blocks.items()}
        self.expected = {a: None for a in self.blocks}

    def write(self, folder):
        size = self.next - 0x7F0000000000 + (2 << 20)
        blocks, at = [], 0x7F0000000000
        for address, (requested, stack) in sorted(self.blocks.items()):
            block = (requested + 511) // 512 * 512
            if address > at:
                blocks.append({"address": at, "size": address - at, "requested_size": 0, "state": "inactive", "frames": []})
            blocks.append({"address": address, "size": block, "requested_size": requested, "state": "active_allocated", "frames": self.frames(stack)})
            at = address + block
        blocks.append({"address": at, "size": 0x7F0000000000 + size - at, "requested_size": 0, "state": "inactive", "frames": []})
        segment = {"device": 0, "address": 0x7F0000000000, "total_size": size, "stream": 0, "segment_type": "large", "is_expandable": False, "segment_pool_id": (0, 0),
                   "blocks": blocks, "frames": []}
        with open(f"{folder}/{self.name}.pickle", "wb") as f:
            pickle.dump({"segments": [segment], "device_traces": [self.trace], "allocator_settings": {}, "external_annotations": []}, f)


def steps(p, n, weights=WEIGHTS, states="made", zero=ZERO, keep=False, grads="gradient", activation="activation", temporary="temporary"):
    """N training steps on parameters of WEIGHTS bytes, which are made before.  KEEP: gradients stay."""
    kept = []
    for i in range(n):
        saved = [p.take(9000 + 512 * k, MODULE, activation) for k in range(2)]
        p.through(1500, MODULE, temporary)
        logits = p.take(12000, HEAD, activation)
        loss = p.take(8, LOSS, None)
        p.through(4, ROOT, temporary)
        p.through(2500, BACKWARD, temporary)
        gradients = kept or [p.take(w, BACKWARD, grads) for w in weights]
        kept = gradients if keep else []
        for block in [logits, *saved]:
            p.free(block, BACKWARD)
        p.through(600, BACKWARD, temporary)  # shows that backward goes on
        if states and (i == 0 or states == "anew"):
            stack = INIT if states == "made" else STEP
            fresh = [p.take(w, stack, "optimizer state") for w in weights for _ in range(2)]
            if states == "anew" and i:
                for block in p.old:
                    p.free(block, STEP)
            p.old = fresh
        if states is not False:
            p.through(3000, STEP, temporary)
        if not keep:
            for block in gradients:
                p.free(block, zero)
        p.free(loss, MAIN)
    return p


def model(p, role="parameter", stack=MAIN, weights=WEIGHTS):
    return [p.take(w, stack, role) for w in weights]


def training():
    p = Program("training")
    model(p)
    p.take(555, MAIN, None)  # whatever the program keeps
    return steps(p, 3)


def one_step():
    p = Program("one_step")
    model(p)
    return steps(p, 1)


def by_hand():  # gradients are dropped by the program itself: their lives alone speak
    p = Program("by_hand")
    model(p)
    steps(p, 2, states="kept", zero=MAIN)
    p.through(2500, MODULE, "temporary")
    return p


def untold():  # frees have no stacks of their own
    p = Program("untold")
    p.told = False
    model(p)
    steps(p, 2)
    for event in p.trace:  # freed behind the last allocation of backward: whether it still ran is not known
        if event["size"] == 600:
            p.expected[event["addr"]] = None
    return p


def garbage():  # what a finalizer frees below zero_grad need not be a gradient
    p = Program("garbage")
    model(p)
    steps(p, 1)
    block = p.take(333, BACKWARD, None)
    p.free(block, BELOW_ZERO)
    other = p.take(444, MODULE, None)
    p.free(other, ZERO)
    return p


def stay():  # gradients that stay, and a workspace that backward's thread made beside them, of no parameter's size
    p = Program("stay")
    model(p)
    saved = p.take(800, MODULE, "activation")
    p.free(saved, BACKWARD)
    p.through(4, ROOT, "temporary")
    p.take(8519680, BACKWARD, None)
    return steps(p, 3, keep=True)


def stay_alike():  # the workspace is as large as a parameter: nothing of that size is told
    p = Program("stay_alike")
    p.take(4000, MAIN, None)
    p.take(70000, MAIN, "parameter")
    model(p, weights=(90000, 110000))
    p.through(800, MODULE, "temporary")
    p.through(4, ROOT, "temporary")
    p.take(4000, BACKWARD, None)
    steps(p, 3, weights=(4000, 70000, 90000, 110000), keep=True)
    for a, role in list(p.expected.items()):
        if role == "gradient" and p.blocks.get(a, (0,))[0] == 4000:
            p.expected[a] = None
    return p


def workspace_alone():  # gradients are freed; what stays of backward has a size of which there are states: a workspace all the same
    p = Program("workspace_alone")
    model(p)
    p.through(800, MODULE, "temporary")
    p.take(4000, BACKWARD, None)
    return steps(p, 3)


def workspace_named():
    p = Program("workspace_named")
    model(p)
    p.take(4000, CUBLAS, "workspace")
    return steps(p, 2)


def anew():  # an optimizer that makes its states anew in each step
    p = Program("anew")
    model(p)
    return steps(p, 3, states="anew")


def parameters_anew():  # one that puts new tensors in the place of parameters: of equal sizes, and nobody can tell
    p = Program("parameters_anew")
    old = model(p, role=None)
    for i in range(3):
        saved = p.take(9000, MODULE, "activation")
        p.through(4, ROOT, "temporary")
        gradients = [p.take(w, BACKWARD, "gradient") for w in WEIGHTS]
        p.free(saved, BACKWARD)
        fresh = [p.take(w, STEP, None) for w in WEIGHTS]
        for block in old:
            p.free(block, STEP)
        old = fresh
        p.through(3000, STEP, "temporary")
        for block in gradients:
            p.free(block, ZERO)
    return p


def average():  # averages of weights are no states
    p = Program("average")
    model(p)
    steps(p, 1)
    for w in (4000, 70000):
        p.take(w + 8, AVERAGE, None)
    return steps(p, 1, states=None)


def closure():  # forward inside of an optimizer's step
    p = Program("closure")
    p.free(p.take(8, LOSS, None), MAIN)
    for _ in range(2):
        saved = p.take(800, MODULE, "activation")
        p.through(4, ROOT, "temporary")
        p.free(saved, BACKWARD)
        p.take(1234, CLOSURE, None)
        p.through(2345, CLOSURE, None)
        p.through(3456, STEP, "temporary")
        p.through(100, BACKWARD, "temporary")
    return p


def moved():  # a frozen layer has no gradient, and the line that moved it says what it is; buffers have another one
    p = Program("moved")
    model(p, stack=PARAMETERS)
    p.take(31000, PARAMETERS, "parameter")
    p.take(256, BUFFERS, "buffer")
    p.through(5000, PARAMETERS, None)  # moved, and dropped again
    return steps(p, 2)


def moved_once():  # one line, of which nothing shows that it is that of parameters
    p = Program("moved_once")
    p.take(31000, BUFFERS, None)
    model(p)
    return steps(p, 2)


def moved_against():  # the line that comes first is not that of what is counted
    p = Program("moved_against")
    model(p, stack=BUFFERS)
    p.take(31000, PARAMETERS, None)
    p.take(256, BUFFERS, None)
    return steps(p, 2)


def built():
    p = Program("built")
    model(p, stack=LINEAR)
    p.take(31000, LINEAR, "parameter")
    p.take(31000, [("__init__", f"{TORCH}/nn/modules/batchnorm.py", 70), *MAIN], None)
    return steps(p, 2)


def late():  # the trace begins after the first step, in which the states were made
    p = Program("late")
    model(p)
    steps(p, 1)
    p.forget()
    return steps(p, 2, states=None)


def late_plain():  # likewise of an optimizer without states: as many stay as there are gradients
    p = Program("late_plain")
    blocks = model(p)
    steps(p, 1, states=None)
    p.forget()
    p.expected.update(dict.fromkeys(blocks, "parameter"))
    return steps(p, 2, states=None)


def late_in_step():  # the trace begins inside of an optimizer's step: what that frees was its own
    p = Program("late_in_step")
    blocks = model(p)
    loose = p.take(4000, STEP, None)
    p.forget()
    p.free(loose, STEP)
    steps(p, 2)
    p.expected.update(dict.fromkeys(blocks, "parameter"))
    return p


def late_anew():  # states from before the trace, which its first step replaces
    p = Program("late_anew")
    blocks = model(p)
    steps(p, 2, states="anew")
    old = p.old
    p.forget()
    p.expected.update(dict.fromkeys(blocks, "parameter") | dict.fromkeys(old, "optimizer state"))
    saved = p.take(9000, MODULE, "activation")
    p.through(4, ROOT, "temporary")
    gradients = [p.take(w, BACKWARD, "gradient") for w in WEIGHTS]
    p.free(saved, BACKWARD)
    for w in WEIGHTS:
        for _ in range(2):
            p.take(w, STEP, "optimizer state")
    for block in old:
        p.free(block, STEP)
    for block in gradients:
        p.free(block, ZERO)
    return p


def cut_off():  # memory runs out in the third forward: activations are what they were before, and what was never seen to end is unknown
    p = Program("cut_off")
    model(p)
    steps(p, 2)
    p.take(9000, MODULE, "activation")
    p.take(9001, MODULE, None)
    return p


def cut_off_later():  # in the third backward
    p = Program("cut_off_later")
    model(p)
    steps(p, 2)
    p.take(9000, MODULE, "activation")
    p.take(1500, MODULE, None)  # what was a temporary is still there in the next phase
    p.through(4, ROOT, "temporary")
    p.take(4000, BACKWARD, "gradient")
    p.take(2500, BACKWARD, "temporary")
    p.take(2501, BACKWARD, None)
    return p


def leaked():  # a temporary that one step did not free
    p = Program("leaked")
    model(p)
    steps(p, 1)
    p.take(1500, MODULE, None)
    return steps(p, 1, states=None)


def inference():  # nobody trains: a cache that grows looks like temporaries
    p = Program("inference")
    model(p, role=None)
    for _ in range(4):
        p.through(7000, MODULE, None)
    return p


def no_optimizer():  # forward and backward alone, gradients stay
    p = Program("no_optimizer")
    model(p)
    return steps(p, 2, states=False, keep=True)


def held():  # what the program still holds after backward is no activation
    p = Program("held")
    model(p)
    block = p.take(4321, HEAD, None)
    steps(p, 1)
    p.free(block, MAIN)
    return p


CASES = [f for f in (training, one_step, by_hand, untold, garbage, stay, stay_alike, workspace_alone, workspace_named, anew, parameters_anew, average, closure, moved,
                     moved_once, moved_against, built, late, late_plain, late_in_step, late_anew, cut_off, cut_off_later, leaked, inference, no_optimizer, held)]


def check(folder):
    failures, rules = 0, set()
    for case in CASES:
        p = case()
        db = sqlite3.connect(f"{folder}/{p.name}.db")
        found = {a: (role, rule) for a, role, rule in db.execute("SELECT CASE WHEN e.address < 0 THEN -e.address ELSE e.address * 512 END, l.role, l.rule "
                                                                "FROM life_role l JOIN ev e ON e.seq = l.alloc_seq")}
        for address, expected in p.expected.items():
            role, rule = found.get(address, (None, None))
            rules.add(rule)
            if (None if role == "not told" else role) != expected:
                failures += 1
                size = next(e["size"] for e in p.trace if e["addr"] == address) if any(e["addr"] == address for e in p.trace) else p.blocks[address][0]
                print(f"FAILED: {p.name}: {size} bytes are {role} ({rule}), not {expected}")
    texts = [row[0] for row in db.execute("SELECT sql FROM sqlite_master WHERE name = 'life_role'")][0].replace("''", "'").split("by stack and life: ")[1:]
    for text in texts:
        if not any(rule and text.startswith(rule[len("by stack and life: "):] + "'") for rule in rules):
            print(f"FAILED: no program meets the rule: {text.splitlines()[0]}")
            failures += 1
    return failures


if __name__ == "__main__":
    if sys.argv[1] == "make":
        for make in CASES:
            make().write(sys.argv[2])
        print(*[case().name for case in CASES])
    else:
        sys.exit(check(sys.argv[2]) > 0)
