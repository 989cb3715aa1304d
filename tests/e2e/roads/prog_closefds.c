// link: cuda
/* Closes every descriptor but 0 to 2 while it is recorded, as daemons and launchers do, opens files of its
 * own under the same numbers, goes on allocating, and finds its files as it left them. */
#define _GNU_SOURCE
#include "prog.h"
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define FILES 200

int main(int argc, char **argv)
{
    char path[4096], text[64], read_back[64];
    CUdeviceptr p;
    CHECK(argc == 2); /* a directory */
    begin();
    for (int i = 0; i < 100; i++) {
        OK(cuMemAlloc(&p, 4096));
        OK(cuMemFree(p));
    }
    nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL); /* the recorder has its files open */
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    for (int fd = 3; fd < (int)limit.rlim_cur && fd < 1 << 20; fd++)
        close(fd);
    int fds[FILES];
    for (int i = 0; i < FILES; i++) {
        snprintf(path, sizeof path, "%s/own.%d", argv[1], i);
        fds[i] = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
        CHECK(fds[i] == 3 + i);
        int length = snprintf(text, sizeof text, "file %d\n", i);
        CHECK(write(fds[i], text, (size_t)length) == length);
        if (i < 20) /* and on high numbers, where a recorder may have its own */
            CHECK(dup2(fds[i], (int)limit.rlim_cur - 1 - i) >= 0);
    }
    for (int i = 0; i < 1000; i++) {
        OK(cuMemAlloc(&p, 8192));
        OK(cuMemFree(p));
    }
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    for (int i = 0; i < FILES; i++) {
        int length = snprintf(text, sizeof text, "file %d\n", i);
        struct stat st;
        CHECK(fstat(fds[i], &st) == 0 && st.st_size == length);
        CHECK(pread(fds[i], read_back, sizeof read_back, 0) == length &&
              memcmp(text, read_back, (size_t)length) == 0);
        CHECK(lseek(fds[i], 0, SEEK_CUR) == length);
    }
    puts("untouched");
    return 0;
}
