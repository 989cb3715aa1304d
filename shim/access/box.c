/* box.c - see box.h. */
#define _GNU_SOURCE
#include "box.h"

#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define AT_ONCE 4096u /* bytes */
#define PIECES  32u
#define GAP     512u /* between rows: shorter ones are read with them, as each piece costs more than this */
#define ALIGNED 4u   /* where addresses lie on the device: those of packed structures at every fourth byte */

uint64_t vs_box_bytes(const struct vs_box *b)
{
    uint64_t bytes = b->begin != 0 ? b->width * b->rows * b->slices : 0;
    return bytes < VS_BOX_MAX ? bytes : VS_BOX_MAX;
}

uint64_t vs_box_at(const struct vs_box *b, uint64_t at, uint64_t most, uint64_t *n)
{
    uint64_t row = at / b->width, left = b->width - at % b->width;
    *n = left < most ? left : most;
    return b->begin + b->pitch * (b->height * (row / b->rows) + row % b->rows) + at % b->width;
}

struct pieces {
    struct iovec there[PIECES], here[2 * PIECES];
    unsigned long theres, heres;
    char gap[GAP];
};

static void add(struct pieces *p, char *to, uint64_t from, uint64_t n)
{
    struct iovec *last = p->theres != 0 ? &p->there[p->theres - 1] : NULL;
    uint64_t between = last != NULL ? from - (uintptr_t)last->iov_base - last->iov_len : UINT64_MAX;
    if (between <= GAP) {
        last->iov_len += between + n;
        p->here[p->heres++] = (struct iovec){p->gap, between};
    } else {
        p->there[p->theres++] = (struct iovec){(void *)(uintptr_t)from, n};
    }
    p->here[p->heres++] = (struct iovec){to, n};
}

/* Those from AT on come to TO; how many.  By a system call, because it may be device memory or unmapped by
 * now. *ALL: all that were asked for could be read. */
static size_t read_some(const struct vs_box *b, uint64_t at, uint64_t end, char *to, bool *all)
{
    struct pieces p = {.theres = 0};
    size_t got = 0;
    for (uint64_t n, from; at < end && p.theres < PIECES && p.heres + 2 <= 2 * PIECES; at += n, to += n) {
        from = vs_box_at(b, at, end - at, &n);
        add(&p, to, from, n);
    }
    /* the last argument lies on the stack, where of an int's 64 bits clang sets 32 */
    long left = syscall(SYS_process_vm_readv, getpid(), p.here, p.heres, p.there, p.theres, 0ul);
    *all = left > 0;
    for (unsigned long i = 0; i < p.heres; i++) {
        size_t part = left < (long)p.here[i].iov_len ? (left > 0 ? (size_t)left : 0) : p.here[i].iov_len;
        *all = *all && part == p.here[i].iov_len;
        got += p.here[i].iov_base != p.gap ? part : 0;
        left -= (long)part;
    }
    return got;
}

bool vs_box_read(const struct vs_box *b, uint64_t to, void (*see)(void *context, uint64_t word),
                 void *context)
{
    char bytes[AT_ONCE + 16];
    uint64_t size = vs_box_bytes(b), word,
             step = b->width % ALIGNED != 0 && b->rows * b->slices > 1 ? 1 : ALIGNED;
    size_t kept = 0, skip = -to % ALIGNED; /* of `bytes` are the last ones; to the next word */
    bool all = true;
    for (uint64_t at = 0, got; at < size && size >= sizeof word && all; at += got) {
        got = read_some(b, at, size - at < AT_ONCE ? size : at + AT_ONCE, bytes + kept, &all);
        size_t end = kept + got, i = skip;
        for (; i + sizeof word <= end; i += step) {
            memcpy(&word, bytes + i, sizeof word);
            see(context, word);
        }
        kept = i < end ? end - i : 0;
        skip = i < end ? 0 : i - end;
        memmove(bytes, bytes + end - kept, kept);
    }
    return all;
}
