"""What bench_ce makes of numbers, without a GPU and without PyTorch: bench_ce_tables.py WORK DB NOTES."""
import json
import sys

import bench_ce as B
import bench_ce_memory
import bench_ce_table as T

MIB = 1 << 20
checks = failures = 0


def equal(what, got, want):
    global checks, failures
    checks += 1
    if got != want:
        failures += 1
        print(f"FAIL: {what}:\n  got    {got!r}\n  wanted {want!r}")


def contains(what, part, whole):
    equal(f"{what}: {part!r} is in it", part in whole, True)


# ---- memory from a recording ----


def memory(database, notes):
    found, lost = bench_ce_memory.read(database, notes)
    by_name = {key[2]: value for key, value in found.items()}
    names = "allocated_bytes", "torch_allocated_bytes", "outside_bytes", "kept_bytes", "counters"
    figures = lambda name: tuple(by_name[name][column] for column in names)
    equal("nothing was lost", lost, 0)
    equal("a workspace of 4 MiB", figures("plain"), (4 * MIB, 4 * MIB, 0, 0, "equal"))
    equal("its segments beyond the gradients' bytes", by_name["plain"]["reserved_bytes"], 5 * MIB)  # 4 + 2 + 2 of 3
    equal("as the allocator counts them", by_name["plain"]["torch_reserved_bytes"], 5 * MIB)
    equal("a workspace of no power of two", figures("odd"), (700 << 10, 700 << 10, 0, 0, "equal"))
    equal("what comes from the driver itself", figures("direct"), (7 * MIB, MIB, 6 * MIB, 0, "equal"))
    equal("what the first call keeps is no part of the later call", figures("keeping"), (MIB, MIB, 0, 32 * MIB, "equal"))
    equal("the library that keeps it", by_name["keeping"]["outside_owners"].split()[-1], str(32 * MIB))
    equal("segments grow by no less than the gradients, or took what was there",
          [bench_ce_memory.grown(*figures) for figures in ((9, 4, 3), (9, 4, 5), (9, 4, 6))], [2, 0, None])
    equal("a failure is one line", by_name["failing"], {"failure": "what a peer says\nwhen it fails"})


def altered_memory(work, database, notes):
    """Counters that are off by one block are seen."""
    lines = [json.loads(line) for line in open(notes)]
    lines[0]["peak"] += 512
    lines[1]["id"] = 99
    with open(work + "/altered", "w") as out:
        out.writelines(json.dumps(line) + "\n" for line in lines)
        out.write('{"cut off')
    found, _ = bench_ce_memory.read(database, work + "/altered")
    contains("a counter that is off", "DIFFER", found["1x2x3", "random", "plain"]["counters"])
    contains("a range that is not there", "0 recorded", found["1x2x3", "random", "odd"]["failure"])
    equal("a note that was cut off is none", len(found), 5)


# ---- rounds ----


class FakeClock:
    """Each call says itself how long it took."""

    def __init__(self):
        self.order = []

    def __call__(self, function):
        name, value = function()
        self.order.append(name)
        return value


def says(name, *values):
    left = list(values)

    def call():
        value = left.pop(0)
        if isinstance(value, Exception):
            raise value
        return name, value

    return call


def rounds():
    clock = FakeClock()
    methods = {"GEMM alone": says("GEMM alone", 99, 10, 20, 30), "a": says("a", 99, 20, 20, 40),
               "b": says("b", 99, 5, ValueError("no"), 5), "c": says("c", 99, None, 40, 60)}
    r = B.Rounds(clock, methods, 0.5, 0)
    r.run(0, (), least=3, most=12)
    equal("the first round is not counted", r.times["a"], [20, 20, 40])
    equal("shares are of the same round's GEMM", r.shares["a"], [0.25, 0.5, 0.375])
    equal("a call that asked the driver for memory is not counted", r.times["c"], [40, 60])
    equal("a failure ends a method, not the round", (r.times["b"], list(r.failures)), ([5], ["b"]))
    equal("each round begins with another method", clock.order[4:8] + clock.order[8:9], ["GEMM alone", "a", "b", "c", "a"])
    slow = B.Rounds(FakeClock(), {"quick": says("quick", *range(9)), "slow": says("slow", *range(9))}, 1, 0)
    slow.run(float("inf"), {"slow"}, least=3, most=6)
    equal("a slow method sits out after three rounds", (len(slow.times["quick"]), len(slow.times["slow"])), (6, 3))


