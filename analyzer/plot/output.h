/* output.h - where a picture goes: a file in the format of its name, or standard output. */
#ifndef VS_PLOT_OUTPUT_H
#define VS_PLOT_OUTPUT_H

#include "picture.h"

enum picture_format { FORMAT_TEXT, FORMAT_GP, FORMAT_PNG, FORMAT_SVG, FORMAT_PDF, FORMAT_BAD };

/* FORMAT by its name ("png"), or NULL: that of the file PATH; PATH NULL: text; "-", standard output: text on
 * a terminal, else PNG. */
enum picture_format output_format(const char *path, const char *format);

/* Draws P into PATH ("-": standard output; NULL: likewise, as text); 0, or 2, said. */
int output_draw(const struct picture *p, const char *path, enum picture_format format);

/* Text that WRITE writes, into PATH, NULL: standard output; 0, or 2, said. */
int output_write_text(void (*write)(void *context, FILE *out), void *context, const char *path);

/* What writes a whole gnuplot script of its own: TERMINAL is the line after "set terminal", OUTPUT the file
 * that it draws. */
struct drawing {
    void (*write)(void *context, FILE *out, const char *terminal, const char *output);
    void *context;
    int64_t size[2]; /* pixels */
};
/* Likewise; FORMAT is not text, PATH not NULL. */
int output_draw_script(const struct drawing *d, const char *path, enum picture_format format);

#endif
