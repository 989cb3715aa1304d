/*
 * terminal.c - the terminal that top draws on, given back as it was at the end, at a signal that ends the
 * program, and while the program is stopped (Ctrl-Z).  Signals are blocked but for the wait, so that none
 * comes between a look at a flag and the wait for it.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "top.h"

/* another screen and no cursor; and back */
#define ENTER "\033[?1049h\033[?25l\033[H\033[2J"
#define LEAVE "\033[?25h\033[?1049l"

static struct {
    bool taken;
    struct termios before;
    sigset_t outside; /* the mask during a wait, and before */
} terminal;
static volatile sig_atomic_t ending, resized, stopping;

static void on_end(int number)
{
    ending = number;
}

static void on_resize(int number)
{
    resized = 1;
}

static void on_stop(int number)
{
    stopping = 1;
}

static void put(const char *text, size_t n)
{
    while (n) {
        ssize_t written = write(STDOUT_FILENO, text, n);
        if (written < 0 && errno != EINTR && errno != EAGAIN)
            return;
        if (written > 0) {
            text += written;
            n -= (size_t)written;
        }
    }
}

static void take(void)
{
    struct termios raw = terminal.before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_cc[VMIN] = 0;
    raw.c_cc[VTIME] = 0;
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &raw);
    put(ENTER, strlen(ENTER));
    terminal.taken = true;
}

static void give_back(void)
{
    if (!terminal.taken)
        return;
    put(LEAVE, strlen(LEAVE));
    tcsetattr(STDIN_FILENO, TCSAFLUSH, &terminal.before);
    terminal.taken = false;
}

static const int ends[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

bool top_terminal_begin(void)
{
    const char *kind = getenv("TERM");
    sigset_t ours;
    if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO) || !kind || !*kind || !strcmp(kind, "dumb") ||
        tcgetattr(STDIN_FILENO, &terminal.before))
        return false;
    sigemptyset(&ours);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        sigaction(ends[i], &(struct sigaction){.sa_handler = on_end}, NULL);
        sigaddset(&ours, ends[i]);
    }
    sigaction(SIGWINCH, &(struct sigaction){.sa_handler = on_resize}, NULL);
    sigaction(SIGTSTP, &(struct sigaction){.sa_handler = on_stop}, NULL);
    sigaddset(&ours, SIGWINCH);
    sigaddset(&ours, SIGTSTP);
    sigprocmask(SIG_BLOCK, &ours, &terminal.outside);
    take();
    return true;
}

void top_terminal_end(void)
{
    give_back();
}

int top_terminal_signal(void)
{
    return ending;
}

void top_terminal_size(int *width, int *height)
{
    struct winsize size;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 0;
    *width = known ? size.ws_col : 80;
    *height = known ? size.ws_row : 24;
}

/* Each line wipes what is behind it, the last one what is below; a line end of its own would scroll. */
void top_terminal_show(const char *frame, size_t n)
{
    char *bytes = NULL;
    size_t length = 0;
    FILE *f = open_memstream(&bytes, &length);
    if (!f)
        return;
    fputs("\033[H", f);
    for (size_t i = 0; i < n; i++)
        if (frame[i] == '\n')
            fputs(i + 1 < n ? "\033[K\n" : "\033[K", f);
        else
            fputc(frame[i], f);
    fputs("\033[J", f);
    fclose(f);
    put(bytes, length);
    free(bytes);
}

/* Stops as the shell expects it, the terminal given back meanwhile. */
static void stop(void)
{
    sigset_t one, before;
    stopping = 0;
    give_back();
    sigaction(SIGTSTP, &(struct sigaction){.sa_handler = SIG_DFL}, NULL);
    raise(SIGTSTP);
    sigemptyset(&one);
    sigaddset(&one, SIGTSTP);
    sigprocmask(SIG_UNBLOCK, &one, &before); /* it stops here, and goes on here */
    sigprocmask(SIG_SETMASK, &before, NULL);
    sigaction(SIGTSTP, &(struct sigaction){.sa_handler = on_stop}, NULL);
    take();
}

static enum top_key read_key(void)
{
    char bytes[16];
    ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
    if (n <= 0)
        return n == 0 ? KEY_QUIT : KEY_NONE; /* it is ready and has nothing: the terminal is gone */
    if (n >= 3 && bytes[0] == '\033' && bytes[1] == '[')
        return bytes[2] == 'A' ? KEY_UP : bytes[2] == 'B' ? KEY_DOWN : KEY_REDRAW;
    switch (bytes[0]) {
    case 'q':
    case 'Q':
    case 3: /* Ctrl-C where the terminal sends no signal */
        return KEY_QUIT;
    case 'k':
        return KEY_UP;
    case 'j':
        return KEY_DOWN;
    }
    return KEY_REDRAW;
}

enum top_key top_terminal_wait(int ms)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    struct timespec t = {ms / 1000, (long)(ms % 1000) * 1000000};
    int n = ppoll(&in, 1, &t, &terminal.outside);
    if (ending)
        return KEY_QUIT;
    if (stopping) {
        stop();
        return KEY_REDRAW;
    }
    if (n > 0)
        return in.revents & POLLIN ? read_key() : KEY_QUIT;
    if (resized) {
        resized = 0;
        return KEY_REDRAW;
    }
    return KEY_NONE;
}
