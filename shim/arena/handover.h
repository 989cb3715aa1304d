/*
 * handover.h - descriptors that go from one process to another on request.
 *
 * Who has something to share answers on a socket, in a thread of its own; the name of the socket is a number
 * that others are told by whatever way.  Nothing is kept ready for them: a descriptor exists while it is
 * handed over and no longer, so what is shared may have as many pieces as it likes, and no limit on open
 * files is in the way.
 *
 * The socket is a datagram one in the abstract name space: it lies in no file system, is gone with its
 * process, and whoever is of another user, root excepted, is refused at once.  Its number is high and
 * close-on-exec.  Where the program has closed it, the thread ends, and the next vs_handover_serve begins
 * anew, under another name.
 *
 * The opener needs neither a right to look into the other process (ptrace, pidfd_getfd) nor /proc.
 */
#ifndef VS_ARENA_HANDOVER_H
#define VS_ARENA_HANDOVER_H

#include <stdint.h>

#define VS_HANDOVER_FILES 96u /* in one answer: the kernel sends 253, and a process may open 256 */

struct vs_handover_ask {
    uint64_t id;    /* of what */
    uint32_t first; /* from which piece on */
    uint32_t most;  /* how many, at most VS_HANDOVER_FILES */
};

struct vs_handover_answer {
    int32_t status;  /* 0, or the giver's error, or -EACCES: then there are no descriptors */
    uint32_t files;  /* descriptors that come along */
    uint32_t pieces; /* of the whole */
    uint32_t unused;
    uint64_t piece_bytes;
    uint64_t offset; /* where in the first piece it begins */
};

/* Answers ASK with descriptors in FILES, which are closed when they are sent. */
typedef void vs_handover_give(const struct vs_handover_ask *ask, struct vs_handover_answer *answer,
                              int *files);

/* Sees to it that somebody answers; *NAME: where.  0 or -errno. */
int vs_handover_serve(vs_handover_give *give, uint64_t *name);

/* Where this process last answered; 0: it never did. */
uint64_t vs_handover_name(void);

/* A way to who answers under NAME: a descriptor, or -errno (-ECONNREFUSED: nobody does). */
int vs_handover_connect(uint64_t name);
/* Asks; the descriptors of the answer are the caller's.  0 or -errno (-ETIMEDOUT: it does not answer;
 * -EACCES: one of the two may not, as another user). */
int vs_handover_ask(int way, const struct vs_handover_ask *ask, struct vs_handover_answer *answer,
                    int files[VS_HANDOVER_FILES]);

#endif
