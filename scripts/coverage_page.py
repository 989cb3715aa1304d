#!/usr/bin/env python3
"""coverage_page.py OUT/coverage.md 'MACHINE, DATE' [PAGE] - puts the oracle's tables (tests/gpu/oracle/oracle.sh) into docs/coverage.md,
between its two marker comments.  Several runs go into the same tables: 'A/coverage.md,B/coverage.md'.

A column that says the same (0, 'yes', 'ok', 'equal' or '-') in every row is named above its table and left out of it.  The parts of the
residual that were measured are one sum.
"""
import os
import sys

BEGIN, END = "<!-- oracle: made by scripts/coverage_page.py -->", "<!-- end of oracle -->"
RIGHT = ({"0", "0.0"}, {"yes"}, {"ok"}, {"equal", "-"})
CALLS, BYTES, RESIDUAL = "| program | calls", "| program | kind", "| program | process"


def cells(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def gather(paths):
    """-> the rows of each kind of table, its header first, and the lines of differences"""
    tables, lines = {}, []
    for path in paths:
        with open(path) as f:
            for block in f.read().split("\n\n"):
                rows = block.strip().splitlines()
                if block.startswith("- "):
                    lines += rows
                elif rows:
                    kind = next(k for k in (CALLS, BYTES, RESIDUAL) if block.strip().startswith(k))
                    tables.setdefault(kind, [cells(rows[0])]).extend(map(cells, rows[2:]))
    return tables, lines


def one_row_a_program(rows):
    """The bytes of each kind, where none was missed and none is extra, in one cell of MiB."""
    kinds = {}
    for program, kind, matched, missed, extra in rows[1:]:
        more = "" if (missed, extra) == ("0.0", "0.0") else f" (missed {missed}, extra {extra})"
        kinds.setdefault(program, []).append(f"{kind} {matched}{more}")
    return {program: ", ".join(texts) for program, texts in kinds.items()}


def with_one_sum(rows):
    """The residual's rows with the measured parts, from the context to the costs that are unknown, as their sum."""
    first, last = rows[0].index("context"), rows[0].index("costs unknown")
    short = [rows[0][:first] + ["measured"] + rows[0][last:]]
    for row in rows[1:]:
        try:
            measured = f"{sum(map(float, row[first:last])):.1f}"
        except ValueError:  # a row that says what went wrong, or a part that is unknown
            measured = " ".join(filter(None, row[first:last]))
        short.append(row[:first] + [measured] + row[last:])
    return short


def shown(title, rows):
    right = {}  # what stands in every row of a column -> the columns' names
    for name, *column in zip(*rows):
        words = next((sorted(values & set(column), reverse=True) for values in RIGHT if set(column) <= values), None)
        right.setdefault(" or ".join(words) if words else None, []).append(name)
    kept = [i for i, name in enumerate(rows[0]) if not any(name in names for words, names in right.items() if words)]
    said = "; ".join(f"{words}: {', '.join(dict.fromkeys(names))}" for words, names in right.items() if words and any(names))
    lines = [[row[i] for i in kept] for row in rows]
    lines.insert(1, ["---"] * len(kept))
    return f"{title} (in every row {said}):\n\n" + "\n".join("| " + " | ".join(row) + " |" for row in lines)


def differences(lines):
    """One line a difference: in which programs, how often."""
    found = {}
    for line in lines:
        program, what = line[2:].split(": ", 1)
        count, is_count, name = what.partition(" x ")
        found.setdefault(name if is_count else what, []).append(f"{program} {count}" if is_count else program)
    return "\n".join(f"- {what}: {', '.join(programs)}" for what, programs in found.items())


def section(paths, where):
    tables, lines = gather(paths)
    texts = one_row_a_program(tables[BYTES])
    calls = [row + [texts.get(row[0], "") if i else "MiB of them"] for i, row in enumerate(tables[CALLS])]
    return "\n\n".join([f"{where}.",
                        shown("Calls, records of MEMORY2, and seconds alone, under vramscope and beside the oracle", calls),
                        shown("The residual at the program's mark, in MiB", with_one_sum(tables[RESIDUAL])),
                        f"Differences with a name, and how many in each program:\n\n{differences(lines)}"])


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    page = sys.argv[3] if len(sys.argv) == 4 else os.path.join(os.path.dirname(os.path.abspath(__file__)), "../docs/coverage.md")
    with open(page) as f:
        text = f.read()
    if text.count(BEGIN) != 1 or text.count(END) != 1:
        sys.exit(f"coverage_page.py: {page} has not one '{BEGIN}' and one '{END}'")
    head, rest = text.split(BEGIN)
    tail = rest.split(END)[1]
    with open(page, "w") as f:
        f.write(f"{head}{BEGIN}\n\n{section(sys.argv[1].split(','), sys.argv[2])}\n\n{END}{tail}")


if __name__ == "__main__":
    main()
