/* doctor.h - findings, and the checks that make them. */
#ifndef VS_DOCTOR_DOCTOR_H
#define VS_DOCTOR_DOCTOR_H

#include "base/base.h"

enum verdict { DOCTOR_OK, DOCTOR_WARN, DOCTOR_FAIL }; /* works, works with restrictions, does not work */

struct finding {
    enum verdict verdict;
    char *topic, *found, *todo; /* todo NULL = nothing to do */
};

enum doctor_fact { /* what the last line follows from */
                   DOCTOR_UNWINDER = 1,
                   DOCTOR_FIND_OBJECT = 2, /* libc's, without which stacks would need a lock */
                   DOCTOR_GNUPLOT = 4,
                   DOCTOR_DEVICE = 8,
                   DOCTOR_SIMULATED = 16, /* the first device */
                   DOCTOR_TORCH = 32,
                   DOCTOR_TORCH_CPU = 64,
                   DOCTOR_TORCH_BLOCKS = 128 /* it reports them */
};

struct doctor {
    struct finding *findings;
    size_t count;
    unsigned facts;     /* of enum doctor_fact */
    const char *output; /* directory that a recording would go to */
    bool quick;         /* no GPU context, no Python */
};

/* `todo` tells the user what to do; "" or NULL = nothing. */
void doctor_say(struct doctor *d, enum verdict verdict, const char *topic, const char *todo,
                const char *format, ...) __attribute__((format(printf, 5, 6)));

/* The findings as a table or as JSON, on stdout; WORST is the worst of their verdicts. */
void doctor_text(const struct doctor *d);
void doctor_json(const struct doctor *d, enum verdict worst);
void doctor_free(struct doctor *d);

/* Runs FUNCTION in a forked child; its findings come back.  False where it crashed or took longer than
 * SECONDS: WHY says. */
bool doctor_child(struct doctor *d, void (*function)(struct doctor *), int seconds, char *why,
                  size_t why_size);

/* ---- the checks, in the order in which they are shown ---- */
void doctor_shim(struct doctor *d);   /* shim.c: the library and what it needs of libc and kernel */
void doctor_places(struct doctor *d); /* places.c: where journal and database go, what else is preloaded */
void doctor_gpu(struct doctor *d);    /* gpu.c: driver, devices, NVML, and in the same child process: */
void doctor_arena(struct doctor *d, void *cuda, int devices); /* arena.c: the arena */
void doctor_contracts(struct doctor *d, const char *version); /* contracts.c: of this PyTorch */
void doctor_tools(struct doctor *d); /* tools.c: gnuplot, SQLite, Python and PyTorch */

/* ---- the dynamic section of an ELF file, read from the file: nothing is loaded (elf_dynamic.c) ---- */

/* Writes the names of the libraries that PATH needs to OUT, separated by spaces.  False where PATH is no ELF
 * file. */
bool elf_needed(const char *path, char *out, size_t size);

/* Whether PATH imports NAME (an undefined symbol in its dynamic symbol table). */
bool elf_imports(const char *path, const char *name);

#endif
