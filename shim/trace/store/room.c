/*
 * room.c - how much room the file has, and how large batches and stretches are in small files.
 */
#include "internal.h"

#include <sys/stat.h>

uint64_t vs_store_used(struct vs_store *s)
{
    int64_t pages = vs_store_number(s, "PRAGMA page_count", 0),
            spare = vs_store_number(s, "PRAGMA freelist_count", 0);
    return (uint64_t)(pages - spare) * 4096;
}

static uint64_t file_bytes(const char *path)
{
    struct stat st;
    return path && stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

/* Uses SQLite's own name for the log, because the host may have changed its directory. */
uint64_t vs_store_log_held(struct vs_store *s)
{
    const char *file = s->wal ? sqlite3_db_filename(s->db, "main") : NULL;
    uint64_t log = file ? file_bytes(sqlite3_filename_wal(file)) : 0;
    return log > 4 * s->log_bytes ? log : 0;
}

size_t vs_store_batch(const struct vs_store *s)
{
    uint64_t n = s->config.max_bytes / VS_EVENT_BYTES / 64;
    return !s->config.max_bytes || n > 4096 ? 4096 : n < 256 ? 256 : (size_t)n;
}

/* Small for small files, because folding works in whole stretches. */
uint32_t vs_store_stretch(const struct vs_store *s)
{
    uint64_t n = s->config.max_bytes / 4096;
    return !s->config.max_bytes || n > 16384 ? 16384 : n < 1024 ? 1024 : (uint32_t)n;
}
