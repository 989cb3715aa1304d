/*
 * passing.c - see passing.h.
 *
 * The question is a datagram to the giver's one socket, and along with it goes one end of a pair of sockets,
 * through which he answers: who asks has no address, so a process that takes addresses gets no answer.  A
 * question that is dropped, with its giver or by him, closes that end, which is seen at once.
 */
#define _GNU_SOURCE
#include "passing.h"

#include "core/fork.h"
#include "core/clock.h"
#include "core/lock.h"
#include "core/own_threads.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
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
#include <time.h>
#include <unistd.h>

#define STACK_BYTES (128u << 10)
#define PATIENCE_MS 10000
#define LOOK_MS     250 /* how often the requester checks that the other side still exists */
#define AGAIN_MS    10  /* until it sends the request, or checks, once more */

/* ---- sockets ---- */

static socklen_t name_of(struct sockaddr_un *address, uint64_t name)
{
    memset(address, 0, sizeof *address);
    address->sun_family = AF_UNIX;
    int n = snprintf(address->sun_path + 1, sizeof address->sun_path - 1, "vramscope-arena-%016llx",
                     (unsigned long long)name);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

/* FD under a number that programs do not come to. */
static int lift(int fd)
{
    struct rlimit limit;
    rlim_t half = getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur / 2 : 128;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, half < 1000 ? (int)half : 1000);
    if (high < 0)
        return fd;
    close(fd);
    return high;
}

static int new_socket(void)
{
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return fd < 0 ? -errno : lift(fd);
}

/* ---- messages ---- */

union control {
    struct cmsghdr header;
    char room[CMSG_SPACE(VS_PASSING_FILES * sizeof(int))];
};
_Static_assert(CMSG_SPACE(VS_PASSING_FILES * sizeof(int)) == CMSG_LEN(VS_PASSING_FILES * sizeof(int)),
               "the kernel has no room for more");

static void close_all(const int *files, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        close(files[i]);
}

/* False: not sent, with errno. */
static bool send_with(int to, void *data, size_t bytes, const int *files, uint32_t count, int flags)
{
    union control control;
    struct iovec one = {data, bytes};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1};
    if (count) {
        memset(&control, 0, sizeof control);
        control.header = (struct cmsghdr){
            .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(count * sizeof(int))};
        memcpy(CMSG_DATA(&control.header), files, count * sizeof(int));
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    }
    return sendmsg(to, &message, flags | MSG_NOSIGNAL) >= 0;
}

/* What was looked at before; how many descriptors came along, or -1: it is not there, or not all of them
 * could be had, and none is. */
static int receive_with(int from, void *data, size_t bytes, int files[VS_PASSING_FILES])
{
    union control control;
    uint32_t count = 0;
    struct iovec one = {data, bytes};
    struct msghdr message = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    if (recvmsg(from, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != (ssize_t)bytes)
        return -1;
    const struct cmsghdr *c = CMSG_FIRSTHDR(&message);
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS) {
        count = (uint32_t)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
        memcpy(files, CMSG_DATA(c), count * sizeof(int));
    }
    if (!(message.msg_flags & MSG_CTRUNC))
        return (int)count;
    close_all(files, count);
    return -1;
}

/* ---- the side that gives ----
 *
 * Names of sockets are there for all to read, and a name is free again when its process is gone.  So without
 * its key nothing is looked up for a question and its descriptor stays where it is, and without its proof
 * none of an answer's descriptors comes into the asker's process.  Who binds the name after the giver learns
 * a key that opens nothing any more. */

/* One for each socket.  Written before its thread begins; never given back, since a fork's child may look. */
struct server {
    vs_passing_give *give;
    struct vs_passing_address where;
    int socket;
    uint32_t process; /* vs_fork_number() of the one whose thread answers: a child of fork has none */
    dev_t device;
    ino_t inode;
    bool answers; /* atomic */
};

static struct vs_lock lock = VS_LOCK(ANSWERING);
static struct server *latest; /* atomic; written under the lock */

/* Whether the number still is our socket. */
static bool is_ours(const struct server *s)
{
    struct stat st;
    return fstat(s->socket, &st) == 0 && st.st_dev == s->device && st.st_ino == s->inode;
}

/* All of it is compared, whatever differs: the time says nothing. */
static bool has_key(const struct server *s, const struct question *q)
{
    return ((q->key[0] ^ s->where.key[0]) | (q->key[1] ^ s->where.key[1])) == 0;
}

/* Whether the next request bears the key.  It is only peeked at: the descriptor that came with it stays in
 * the socket. */
