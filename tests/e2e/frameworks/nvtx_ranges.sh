#!/bin/bash
# NVTX as NVIDIA's headers speak it reaches us through the injection variable: nested, domains, registered strings, start and end
# on two threads, two copies of NVTX.
include=$(sed -n 's/^CUDA_INCLUDE_DIR:PATH=//p' "${BUILD:?}/CMakeCache.txt" 2>/dev/null)
[ -f "${include:-/usr/local/cuda/include}/nvtx3/nvToolsExt.h" ] || { echo "SKIPPED: no nvtx3 headers"; exit 77; }
. "$(dirname "$0")/framework_log.bash"
build -isystem "${include:-/usr/local/cuda/include}" -o "$work/program" "$here/nvtx_program.c" -ldl -lpthread
build -isystem "${include:-/usr/local/cuda/include}" -shared -fPIC -o "$work/library.so" -x c - -ldl <<'END'
#include <nvtx3/nvToolsExt.h>
int library_push(void) { return nvtxRangePushA("backward"); } /* its own copy of NVTX, as libtorch_cuda.so beside libtorch_python.so */
END

expect_output() {
    diff - "$work/out" >"$work/difference" || { echo "FAIL: $1 (< wanted, > printed)"; cat "$work/difference"; exit 1; }
    echo "ok $1"
}

LD_PRELOAD=$log_library NVTX_INJECTION64_PATH=$log_library "$work/program" "$work/library.so" >"$work/out" || exit 1
expect_output "answers" <<'END'
push 0 1 2 3
pop 3
pop 2
pop 1
pop 0
nothing is open: -2
short 0 0
null 0 0
handles differ: 1
one 0 1 two 0 one 1 0 -2 two 0
ids differ: 1
library push 0 pop 0
END
expect_log "events" <<'END'
push 1 forward domain - parent 0 flags 0x12 phase -
push 2 wide domain - parent 1 flags 0x2 phase -
push 3 by attributes domain - parent 2 flags 0x2 phase -
push 4 grüß € 😀 domain - parent 3 flags 0x2 phase -
pop 4
pop 3
pop 2
pop 1
mark a mark domain -
mark grüß € 😀 domain -
push 5  domain - parent 0 flags 0x2 phase -
pop 5
push 6  domain - parent 0 flags 0x2 phase -
pop 6
push 7 logits domain one parent 0 flags 0x12 phase -
push 8 logits domain one parent 7 flags 0x12 phase -
push 9 grüß domain two parent 8 flags 0x2 phase -
pop 8
pop 7
pop 9
mark grüß domain two
push 10 started domain - parent 0 flags 0x22 phase -
push 11 in a domain domain async parent 0 flags 0x22 phase -
pop 10
pop 11
push 12 backward domain - parent 0 flags 0x12 phase -
pop 12
push 13 aten::mm domain - parent 0 flags 0x2 phase -
pop 13
push 14 a, b domain - parent 0 flags 0x2 phase -
pop 14
END

# what is no handle of ours is not looked into: a string without a text, a domain in which nothing is recorded
LD_PRELOAD=$log_library NVTX_INJECTION64_PATH=$log_library "$work/program" "$work/library.so" foreign >"$work/out" ||
    { echo "FAIL: handles that were not given out"; exit 1; }
sed -i -n '$p' "$work/out"
expect_output "answers to handles that were not given out" <<'END'
foreign string 0 0 domain -2 -2 0
END
tail -n 2 "$FRAMEWORK_LOG" >"$work/some" && mv "$work/some" "$FRAMEWORK_LOG"
expect_log "ranges with handles that were not given out" <<'END'
push 15  domain - parent 0 flags 0x2 phase -
pop 15
END

# ranges that NVTX's extension for payloads begins or ends
if [ -f "${include:-/usr/local/cuda/include}/nvtx3/nvToolsExtPayload.h" ]; then
    build -isystem "${include:-/usr/local/cuda/include}" -o "$work/payloads" "$here/nvtx_payload_program.c" -ldl
    LD_PRELOAD=$log_library NVTX_INJECTION64_PATH=$log_library "$work/payloads" >"$work/out" || exit 1
    expect_output "answers to calls with payloads" <<'END'
enabled 1
outer 0 inner 1 inner 1 outer 0 none -2
ids differ: 1
END
    expect_log "a range that ends with a payload has ended" <<'END'
push 1 ncclCommInitRankConfig domain NCCL parent 0 flags 0x2 phase -
push 2  domain NCCL parent 1 flags 0x2 phase -
pop 2
pop 1
mark  domain -
push 3  domain NCCL parent 0 flags 0x22 phase -
push 4 ncclCommInitRankConfig domain NCCL parent 0 flags 0x22 phase -
pop 4
pop 3
push 5 ncclCommInitRankConfig domain NCCL parent 0 flags 0x2 phase -
pop 5
END

    # of another version its functions may be others: none of ours are given to it
    build -isystem "${include:-/usr/local/cuda/include}" -DOTHER_VERSION -DNVTX_EXT_PAYLOAD_COMPATID=0x0205 -o "$work/others" "$here/nvtx_payload_program.c" -ldl
    LD_PRELOAD=$log_library NVTX_INJECTION64_PATH=$log_library "$work/others" >"$work/out" || exit 1
    expect_output "answers to payloads of another version" <<'END'
enabled 0
outer 0 inner -2 inner 0 outer -2 none -2
ids differ: 0
END
    : >"$FRAMEWORK_LOG"
else
    echo "SKIPPED in part: these nvtx3 headers have no payloads"
fi
