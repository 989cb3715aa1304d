#!/usr/bin/env python3
"""wheel.py TREE DIR - packs an installed tree as a wheel into DIR, and prints its path.

    TREE/bin/vramscope           NAME.data/scripts/vramscope      the command, an executable and no Python script
    TREE/lib, include            vramscope/lib, include           the package is the tree that the command looks for
    TREE/share/vramscope         vramscope/share/vramscope        (analyzer/run/place.c)
    TREE/share/man and the like  NAME.data/data/share             the environment's own
    scripts/wheel_package.py     vramscope/__init__.py

The platform's tag names the newest glibc that any binary asks for.  Files have the date 1980, or that of SOURCE_DATE_EPOCH: the same tree
gives the same wheel.
"""

import base64
import hashlib
import os
import re
import subprocess
import sys
import time
import zipfile

NOT_PACKED = re.compile(r"bin/(?!vramscope$)|share/vramscope/LICENSE$|.*__pycache__/")
SUMMARY = "What made the GPU memory peak, and what would lower it"
METADATA = """Metadata-Version: 2.1
Name: vramscope
Version: {version}
Summary: {summary}
License: Apache-2.0
License-File: LICENSE
Requires-Python: >=3.8
Classifier: Environment :: GPU :: NVIDIA CUDA
Classifier: License :: OSI Approved :: Apache Software License
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
Classifier: Programming Language :: Python :: 3
Provides-Extra: pandas
Requires-Dist: pandas; extra == "pandas"
Description-Content-Type: text/markdown

vramscope records the GPU memory allocations of an unmodified training process, each tagged with the training phase, the line of
code and the layer that it belongs to, and says what made the peak and what would lower it.

    vramscope run -o run.db -- python train.py
    vramscope report run.db

`vramscope doctor` says what works on a machine, `man vramscope` what the commands do. From Python, `import vramscope` has markers
for phases of your own, and `vramscope.linear_cross_entropy` is a loss that never holds all the logits (it needs PyTorch).
"""
WHEEL = """Wheel-Version: 1.0
Generator: vramscope wheel.py
Root-Is-Purelib: false
Tag: {tag}
"""


def is_elf(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def glibc_of(path):
    """The newest GLIBC_2.N that PATH needs: N, 0 for none."""
    words = subprocess.run(["readelf", "-VW", path], check=True, capture_output=True, text=True).stdout
    return max((int(n) for n in re.findall(r"\bGLIBC_2\.(\d+)", words)), default=0)


def files_of(tree):
    for folder, _, names in sorted(os.walk(tree)):
        for name in sorted(names):
            path = os.path.join(folder, name)
            relative = os.path.relpath(path, tree)
            if not NOT_PACKED.match(relative):
                yield path, relative


def place_of(relative, data):
    """Where the tree's file RELATIVE lies in the wheel."""
    if relative.startswith("bin/"):
        return f"{data}/scripts/{relative[4:]}"
    if relative.startswith("share/") and not relative.startswith("share/vramscope/"):
        return f"{data}/data/{relative}"
    return f"vramscope/{relative}"


class Archive:
    """The wheel: a zip file that lists what is in it."""

    def __init__(self, path, record):
        self.zip, self.record, self.lines = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9), record, []
        self.date = time.gmtime(max(int(os.environ.get("SOURCE_DATE_EPOCH", 0)), 315532800))[:6]

    def add(self, name, content, mode=0o644):
        info = zipfile.ZipInfo(name, self.date)
        info.external_attr = (0o100000 | mode) << 16
        info.compress_type = zipfile.ZIP_DEFLATED
        self.zip.writestr(info, content)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self.lines.append(f"{name},sha256={digest},{len(content)}\n")

    def close(self):
        listing = "".join([*self.lines, f"{self.record},,\n"]).encode()
        self.add(self.record, listing)
        self.zip.close()


def read(path):
    with open(path, "rb") as file:
        return file.read()


def entry_points(tree):
    """pytest finds its plugin by the wheel's word for it, where there is one in the package."""
    plugin = os.path.join(tree, "share/vramscope/python/vramscope/pytest_plugin.py")
    return b"[pytest11]\nvramscope = vramscope.pytest_plugin\n" if os.path.exists(plugin) else b""


def main(tree, directory):
    here = os.path.dirname(os.path.abspath(__file__))
    version = read(os.path.join(tree, "share/vramscope/version")).decode().strip()
    found = list(files_of(tree))
    oldest = max(glibc_of(path) for path, _ in found if is_elf(path))
    tag = f"py3-none-manylinux_2_{max(oldest, 17)}_{os.uname().machine}"
    info, data = f"vramscope-{version}.dist-info", f"vramscope-{version}.data"
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, f"vramscope-{version}-{tag}.whl")
    archive = Archive(path, f"{info}/RECORD")
    archive.add("vramscope/__init__.py", read(os.path.join(here, "wheel_package.py")))
    for file, relative in found:
        archive.add(place_of(relative, data), read(file), 0o755 if relative.startswith("bin/") or ".so" in relative else 0o644)
    archive.add(f"{info}/METADATA", METADATA.format(version=version, summary=SUMMARY).encode())
    archive.add(f"{info}/WHEEL", WHEEL.format(tag=tag).encode())
    archive.add(f"{info}/LICENSE", read(os.path.join(here, "../LICENSE")))
    points = entry_points(tree)
    if points:
        archive.add(f"{info}/entry_points.txt", points)
    archive.close()
    print(path)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: wheel.py TREE DIR")
    main(*sys.argv[1:])
