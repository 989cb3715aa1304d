/* heap.h - see heap.c. */
#ifndef VS_TRACE_STORE_HEAP_H
#define VS_TRACE_STORE_HEAP_H

/* Gives SQLite this heap, if it has not begun to use another. */
void vs_heap_install(void);

#endif
