#!/bin/bash
# What a report says another loss could save is what the fused loss saves, to the byte: its peak is the bound, its own workspace and the
# gradient of the last
# hidden state.
. "$(dirname "$0")/../lib/lib.bash"
[ -x "$BUILD/bin/train_lm" ] || skip "there is no train_lm in this build"
text=$(cd "$(dirname "$0")/../../.." && pwd)/LICENSE
rows=512 hidden=32 vocab=2048
train() { # NAME OPTION...
    local name=$1
    shift
    "$V" run -o "$dir/$name.db" -- "$BUILD/bin/train_lm" --batch $rows --hidden $hidden --vocab $vocab --rate 0.01 --steps 12 "$@" \
        "$text" >"$dir/$name.log" 2>&1
    grep -qE '^(ok|fail: the loss did not fall):' "$dir/$name.log" || fail "train_lm $*: $(tail -n 3 "$dir/$name.log")"
    "$V" report --json "$dir/$name.db" >"$dir/$name.json" || fail "report $name"
}
train naive --loss naive
train fused --loss fused
# no step is ever told whole: nothing may be said
"$V" run -o "$dir/killed.db" -- "$BUILD/bin/train_lm" --steps 1 --batch 64 --vocab 300 --hidden 8 "$text" >/dev/null 2>&1
sqlite3 "$dir/killed.db" "DELETE FROM step"
"$V" report --all "$dir/killed.db" | grep -q "what would lower the peak: unknown, " || fail "it is not said why nothing is known"

python3 - "$dir" $rows $hidden $vocab <<'PY' || fail "the prediction (above)"
import json, sqlite3, sys
where, rows, hidden, vocab = sys.argv[1], *map(int, sys.argv[2:])

def device(name):
    return json.load(open(f"{where}/{name}.json"))["files"][0]["devices"][0]

def backwards_own(name):
    """What backward had made when the peak was reached, and freed itself."""
    db = sqlite3.connect(f"{where}/{name}.db")
    return [r[0] for r in db.execute("""SELECT a.size_bytes FROM allocation a, peak p JOIN event f ON f.seq = a.free_seq
        WHERE p.kind = 'allocated' AND p.device = 0 AND a.alloc_seq <= p.seq AND a.free_seq > p.seq AND a.phase = 'backward'
        AND f.phase = 'backward' ORDER BY a.alloc_seq""")]

def static(name):
    """Weights and AdamW's two moments: what lives from before the peak's step to after it, counted from all events."""
    db = sqlite3.connect(f"{where}/{name}.db")
    seq = db.execute("SELECT seq FROM peak WHERE kind = 'allocated' AND device = 0").fetchone()[0]
    last = db.execute("SELECT min(seq) FROM step WHERE seq >= ?", (seq,)).fetchone()[0]
    first = db.execute("SELECT max(seq) FROM step WHERE seq < ?", (seq,)).fetchone()[0]
    return db.execute("SELECT sum(size_bytes) FROM allocation WHERE alloc_seq <= ? AND (free_seq IS NULL OR free_seq > ?)", (first, last)).fetchone()[0]

def floor(name):
    """The peak of its step without what logits makes, and backward makes and frees: counted block by block."""
    db = sqlite3.connect(f"{where}/{name}.db")
    seq = db.execute("SELECT seq FROM peak WHERE kind = 'allocated' AND device = 0").fetchone()[0]
    last = db.execute("SELECT min(seq) FROM step WHERE seq >= ?", (seq,)).fetchone()[0]
    first = db.execute("SELECT max(seq) FROM step WHERE seq < ?", (seq,)).fetchone()[0] + 1
    phase = dict(db.execute("SELECT seq, phase FROM event"))
    blocks = db.execute("""SELECT alloc_seq, free_seq, size_bytes, phase FROM allocation
                           WHERE device = 0 AND NOT managed AND alloc_seq <= ?""", (last,)).fetchall()
    best = 0
    for at, total in db.execute("""SELECT seq, allocated_bytes FROM event WHERE device = 0 AND seq BETWEEN ? AND ?
                                   AND op IN ('alloc', 'free', 'block_alloc', 'block_free')""", (first, last)).fetchall():
        left = whole = 0
        for made, freed, size, born in blocks:
            if made > at or (freed is not None and freed <= at):
                continue
            whole += size
            stays = made < first and (freed is None or freed > last)
            own = born == "logits" or (born == "backward" and made >= first and freed is not None and freed <= last
                                       and phase[freed] == "backward")
            left += size if stays or not own else 0
        assert whole == total, (at, whole, total)
        best = max(best, left)
    return best

for name in ("naive", "fused"):
    d = device(name)
    peak, s = d["peak"]["allocated_bytes"], d["savings"]
    print(name, peak, s)
    assert s["static_bytes"] == static(name), name
    assert s["peak_without_bytes"] == floor(name), (name, floor(name))
    assert s["step_saves_at_most_bytes"] == peak - s["static_bytes"] - s["made_by_optimizer_bytes"]
    assert s["phases_save_at_most_bytes"] == peak - s["peak_without_bytes"]
    assert s["static_bytes"] <= s["peak_without_bytes"] <= peak
naive, fused = device("naive"), device("fused")
assert naive["savings"]["without_phases"] == ["logits", "backward"]
bound, really = naive["savings"]["peak_without_bytes"], fused["peak"]["allocated_bytes"]
assert bound == fused["savings"]["peak_without_bytes"], "the same program without its loss is the same"
gradient, workspace = backwards_own("fused")  # of the last hidden state; of the fused loss
assert gradient == rows * hidden * 4 and workspace < 1.2 * rows * vocab * 4 / 16, (gradient, workspace)
assert really == bound + gradient + workspace, (really, bound, gradient, workspace)
PY
"$V" report --all "$dir/naive.db" >"$dir/page"
tr -s "\n " " " <"$dir/page" | grep -q "static memory, there before the step and after it, is .* of the peak.s .*): less" || fail "no word of static memory"
tr -s "\n " " " <"$dir/page" | grep -q "without what logits makes, and backward makes and frees again, it would be at least " || fail "no word of the loss"
"$V" peak "$dir/naive.db" | grep -q "what would lower the peak (step " || fail "peak does not say it"
echo "the bound is what the fused loss then had"
