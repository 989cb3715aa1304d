/* stands for the header of that name in the CUDA toolkit */
#include "device.h"
