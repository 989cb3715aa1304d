/* missing.c - says which ranks of a job have no file, for commands whose pages show the files one by one. */
#include <stdlib.h>
#include <string.h>

#include "base/commands.h"
#include "ranks.h"

#define SHOWN 24 /* runs of ranks */

char *ranks_list(const int64_t *ranks, size_t n)
{
    char *list = xstrdup("");
    size_t shown = 0, next;
    for (size_t i = 0; i < n && shown < SHOWN; i = next, shown++) {
        for (next = i + 1; next < n && ranks[next] == ranks[next - 1] + 1; next++) {
        }
        char *more = next > i + 1 ? xformat("%s%s%lld-%lld", list, i ? ", " : "", (long long)ranks[i],
                                            (long long)ranks[next - 1])
                                  : xformat("%s%s%lld", list, i ? ", " : "", (long long)ranks[i]);
        free(list);
        list = more;
    }
    if (shown == SHOWN && n) {
        char *more = xformat("%s, ...", list);
        free(list);
        list = more;
    }
    return list;
}

void ranks_seen_add(struct ranks_seen *seen, const struct trace *t)
{
    *PUSH(seen->files, seen->count) = ranks_file_start(t);
}

int ranks_seen_end(struct ranks_seen *seen, bool tell)
{
    size_t count, n;
    struct rank_job *jobs = ranks_jobs(seen->files, seen->count, &count);
    int status = EXIT_GOOD;
    for (size_t i = 0; tell && i < count; i++) {
        int64_t *missing = ranks_missing(&jobs[i], &n);
        char *list = ranks_list(missing, n);
        if (n) {
            complain("of the job's %lld ranks %zu %s no file, and not shown: %s",
                     (long long)jobs[i].world_size, n, n > 1 ? "have" : "has", list);
            status = EXIT_INCOMPLETE;
        }
        free(list);
        free(missing);
    }
    ranks_free_jobs(jobs, count);
    for (size_t i = 0; i < seen->count; i++)
        ranks_free_file(&seen->files[i]);
    free(seen->files);
    *seen = (struct ranks_seen){0};
    return status;
}
