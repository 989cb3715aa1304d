#!/usr/bin/env python3
"""versions.py [--write] [--page] [VERSION...] - what works with which version of PyTorch, as far as it can be tried without a GPU.

Runs the end-to-end tests of what reaches into PyTorch with each version (scripts/torch.sh), and holds the results against
tests/data/golden/versions.txt.  --write puts them there and into docs/coverage.md; --page only holds the page against that file.  What was not
fetched before is removed again.  A version that came out since is a word more in VERSIONS; which these are is said at the end.
"""
import concurrent.futures
import os
import re
import shutil
import subprocess
import sys

VERSIONS = "2.4.1 2.5.1 2.6.0 2.7.1 2.8.0 2.9.1 2.10.0 2.11.0 2.12.1 2.13.0 2.14.1 2.15.0".split()  # the last of each minor version
CHECKS = {
    "programs print and end the same": "frameworks/torch_unharmed",
    "lines of backward": "frameworks/autograd_lines",
    "phases": "frameworks/torch_phases",
    "layers": "frameworks/torch_layers",
    "roles": "frameworks/torch_roles",
    "element types and shapes": "frameworks/torch_tensors",
    "every report of the allocator": "frameworks/torch_recorded",
    "counters, history, snapshots, arena": "dry/torch_agrees",
    "replays, address by address": "dry/torch_replays",
    "snapshots, exported": "export/export_pytorch",
}
HEAD = "PyTorch", "CPython", "CUDA"
CONTRACT = "contract "
TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
GOLDEN, PAGE = f"{TOP}/tests/data/golden/versions.txt", f"{TOP}/docs/coverage.md"
LOGS = f"{TOP}/build/test-logs/versions"
BEGIN, END = "<!-- versions: made by tests/full/versions.py -->\n", "<!-- end of versions -->\n"


def said(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, check=True, **more).stdout


def fetch(version):
    """-> the command of a Python with that version, and the folder to remove; for the first interpreter here that it is for"""
    reason = ""
    for base in ("python3", *(f"python3.{minor}" for minor in range(20, 8, -1))):
        try:
            tag = said(base, "-c", "import sys; print('cp%d%d' % sys.version_info[:2])").strip()
            here = f"{TOP}/build/deps/torch/{version}-{tag}"
            known = os.path.isdir(here)
            return said(f"{TOP}/scripts/torch.sh", version, base).splitlines()[-1], None if known else here
        except FileNotFoundError:
            continue
        except subprocess.CalledProcessError as error:
            reason = reason or (error.stderr.strip() or "no reason was given").splitlines()[-1]
    raise LookupError(f"{version} could not be fetched: {reason}")


def check(version, python, test):
    """-> yes, no or not tried, and what the test printed"""
    log = f"{LOGS}/{version}/{os.path.basename(test)}.log"
    with open(log, "w") as file:
        status = subprocess.run(["timeout", "--kill-after=10", "1800", f"{TOP}/tests/e2e/{test}.sh"], stdin=subprocess.DEVNULL, stdout=file,
                                stderr=subprocess.STDOUT, env={**os.environ, "TEST_PYTHON": python, "CONTRACTS": "told"}).returncode
    with open(log, errors="replace") as file:
        text = file.read()
    if status not in (0, 77):
        print(f"{version}: {test} ended with {status}:", *text.splitlines()[-15:], sep="\n    | ")
    return {0: "yes", 77: "not tried"}.get(status, "no"), text


def column(version):
    """-> row: word, in the order of the rows"""
    python, fetched = fetch(version)
    os.makedirs(f"{LOGS}/{version}", exist_ok=True)
    try:
        about = said(python, "-c", "import sys, torch; print(torch.__version__.split('+')[0], '%d.%d' % sys.version_info[:2], torch.version.cuda)")
        words, contracts = dict(zip(HEAD, about.split())), {}
        for name, test in CHECKS.items():
            words[name], text = check(version, python, test)
            contracts.update(re.findall(rf"^({CONTRACT}\w+) (\w+)$", text, re.M))
        return {**words, **dict(sorted(contracts.items()))}
    finally:
        if fetched:
            shutil.rmtree(fetched)


