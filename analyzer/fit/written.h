/* written.h - what a program wrote, as its overlays have it (cover.h). */
#ifndef VS_FIT_WRITTEN_H
#define VS_FIT_WRITTEN_H

#include "contain.h"

/* SCRATCH: its descriptor.  Copies of it below KEEP, where that is not NULL. */
void written_read(struct written *w, int scratch, const char *keep);
/* The same where a library keeps files apart, in FOLDER/apart (dry/writes/apart.h).  0, or 2, said. */
int written_make_apart(const char *folder);
void written_read_apart(struct written *w, const char *folder, const char *keep);

#endif
