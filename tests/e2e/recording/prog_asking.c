// link: cuda
/* A program that loads modules and makes streams, many of each: calls that the shim measures. */
#include "prog.h"

int main(void)
{
    CUmodule module;
    CUstream stream;
    begin();
    go(1); /* the sampler's first look has to see who else is there */
    for (int i = 0; i < 100; i++) {
        OK(cuModuleLoadData(&module, ".version 8.0\n"));
        OK(cuStreamCreate(&stream, 0));
    }
    puts("done");
    return 0;
}
