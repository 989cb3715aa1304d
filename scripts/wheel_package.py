"""vramscope - markers, recordings and the fused loss; the package itself is in share/vramscope/python/vramscope.

That folder is what `vramscope run` puts on PYTHONPATH, also for processes of a job whose Python has no vramscope installed.
So that a program has the same modules under `run` and without it, this package, which pip installs, becomes that one.
"""

import importlib.util
import os
import sys

_folder = os.path.join(os.path.dirname(os.path.realpath(__file__)), "share/vramscope/python/vramscope")
_spec = importlib.util.spec_from_file_location(
    __name__, os.path.join(_folder, "__init__.py"), submodule_search_locations=[_folder]
)
sys.modules[__name__] = importlib.util.module_from_spec(_spec)  # the import returns what stands there at its end
_spec.loader.exec_module(sys.modules[__name__])
