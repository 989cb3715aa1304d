/* cxx.c - strings, tables and code of C++, looked at from C (torch.h). */
#define _GNU_SOURCE
#include "torch.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#include "core/readable.h"
#include "core/walk.h"

#pragma weak dladdr1 /* glibc alone has it */

const struct vs_cxx_kind vs_cxx_kinds[2] = {
    {"NSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
     "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE",
     "_ZNKSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE"},
    {"Ss", "_ZNSs", "_ZNKSs"},
};

/* ---- strings ---- */

static bool find(void *to, void *library, const char *of, const char *name)
{
    char whole[96];
    snprintf(whole, sizeof whole, "%s%s", of, name);
    void *found = dlsym(library, whole);
    memcpy(to, &found, sizeof found);
    return found != NULL;
}

/* One that the string has room for in itself, of the new kind, and one that is too long for that. */
static bool gives_back(const struct vs_cxx_strings *s)
{
    static const char text[] = "what a string is given it gives back";
    bool same = true;
    for (size_t n = 3; n < sizeof text; n += sizeof text - 4) {
        struct vs_cxx_string string;
        vs_cxx_string(s, &string, text, n);
        same = same && s->size(&string) == n && memcmp(s->data(&string), text, n) == 0;
        s->end(&string);
    }
    return same;
}

bool vs_cxx_strings(struct vs_cxx_strings *s, void *library, const struct vs_cxx_kind *kind)
{
    bool found =
        find(&s->begin, library, kind->of, "C1Ev") && find(&s->assign, library, kind->of, "6assignEPKcm") &&
        find(&s->end, library, kind->of, "D1Ev") && find(&s->data, library, kind->of_const, "4dataEv") &&
        find(&s->size, library, kind->of_const, "4sizeEv");
    dlerror();
    return found && gives_back(s);
}

void vs_cxx_string(const struct vs_cxx_strings *s, struct vs_cxx_string *to, const char *bytes, size_t n)
{
    s->begin(to);
    s->assign(to, bytes, n);
}

/* ---- looks ---- */

struct code {
    void *const *first;
    size_t left;
};

/* Goes on as long as what comes next lies in OBJECT; ends the walk when nothing is left. */
static int pass_code(struct dl_phdr_info *object, size_t size, void *context)
{
    struct code *c = context;
    for (int i = 0; i < object->dlpi_phnum && c->left; i++) {
        const ElfW(Phdr) *p = &object->dlpi_phdr[i];
        ElfW(Addr) begin = object->dlpi_addr + p->p_vaddr;
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X))
            continue;
        for (; c->left && (ElfW(Addr)) * c->first - begin < p->p_memsz; c->left--)
            c->first++;
    }
    return c->left == 0;
}

bool vs_cxx_is_code(void *const *first, size_t n)
{
    struct code c = {first, n};
    for (size_t before = n + 1; c.left && c.left < before;) {
        before = c.left;
        vs_walk_objects(pass_code, &c);
    }
    return c.left == 0;
}

/* The description begins with its own table and the name; a name that begins with * is compared by address.
 */
bool vs_cxx_is_type(const void *type, const char *name)
{
    char text[64];
    if ((uintptr_t)type % 8 || !vs_readable_bytes((uintptr_t)type, 16))
        return false;
    uintptr_t at = ((const uintptr_t *)type)[1];
    vs_copy_text(text, sizeof text, at + (vs_readable(at) && *(const char *)at == '*'));
    return strcmp(text, name) == 0;
}

size_t vs_cxx_table_words(void *table)
{
    Dl_info info;
    ElfW(Sym) *symbol = NULL;
    if (!dladdr1 || !dladdr1(table, &info, (void **)&symbol, RTLD_DL_SYMENT) || !symbol ||
        info.dli_saddr != table)
        return 0;
    return symbol->st_size / sizeof(void *);
}
