#!/bin/bash
# bytes.sh TREE OUT - prints what an event takes on disk, with the access ledger and without, in recordings of MODELS of
# bench_models.py (STEPS each, AT_ONCE at a time). No test.
. "$(dirname "$0")/gpu.bash"
device=${DEVICE:-cuda}
[ "$device" = cpu ] || need
train='
import sys
sys.path.insert(0, sys.argv[1])
import bench_models, torch
step = bench_models.make(sys.argv[2], sys.argv[4], sys.argv[4] == "cpu")
for number in range(int(sys.argv[3])):
    step(number)
sys.argv[4] == "cpu" or torch.cuda.synchronize()'
one() { # MODEL MODE
  local options=() db=$work/$1-$2.db size
  [ "$2" = access ] && options=(--access)
  timeout "${LIMIT:-150}" "$V" run -q "${options[@]}" -o "$db" -- "$python" -c "$train" "$here" "$1" "${STEPS:-300}" "$device" \
    >"$out/$1-$2.log" 2>&1 || { echo "FAIL: $1 $2: $(tail -n 1 "$out/$1-$2.log")"; return 1; }
  size=$(stat -c %s "$db")
  echo "$1, $2: $size bytes, $(ask "$db" "SELECT count(*), 'events,', round(1.0 * $size / count(*), 1), 'bytes an event,',
    (SELECT ifnull(sum(events), 0) FROM loss), 'lost' FROM ev")" | tee "$out/$1-$2.txt"
  case " ${KEEP:-} " in *" $1-$2 "*) gzip -c "$db" >"$out/$1-$2.db.gz" ;; esac
  rm -f "$db"*
}
for model in ${MODELS-small cnn vit gpt2 cells unet}; do
  for mode in ${MODES-access plain}; do
    one "$model" "$mode" &
    while [ "$(jobs -rp | wc -l)" -ge "${AT_ONCE:-4}" ]; do wait -n || failed=1; done
  done
done
while [ "$(jobs -rp | wc -l)" -gt 0 ]; do wait -n || failed=1; done
exit "$failed"
