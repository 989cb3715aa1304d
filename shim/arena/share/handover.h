/*
 * handover.h - descriptors that go from one process to another on request.
 *
 * Who has something to share hears questions at a socket, in a thread of its own, at an address that others
 * are told by whatever way.  The answer goes to who asked and to nobody else: a way back comes along with
 * each question.  Nothing is kept ready for them: a descriptor exists while it is handed over and no
 * longer, so what is shared may have as many pieces as it likes, and no limit on open files is in the way.
 *
 * The address is a secret, and all that is needed: whoever has it is answered, of whatever user or user
 * namespace.  The socket's name alone, which stands in /proc/net/unix, is of no use: who asks without the key
 * is refused at once, and who takes the name when it is free has not the proof that makes an answer believed.
 *
 * The socket is a datagram one in the abstract name space: it lies in no file system and is gone with its
 * process.  Its number is high and close-on-exec.  Where the program has closed it, the thread ends, and the
 * next vs_handover_serve begins anew, at another address.
 *
 * The opener needs neither a right to look into the other process (ptrace, pidfd_getfd) nor /proc.
 */
#ifndef VS_ARENA_SHARE_HANDOVER_H
#define VS_ARENA_SHARE_HANDOVER_H

#include <stdint.h>

#define VS_HANDOVER_FILES 96u /* in one answer: the kernel sends 253, and a process may open 256 */

/* Random, and new each time that somebody begins to answer. */
struct vs_handover_address {
    uint64_t name;   /* of the socket: for all to see */
    uint64_t key[2]; /* of who asks */
    uint64_t proof;  /* of who answers */
};

struct vs_handover_ask {
    uint64_t id;    /* of what */
    uint32_t first; /* from which piece on */
    uint32_t most;  /* how many, at most VS_HANDOVER_FILES */
};

struct vs_handover_answer {
    int32_t status;  /* 0, or the giver's error: then there are no descriptors */
    uint32_t files;  /* descriptors that come along */
    uint32_t pieces; /* of the whole */
    uint32_t again;  /* not 0: they could not be sent, for now; vs_handover_ask asks anew */
    uint64_t piece_bytes;
    uint64_t offset; /* where in the first piece it begins */
};

/* Answers ASK with descriptors in FILES, which are closed when they are sent. */
typedef void vs_handover_give(const struct vs_handover_ask *ask, struct vs_handover_answer *answer,
                              int *files);

/* Sees to it that somebody answers; *WHERE: where.  0 or -errno. */
int vs_handover_serve(vs_handover_give *give, struct vs_handover_address *where);

/* The name under which this process last answered; 0: it never did. */
uint64_t vs_handover_name(void);

/* A way to who answers at WHERE: a descriptor, or -errno (-ECONNREFUSED: nobody does). */
int vs_handover_connect(const struct vs_handover_address *where);
/* Asks; the descriptors of the answer are the caller's.  0, or -errno, after which the way is of no use:
 * -ECONNREFUSED: nobody is there any more; -ETIMEDOUT: it does not answer; -EKEYREJECTED: not to this key;
 * -EBADMSG: somebody else answers; -EMFILE: this process may open no more; -ETOOMANYREFS: for long the giver
 * could send none, mostly because too many are on their way among his user's processes. */
int vs_handover_ask(int way, const struct vs_handover_address *where, const struct vs_handover_ask *ask,
                    struct vs_handover_answer *answer, int files[VS_HANDOVER_FILES]);

#endif
