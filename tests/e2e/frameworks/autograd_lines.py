"""autograd_lines.py - forwards and backwards of every kind; prints which lines blocks of a size have in backward: `SIZE<tab>LINE`.

A line is said as the views say it, and is found by its comment # @MARK.
"""
import ctypes
import os
import sys
import threading
import time

import torch
from torch.utils.checkpoint import checkpoint

here = __file__
lines = open(here).read().splitlines()
_next = [1024]
expected = []


def at(mark, function):
    return f"{here}:{next(i for i, text in enumerate(lines, 1) if text.endswith('# @' + mark))} {function}"


def size(*of):
    """A number of floats that no other case has."""
    _next[0] += 128  # a block is a multiple of 512 bytes
    expected.append((_next[0] * 4, of))
    return _next[0]


def leaf(n):
    return torch.ones(n, device="cuda", requires_grad=True)


def run(loss, **how):
    loss.sum().backward(**how)


def simple():
    x = leaf(size("forward: " + at("simple", "simple")))
    run(torch.sin(x))  # @simple


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2  # @custom


def custom():
    run(Double.apply(leaf(size(at("custom", "Double.backward")))))


def hook():
    def double(grad):
        return grad * 2  # @hook

    x = leaf(size(at("hook", "hook.<locals>.double"), "forward: " + at("hooked", "hook")))
    y = torch.sin(x)  # @hooked
    y.register_hook(double)
    run(y)


def body(x):
    return torch.sin(x).exp()  # @body


def reentrant():
    run(checkpoint(body, leaf(size(at("body", "body"), "forward: " + at("body", "body"))), use_reentrant=True))


def not_reentrant():
    run(checkpoint(body, leaf(size(at("body", "body"), "forward: " + at("body", "body"))), use_reentrant=False))


def on_this_thread():
    with torch.autograd.set_multithreading_enabled(False):
        x = leaf(size("forward: " + at("alone", "on_this_thread")))
        run(torch.cos(x))  # @alone


def twice():
    y = torch.sin(leaf(size("forward: " + at("twice", "twice"))))  # @twice
    run(y, retain_graph=True)
    run(y)


def backward_of_backward():
    x = leaf(size("forward: " + at("first", "backward_of_backward"), "forward: " + at("second", "backward_of_backward")))
    y = torch.sin(x)  # @first
    (g,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    torch.autograd.grad((g * g).sum(), x)  # @second


def accumulated():
    x = leaf(size("AccumulateGrad", "forward: " + at("accumulated", "accumulated")))
    x.grad = torch.zeros_like(x)
    run(torch.sin(x), create_graph=True)  # @accumulated
    x.grad = None


def before_the_recording():
    shim = ctypes.CDLL(None)
    n = size("SinBackward0")
    shim.vramscope_record_stop()
    y = torch.sin(leaf(n))
    shim.vramscope_record_start()
    run(y)


def one_thread(n):
    return torch.sin(leaf(n))  # @thread


def other_thread(n):
    return torch.cos(leaf(n))  # @other


def threads():
    """Graphs of threads that number their nodes alike; one of them runs on another thread than it was made on."""
    made, ready = {}, threading.Barrier(2)

    def work(name, forward, n):
        for _ in range(3):
            made[name] = forward(n)
            ready.wait()
        run(made[name], retain_graph=True)

    sizes = {"one": size("forward: " + at("thread", "one_thread")), "other": size("forward: " + at("other", "other_thread"))}
    all_ = [threading.Thread(target=work, args=(name, {"one": one_thread, "other": other_thread}[name], sizes[name])) for name in sizes]
    for t in all_:
        t.start()
    for t in all_:
        t.join()
    for y in made.values():
        torch.autograd.grad(y.sum(), y.grad_fn.next_functions[0][0].variable)


def called_directly():
    x = leaf(size("forward: " + at("directly", "called_directly")))
    y = torch.sin(x).sum()  # @directly
    torch.autograd.Variable._execution_engine.run_backward((y,), (torch.ones_like(y),), False, False, (), True, True)


class Nested(torch.autograd.Function):
    """Its backward runs a graph of its own."""

    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        with torch.enable_grad():
            x = grad.detach().requires_grad_()
            y = torch.sin(x)  # @inner
            return torch.autograd.grad(y.sum(), x)[0]


def nested():
    run(Nested.apply(leaf(size(at("inner", "Nested.backward"), "forward: " + at("inner", "Nested.backward")))))


def compiled():
    def model(x):  # @graph
        return torch.sin(x).exp()

    fast = torch.compile(model, backend="aot_eager")
    n = size("forward: " + at("graph", "compiled.<locals>.model"))
    for _ in range(2):
        run(fast(leaf(n)))


def overwritten():
    """More nodes than are remembered: the first one's line is gone, and is counted."""
    n = size("SinBackward0")
    y = torch.sin(leaf(n))
    x = torch.ones(1, requires_grad=True)
    for _ in range(1 << 17):
        x.view(1)
    run(y)


cases = [simple, custom, hook, reentrant, not_reentrant, on_this_thread, twice, backward_of_backward, accumulated,
         threads, called_directly, nested]
extra = {"compiled": compiled, "overwritten": overwritten, "window": before_the_recording}
for case in [extra[name] for name in sys.argv[1:]] or cases:
    case()
for n, of in expected:
    for line in of:
        print(f"{n}\t{line}")


def is_engine_busy():
    for task in os.listdir("/proc/self/task"):
        try:
            with open(f"/proc/self/task/{task}/stat") as file:
                name, _, rest = file.read().rpartition(") ")
        except OSError:
            continue  # it has ended
        if "(pt_autograd" in name and rest[0] != "S":
            return True
    return False


calm = 0
while calm < 20:  # the engine's threads let go of the last graph behind its end, and PyTorch 2.15 aborts a process that is gone by then
    time.sleep(0.01)
    calm = 0 if is_engine_busy() else calm + 1
