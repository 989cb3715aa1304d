// link: cuda
/*
 * prog_arena_liar - opens a handle whose exporter says of his memory what is not so: an error, and nothing of
 * it stays.
 *
 * A child answers in an exporter's place, with what the number of the block in the handle says.  It knows
 * the handle and the socket's protocol (shim/arena/share/share.h, passing.h).
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "prog.h"

#define PIECE  (2 * MIB)
#define PIECES 3u

struct ticket {
    char magic[8];
    int32_t pid, device;
    uint64_t name, key[2], proof, id, size;
};
struct question {
    uint64_t key[2], id;
    uint32_t first, most;
};
struct reply {
    uint64_t proof;
    int32_t status;
    uint32_t files, pieces, unused;
    uint64_t piece_bytes, bytes, offset;
};

enum lie {
    NONE,
    NO_FILES,
    NO_PIECES,
    HUGE_PIECES, /* larger than the whole */
    FAR_OFFSET,
    SMALL,        /* less than the handle says */
    LARGER_LATER, /* the second answer's pieces */
    MORE_LATER,   /* pieces than the first answer said */
    FEWER_LATER,
    EMPTY_PIECES,
    NOT_MEMORY,
    FILES_LACK, /* that were said to come */
    LIES
};

static const char *const names[LIES] = {"none",        "no files",     "no pieces",    "huge pieces",
                                        "far offset",  "small",        "larger later", "more later",
                                        "fewer later", "empty pieces", "not memory",   "files lack"};

/* ---- who lies ---- */

static struct reply say(enum lie lie, uint32_t first)
{
    struct reply r = {
        .proof = 5, .files = 1, .pieces = PIECES, .piece_bytes = PIECE, .bytes = PIECES * PIECE};
    if (lie == NO_FILES)
        r.files = 0;
    else if (lie == NO_PIECES)
        r.pieces = 0;
    else if (lie == HUGE_PIECES)
        r.piece_bytes = 1ull << 63;
    else if (lie == FAR_OFFSET)
        r.offset = PIECES * PIECE + 1;
    else if (lie == SMALL)
        r.offset = 1;
    else if (lie == LARGER_LATER && first)
        r.piece_bytes = 64 * MIB;
    else if (lie == MORE_LATER && first)
        r.pieces = 9;
    else if (lie == FEWER_LATER && first)
        r.pieces = 2;
    else if (lie == EMPTY_PIECES)
        r.piece_bytes = 0;
    return r;
}

static int piece(enum lie lie, const struct reply *r)
{
    if (lie == NOT_MEMORY)
        return open("/dev/null", O_RDWR | O_CLOEXEC);
    int file = memfd_create("piece", MFD_CLOEXEC);
    CHECK(ftruncate(file, (off_t)(r->piece_bytes > PIECE ? 64 * MIB : PIECE)) == 0);
    return file;
}

static void send_reply(int back, struct reply *r, int file)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control = {.header = {CMSG_LEN(sizeof(int)), SOL_SOCKET, SCM_RIGHTS}};
    struct iovec one = {r, sizeof *r};
    struct msghdr message = {.msg_iov = &one, .msg_iovlen = 1};
    memcpy(CMSG_DATA(&control.header), &file, sizeof file);
    if (r->files) {
        message.msg_control = &control;
        message.msg_controllen = sizeof control;
    }
    sendmsg(back, &message, 0);
}

/* A question, and where its answer goes to. */
static int hear(int on, struct question *q)
{
    union {
        struct cmsghdr header;
        char room[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec one = {q, sizeof *q};
    struct msghdr message = {
        .msg_iov = &one, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    int back;
    CHECK(recvmsg(on, &message, 0) == sizeof *q && CMSG_FIRSTHDR(&message));
    memcpy(&back, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof back);
    return back;
}

static void lie_for_ever(int on)
{
    for (;;) {
        struct question q;
        int back = hear(on, &q);
        enum lie lie = (enum lie)(q.id - 1);
        struct reply r = say(lie, q.first);
        int file = piece(lie, &r);
        if (lie == FILES_LACK)
            r.files = 2;
        send_reply(back, &r, file);
        close(file);
        close(back);
    }
}

static pid_t start_liar(uint64_t name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int on = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    int n = snprintf(address.sun_path + 1, sizeof address.sun_path - 1, "vramscope-arena-%016llx",
                     (unsigned long long)name);
    socklen_t bytes = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
    CHECK(bind(on, (struct sockaddr *)&address, bytes) == 0);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        lie_for_ever(on);
    }
    close(on);
    return pid;
}

/* ---- who opens ---- */

static unsigned open_files(void)
{
    unsigned open = 0;
    for (int fd = 0; fd < 4096; fd++)
        open += fcntl(fd, F_GETFD) >= 0;
    return open;
}

static CUresult open_lie(const struct ticket *t, enum lie lie, CUdeviceptr *p)
{
    CUipcMemHandle handle;
    struct ticket asked = *t;
    asked.id = (uint64_t)lie + 1;
    _Static_assert(sizeof asked == sizeof handle, "a ticket is a handle");
    memcpy(&handle, &asked, sizeof handle);
    return cuIpcOpenMemHandle(p, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

static void open_truth(const struct ticket *t)
{
    CUdeviceptr p;
    unsigned word = 1;
    OK(open_lie(t, NONE, &p));
    OK(cuMemcpyDtoH(&word, p + t->size - 4, 4));
    CHECK(word == 0);
    OK(cuIpcCloseMemHandle(p));
}

int main(void)
{
    struct ticket t = {.size = PIECES * PIECE, .proof = 5, .name = 0x11a50000ull + (uint64_t)getpid()};
    pid_t liar = start_liar(t.name);
    CUdeviceptr p;
    memcpy(t.magic, "vsarena3", sizeof t.magic);
    t.pid = liar;
    begin();
    open_truth(&t);
    unsigned were_open = open_files();
    for (enum lie lie = NO_FILES; lie < LIES; lie++) {
        CUresult status = open_lie(&t, lie, &p);
        printf("%s: %d\n", names[lie], status);
        if (open_files() != were_open)
            puts("a descriptor stayed");
    }
    open_truth(&t);
    kill(liar, SIGKILL);
    waitpid(liar, NULL, 0);
    return 0;
}
