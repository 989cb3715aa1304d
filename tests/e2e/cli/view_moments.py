#!/usr/bin/env python3
"""The page of `vramscope view` opens where the report begins, with its holders, and does what its buttons, links, search and key say."""
import argparse
import json
import os
import pathlib
import random
import re
import sqlite3
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "lib"), str(HERE.parents[1] / "data")]
import browser  # noqa: E402  its folder comes first
import make_db  # noqa: E402

BUILD, SRC = pathlib.Path(os.environ["BUILD"]).resolve(), HERE.parents[2]
MiB = 1 << 20
LAYERS, ASKED = 16, 140 << 30
HELD = "[...document.querySelectorAll('#holders tr')].map((r) => [r.cells[1].textContent, +r.cells[2].dataset.bytes])"
MOMENT = "(() => { const m = document.getElementById('moment'); return m && [m.textContent, +m.dataset.t, +m.dataset.allocated]; })()"


def vramscope(*args):
    return subprocess.run([str(BUILD / "bin/vramscope"), *map(str, args)], capture_output=True, text=True, timeout=120, check=True).stdout


def record(path, steps=2, dies=True, logits=900):
    """Parameters, then steps over 16 equal layers of two parts each.  In the last one memory runs out, just after something large was freed; where the
    run goes on after that, another step ends."""
    schema = SRC / "shim/trace/schema.sql"
    args = argparse.Namespace(kind="oom", rank=None, world=1, host="here", gpu=0, start=0,
                              schema_version=int(re.search(r"schema_version \((\d+)\)", schema.read_text()).group(1)))
    chance, run = random.Random(5), make_db.Run(str(schema), str(path), 1, "oom")
    run.source = "nvml_process"
    run.driver_alloc(0, 20 << 30, True)
    run.sample(0, 600 * MiB)
    parts = [(run.stack([(make_db.TORCH, 0x92000 + 2 * i + k, "at::linear"), ("/home/ada/model.py", 41 + k, "Block.forward"), ("/home/ada/train.py", 23, "<module>")], None),
              f"Net.model.layers.{i}.{part}") for i in range(LAYERS) for k, part in enumerate(("mlp", "attn"))]
    head = run.stack([(make_db.TORCH, 0x93000, "at::linear"), ("/home/ada/model.py", 60, "Net.forward")], None)
    for _ in range(LAYERS):
        run.block(0, 50 * MiB, 0, dt=9000)
    for n in range(steps + 1):
        run.push("forward")
        acts = [run.block(0, (20 if k % 2 else 30) * MiB + 512, s, dt=chance.randrange(20000, 60000)) for k, (s, _) in enumerate(parts)]
        run.push("logits")
        acts.append(run.block(0, logits * MiB, head))
        run.pop()
        run.pop()
        if n == steps:
            run.block_free(0, run.block(0, 2000 * MiB, head, dt=300000), dt=300000)
            run.oom(0, ASKED, head)
        if n < steps or not dies:
            run.push("backward")
            for a in reversed(acts):
                run.block_free(0, a, dt=chance.randrange(15000, 45000))
            run.pop()
            run.step()
    run.write(args)
    db = sqlite3.connect(path)
    for i, (stack, layer) in enumerate([*parts, (head, "Net.lm_head")]):
        db.execute("INSERT INTO frame VALUES(?, 4, NULL, NULL, ?, 'Linear', NULL)", (5000 + i, layer))
        db.execute("UPDATE stack SET layer = ? WHERE id = ?", (5000 + i, stack))
    db.commit()
    return db


def page_of(work, name, *args):
    vramscope("view", *args, "-o", work / f"{name}.html")
    return work / f"{name}.html"


def opened(b, path, *args, **more):
    page = b.open(path, *args, **more)
    page.wait("document.documentElement.dataset.ready")
    page.wait("document.getElementById('moment') && !vramscope.view.later", 10)
    return page


def press(page, button):
    page.js(f"document.getElementById('{button}').click()")
    page.wait("!vramscope.view.later", 10)


def stack_by(page, name):
    page.js(f"document.querySelector('#dims [data-dim={name}]').click()")
    page.wait("!vramscope.view.later", 10)


def search(page, text):
    page.js(f"(() => {{ const s = document.getElementById('search'); s.value = {json.dumps(text)}; s.dispatchEvent(new Event('input')); }})()")
    page.wait("!vramscope.view.later", 10)


def by_layer(parts):
    """The report's rows of a moment as the page has them by layer."""
    held = {}
    for p in parts:
        name = "no layer" if p["layer"] is None else p["layer"] + (f" x{p['layers']}" if p["layers"] > 1 else "")
        held[name] = held.get(name, 0) + p["size_bytes"]
    return held


