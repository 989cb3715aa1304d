/*
 * mcp.h - the Model Context Protocol on standard input and output, for agents.
 *
 *      a line of JSON-RPC --> tool (tools.c) --> this program's own command with --json, in a child, for a
 * time
 *      --> its document, cut to a size (shorten.c) --> a line of JSON-RPC (mcp.c)
 *
 * Each call of a tool is a process of its own, so nothing that happens to it is the end of the others.
 * Versions of the protocol: those that begin with `initialize`, and 2026-07-28, whose requests stand alone.
 */
#ifndef VS_MCP_MCP_H
#define VS_MCP_MCP_H

#include <jansson.h>

#include "base/base.h"
#include "base/args.h"

/* Serves until standard input ends, or nobody reads the answers.  COMMANDS: NULL is at their end. */
void mcp_serve(const struct command *const *commands, bool allow_run);

/* ---- tools.c ---- */

struct tool;

/* The tools as tools/list has them, of COMMANDS; RUN: with the one that executes a program. */
json_t *tools_list(const struct command *const *commands, bool run);
/* The tool NAME; NULL with WHY, which the caller frees: there is none. */
const struct tool *tools_find(const char *name, bool run, char **why);
/* The command line that ARGUMENTS ask for, to be freed; *WHY, which was NULL: they are wrong. */
char **tools_words(const struct tool *t, json_t *arguments, char **why);

/* ---- shorten.c ---- */

/* How numbers and text are written. */
#define MCP_FLAGS (JSON_COMPACT | JSON_REAL_PRECISION(6))

/* The part PATH of DOCUMENT, such as "files[0].devices[0].peak", in an object of its own; NULL: it has none.
 */
json_t *shorten_part(json_t *document, const char *path);
/* DOCUMENT as text of at most MOST bytes.  What is too large loses the ends of its lists, those within lists
 * first: beside a list NAME stands NAME_left_out, how many items it lost, and `left_out` says how to ask for
 * them.  NULL: it is larger without its lists. */
char *shorten(json_t *document, size_t most);

#endif
