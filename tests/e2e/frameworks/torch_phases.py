"""torch_phases.py DIRECTORY eager|compiling - programs on the CPU whose phases are known, each in a fork, as importing torch takes longer than
all.

Each writes a line (".loss") to the log where it knows a boundary: the log must be what stands in CASES.  What it prints is the same without
phases.
"""

import atexit
import contextlib
import copy
import functools
import gc
import importlib
import inspect
import os
import pickle
import sys
import threading
import weakref

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


class Speaker(Model):
    @torch.no_grad()
    def generate(self, x: torch.Tensor, count: int = 2):
        for _ in range(count):
            x = torch.cat((x, self(x)[:, -1:].argmax(-1)), 1)
        return x

    def sample(self, x):
        return self(x).exp()


class Teller(Model):
    @torch.no_grad()
    def generate(self, x):
        yield self(x)


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


def compiled_generate():
    """A method `generate` is compiled as without us, also as a part of something else."""
    model, x = Speaker(), data()
    print(torch.compile(model.generate, fullgraph=True, backend="aot_eager")(x).tolist())
    print(torch.compile(lambda x: model.generate(x) + 1, fullgraph=True, backend="aot_eager")(x).tolist())


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


def without_gradients():
    model = Model()
    with torch.no_grad():
        print(loss_of(model, data()).item().hex())
        say(".loss")
        print(loss_of(model, data()).item().hex())
        say(".loss")


def evaluation():
    model = Model().eval()
    train(model, steps=1)  # with gradients it is training
    for context in torch.no_grad(), torch.inference_mode():
        with context:
            print(loss_of(model, data()).item().hex())
            say(".loss")


def generate():
    """`generate` without gradients, also in training mode; a GAN's with gradients is forward."""
    model, x = Speaker(), data()
    print(model.generate(x).tolist())
    print(loss_of(model, x).item().hex())
    print(model.sample(x).sum().item().hex())
    print(model.generate.__name__, inspect.signature(model.generate), inspect.ismethod(model.generate))
    print(inspect.isgeneratorfunction(Teller.generate))


def teacher():
    """Without gradients between a training forward and its backward: forward, and logits go on."""
    student, frozen, x = Model(), Model().eval(), data()
    logits = student(x)
    with torch.no_grad():
        target = frozen(x)
    loss = F.kl_div(logits.log_softmax(-1), target.softmax(-1))
    say(".loss")
    loss.backward()
    with torch.no_grad():
        frozen(x)
    print(loss.item().hex())


def closure():
    """LBFGS calls its closure three times: one step."""
    model, x = Model(), data()
    opt = torch.optim.LBFGS(model.parameters(), max_iter=3, tolerance_grad=0, tolerance_change=0)

    def evaluate():
        opt.zero_grad()
        loss = loss_of(model, x)
        loss.backward()
        say(".evaluated")
        return loss

    print(opt.step(evaluate).item().hex())
    say(".optimizer")


class Recorder:
    """A closure that is an object, as functools.partial is."""

    def __init__(self, model, opt):
        self.model, self.opt = model, opt

    def __call__(self):
        self.opt.zero_grad()
        loss = loss_of(self.model, data())
        loss.backward()
        return loss


def closure_by_name():
    """As Lightning does it: all of an iteration in the closure."""
    model = Model()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(2):
        print(opt.step(closure=functools.partial(Recorder(model, opt))).item().hex())
        say(".optimizer")


def exception_in_closure():
    model = Model(fail=True)
    opt = torch.optim.SGD(model.parameters(), lr=1e-2)
    try:
        opt.step(Recorder(model, opt))
    except ValueError as error:
        print(error)
    say(".caught")
    model.fail = False
    train(model, steps=1)


class Backbone(Model):
    def forward(self, x):
        return self.block(self.embed(x))


class Gated(Model):
    """A hidden layer as wide as the vocabulary, whose output is cut into pieces: no layer takes that width in."""

    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, x):
        return self.lm_head(self.enter(self.embed(x)).unflatten(-1, (-1, WIDTH)).sum(-2))


def gated():
    """A layer that says that it is the output layer is the only one."""
    train(Gated())


def head_beside():
    """The output layer is called beside the model: the phases are those of `eager`."""
    model = Backbone()
    train(model, loss=lambda m, x: F.cross_entropy(m.lm_head(m(x[:, :-1])).flatten(0, 1), x[:, 1:].flatten()))