def by_number(version):
    return [int(n) for n in re.findall(r"\d+", version)]


def read():
    """-> version: its column"""
    if not os.path.exists(GOLDEN):
        return {}
    with open(GOLDEN) as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    return {version: {row[0]: row[i] for row in rows if row[i] != "-"} for i, version in enumerate(rows[0]) if i > 0}


def table(columns):
    """-> rows of words, the names of the rows in front"""
    order = sorted(columns, key=by_number)
    contracts = sorted({row for words in columns.values() for row in words if row.startswith(CONTRACT)})
    return [[row, *(columns[v].get(row, "-") for v in order)] for row in (*HEAD, *CHECKS, *contracts)]


def page(columns):
    """-> the table of docs/coverage.md: of the contracts how many hold, and which do not"""
    rows = [row for row in table(columns) if not row[0].startswith(CONTRACT)]
    contracts = [[(n[len(CONTRACT):], state) for n, state in columns[v].items() if n.startswith(CONTRACT)] for v in sorted(columns, key=by_number)]
    rows.append(["contracts that were tried and hold", *(str(sum(state == "proven" for _, state in c)) for c in contracts)])
    rows.append(["contracts that do not", *(", ".join(f"`{n}`" for n, state in c if state != "proven") or "none" for c in contracts)])
    rows.insert(1, ["---"] * len(rows[0]))
    return "".join("| " + " | ".join(row) + " |\n" for row in rows)


def page_differs(columns, write):
    with open(PAGE) as file:
        before, rest = file.read().split(BEGIN)
    old, after = rest.split(END)
    new = f"\n{page(columns)}\n"
    if write and new != old:
        with open(PAGE, "w") as file:
            file.write(before + BEGIN + new + END + after)
    elif new != old:
        print("docs/coverage.md does not say what tests/data/golden/versions.txt does: run tests/full/versions.py --write with a version")
        return True
    return False


def newer():
    """-> versions that pip knows and VERSIONS lacks: of each minor version the last, the newest before its release as well"""
    try:
        lines = said(sys.executable, "-m", "pip", "index", "versions", "--pre", "torch", stdin=subprocess.DEVNULL).splitlines()
    except subprocess.CalledProcessError:
        return []
    last = {}
    for version in reversed(next(line for line in lines if line.startswith("Available")).split(": ")[1].split(", ")):
        last[tuple(by_number(version)[:2])] = version
    return [v for minor, v in last.items() if minor >= tuple(by_number(VERSIONS[0])[:2]) and v not in VERSIONS]


def main(arguments):
    unknown = [a for a in arguments if a[0] == "-" and a not in ("--write", "--page")]
    if unknown:
        sys.exit(__doc__ if unknown[0] in ("-h", "--help") else f"versions.py: no such option: {unknown[0]}; see --help")
    os.environ.setdefault("BUILD", f"{TOP}/build/release")
    write, only = "--write" in arguments, [a for a in arguments if a[0] != "-"]
    golden = read()
    if "--page" in arguments:
        sys.exit(page_differs(golden, False))
    found, failed = {}, False
    with concurrent.futures.ThreadPoolExecutor((os.cpu_count() or 1) + 1) as pool:
        for version, future in [(v, pool.submit(column, v)) for v in only or VERSIONS]:
            try:
                found[version] = future.result()
            except LookupError as error:
                print(error)
                failed = True
    if not found:
        sys.exit(77)
    for version, words in found.items():
        for row in [] if write else sorted({*words, *golden.get(version, {})}):
            was, now = golden.get(version, {}).get(row, "-"), words.get(row, "-")
            if was != now:
                failed = True
                print(f"{version}: {row}: {now}, and tests/data/golden/versions.txt has {was}")
    if write:
        golden = {**read(), **found}
        with open(GOLDEN, "w") as file:
            file.writelines("\t".join(row) + "\n" for row in table(golden))
    failed = page_differs(golden, write) or failed
    unknown = newer()
    if unknown:
        print(f"came out since, and not in VERSIONS: {', '.join(unknown)}")
    print(f"{len(found)} versions of PyTorch were tried; repeat one by tests/full/versions.py VERSION")
    sys.exit(failed)


if __name__ == "__main__":
    main(sys.argv[1:])
