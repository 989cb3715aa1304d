/* types.c - elements of tensors: how wide, and their names in descriptions of graphs. */
#include "dnn.h"

int dnn_width(int data)
{
    switch (data) {
    case DNN_DOUBLE:
    case DNN_INT64:
        return 8;
    case DNN_FLOAT:
    case DNN_INT32:
        return 4;
    case DNN_HALF:
    case DNN_BFLOAT16:
        return 2;
    default:
        return 1;
    }
}

const char *dnn_data_name(int data)
{
    static const char *const names[] = {"f32",  "f64",   "f16",  "i8",  "i32",  "i8x4",   "u8",
                                        "u8x4", "i8x32", "bf16", "i64", "bool", "f8e4m3", "f8e5m2"};
    return data >= 0 && data < (int)(sizeof names / sizeof *names) ? names[data] : "unknown";
}
