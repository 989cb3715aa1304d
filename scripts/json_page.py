#!/usr/bin/env python3
"""json_page.py PAGE NAME=FILE... [--update] - holds what --json writes against docs/json.md, which says each path and its types.

      files[].devices[].peak.allocated_bytes   integer, null

A path that the page lacks, a type that it does not name, and a path that no FILE of a command has any more are errors; --update writes the lists
anew, and keeps types that the page names and these files happen not to have.
"""
import json
import re
import sys

NAMES = {dict: "object", list: "list", str: "string", bool: "true or false", int: "integer", float: "number", type(None): "null"}
ORDER = ["object", "list", "string", "integer", "number", "true or false", "null"]


def walk(value, path, found):
    if path:
        found.setdefault(path, set()).add(NAMES[type(value)])
    if isinstance(value, dict):
        for name, item in value.items():
            walk(item, f"{path}.{name}" if path else name, found)
    elif isinstance(value, list):
        for item in value:
            walk(item, path + "[]", found)


def shown(found, known):
    width = max(map(len, found)) + 2
    lines = []
    for path, types in found.items():
        types = types | known.get(path, set())
        types = {"number" if t == "integer" and "number" in types else t for t in types}
        lines.append(path.ljust(width) + ", ".join(t for t in ORDER if t in types))
    return "\n".join(lines) + "\n"


def documented(page, name):
    block = re.search(rf"^## {name}\n.*?^```\n(.*?)^```", page, re.S | re.M)
    if not block:
        sys.exit(f"the page has no list for {name}")
    return block, {line.split()[0]: set(re.split(r", ", line.split(None, 1)[1])) for line in block[1].splitlines()}


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
