#!/usr/bin/env python3
"""The page of `vramscope view` in headless Chromium: its figures against the report's and every event, clicks against the database, hostile
names.
"""
import json
import os
import pathlib
import random
import sqlite3
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lib"))
import browser

BUILD, SRC = pathlib.Path(os.environ["BUILD"]).resolve(), HERE.parents[2]
HOSTILE = "</script><img src=x onerror='document.title=1'>"
WIDE = 700


def vramscope(*args):
    done = subprocess.run([str(BUILD / "bin/vramscope"), *map(str, args)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, (args, done.returncode, done.stderr)
    return done.stdout


def make(path, *args):
    subprocess.run([sys.executable, str(SRC / "tests/data/make_db.py"), str(SRC / "shim/trace/schema.sql"), str(path), *args], check=True)
    return sqlite3.connect(path)


def truth(changes, start, end):
    """Greatest and least of the step function over [start, end)."""
    value, inside = 0, []
    for t, allocated in changes:
        if t < start:
            value = allocated
        elif t < end:
            inside.append(allocated)
    return max([value, *inside]), min([value, *inside])


def check_windows(page, db, row):
    """Extremes of columns of many windows against all events: no column hides one, none has what its surroundings lack."""
    changes = db.execute("SELECT t, CASE WHEN framework < 0 THEN -framework ELSE framework * 512 END + CASE WHEN direct < 0 THEN -direct ELSE direct * 512 END"
                         " FROM ev WHERE device = ? AND (op < 30 OR op >= 50) ORDER BY seq", (row,)).fetchall()
    last, chance = max(t for t, _ in changes), random.Random(7)
    for _ in range(25):
        wide = last / 4 ** chance.uniform(0, 9)
        start = chance.uniform(0, last - wide)
        got = page.js(f"(() => {{ const c = vramscope.columnsOf(vramscope.recording.rows[{row}], {start}, {start + wide}, {WIDE}, 0, () => 0);"
                      " return {max: [...c.max], min: [...c.min], coarse: c.coarse, limited: c.limited, width: c.width}; })()")
        assert not got["coarse"] and not got["limited"], got
        pixel = wide / WIDE
        near = max(pixel, min(got["width"], pixel))
        for x in range(0, WIDE, 23):
            a, b = start + x * pixel, start + (x + 1) * pixel
            most, least = truth(changes, a, b)
            around_most, around_least = truth(changes, a - near - 1, b + near + 1)
            assert most <= got["max"][x] <= around_most and around_least <= got["min"][x] <= least, (row, start, wide, x, most, least, got["max"][x], got["min"][x])


def check_peak(page, db, report, by_role, row):
    """At the peak: the report's figures; by each dimension what lived then, as the database says."""
    peak = report["files"][0]["devices"][row]["peak"]["allocated_bytes"]
    page.js(f"vramscope.showPeak(vramscope.recording.rows[{row}])")
    moment = page.wait("document.getElementById('moment') && document.getElementById('moment').dataset.allocated", 10)
    page.wait(f"+document.getElementById('moment').dataset.allocated === {peak}", 10)
    for dim, column in enumerate(("role", "layer", "line", "phase", "tensor")):
        page.key(str(dim + 1))
        page.wait(f"vramscope.view.dim === {dim} && !vramscope.view.later", 10)
        held = page.js("[...document.querySelectorAll('#holders tr')].map((r) => [r.cells[1].title, +r.cells[2].dataset.bytes])")
        assert sum(b for _, b in held) == peak, (column, held, peak, moment)
        if column == "phase":
            want = dict(db.execute("SELECT CASE phase WHEN 'none' THEN 'no phase' ELSE phase END, sum(size_bytes) FROM live_at_peak WHERE device = ? GROUP BY 1", (row,)))
            assert dict(held) == want, (held, want)
        if column == "role":
            rows = by_role["files"][0]["devices"][row]["by_role"]
            want = {}
            for r in rows:
                name = r["role"] or ("made outside any phase" if r["phase"] == "none" else f"made in {r['phase']}")
                want[name] = want.get(name, 0) + r["size_bytes"]
            assert dict(held) == want and (row or "parameter" in want), (held, want)
        if column == "tensor":
            want = dict(db.execute("SELECT CASE made_for WHEN 'tensor' THEN element_type || ' ' || shape WHEN 'raw' THEN 'raw bytes' ELSE 'no tensor is known' END, sum(size_bytes)"
                                   " FROM live_at_peak WHERE device = ? GROUP BY 1", (row,)))
            assert dict(held) == want and "bfloat16 [3, 50]" in want, (held, want)
        if column == "line":
            want = db.execute("SELECT line, sum(size_bytes) FROM live_at_peak WHERE device = ? AND line IS NOT NULL GROUP BY 1 ORDER BY 2 DESC LIMIT 1", (row,)).fetchone()
            assert dict(held).get(want[0]) == want[1], (held, want)
    page.key("1")


def check_click(page, db):
    """A click on an area shows a block that the database has, alive then, with its birth, death and line."""
    place = page.js("(() => { const p = vramscope.view.layout[0], c = p.columns, x = Math.floor(c.n / 2), b = document.getElementById('base').getBoundingClientRect();"
                    " return {x: b.left + p.left + x, y: b.top + p.bottom - 0.3 * (p.bottom - p.top) * c.max[x] / p.scale, t: c.t[x]}; })()")
    page.click(place["x"] + 0.5, place["y"])
    page.wait("document.getElementById('block')", 10)
    seq, size = page.js("(() => { const d = document.getElementById('block').dataset; return [+d.seq, +d.bytes]; })()")
    got = db.execute("SELECT size_bytes, t_alloc_ns, t_free_ns, line, made_for, element_type, shape, request_bytes FROM allocation WHERE alloc_seq = ?", (seq,)).fetchone()
    assert got and got[0] == size and got[1] <= place["t"] and (got[2] is None or got[2] > place["t"]), (got, size, place)
    text = page.js("document.getElementById('block').textContent")
    assert f"{size:,} bytes" in text and (got[3] is None or got[3] in text), (text, got)
    tensor = page.js("[...document.querySelectorAll('#block tr')].filter((r) => r.cells[0].textContent === 'tensor').map((r) => r.cells[1].textContent)")
    assert got[4] == "tensor" and tensor == [f"{got[5]} {got[6]}, {got[7]:,} bytes asked for"], (tensor, got)


def check_tensors(page, db, row):
    """What blocks were asked for as: of each in the page what the database says."""
    want = {seq: (made_for, element_type, shape, request) for seq, made_for, element_type, shape, request in
            db.execute("SELECT alloc_seq, made_for, element_type, shape, request_bytes FROM allocation WHERE device = ?", (row,))}
    kinds = set()
    for seq, size, text in page.js(f"(() => {{ const r = vramscope.recording.rows[{row}], t = r.table; return [...t.seq].map((s, b) => [s, t.size[b], vramscope.tensorOf(r, b)]); }})()"):
        made_for, element_type, shape, request = want[seq]
        words = {None: "", "tensor": f"{element_type} {shape}", "raw": "raw bytes"}[made_for]
        asked = "" if request is None or request == size else f"{request:,} bytes asked for"
        assert text == ", ".join(filter(None, (words, asked))), (seq, text, want[seq])
        kinds.add(made_for)
    assert kinds >= {None, "tensor", "raw"}, kinds


def check_flame(page):
    page.key("f")
    page.wait("document.getElementById('flame').classList.contains('open') && vramscope.flame.root", 10)
    for native in ("false", "true"):
        page.js(f"vramscope.flame.native = {native}; vramscope.drawIcicle()")
        root, all_of = page.js("[vramscope.flame.root.bytes, +document.getElementById('moment').dataset.allocated]")
        assert root == all_of, (native, root, all_of)
        # vramscope's own wrappers are no lines of the program's, nor are those around a module's forward, and a package's file is shown from the package on
        names = page.js("(() => { const all = [], add = (n) => { all.push(n.name); n.children.forEach(add); }; add(vramscope.flame.root); return all; })()")
        for wrapper in "_torch.py", "_call_impl":
            assert any(wrapper in name for name in names) == (native == "true"), (native, wrapper, names)
        assert any(name.endswith(" torch/a.py:9") for name in names) and not any("-packages" in name for name in names), (native, names)


def check_search(page, word):
    page.js(f"(() => {{ const s = document.getElementById('search'); s.value = {json.dumps(word)}; s.dispatchEvent(new Event('input')); }})()")
    page.wait("!vramscope.view.later")
    return page.js("document.getElementById('found').textContent")


def check_random(b, work, seed):
    """A random program, with frees that fail, pools and late classification: its blocks account for all that is allocated, and the greatest
    of all columns is the ledger's peak."""
    sys.path.insert(0, str(SRC / "tests/oracle"))
    from oracle import environment

    directory = work / f"random{seed}"
    directory.mkdir()
    subprocess.run([str(BUILD / "tests/prog_random"), str(seed), str(directory / "log")], env=environment(seed, directory), timeout=60, check=False,
                   stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    vramscope("view", directory / "run.db", "-o", directory / "run.html")
    page = b.open(directory / "run.html")
    page.wait("document.documentElement.dataset.ready")
    for device, peak, most, least_other, most_other, wrong in page.js("""vramscope.recording.rows.map((r) => {
            const c = vramscope.columnsOf(r, 0, r.owner.last + 1, 1500, 0, () => 0), other = [0], wrong = [0];
            for (let x = 0; x < c.n; x++) {
                const held = c.held.subarray(x * 18, x * 18 + 18);
                other.push(held[0]);
                wrong.push(Math.abs(held.reduce((a, b) => a + b, 0) - c.max[x]));
            }
            return [r.device, r.allocated.bytes, Math.max(...c.max), Math.min(...other), Math.max(...other), Math.max(...wrong)];
        })"""):
        assert most == peak and least_other == most_other == wrong == 0, (seed, device, peak, most, least_other, most_other, wrong)


def look(work, browsers=browser.Browser):
    db = make(work / "run.db", "--steps", "40", "--devices", "2", "--fast")
    # what PyTorch says of blocks counts without any access, too
    db.execute("INSERT INTO peak(process, device, kind, peak_bytes) VALUES(1, 1, 'managed', 3 << 20)")
    db.execute("INSERT INTO framework_role SELECT alloc_seq, 1 FROM live_at_peak WHERE device = 0 AND phase = 'none' AND category = 'framework block'")
    # a stack of each block of the program's goes through a package, and through vramscope's own wrapper
    (inner,) = db.execute("SELECT max(id) FROM stack WHERE line IS NOT NULL AND id < 900").fetchone()
    for number, file, name in ((901, "/v/site-packages/torch/a.py", "call"), (902, "/v/share/vramscope/python/vramscope/_torch.py", "call"),
                               (903, "/v/site-packages/torch/nn/modules/module.py", "Module._call_impl")):
        db.execute("INSERT INTO frame(id, kind, function, file, line) VALUES(?, 2, ?, ?, 9)", (number, name, file))
        db.execute("INSERT INTO stack(id, parent, frame, line) SELECT ?, parent, ?, line FROM stack WHERE id = ?", (number, number, inner))
    # device 0's blocks were asked for as tensors, half of device 1's as bytes, the driver's own as neither
    db.execute("INSERT OR IGNORE INTO element_type VALUES(15, 'bfloat16', 2)")
    db.execute("INSERT INTO tensor VALUES(7, 1, 15, 300, '[3, 50]'), (8, 3, NULL, NULL, NULL)")
    for more, tensor in (1000, 7), (2000, 8):
        db.execute(f"INSERT INTO kind SELECT id + {more}, process, api, space, context, stream, thread, status, managed, {tensor} FROM kind WHERE id < 1000")
    db.execute("UPDATE ev SET kind = kind + CASE WHEN device = 1 AND seq % 2 THEN 2000 ELSE 1000 END WHERE op = 20")
    for table in "live", "peak_live":
        db.execute(f"UPDATE {table} SET tensor = (SELECT k.tensor FROM ev e JOIN kind k ON k.id = e.kind WHERE e.seq = alloc_seq) WHERE op = 20")
    db.execute("UPDATE stack SET parent = 901 WHERE id = 902")
    db.execute("UPDATE stack SET parent = 902 WHERE id = 903")
    db.execute("UPDATE stack SET id = 904, parent = 903 WHERE id = ?", (inner,))  # a parent's number is less than its child's
    for (table,) in db.execute("SELECT name FROM sqlite_master m WHERE type = 'table' AND 'stack' IN (SELECT name FROM pragma_table_info(m.name))").fetchall():
        db.execute(f"UPDATE {table} SET stack = 904 WHERE stack = ?", (inner,))
    db.commit()
    other = make(work / "other.db", "--steps", "40", "--extra", "300", "--fast")
    other.close()
    bad = make(work / "bad.db", "--steps", "2")
    bad.execute("UPDATE phase SET name = ? WHERE name = 'logits'", (HOSTILE,))
    bad.execute("UPDATE frame SET function = ? || function", (HOSTILE,))
    bad.execute("UPDATE string SET text = ? || text", (HOSTILE,))
    bad.execute("UPDATE process SET command = ?", (HOSTILE,))
    bad.execute("INSERT INTO tensor VALUES(7, 1, NULL, 300, ?)", (HOSTILE,))
    bad.execute("UPDATE kind SET tensor = 7")
    bad.commit()
    report = json.loads(vramscope("report", "--json", work / "run.db"))
    by_role = json.loads(vramscope("peak", "--by=role", "--json", work / "run.db"))
    vramscope("view", work / "run.db", "-o", work / "run.html")
    vramscope("view", work / "bad.db", "-o", work / "bad.html")
    vramscope("view", work / "other.db", "-o", work / "other.html")
    vramscope("view", "--overlay", work / "run.db", work / "other.db", "-o", work / "two.html")
    with browsers() as b:
        page = b.open(work / "run.html")
        page.wait("document.documentElement.dataset.ready")
        assert page.js("vramscope.view.layout.length") == 2
        for row in 0, 1:
            check_windows(page, db, row)
            check_peak(page, db, report, by_role, row)
        check_flame(page)
        page.key("0")
        page.js("vramscope.show(vramscope.recording.first, vramscope.recording.last)")
        check_click(page, db)
        check_tensors(page, db, 1)
        assert check_search(page, "model.py").startswith("found: ") and check_search(page, "no such name") == "nothing found"
        tensors = sum(n for n, in db.execute("SELECT count(*) FROM ev e JOIN kind k ON k.id = e.kind WHERE e.op = 20 AND k.tensor = 7"))
        assert f"; {tensors:,} blocks in the whole run" in check_search(page, "bfloat16 [3"), (tensors, check_search(page, "bfloat16 [3"))
        check_search(page, "no such name")
        foot = page.js("document.getElementById('footer').textContent")
        assert foot.endswith("\nNot in the picture, each at its peak: page-locked 64.00 MiB, managed 3.00 MiB (device 1)."), foot
        for key in "rucvdn0/":
            page.key(key)
        page = b.open(work / "two.html")
        page.wait("document.documentElement.dataset.ready")
        assert page.js("vramscope.view.overlay && vramscope.recording.rows.length") == 3
        # the panel says whose numbers it has, and the foot what the page holds once
        page.key("2")
        page.wait("vramscope.view.dim === 1 && !vramscope.view.later", 10)
        assert not page.js("document.querySelector('#dims button:disabled')")
        whose = page.js("document.getElementById('details').textContent")
        assert "run.db, device 0" in whose, whose
        foot = page.js("document.getElementById('footer').textContent")
        assert foot.count("exact") == 1 and foot.startswith("This page has all "), foot
        page = b.open(work / "other.html")
        page.wait("document.documentElement.dataset.ready")
        # of a run without tensors none are offered
        for key in "25":
            page.key(key)
        assert page.js("vramscope.view.dim") == 1 and page.js("[...document.querySelectorAll('#dims button')].map((b) => b.textContent + b.disabled).join()") == "rolefalse,layerfalse,linefalse,phasefalse"
        page = b.open(work / "bad.html", 800, 600, dark=True)
        page.wait("document.documentElement.dataset.ready")
        assert page.js("document.title") != "1" and page.js("document.images.length") == 0
        assert page.js("document.getElementById('title').textContent") == HOSTILE
        page.key("p")
        page.wait("document.getElementById('moment')", 10)
        page.key("5")
        page.wait("vramscope.view.dim === 4 && !vramscope.view.later", 10)
        held = page.js("[...document.querySelectorAll('#holders tr')].map((r) => r.cells[1].title)")
        assert f"unknown type {HOSTILE}" in held and page.js("document.images.length") == 0 and page.js("document.title") != "1", held
        page.key("f")
        for seed in 155, 172, 4:
            check_random(b, work, seed)
        assert b.complaints() == [], b.complaints()


if __name__ == "__main__":
    sys.exit(browser.shown(look, "the page says what the report says"))
