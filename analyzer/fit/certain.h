/* certain.h - whether a verdict is the same for all that its figures lie between. */
#ifndef VS_FIT_CERTAIN_H
#define VS_FIT_CERTAIN_H

#include "reply.h"

/* False: within what is not known exactly lies the device's limit. */
bool reply_is_certain(const struct reply *a);

#endif
