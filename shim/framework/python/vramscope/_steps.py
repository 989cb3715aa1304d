"""_steps - finds where one training step ends and the next begins.

A step ends when an optimizer steps for the second time: with one optimizer each iteration is a step, and a GAN's two
optimizers make one step together.  The end is recorded when the next forward begins, so that the work in between (setting
gradients to None, a scheduler) is still part of the step.  That forward comes before the optimizer's second step, so the
next optimizer is predicted: the one that followed the present one last time, and at first any that has not stepped yet.
If the prediction is wrong the step ends at the second step itself, or one step too many ends; the next one is right.

A gradient scaler that skips its optimizer's step has ended a step all the same.
"""

import functools
import weakref

_stepped = []  # ids of the optimizers that stepped since the last step ended
_following = {}  # id of an optimizer -> id of the one that stepped after it the last time
_fresh = {}  # id -> weak reference: made, has not stepped yet
_last = None  # id of the last that stepped
count = 0  # optimizers' steps so far


def _forget(table, key, _reference):
    table.pop(key, None)


def made(optimizer):
    _fresh[id(optimizer)] = weakref.ref(optimizer, functools.partial(_forget, _fresh, id(optimizer)))


def ends_at_forward():
    """Whether a step has ended when a forward begins."""
    return bool(_stepped) and _following.get(_last, next(iter(_fresh), _last)) in _stepped


def ends_at_optimizer(optimizer):
    """Whether one has, at the latest, when OPTIMIZER begins to step."""
    return id(optimizer) in _stepped


def stepped(optimizer):
    global _last, count
    key = id(optimizer)
    if _last is not None:
        _following[_last] = key
    _fresh.pop(key, None)
    _stepped.append(key)
    _last = key
    count += 1


def is_due():
    return bool(_stepped)


def forget():
    """A step was recorded, or this is a fork child, which ends no step of its parent's."""
    _stepped.clear()
