/* nothing.c - functions of cuDNN that need not do anything here, and those that would have to. */
#include "dnn.h"

#define NOTHING(name)                                                                                        \
    DRY_API int name(void)                                                                                   \
    {                                                                                                        \
        return DNN_SUCCESS;                                                                                  \
    }
#define MISSING(name)                                                                                        \
    DRY_API int name(void)                                                                                   \
    {                                                                                                        \
        dry_missing("cuDNN", #name);                                                                         \
    }
#include "nothing.def"
