"""torch_phases.py - programs whose phases are known, run under the automatic phases of vramscope_torch.

Started by torch_phases.sh twice, with and without them.  Each case is a plain PyTorch program on the CPU that
writes a line to the log where it knows a boundary ("." lines), and prints its results: the log is compared with
what stands in CASES, the results of both runs with each other, bit by bit.  Each runs in a fork of its own,
because importing torch takes longer than all of them.
"""

import importlib
import os
import sys
import threading

import torch
from torch import nn
from torch.nn import functional as F

VOCABULARY, WIDTH = 128, 16


def say(text):
    if "PHASE_LOG" in os.environ:
        with open(os.environ["PHASE_LOG"], "a") as log:
            log.write(text + "\n")


class Model(nn.Module):
    def __init__(self, checkpoint=False, fail=False):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.block = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.checkpoint, self.fail = checkpoint, fail

    def forward(self, x):
        h = self.embed(x)
        if self.checkpoint:
            h = torch.utils.checkpoint.checkpoint(self.block, h, use_reentrant=self.checkpoint == "reentrant")
        else:
            h = self.block(h)
        if self.fail:
            raise ValueError("inside forward")
        return self.lm_head(h)


def data():
    return torch.randint(0, VOCABULARY, (2, 9), generator=torch.Generator().manual_seed(3))


def loss_of(model, x, function=F.cross_entropy):
    return function(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten())


def train(model, steps=2, optimizer=torch.optim.AdamW, loss=loss_of, **options):
    x, opt = data(), optimizer(model.parameters(), lr=1e-2, **options)
    for _ in range(steps):
        value = loss(model, x)
        say(".loss")
        value.backward()
        say(".backward")
        opt.step()
        say(".optimizer")
        opt.zero_grad()
        print(value.item().hex())


def eager():
    train(Model())


def loss_module():
    ce = nn.CrossEntropyLoss()
    train(Model(), loss=lambda m, x: loss_of(m, x, ce))


def compiled():
    train(torch.compile(Model(), fullgraph=True, backend="aot_eager"))


def compiled_in_place():
    model = Model()
    model.compile(fullgraph=True, backend="aot_eager")
    train(model)


def compiled_with_hook():
    """A hook of the program's own on the outermost module is compiled, or not, as without us."""
    model = Model()
    model.register_forward_hook(lambda m, a, r: r * 0.5)
    train(torch.compile(model, fullgraph=True, backend="aot_eager"))


def compiled_function():
    model = Model()
    train(model, loss=torch.compile(loss_of, fullgraph=True, backend="aot_eager"))


def compiled_grad():
    """autograd.grad is wrapped: Dynamo takes it, or not, as without us."""
    model, x = nn.Linear(8, 8), torch.ones(2, 8, requires_grad=True)

    def gradient(x):
        return torch.autograd.grad(model(x).sum(), [x])[0] * 2

    print(gradient(x).sum().item().hex())
    print(torch.compile(gradient, backend="aot_eager")(x).sum().item().hex())


def graphs():
    """The graph that Dynamo takes is the same."""
    seen = []

    def backend(graph, inputs):
        seen.append(graph)
        return graph

    model = Model()
    loss_of(torch.compile(model, fullgraph=True, backend=backend), data()).backward()
    torch.compile(lambda x: loss_of(model, x), fullgraph=True, backend=backend)(data()).backward()
    for graph in seen:
        print([(n.op, n.name) for n in graph.graph.nodes])


def compiled_optimizer():
    model = Model()
    x, opt = data(), torch.optim.SGD(model.parameters(), lr=1e-2)
    step = torch.compile(opt.step, backend="aot_eager")
    for _ in range(2):
        loss = loss_of(model, x)
        loss.backward()
        step()
        opt.zero_grad()
        print(loss.item().hex())


def checkpointed():
    train(Model(checkpoint=True), steps=1)


def checkpointed_reentrant():
    model = Model(checkpoint="reentrant")
    model.embed.weight.requires_grad_(True)
    train(model, steps=1)


def exception():
    model = Model(fail=True)
    for _ in range(2):
        try:
            model(data())
        except ValueError as error:
            print(error)
        say(".caught")
    model.fail = False
    train(model, steps=1)


def exception_in_optimizer():
    model = Model()

    class Failing(torch.optim.SGD):
        def step(self, closure=None):
            raise ValueError("inside step")

    opt = Failing(model.parameters(), lr=1e-2)
    try:
        loss_of(model, data()).backward()
        opt.step()
    except ValueError as error:
        print(error)
    say(".caught")
    train(model, steps=1)


def evaluation():
    model = Model()
    with torch.no_grad():
        print(loss_of(model, data()).item().hex())
        say(".loss")
        print(loss_of(model, data()).item().hex())
        say(".loss")


def closure():
    model, x = Model(), data()
    opt = torch.optim.LBFGS(model.parameters(), max_iter=1)

    def evaluate():
        opt.zero_grad()
        loss = loss_of(model, x)
        loss.backward()
        return loss

    print(opt.step(evaluate).item().hex())
    say(".optimizer")


