/* progress.c - see progress.h. */
#include "progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool there;

void progress_show(const char *text)
{
    struct winsize size = {0};
    const char *terminal = getenv("TERM");
    if (!isatty(STDERR_FILENO) || !terminal || !strcmp(terminal, "dumb"))
        return;
    int width = !ioctl(STDERR_FILENO, TIOCGWINSZ, &size) && size.ws_col > 1 ? size.ws_col - 1 : 79;
    fprintf(stderr, "\r\033[K%.*s", width, text);
    fflush(stderr);
    there = true;
}

void progress_clear(void)
{
    if (there)
        fputs("\r\033[K", stderr);
    there = false;
}
