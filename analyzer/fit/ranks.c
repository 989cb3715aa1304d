/* ranks.c - runs some ranks of a job (attempt.h). */
#include "attempt.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/shown.h"
#include "run/start.h"

/* GPUs of a machine: as it is taken to have where nobody says, and that the simulated driver can have. */
enum { LOCAL = 8, LOCAL_MOST = 16 };

/* ---- which ---- */

/* A number below LIMIT at *AT, which is moved behind it; -1: there is none. */
static int number_at(const char **at, int limit)
{
    char *end;
    if (**at < '0' || **at > '9')
        return -1;
    long n = strtol(*at, &end, 10);
    *at = end;
    return n < limit ? (int)n : -1;
}

static bool reads_all(int *n, const char *text)
{
    *n = number_at(&text, RANKS_MOST);
    return *n > 0 && !*text;
}

static bool has(const struct ranks *r, int rank)
{
    for (size_t i = 0; i < r->n; i++)
        if (r->run[i] == rank)
            return true;
    return false;
}

static void add(struct ranks *r, int rank)
{
    if (rank < r->world && !has(r, rank))
        r->run[r->n++] = rank;
}

static bool reads_list(struct ranks *r, const char *text)
{
    for (;; text++) {
        int rank = number_at(&text, r->world);
        if (rank < 0 || r->n == RANKS_RUN_MOST)
            return false;
        add(r, rank);
        if (*text != ',')
            return !*text;
    }
}

int ranks_read(struct ranks *r, const char *all, const char *run, const char *local)
{
    *r = (struct ranks){0};
    if (!all && !run && !local)
        return 0;
    if (!all || !reads_all(&r->world, all))
        return complain("fit: --ranks takes how many ranks the job has, not '%s'", all ? shown(all) : "");
    if (run && !reads_list(r, run))
        return complain("fit: --rank takes ranks from 0 to %d, as 0,%d, and at most %d of them, not '%s'",
                        r->world - 1, r->world - 1, RANKS_RUN_MOST, shown(run));
    for (int rank = 0; !run && rank < 2; rank++)
        add(r, rank);
    if (!run)
        add(r, r->world - 1);
    for (r->local = LOCAL; r->world % r->local; r->local--)
        continue;
    if (local && (!reads_all(&r->local, local) || r->local > LOCAL_MOST || r->world % r->local))
        return complain(
            "fit: --local-ranks takes how many of the %d ranks one machine has, at most %d, not '%s'",
            r->world, LOCAL_MOST, shown(local));
    return 0;
}

/* ---- they run ---- */

static void set_number(const char *name, int value)
{
    char text[16];
    snprintf(text, sizeof text, "%d", value);
    setenv(name, text, 1);
}

static void set_rank(const struct ranks *r, int rank)
{
    set_number("RANK", rank);
    set_number("WORLD_SIZE", r->world);
    set_number("LOCAL_RANK", rank % r->local);
    set_number("LOCAL_WORLD_SIZE", r->local);
    set_number("GROUP_RANK", rank / r->local);
    setenv("MASTER_ADDR", "127.0.0.1", 0);
    setenv("MASTER_PORT", "29500", 0);
    set_number("SIMCUDA_DEVICES", r->local);
    set_number("VRAMSCOPE_DRY_RANKS", r->world);
}

static pid_t begin(const struct ranks *r, int rank, char **command)
{
    pid_t parent = getpid(), pid = fork();
    if (pid)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(EXIT_FAILURE);
    set_rank(r, rank);
    execvp(command[0], command);
    _exit(start_failed("fit", command[0], errno));
}

/* As who waits for one process sees it. */
static _Noreturn void end_as(int status)
{
    if (WIFSIGNALED(status)) {
        signal(WTERMSIG(status), SIG_DFL);
        raise(WTERMSIG(status));
    }
    _exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}

void ranks_become(void *context, char **command)
{
    const struct ranks *r = context;
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t begun = 0, running = 0;
    int worst = 0, status;
    while (begun < r->n || running) {
        if (begun < r->n && (running == 0 || (long)running < cores)) {
            running += begin(r, r->run[begun], command) > 0;
            begun++;
        } else if (wait(&status) > 0) {
            running--;
            worst = worst ? worst : status;
        }
    }
    end_as(worst);
}