def head_as_function():
    """No output layer is called: that is said, once."""
    model = Backbone()
    del model.lm_head
    train(model, loss=lambda m, x: F.cross_entropy(F.linear(m(x[:, :-1]), m.embed.weight).flatten(0, 1), x[:, 1:].flatten()))


def no_vocabulary():
    """A cross-entropy over other classes says nothing of an output layer."""
    model = Backbone()
    del model.lm_head
    train(model, steps=1, loss=lambda m, x: F.cross_entropy(m(x[:, :-1]).flatten(0, 1), torch.arange(16)))


def engine():
    """Backward by the engine itself, as Megatron's pipelines do it."""
    model = Model()
    loss = loss_of(model, data())
    run = torch.autograd.Variable._execution_engine.run_backward
    run((loss,), (torch.ones_like(loss),), False, False, (), allow_unreachable=True, accumulate_grad=True)
    print(model.embed.weight.grad.sum().item().hex())


def gan():
    one, two, x = Model(), Model(), data()
    opts = [torch.optim.SGD(m.parameters(), lr=1e-2) for m in (one, two)]
    for _ in range(2):
        for model, opt in zip((one, two), opts):
            loss_of(model, x).backward()
            opt.step()
            opt.zero_grad()
        say(".both")


def scaler():
    """Steps that the scaler skips are steps."""
    model, x = nn.Linear(8, 8), torch.ones(2, 8)
    opt, scale = torch.optim.SGD(model.parameters(), lr=1e-2), torch.amp.GradScaler("cpu")
    for i in range(3):
        scale.scale(model(x).sum() * (float("inf") if i < 2 else 1)).backward()
        print(scale.step(opt), scale.get_scale())
        scale.update()
        opt.zero_grad()


def copies():
    """Copied, pickled and hooked modules and optimizers are as they were, and nothing is kept alive."""
    model = Speaker()
    model.register_forward_hook(lambda m, a, r: r * 0.5)
    other = copy.deepcopy(model)
    opt = copy.deepcopy(torch.optim.AdamW(other.parameters(), lr=1e-2))
    opt.step(Recorder(other, opt))
    print(sorted(vars(model)) == sorted(vars(other)), sorted(vars(opt)))
    plain = pickle.loads(pickle.dumps(Model()))
    print(loss_of(plain, data()).shape, pickle.loads(pickle.dumps(Speaker().generate)).__name__)
    print(pickle.loads(pickle.dumps(Speaker.generate)) is Speaker.generate)
    # what cloudpickle would copy with a class of __main__ is of use without us
    shared = [c.cell_contents for c in Speaker.generate.__closure__ if type(c.cell_contents).__module__ == "vramscope._generate"]
    print(any(pickle.loads(pickle.dumps(s)).begin() for s in shared))
    alive = [weakref.ref(o) for o in (model, other, other.lm_head, opt, plain, plain.embed.weight)]
    del model, other, opt, plain
    gc.collect()
    print([reference() for reference in alive])


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
EVALUATION = "+auto evaluation"
NOT_CALLED = "moment output_layer_not_called 128"
POP = "-auto"
ITERATION = [FORWARD, POP, LOGITS, ".loss", POP, BACKWARD, POP, ".backward", OPTIMIZER, POP, ".optimizer"]
COMPILED = [FORWARD, POP, ".loss", BACKWARD, POP, ".backward", OPTIMIZER, POP, ".optimizer"]
FIRST_COMPILED = COMPILED[:3] + [NOT_CALLED] + COMPILED[3:]
FORWARD_LOGITS = [FORWARD, POP, LOGITS, POP]
CLOSURE = [FORWARD, POP, LOGITS, POP, BACKWARD, POP]
CASES = {
    eager: ITERATION + ["step"] + ITERATION + ["step"],
    loss_module: ITERATION + ["step"] + ITERATION + ["step"],
    compiled: FIRST_COMPILED + ["step"] + COMPILED + ["step"],
    compiled_in_place: FIRST_COMPILED + ["step"] + COMPILED + ["step"],
    compiled_with_hook: FIRST_COMPILED + ["step"] + COMPILED + ["step"],
    # no module is called: forward can't be told, and the first step ends when the optimizer steps again
    compiled_function: COMPILED[2:] + COMPILED[2:6] + ["step"] + COMPILED[6:] + ["step"],
    compiled_grad: None,
    compiled_generate: None,
    graphs: None,
    # the compiled step is one graph: no hook runs
    compiled_optimizer: 2 * [FORWARD, POP, LOGITS, POP, BACKWARD, POP],
    checkpointed: ITERATION + ["step"],
    checkpointed_reentrant: ITERATION + ["step"],
    exception: 2 * [FORWARD, POP, ".caught"] + ITERATION + ["step"],
    exception_in_optimizer: ITERATION[:3] + ITERATION[4:7] + [OPTIMIZER, ".caught", POP] + ITERATION + ["step"],
    without_gradients: FORWARD_LOGITS + [".loss"] + FORWARD_LOGITS + [".loss"],
    evaluation: ITERATION + ["step"] + 2 * [EVALUATION, POP, ".loss"],
    generate: [EVALUATION, POP, FORWARD, POP, LOGITS, POP, FORWARD, POP, LOGITS],
    teacher: [FORWARD, POP, LOGITS, POP] + FORWARD_LOGITS + [LOGITS, ".loss", POP, BACKWARD, POP, EVALUATION, POP],
    closure: 3 * ([OPTIMIZER, POP] + CLOSURE + [".evaluated"]) + [OPTIMIZER, POP, ".optimizer", "step"],
    closure_by_name: (2 * (["step", OPTIMIZER, POP] + CLOSURE + [OPTIMIZER, POP, ".optimizer"]) + ["step"])[1:],
    exception_in_closure: [OPTIMIZER, POP, FORWARD, POP, ".caught"] + ITERATION + ["step"],
    gated: ITERATION + ["step"] + ITERATION + ["step"],
    head_beside: ITERATION + ["step"] + ITERATION + ["step"],
    head_as_function: FIRST_COMPILED + ["step"] + COMPILED + ["step"],
    no_vocabulary: COMPILED + ["step"],
    engine: CLOSURE,
    gan: 2 * (2 * (CLOSURE + [OPTIMIZER, POP]) + [".both", "step"]),
    scaler: 2 * [FORWARD, POP, BACKWARD, POP, "step"] + [FORWARD, POP, BACKWARD, POP, OPTIMIZER, POP, "step"],
    copies: None,
    accumulation: 2
    * ([FORWARD, POP, LOGITS, POP, BACKWARD, POP] * 2 + [OPTIMIZER, POP, ".optimizer", "step"]),
    two_models: [FORWARD, POP, FORWARD, POP, ".loss", BACKWARD, POP, ".grad"],
    threads: [line + " (thread)" for line in FORWARD_LOGITS],
    functional: None,
    traced: None,
}

