/* requests.h - what was asked for, of blocks of which only the size is known (requests.c). */
#ifndef VS_EDIT_REQUESTS_H
#define VS_EDIT_REQUESTS_H

#include "program.h"

/* Of a program that was recorded under PyTorch's native allocator: sizes become the requests that are likely.
 */
void requests_estimate(struct program *p);

#endif