def check_opens(b, work, db):
    """Where memory ran out, by role, with the bytes that the report has of it."""
    report = json.loads(vramscope("report", "--json", work / "died.db"))["files"][0]
    t, allocated = db.execute("SELECT t_ns, framework_bytes + direct_bytes FROM oom").fetchone()
    page = opened(b, page_of(work, "died", work / "died.db"))
    text, *moment = page.js(MOMENT)
    assert text.startswith("out of memory: ") and moment == [t, allocated], (text, moment, t, allocated)
    assert "asked for 140.0 GiB" in page.js("document.getElementById('details').textContent") and "step 3" in page.js("document.getElementById('details').textContent")
    assert page.js("document.querySelector('#dims [aria-checked=true]').textContent") == "role"
    held = page.js(HELD)
    want = {}
    for p in report["out_of_memory"]["parts"]:
        want[p["what"]] = want.get(p["what"], 0) + p["size_bytes"]
    assert dict(held) == want and sum(want.values()) == allocated and held == sorted(held, key=lambda h: -h[1]), (held, want)
    stack_by(page, "layer")
    held = dict(page.js(HELD))
    assert held == by_layer(report["out_of_memory"]["parts"]) and held[f"Net.model.layers.* x{LAYERS}"] == LAYERS * (50 * MiB + 1024) and "Net.lm_head" in held, held
    return page


def check_buttons(b, work, db, page):
    """Each of both moments has a button that leads there, and its surroundings are in sight."""
    oom, peak = db.execute("SELECT (SELECT t_ns FROM oom), (SELECT t_ns FROM peak WHERE kind = 'allocated' AND device = 0)").fetchone()
    assert oom != peak
    for button, t in ("peak", peak), ("oom", oom):
        press(page, button)
        assert page.js(MOMENT)[1] == t, (button, t, page.js(MOMENT))
        start, end, whole = page.js("[vramscope.view.from, vramscope.view.to, vramscope.recording.last]")
        assert start < t < end and end - start < 0.9 * whole, (button, start, t, end)
    # the program went on after it: as in the report, the page is about the peak
    survived = record(work / "survived.db", dies=False)
    page = opened(b, page_of(work, "survived", work / "survived.db"))
    assert page.js(MOMENT)[0].startswith("the peak: ") and page.js("!document.getElementById('oom').hidden"), page.js(MOMENT)
    press(page, "oom")
    assert page.js(MOMENT)[1] == survived.execute("SELECT t_ns FROM oom").fetchone()[0]
    # in the middle of a forward not all layers hold anything
    t = survived.execute("SELECT max(t) FROM (SELECT t FROM ev WHERE op = 20 AND stack > 0 ORDER BY seq LIMIT 9)").fetchone()[0]
    page = opened(b, work / "survived.html", anchor=f"#t={t / 1e9:.9f}&by=layer")
    assert dict(page.js(HELD))["Net.model.layers.* x5"] == (4 * 50 + 30) * MiB + 9 * 512, page.js(HELD)


def check_coarse(b, work):
    """Where the page has not every block the moments that it opens at are exact still."""
    db = record(work / "long.db", steps=2500)
    page = opened(b, page_of(work, "long", work / "long.db", "--max-size=1"))
    t, allocated = db.execute("SELECT t_ns, framework_bytes + direct_bytes FROM oom").fetchone()
    near, everything = page.js(f"(() => {{ const r = vramscope.recording.rows[0]; return [vramscope.columnsOf(r, {t}, {t} + 1, 1, 0, () => 0).max[0], r.all]; }})()")
    assert not everything and near > allocated, (everything, near, allocated)
    assert page.js(MOMENT)[1:] == [t, allocated] and sum(bytes_ for _, bytes_ in page.js(HELD)) == allocated, (page.js(MOMENT), page.js(HELD))


def check_search(page, db):
    """What is found is summed up, and nothing else moves."""
    frame = ("JSON.stringify([['base', 'key', 'tools'].map((id) => Object.values(document.getElementById(id).getBoundingClientRect().toJSON())),"
             " vramscope.view.from, vramscope.view.to, vramscope.view.at, vramscope.view.layout.map((p) => p.scale)])")
    # the key is drawn after the plot, and its lines after their fonts: what stands still for so many frames is the frame
    page.js(f"(() => {{ let last = '', same = 0; const look = () => {{ const now = {frame}; same = now === last ? same + 1 : 0; last = now;"
            " window.stands = same > 20; requestAnimationFrame(look); }; look(); })()")
    page.wait("window.stands", 20)
    before = page.js(frame)
    for word, line in ("model.py:42", "%:42 %"), ("layers.3.", None), ("no such name", "nothing"):
        search(page, word)
        assert page.js(frame) == before, (word, before, page.js(frame))
        text, got = page.js("document.getElementById('found').textContent"), page.js("+document.getElementById('found').dataset.bytes")
        want = db.execute("SELECT ifnull(sum(l.size_bytes), 0), count(*) FROM oom_live l JOIN stack_text s ON s.id = l.stack WHERE s.line LIKE '%model.py' || ?", (line,)).fetchone() if line else (50 * MiB + 1024, 2)
        assert got == want[0] and (text == "nothing found" if not want[0] else f"in {want[1]} blocks" in text), (word, text, got, want)
    search(page, "")
    assert page.js(frame) == before and page.js("document.getElementById('found').textContent") == ""


