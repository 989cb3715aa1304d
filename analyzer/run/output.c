/* output.c - which file a run writes (outputs.h). */
#include "outputs.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/args.h"
#include "core/options.h"
#include "read/guard.h"
#include "read/trace.h"

static char *default_output(void)
{
    char host[256] = "host";
    gethostname(host, sizeof host - 1);
    host[strcspn(host, "/")] = 0;
    return xformat("vramscope-%s-%d.db", host, (int)getpid());
}

static char *absolute(const char *path)
{
    char cwd[PATH_MAX];
    if (*path == '/' || !getcwd(cwd, sizeof cwd))
        return xstrdup(path);
    return xformat("%s/%s", cwd, path);
}

/* The output: from -o, else from the variable.  An outer run has set the variable, and CLAIM with it, for
 * all processes of its job: our files get names beside its own, and it prints the summary. */
struct output output_of(const char *option)
{
    const char *variable = getenv("VRAMSCOPE_OUTPUT"), *claim = getenv("VRAMSCOPE_CLAIM");
    bool said = !option && variable && *variable;
    char *given = option ? xstrdup(option) : said ? xstrdup(variable) : default_output();
    if (given[strlen(given) - 1] == '/') {
        char *own = default_output(), *inside = xformat("%s%s", given, own);
        free(own);
        free(given);
        given = inside;
    }
    struct output out = {absolute(given), said && claim && !strcmp(claim, "1")};
    free(given);
    return out;
}

/* DIRECTORY and what it lies in; whatever goes wrong is said where it is used. */
static void make_directories(const char *directory)
{
    char *path = xstrdup(directory);
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = 0;
        mkdir(path, 0777);
        *slash = '/';
    }
    mkdir(path, 0777);
    free(path);
}

/* Removes the recording PATH; 0, or 2, said, where it is none, or one that is still being written. */
static int replace(const char *path, const char *command)
{
    struct trace t;
    if (trace_open(&t, path))
        return complain(
            "%s: --force replaces recordings alone, and %s is none that can be read: give another -o",
            command, path);
    bool running = t.end == TRACE_END_RUNNING;
    trace_close(&t);
    guard_memory_end(); /* the program that is started inherits our limits */
    if (running)
        return complain("%s: %s is still being written: --force replaces what is complete: give another -o",
                        command, path);
    static const char *const parts[] = {"", "-wal", "-shm"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char *name = xformat("%s%s", path, parts[i]);
        int result = unlink(name);
        free(name);
        if (result && i == 0)
            return complain("%s: %s can't be removed: %s: give another -o", command, path, strerror(errno));
    }
    return 0;
}

const char *output_cannot_be_made(const char *path)
{
    char *beside = xformat("%s.%d", path, (int)getpid()); /* another run looks whether PATH is there */
    int fd = open(beside, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
    const char *why = fd < 0 && errno != EEXIST ? strerror(errno) : NULL;
    if (fd >= 0) {
        close(fd);
        unlink(beside);
    }
    free(beside);
    return why;
}

/* Whether another `run` has PATH for its output now.  A name that no file has is bound to a socket, for as
 * long as this process lives.  A job's ranks have a run each, and one output. */
static bool is_taken(const char *path)
{
    static int held = -1;
    struct vs_launch job = vs_launch();
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    uint64_t hash = UINT64_C(14695981039346656037);
    if (job.world_size != VS_UNKNOWN_NUMBER && job.world_size > 1)
        return false;
    for (const char *p = path; *p; p++)
        hash = (hash ^ (unsigned char)*p) * UINT64_C(1099511628211);
    int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "vramscope-run-%u-%016" PRIx64,
                     (unsigned)getuid(), hash);
    held = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    return held >= 0 &&
           bind(held, (struct sockaddr *)&name,
                (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) != 0 &&
           errno == EADDRINUSE;
}

/* 0, or 2 with the reason said. */
int output_check(const struct output *o, bool force, const char *command)
{
    const char *path = o->path;
    char *copy = xstrdup(path);
    const char *directory = dirname(copy);
    struct stat st;
    int status = 0;
    if (!strchr(directory, '%')) /* what the recorded processes put there nobody knows yet */
        make_directories(directory);
    bool exists = !o->shared && lstat(path, &st) == 0;
    if (!o->shared && is_taken(path))
        status = complain("%s: another vramscope run writes to %s now: give another -o", command, path);
    else if (exists && !force)
        status = complain("%s: %s exists and is never overwritten without --force: give another -o", command,
                          path);
    else if (exists && replace(path, command))
        status = EXIT_USAGE;
    else if (stat(directory, &st))
        status = complain("%s: the directory of %s can't be used: %s: give another -o", command, path,
                          strerror(errno));
    else if (!S_ISDIR(st.st_mode))
        status = complain("%s: %s is no directory: give another -o", command, directory);
    else if (access(directory, W_OK | X_OK))
        status = complain("%s: the directory %s is not writable: give another -o", command, directory);
    else if (!o->shared && output_cannot_be_made(path))
        status =
            complain("%s: %s can't be made: %s: give another -o", command, path, output_cannot_be_made(path));
    free(copy);
    return status;
}
