/*
 * output.c - writes a picture (picture.h).
 *
 * gnuplot draws into a file of ours, as a name that starts with '-' or a quote would mean something to it.
 * That file then gets the name that was asked for, or is copied to standard output, a pipe or a device.
 */
#include "picture.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "read/guard.h"
#include "base/destination.h"
#include "base/page.h"

enum picture_format output_format(const char *path, const char *format)
{
    static const char *const names[] = {"txt", "gp", "png", "svg", "pdf"};
    if (!format && path && !strcmp(path, "-"))
        return isatty(STDOUT_FILENO) ? FORMAT_TEXT : FORMAT_PNG;
    const char *dot = format || !path ? NULL : strrchr(path, '.'), *name = format ? format
                                                                           : dot  ? dot + 1
                                                                                  : NULL;
    if (!path && !format)
        return FORMAT_TEXT;
    for (int i = 0; name && i < 5; i++)
        if (!strcmp(name, names[i]))
            return (enum picture_format)i;
    return FORMAT_BAD;
}

static char *terminal_of(enum picture_format format, const int64_t *size)
{
    long long w = size[0], h = size[1];
    switch (format) {
    case FORMAT_SVG:
        return xformat(
            "svg size %lld,%lld noenhanced font \"DejaVu Sans,Liberation Sans,sans-serif,12\" fontscale 1.33 "
            "background \"#ffffff\"",
            w, h);
    case FORMAT_PDF: /* inches; 100 pixels to one */
        return xformat("pdfcairo size %.2f,%.2f noenhanced font \"DejaVu Sans,12\" fontscale 0.72 background "
                       "\"#ffffff\"",
                       (double)w / 100, (double)h / 100);
    default:
        return xformat("pngcairo size %lld,%lld noenhanced font \"DejaVu Sans,12\" background "
                       "\"#ffffff\"",
                       w, h);
    }
}

static int refuse(const char *path, int error)
{
    return destination_failed("plot", path, error);
}

static int written(bool good, const char *path)
{
    return good ? 0 : refuse(path, 0);
}

static int close_written(FILE *out, const char *path)
{
    bool good = !ferror(out);
    return written(fclose(out) == 0 && good, path);
}

static int end_destination(struct destination *d, int status, const char *path)
{
    int error = destination_end(d, !status);
    return error ? refuse(path, error) : status;
}

/* The script that draws PICTURE into the file NAME, which messages call PATH. */
static int write_script(const struct drawing *p, const char *name, enum picture_format format,
                        const char *picture, const char *path)
{
    FILE *out = fopen(name, "w");
    if (!out)
        return refuse(path, errno);
    char *terminal = terminal_of(format, p->size);
    p->write(p->context, out, terminal, picture);
    free(terminal);
    return close_written(out, path);
}

static int gnuplot_failed(int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return complain(
            "plot: gnuplot is not installed: install it (Debian: apt-get install gnuplot-nox), or "
            "use -o FILE.gp or -o FILE.txt, which need none");
    return complain("plot: gnuplot failed, and what it said stands above: -o FILE.txt needs none");
}

static int run_gnuplot(const char *script)
{
    int status = 0;
    pid_t pid = fork();
    if (pid == 0) {
        guard_memory_end();
        unsetenv("LD_PRELOAD"); /* a shim that is set for everything has no business in gnuplot */
        unsetenv("GNUTERM");
        execlp("gnuplot", "gnuplot", "-d", script, (char *)NULL);
        _exit(127);
    }
    if (pid < 0 || waitpid(pid, &status, 0) < 0)
        return complain("plot: gnuplot can't be started: %s", strerror(errno));
    return status ? gnuplot_failed(status) : 0;
}

/* DRAWN to OUT; whether it could be written is known when that is closed. */
static int copy_out(const char *drawn, FILE *out)
{
    char part[65536];
    size_t n;
    FILE *in = fopen(drawn, "r");
    if (!in)
        return complain("plot: %s can't be read: %s", drawn, strerror(errno));
    while ((n = fread(part, 1, sizeof part, in)) > 0)
        fwrite(part, 1, n, out);
    fclose(in);
    return 0;
}

