/*
 * handover.c - see handover.h.
 *
 * One question, one answer, each a datagram: the giver has one socket for all who ask, and no connection of
 * his is opened under a number that the program may expect for a file of its own.  Both sides look who the
 * other is: the kernel says so with every datagram.
 */
#define _GNU_SOURCE
#include "handover.h"

#include "lock.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define STACK_BYTES (128u << 10)
#define PATIENCE_MS 10000
#define LOOK_MS     250 /* how often who asks looks whether the other still is there */

/* ---- sockets ---- */

static socklen_t name_of(struct sockaddr_un *address, uint64_t name)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    int n = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "vramscope-arena-%016llx",
                     (unsigned long long)name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* A socket that says with each datagram who sent it, under a number that programs do not come to. */
static int new_socket(void)
{
    struct rlimit limit;
    int yes = 1, low = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (low < 0)
        return -errno;
    rlim_t half = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / 2 : 128;
    int high = fcntl(low, F_DUPFD_CLOEXEC, half < 1000 ? (int)half : 1000);
    if (high >= 0) {
        close(low);
        low = high;
    }
    setsockopt(low, SOL_SOCKET, SO_PASSCRED, &yes, sizeof yes);
    return low;
}

/* Room for descriptors and for who sent them. */
union control {
    struct cmsghdr header;
    char room[CMSG_SPACE(VS_HANDOVER_FILES * sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
};

typedef bool trust(const struct ucred *who);

/* Who may have what is given: nobody has root's memory because he knows where it is. */
static bool may_ask(const struct ucred *who)
{
    return who->uid == geteuid() || who->uid == 0;
}

static bool may_answer(const struct ucred *who)
{
    return may_ask(who) || geteuid() == 0;
}

/* More than there is room for come only where the kernel left out who sent them: nobody who is trusted. */
static uint32_t take_files(const int *came, uint32_t count, int files[VS_HANDOVER_FILES])
{
    uint32_t kept = count < VS_HANDOVER_FILES ? count : VS_HANDOVER_FILES;
    memcpy(files, came, kept * sizeof(int));
    for (uint32_t i = kept; i < count; i++)
        close(came[i]);
    return kept;
}

/* What came along: how many descriptors, and whether the sender is one of those that MAY. */
static uint32_t unpack(struct msghdr *message, trust *may, int files[VS_HANDOVER_FILES], bool *trusted)
{
    uint32_t count = 0;
    *trusted = false;
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        struct ucred who;
        if (c->cmsg_level != SOL_SOCKET)
            continue;
        if (c->cmsg_type == SCM_CREDENTIALS) {
            memcpy(&who, CMSG_DATA(c), sizeof who);
            *trusted = may(&who);
        } else if (c->cmsg_type == SCM_RIGHTS) {
            count = take_files((const int *)(const void *)CMSG_DATA(c),
                               (uint32_t)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int)), files);
        }
    }
    return count;
}

static void close_all(const int *files, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        close(files[i]);
}

/* A datagram of exactly BYTES from one of those that MAY: how many descriptors came with it, or -errno
 * (-EACCES: from another one, who stands in *WHO). */
