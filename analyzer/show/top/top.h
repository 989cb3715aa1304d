/*
 * top.h - what `vramscope top` shows: one frame of text, of the width and height of a terminal (frame.c),
 * or the figures for a monitor (metrics.c, serve.c).
 */
#ifndef VS_SHOW_TOP_TOP_H
#define VS_SHOW_TOP_TOP_H

#include <stdio.h>

#include "base/base.h"
#include "read/live.h"

struct top_process {
    struct live live;
    struct vs_now before; /* an earlier look, for rates */
    bool has_before;
    double events, steps; /* a second; NAN: unknown yet */
    char *held;           /* the metrics of what lives; NULL: none yet */
    int64_t held_until;   /* CLOCK_MONOTONIC, ns: they are not made anew before */
};

struct top {
    struct top_process **processes;
    size_t count;
    char **lines; /* about journals that can't be looked at */
    size_t line_count;
    size_t chosen;    /* row whose curve is shown */
    size_t rows;      /* of the last frame */
    int64_t window;   /* ns of the curve */
    bool utf8;        /* else every character is ASCII */
    const char *keys; /* what the first line says of keys; NULL: nothing */
};

/* Looks at every process again.  Rates are those since the look before the last second or so. */
void top_look(struct top *top);
void top_free(struct top *top);

/* One frame, at most WIDTH columns and HEIGHT lines (0: as many as there are), without line ends beyond '\n'.
 */
void top_frame(struct top *top, int width, int height, FILE *out);

/* Bytes that DEVICE has left by the driver's last word; where it had none for the whole device (*WHOLE), no
 * more than what this process does not hold.  UNKNOWN: its size is. */
int64_t top_headroom(const struct live *l, const struct vs_now_device *device, bool *whole);

/* The curve of DEVICE in HEIGHT lines of WIDTH columns, from the database and what is known now. */
void top_curve(const struct top *top, const struct live *live, const struct vs_now_device *device, int width,
               int height, FILE *out);

/* ---- for a monitor ---- */

/* OpenMetrics, of the processes that TOP has and that have not ended. */
void top_metrics(struct top *top, FILE *out);
/* Serves what PAGE(CONTEXT) writes as http://127.0.0.1:PORT/metrics (0: a port that is free), which it
 * prints, until a signal ends it.  Else the exit status of what was complained about. */
int top_serve(int port, void (*page)(void *context, FILE *out), void *context);

/* ---- the terminal ---- */

/* Takes it: no echo, a screen of its own.  False where standard output or input is none that can do that. */
bool top_terminal_begin(void);
void top_terminal_end(void);
void top_terminal_size(int *width, int *height);
/* Shows FRAME, N bytes, in place of what is there. */
void top_terminal_show(const char *frame, size_t n);
enum top_key { KEY_NONE, KEY_QUIT, KEY_UP, KEY_DOWN, KEY_REDRAW };
/* Waits for a key, a change of size or a signal to end, MS milliseconds at most. */
enum top_key top_terminal_wait(int ms);
/* The signal that asked for the end; 0: none. */
int top_terminal_signal(void);

#endif
