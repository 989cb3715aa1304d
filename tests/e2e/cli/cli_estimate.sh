#!/bin/bash
# `vramscope estimate` reads flags and a config.json; beside a recording rows, phases and the gap add up, and nothing is said that was not
# measured.
# Figures of public reports: test_formulas.c.  Bad input: test_model.c, next_command.txt.
. "$(dirname "$0")/../lib/command.bash"
# says WHAT PATTERN COMMAND...: a line of what the command prints matches
says() {
    local what=$1 pattern=$2
    shift 2
    "$V" estimate "$@" >out 2>err || no "$what: status $?: $(cat err)"
    grep -qE "$pattern" out || no "$what: no line '$pattern': $(cat out)"
}
qwen14='{"model_type": "qwen2", "hidden_size": 5120, "intermediate_size": 13824, "num_hidden_layers": 48, "num_attention_heads": 40, "num_key_value_heads": 8, "vocab_size": 152064, "tie_word_embeddings": false}'
mkdir qwen14 && echo "$qwen14" >qwen14/config.json
falcon='{"model_type": "falcon", "hidden_size": 4544, "num_hidden_layers": 32, "num_attention_heads": 71, "vocab_size": 65024, "bias": false, "multi_query": true, "parallel_attn": true, "new_decoder_architecture": false, "tie_word_embeddings": true}'
echo "$falcon" >falcon.json

says "Qwen2.5-14B's parameters" '^qwen2, 14,770,033,664 parameters' qwen14
says "72B over 32 GPUs" '^  parameters  *4.19 GiB' --params=72e9 --vocab=151646 --hidden=8192 --recipe=mixed-fp32-gradients --gather=fp32 --zero=3 --gpus=32
[ "$(grep -cE '^  (gradients  .* 8.38 GiB|optimizer states  .* 25.15 GiB|optimizer temporaries .* 8.38 GiB|gathered parameters  *4.63 GiB)' out)" = 4 ] || no "72B: $(cat out)"
# the class says what stands behind the layers: of a classifier no logits, nor an output layer
classifier='{"model_type": "qwen2", "architectures": ["Qwen2ForSequenceClassification"], "num_labels": 1, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28, "num_key_value_heads": 4, "vocab_size": 152064}'
echo "$classifier" >classifier.json
says "a classifier's parameters" "^qwen2, 7,070,622,720 parameters .*, labels behind the" classifier.json --seq=4096
grep -qE '^  gradients of the output|log-softmax' out && no "a classifier has logits of a vocabulary: $(cat out)"
says "without a class" '^no class is named \(architectures\): taken as a causal language model$' qwen14
# a mixture of experts by flags: no dense figure, and totals are bounds
says "a mixture of experts by flags" '^  activations  *unknown  *unknown  *unknown  *-$' --params=2.62B --layers=4 --hidden=2048 --heads=32 --vocab=32000 --recipe=bf16 --seq=4096
grep -qE '^  allocated  *≥ .*≥ .*≥ ' out && tr -s '\n ' ' ' <out | grep -qF 'a mixture of experts keeps more than any formula here says' || no "experts: $(cat out)"
grep -q '▸' out && no "experts: a peak is marked that is not known"

# a phase with a row that is unknown may be the highest: none is marked; a total is a bound where a row of its own is unknown
says "totals without --seq" '^  allocated  *≥ [0-9.]+ GiB  *≥ [0-9.]+ GiB  *≥ [0-9.]+ GiB  *[0-9.]+ GiB$' --params=8B
grep -q '▸' out && no "a peak is marked that is not known: $(cat out)"
says "totals with --seq" '▸' falcon.json --recipe=bf16 --seq=16

# beside a recording: with roles
make_db run.db
sqlite3 run.db "INSERT INTO framework_role SELECT alloc_seq, 1 FROM live_at_peak WHERE category = 'framework block' AND phase = 'none'" || exit 1
says "beside a recording" '^  allocated .* 6.96 GiB' falcon.json --recipe=bf16 --seq=128 run.db
grep -q "^  parameters  *12.89 GiB *1.41 GiB" out || no "the parameters beside each other: $(cat out)"
grep -q 'made in optimizer .* - .* 2.81 GiB' out || no "blocks of the optimizer that live at another peak are no temporaries: $(cat out)"
sqlite3 run.db "UPDATE phase SET name = 'back' WHERE name = 'backward'" || exit 1 # without it lives show no role
says "beside a recording, by births" '^  allocated .* 6.96 GiB' falcon.json --recipe=bf16 --seq=128 run.db
tr -s '\n ' ' ' <out | grep -q 'have no role: they are where the phase that made them puts them'  || no "what was put by its birth"
"$V" estimate --json falcon.json --recipe=bf16 --seq=128 run.db >page.json || no "--json: status $?"
python3 - <<'PY' || failures=$((failures + 1))
import json, sys
page = json.load(open("page.json"))
d = page["devices"][0]
rows = sum(r["measured_bytes"] for r in d["rows"])
if rows != d["allocated_bytes"]:
    sys.exit("the measured rows are %d, the peak is %d" % (rows, d["allocated_bytes"]))
