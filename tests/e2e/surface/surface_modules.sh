#!/bin/bash
# Modules, libraries and limits say what they took of the device; they are no memory of the program's: in no total.
. "$(dirname "$0")/../lib/lib.bash"

# shellcheck disable=SC2034 # what lib.bash leaves out of the lists
costs="'overhead'"

shim_env=(CUDA_MODULE_LOADING=EAGER)
slowly run_shimmed "$tests/prog_modules"
expect_events <<'END'
context_create|none|cuDevicePrimaryCtxRetain|67108864|0|0
module_load|none|cuModuleLoadData|4194304|0|0
module_load|none|cuModuleLoadDataEx|2097152|0|0
module_load|none|cuModuleLoadData|0|0|200
module_unload|none|cuModuleUnload|4194304|0|0
module_unload|none|cuModuleUnload|0|-1|0
free_failed|none||0|-1|400
module_unload|none|cuModuleUnload|2097152|0|0
module_load|none|cuLibraryLoadData|4194304|0|0
module_unload|none|cuLibraryUnload|4194304|0|0
limit|none|cuCtxSetLimit|58720256|0|0
limit|none|cuCtxSetLimit|-58720256|0|0
limit|none|cuCtxSetLimit|0|0|215
context_create|none|cuCtxCreate_v4|67108864|0|0
module_load|none|cuModuleLoadFatBinary|4194304|0|0
context_destroy|none|cuCtxDestroy_v2|67108864|0|0
context_freed|none||4194304|0|0
END
expect_sql "SELECT ifnull(max(reserved_bytes), 0) FROM event WHERE device = 0" 0
expect_clean

# where the library is loaded lazily, its load takes nothing
shim_env=(CUDA_MODULE_LOADING=LAZY)
slowly run_shimmed "$tests/prog_modules"
expect_sql "SELECT size_bytes FROM event WHERE api = 'cuLibraryLoadData'" 0