/* A new file of a name that nobody has; NULL, said. */
static char *make_temporary(void)
{
    const char *tmp = getenv("TMPDIR");
    char *name = xformat("%s/vramscope-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    int fd = mkostemp(name, O_CLOEXEC);
    if (fd >= 0) {
        close(fd);
        return name;
    }
    complain("plot: %s can't be written: %s; TMPDIR may name another directory", name, strerror(errno));
    free(name);
    return NULL;
}

static int can_write(const char *drawn, const char *path)
{
    FILE *probe = fopen(drawn, "w");
    if (!probe)
        return refuse(path, errno);
    fclose(probe);
    return 0;
}

static int copy_to(const char *drawn, const char *path)
{
    FILE *out = fopen(path, "w");
    if (!out)
        return refuse(path, errno);
    int status = copy_out(drawn, out), closed = close_written(out, path);
    return status ? status : closed;
}

/* Whether the picture has its end: gnuplot says nothing where it could not write all of it. */
static bool has_end(const char *drawn, enum picture_format format)
{
    static const char *const ends[] = {
        [FORMAT_PNG] = "IEND\xae\x42\x60\x82", [FORMAT_SVG] = "</svg>", [FORMAT_PDF] = "%%EOF"};
    char tail[32] = "";
    FILE *in = fopen(drawn, "r");
    size_t n = in && fseek(in, -16, SEEK_END) == 0 ? fread(tail, 1, sizeof tail, in) : 0;
    if (in)
        fclose(in);
    return memmem(tail, n, ends[format], strlen(ends[format])) != NULL;
}

/* Draws into the file DRAWN, by a script of ours. */
static int draw_into(const struct drawing *p, const char *drawn, enum picture_format format, const char *path)
{
    char *script = make_temporary();
    if (!script)
        return 2;
    int status = can_write(drawn, path);
    if (!status)
        status = write_script(p, script, format, drawn, script);
    if (!status)
        status = run_gnuplot(script);
    if (!status && !has_end(drawn, format))
        status = written(false, path);
    unlink(script);
    free(script);
    return status;
}

/* What can't get a name afterwards: standard output, a pipe, a device. */
static int draw_and_copy(const struct drawing *p, const char *path, enum picture_format format)
{
    char *drawn = make_temporary();
    if (!drawn)
        return 2;
    int status = draw_into(p, drawn, format, path);
    if (!status && !strcmp(path, "-"))
        status = copy_out(drawn, stdout); /* whether it took it is said at the end of all commands */
    else if (!status)
        status = copy_to(drawn, path);
    unlink(drawn);
    free(drawn);
    return status;
}

static int draw_picture(const struct drawing *p, const char *path, enum picture_format format)
{
    struct destination to;
    if (!strcmp(path, "-"))
        return draw_and_copy(p, path, format);
    destination_find(&to, path);
    int status = to.part ? draw_into(p, to.part, format, path) : draw_and_copy(p, path, format);
    return end_destination(&to, status, path);
}

static int write_text_file(void (*write)(void *context, FILE *out), void *context, const char *path)
{
    struct destination to;
    destination_find(&to, path);
    FILE *out = fopen(destination_name(&to), "w");
    int status = out ? 0 : refuse(path, errno);
    if (out) {
        write(context, out);
        status = close_written(out, path);
    }
    return end_destination(&to, status, path);
}

int output_write_text(void (*write)(void *context, FILE *out), void *context, const char *path)
{
    if (path)
        return write_text_file(write, context, path);
    wrap_page_begin(true);
    write(context, stdout);
    wrap_page_end();
    return 0;
}

static size_t text_height(const struct picture *p)
{
    return p->size[1] ? (size_t)p->size[1] : 14;
}

static void draw_plain(void *context, FILE *out)
{
    text_draw(context, out, text_height(context), false);
}

static void draw_colored(void *context, FILE *out)
{
    text_draw(context, out, text_height(context), page_color());
}

static char *with_extension(const char *path, const char *extension)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');
    size_t stem = dot && (!slash || dot > slash) ? (size_t)(dot - path) : strlen(path);
    return xformat("%.*s%s", (int)stem, path, extension);
}

static int draw_script(const struct drawing *p, const char *path)
{
    if (!strcmp(path, "-")) {
        char *terminal = terminal_of(FORMAT_PNG, p->size);
        p->write(p->context, stdout, terminal, "vramscope.png");
        free(terminal);
        return 0;
    }
    struct destination to;
    char *picture = with_extension(path, ".png");
    destination_find(&to, path);
    int status = write_script(p, destination_name(&to), FORMAT_PNG, picture, path);
    free(picture);
    return end_destination(&to, status, path);
}

int output_draw_script(const struct drawing *d, const char *path, enum picture_format format)
{
    return format == FORMAT_GP ? draw_script(d, path) : draw_picture(d, path, format);
}

static void write_picture(void *context, FILE *out, const char *terminal, const char *output)
{
    gnuplot_write(context, out, terminal, output);
}

int output_draw(const struct picture *p, const char *path, enum picture_format format)
{
    struct picture copy = *p; /* the writer's context is not const */
    if (format == FORMAT_TEXT) {
        const char *file = path && strcmp(path, "-") != 0 ? path : NULL;
        return output_write_text(file ? draw_plain : draw_colored, &copy, file);
    }
    struct drawing d = {write_picture, &copy, {p->size[0], p->size[1]}};
    return output_draw_script(&d, path ? path : "-", format);
}
