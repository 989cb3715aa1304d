#!/bin/bash
# bytes.sh TREE OUT - prints what an event takes on disk, with the access ledger and without, in recordings of MODELS of
# bench_models.py (STEPS each, AT_ONCE at a time). No test.
. "$(dirname "$0")/gpu.bash"
device=${DEVICE:-cuda}
[ "$device" = cpu ] || need
one() { # MODEL MODE
  local options=()
  [ "$2" = access ] && options=(--access)
  timeout "${LIMIT:-150}" "$tree/bin/vramscope" run -q "${options[@]}" -o "$work/$1-$2.db" -- "$python" "$here/bytes.py" train "$1" "${STEPS:-300}" "$device" \
    >"$out/$1-$2.log" 2>&1 || { echo "FAIL: $1 $2: $(tail -n 1 "$out/$1-$2.log")"; return 1; }
  "$python" "$here/bytes.py" table "$1, $2" "$work/$1-$2.db" >"$out/$1-$2.txt" || return 1
  cat "$out/$1-$2.txt"
  case " ${KEEP:-} " in *" $1-$2 "*) gzip -c "$work/$1-$2.db" >"$out/$1-$2.db.gz" ;; esac
  rm -f "$work/$1-$2.db"*
}
for model in ${MODELS-small cnn vit gpt2 cells unet}; do
  for mode in ${MODES-access plain}; do
    one "$model" "$mode" &
    while [ "$(jobs -rp | wc -l)" -ge "${AT_ONCE:-4}" ]; do wait -n || failed=1; done
  done
done
while [ "$(jobs -rp | wc -l)" -gt 0 ]; do wait -n || failed=1; done
exit $failed
