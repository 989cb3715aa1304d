/*
 * handover.c - see handover.h.
 *
 * One question, one answer, each a datagram: the giver has one socket for all who ask, and no connection of
 * his is opened under a number that the program may expect for a file of its own.
 *
 * Names of sockets are there for all to read, and a name is free again when its process is gone.  So the
 * question carries a key, without which nothing is looked up, and the answer a proof, without which none of
 * its descriptors comes into the asker's process.  Who binds the name after the giver learns a key that opens
 * nothing any more.
 */
#define _GNU_SOURCE
#include "handover.h"

#include "lock.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define STACK_BYTES (128u << 10)
#define PATIENCE_MS 10000
#define LOOK_MS     250 /* how often who asks looks whether the other still is there */
#define AGAIN_MS    10  /* from one question to the next, while the giver cannot send */

/* ---- sockets ---- */

static socklen_t name_of(struct sockaddr_un *address, uint64_t name)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    int n = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "vramscope-arena-%016llx",
                     (unsigned long long)name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* Under a number that programs do not come to. */
static int new_socket(void)
{
    struct rlimit limit;
    int low = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (low < 0)
        return -errno;
    rlim_t half = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / 2 : 128;
    int high = fcntl(low, F_DUPFD_CLOEXEC, half < 1000 ? (int)half : 1000);
    if (high < 0)
        return low;
    close(low);
    return high;
}

/* ---- datagrams ---- */

struct question {
    uint64_t key[2];
    struct vs_handover_ask ask;
};

struct reply {
    uint64_t proof; /* 0: the key was wrong, and there is nothing else in it */
    struct vs_handover_answer answer;
};

union control {
    struct cmsghdr header;
    char room[CMSG_SPACE(VS_HANDOVER_FILES * sizeof(int))];
};
_Static_assert(CMSG_SPACE(VS_HANDOVER_FILES * sizeof(int)) == CMSG_LEN(VS_HANDOVER_FILES * sizeof(int)),
               "the kernel has no room for more");

static void close_all(const int *files, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        close(files[i]);
}

/* ---- who gives ---- */

