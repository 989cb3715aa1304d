#!/usr/bin/env python3
"""torch_stubs.py - what a wheel of PyTorch for CUDA wants of NVIDIA's packages, for a machine without a GPU.

    torch_stubs.py packages      the other packages that the installed torch asks for, one a line
    torch_stubs.py make TORCH    libraries by the names that TORCH/lib/*.so need, where their run path looks for them

Each function that PyTorch's libraries import is made here, and does nothing but return an error: of the runtime's that there is no device
(100), of the others' 1.  PyTorch does without libcuda.so.1.  Wants readelf and a C compiler.
"""
import collections
import glob
import importlib.metadata
import os
import re
import subprocess
import sys
import tempfile

NVIDIA = re.compile(r"lib(cu|nv|nccl)")
DRIVER = "libcuda.so.1"
TEXT = re.compile(r"Get(Error|Status)(String|Name)$")  # these return a text


def packages():
    """-> requirements as pip takes them, without NVIDIA's and the compiler for GPUs"""
    for line in importlib.metadata.requires("torch"):
        requirement, _, condition = line.partition(";")
        if not re.match(r"nvidia|cuda|triton", requirement) and "extra ==" not in condition:
            yield re.sub(r"[\s()]", "", requirement) + (";" + condition.replace(" ", "") if condition else "")


def read(path):
    """-> needed sonames, directories of the run path, symbols defined, symbols imported: (name, type, version, soname that has it)"""
    needed, places, defined, imported, owner, file = [], [], set(), [], {}, None
    for line in subprocess.run(["readelf", "-W", "-d", "-V", "--dyn-syms", path], check=True, capture_output=True, text=True).stdout.splitlines():
        if m := re.search(r"\(NEEDED\).*\[(.*)\]", line):
            needed.append(m[1])
        elif m := re.search(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", line):
            places = m[1].split(":")
        elif m := re.search(r"Version: \d+ +File: (\S+)", line):
            file = m[1]
        elif m := re.search(r"Name: (\S+) +Flags: .* Version: \d+", line):
            owner[m[1]] = file
        elif m := re.match(r" *\d+: \w+ +\w+ (\w+) +(GLOBAL|WEAK) +\w+ +(\w+) ([^@\s]+)(?:@+(\S+))?", line):
            if m[3] != "UND":
                defined.add(m[4])
            elif m[2] == "GLOBAL":
                imported.append((m[4], m[1], m[5]))
    return needed, places, defined, [(*symbol, owner.get(symbol[2])) for symbol in imported]


def wanted(files):
    """-> soname: {(symbol, type, version)}"""
    defined = set().union(*(f[2] for f in files))
    libraries = {n: set() for f in files for n in f[0] if NVIDIA.match(n) and n != DRIVER}
    # a symbol without a version does not say whose it is, but begins like its library's name
    stems = sorted((n[len("lib"):n.index(".so")].lower(), n) for n in libraries)
    for name, kind, version, owner in {symbol for f in files for symbol in f[3]}:
        if version is None and name not in defined:
            owner = next((n for stem, n in reversed(stems) if name.lower().startswith(stem)), None)
        if owner in libraries:
            libraries[owner].add((name, kind, version))
    return libraries


def source(soname, symbols):
    """-> C, and the linker's version script"""
    code = [f"/* Made by scripts/torch_stubs.py: {soname} of a machine without a GPU. */",
            f"static long error(void) {{ return {100 if soname.startswith('libcudart') else 1}; }}",
            'static const char *text(void) { return "there is no device"; }']
    versions = collections.defaultdict(list)
    for name, kind, version in sorted(symbols, key=str):
        if kind == "OBJECT":
            code.append(f"char {name}[256];")
        elif TEXT.search(name):
            code.append(f'const char *{name}(void) __attribute__((alias("text")));')
        else:
            code.append(f'long {name}(void) __attribute__((alias("error")));')
        if version:
            versions[version].append(name)
    return "\n".join(code) + "\n", "".join(f"{v} {{ global: {'; '.join(names)}; }};\n" for v, names in versions.items())


def make(torch):
    lib = os.path.join(torch, "lib")
    paths = [p for p in glob.glob(f"{lib}/*.so*") + glob.glob(f"{torch}/*.so") if os.path.isfile(p)]
    files = [read(p) for p in paths]
    place = next(p for f in files for p in f[1] if "nvidia" in p)
    if not all(place in f[1] for f in files if any(NVIDIA.match(n) and n != DRIVER for n in f[0])):
        sys.exit(f"torch_stubs.py: not every library of {lib} looks into {place}")
    place = os.path.normpath(place.replace("$ORIGIN", lib))
    os.makedirs(place, exist_ok=True)
    for soname, symbols in wanted(files).items():
        if os.path.exists(os.path.join(lib, soname)):
            continue  # the wheel brings it
        code, script = source(soname, symbols)
        with tempfile.TemporaryDirectory() as work:
            for name, text in (("stub.c", code), ("versions", script)):
                with open(os.path.join(work, name), "w") as file:
                    file.write(text)
            subprocess.run([os.environ.get("CC", "cc"), "-w", "-O1", "-fno-builtin", "-shared", "-fPIC", f"-Wl,-soname,{soname}",
                            *([f"-Wl,--version-script={work}/versions"] if script else []), "-o", os.path.join(place, soname), f"{work}/stub.c"], check=True)


if __name__ == "__main__":
    if sys.argv[1:] == ["packages"]:
        print("\n".join(packages()))
    elif len(sys.argv) == 3 and sys.argv[1] == "make":
        make(sys.argv[2])
    else:
        sys.exit(__doc__)
