/*
 * share.c - what cuda/ tells this folder: struct vs_sharing.
 */
#include "share.h"

const struct vs_sharing vs_sharing = {.block_ends = vs_exports_block_ends,
                                      .arena_ends = vs_exports_arena_ends,
                                      .context_ended = vs_imports_context_ended,
                                      .opened = vs_imports_opened};
