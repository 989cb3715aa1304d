#!/bin/bash
# What is assumed of values that only a GPU computes is what the rules say, or the user; each line that reads one is told.
. "$(dirname "$0")/../lib/lib.bash"
. "$here/facts.bash"
shim_env=(VRAMSCOPE_DRY_STEPS=all)

told() {
    [ "$status" = 0 ] || fail "status $status"
    diff <(cat) "$run/out" || fail "$1: < wanted, > printed"
}

follow "$here/values_rules.py"
told first <<'END'
loss 1.0 True True False
mask (128,) 128 0
experts [4, 4, 4, 4, 4, 4, 4, 4] True
routed True
token False 3
scaler [2, 2, 2] 1024.0
loop True
coalesced 128
kept 128
endless False True True False True 0 True
written 1.0 0.999999
improved 3
END
expect_facts value <<'END'
values_rules.py:8|the value of float32|1.0|1
values_rules.py:8|the value of bool|no NaN, no infinity|2
values_rules.py:8|the value of bool|true|1
values_rules.py:10|the number of elements that are not 0 of bool[16,8]|all true|1
values_rules.py:10|the value of int64|all true|2
values_rules.py:14|a copy on the host of int64[8]|evenly over 8|1
values_rules.py:14|a copy on the host of int64[16,2]|evenly over 8|1
values_rules.py:15|the number of elements that are not 0 of bool[16,2]|evenly over 8|8
values_rules.py:15|the size of bincount of int64[32]|evenly over 8|1
values_rules.py:15|a copy on the host of int64[8]|evenly over 8|1
values_rules.py:19|the value of bool[1]|a token|1
values_rules.py:19|how many values differ of int64[1,3]|evenly over 50000|1
values_rules.py:28|the value of float32|no overflow|3
values_rules.py:31|the value of float32|no overflow|1
values_rules.py:34|the value of bool|true|10000
values_rules.py:39|how many indices differ of int64[1,128]|all differ|1
values_rules.py:40|a number that a library reads from the device by itself|unknown|1
values_rules.py:44|the number of elements that are not 0 of bool[16,8]|all true|1
values_rules.py:53|the value of bool|no NaN, no infinity|5
values_rules.py:53|the value of uint8[1]|no NaN, no infinity|1
values_rules.py:53|the value of bool|true|1
values_rules.py:60|the value of float32|1.0|2
values_rules.py:63|the value of float32|1.0|3
END

shim_env=(VRAMSCOPE_DRY_STEPS=all VRAMSCOPE_DRY_ASSUME=second)
follow "$here/values_rules.py"
told second <<'END'
loss 0.5 True False False
mask (64,) 64 64
experts [3, 3, 3, 3, 4, 4, 4, 8] True
routed True
token True 3
scaler [0, 2, 2] 512.0
loop True
coalesced 64
kept 64
endless False True True False True 0 False
written 0.5 0.5
improved 1
END

if in_full; then
    shim_env=(VRAMSCOPE_DRY_STEPS=all VRAMSCOPE_DRY_SKEW=3 VRAMSCOPE_DRY_KEEP=0.25 VRAMSCOPE_DRY_OVERFLOW=2)
    follow "$here/values_rules.py"
    told given <<'END'
loss 1.0 True True False
mask (32,) 32 96
experts [2, 3, 3, 3, 3, 3, 3, 12] True
routed True
token False 3
scaler [0, 0, 2] 256.0
loop True
coalesced 128
kept 32
endless False True True False True 0 True
written 1.0 0.999999
improved 3
END
fi

# a program that is no file has lines, too
shim_env=(VRAMSCOPE_DRY_STEPS=all)
follow -c 'import torch

torch.zeros(1, device="cuda").normal_().item()'
expect_facts value <<'END'
<string>:3|the value of float32[1]|other random numbers|1
END
