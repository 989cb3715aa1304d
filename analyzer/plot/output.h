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

#endif
