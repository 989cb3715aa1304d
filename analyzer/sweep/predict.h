/* predict.h - what laws made of a sweep's smallest points say of the others. */
#ifndef VS_SWEEP_PREDICT_H
#define VS_SWEEP_PREDICT_H

#include "show.h"

/* Of grids of batch and seq; where none are made s->unpredicted says why. */
void predict(struct sweep *s);

#endif
