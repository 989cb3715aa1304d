from . import graph
from .graph import _engine_run_backward


def backward(function):
    return _engine_run_backward(function)


def grad(function):
    return _engine_run_backward(function)
