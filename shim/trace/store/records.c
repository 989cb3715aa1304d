/*
 * records.c - the batch as a little database in memory, so that its rows enter `ev` as whole records.
 *
 *      rows --encode--> page 2 (root), 3, 4, ... of `batch` --INSERT INTO ev SELECT * FROM batch.ev--> ev
 *
 * SQLite copies a table into one of the same shape record by record, without taking a row apart into columns
 * and putting it together again: less than half the time of its fastest other way.  So the rows are written
 * in the format of its files (https://sqlite.org/fileformat2.html, leaf and interior table pages), into pages
 * that an attached database reads where they lie.
 *
 * The copy needs a target that numbers its rows by itself, and `ev` declares its key.  vs_records_unkey()
 * makes this connection, and no other, take `seq` for an ordinary column: a declared key is stored as NULL,
 * which is what the records have there, so the file is the same byte for byte.  On this connection seq reads
 * as NULL from then on; rowid is right always.  Where the schema is read again (somebody made an index), the
 * same statement goes the slow way and writes the same rows.
 */
#include "internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define PAGE      32768u
#define LEAVES    16u
#define FIRST     3u /* page 1: SQLite's header and schema, 2: the root */
#define PAGES     (FIRST - 1 + LEAVES)
#define COLUMNS   14u
#define CELL_MAX  160u /* 5 + 15 + 13 * 8, and what a store of 8 bytes may touch */
#define LEAF      13u
#define INTERIOR  5u
#define LEAF_HEAD 8u
#define ROOT_HEAD 12u

int64_t vs_x512(uint64_t bytes)
{
    return bytes % 512 ? -(int64_t)bytes : (int64_t)(bytes / 512);
}

/* What nobody could say is NULL. */
bool vs_size_unknown(const struct vs_row *row)
{
    return row->size == VS_BYTES_UNKNOWN;
}

int64_t vs_x2m(uint64_t bytes)
{
    return bytes % (2u << 20) ? -(int64_t)bytes : (int64_t)(bytes / (2u << 20));
}

uint64_t vs_from_x512(int64_t value)
{
    return value < 0 ? (uint64_t)-value : (uint64_t)value * 512;
}

/* ---- one record ---- */

struct record {
    unsigned char *type, *value; /* where the next column goes */
};

/* The shortest form, as SQLite itself would choose: 0 and 1 are types, other widths 1, 2, 3, 4, 6, 8. */
static inline void put(struct record *r, int64_t v)
{
    static const uint8_t width[] = {0, 1, 2, 3, 4, 6, 6, 8, 8}, type[] = {0, 1, 2, 3, 4, 5, 5, 6, 6};
    if ((uint64_t)v <= 1) {
        *r->type++ = (unsigned char)(8 + v);
        return;
    }
    uint64_t magnitude = (uint64_t)(v < 0 ? ~v : v);
    unsigned bytes = (unsigned)(72 - __builtin_clzll(magnitude | 1)) / 8; /* with its sign bit */
    uint64_t big_endian = __builtin_bswap64((uint64_t)v << (64 - 8 * width[bytes]));
    memcpy(r->value, &big_endian, sizeof big_endian);
    r->value += width[bytes];
    *r->type++ = type[bytes];
}

static unsigned put_varint(unsigned char *at, uint32_t v) /* below 2^21 */
{
    unsigned n = v < 1u << 7 ? 1 : v < 1u << 14 ? 2 : 3;
    for (unsigned i = n; i-- > 0; v >>= 7)
        at[i] = (unsigned char)((v & 0x7f) | (i + 1 < n ? 0x80 : 0));
    return n;
}

/* payload size | key | header size, 14 types | 13 values; the length of it all */
static unsigned encode(unsigned char *cell, uint32_t key, const struct vs_row *row)
{
    unsigned char *payload = cell + 1 + put_varint(cell + 1, key);
    struct record r = {payload + 2, payload + 1 + COLUMNS};
    payload[0] = 1 + COLUMNS;
    payload[1] = 0; /* seq: NULL, it is the key */
    put(&r, row->t);
    put(&r, row->op);
    put(&r, row->device);
    put(&r, row->phase);
    put(&r, row->kind);
    put(&r, vs_x512(row->address));
    if (__builtin_expect(vs_size_unknown(row), 0))
        *r.type++ = 0;
    else
        put(&r, vs_x512(row->size));
    put(&r, row->range);
    put(&r, row->stack);
    put(&r, (int64_t)row->mate);
    put(&r, vs_x512(row->framework));
    put(&r, vs_x512(row->direct));
    put(&r, vs_x2m(row->reserved));
    cell[0] = (unsigned char)(r.value - payload); /* below 128: one byte */
    return (unsigned)(r.value - cell);
}

/* ---- pages ---- */

static unsigned char *page_at(const struct vs_store *s, uint32_t number)
{
    return s->image + (size_t)(number - 1) * PAGE;
}

