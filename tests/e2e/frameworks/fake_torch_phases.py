"""fake_torch_phases.py - the cases of fake_torch_phases.sh."""

import os
import sys
import sysconfig

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        self.embed = nn.Embedding(128, 16)
        self.lm_head = nn.Linear(16, 128)

    def forward(self, x):
        return self.lm_head(self.embed(x))


class Broken(Model):
    def parameters(self):
        raise RuntimeError("surprise")


class Loss(nn.Module):
    def forward(self, x):
        return x


def iteration(model, optimizer=None):
    Loss()(model(1))
    torch.autograd.backward(lambda: model.embed(2))  # recomputed inside backward
    if optimizer:
        optimizer.step()


def train():
    optimizer = torch.optim.Optimizer()
    for _ in range(2):
        iteration(Model(), optimizer)


def closure():
    model, optimizer = Model(), torch.optim.Optimizer()
    for _ in range(2):
        optimizer.step(lambda: iteration(model))


def not_a_closure():
    """An optimizer of the program's own takes its model first: it gets that model."""
    model = Model()

    class Own(torch.optim.Optimizer):
        def step(self, network):
            assert network is model

    Own().step(model)


class Backbone(nn.Module):
    def __init__(self):
        self.embed = nn.Embedding(128, 16)
        self.hidden = nn.Linear(16, 128)
        self.back = nn.Linear(128, 16)

    def forward(self, x):
        return self.back(self.hidden(self.embed(x)))


class Normed(nn.Module):
    def __init__(self):
        self.norm, self.decoder = nn.Linear(16, 16), nn.Linear(16, 136)

    def forward(self, x):
        return self.decoder(self.norm(x))


def head_beside():
    """The same phases wherever the output layer is called, also with a norm before it and a padded width."""
    backbone = Backbone()
    for head in nn.Linear(16, 128), nn.Linear(16, 136), Normed():
        head(backbone(1))
        torch.autograd.backward(lambda: None)


def tied_head():
    backbone = Backbone()
    head = nn.Linear(200, 128)
    head.weight = backbone.embed.weight
    tied = nn.Module()
    tied.backbone, tied.classifier = backbone, head
    tied.forward = lambda x: head(backbone(x))
    iteration(tied.backbone)  # not called: the layer is another model's
    tied(1)
    torch.autograd.backward(lambda: None)


def hidden_layers():
    """As wide as a padded vocabulary, but another layer takes it in, or narrower than what comes in."""
    iteration(Backbone())
    nn.Linear(4096, 128)(1)
    nn.Linear(16, 4096)(1)


def small_vocabulary():
    """Hidden layers as wide as the vocabulary, and an output layer without a telling name behind them."""

    class Small(nn.Module):
        def __init__(self):
            self.embed = nn.Embedding(27, 16)
            self.up, self.down, self.more, self.less = (nn.Linear(*w) for w in ((16, 27), (27, 16), (16, 27), (27, 16)))
            self.last = nn.Linear(16, 27)

        def forward(self, x):
            return self.last(self.less(self.more(self.down(self.up(self.embed(x))))))

    from vramscope import _heads as vramscope_heads

    model = Small()
    iteration(model)
    assert list(vramscope_heads.heads) == [id(model.last)]


def replaced_head():
    model = Model()
    iteration(model)
    model.lm_head = nn.Linear(16, 128)
    iteration(model)


def two_vocabularies():
    """A teacher with a larger vocabulary does not hide the student's output layer."""
    small, large = Model(), Model()
    large.embed, large.lm_head = nn.Embedding(1000, 16), nn.Linear(16, 1000)
    with torch.no_grad():
        large(1)
    iteration(small)


def not_called():
    """An output layer whose weight is used without a call, twice: that is told once."""

    class Fused(Model):
        def forward(self, x):
            return self.embed(x)

    for _ in range(2):
        iteration(Fused())


def generate():
    class Speaker(Model):
        @torch.no_grad()
        def generate(self, x):
            return self(self(x))

    class Generator(Model):
        def generate(self, x):
            return self(x)

    def not_yet(self):
        return later

    class Closes(Model):  # over what has no value while the class is made
        generate = not_yet

    later = 1
    speaker, optimizer = Speaker(), torch.optim.Optimizer()
    assert "Speaker.generate" in repr(Speaker.generate) and Speaker.generate.__name__ == "generate"
    speaker.generate(1)
    speaker(1)
    speaker.generate(1)
    torch.autograd.backward(lambda: None)
    optimizer.step()
    Generator().generate(1)


def unused_optimizer():
    """One step an iteration also beside an optimizer that never steps: only the first ends late."""
    optimizer, unused = torch.optim.Optimizer(), torch.optim.Optimizer()
    for _ in range(3):
        iteration(Model(), optimizer)


def no_module():
    """A call that fails in the program, or whose module can't be looked at, names no phase; the next one does."""
    for module in (3, Broken.__new__(Broken)):
        try:
            nn.Module.__call__(module, 1)
        except AttributeError:
            pass
    iteration(Model())


def broken():
    iteration(Model())
    torch.is_grad_enabled = Broken().parameters
    for _ in range(3):
        iteration(Model())


