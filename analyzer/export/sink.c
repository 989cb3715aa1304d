/* sink.c - where an export goes, and what becomes of it when that can't take any more (export.h). */
#include "export.h"

#include <errno.h>
#include <string.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/args.h"
#include "read/replace.h"

#define BUFFER (1 << 20) /* bytes */

static int refuse(const char *path, int error)
{
    return destination_failed("export", path, error);
}

static int open_stdout(struct sink *s, bool binary)
{
    s->file = stdout;
    if (binary && isatty(STDOUT_FILENO))
        return complain("export: this format is no text, and standard output is a terminal: give -o FILE");
    return 0;
}

int sink_open(struct sink *s, const char *path, bool binary, bool force, const char *source)
{
    char why[512];
    struct stat st;
    *s = (struct sink){0};
    if (!path || !strcmp(path, "-"))
        return open_stdout(s, binary);
    if (same_file(source, path))
        return complain("export: %s is the recording itself: give -o another name", path);
    if (!stat(path, &st) && S_ISDIR(st.st_mode))
        return complain("export: %s is a directory: give -o the name of a file in it", path);
    if (replace_check(path, force, why, sizeof why))
        return complain("export: %s", why);
    s->replaces = replace_is_recording(path);
    s->path = path;
    destination_find(&s->to, path);
    s->file = fopen(destination_name(&s->to), "we");
    if (!s->file) {
        int status = refuse(path, errno);
        destination_end(&s->to, false);
        return status;
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
        status = complain("export: nobody reads standard output any more: not all of it was written; -o FILE "
                          "has all of it");
    else if (s->error)
        status = refuse(s->path ? s->path : "standard output", s->error);
    good = good && !status;
    int error = good && s->replaces ? replace_begin(s->to.path) : 0,
        ended = s->path ? destination_end(&s->to, good && !error) : 0;
    error = error ? error : ended;
    return error ? refuse(s->path, error) : status;
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
