/*
 * passing.h - a process gives others descriptors of its memory on request.
 *
 * It answers at a socket, in a thread of its own; its address reaches others in whatever way (here: in the
 * IPC handle).  Each request brings a socket for the way back, so nobody else gets the answer.  A descriptor
 * exists only while it is being passed, so a block may have any number of pieces without meeting the limit on
 * open files.  The opener needs neither a right to look into the other process (ptrace, pidfd_getfd) nor
 * /proc.
 */
#ifndef VS_ARENA_SHARE_PASSING_H
#define VS_ARENA_SHARE_PASSING_H

#include <stdint.h>

#define VS_PASSING_FILES 96u /* in one answer: the kernel sends 253, and a process may open 256 */

/* Random, and new each time that somebody begins to answer.
 *
 * Whoever has the address is answered, of whatever user or user namespace.  The socket's name alone, which
 * anybody can read in /proc/net/unix, is of no use: a request without the key is refused at once, and a
 * process that takes the name when it is free lacks the proof without which its answers are not believed. */
struct vs_passing_address {
    uint64_t name;   /* of the socket: for all to see */
    uint64_t key[2]; /* of who asks */
    uint64_t proof;  /* of who answers */
};

struct vs_passing_request {
    uint64_t id;    /* of what */
    uint32_t first; /* from which piece on */
    uint32_t most;  /* how many, at most VS_PASSING_FILES */
};

struct vs_passing_answer {
    int32_t status;       /* 0, or the giver's error: then there are no descriptors */
    uint32_t files;       /* descriptors that come along */
    uint32_t pieces;      /* of the whole */
    uint32_t again;       /* not 0: they could not be sent, for now; vs_passing_request asks anew */
    uint64_t piece_bytes; /* of each that comes along */
    uint64_t bytes;       /* of all pieces */
    uint64_t offset;      /* where in them it begins */
};

/* Answers ASK with descriptors in FILES, which are closed when they are sent. */
typedef void vs_passing_give(const struct vs_passing_request *ask, struct vs_passing_answer *answer,
                             int *files);

/* Sees to it that somebody answers; *WHERE: where.  0 or -errno.
 *
 * The socket is in the abstract name space: it is gone with its process.  Its number is high and
 * close-on-exec.  Where the program has closed it, the thread ends, and the next vs_passing_serve begins
 * anew, at another address. */
int vs_passing_serve(vs_passing_give *give, struct vs_passing_address *where);

/* The name under which this process last answered; 0: it never did. */
uint64_t vs_passing_name(void);

/* A way to who answers at WHERE: a descriptor, or -errno (-ECONNREFUSED: nobody does). */
int vs_passing_connect(const struct vs_passing_address *where);
/* Asks; the descriptors of the answer are the caller's.  0, or -errno, after which the way is of no use:
 * -ECONNREFUSED: nobody is there any more; -ETIMEDOUT: it does not answer; -EKEYREJECTED: not to this key;
 * -EBADMSG: somebody else answers; -EMFILE: this process may open no more; -ETOOMANYREFS: for long the giver
 * could send none, mostly because too many are on their way among his user's processes. */
int vs_passing_request(int way, const struct vs_passing_address *where, const struct vs_passing_request *ask,
                       struct vs_passing_answer *answer, int files[VS_PASSING_FILES]);

/* ---- what goes over the sockets, for tests that forge it ---- */

struct question {
    uint64_t key[2];
    struct vs_passing_request ask;
};

struct reply {
    uint64_t proof;
    struct vs_passing_answer answer;
};

#endif
