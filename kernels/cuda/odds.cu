/* odds.cu - the kernels of odds.cuh and label_rows.cuh. */
#include "label_rows.cuh"
#include "odds.cuh"

#define ODDS(name, arguments, call)                                                                          \
    extern "C" __global__ void __launch_bounds__(256) lce_##name(const arguments a)                          \
    {                                                                                                        \
        call(a);                                                                                             \
    }

ODDS(odds_start, lce_odds_start_args, lce::odds_start)
ODDS(odds_rows, lce_odds_rows_args, lce::odds_rows)
ODDS(odds_dinput, lce_odds_dinput_args, lce::odds_dinput)
ODDS(odds_fold, lce_odds_fold_args, lce::odds_fold)
ODDS(odds_store, lce_odds_store_args, lce::odds_store)
ODDS(label_reserve, lce_label_rows_args, lce::reserve_slots)
ODDS(label_place, lce_label_rows_args, lce::place_token)
ODDS(label_rows_bf16, lce_label_rows_args, lce::label_rows<__nv_bfloat16>)
ODDS(label_rows_f32, lce_label_rows_args, lce::label_rows<float>)
