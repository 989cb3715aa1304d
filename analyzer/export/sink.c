/* sink.c - see sink.h. */
#include "sink.h"

#include <errno.h>
#include <string.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/commands.h"

#define BUFFER (1 << 20) /* bytes */

static bool same_file(const char *a, const struct stat *b)
{
    struct stat st;
    return stat(a, &st) == 0 && st.st_dev == b->st_dev && st.st_ino == b->st_ino;
}

static int refuse(const char *path)
{
    return complain("export: %s can't be written: %s", path, strerror(errno));
}

static int open_stdout(struct sink *s, bool binary)
{
    s->file = stdout;
    if (binary && isatty(STDOUT_FILENO))
        return complain("export: this format is no text, and standard output is a terminal: give -o FILE");
    return 0;
}

int sink_open(struct sink *s, const char *path, bool binary, const char *source)
{
    struct stat st;
    *s = (struct sink){0};
    if (!path || !strcmp(path, "-"))
        return open_stdout(s, binary);
    bool exists = stat(path, &st) == 0;
    if (exists && same_file(source, &st))
        return complain("export: %s is the recording itself: give -o another name", path);
    if (exists && S_ISDIR(st.st_mode))
        return complain("export: %s is a directory: give -o the name of a file in it", path);
    s->path = path;
    if (!exists || S_ISREG(st.st_mode))
        s->part = xformat("%s.part", path);
    s->file = fopen(s->part ? s->part : path, "we");
    if (!s->file) {
        free(s->part);
        s->part = NULL;
        return refuse(path);
    }
    setvbuf(s->file, NULL, _IOFBF, BUFFER);
    return 0;
}

static int close_file(struct sink *s)
{
    bool failed = fflush(s->file) != 0;
    failed = ferror(s->file) || failed; /* of what was not written through a sink, too */
    if (failed && !s->error)
        s->error = errno ? errno : EIO;
    if (s->file == stdout)
        clearerr(stdout); /* what is said of it was said */
    else if (fclose(s->file) && !s->error)
        s->error = errno ? errno : EIO;
    s->file = NULL;
    return s->error;
}

int sink_close(struct sink *s, bool good)
{
    int status = 0;
    if (!s->file)
        return 0;
    errno = 0;
    if (close_file(s) == EPIPE && !s->path)
        status = complain("export: nobody reads standard output any more: not all of it was written");
    else if (s->error)
        status = complain("export: %s can't be written: %s", s->path ? s->path : "standard output",
                          strerror(s->error));
    good = good && !status;
    if (s->part && good && rename(s->part, s->path))
        status = refuse(s->path);
    if (s->part && (!good || status))
        unlink(s->part);
    free(s->part);
    s->part = NULL;
    return status;
}

void sink_put(struct sink *s, const void *bytes, size_t n)
{
    if (!s->error && n && fwrite_unlocked(bytes, 1, n, s->file) != n)
        s->error = errno ? errno : EIO;
}

void sink_text(struct sink *s, const char *text)
{
    sink_put(s, text, strlen(text));
}

void sink_format(struct sink *s, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    if (!s->error && vfprintf(s->file, format, list) < 0)
        s->error = errno ? errno : EIO;
    va_end(list);
}
