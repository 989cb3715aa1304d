#!/bin/bash
# What kernels.sh concludes from a sanitizer's log: from shortened ones of an H200 (compute-sanitizer 2025.3.1), and with one thing changed
# in each.
. "$(dirname "$0")/../lib/lib.bash"
command -v python3 >/dev/null || skip "no python3"
export PYTHONDONTWRITEBYTECODE=1
new_run
threads=$here/../../data/sanitizer/racecheck-threads.log
planted='========= Error: Race reported between Write access at lce_planted_race+0xf0
=========     and Read access at lce_planted_race+0x140 [64 hazards]
========= '

# judged STATUS WORDS OPTION... <LOG
judged() {
    local want=$1 words=$2 status=0
    shift 2
    cat >"$run/log"
    python3 "$here/../../gpu/sanitizer_verdict.py" "$run/log" "$@" >"$run/out" 2>"$run/err" || status=$?
    [ "$status" -eq "$want" ] || fail "status $status, not $want, for: $words"
    grep -qF -- "$words" "$run/out" || fail "no \"$words\" in the verdict"
}

# The real log as it would be had the run ended: REPORT is put before its summary, whose count becomes COUNT.
ended() {
    local report=$1 count=$2
    grep -v -e "process didn't" -e 'Target application' -e SUMMARY "$threads"
    [ -z "$report" ] || printf '%s\n' "$report"
    echo "300 passed, 0 failed"
    echo "========= RACECHECK SUMMARY: $count hazards displayed ($count errors, 0 warnings)"
}
count=$(grep -c 'Race reported' "$threads")

judged 1 'the checks did not all pass, or did not end' --planted <"$threads"
judged 1 'the planted race was not seen' --planted <"$threads"
judged 1 'the sanitizer itself failed' --planted <"$here/../../data/sanitizer/racecheck-filtered.log"
judged 0 "300 passed, 0 failed; 1 reports in our kernels, 1 of them planted, $count in others" --planted < <(ended "$planted" $((count + 1)))
grep -q "cuBLAS's own: .* reports in nvjet_sm90_tst_64x8_64x16_1x4_h_bz_splitK_NNT" "$run/out" || fail "cuBLAS's kernels are not named"
judged 1 'the planted race was not seen' --planted < <(ended '' "$count")
judged 0 "0 reports in our kernels, $count in others" < <(ended '' "$count")
own=${planted//planted_race/softmax_bf16_plain_4}
judged 1 'FAIL  1 reports in lce_softmax_bf16_plain_4' --planted < <(ended "$planted
$own" $((count + 2)))
judged 1 'FAIL  1 reports in lce_settle_bf16' --planted < <(ended "$planted
${planted/#*$'\n'/'========= Error: Race reported between Read access at nvjet_sm90_tst+0x1
=========     and Write access at lce_settle_bf16+0x20 [1 hazards]
'}" $((count + 2)))
judged 1 'reports in no kernel that is known' --planted < <(ended "$planted
${planted//lce_planted_race/some_kernel}" $((count + 2)))
judged 1 "and $((count + 1)) reports are in the log" --planted < <(ended "$planted" $((count + 2)))
judged 1 'no summary' --planted < <(ended "$planted" $((count + 1)) | grep -v SUMMARY)
judged 1 'did not all pass' --planted < <(ended "$planted" $((count + 1)) | sed 's/300 passed, 0/299 passed, 1/')

# synccheck's words
divergent='========= Barrier error detected. Divergent thread(s) in warp
=========     at 0x1a0 in lce_softmax_bf16_plain_4
=========     by thread (0,0,0) in block (0,0,0)
========= '
sync() { printf '========= COMPUTE-SANITIZER\n%s\n300 passed, 0 failed\n========= ERROR SUMMARY: %s errors\n' "$@"; }
judged 0 '0 reports in our kernels, 0 in others' < <(sync '      options: 51 passed' 0)
judged 1 'FAIL  1 reports in lce_softmax_bf16_plain_4' < <(sync "$divergent" 1)
