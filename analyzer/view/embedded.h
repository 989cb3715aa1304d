/* embedded.h - the files of page/, embedded as they stand. */
#ifndef VS_VIEW_EMBEDDED_H
#define VS_VIEW_EMBEDDED_H

extern const char view_page_html[], view_page_css[];
extern const char *const view_page_scripts[]; /* in the order in which they stand in the page; NULL ends */

#endif
