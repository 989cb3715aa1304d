"""The steps of refusals.sh that are about figures; the last line of the file names them.

WORK has of each case CASE.whole.db, CASE.limit, CASE.dead.db and .json, CASE.EDITS.said (whatif's answer), CASE.EDITS.db and .json
(of the changed program). "all": asked without an edit; "+" joins two.
"""
import glob
import json
import os
import re
import sqlite3
import subprocess
import sys

MIB = 1 << 20
# case: model, allocator, base (factors of batch and sequence), the last step in which it may die, the phase, and which request of that phase is refused
CASES = {
    "llama-forward": ("llama", "native", "2:1", 2, "forward", "largest"),
    "llama-update": ("llama", "expandable", "1:0.25", 1, "optimizer", "update"),
    "gpt2-logits": ("lengths", "native", "1:1", 4, "logits", "largest"),
    "gpt2-backward": ("lengths", "expandable", "1:1", 4, "backward", "largest"),
    "vit-backward": ("vit", "native", "2:1", 1, "backward", "largest"),
    "resnet-forward": ("cnn", "expandable", "1:1", 2, "forward", "largest"),
    "mixtral-states": ("mixtral", "native", "0.5:0.5", 1, "optimizer", "states"),
    "phi-loss": ("phi", "expandable", "2:1", 2, "logits", "last"),
    "granitemoe-backward": ("granitemoe", "native", "2:1", 2, "backward", "largest"),
    "olmo-states": ("olmo", "expandable", "0.5:0.5", 1, "optimizer", "states"),
}
EDITS = ("loss=fused foreach=no optimizer=fused states=8bit states=bf16 states=host gradients=in-backward checkpoint=1 checkpoint=2 batch=0.5 sequence=0.5 "
         "types=bf16 checkpoint=2+states=bf16 batch=0.5+gradients=in-backward foreach=no+states=8bit").split()
FUSED = ("llama", "lengths")  # the models that vramscope.patch_loss knows
NEARLY = ("llama-forward", "gpt2-logits")  # the limit lacks nine tenths of the request, not half of it, so that some changes are not enough
PLACES = {"forward": 0, "logits": 0, "backward": 1, "optimizer": 2}


def cases(names):
    unknown = [n for n in names.split() if n != "all" and n not in CASES]
    if unknown:
        sys.exit(f"no case {unknown[0]}: there are {' '.join(CASES)}")
    for name, (model, allocator, base, step, _, _) in CASES.items():
        if names == "all" or name in names.split():
            print(name, model, allocator, base, step)


def opened(path):
    if not os.path.exists(path):
        raise FileNotFoundError(path)
    return sqlite3.connect(f"file:{path}?mode=ro", uri=True)


EVENTS = """SELECT e.seq, (SELECT count(*) FROM step s WHERE s.seq < e.seq) + 1, e.phase, e.size_bytes, e.framework_bytes, e.reserved_bytes - e.direct_bytes, s.line, s.layer
            FROM event e LEFT JOIN stack_text s ON s.id = e.stack WHERE e.op = 'block_alloc' AND e.device = 0 AND e.status = 0 ORDER BY e.seq"""


def dies_in(path, allocator, limit):
    """The phase in which the recorded program runs out of memory under LIMIT MiB, as whatif replays it; None where it does not."""
    how = [os.environ["V"], "whatif", "--json", "--policy=torch-" + allocator, f"--capacity={int(limit * MIB)}", path]
    answer = json.loads(subprocess.run(how, capture_output=True, text=True, check=True).stdout)["devices"][0]["policies"][0]
    at = answer["ran_out_ns"]
    row = at is not None and opened(path).execute("SELECT phase FROM event WHERE op = 'block_alloc' AND t_ns = ? AND size_bytes = ?", (at, answer["ran_out_request_bytes"])).fetchone()
    return row[0] if row else None