def warmed(work):
    with open(work + "/warm", "w") as out:
        out.write('{"shape": "1x2x3", "method": "CCE"}\n{"shape": "1x2x3", "method": "CCE", "failure": ""}\n')
        out.write('{"shape": "1x2x3", "method": "QuACK"}\n{"shape": "1x2x3", "meth')
    equal("a first call that never came back", B.read_warm([work + "/warm"]),
          {("1x2x3", "CCE"): "", ("1x2x3", "QuACK"): "its first call did not come back"})


# ---- the table ----


def row(method, kind="random", shape="8192x4096x128256", burst=(), memory=None, errors=(None,) * 3, share=(), **values):
    made = T.Row(shape, kind, method, allocated_bytes=memory, **values)
    made["error_loss"], made["error_dx"], made["error_dw"] = errors
    made.times(burst, share)
    return made


def sample():
    return [
        row("GEMM alone", burst=(32.0, 31.0, 33.0), share=(1.0, 1.0)),
        row("ours fast", burst=(34.4, 34.2, 34.3), share=(0.95, 0.96, 0.94), memory=501 * MIB, errors=(1e-6, 1.6e-3, 1.5e-3), note="chunks"),
        row("ours lean", burst=(39.1,), memory=125.25 * MIB, errors=(3e-6, 6e-3, 1.5e-3),
            kept_bytes=float(32 * MIB), outside_owners="libx.so 33554432", counters="equal"),
        row("ours fast, fp32 main_grad", burst=(30.0,), memory=MIB),
        row("PyTorch eager", burst=(46.0, 48.0), memory=10990 * MIB, errors=(1e-6, 1.6e-3, 1.3e-3)),
        row("Liger", burst=(35.0,), memory=125.25 * MIB),
        row("CCE", burst=(50.0,), memory=MIB, counters="DIFFER: by much"),
        row("QuACK", failure="was not there\n\tat all"),
        row("ours fast", kind="peaked", burst=(36.0,), memory=502 * MIB),
    ]


def table(work):
    rows, path = sample(), work + "/sample.tsv"
    with open(path, "w") as out:
        out.write(T.header() + "\n# a GPU\n" + "".join(one.line() + "\n" for one in rows))
        out.write(rows[1].line()[:40])
    comments, again = T.read(path)
    equal("a file that was cut off is read up to there", (comments, len(again)), (["a GPU"], len(rows)))
    equal("numbers come back as they were", [dict(one) for one in again[:7]], [dict(one) for one in rows[:7]])
    equal("median, least, most", [again[1][f"burst_{x}"] for x in ("ms", "min_ms", "max_ms", "calls", "of_gemm")], [34.3, 34.2, 34.4, 3, 0.95])
    equal("a failure is one line", again[7]["failure"], "was not there at all")
    page = T.markdown(comments, again)
    contains("the page", "### N=8192 H=4096 V=128256, random", page)
    contains("the page", "| ours fast | 34.30 (34.20–34.40) | 95.0 % | 501.0 | unknown | unknown | unknown | 1.0e-06 | 1.6e-03 | 1.5e-03 |", page)
    contains("the page", "MiB reserved: by how much PyTorch's segments grew from an emptied cache", page)
    contains("the page", "agree to the byte for 1 of 2 methods.\n\nCCE: DIFFER: by much\n", page)
    contains("the page", "Kept outside PyTorch by the first call: ours lean 32.0 MiB (libx.so 33554432).", page)
    contains("the page", "Not measured: QuACK: was not there at all", page)
    with open(path, "a") as out:
        out.write("\nthree\tfields\there\n")
    try:
        T.read(path)
        equal("a file of other columns is refused", "it was read", "")
    except ValueError as error:
        contains("a file of other columns is refused", f"fields, not {len(T.COLUMNS)}", str(error))


def main():
    work, database, notes = sys.argv[1:]
    memory(database, notes)
    altered_memory(work, database, notes)
    rounds()
    warmed(work)
    table(work)
    print(f"{checks - failures} passed, {failures} failed")
    return failures != 0


if __name__ == "__main__":
    sys.exit(main())
