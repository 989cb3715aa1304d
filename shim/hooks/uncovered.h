/*
 * uncovered.h - ways into the driver that go past the hooks: each is reported in the database once; see
 * uncovered.c.
 */
#ifndef VS_HOOKS_UNCOVERED_H
#define VS_HOOKS_UNCOVERED_H

void vs_uncovered(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* FOUND, where it lies in a CUDA driver other than the one that was learnt. */
void vs_uncovered_driver(const void *found);
/* Writes what was reported so far into a new journal. */
void vs_uncovered_to_journal(void);

#endif