def check_sizes(b, work):
    """What is listed stands beside the picture, the holders in sight, and nothing has to be scrolled sideways."""
    for width, height in (1400, 900), (800, 600):
        page = opened(b, work / "died.html", width, height)
        chart, side, last, wide = page.js("[document.getElementById('chart').getBoundingClientRect(), document.getElementById('side').getBoundingClientRect(),"
                                          " [...document.querySelectorAll('#holders tr')].pop().getBoundingClientRect().bottom, document.documentElement.scrollWidth].map((r) => r.toJSON ? r.toJSON() : r)")
        assert side["left"] >= chart["right"] and side["top"] < chart["top"] + 20 and side["right"] <= width >= wide, (width, chart, side, wide)
        assert last < height and chart["bottom"] < height and chart["width"] > width / 2, (height, last, chart)
    # what is told of a block of the list's end is in sight, too
    scrolled, top = page.js("(() => { const side = document.getElementById('side'), rows = document.querySelectorAll('#blocks tr'), was = (side.scrollTop = 1e5, side.scrollTop);"
                            " rows[rows.length - 1].click(); return [was, document.getElementById('block').getBoundingClientRect().top - side.getBoundingClientRect().top]; })()")
    assert scrolled > 0 and 0 <= top < 100, (scrolled, top)
    return page


def check_rows(b, work):
    """Ranks have one scale, and a name has one colour in all of them; on request each has its own scale.  The highest is the one that is listed."""
    (work / "job").mkdir()
    for rank, extra in (0, 0), (1, 9000), (2, 40):
        subprocess.run([sys.executable, SRC / "tests/data/make_db.py", SRC / "shim/trace/schema.sql", work / f"job/{rank}.db", "--rank", str(rank), "--world", "3",
                        "--gpu", str(rank), "--extra", str(extra), "--fast"], check=True)
    other = sqlite3.connect(work / "job/2.db")  # whose lines are others
    other.execute("UPDATE frame SET file = replace(file, 'model.py', 'a_model.py')")
    other.commit()
    other.close()
    page = opened(b, page_of(work, "job", work / "job"))
    scales = "vramscope.view.layout.map((p) => p.scale)"
    assert len(set(page.js(scales))) == 1 and page.js("vramscope.view.row") == 1, page.js(scales)
    colors = page.js("vramscope.DIMS.map((_, dim) => vramscope.recording.rows.map((r) => r.dims[dim].slots.map((name, i) => [name, vramscope.colorsOf(r, dim)[i + 1]])))")
    for rows in colors:
        every = {(name, color) for row in rows for name, color in row}
        assert len(every) == len({name for name, _ in every}) and all(color for _, color in every), every
    assert any(name.endswith("a_model.py:41 Model.forward") for name, _ in colors[2][2]) and colors[2][2] != colors[2][0], colors[2]
    page.key("v")
    page.wait(f"new Set({scales}).size > 1", 10)
    # a button brings its row into sight, and what is listed and what is drawn stays there
    page = opened(b, work / "job.html", 800, 420)
    place = "(() => { const p = vramscope.view.layout[1], top = document.getElementById('base').getBoundingClientRect().top; return [top + p.title, top + p.bottom]; })()"
    assert page.js(place)[1] > 420, page.js(place)
    press(page, "peak")
    top, bottom = page.js(place)
    sides = page.js("['side', 'key'].map((id) => document.getElementById(id).getBoundingClientRect().toJSON())")
    assert 0 <= top and bottom <= sides[1]["top"] and sides[0]["bottom"] <= sides[1]["top"] and sides[1]["bottom"] <= 421, (top, bottom, sides)
    # the link names the row
    page = opened(b, work / "job.html", anchor="#t=0.005&by=line&row=3")
    assert page.js("[vramscope.view.row, vramscope.view.at, vramscope.DIMS[vramscope.view.dim]]") == [2, 5e6, "line"]


