"""sitecustomize - how `vramscope run` gets the automatic phases into a Python program.

Python imports a module of this name at start.  This one puts a hook in front of `import torch`, which goes away
when torch has come, and then runs the sitecustomize that it stands before, if there is one.  A program that
never imports torch gets nothing but that.
"""

import sys


class _AfterTorch:
    """A meta path finder that lets the others find torch, and gets a word in when it is there."""

    def find_spec(self, name, path=None, target=None):
        if name != "torch":
            return None
        try:
            sys.meta_path.remove(self)
        except ValueError:
            return None
        import importlib.util

        spec = importlib.util.find_spec(name)
        if spec is not None and hasattr(spec.loader, "exec_module"):
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader:
    """torch's own loader, with one line behind exec_module."""

    def __init__(self, loader):
        self._loader = loader

    def __getattr__(self, name):
        return getattr(self._loader, name)

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        try:
            import vramscope_torch

            vramscope_torch.install(module)
        except Exception as error:
            print(f"vramscope: no automatic phases: {type(error).__name__}: {error}", file=sys.stderr)


def _chain():
    """Runs the sitecustomize that this one shadows, under the name that it expects."""
    import os
    from importlib.machinery import PathFinder
    from importlib.util import module_from_spec

    here = os.path.dirname(os.path.realpath(__file__))
    path = [entry for entry in sys.path if os.path.realpath(entry or ".") != here]
    spec = PathFinder.find_spec("sitecustomize", path)
    if spec is None or spec.loader is None:
        return
    module = module_from_spec(spec)
    sys.modules["sitecustomize"] = module
    spec.loader.exec_module(module)


if "torch" not in sys.modules:
    sys.meta_path.insert(0, _AfterTorch())
_chain()