static bool hear(const struct server *s, struct question *q)
{
    return recv(s->socket, q, sizeof *q, MSG_PEEK | MSG_TRUNC) == sizeof *q && has_key(s, q);
}

/* Drops a request together with the socket that came with it, which the requester notices. */
static void drop(const struct server *s)
{
    char unused;
    recv(s->socket, &unused, sizeof unused, MSG_DONTWAIT);
}

/* Whether one more descriptor could be had now.  Else the question stays where it is, and is looked at again.
 */
static bool may_open(const struct server *s)
{
    int fd = fcntl(s->socket, F_DUPFD_CLOEXEC, 0);
    return fd >= 0 && close(fd) == 0;
}

/* Where the answer goes to; -1: nowhere. */
static int take_way_back(const struct server *s)
{
    struct question q;
    int files[VS_PASSING_FILES], count = receive_with(s->socket, &q, sizeof q, files);
    if (count == 1)
        return lift(files[0]);
    if (count > 1)
        close_all(files, (uint32_t)count);
    return -1;
}

/* All of a user's processes together may have only as many descriptors sent and not yet received as one
 * process may open.  Where that is reached, the requester is asked to try again, so that it does not wait for
 * an answer that cannot come. */
static void put_off(const struct server *s, int back)
{
    struct reply later;
    memset(&later, 0, sizeof later);
    later.proof = s->where.proof;
    later.answer.again = 1;
    send_with(back, &later, sizeof later, NULL, 0, MSG_DONTWAIT);
}

static void answer(const struct server *s, struct question *q, int back)
{
    struct reply reply;
    int files[VS_PASSING_FILES];
    memset(&reply, 0, sizeof reply);
    reply.proof = s->where.proof;
    if (q->ask.most > VS_PASSING_FILES)
        q->ask.most = VS_PASSING_FILES;
    s->give(&q->ask, &reply.answer, files);
    if (is_ours(s) && !send_with(back, &reply, sizeof reply, files, reply.answer.files, MSG_DONTWAIT))
        put_off(s, back);
    close_all(files, reply.answer.files);
}

/* False: the request had not the key. */
static bool answer_one(const struct server *s)
{
    struct question q;
    bool heard = hear(s, &q);
    if (!is_ours(s)) /* the program has closed it meanwhile */
        return false;
    if (!heard)
        drop(s);
    int back = heard && may_open(s) ? take_way_back(s) : -1;
    if (back < 0)
        return false;
    answer(s, &q, back);
    close(back);
    return true;
}

static void *serve(void *argument)
{
    struct server *s = argument;
    const struct timespec pause = {.tv_nsec = 100000};
    vs_own_thread_begin();
    prctl(PR_SET_NAME, "vramscope-share");
    while (is_ours(s))
        if (!answer_one(s))
            nanosleep(&pause, NULL); /* strangers, however many, take no core from the program */
    __atomic_store_n(&s->answers, false, __ATOMIC_RELAXED); /* a flag alone */
    vs_own_thread_end();
    return NULL;
}

/* Whether S answers in this process. */
static bool answers(const struct server *s)
{
    return s && s->process == vs_fork_number() && __atomic_load_n(&s->answers, __ATOMIC_RELAXED) &&
           is_ours(s);
}

/* A copy in the child would keep the name alive while no thread answers there. */
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

static int begin(vs_passing_give *give, struct server **out)
{
    struct server *s = vs_map(sizeof *s);
    if (!s)
        return -ENOMEM;
    *s = (struct server){.give = give, .process = vs_fork_number(), .answers = true};
    int error = open_socket(s);
    if (error == 0) {
        error = -vs_own_thread(NULL, STACK_BYTES, serve, s);
        if (error != 0)
            close(s->socket);
    }
    if (error != 0)
        munmap(s, sizeof *s);
    *out = s;
    return error;
}

int vs_passing_serve(vs_passing_give *give, struct vs_passing_address *where)
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

uint64_t vs_passing_name(void)
{
    /* acquire: as in close_in_child */
    const struct server *s = __atomic_load_n(&latest, __ATOMIC_ACQUIRE);
    return s && s->process == vs_fork_number() ? s->where.name : 0;
}

/* ---- the side that requests ---- */

static void look_often(int fd)
{
    struct timeval look = {.tv_usec = LOOK_MS * 1000};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &look, sizeof look);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &look, sizeof look);
}

