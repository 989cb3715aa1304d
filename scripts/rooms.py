#!/usr/bin/env python3
"""rooms.py [--check] [--calls BUILD] - holds the folders of shim/ and analyzer/ against what they say, and draws docs/rooms.svg.

What a folder may include stands in its `vs_room(FOLDER USES ...)` (scripts/rooms.cmake).  These are errors:

    - USES that name more or less than what is included; an include that names no folder's file
    - folders that include each other in a circle
    - with --calls, by a build's object files: folders whose functions call each other in a circle, or more than three files
      of a folder (a .c and its .h are one)
    - with --check, a picture that is not the one that would be drawn
"""
import collections
import glob
import html
import os
import re
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PICTURE = os.path.join(TOP, "docs/rooms.svg")
LISTS = ("shim", "analyzer")
INCLUDE = re.compile(r'^ *# *include +"([^"]+)"', re.M)
SOURCES = (".c", ".h", ".S", ".def")
MOST = 3
EVERYBODYS = ("dlsym", "dlvsym")  # ours answer the program; our own calls mean the C library's


def declared():
    """folder (from the top) -> what it may include, in the order of the lists"""
    rooms = {}
    for top in LISTS:
        with open(os.path.join(TOP, top, "CMakeLists.txt")) as f:
            text = re.sub(r"#.*", "", f.read())
        for match in re.finditer(r"vs_room\(([^)]*)\)", text):
            words = match[1].split()
            uses = words[words.index("USES") + 1:] if "USES" in words else []
            rooms.setdefault(f"{top}/{words[0]}", []).extend(uses)
    folders = {r.split("/", 1)[1]: r for r in rooms}
    folders["api"] = "shim"
    rooms["shim"] = []
    return {room: {folders[u] for u in uses} - {room} for room, uses in rooms.items()}


def files_of(room):
    return sorted(f for f in os.listdir(os.path.join(TOP, room)) if f.endswith(SOURCES))


def included(rooms):
    """file -> files that it includes, both from the top; and what is wrong"""
    edges, wrong = {}, []
    every = {f"{room}/{f}" for room in rooms for f in files_of(room)}
    for file in sorted(every):
        room, top = os.path.dirname(file), file.split("/")[0]
        edges[file] = set()
        with open(os.path.join(TOP, file)) as f:
            for name in INCLUDE.findall(f.read()):
                found = next((p for p in (f"{room}/{name}", f"shim/{name}", f"{top}/{name}") if p in every), None)
                if found is None or ".." in name:
                    wrong.append(f"{file}: \"{name}\" is no file of its folder, and names none of another")
                elif os.path.dirname(found) == room and "/" in name:
                    wrong.append(f"{file}: \"{name}\" is a file of its own folder")
                else:
                    edges[file].add(found)
    return edges, wrong


def reached(file, edges):
    seen, todo = set(), [file]
    while todo:
        for g in edges[todo.pop()] - seen:
            seen.add(g)
            todo.append(g)
    return seen


def circles(nodes, edges):
    """the strongly connected components of more than one node (Tarjan)"""
    index, low, stack, found = {}, {}, [], []

    def visit(v):
        index[v] = low[v] = len(index)
        stack.append(v)
        for w in sorted(edges.get(v, ())):
            if w not in index:
                visit(w)
            if w in stack:
                low[v] = min(low[v], low[w])
        if low[v] == index[v]:
            circle = stack[stack.index(v):]
            del stack[stack.index(v):]
            if len(circle) > 1:
                found.append(sorted(circle))

    for v in sorted(nodes):
        if v not in index:
            visit(v)
    return sorted(found)


def stem(file):
    return os.path.splitext(file)[0]


def by(group, edges):
    out = collections.defaultdict(set)
    for a, bs in edges.items():
        out[group(a)] |= {group(b) for b in bs if group(b) != group(a)}
    return out


def check_includes(rooms, edges):
    wrong = []
    for room, uses in rooms.items():
        mine = [f"{room}/{f}" for f in files_of(room)]
        reach = {os.path.dirname(g) for f in mine for g in reached(f, edges)} - {room}
        if any(not f.endswith((".h", ".def")) for f in mine):
            wrong += [f"{room} says that it uses {u}, and does not" for u in sorted(uses - reach)]
        implied = {"shim/core/arch"} if "shim/core" in uses else set()  # core's headers include it
        wrong += [f"{room} includes {u} and does not say so" for u in sorted(reach - uses - implied)]
    for circle in circles(rooms, by(os.path.dirname, edges)):
        wrong.append("folders that include each other: " + " ".join(circle))
    for circle in circles({stem(f) for f in edges}, by(stem, edges)):
        if len(circle) > MOST:
            wrong.append("files that include each other: " + " ".join(circle))
    return wrong


