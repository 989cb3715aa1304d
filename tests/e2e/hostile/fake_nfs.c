/* A library to preload: everything under $FAKE_NFS is said to lie on NFS. */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

__attribute__((visibility("default"))) int statfs(const char *path, struct statfs *out)
{
    const char *top = getenv("FAKE_NFS");
    long err = syscall(SYS_statfs, path, out);
    if (err == 0 && top && strncmp(path, top, strlen(top)) == 0)
        out->f_type = 0x6969;
    return (int)err;
}
