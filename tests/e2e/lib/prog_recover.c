// link: trace
/* Completes the database of a killed process from its journal, as `vramscope recover` does: prog_recover
 * JOURNAL [DB]. */
#include <stdio.h>
#include "trace/writer/writer.h"

int main(int argc, char **argv)
{
    char why[256] = "";
    long events = argc > 1 ? vs_recover(argv[1], argc > 2 ? argv[2] : NULL, why, sizeof why) : -1;
    printf("%ld %s\n", events, why);
    return events < 0;
}
