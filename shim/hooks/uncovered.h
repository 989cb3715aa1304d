/* uncovered.h - ways into the driver that go past the hooks: each is reported in the database once. */
#ifndef VS_HOOKS_UNCOVERED_H
#define VS_HOOKS_UNCOVERED_H

void vs_uncovered(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Of a function, in the form for vs_uncovered. */
#define VS_UNCOVERED_REFERRED                                                                                \
    "%s, which this vramscope does not know, is referred to by the program or a library of it"
/* An object that the program started with refers to NAME, in its own string table.  Safe before the C library
 * is initialised. */
void vs_uncovered_reference(const char *name);
/* Reports those that the driver has, which is loaded now. */
void vs_uncovered_references(void);
/* FOUND, where it lies in a CUDA driver other than the one that was learnt. */
void vs_uncovered_driver(const void *found);
/* Writes what was reported so far into a new journal. */
void vs_uncovered_to_journal(void);

#endif