def direct():
    """Steps of a known model run no Python code of ours: forward, logits, backward, optimizer; what is rare does."""
    from vramscope import _calls, _torch as phases

    def count(work):
        nonlocal seen
        seen = []
        work()
        return seen

    def guarded(function, *args, real=phases._guarded):
        seen.append(function.__name__)
        return real(function, *args)

    Loss.__module__ = "torch.nn.modules.loss"
    loss = Loss()

    def step():
        loss(model(1))
        torch.autograd.backward(lambda: None)
        optimizer.step()

    def failing():
        try:
            model(None)
        except TypeError:
            pass

    model, optimizer, seen = Model(), torch.optim.Optimizer(), []
    model.embed.forward = lambda x: x + 0
    phases._guarded = guarded
    assert "_begin_outermost" in count(step), "the first call"
    for _ in range(5):  # an optimizer's first steps are followed by looks at roles
        step()
    phases._phase(phases.LOOK, 1 << 62)
    phases._phase(phases.ASK, 1)
    open(os.environ["PHASE_LOG"], "w").close()
    if not _calls.are_hooked():
        # 3.10: whose PyObject_Vectorcall is no function
        free_threaded = sysconfig.get_config_var("Py_GIL_DISABLED")
        assert free_threaded or sys.version_info[:2] not in _calls._WATCH_AT or sys.version_info[:2] == (3, 10)
        return
    by_bytecode = sys.version_info[:2] == (3, 11)  # it runs the code of a function that Python code calls without asking its pointer
    assert by_bytecode or count(step) == [], seen
    assert not {"_begin_outermost", "_begin_head", "_end_outermost"} & set(count(step)), seen
    assert count(failing) == [], seen
    codes = [f.__code__ for f in (phases._before_optimizer, torch.autograd.backward)]
    phases._before_optimizer.__code__ = codes[0].replace(co_name="other")
    torch.autograd.backward.__code__ = codes[1].replace(co_name="other")
    assert {"_begin_optimizer", "_begin_backward"} <= set(count(step)), "exchanged code runs"
    phases._before_optimizer.__code__, torch.autograd.backward.__code__ = codes
    assert phases._before_optimizer(optimizer, [optimizer], {}) is None, "a list has no tuple's size, and the library leaves no exception"
    phases._after_optimizer(optimizer, [optimizer], {})
    sys.setprofile(lambda *_: None)
    names = set(count(step))
    sys.setprofile(None)
    assert {"_begin_outermost", "_begin_head", "_begin_backward", "_begin_optimizer"} <= names, "a thread that is watched"
    if hasattr(sys, "monitoring"):
        sys.monitoring.use_tool_id(2, "test")
        assert "_begin_outermost" in count(step), "a tool that watches"
        sys.monitoring.free_tool_id(2)
    model.lm_head = nn.Linear(16, 128)
    assert "_begin_outermost" in count(step), "a replaced output layer"
    torch._guards._TLS.tracing_context = 1
    before = len(phases._threads.own.names)
    torch.autograd.backward(lambda: seen.append(len(phases._threads.own.names)))
    assert seen[-1] == before, "torch.compile is at work"
    torch._guards._TLS.tracing_context = None
    objects = (model, optimizer, torch.autograd.backward, phases._before_optimizer, True)
    step()
    counts = [sys.getrefcount(o) for o in objects]
    for _ in range(1000):
        failing(), step()
    more = [sys.getrefcount(o) - n for o, n in zip(objects, counts)]
    assert max(map(abs, more)) < 50, more
    phases._phase(phases.CLOSE, 0)
    open(os.environ["PHASE_LOG"], "w").close()


class Stop(Exception):
    pass


class Interrupt(KeyboardInterrupt):
    pass


def interrupted():
    """Whatever call or loop of ours a signal's handler ends, its exception arrives, and the next phases are right."""
    import vramscope
    from vramscope import _torch as phases

    ours, log, wrappers = os.path.dirname(vramscope.__file__), os.environ["PHASE_LOG"], {"forward", "generate"}

    class Speaker(Model):
        @torch.no_grad()
        def generate(self, x):
            return self(x)

    def go():
        speaker = Speaker()  # new, so that it is looked at
        Loss()(speaker(1))
        torch.autograd.backward(lambda: speaker.embed(2))
        speaker.generate(1)

    def handler(_signal, frame):
        raise kind

    def trace(frame, event, _):
        nonlocal left
        if not frame.f_code.co_filename.startswith(ours) or frame.f_code.co_name in ("raised", "_give_up", "__del__", "_forget", "_gone", "head_is_gone", "forget_model"):
            return None
        # Python runs handlers at calls and where loops go back, so not at each line
        if event == "call" or event == "line" and frame.f_code.co_name not in ("__call__", "backward", "generate", "_end_generate"):
            left -= 1
            if left == 0:
                sys.settrace(None)
                handler(2, frame)
        return trace

    go()
    t = phases._threads.own
    for kind in (Stop, Interrupt):
        at = 0
        while True:
            at += 1
            left, caught = at, False
            try:
                sys.settrace(trace)
                go()
            except kind:
                caught = True
            sys.settrace(None)
            if left > 0:
                break
            assert caught and not phases._off, (kind, at)
            assert not t.state[phases.IN_CALL] and not t.state[phases.IN_BACKWARD] and not any(t.cell), (kind, at, list(t.state), list(t.cell))
            assert len(t.names) == sum({"+": 1, "-": -1}.get(line[0], 0) for line in open(log)), (kind, at, t.names)
            Model()(1)
            assert t.names == [b"logits"], (kind, at, t.names)
            torch.autograd.backward(lambda: None)
            assert t.names == [], (kind, at, t.names)
            open(log, "w").close()
        assert at > 100, at
    open(log, "w").close()
    iteration(Model())


globals()[sys.argv[1]]()