static int receive(int from, trust *may, void *data, size_t bytes, int files[VS_HANDOVER_FILES],
                   struct sockaddr_un *who, socklen_t *who_bytes)
{
    union control control;
    struct iovec one = {data, bytes};
    struct msghdr message = {.msg_name = who,
                             .msg_namelen = who ? sizeof *who : 0,
                             .msg_iov = &one,
                             .msg_iovlen = 1,
                             .msg_control = &control,
                             .msg_controllen = sizeof control};
    bool trusted;
    ssize_t n;
    do /* a signal of the program's interrupts it in any case where it has a time limit */
        n = recvmsg(from, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN ? -ETIMEDOUT : -errno;
    uint32_t count = unpack(&message, may, files, &trusted);
    if (who_bytes)
        *who_bytes = message.msg_namelen;
    bool whole = (size_t)n == bytes && !(message.msg_flags & (MSG_TRUNC | MSG_CTRUNC));
    if (whole && trusted)
        return (int)count;
    close_all(files, count);
    return whole ? -EACCES : -EBADMSG;
}

/* ---- who gives ---- */

/* One for each socket.  Written before its thread begins; never given back, since a fork's child may look. */
struct server {
    vs_handover_give *give;
    uint64_t name;
    int socket;
    pid_t pid; /* whose thread answers: a fork's child has none */
    dev_t device;
    ino_t inode;
    bool answers; /* atomic */
};

static struct vs_lock lock;
static struct server *latest; /* atomic; written under the lock */

/* Whether the number still is our socket. */
static bool is_ours(const struct server *s)
{
    struct stat st;
    return fstat(s->socket, &st) == 0 && st.st_dev == s->device && st.st_ino == s->inode;
}

static void send_answer(const struct server *s, const struct vs_handover_answer *answer, const int *files,
                        const struct sockaddr_un *to, socklen_t to_bytes)
{
    union control control;
    struct iovec one = {(void *)answer, sizeof *answer};
    struct msghdr message = {
        .msg_name = (void *)to, .msg_namelen = to_bytes, .msg_iov = &one, .msg_iovlen = 1};
    if (answer->files) {
        memset(&control, 0, sizeof control);
        control.header = (struct cmsghdr){.cmsg_level = SOL_SOCKET,
                                          .cmsg_type = SCM_RIGHTS,
                                          .cmsg_len = CMSG_LEN(answer->files * sizeof(int))};
        memcpy(CMSG_DATA(&control.header), files, answer->files * sizeof(int));
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(answer->files * sizeof(int));
    }
    sendmsg(s->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL); /* who does not read has no answer */
}

static void answer_one(const struct server *s)
{
    struct sockaddr_un who;
    socklen_t who_bytes = 0;
    struct vs_handover_ask ask;
    struct vs_handover_answer answer;
    int files[VS_HANDOVER_FILES];
    int came = receive(s->socket, may_ask, &ask, sizeof ask, files, &who, &who_bytes);
    memset(&answer, 0, sizeof answer);
    if (came == -EACCES && is_ours(s)) { /* told at once, so that he does not wait */
        answer.status = -EACCES;
        send_answer(s, &answer, files, &who, who_bytes);
    }
    if (came < 0)
        return;
    close_all(files, (uint32_t)came); /* nobody sends any */
    if (ask.most > VS_HANDOVER_FILES)
        ask.most = VS_HANDOVER_FILES;
    s->give(&ask, &answer, files);
    if (is_ours(s))
        send_answer(s, &answer, files, &who, who_bytes);
    close_all(files, answer.files);
}

static void *serve(void *argument)
{
    struct server *s = argument;
    prctl(PR_SET_NAME, "vramscope-share");
    while (is_ours(s))
        answer_one(s);
    __atomic_store_n(&s->answers, false, __ATOMIC_RELAXED); /* a flag alone */
    return NULL;
}

/* Whether S answers in this process. */
static bool answers(const struct server *s)
{
    return s && s->pid == getpid() && __atomic_load_n(&s->answers, __ATOMIC_RELAXED) && is_ours(s);
}

/* The child's copy would keep the name alive, and nobody would answer. */
static void close_in_child(void)
{
    /* acquire: all of it was written before it was the latest */
    const struct server *s = __atomic_load_n(&latest, __ATOMIC_ACQUIRE);
    if (s && __atomic_load_n(&s->answers, __ATOMIC_RELAXED) && is_ours(s))
        close(s->socket);
}

static int open_socket(struct server *s)
{
    struct sockaddr_un address;
    struct stat st;
    if (getrandom(&s->name, sizeof s->name, GRND_NONBLOCK) != sizeof s->name)
        return -EAGAIN;
    s->socket = new_socket();
    if (s->socket < 0)
        return s->socket;
    socklen_t bytes = name_of(&address, s->name);
    if (bind(s->socket, (struct sockaddr *)&address, bytes) != 0 || fstat(s->socket, &st) != 0) {
        int error = -errno;
        close(s->socket);
        return error;
    }
    s->device = st.st_dev;
    s->inode = st.st_ino;
    return 0;
}

/* No signal of the program's is handled by a thread of ours. */
static int start_thread(struct server *s)
{
    sigset_t all, before;
    pthread_attr_t attr;
    pthread_t thread;
    sigfillset(&all);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES + (size_t)sysconf(_SC_THREAD_STACK_MIN));
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(&thread, &attr, serve, s);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    return -error;
}

