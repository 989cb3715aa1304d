#!/usr/bin/env python3
"""json_page.py PAGE NAME=FILE... [--update] - holds what --json writes against docs/json.md, which says each path and its types.

      files[].devices[].peak.allocated_bytes   integer?     (? stands for null)

A path that the page lacks, a type that it does not name, and a path that no FILE of a command has any more are errors; --update
writes the lists anew, and keeps types that these files happen not to have.
"""
import json
import re
import sys

NAMES = {dict: "object", list: "list", str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
ORDER = ["object", "list", "string", "integer", "number", "boolean"]


def walk(value, path, found):
    if path:
        found.setdefault(path, set()).add(NAMES[type(value)])
    if isinstance(value, dict):
        for name, item in value.items():
            walk(item, f"{path}.{name}" if path else name, found)
    elif isinstance(value, list):
        for item in value:
            walk(item, path + "[]", found)


def implied(paths):
    """The objects and lists that hold these paths, outermost first."""
    types = {}
    for path in paths:
        for mark in re.finditer(r"\.|\[\]", path):
            types.setdefault(path[:mark.start()], set()).add("object" if mark[0] == "." else "list")
    return types


def named(types):
    """The types in words: integer? is an integer or null."""
    types = {"number" if t == "integer" and "number" in types else t for t in types}
    words = ", ".join(t for t in ORDER if t in types)
    return words + "?" * ("null" in types) if words else "null"


def shown(found, known):
    lines = {path: types | known.get(path, set()) for path, types in found.items()}
    holders = implied(lines)
    lines = {path: named(types) for path, types in lines.items() if types != holders.get(path)}
    width = max(map(len, lines)) + 2
    return "".join(path.ljust(width) + types + "\n" for path, types in lines.items())


def documented(page, name):
    block = re.search(rf"^## {name}\n.*?^```\n(.*?)^```", page, re.S | re.M)
    if not block:
        sys.exit(f"the page has no list for {name}")
    lines = dict(line.split(None, 1) for line in block[1].splitlines())
    known = {path: set(words.rstrip("?").split(", ")) | ({"null"} if "?" in words else set()) for path, words in lines.items()}
    return block, implied(known) | known


def check(name, found, known):
    bad = [f"{name}: {path} ({', '.join(sorted(types))}) is not on the page" for path, types in found.items() if path not in known]
    for path, types in found.items():
        for t in types - known.get(path, types):
            if not (t == "integer" and "number" in known[path]):
                bad.append(f"{name}: {path} is {t}, the page says {', '.join(sorted(known[path]))}")
    return bad + [f"{name}: {path} is on the page, but in no output" for path in known if path not in found]


def main():
    page_name, update = sys.argv[1], "--update" in sys.argv
    with open(page_name) as f:
        page = f.read()
    every = {}
    for argument in sys.argv[2:]:
        if argument == "--update":
            continue
        name, file = argument.split("=", 1)
        with open(file) as f:
            walk(json.load(f), "", every.setdefault(name, {}))
    bad = []
    for name, found in every.items():
        block, known = documented(page, name)
        if update:
            page = page[:block.start(1)] + shown(found, known) + page[block.end(1):]
        else:
            bad += check(name, found, known)
    if update:
        with open(page_name, "w") as f:
            f.write(page)
    if bad:
        print("\n".join(bad))
        print(f"after a look at what has changed: UPDATE=1 tests/e2e/cli/cli_json.sh writes the lists of {page_name} anew")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
