/*
 * control.h - what another process asks of one that records: a request and its answer, which lie on a page of
 * the journal (journal/requests.c).  The recorded process notices a request within 200 ms.  It is no part of
 * the recording.
 */
#ifndef VS_TRACE_CONTROL_H
#define VS_TRACE_CONTROL_H

#include <stdint.h>

enum vs_control_kind { VS_CONTROL_SUSPEND = 1, VS_CONTROL_RESUME };

#define VS_CONTROL_TO   256 /* bytes of a path, its end included */
#define VS_CONTROL_TEXT 512

struct vs_control_request {
    uint32_t number; /* of the request; never 0 */
    uint32_t kind;   /* enum vs_control_kind */
    /* Which blocks go: bits (1 << enum vs_role, trace/roles.h).  Both 0: everything. */
    uint32_t roles;         /* these */
    uint32_t keep;          /* all but these */
    uint64_t timeout_ns;    /* for the device's work, or for memory at a resume */
    char to[VS_CONTROL_TO]; /* a folder for the contents; "": pinned memory of the host */
};

enum vs_control_status {
    VS_CONTROL_DONE = 0,
    VS_CONTROL_REFUSED, /* nothing has changed; the text says why */
    VS_CONTROL_LATE     /* the timeout is over, and nothing has changed */
};

struct vs_control_answer {
    uint32_t number;            /* of the request */
    uint32_t status;            /* enum vs_control_status */
    uint64_t moved_bytes;       /* that went, or came back */
    uint64_t moving_ns;         /* in which they did, mapping included */
    uint64_t host_ns;           /* in which the host's memory was had, or given back: not part of the above */
    uint64_t left_bytes;        /* of the arenas', on the devices, afterwards */
    char text[VS_CONTROL_TEXT]; /* one line; "": nothing to say */
    /* Of a suspension: what others than the arena hold of the devices, as was recorded when it was asked for.
     */
    uint64_t beside_bytes;
    char beside[VS_CONTROL_TEXT]; /* the holders and their bytes; "": there are none */
};

/* A block that is to go by a request that names roles, as the recording has it: it may have been freed since.
 */
struct vs_control_block {
    uint64_t address, size; /* as it was asked for; a framework's may be rounded up, PyTorch's to 512 bytes */
    uint32_t
        reached; /* not 0: kernels may find its address in device memory, or its uses are not all known */
};

#endif
