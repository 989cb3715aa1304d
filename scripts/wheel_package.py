"""vramscope - markers, recordings and the fused loss.

This package, which pip installs, becomes the one in share/vramscope/python, which `vramscope run` puts on PYTHONPATH: so a program
has the same modules with and without it.
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
