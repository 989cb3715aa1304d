#!/usr/bin/env python3
"""contracts.py - holds shim/core/contracts.words against the sources: each name and offset of others' code that the shim
uses stands there, under the row of contracts.def that it belongs to.

    scripts/contracts.py [FILE...]   checks the shim, and the files beside
    scripts/contracts.py list        prints what it finds

It finds by form alone:
    names       string literals that are mangled C++ names or parts of them; what dlsym and its like are asked for
    offsets     constants whose name ends in _AT, fields of tables whose name ends in _at, numbers added to a pointer that is read
    Python      attributes of torch (and jax, cupy) that begin with an underscore, and what getattr and import_module are asked for
"""

import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parent.parent
shim = root / "shim"
names = (
    re.compile(r'"((?:_Z|N3c10|NSt|N5torch|N2at|St)[A-Za-z0-9_]+)"'),
    re.compile(r'(?:dlsym|dlvsym|address_of|in_library|of_class|FIND)\([^;]*?"([A-Za-z_][A-Za-z0-9_]*)"'),
)
offsets = (
    re.compile(r"^\s*(?:#define\s+)?(\w+_AT)\b\s*=?\s*\(?(\d+)", re.M),
    re.compile(r"\.(\w+_at) = (-?\d+)"),
    re.compile(r"^ +(?:\.kind.*)?\.(?!minor)([a-z]+) = (\d+)[,}]", re.M),  # tables of fields
    re.compile(r"\*\((?:const )?\w+ (?:const )?\*\)\(([^()]+ \+ \d+)\)"),
)
python = (
    re.compile(r"\b((?:torch|jax|cupy)(?:\.\w+)*\._\w+(?:\.\w+)*)"),
    re.compile(r"""(?:getattr|hasattr)\([\w.]+, "(_(?!_)\w+)\""""),
    re.compile(r"""import_module\("([\w.]+)"\)"""),
    re.compile(r'"(_(?:cuda|accelerator|graph|host|set|begin|end|release)\w+)"'),
)


def where(path):
    return str(path.relative_to(shim)) if shim in path.parents else path.name


def found(more):
    """word -> where it stands, of all sources and of the files MORE."""
    words = {}
    for path in sorted(shim.rglob("*.[ch]")) + more:
        text = re.sub(r"/\*.*?\*/", " ", path.read_text(), flags=re.S)
        for pattern in names:
            for match in pattern.finditer(text):
                words.setdefault(match.group(1), where(path))
        for pattern in offsets:
            for match in pattern.finditer(text):
                word = f"{path.name}:" + "=".join(group.replace(" ", "") for group in match.groups())
                words.setdefault(word, where(path))
    for path in sorted(shim.rglob("*.py")):
        text = re.sub(r'"""(?:.|\n)*?"""', "", path.read_text())
        text = re.sub(r"(?m)#.*$", "", text)
        for pattern in python:
            for match in pattern.finditer(text):
                words.setdefault(match.group(1), where(path))
    ours = re.compile(r"vramscope|^torch\.__|^_(testcase|vramscope)$|VS_|^libtorch_|^hidden$")
    return {word: path for word, path in words.items() if not ours.search(word)}


def listed():
    """word -> its row, of the list."""
    words, row = {}, None
    for line in (shim / "core/contracts.words").read_text().split("\n"):
        if not line.startswith("#"):
            head, colon, rest = line.partition(": ") if not line.startswith(" ") else ("", "", line)
            row = head if colon else row
            for word in rest.split():
                words[word] = row
    return words


def rows():
    return set(re.findall(r"^VS_CONTRACT\((\w+),", (shim / "core/contracts.def").read_text(), re.M))


def main():
    lists = sys.argv[1:] == ["list"]
    here = found([] if lists else [pathlib.Path(name).resolve() for name in sys.argv[1:]])
    if lists:
        for word, path in here.items():
            print(f"{path}\t{word}")
        return 0
    there, bad = listed(), []
    bad += [f"{path}: {word} is in no row of core/contracts.words: which contract is it a part of?" for word, path in here.items() if word not in there]
    bad += [f"core/contracts.words: {word} is in no source any more" for word in there if word not in here]
    bad += [f"core/contracts.words: {row} is no row of core/contracts.def" for row in sorted(set(there.values()) - rows() - {"-"})]
    print("\n".join(bad) if bad else f"{len(here)} names and offsets of others' code, each in a row")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
