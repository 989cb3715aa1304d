/*
 * answer.h - a question about other sizes, with what its recordings say, and the ways to show the answer.
 */
#ifndef VS_LAW_ANSWER_H
#define VS_LAW_ANSWER_H

#include "base/json.h"
#include "law.h"
#include "model.h"
#include "runs.h"
#include "sizes.h"

struct answer {
    const struct law_request *q;
    struct law_runs runs;
    struct law_model model;
    struct law_list batch, seq; /* the sizes asked about */
};

void answer_print_text(struct answer *a);

#endif
