/*
 * embedded.c - the hand-written part of the page as strings in the command: no file has to be found at run
 * time.  VIEW_PAGE_DIR is the path of page/, from the build.
 */
#include "view.h"

#include <stddef.h>

#define EMBED(symbol, file)                                                                                  \
    __asm__(".pushsection .rodata,\"a\",@progbits\n"                                                         \
            ".global " #symbol "\n"                                                                          \
            ".hidden " #symbol "\n"                                                                          \
            ".type " #symbol ", @object\n" #symbol ":\n"                                                     \
            ".incbin \"" VIEW_PAGE_DIR "/" file "\"\n"                                                       \
            ".byte 0\n"                                                                                      \
            ".size " #symbol ", . - " #symbol "\n"                                                           \
            ".popsection\n")

EMBED(view_page_html, "page.html");
EMBED(view_page_css, "page.css");

/* X(NAME): page/NAME.js */
#define SCRIPTS(X)                                                                                           \
    X(codec)                                                                                                 \
    X(recording)                                                                                             \
    X(window)                                                                                                \
    X(stack)                                                                                                 \
    X(paint)                                                                                                 \
    X(marks)                                                                                                 \
    X(chart)                                                                                                 \
    X(panel)                                                                                                 \
    X(icicle)                                                                                                \
    X(controls)                                                                                              \
    X(main)

#define X(name)                                                                                              \
    extern const char view_js_##name[];                                                                      \
    EMBED(view_js_##name, #name ".js");
SCRIPTS(X)
#undef X

const char *const view_page_scripts[] = {
#define X(name) view_js_##name,
    SCRIPTS(X)
#undef X
        NULL};
