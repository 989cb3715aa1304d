from .optimizer import Optimizer

del optimizer  # noqa: F821  as the real one does
