#!/bin/bash
# llama.sh TREE OUT - a decoder like Llama 3 with the eager and with the fused loss: what the logits cost, predicted and measured, at
# several token counts; that training goes the same way; and a model for which the fused loss does little.
#
# scripts/llama_plot.sh draws OUT/llama.tsv. LLAMA_PARTS (binding sweep losses counter): these alone. Needs 90 GiB and TREE's kernels;
# 4 minutes.
python=python3
. "$(dirname "$0")/gpu.bash"
parts=" ${LLAMA_PARTS:-binding sweep losses counter} "
examples=$tree/share/vramscope/examples
need
export PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$examples:$tree/share/vramscope/python
tsv=$out/llama.tsv
rm -f "$tsv" "$out/llama.tgz"
report() { python3 "$here/llama_report.py" "$@" || failed=1; }
keep() { (cd "$work" && tar -czf "$out/llama.tgz.part" -- * && mv "$out/llama.tgz.part" "$out/llama.tgz"); }
has() { case $parts in *" $1 "*) ;; *) return 1 ;; esac; }

# train NAME ARGUMENTS...: its facts in NAME.json, its output in NAME.log
train() {
    local name=$1
    shift
    timeout --kill-after=5 100 "${recorder[@]}" python3 "$examples/torch_llama.py" --facts "$work/$name.json" "$@" >"$work/$name.log" 2>&1 || {
        echo "FAIL: torch_llama.py $* (status $?)"
        tail -n 12 "$work/$name.log"
        failed=1
        return 1
    }
}

# recorded SETUP LOSS ARGUMENTS...: one run under vramscope, its peaks in the table.  SETUP: NAME:TOKENS:LAYERS:STATE
recorded() {
    local setup=$1 loss=$2 tokens layers state name
    shift 2
    IFS=: read -r name tokens layers state <<<"$setup"
    name=$name-$tokens-$loss
    rm -f "$work/$name.db"
    recorder=("$tree/bin/vramscope" run -o "$work/$name.db" --)
    train "$name" --loss "$loss" --tokens "$tokens" --layers "$layers" --state-dtype "$state" "$@" &&
        report read "$tsv" "$work/$name.db" "$work/$name.json" "$setup" "$loss"
    recorder=()
    if [ "$loss" = eager ] && "$tree/bin/vramscope" report --json "$work/$name.db" >"$work/$name.report.json"; then
        report bound "$tsv" "$work/$name.report.json" "$setup"
    fi
}

recorder=()
sweep=(sweep:8192:2:bf16 sweep:2048:2:bf16 sweep:4096:2:bf16 sweep:16384:2:bf16 sweep:32768:2:bf16)
# 44 of the 51 GiB that its 3.7 billion parameters take, at 14 bytes each, are optimizer states
counter=counter:4096:12:fp32
has sweep || sweep=()
has counter || counter=
between=() # points between, for the lines of the plot
for tokens in 1024 3072 6144 12288 20480 24576 28672; do between+=("sweep:$tokens:2:bf16"); done
# shellcheck disable=SC2086
report predict "$tsv" "${sweep[@]}" $counter
has sweep && report predict "$tsv" "${between[@]}" >/dev/null

for setup in "${sweep[@]}"; do
    for loss in eager fused; do recorded "$setup" $loss --steps 5; done
    if [ "$setup" = sweep:8192:2:bf16 ]; then
        for loss in eager fused; do "$tree/bin/vramscope" report --all "$work/sweep-8192-$loss.db" >"$work/sweep-8192-$loss.report"; done
        keep
    fi
done
find "$work" -name 'sweep-*.db' ! -name 'sweep-8192-*' -delete
echo "after the token counts: $SECONDS s"

# nothing from here on is timed: side by side
if has binding; then
    BINDING=$tree/share/vramscope/python timeout --kill-after=5 150 python3 "$here/../e2e/cross_entropy/cross_entropy_binding.py" cuda >"$work/binding.log" 2>&1 &
    binding=$!
fi
if has losses; then
    pids=()
    for loss in eager fused halves; do
        train "losses-$loss" --loss $loss --tokens 4096 --steps 60 &
        pids+=($!)
    done
    wait "${pids[@]}"
    report losses "$work"/losses-{eager,fused,halves}.json
    keep
    echo "after the losses: $SECONDS s"
fi
if [ -n "$counter" ]; then
    for loss in eager fused; do recorded $counter $loss --steps 4; done
    "$tree/bin/vramscope" report --all "$work/counter-4096-eager.db" >"$work/counter.report" 2>&1
    sed -n '/what would lower/,/^$/p' "$work/counter.report"
    if grep -q 'static memory, there' "$work/counter.report"; then
        echo "ok    the report of the counter-example says that static memory dominates"
    else
        echo "FAIL  the report of the counter-example does not speak of static memory"
        failed=1
    fi
    rm -f "$work"/counter-*.db
fi
if has binding; then
    if wait "$binding"; then
        echo "ok    the binding on the GPU: $(tail -n 1 "$work/binding.log")"
    else
        echo "FAIL  the binding on the GPU"
        grep -A 14 FAIL "$work/binding.log" | tail -n 60
        tail -n 3 "$work/binding.log"
        failed=1
    fi
fi
echo
report table "$tsv" >"$work/table.txt"
cat "$work/table.txt"
cp "$tsv" "$work/llama.tsv"
keep
echo "took $SECONDS s"
exit $failed
