/* pack.c - numbers as bytes, bytes as deflated base64 (view.h). */
#include "view.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void room_for(struct pack *p, size_t n)
{
    if (p->size + n <= p->room)
        return;
    while (p->room < p->size + n)
        p->room = p->room ? 2 * p->room : 256;
    p->bytes = xrealloc(p->bytes, p->room);
}

void pack_byte(struct pack *p, unsigned value)
{
    room_for(p, 1);
    p->bytes[p->size++] = (unsigned char)value;
}

void pack_bytes(struct pack *p, const void *bytes, size_t n)
{
    room_for(p, n);
    if (n)
        memcpy(p->bytes + p->size, bytes, n);
    p->size += n;
}

void pack_number(struct pack *p, uint64_t value)
{
    for (; value >= 128; value >>= 7)
        pack_byte(p, 128 | (unsigned)(value & 127));
    pack_byte(p, (unsigned)value);
}

static uint64_t fold(int64_t value)
{
    return value < 0 ? ~((uint64_t)value << 1) : (uint64_t)value << 1;
}

void pack_signed(struct pack *p, int64_t value)
{
    pack_number(p, fold(value));
}

void pack_memory(struct pack *p, int64_t bytes)
{
    uint64_t n = bytes < 0 ? 0 : (uint64_t)bytes;
    pack_number(p, n % 512 ? 2 * n + 1 : 2 * (n / 512));
}

void pack_memory_signed(struct pack *p, int64_t bytes)
{
    pack_number(p, bytes % 512 ? 2 * fold(bytes) + 1 : 2 * fold(bytes / 512));
}

void pack_section(struct pack *p, struct pack *part)
{
    pack_number(p, part->size);
    pack_bytes(p, part->bytes, part->size);
    part->size = 0;
}

void pack_free(struct pack *p)
{
    free(p->bytes);
    *p = (struct pack){0};
}

/* ---- into the page ---- */

static size_t write_base64(const unsigned char *bytes, size_t n, FILE *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = xrealloc(NULL, (n + 2) / 3 * 4), *at = text;
    for (size_t i = 0; i < n; i += 3) {
        uint32_t word = (uint32_t)bytes[i] << 16 | (i + 1 < n ? (uint32_t)bytes[i + 1] << 8 : 0) |
                        (i + 2 < n ? bytes[i + 2] : 0);
        *at++ = digits[word >> 18];
        *at++ = digits[word >> 12 & 63];
        *at++ = i + 1 < n ? digits[word >> 6 & 63] : '=';
        *at++ = i + 2 < n ? digits[word & 63] : '=';
    }
    size_t written = (size_t)(at - text);
    fwrite(text, 1, written, out);
    free(text);
    return written;
}

size_t pack_write(struct pack *p, const char *id, FILE *out)
{
    uLongf room = compressBound(p->size);
    unsigned char *small = xrealloc(NULL, room);
    if (compress2(small, &room, p->bytes ? p->bytes : (const unsigned char *)"", p->size, 6) != Z_OK) {
        complain("out of memory");
        exit(2);
    }
    int head = fprintf(out, "<script type=\"text/plain\" id=\"%s\">", id);
    size_t written = write_base64(small, room, out);
    fputs("</script>\n", out);
    free(small);
    pack_free(p);
    return written + (head > 0 ? (size_t)head : 0) + 10;
}
