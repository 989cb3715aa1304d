/*
 * contain.c - runs a program so that what it writes goes nowhere (contain.h).
 *
 * Root needs a mount namespace alone; others get a user namespace with it, in which they have their own
 * number still.  The memory has a limit: a program that writes more is told that the disk is full.
 */
#include "contain.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define ROOM_SHARE 4 /* of the machine's available memory, at most */

/* ---- the scratch as a descriptor: it outlives the namespace ---- */

static int send_descriptor(int socket, int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    char byte = 0;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(c), &fd, sizeof fd);
    return sendmsg(socket, &message, MSG_NOSIGNAL) == 1 ? 0 : errno;
}

static int receive_descriptor(int socket)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    char byte;
    struct iovec part = {&byte, 1};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    int fd = -1;
    if (recvmsg(socket, &message, MSG_CMSG_CLOEXEC) == 1 && CMSG_FIRSTHDR(&message))
        memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

/* ---- in the child ---- */

static int write_map(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool good = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    int error = good ? 0 : errno;
    if (fd >= 0)
        close(fd);
    return error;
}

static int keep_number(uid_t user, gid_t group)
{
    char *users = xformat("%ld %ld 1", (long)user, (long)user),
         *groups = xformat("%ld %ld 1", (long)group, (long)group);
    int error = write_map("/proc/self/uid_map", users);
    if (!error)
        error = write_map("/proc/self/setgroups", "deny");
    if (!error)
        error = write_map("/proc/self/gid_map", groups);
    free(users);
    free(groups);
    return error;
}

static int own_namespaces(bool *user)
{
    uid_t uid = geteuid();
    gid_t gid = getegid();
    int error = unshare(CLONE_NEWNS) ? errno : 0;
    *user = error == EPERM;
    if (*user)
        error = unshare(CLONE_NEWUSER | CLONE_NEWNS) ? errno : keep_number(uid, gid);
    if (!error && mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL))
        error = errno;
    return error;
}

static int mount_memory(const char *path, int64_t room, const char *mode)
{
    char *options = xformat("size=%" PRId64 ",mode=%s", room, mode);
    int error = mount("vramscope", path, "tmpfs", MS_NOSUID | MS_NODEV, options) ? errno : 0;
    free(options);
    return error;
}

/* What processes share by memory is theirs alone; where there is no such folder there is none then either. */
static int private_shared_memory(const struct contain *c)
{
    char *path = xformat("%s/root/dev/shm", c->scratch);
    int error = access(path, F_OK) ? 0 : mount_memory(path, c->room, "1777");
    free(path);
    return error;
}

static int change_root(const struct contain *c, const char *cwd)
{
    char *root = xformat("%s/root", c->scratch);
    int error = chdir(root) ? errno : 0;
    free(root);
    if (!error && (syscall(SYS_pivot_root, ".", ".") || umount2(".", MNT_DETACH)))
        error = errno;
    return !error && chdir(cwd) ? errno : error;
}

int contain_enter(const struct contain *c)
{
    char cwd[PATH_MAX];
    struct cover cover = {.scratch = c->scratch, .cwd = cwd};
    int fd = -1, error = getcwd(cwd, sizeof cwd) ? own_namespaces(&cover.user) : errno;
    if (!error)
        error = mounts_read(&cover.mounts);
    if (!error)
        error = mount_memory(c->scratch, c->room, "0755");
    if (!error && (fd = open(c->scratch, O_PATH | O_DIRECTORY | O_CLOEXEC)) < 0)
        error = errno;
    if (!error)
        error = send_descriptor(c->ends[1], fd);
    if (!error)
        error = cover_all(&cover);
    if (!error)
        error = private_shared_memory(c);
    if (!error)
        error = cover_not(&cover, c->folder);
    if (!error && c->caches)
        error = cover_not(&cover, c->caches);
    if (!error && c->journals)
        error = cover_not(&cover, c->journals);
    mounts_free(&cover.mounts);
    return error ? error : change_root(c, cwd);
}

/* FD, a file that we were started with, opened again: in its place in the tree that the program
 * has, or to be read alone. */
static void open_again(int fd, bool contained)
{
    char *link = xformat("/proc/self/fd/%d", fd), path[PATH_MAX];
    struct stat st;
    int flags = fcntl(fd, F_GETFL), again = -1;
    ssize_t n = readlink(link, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    bool file = n > 0 && !(fcntl(fd, F_GETFD) & FD_CLOEXEC) && !fstat(fd, &st) && S_ISREG(st.st_mode);
    if (file && contained)
        again = open(path, (flags & (O_ACCMODE | O_APPEND | O_NONBLOCK)) | O_CLOEXEC);
    else if (file && (flags & O_ACCMODE) != O_RDONLY)
        again = open(link, O_RDONLY | O_CLOEXEC);
    if (again >= 0) {
        lseek(again, lseek(fd, 0, SEEK_CUR), SEEK_SET);
        dup2(again, fd);
        close(again);
    }
    free(link);
}

void contain_descriptors(bool contained)
{
    DIR *d = opendir("/proc/self/fd");
    for (struct dirent *e; d && (e = readdir(d));) {
        int fd = atoi(e->d_name);
        if (*e->d_name != '.' && fd != STDOUT_FILENO && fd != STDERR_FILENO && fd != dirfd(d))
            open_again(fd, contained);
    }
    if (d)
        closedir(d);
}

/* ---- in the parent ---- */

/* What the kernel could give without swapping: its caches of files are free memory, too. */
static int64_t room(void)
{
    char line[128];
    long long kib = 0;
    FILE *in = fopen("/proc/meminfo", "re");
    while (in && !kib && fgets(line, sizeof line, in))
        if (sscanf(line, "MemAvailable: %lld kB", &kib) != 1)
            kib = 0;
    if (in)
        fclose(in);
    return kib > 0 ? kib * 1024 / ROOM_SHARE : INT64_C(1) << 30;
}

int contain_begin(struct contain *c, const char *folder, const char *caches, const char *keep)
{
    const char *journals = getenv("VRAMSCOPE_JOURNAL_DIR");
    *c = (struct contain){
        .scratch = xformat("%s/scratch", folder), .folder = xstrdup(folder), .keep = keep, .room = room()};
    c->caches = caches ? xstrdup(caches) : NULL;
    c->journals = journals && *journals ? xstrdup(journals) : NULL;
    return mkdir(c->scratch, 0700) || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, c->ends) ? -1 : 0;
}

void contain_started(struct contain *c)
{
    close(c->ends[1]);
}

void contain_end(struct contain *c, struct written *w)
{
    struct statvfs fs;
    int fd = receive_descriptor(c->ends[0]);
    if (fd >= 0) {
        written_read(w, fd, c->keep);
        w->room = c->room;
        w->full = !fstatvfs(fd, &fs) && fs.f_bavail == 0;
        close(fd);
    }
    close(c->ends[0]);
    rmdir(c->scratch);
    free(c->scratch);
    free(c->folder);
    free(c->caches);
    free(c->journals);
}

bool contain_possible(const char *folder)
{
    struct contain c;
    int status = 1;
    pid_t pid = contain_begin(&c, folder, NULL, NULL) ? -1 : fork();
    if (pid == 0)
        _exit(contain_enter(&c) ? 1 : 0);
    contain_started(&c);
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    struct written w = {0};
    contain_end(&c, &w);
    written_free(&w);
    return pid > 0 && status == 0;
}