def accumulation():
    model, x = Model(), data()
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    for i in range(4):
        loss_of(model, x).backward()
        if i % 2:
            opt.step()
            opt.zero_grad()
            say(".optimizer")


def two_models():
    """No embedding: no head to be seen."""
    a, b = nn.Linear(8, 8), nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    loss = b(a(torch.ones(2, 8))).sum()
    say(".loss")
    grad, = torch.autograd.grad(loss, [a.weight])
    say(".grad")
    print(grad.sum().item().hex())


def threads():
    model, x = Model(), data()

    def work():
        with torch.no_grad():
            model(x)

    worker = threading.Thread(target=work)
    worker.start()
    worker.join()


def functional():
    model, x = nn.Linear(8, 8), torch.ones(2, 8)
    names = dict(model.named_parameters())
    grads = torch.func.grad(lambda p: torch.func.functional_call(model, p, (x,)).sum())(names)
    print(grads["weight"].sum().item().hex())
    mapped = torch.vmap(model)(x)
    print(mapped.sum().item().hex())


def traced():
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    x = torch.ones(2, 8)
    print(torch.jit.trace(model, x)(x).sum().item().hex())
    print(torch.jit.script(model)(x).sum().item().hex())
    print(torch.fx.symbolic_trace(model).code)
    print([n.op for n in torch.export.export(model, (x,)).graph.nodes])


FORWARD, LOGITS, BACKWARD, OPTIMIZER = "+auto forward", "+auto logits", "+auto backward", "+auto optimizer"
POP = "-auto"
ITERATION = [FORWARD, POP, LOGITS, ".loss", POP, BACKWARD, POP, ".backward", OPTIMIZER, POP, ".optimizer"]
COMPILED = [FORWARD, POP, ".loss", BACKWARD, POP, ".backward", OPTIMIZER, POP, ".optimizer"]
EVALUATION = [FORWARD, POP, LOGITS, POP]
CASES = {
    eager: ITERATION + ["step"] + ITERATION + ["step"],
    loss_module: ITERATION + ["step"] + ITERATION + ["step"],
    compiled: COMPILED + ["step"] + COMPILED + ["step"],
    compiled_in_place: COMPILED + ["step"] + COMPILED + ["step"],
    compiled_with_hook: COMPILED + ["step"] + COMPILED + ["step"],
    # no module is called: forward can't be told, and with it neither can the end of the first step
    compiled_function: 2 * COMPILED[2:] + ["step"],
    compiled_grad: None,
    graphs: None,
    # the compiled step is one graph: no hook runs
    compiled_optimizer: 2 * [FORWARD, POP, LOGITS, POP, BACKWARD, POP],
    checkpointed: ITERATION + ["step"],
    checkpointed_reentrant: ITERATION + ["step"],
    exception: 2 * [FORWARD, POP, ".caught"] + ITERATION + ["step"],
    exception_in_optimizer: ITERATION[:3] + ITERATION[4:7] + [OPTIMIZER, ".caught", POP] + ITERATION + ["step"],
    evaluation: EVALUATION + [".loss"] + EVALUATION + [".loss"],
    closure: [OPTIMIZER, FORWARD, POP, LOGITS, POP, BACKWARD, POP, POP, ".optimizer", "step"],
    accumulation: 2
    * ([FORWARD, POP, LOGITS, POP, BACKWARD, POP] * 2 + [OPTIMIZER, POP, ".optimizer", "step"]),
    two_models: [FORWARD, POP, FORWARD, POP, ".loss", BACKWARD, POP, ".grad"],
    threads: [line + " (thread)" for line in EVALUATION],
    functional: None,
    traced: None,
}

COMPILING = {compiled, compiled_in_place, compiled_with_hook, compiled_function, compiled_grad, graphs, compiled_optimizer, traced}


def run(case, directory):
    """Runs one case in a child, with its output, error output and log in files of its own."""
    os.environ["PHASE_LOG"] = os.path.join(directory, case.__name__ + ".log")
    for number, kind in ((1, ".out"), (2, ".err")):
        os.dup2(os.open(os.path.join(directory, case.__name__ + kind), os.O_CREAT | os.O_WRONLY), number)
    torch.manual_seed(1)
    case()
    sys.exit(0)  # as any program ends: atexit handlers run


def main(directory, which):
    cases = {case: lines for case, lines in CASES.items() if (case in COMPILING) == (which == "compiling")}
    if which == "compiling":
        importlib.import_module("torch._dynamo")  # once, here: it takes seconds
    torch.set_num_threads(1)
    for case, expected in cases.items():
        with open(os.path.join(directory, case.__name__ + ".expected"), "w") as file:
            file.write("any\n" if expected is None else "".join(line + "\n" for line in expected))
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            run(case, directory)
        with open(os.path.join(directory, case.__name__ + ".status"), "w") as file:
            file.write(str(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
