/*
 * nvtx.h - shared by the three files of the NVTX injection library.
 *
 *      nvtx.c          the functions that NVTX calls: one for each entry of the tables
 *      nvtx_init.c     fills the tables; ranges that begin or end with a structured payload
 *      nvtx_names.c    handles and texts in all their forms
 */
#ifndef VS_FRAMEWORK_NVTX_H
#define VS_FRAMEWORK_NVTX_H

#include <stdbool.h>

#include "nvtx_abi.h"
#include "ranges.h"

/* A domain or a registered string; its address is the handle that the program holds.  Never freed: programs
 * use handles after they have destroyed the domain, which is harmless without a tool and must stay
 * harmless. */
struct nvtx_handle {
    struct vs_name *name;
    const char *text; /* a copy, if the table of names was full */
    size_t length;
};

/* ---- nvtx_names.c ---- */

enum { NVTX_TEXT_BYTES = 1024 };
struct nvtx_words { /* a text, converted to UTF-8 */
    const char *text;
    size_t length;
    const struct nvtx_handle *handle; /* NULL: the text is not registered */
    char wide[NVTX_TEXT_BYTES];
};

/* The text of an event, "" if it has none; reads only as much of ATTRIBUTES as its size field covers. */
void nvtx_from_attributes(struct nvtx_words *out, const struct nvtx_attributes *attributes);
/* The same as a range's names, which point into WORDS. */
struct vs_range_names nvtx_range_names(struct nvtx_words *words, const struct nvtx_attributes *attributes,
                                       const struct nvtx_handle *domain);
/* NULL: no memory. */
struct nvtx_handle *nvtx_new_handle(const struct nvtx_attributes *attributes);
/* Whether H is a handle that a program was given here.  False for NULL, and for anything else, which must not
 * be looked into. */
bool nvtx_is_ours(const struct nvtx_handle *h);

/* ---- nvtx.c ---- */

extern nvtx_function *const nvtx_core[CORE_SLOTS], *const nvtx_core2[CORE2_SLOTS];

/* The calls of NVTX with a domain; NULL is the default one. */
void nvtx_domain_mark(struct nvtx_handle *domain, const struct nvtx_attributes *a);
uint64_t nvtx_domain_start(struct nvtx_handle *domain, const struct nvtx_attributes *a);
void nvtx_domain_end(struct nvtx_handle *domain, uint64_t id);
int nvtx_domain_push(struct nvtx_handle *domain, const struct nvtx_attributes *a);
int nvtx_domain_pop(struct nvtx_handle *domain);

#endif
