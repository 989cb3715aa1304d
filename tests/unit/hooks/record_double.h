/* record_double.h - the recording API's stand-in in the tests of hooks/: keeps the last events. */
#ifndef TESTS_UNIT_HOOKS_RECORD_DOUBLE_H
#define TESTS_UNIT_HOOKS_RECORD_DOUBLE_H

#include "record/record.h"

#define VRAMSCOPE_TEST_EVENTS 10000

struct vramscope_test_log {
    struct vs_event events[VRAMSCOPE_TEST_EVENTS];
    int count;
    bool closed;        /* vs_record takes nothing */
    bool disabled;      /* what vs_record_enabled() denies */
    bool sample_wanted; /* one request */
    int prepared;       /* calls of vs_record_get_ready */
    int devices, contexts;
    struct vs_device_row device;
    bool simulated;
    char fact[256];   /* the last one */
    uint64_t used;    /* the driver's figure, as vs_used_now says it */
    bool used_hidden; /* nobody can say */
    int used_asked;
    bool alone;         /* on the device: cuMemGetInfo will do */
    bool spent;         /* asking has taken its share */
    uint64_t asked_ns;  /* of vs_query_took */
    uint64_t untracked; /* memory nodes of graphs without a place */
};
struct vramscope_test_log *vramscope_test_log(void);
void *vramscope_test_real(const char *name); /* vs_cuda_real */
int vramscope_test_seen(void);               /* vs_cuda_seen */

#endif
