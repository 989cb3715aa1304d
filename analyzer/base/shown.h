/*
 * shown.h - makes names of programs, paths and phases harmless.  A line break in one would forge a line of
 * the report, an escape sequence move the cursor, a bidirectional override reverse the rest of the line.
 * All text that the analyzer did not write itself goes through here; JSON has escapes of its own.
 */
#ifndef VS_BASE_SHOWN_H
#define VS_BASE_SHOWN_H

#include "base.h"

/*
 * TEXT as a person may read it: "\n", "\t", "\x1b" for control characters, "\xff" for bytes that are no
 * UTF-8, "\u202e" for line separators, bidirectional controls and characters without a shape.  Returns TEXT
 * itself if nothing needs to be replaced, otherwise a copy that lives until the program ends.  A result is
 * not changed by a second call.  NULL stays NULL.
 */
const char *shown(const char *text);

/* Likewise, and in quotes where a shell would not take it as one word: for commands that are to be copied. */
const char *shown_word(const char *text);

/* As shown, but at most MOST characters, with "..." at the end if it was longer; the caller frees it. */
char *shown_cut(const char *text, size_t most);

/* The length of the character at S (NUL-terminated) in bytes; *CODE its code point, -1 where the byte is no
 * UTF-8. */
int shown_next(const unsigned char *s, int32_t *code);
/* Whether CODE controls a terminal or is invisible. */
bool shown_acts(int32_t code);

/* ---- names of C++ ---- */

/* Shortens the demangled name of a C++ function for people.
 *
 *      at::Tensor& at::native::foo<float, 4>(at::Tensor&, long) const [clone .isra.0]    at::native::foo
 *      (anonymous namespace)::run(int)::{lambda(auto)#1}::operator()() const             run::{lambda}
 *      thrust::NS::operator<<<int>(std::ostream&) thrust::NS::operator<< */
/* The short form of NAME, which may be truncated; NAME itself if nothing would be left.  The caller frees
 * it. */
char *cxx_name(const char *name);

#endif