/* One for each socket.  Written before its thread begins; never given back, since a fork's child may look. */
struct server {
    vs_handover_give *give;
    struct vs_handover_address where;
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

/* Who does not read has no answer.  False: it could not be sent. */
static bool send_reply(const struct server *s, struct reply *reply, const int *files, struct sockaddr_un *to,
                       socklen_t to_bytes)
{
    union control control;
    uint32_t count = reply->answer.files;
    struct iovec one = {reply, sizeof *reply};
    struct msghdr message = {.msg_name = to, .msg_namelen = to_bytes, .msg_iov = &one, .msg_iovlen = 1};
    if (count) {
        memset(&control, 0, sizeof control);
        control.header = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(count * sizeof(int))};
        memcpy(CMSG_DATA(&control.header), files, count * sizeof(int));
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    }
    return sendmsg(s->socket, &message, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0;
}

/* A question and who asks it; whatever else comes is dropped, descriptors that come along by the kernel. */
static bool hear(const struct server *s, struct question *q, struct sockaddr_un *who, socklen_t *who_bytes)
{
    *who_bytes = sizeof *who;
    return recvfrom(s->socket, q, sizeof *q, MSG_TRUNC, (struct sockaddr *)who, who_bytes) == sizeof *q;
}

/* All of it is compared, whatever differs: the time says nothing. */
static bool has_key(const struct server *s, const struct question *q)
{
    return ((q->key[0] ^ s->where.key[0]) | (q->key[1] ^ s->where.key[1])) == 0;
}

/* Whether so many answers lie unread that one more could take the room of who has the key: the kernel counts
 * them as the giver's, and whoever asks and does not read could fill it. */
static bool is_crowded(const struct server *s)
{
    int unread = 0, room = 0;
    socklen_t bytes = sizeof room;
    return ioctl(s->socket, SIOCOUTQ, &unread) != 0 ||
           getsockopt(s->socket, SOL_SOCKET, SO_SNDBUF, &room, &bytes) != 0 || unread > room / 4;
}

/* Told at once that it is nothing, so that he does not wait. */
static void refuse(const struct server *s, struct sockaddr_un *who, socklen_t who_bytes)
{
    struct reply nothing;
    memset(&nothing, 0, sizeof nothing);
    if (is_ours(s) && !is_crowded(s))
        send_reply(s, &nothing, NULL, who, who_bytes);
}

/* The kernel lets a user's processes together have no more descriptors on their way, sent and not yet read,
 * than one may open.  Told so he asks again, instead of waiting for what does not come. */
static void put_off(const struct server *s, struct sockaddr_un *who, socklen_t who_bytes)
{
    struct reply later;
    memset(&later, 0, sizeof later);
    later.proof = s->where.proof;
    later.answer.again = 1;
    send_reply(s, &later, NULL, who, who_bytes);
}

/* False: it was nobody who has the key. */
static bool answer_one(const struct server *s)
{
    struct sockaddr_un who;
    socklen_t who_bytes;
    struct question q;
    struct reply reply;
    int files[VS_HANDOVER_FILES];
    if (!hear(s, &q, &who, &who_bytes))
        return false;
    if (!has_key(s, &q)) {
        refuse(s, &who, who_bytes);
        return false;
    }
    memset(&reply, 0, sizeof reply);
    reply.proof = s->where.proof;
    if (q.ask.most > VS_HANDOVER_FILES)
        q.ask.most = VS_HANDOVER_FILES;
    s->give(&q.ask, &reply.answer, files);
    if (is_ours(s) && !send_reply(s, &reply, files, &who, who_bytes))
        put_off(s, &who, who_bytes);
    close_all(files, reply.answer.files);
    return true;
}

static void *serve(void *argument)
{
    struct server *s = argument;
    const struct timespec pause = {.tv_nsec = 100000};
    prctl(PR_SET_NAME, "vramscope-share");
    while (is_ours(s))
        if (!answer_one(s))
            nanosleep(&pause, NULL); /* strangers, however many, take no core from the program */
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
    if (getrandom(&s->where, sizeof s->where, GRND_NONBLOCK) != sizeof s->where)
        return -EAGAIN;
    s->socket = new_socket();
    if (s->socket < 0)
        return s->socket;
    socklen_t bytes = name_of(&address, s->where.name);
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

int vs_handover_serve(vs_handover_give *give, struct vs_handover_address *where)
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
    if (error == 0)
        *where = s->where;
    vs_lock_give(&lock);
    return error;
}

uint64_t vs_handover_name(void)
{
    /* acquire: as in close_in_child */
    const struct server *s = __atomic_load_n(&latest, __ATOMIC_ACQUIRE);
    return s && s->pid == getpid() ? s->where.name : 0;
}

/* ---- who asks ---- */

int vs_handover_connect(const struct vs_handover_address *where)
{
    struct sockaddr_un own = {.sun_family = AF_UNIX}, to;
    struct timeval look = {.tv_usec = LOOK_MS * 1000};
    int way = new_socket();
    if (way < 0)
        return way;
    socklen_t bytes = name_of(&to, where->name);
    setsockopt(way, SOL_SOCKET, SO_RCVTIMEO, &look, sizeof look);
    setsockopt(way, SOL_SOCKET, SO_SNDTIMEO, &look, sizeof look);
    /* without a path the kernel gives it a name of its own: answers need one.  It has none before it is
     * connected, and then the kernel lets nobody else send to it. */
    if (connect(way, (struct sockaddr *)&to, bytes) != 0 ||
        bind(way, (struct sockaddr *)&own, sizeof own.sun_family) != 0) {
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

static int64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

typedef ssize_t attempt(int way, void *data, size_t bytes);

static ssize_t put(int way, void *data, size_t bytes)
{
    return send(way, data, bytes, MSG_NOSIGNAL);
}

/* Without the descriptors: it stays where it is until it is known to be the giver's. */
static ssize_t look_at(int way, void *data, size_t bytes)
{
    return recv(way, data, bytes, MSG_PEEK | MSG_TRUNC);
}

/* TRY until all of DATA went.  Signals of the program's may come faster than a look ends, so a clock says
 * when to give up. */
static int patiently(attempt *try, int way, void *data, size_t bytes)
{
    int64_t end = now_ms() + PATIENCE_MS;
    do {
        ssize_t n = try(way, data, bytes);
        if (n >= 0)
            return (size_t)n == bytes ? 0 : -EBADMSG;
        if (errno != EAGAIN && errno != EINTR)
            return -errno;
        if (!is_there(way))
            return -ECONNREFUSED;
    } while (now_ms() < end);
    return -ETIMEDOUT;
}

/* The reply that was looked at, with its descriptors: fewer than were sent where this process may open no
 * more. */
static int take(int way, struct reply *reply, int files[VS_HANDOVER_FILES])
{
    union control control;
    uint32_t count = 0;
    struct iovec one = {reply, sizeof *reply};
    struct msghdr message = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(way, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != sizeof *reply)
        return -EBADMSG;
    const struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        count = (uint32_t)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(files, CMSG_DATA(c), count * sizeof(int));
    }
    if (count == reply->answer.files && !(message.msg_flags & MSG_CTRUNC))
        return 0;
    close_all(files, count);
    return -EMFILE;
}

static int ask_once(int way, uint64_t proof, struct question *q, struct reply *reply,
                    int files[VS_HANDOVER_FILES])
{
    int error = patiently(put, way, q, sizeof *q);
    if (error == 0)
        error = patiently(look_at, way, reply, sizeof *reply);
    if (error == 0 && reply->proof != proof)
        error = reply->proof == 0 ? -EKEYREJECTED : -EBADMSG;
    return error == 0 ? take(way, reply, files) : error;
}

int vs_handover_ask(int way, const struct vs_handover_address *where, const struct vs_handover_ask *ask,
                    struct vs_handover_answer *answer, int files[VS_HANDOVER_FILES])
{
    const struct timespec pause = {.tv_nsec = AGAIN_MS * 1000000};
    struct question q = {{where->key[0], where->key[1]}, *ask};
    struct reply reply;
    int64_t end = now_ms() + PATIENCE_MS;
    do {
        int error = ask_once(way, where->proof, &q, &reply, files);
        if (error != 0)
            return error;
        *answer = reply.answer;
        if (!answer->again)
            return 0;
        close_all(files, answer->files); /* there are none, unless the giver is not like us */
        nanosleep(&pause, NULL);
    } while (now_ms() < end);
    return -ETOOMANYREFS;
}
