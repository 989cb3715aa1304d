/*
 * python_answers.c - names and lines that are read of code objects, held against what Python itself says:
 * under `vramscope run` framework/python/vramscope/_lines.py asks it for the lines of functions of its own,
 * and passes them here with the code objects.
 */
#include <stdio.h>
#include <string.h>

#include "python.h"
#include "vramscope.h"
#include "core/contracts.h"

VRAMSCOPE_API int vramscope_auto_code(uintptr_t code, const char *file, const char *name,
                                      const uint32_t *lines, size_t units);

static bool is_text(const struct vs_python *p, uintptr_t string, const char *said)
{
    char text[VS_PYTHON_TEXT];
    size_t n = vs_python_text(p, string, text, sizeof text);
    return n == strlen(said) && memcmp(text, said, n) == 0;
}

static bool are_lines(const struct vs_python *p, uintptr_t code, const uint32_t *lines, size_t units)
{
    for (size_t i = 0; i < units; i++) {
        uint32_t line = vs_python_line_at(p, code, (long)i);
        if (line != lines[i])
            return vs_contract_broken(VS_CONTRACT_PY_LINES,
                                      "instruction %zu of a function is at line %u, not at %u", i, lines[i],
                                      line);
    }
    return true;
}

/* The function of the code object at CODE has this NAME, with its classes', in this FILE, and its
 * instructions, UNITS of two bytes, are at LINES (0: at none).  1: so it is read, too; 0: not, and what was
 * read otherwise is given up; -1: nothing is read of Python here.  With the GIL. */
int vramscope_auto_code(uintptr_t code, const char *file, const char *name, const uint32_t *lines,
                        size_t units)
{
    vs_python_prepare();
    const struct vs_python *p = vs_python_now();
    if (!p)
        return -1;
    if (!vs_python_is_code(p, code) || !is_text(p, VS_PYTHON_AT(uintptr_t, code, p->filename), file) ||
        !is_text(p, VS_PYTHON_AT(uintptr_t, code, p->name), name)) {
        vs_python_refuse("a function's name or file is read otherwise than it is");
        return 0;
    }
    if (!are_lines(p, code, lines, units))
        return 0;
    vs_contract_proven(VS_CONTRACT_PY_LINES, "names and lines are those that Python says");
    return 1;
}