static void put16(unsigned char *at, unsigned v)
{
    at[0] = (unsigned char)(v >> 8);
    at[1] = (unsigned char)v;
}

static void put32(unsigned char *at, uint32_t v)
{
    put16(at, v >> 16);
    put16(at + 2, v & 0xffff);
}

static void put_head(unsigned char *page, unsigned type, unsigned cells, unsigned content)
{
    page[0] = (unsigned char)type;
    put16(page + 1, 0); /* no free blocks */
    put16(page + 3, cells);
    put16(page + 5, content);
    page[7] = 0;
}

/* Fills one leaf with rows of consecutive numbers; how many went in. */
static size_t fill_leaf(unsigned char *page, uint32_t key, const struct vs_row *row, size_t n)
{
    unsigned char cell[CELL_MAX];
    unsigned content = PAGE, cells = 0;
    while (cells < n && (cells == 0 || row[cells].seq == row[cells - 1].seq + 1)) {
        unsigned length = encode(cell, key + cells, &row[cells]);
        if (LEAF_HEAD + 2 * (cells + 1) + length > content)
            break;
        content -= length;
        memcpy(page + content, cell, length);
        put16(page + LEAF_HEAD + 2 * cells++, content);
    }
    put_head(page, LEAF, cells, content);
    return cells;
}

/* The root above leaves whose last keys are LAST[]; a single leaf is the root itself. */
static void fill_root(struct vs_store *s, const uint32_t *last, uint32_t leaves)
{
    unsigned char *root = page_at(s, 2);
    unsigned content = PAGE;
    if (leaves == 1) {
        memcpy(root, page_at(s, FIRST), PAGE);
        return;
    }
    for (uint32_t i = 0; i + 1 < leaves; i++) {
        unsigned char key[4];
        unsigned length = put_varint(key, last[i]);
        content -= 4 + length;
        put32(root + content, FIRST + i);
        memcpy(root + content + 4, key, length);
        put16(root + ROOT_HEAD + 2 * i, content);
    }
    put_head(root, INTERIOR, leaves - 1, content);
    put32(root + 8, FIRST + leaves - 1);
}

size_t vs_records_fill(struct vs_store *s, const struct vs_row *row, size_t n)
{
    uint32_t last[LEAVES], leaves = 0;
    size_t done = 0;
    while (leaves < LEAVES && done < n && (done == 0 || row[done].seq == row[done - 1].seq + 1)) {
        done += fill_leaf(page_at(s, FIRST + leaves), (uint32_t)done + 1, row + done, n - done);
        last[leaves++] = (uint32_t)done;
    }
    fill_root(s, last, leaves);
    return done;
}

/* ---- the attached database ---- */

/* SQLite itself makes the first page; ours follow it. */
static int make_image(struct vs_store *s)
{
    sqlite3_int64 size = 0;
    unsigned char *made = sqlite3_serialize(s->db, "batch", &size, 0);
    s->image = made && size == 2 * PAGE ? calloc(PAGES, PAGE) : NULL;
    if (s->image) {
        memcpy(s->image, made, (size_t)size);
        put32(s->image + 28, PAGES);
    }
    sqlite3_free(made);
    return s->image ? 0 : -ENOMEM;
}

int vs_records_open(struct vs_store *s)
{
    const sqlite3_int64 size = (sqlite3_int64)PAGES * PAGE;
    int rc = vs_store_exec(s, "ATTACH ':memory:' AS batch; PRAGMA batch.page_size=32768;"
                              "CREATE TABLE batch.ev(seq INT,t INT,op INT,device INT,phase INT,kind INT,"
                              "address INT,size INT,range INT,stack INT,mate INT,framework INT,direct INT,"
                              "reserved INT)");
    if (rc == 0)
        rc = make_image(s);
    if (rc == 0)
        rc = vs_sqlite_errno(s, sqlite3_deserialize(s->db, "batch", s->image, size, size, 0));
    /* read where it lies: no page of it may be kept from the batch before */
    if (rc == 0)
        rc = vs_store_exec(s, "PRAGMA batch.mmap_size=1048576");
    return rc;
}

/* Within the transaction that made `ev`: nobody else ever sees the other text. */
int vs_records_unkey(struct vs_store *s)
{
    return vs_store_exec(
        s, "PRAGMA writable_schema=ON;"
           "UPDATE sqlite_schema SET sql=replace(sql,'seq INTEGER PRIMARY KEY','seq INT') WHERE name='ev';"
           "PRAGMA writable_schema=RESET;"
           "SELECT 1 FROM ev;" /* reads the schema */
           "PRAGMA writable_schema=ON;"
           "UPDATE sqlite_schema SET sql=replace(sql,'seq INT','seq INTEGER PRIMARY KEY') WHERE name='ev';"
           "PRAGMA writable_schema=OFF");
}