def check_link(b, work, db):
    """The address names what is listed, and who opens it sees that."""
    page = opened(b, work / "died.html")
    stack_by(page, "layer")
    press(page, "peak")
    seen = page.js(f"[location.hash, {HELD}, {MOMENT}, document.querySelector('#details a').getAttribute('href')]")
    peak = db.execute("SELECT t_ns FROM peak WHERE kind = 'allocated' AND device = 0").fetchone()[0]
    assert seen[0] == seen[3] == f"#t={peak / 1e9:.9f}".rstrip("0") + "&by=layer", seen
    other = opened(b, work / "died.html", anchor=seen[0])
    assert other.js(f"[location.hash, {HELD}, {MOMENT}, document.querySelector('#details a').getAttribute('href')]") == seen
    other.js("location.hash = '#t=0.0001&by=role'")
    other.wait("vramscope.view.at === 1e5 && vramscope.view.dim === 0 && !vramscope.view.later", 10)
    # what it can't name is no moment, and no harm
    for anchor in "#t=99&by=layer", "#t=x&by=<img>&row=9", "#t=0.001&row=7":
        page = opened(b, work / "died.html", anchor=anchor)
        assert page.js(MOMENT)[0].startswith("out of memory: "), (anchor, page.js(MOMENT))


def check_edge(page):
    """A block that is chosen has an edge, and keeps its colour."""
    inside = """(() => { const {view} = vramscope, p = view.layout[0], [x, low, high] = view.edge[Math.floor(view.edge.length / 4)],
        y = (v) => p.bottom - (v / p.scale) * (p.bottom - p.top), c = document.getElementById('base').getContext('2d');
        return [(y(low) + y(high)) / 2, y(low)].map((at) => [...c.getImageData(Math.round(p.left + x), Math.round(at), 1, 1).data]); })()"""
    choose = """(() => { const r = vramscope.recording.rows[0], t = r.table; vramscope.choose(r, r.ooms[0].t, BLOCK); })()"""
    press(page, "oom")
    largest = page.js("(() => { const r = vramscope.recording.rows[0]; return vramscope.livingAt(r.table, r.ooms[0].t).sort((a, b) => r.table.size[b] - r.table.size[a])[0]; })()")
    page.js(choose.replace("BLOCK", str(largest)))
    page.wait("!vramscope.view.later && vramscope.view.edge && document.getElementById('block')", 10)
    middle, edge = page.js(inside)
    ink = page.js("getComputedStyle(document.documentElement).getPropertyValue('--ink').trim()")
    assert edge[:3] == [int(ink[i:i + 2], 16) for i in (1, 3, 5)], (edge, ink)
    assert middle[:3] != edge[:3], (middle, edge)
    page.js(choose.replace("BLOCK", "-1"))
    page.wait("!vramscope.view.later", 10)
    plain = page.js(inside)
    assert plain[0] == middle and plain[1] != edge, (plain, middle, edge)


def key_of(page):
    return page.js("[...document.querySelectorAll('#key span')].map((s) => s.textContent)")


def check_key(b, work):
    """The key has what is drawn, and nothing else: each mark when the recording or a switch brings it."""
    page = opened(b, work / "died.html", 800, 600)
    there = key_of(page)
    assert "\nSizes are <i>about</i> right." in page.js("document.getElementById('footer').textContent")  # what the report notes of the whole recording
    assert "memory ran out" in there and "peak of allocated" in there and "the end of a step" in there and "the moment that is listed" in there, there
    for switch, mark in ("capacity", "capacity of the device"), ("reserved", "reserved: taken from the driver"), ("driver", "used by the process, as the driver says"):
        before = key_of(page)
        page.js(f"document.getElementById('show-{switch}').click()")
        page.wait(f"[...document.querySelectorAll('#key span')].length !== {len(before)}", 10)
        assert set(before) ^ set(key_of(page)) == {mark}, (switch, before, key_of(page))
    page.js("vramscope.choose(vramscope.recording.rows[0], 1e6, 0)")
    page.wait("[...document.querySelectorAll('#key span')].some((s) => s.textContent === 'the block that is described')", 10)
    other = opened(b, work / "job.html")
    assert "memory ran out" not in key_of(other), key_of(other)


def look(work):
    db = record(work / "died.db")
    db.execute("INSERT INTO loss VALUES(1, 5, 0, 'of a later version', 'sizes are <i>about</i> right')")
    db.commit()
    with browser.Browser() as b:
        page = check_opens(b, work, db)
        check_search(page, db)
        check_buttons(b, work, db, page)
        small = check_sizes(b, work)
        check_search(small, db)
        check_edge(small)
        check_link(b, work, db)
        check_rows(b, work)
        check_key(b, work)
        check_coarse(b, work)
        assert b.complaints() == [], b.complaints()


if __name__ == "__main__":
    sys.exit(browser.shown(look, "the page opens where the report begins, lists its holders, and says what is found and drawn"))
