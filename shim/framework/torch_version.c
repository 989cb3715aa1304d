/*
 * torch_version.c - which PyTorch is in the process, for the sentences that name it; nothing is decided by
 * it.
 *
 * Its libraries do not export their version.  The package says it in a file of its own beside them:
 *
 *      .../torch/lib/libc10.so  ──▶  .../torch/version.py:  __version__ = '2.15.0+cu132'
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "core/contracts.h"
#include "torch.h"

static size_t read_beginning(const char *path, char *to, size_t room)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = file < 0 ? -1 : read(file, to, room - 1);
    if (file >= 0)
        close(file);
    to[n > 0 ? n : 0] = '\0';
    return n > 0 ? (size_t)n : 0;
}

void vs_torch_note_version(const char *library)
{
    static _Atomic bool looked;
    char path[4096 + 32], text[2048], version[32];
    if (atomic_exchange_explicit(&looked, true, memory_order_relaxed))
        return;
    const char *slash = strrchr(library, '/');
    snprintf(path, sizeof path, "%.*s/../version.py", slash ? (int)(slash - library) : 1,
             slash ? library : ".");
    const char *at = read_beginning(path, text, sizeof text) ? strstr(text, "\n__version__") : NULL;
    if (at && (at = strpbrk(at + 1, "'\"\n")) && sscanf(at + 1, "%31[0-9a-zA-Z.]", version) == 1)
        vs_party_version(VS_PARTY_TORCH, version);
}
