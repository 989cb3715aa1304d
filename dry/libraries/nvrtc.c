/*
 * nvrtc.c - stands in for libnvrtc: compiles a program to PTX with an entry for each of its `extern "C"`
 * kernels and name expressions.  PyTorch's cache on disk is switched off: a later run on a GPU would find
 * this.
 */
#include "names.h"

#include <ctype.h>
#include <stdlib.h>

enum { SUCCESS = 0, OUT_OF_MEMORY = 1, INVALID_INPUT = 3, NO_LOWERED_NAMES_YET = 9, NAME_NOT_VALID = 10 };
enum { LONGEST_NAME = 400 };

struct name {
    struct name *next;
    char *expression;
    char lowered[LONGEST_NAME + 16];
};

struct program {
    char *source, *image;
    size_t size;
    struct name *names;
    int count;
};

__attribute__((constructor)) static void keep_no_cache(void)
{
    setenv("USE_PYTORCH_KERNEL_CACHE", "0", 1);
}

STANDS_IN int create(struct program **program, const char *source)
{
    struct program *p = calloc(1, sizeof *p);
    char *copy = strdup(source ? source : "");
    if (!p || !copy) {
        free(p);
        free(copy);
        return OUT_OF_MEMORY;
    }
    p->source = copy;
    *program = p;
    return SUCCESS;
}

STANDS_IN int destroy(struct program **program)
{
    struct program *p = *program;
    for (struct name *name = p ? p->names : NULL, *next; name; name = next) {
        next = name->next;
        free(name->expression);
        free(name);
    }
    if (p) {
        free(p->source);
        free(p->image);
    }
    free(p);
    *program = NULL;
    return SUCCESS;
}

STANDS_IN int add_name(struct program *p, const char *expression)
{
    struct name *name = calloc(1, sizeof *name);
    if (!name || !(name->expression = strdup(expression))) {
        free(name);
        return OUT_OF_MEMORY;
    }
    int n = 0;
    for (const char *c = expression; *c && n < LONGEST_NAME; c++)
        name->lowered[n++] = isalnum((unsigned char)*c) ? *c : '_';
    snprintf(name->lowered + n, 16, "_%d", p->count++);
    name->next = p->names;
    p->names = name;
    return SUCCESS;
}

STANDS_IN int lowered_name(struct program *p, const char *expression, const char **lowered)
{
    if (!p->image)
        return NO_LOWERED_NAMES_YET;
    for (struct name *name = p->names; name; name = name->next)
        if (strcmp(name->expression, expression) == 0) {
            *lowered = name->lowered;
            return SUCCESS;
        }
    return NAME_NOT_VALID;
}

/* ---- the image ---- */

static void entry(FILE *image, const char *name, size_t length)
{
    fprintf(image, ".visible .entry %.*s()\n{\n\tret;\n}\n", (int)length, name);
}

static size_t word_before(const char *begin, const char *end, const char **word)
{
    while (end > begin && isspace((unsigned char)end[-1]))
        end--;
    *word = end;
    while (*word > begin && (isalnum((unsigned char)(*word)[-1]) || (*word)[-1] == '_'))
        (*word)--;
    return (size_t)(end - *word);
}

static const char *behind_parentheses(const char *open)
{
    int depth = 0;
    for (const char *at = open; *at; at++) {
        depth += *at == '(' ? 1 : *at == ')' ? -1 : 0;
        if (depth == 0)
            return at + 1;
    }
    return NULL;
}

/* The name of the function that is declared at AT: before a parenthesis that is no attribute's
 * (__launch_bounds__). */
static const char *function_name(const char *at, size_t *length)
{
    while (at && *at) {
        const char *name, *stop = at + strcspn(at, "(;{");
        *length = word_before(at, stop, &name);
        if (*stop != '(' || (*length && strncmp(name, "__", 2) != 0))
            return *stop == '(' ? name : NULL;
        at = behind_parentheses(stop);
    }
    return NULL;
}

/* Also of kernels that are none of C's, which nobody asks for by that name. */
static void entries_of_source(FILE *image, const char *source)
{
    static const char kernel[] = "__global__";
    for (const char *at = source; (at = strstr(at, kernel));) {
        size_t length = 0;
        at += sizeof kernel - 1;
        const char *name = function_name(at, &length);
        if (name)
            entry(image, name, length);
    }
}

STANDS_IN int compile(struct program *p, int options, const char *const *option)
{
    int capability = 0;
    for (int i = 0; i < options; i++) {
        const char *at = strstr(option[i], "arch") ? strchr(option[i], '_') : NULL;
        capability = at ? atoi(at + 1) : capability;
    }
    free(p->image);
    FILE *image = open_memstream(&p->image, &p->size);
    if (!image)
        return OUT_OF_MEMORY;
    fprintf(image, ".version 8.0\n.target sm_%d\n.address_size 64\n", capability ? capability : 75);
    entries_of_source(image, p->source);
    for (struct name *name = p->names; name; name = name->next)
        entry(image, name->lowered, strlen(name->lowered));
    fclose(image);
    p->size++; /* with the zero at its end */
    return p->image ? SUCCESS : OUT_OF_MEMORY;
}

STANDS_IN int image_size(struct program *p, size_t *size)
{
    *size = p->size;
    return SUCCESS;
}

STANDS_IN int get_image(struct program *p, char *image)
{
    if (!p->image)
        return INVALID_INPUT;
    memcpy(image, p->image, p->size);
    return SUCCESS;
}

STANDS_IN int log_size(struct program *p, size_t *size)
{
    *size = 1;
    return SUCCESS;
}

STANDS_IN int get_log(struct program *p, char *log)
{
    *log = 0;
    return SUCCESS;
}

/* ---- what it is ---- */

STANDS_IN int version(int *major, int *minor)
{
    *major = VERSION / 1000;
    *minor = VERSION % 1000 / 10;
    return SUCCESS;
}

static const int architectures[] = {
#if CUDA_MAJOR >= 13
    75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121,
#else
    50, 52, 53, 60, 61, 62, 70, 72, 75, 80, 86, 87, 89, 90, 100, 101, 120,
#endif
};

STANDS_IN int architecture_count(int *count)
{
    *count = sizeof architectures / sizeof *architectures;
    return SUCCESS;
}

STANDS_IN int get_architectures(int *all)
{
    memcpy(all, architectures, sizeof architectures);
    return SUCCESS;
}

STANDS_IN const char *status_name(int status)
{
    switch (status) {
    case SUCCESS:
        return "NVRTC_SUCCESS";
    case OUT_OF_MEMORY:
        return "NVRTC_ERROR_OUT_OF_MEMORY";
    case INVALID_INPUT:
        return "NVRTC_ERROR_INVALID_INPUT";
    case NO_LOWERED_NAMES_YET:
        return "NVRTC_ERROR_NO_LOWERED_NAMES_BEFORE_COMPILATION";
    case NAME_NOT_VALID:
        return "NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID";
    default:
        return "NVRTC_ERROR unknown";
    }
}

static size_t heap;

STANDS_IN int set_heap(size_t size)
{
    heap = size;
    return SUCCESS;
}

STANDS_IN int get_heap(size_t *size)
{
    *size = heap;
    return SUCCESS;
}

#include "nvrtc.def"
