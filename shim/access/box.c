/* box.c - see box.h. */
#define _GNU_SOURCE
#include "box.h"

#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define AT_ONCE 512u /* words */
#define PIECES  64u

uint64_t vs_box_words(const struct vs_box *b)
{
    uint64_t words = b->begin != 0 ? b->width / sizeof words * b->rows * b->slices : 0;
    return words < VS_BOX_MAX / sizeof words ? words : VS_BOX_MAX / sizeof words;
}

uint64_t vs_box_at(const struct vs_box *b, uint64_t at, uint64_t most, uint64_t *n)
{
    uint64_t wide = b->width / sizeof at, row = at / wide, left = wide - at % wide;
    *n = left < most ? left : most;
    return b->begin + b->pitch * (b->height * (row / b->rows) + row % b->rows) + at % wide * sizeof at;
}

/* By a system call, because it may be device memory or unmapped by now. */
bool vs_box_read(const struct vs_box *b, void (*see)(void *context, uint64_t word), void *context)
{
    uint64_t word[AT_ONCE], size = vs_box_words(b), n;
    struct iovec piece[PIECES], to = {word, 0};
    for (uint64_t at = 0, end; at < size; at = end) {
        uint64_t most = size - at < AT_ONCE ? size : at + AT_ONCE;
        unsigned long pieces = 0;
        for (end = at; end < most && pieces < PIECES; end += n, pieces++) {
            piece[pieces].iov_base = (void *)(uintptr_t)vs_box_at(b, end, most - end, &n);
            piece[pieces].iov_len = n * sizeof *word;
        }
        to.iov_len = (end - at) * sizeof *word;
        /* the last argument lies on the stack, where of an int's 64 bits clang sets 32 */
        long read = syscall(SYS_process_vm_readv, getpid(), &to, 1ul, piece, pieces, 0ul);
        for (long i = 0; i < read / (long)sizeof *word; i++)
            see(context, word[i]);
        if (read != (long)to.iov_len)
            return false;
    }
    return true;
}
