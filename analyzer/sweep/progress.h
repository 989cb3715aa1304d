/* progress.h - one line at the foot of a terminal that says what is being done; nothing anywhere else. */
#ifndef VS_SWEEP_PROGRESS_H
#define VS_SWEEP_PROGRESS_H

/* TEXT in its place; what does not fit the terminal is left out. */
void progress_show(const char *text);
void progress_clear(void);

#endif