COMPILING = {compiled, compiled_in_place, compiled_with_hook, compiled_function, compiled_grad, compiled_generate, graphs, compiled_optimizer, traced}


def run(case, directory, whole):
    """Runs one case in a child, with its output, error output and log in files of its own."""
    os.environ["PHASE_LOG"] = os.path.join(directory, case.__name__ + ".log")
    for number, kind in ((1, ".out"), (2, ".err")):
        os.dup2(os.open(os.path.join(directory, case.__name__ + kind), os.O_CREAT | os.O_WRONLY), number)
    torch.manual_seed(1)
    case()
    with open(os.path.join(directory, "modules"), "w") as file:
        file.write("\n".join(sys.modules))
    sys.stdout.flush()
    sys.stderr.flush()
    if whole:
        sys.exit(0)  # as any program ends
    atexit._run_exitfuncs()  # what the interpreter takes down after these is the same in each
    os._exit(0)


def import_as(listed):
    """Imports what a child had at its end, in its order.  Some names are of no file."""
    with open(listed) as file:
        names = [name for name in file.read().split("\n") if name.startswith("torch.") and name not in sys.modules]
    for name in names:
        with contextlib.suppress(Exception):
            importlib.import_module(name)


def main(directory, which):
    cases = {case: lines for case, lines in CASES.items() if (case in COMPILING) == (which == "compiling") or case is compiled}
    torch.set_num_threads(1)
    for number, (case, expected) in enumerate(cases.items()):
        if number == 1:  # the first as a program does it, in its first step; here once, as it takes seconds
            import_as(os.path.join(directory, "modules"))
            gc.freeze()  # the end of each child does not look through all of it
        with open(os.path.join(directory, case.__name__ + ".expected"), "w") as file:
            file.write("any\n" if expected is None else "".join(line + "\n" for line in expected))
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            run(case, directory, number == 0)
        with open(os.path.join(directory, case.__name__ + ".status"), "w") as file:
            file.write(str(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main(*sys.argv[1:])
