/* labels.h - the values of `run --label NAME=VALUE`: are they good, and as VRAMSCOPE_LABELS has them. */
#ifndef VS_RUN_LABELS_H
#define VS_RUN_LABELS_H

#include "base/args.h"

/* "batch=4,seq=1024": the first N of them; the caller frees it. */
char *labels_join(const struct arg_list *list, size_t n);
/* 0, or 2, said, where one of them is no label or a name comes twice. */
int labels_check(const struct arg_list *list);

#endif