gap = sum(r["measured_bytes"] - (r["estimate_bytes"] or 0) for r in d["rows"]) + d["reserved_not_allocated_bytes"] + d["residual_bytes"]
if gap != d["gap_bytes"] or d["gap_bytes"] != d["driver_used_bytes"] - d["estimate_bytes"]:
    sys.exit("the parts add up to %d, the gap is %d" % (gap, d["gap_bytes"]))
parts = {r["row"]: r["measured_bytes"] - (r["estimate_bytes"] or 0) for r in d["rows"]}
if parts[d["explained_by"]] != min(parts.values()) or d["explained_bytes"] != min(parts.values()):
    sys.exit("%s explains less than another row: %s" % (d["explained_by"], parts))
PY
# an estimate that is too low by the optimizer's blocks: what explains it is said
says "the row that explains a gap" "the driver's figure is above the estimate.*" --params=1.5e8 --recipe=bf16 --optimizer=sgd run.db
tr -s '\n ' ' ' <out | grep -qF 'The largest part of that is reserved and not allocated: +3.' || no "which row it is: $(tail -5 out)"
# without roles: phases alone, and no row
make_db plain.db
says "a recording without roles" 'no row by row: the roles of blocks are not recorded' falcon.json --recipe=bf16 --seq=128 plain.db
grep -qE '^  parameters .*1.41' out && no "rows without roles"
make_db killed.db --kind killed
"$V" estimate falcon.json killed.db >out 2>err
status=$?
[ $status = 3 ] || no "a recording that is not whole: status $status"

says "the row that explains more than half" "the driver's figure is below the estimate.*" --params=5e9 --recipe=bf16 --optimizer=adam run.db
tr -s '\n ' ' ' <out | grep -qF 'Most of that is optimizer states: -' || no "more than half: $(tail -5 out)"
# under autocast, beside what an H200 held of Llama-3.2-1B: at its longest step 8192 tokens
echo '{"model_type": "llama", "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32, "num_key_value_heads": 8,
    "head_dim": 64, "vocab_size": 128256, "tie_word_embeddings": true, "max_position_embeddings": 131072}' >llama1b.json
xz -dc "$SRC/tests/data/llama-h200.db.xz" >h200.db || no "the recording of an H200"
"$V" estimate --json llama1b.json --recipe=autocast --batch=2 --seq=4096 h200.db >cast.json || no "under autocast: status $?"
python3 - <<'PY' || failures=$((failures + 1))
import json, sys
d = json.load(open("cast.json"))["devices"][0]
rows = {r["row"]: (r["estimate_bytes"], r["measured_bytes"]) for r in d["rows"]}
for name in ("parameters", "optimizer states", "activations", "output", "gradients of the output"):
    said, held = rows[name]
    if abs(said - held) > held / 400:
        sys.exit(f"under autocast, {name}: {said} estimated, {held} measured")
PY
# more tokens than a model has positions for: a line that says so, and the figures all the same
echo '{"model_type": "gpt2", "n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257, "n_positions": 1024}' >gpt2.json
echo '{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 256, "max_position_embeddings": 2048}' >llama.json
says "GPT-2 beyond its positions" '^gpt2, ' gpt2.json --seq=4096
grep -qF -- "--seq=4096 is beyond the model's n_positions, 1024" err && [ "$(wc -l <err)" = 1 ] || no "GPT-2's positions: $(cat err)"
says "a llama beyond its positions" '^llama, ' llama.json --seq=4096
grep -qF "max_position_embeddings, 2048: it was not made for that" err || no "a llama's positions: $(cat err)"
for model in gpt2.json:1024 llama.json:2048 falcon.json:4096; do
    says "within its positions" parameters "${model%:*}" --seq="${model#*:}"
    [ -s err ] && no "$model: $(cat err)"
done

# bad input: one line, status 2, nothing on stdout
fails() {
    local pattern=$1
    shift
    local status
    "$V" estimate "$@" >out 2>err
    status=$?
    [ $status = 2 ] && [ ! -s out ] && [ "$(wc -l <err)" = 1 ] && grep -qF -e "$pattern" err || no "estimate $*: status $status, $(head -3 out err)"
}
mkfifo fifo.json
printf '{"model_type": "ll\x1b[31mama"' >escape.json
head -c 20000 run.db >cut.db
fails 'cut.db is truncated' falcon.json cut.db
fails 'it is no regular file' fifo.json
fails 'not an object of JSON' escape.json
fails 'from 1 to' falcon.json --seq=0
fails 'what falcon keeps under autocast is not known' falcon.json --recipe=autocast

[ $failures = 0 ] && echo "estimates are those of the reports, and beside a recording they add up" || exit 1