def limits_of(case, path):
    """Limits under which the program should die at the case's place, the best first.  A limit lies between what was held at most before a request and what was held with
    it, so that nothing before it is refused.  Where both are the same, it lies between what was allocated."""
    *_, step, phase, kind = CASES[case]
    share = 0.1 if case in NEARLY else 0.5
    steps, most_allocated, most_reserved = {}, 0, 0
    for _, at, where, size, allocated, reserved, _, _ in opened(path).execute(EVENTS):
        if at <= step and where == phase and allocated > most_allocated and size >= MIB:
            limits = most_reserved + int(share * min(size, reserved - most_reserved)), most_allocated + int(share * (allocated - most_allocated))
            exact = reserved > most_reserved and allocated > limits[0]
            steps.setdefault(at, []).append((exact, size, limits[0] if exact else limits[1]))
        most_allocated, most_reserved = max(most_allocated, allocated), max(most_reserved, reserved)
    if not steps:
        sys.exit(f"{case}: no request in {phase} is the most so far")
    found = steps[max(steps)]  # where what comes before the wanted step takes more, an earlier one
    if kind in ("states", "update"):  # one of the first half of the step's requests, or of its last sixth
        part = found[: len(found) // 2] if kind == "states" else found[-max(1, len(found) // 6):]
        found = part or found
    best = [f for f in found if f[0]] or found
    order = best[::-1] if kind == "last" else sorted(best, key=lambda f: -f[1])
    every = [f for at in sorted(steps, reverse=True) for f in sorted(steps[at], key=lambda f: -f[1])]
    return list(dict.fromkeys(f[2] / MIB for f in order + every))


def plan(case, path):
    """Prints the first limit under which a replay dies where the case wants it.  Of blocks on the CPU nothing is held that is not allocated, and the first limit is right."""
    _, allocator, _, _, phase, _ = CASES[case]
    limits = limits_of(case, path)
    tried = [] if os.environ.get("CPU_BLOCKS") else limits[:40]
    print(f"{next((x for x in tried if PLACES.get(dies_in(path, allocator, x)) == PLACES[phase]), limits[0]):.3f}")


def edits_of(path):
    """The case and the edits of a file named CASE.EDITS.said."""
    case, edits = os.path.basename(path).rsplit(".", 1)[0].split(".", 1)
    return case, edits


def refusal_of(path):
    try:
        return json.load(open(path))["devices"][0]["refusal"]
    except (OSError, ValueError, LookupError, TypeError):
        return None


def gather(work):
    """What was said, by case: "changes" has whatif's sentence of each edit, and of the pairs that its answer without an edit names; "none" has why there is no sentence."""
    said = {}
    for path in sorted(glob.glob(work + "/*.said")):
        case, edits = edits_of(path)
        answer = refusal_of(path)
        rows = said.setdefault(case, {"why_not": None, "changes": {}, "none": {}})
        if answer is None or answer["why_not"] or not answer["changes"]:
            why = answer["why_not"] if answer else open(path[: -len("said")] + "why").read().strip()
            if edits == "all":
                rows["why_not"] = answer and (why or "nothing frees anything")  # of another limit than the recorded one whatif has no answer without an edit
            else:
                rows["none"][edits] = why or "no answer"
            continue
        rows.update(capacity=answer["capacity_bytes"], request=answer["request_bytes"], policy=answer["policy"])
        for c in answer["changes"]:
            if edits != "all" or " " in c["edit"]:
                rows["changes"].setdefault(c["edit"].replace(" ", "+"), c)
    return said


def jobs(work, path):
    said = gather(work)
    lines = []
    for case, rows in said.items():
        model, allocator, base, step, _, _ = CASES[case]
        for edits in list(rows["changes"]):
            if ("loss=fused" in edits and model not in FUSED) or ("sequence" in edits and model in ("vit", "cnn")):
                rows["none"][edits] = "the program does not know the change"
                del rows["changes"][edits]
                continue
            limit = open(f"{work}/{case}.limit").read().strip()
            lines.append((EDITS.index(edits) if edits in EDITS else len(EDITS), " ".join((case, allocator, model, str(step), base, limit, *edits.split("+")))))
    json.dump(said, open(path, "w"), indent=1)
    for _, line in sorted(lines):  # by edit: if time runs out, every case lacks the same edits
        print(line)


def refused_of(db):
    """The last request that a framework gave up on (op 22): its call, and what was allocated and held when it was refused.  None: there was none."""
    row = db.execute("""SELECT o.seq, p.name, o.requested_bytes, o.framework_bytes, o.managed_reserved_bytes, s.line, s.layer, o.step FROM oom o
        LEFT JOIN phase p ON p.id = o.phase LEFT JOIN stack_text s ON s.id = o.stack WHERE o.op = 22 ORDER BY o.seq DESC LIMIT 1""").fetchone()
    return dict(zip(("seq", "phase", "size", "allocated", "reserved", "line", "layer", "step"), row)) if row else None


def granted(db, o):
    """The requests of the same call in the same phase that passed: the size of each, and what was allocated and held after it."""
    return [e[3:6] for e in db.execute(EVENTS) if (e[2], e[6], e[7]) == (o["phase"], o["line"], o["layer"])]


def outcome(dead, died, row, db):
    """Whether the request passed in the changed program, whose end is ROW and whose recording is DB; and what was (allocated, held) after it, or None."""
    if row["refused"] and row["place"] == "model":  # before the first step
        return False, None
    position = (died["step"], PLACES[died["place"]])
    ended = (row["step"], PLACES[row["place"]]) if row["refused"] else (1 << 30, 0)
    if died["place"] == "optimizer":  # other optimizers make other requests, so states are counted instead
        return ended > position or (ended == position and died["states"] < row["states"]), None
    number, passed = len(granted(dead["db"], dead)), granted(db, dead)
    if len(passed) > number:
        return True, passed[number][1:]
    return ended > position, None


def judge_one(work, case, edits, said, dead, died, policy):
    """A row of the table, and what is false about it.  DEAD is the refused request, as recorded; DIED is where the program says that it died."""
    row = json.load(open(f"{work}/{case}.{edits}.json"))
    db = opened(f"{work}/{case}.{edits}.db")
    passed, behind = outcome(dead, died, row, db)
    own = refused_of(db) if row["refused"] else None
    says = said["says"]
    false = []
    if says != "this request may have passed" and passed != (says != "not enough alone"):
        false.append(f"said '{says}'")
    if says == "this request would not be made" and behind:
        false.append("it was made")
    if says == "this request would have passed" and passed and not behind and died["place"] != "optimizer":
        says += " (it was not made)"
    happened = "passed" if passed else f"refused {own['size'] / MIB:.1f} in {own['phase']}" if own else "refused"
    freed = said_freed = left = None
    if behind:
        freed = dead["allocated"] + dead["size"] - behind[0]
        left = dead["limit"] - (behind[0] if policy == "live" else behind[1])
    elif not passed and own and own["phase"] == dead["phase"] and own["line"] == dead["line"]:
        freed = dead["allocated"] + dead["size"] - own["allocated"] - own["size"]
        left = dead["limit"] - own["size"] - (own["allocated"] if policy == "live" else own["reserved"])
    said_freed = said["frees_bytes"]
    return {"says": says, "happened": happened, "freed": freed, "said_freed": said_freed, "left": left, "said_left": said["room_bytes"], "false": false,
            "open": says.startswith("this request may"), "earlier": said["earlier"]}


def mib(x):
    return "" if x is None else f"{x / MIB:.1f}"


def judge(work, path, out):
    said = json.load(open(path))
    true, false, unsure, lost, near, far = 0, [], 0, [], 0, []
    lines = ["| case | edit | said | happened | freed: said at least | measured | left: said | measured |", "| --- | --- | --- | --- | ---: | ---: | ---: | ---: |"]
    rows = []
    for case, answers in said.items():
        try:
            died = json.load(open(f"{work}/{case}.dead.json"))
            dead = refused_of(opened(f"{work}/{case}.dead.db"))
            if not died["refused"]:
                raise ValueError("it did not die")
            dead.update(db=opened(f"{work}/{case}.dead.db"), limit=float(open(f"{work}/{case}.limit").read()) * MIB)
        except (OSError, ValueError, AttributeError, sqlite3.Error) as error:
            lost.append(f"{case}: {error}")
            continue
        lines.append(f"| {case} | - | {dead['size'] / MIB:.1f} MiB in {dead['phase']} of step {died['step']}, {CASES[case][1]} | refused | | {mib(dead['allocated'])} allocated | "
                     f"| {mib(dead['limit'] - dead['reserved'])} of {dead['limit'] / MIB:.0f} |")
        if PLACES.get(dead["phase"]) != PLACES[CASES[case][4]]:
            lost.append(f"{case}: died in {dead['phase']} of step {died['step']}")
        if answers["why_not"]:
            lost.append(f"{case}: {answers['why_not']}")
        for edits, why in answers["none"].items():
            lines.append(f"| {case} | {edits} | {why[:90]} | | | | | |")
        for edits, one in answers["changes"].items():
            try:
                r = judge_one(work, case, edits, one, dead, died, answers.get("policy"))
            except (OSError, ValueError, KeyError, sqlite3.Error) as error:
                lost.append(f"{case} {edits}: no figures: {error}")
                continue
            rows.append({"case": case, "edit": edits, **r})
            lines.append(f"| {case} | {edits} | {r['says']}{', earlier' if r['earlier'] else ''} | {r['happened']}{' FALSE' if r['false'] else ''} | {mib(r['said_freed'])} | {mib(r['freed'])} | "
                         f"{mib(r['said_left'])} | {mib(r['left'])} |")
            true, unsure = true + (not r["false"] and not r["open"]), unsure + r["open"]
            false += [f"{case} {edits}: {r['happened']}: {x}" for x in r["false"]]
            for what, least in (("freed", True), ("left", False)):
                if r[what] is None or r["said_" + what] is None:
                    continue
                off = r[what] - r["said_" + what]
                good = off >= -0.0025 * dead["limit"] if least else abs(off) <= 0.03 * dead["limit"]
                near += good
                if not good:
                    far.append(f"{case} {edits}: {what} {mib(r[what])}, said {mib(r['said_' + what])} ({100 * off / dead['limit']:+.1f} % of the limit)")
    lines += ["", f"{near} figures near what was said (freed: at least that less 0.25 % of the limit; left: within 3 % of the limit), {len(far)} far"]
    lines += ["far: " + x for x in far] + ["false: " + x for x in false] + ["no answer: " + x for x in lost]
    lines.append(f"{true} sentences true, {len(false)} false, {unsure} left open, {len(lost)} without an answer")
    print("\n".join(lines))
    json.dump(rows, open(out, "w"), indent=1)
    return bool(false) or 4 * len(lost) > true


def sentences_of(names, text):
    """What TEXT says of the changes that are named, in the order in which they stand there: a sentence each."""
    text = re.split(r" (?:passes|by luck|may pass|not made|not reached|left|reserved): ", text)[0]  # what the words mean comes behind
    starts, at = [], 0
    for name in names:
        found = re.compile(re.escape(name) + " (?:frees|needs) ").search(text, at)
        if not found:
            return None
        starts.append(found.start())
        at = found.end()
    return [text[a:b].strip() for a, b in zip(starts, starts[1:] + [len(text)])]


def best_of(work, cases_said):
    """Whether report names the same three changes as whatif, word for word."""
    bad, compared = [], 0
    for case in json.load(open(cases_said)):
        names = [c["edit"] for c in (refusal_of(f"{work}/{case}.all.said") or {"changes": []})["changes"]]
        whatif, report = (re.sub(r"\s+", " ", open(f"{work}/{case}.{x}.txt").read()) if names else "" for x in ("whatif", "report"))
        sentences = sentences_of(names, whatif)
        if sentences is None:
            bad.append(f"{case}: whatif's text has not the changes of its JSON")
            continue
        compared += len(sentences[:3])
        bad += [f"{case}: report has not '{s[:100]}'" for s in sentences[:3] if s not in report]
    print("\n".join(bad) if bad else f"report has whatif's first three, word for word: {compared} sentences")
    return bool(bad) or not compared


if __name__ == "__main__":
    steps = {"cases": cases, "plan": plan, "jobs": jobs, "judge": judge, "best": best_of, "edits": lambda: print(*EDITS)}
    sys.exit(steps[sys.argv[1]](*sys.argv[2:]))