static int begin(vs_handover_give *give, struct server **out)
{
    struct server *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED)
        return -ENOMEM;
    *s = (struct server){.give = give, .pid = getpid(), .answers = true};
    int error = open_socket(s);
    if (error == 0) {
        error = start_thread(s);
        if (error != 0)
            close(s->socket);
    }
    if (error != 0)
        munmap(s, sizeof *s);
    *out = s;
    return error;
}

int vs_handover_serve(vs_handover_give *give, uint64_t *name)
{
    static bool arranged;
    int error = 0;
    vs_lock_take(&lock);
    if (!arranged)
        arranged = pthread_atfork(NULL, NULL, close_in_child) == 0;
    struct server *s = latest;
    if (!answers(s)) {
        error = begin(give, &s);
        if (error == 0)
            __atomic_store_n(&latest, s, __ATOMIC_RELEASE); /* see close_in_child */
    }
    *name = error == 0 ? s->name : 0;
    vs_lock_give(&lock);
    return error;
}

uint64_t vs_handover_name(void)
{
    /* acquire: as in close_in_child */
    const struct server *s = __atomic_load_n(&latest, __ATOMIC_ACQUIRE);
    return s && s->pid == getpid() ? s->name : 0;
}

/* ---- who asks ---- */

int vs_handover_connect(uint64_t name)
{
    struct sockaddr_un own = {.sun_family = AF_UNIX}, to;
    struct timeval look = {.tv_usec = LOOK_MS * 1000};
    int way = new_socket();
    if (way < 0)
        return way;
    socklen_t bytes = name_of(&to, name);
    setsockopt(way, SOL_SOCKET, SO_RCVTIMEO, &look, sizeof look);
    setsockopt(way, SOL_SOCKET, SO_SNDTIMEO, &look, sizeof look);
    /* without a path the kernel gives it a name of its own: answers need one */
    if (bind(way, (struct sockaddr *)&own, sizeof own.sun_family) != 0 ||
        connect(way, (struct sockaddr *)&to, bytes) != 0) {
        int error = -errno;
        close(way);
        return error;
    }
    return way;
}

/* Whether anybody has the socket that WAY leads to: the kernel does not tell when it goes. */
static bool is_there(int way)
{
    struct sockaddr_un to;
    socklen_t bytes = sizeof to;
    return getpeername(way, (struct sockaddr *)&to, &bytes) == 0 &&
           connect(way, (struct sockaddr *)&to, bytes) == 0;
}

int vs_handover_ask(int way, const struct vs_handover_ask *ask, struct vs_handover_answer *answer,
                    int files[VS_HANDOVER_FILES])
{
    ssize_t sent;
    do
        sent = send(way, ask, sizeof *ask, MSG_NOSIGNAL);
    while (sent < 0 && errno == EINTR);
    if (sent != sizeof *ask)
        return errno == EAGAIN ? -ETIMEDOUT : -errno;
    int came = -ETIMEDOUT;
    for (int waited = 0; came == -ETIMEDOUT && waited < PATIENCE_MS; waited += LOOK_MS) {
        came = receive(way, may_answer, answer, sizeof *answer, files, NULL, NULL);
        if (came == -ETIMEDOUT && !is_there(way))
            return -ECONNREFUSED;
    }
    if (came < 0)
        return came;
    if ((uint32_t)came == answer->files)
        return answer->status == -EACCES ? -EACCES : 0;
    close_all(files, (uint32_t)came); /* fewer than were sent: this process may open no more */
    return -EMFILE;
}
