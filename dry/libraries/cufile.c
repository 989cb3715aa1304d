/* cufile.c - the names of libcufile that PyTorch needs to load: files that a GPU reads by itself are not
 * simulated. */
#include "names.h"

MISSING(cuFileDriverOpen)
MISSING(cuFileDriverClose)
MISSING(cuFileDriverClose_v2)
MISSING(cuFileDriverGetProperties)
MISSING(cuFileHandleRegister)
MISSING(cuFileHandleDeregister)
MISSING(cuFileBufRegister)
MISSING(cuFileBufDeregister)
MISSING(cuFileRead)
MISSING(cuFileWrite)
MISSING(cuFileReadAsync)
MISSING(cuFileWriteAsync)
MISSING(cuFileBatchIOSetUp)
MISSING(cuFileStreamRegister)
MISSING(cuFileStreamDeregister)
MISSING(cuFileGetVersion)
