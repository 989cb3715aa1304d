#include "names.h"
#include <stdlib.h>
STANDS_IN int create(void **made)
{
    *made = calloc(1, 256);
    return 0;
}

#include "cusparse.def"