int vs_passing_connect(const struct vs_passing_address *where)
{
    struct sockaddr_un to;
    int way = new_socket();
    if (way < 0)
        return way;
    socklen_t bytes = name_of(&to, where->name);
    look_often(way);
    if (connect(way, (struct sockaddr *)&to, bytes) != 0) {
        int error = -errno;
        close(way);
        return error;
    }
    return way;
}

/* Whether the socket that WAY leads to still exists: the kernel sends no notice of its end. */
static bool is_there(int way)
{
    struct sockaddr_un to;
    socklen_t bytes = sizeof to;
    return getpeername(way, (struct sockaddr *)&to, &bytes) == 0 &&
           connect(way, (struct sockaddr *)&to, bytes) == 0;
}

static int64_t now_ms(void)
{
    return (int64_t)(vs_clock_ns() / 1000000);
}

/* The way to the giver, and the two ends of the way back. */
struct talk {
    int way, own, given;
};

static void pause_a_moment(void)
{
    const struct timespec moment = {.tv_nsec = AGAIN_MS * 1000000};
    nanosleep(&moment, NULL);
}

/* The question was dropped; or its giver ends, and his sockets close one after the other. */
static int why_closed(int way)
{
    pause_a_moment();
    return is_there(way) ? -EKEYREJECTED : -ECONNREFUSED;
}

typedef ssize_t attempt(const struct talk *t, void *data, size_t bytes);

static ssize_t put(const struct talk *t, void *data, size_t bytes)
{
    return send_with(t->way, data, bytes, &t->given, 1, 0) ? (ssize_t)bytes : -1;
}

/* Without the descriptors: it stays where it is until it is known to be the giver's. */
static ssize_t look_at(const struct talk *t, void *data, size_t bytes)
{
    return recv(t->own, data, bytes, MSG_PEEK | MSG_TRUNC);
}

/* TRY until all of DATA went.  Signals of the program's may come faster than a look ends, so a clock says
 * when to give up. */
static int patiently(attempt *try, const struct talk *t, void *data, size_t bytes)
{
    int64_t end = now_ms() + PATIENCE_MS;
    do {
        ssize_t n = try(t, data, bytes);
        if (n == 0)
            return why_closed(t->way);
        if (n > 0)
            return (size_t)n == bytes ? 0 : -EBADMSG;
        if (errno != EAGAIN && errno != EINTR)
            return -errno;
        if (!is_there(t->way))
            return -ECONNREFUSED;
    } while (now_ms() < end);
    return -ETIMEDOUT;
}

/* The reply that was looked at, with its descriptors: fewer than were sent where this process may open no
 * more. */
static int take(const struct talk *t, struct reply *reply, int files[VS_PASSING_FILES])
{
    int count = receive_with(t->own, reply, sizeof *reply, files);
    if (count >= 0 && (uint32_t)count == reply->answer.files)
        return 0;
    if (count > 0)
        close_all(files, (uint32_t)count);
    return -EMFILE;
}

static int hear_reply(const struct talk *t, uint64_t proof, struct reply *reply, int files[VS_PASSING_FILES])
{
    int error = patiently(look_at, t, reply, sizeof *reply);
    if (error == 0 && reply->proof != proof)
        error = -EBADMSG;
    return error == 0 ? take(t, reply, files) : error;
}

static int ask_once(int way, uint64_t proof, struct question *q, struct reply *reply,
                    int files[VS_PASSING_FILES])
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
        return -errno;
    struct talk t = {way, lift(ends[0]), lift(ends[1])};
    look_often(t.own);
    int error = patiently(put, &t, q, sizeof *q);
    close(t.given);
    if (error == 0)
        error = hear_reply(&t, proof, reply, files);
    close(t.own);
    return error;
}

/* Whether the request is to be sent again after a pause. */
static bool is_put_off(int error, const struct reply *reply, const int *files)
{
    if (error != -ETOOMANYREFS && (error != 0 || !reply->answer.again))
        return false;
    if (error == 0)
        close_all(files, reply->answer.files); /* there are none, unless the giver is not like us */
    pause_a_moment();
    return true;
}

int vs_passing_request(int way, const struct vs_passing_address *where, const struct vs_passing_request *ask,
                       struct vs_passing_answer *answer, int files[VS_PASSING_FILES])
{
    struct question q = {{where->key[0], where->key[1]}, *ask};
    struct reply reply;
    int64_t end = now_ms() + PATIENCE_MS;
    do {
        int error = ask_once(way, where->proof, &q, &reply, files);
        if (is_put_off(error, &reply, files))
            continue;
        if (error == 0)
            *answer = reply.answer;
        return error;
    } while (now_ms() < end);
    return -ETOOMANYREFS;
}
