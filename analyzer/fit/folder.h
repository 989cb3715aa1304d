/*
 * folder.h - where dry runs leave their files until they are looked at: beside the file that is wanted, or in
 * a place for what is thrown away.
 */
#ifndef VS_FIT_FOLDER_H
#define VS_FIT_FOLDER_H

struct folder {
    char *path;     /* NULL: there is none */
    char *journals; /* in memory; NULL */
};

/* OUTPUT: the file that is wanted, NULL: none.  0, or 2, said. */
int folder_make(struct folder *f, const char *output);
/* With all that is in it. */
void folder_remove(struct folder *f);
/* One in FOLDER for NAME; the caller frees its path. */
char *folder_in(const char *folder, const char *name);

#endif