def calls(build, edges):
    """file -> files whose functions and variables it names, without their endings"""
    defined, asked = {}, collections.defaultdict(set)
    for top in LISTS:
        objects = {}
        for path in glob.glob(os.path.join(build, top, "CMakeFiles/room_*.dir/**/*.o"), recursive=True):
            file = f"{top}/{path.split('.dir/', 1)[1][:-2]}"
            if file in edges:  # otherwise of a source that is gone
                objects[path] = file
        # all at once: where nm has plugins, each start of it loads a compiler
        listed = subprocess.run(["nm", "-A", *objects], capture_output=True, text=True, check=True).stdout if objects else ""
        for line in listed.splitlines():
            path, _, symbol = line.rpartition(":")
            *_, kind, name = symbol.split()
            if name in EVERYBODYS:
                continue
            if kind in "TDBRV":
                defined[top, name] = stem(objects[path])
            elif kind in "Uw":
                asked[stem(objects[path])].add(name)
    out = collections.defaultdict(set)
    for file, names in asked.items():
        for name in names:
            found = defined.get((file.split("/")[0], name)) or defined.get(("shim", name))
            if found and found != file:
                out[file].add(found)
    return out


def check_calls(rooms, edges, build):
    graph, wrong = calls(build, edges), []
    if len(graph) < 100:
        return [f"{build}/*/CMakeFiles has the objects of {len(graph)} files: is it a build of this tree?"]
    folders = {frozenset(c) for c in circles(rooms, by(os.path.dirname, graph))}
    wrong += ["folders whose functions call each other: " + " ".join(sorted(circle)) for circle in folders]
    for room in rooms:
        inside = {f: {g for g in gs if os.path.dirname(g) == room} for f, gs in graph.items() if os.path.dirname(f) == room}
        sizes = [c for c in circles(inside, inside) if len(c) > MOST]
        for circle in sizes:
            wrong.append(f"{len(circle)} files whose functions call each other: " + " ".join(circle))
    return wrong


# ---- the picture ----

WIDE, HIGH, ACROSS, DOWN = 118, 40, 14, 46


def levels(rooms, edges):
    """what includes nothing lies lowest, everything else above what it includes"""
    out = {}

    def level(room):
        if room not in out:
            out[room] = 0
            out[room] = max((level(u) + 1 for u in edges.get(room, ())), default=0)
        return out[room]

    for room in sorted(rooms):
        level(room)
    return out


def draw(rooms, edges):
    direct = by(os.path.dirname, edges)
    level = levels(rooms, direct)
    rows = collections.defaultdict(list)
    for room in sorted(rooms):
        rows[level[room]].append(room)
    top = max(rows)
    width = max(len(r) for r in rows.values()) * (WIDE + ACROSS) + ACROSS
    height = (top + 1) * (HIGH + DOWN) + 40
    place = {}
    for depth, row in rows.items():
        left = (width - len(row) * (WIDE + ACROSS) + ACROSS) // 2
        for i, room in enumerate(row):
            place[room] = (left + i * (WIDE + ACROSS), 24 + (top - depth) * (HIGH + DOWN))
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
           "<!-- made by scripts/rooms.py -->",
           f'<rect width="{width}" height="{height}" fill="#fff"/>',
           '<text x="10" y="16" fill="#444">What includes what, by folder: from a folder a line leads down to each that it includes.</text>']
    for room in sorted(rooms):
        x, y = place[room]
        for used in sorted(direct.get(room, ())):
            u, v = place[used]
            shade = "#b5651d" if used.split("/")[0] != room.split("/")[0] else "#7a8aa0"
            out.append(f'<path d="M{x + WIDE // 2} {y + HIGH} C{x + WIDE // 2} {y + HIGH + 30} {u + WIDE // 2} {v - 30} {u + WIDE // 2} {v}" '
                       f'fill="none" stroke="{shade}" stroke-width="0.8" stroke-opacity="0.7"/>')
    for room in sorted(rooms):
        x, y = place[room]
        fill = "#e8eef7" if room.startswith("shim") else "#f7efe3"
        out.append(f'<rect x="{x}" y="{y}" width="{WIDE}" height="{HIGH}" rx="5" fill="{fill}" stroke="#456"/>')
        out.append(f'<text x="{x + WIDE // 2}" y="{y + 24}" text-anchor="middle">{html.escape(room)}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def main():
    args = sys.argv[1:]
    build = args[args.index("--calls") + 1] if "--calls" in args else None
    rooms = declared()
    edges, wrong = included(rooms)
    wrong += check_includes(rooms, edges)
    if build:
        wrong += check_calls(rooms, edges, build)
    picture = "" if any(w.startswith("folders that include") for w in wrong) else draw(rooms, edges)
    if "--check" in args:
        if not os.path.exists(PICTURE) or open(PICTURE).read() != picture:
            wrong.append("docs/rooms.svg is not what the folders are: run scripts/rooms.py")
    else:
        with open(PICTURE, "w") as f:
            f.write(picture)
    print("\n".join(wrong) if wrong else f"{len(rooms)} folders include what they say")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
