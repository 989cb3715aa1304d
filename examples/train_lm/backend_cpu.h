/* backend_cpu.h - what the two files of the CPU back end share. */
#ifndef EXAMPLES_TRAIN_LM_BACKEND_CPU_H
#define EXAMPLES_TRAIN_LM_BACKEND_CPU_H

#include "backend.h"

typedef void cpu_rows(const void *call, int begin, int end);

/* Runs WORK over the rows 0 .. ROWS on the machine's cores; the ranges begin at multiples of GRAIN. */
void cpu_parallel(cpu_rows *work, const void *call, int rows, int grain);

void cpu_matmul(const struct matmul *call);

#endif
