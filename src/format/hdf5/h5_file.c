/* SPDX-License-Identifier: Apache-2.0 */
/* h5_file.c - the superblock, checked reads, checksums of metadata, and objects of the global
 * heap. */
#include <string.h>

#include "format/hdf5/h5_parts.h"

#define OBJECT_UNIT 8u

int h5_bad(stk_error *err, uint64_t at, const char *what)
{
    stk_fail(err, STK_ECORRUPT, "damaged HDF5 file: %s", what);
    stk_error_at(err, NULL, at, (stk_bytes){ 0 });
    return STK_ECORRUPT;
}

int h5_get(const stk_h5_file *f, uint64_t at, void *dst, uint64_t len, stk_error *err)
{
    if (at > f->size || len > f->size - at)
        return h5_bad(err, at, "something is said to be past its end");
    return len ? stk_file_read(f->file, at, dst, (size_t)len, err) : 0;
}

int h5_get_new(const stk_h5_file *f, uint64_t at, uint64_t len, uint8_t **out, stk_error *err)
{
    int rc;

    *out = NULL;
    if (len > H5_META_MAX || at > f->size || len > f->size - at)
        return h5_bad(err, at, "something is said to be past its end");
    *out = stk_alloc((size_t)len + 1);
    if (!*out)
        return stk_fail_nomem(err, (size_t)len);
    rc = h5_get(f, at, *out, len, err);
    if (rc < 0) {
        stk_free(*out);
        *out = NULL;
    }
    return rc;
}

/* ---- Jenkins' lookup3, as HDF5 has it ---- */

static uint32_t rot(uint32_t x, unsigned k)
{
    return x << k | x >> (32 - k);
}

static uint32_t word(const uint8_t *p, size_t n) /* what is left of four bytes */
{
    uint32_t v = 0;

    for (size_t i = 0; i < 4 && i < n; i++)
        v |= (uint32_t)p[i] << 8 * i;
    return v;
}

static uint32_t lookup3(const uint8_t *p, size_t len)
{
    uint32_t a = 0xdeadbeef + (uint32_t)len, b = a, c = a;

    for (; len > 12; len -= 12, p += 12) {
        a += word(p, 4);
        b += word(p + 4, 4);
        c += word(p + 8, 4);
        a = (a - c) ^ rot(c, 4), c += b;
        b = (b - a) ^ rot(a, 6), a += c;
        c = (c - b) ^ rot(b, 8), b += a;
        a = (a - c) ^ rot(c, 16), c += b;
        b = (b - a) ^ rot(a, 19), a += c;
        c = (c - b) ^ rot(b, 4), b += a;
    }
    if (!len)
        return c;
    a += word(p, len);
    b += len > 4 ? word(p + 4, len - 4) : 0;
    c += len > 8 ? word(p + 8, len - 8) : 0;
    c = (c ^ b) - rot(b, 14);
    a = (a ^ c) - rot(c, 11);
    b = (b ^ a) - rot(a, 25);
    c = (c ^ b) - rot(b, 16);
    a = (a ^ c) - rot(c, 4);
    b = (b ^ a) - rot(a, 14);
    return (c ^ b) - rot(b, 24);
}

int h5_sum_fits(const uint8_t *p, size_t len)
{
    return len >= 4 && lookup3(p, len - 4) == word(p + len - 4, 4);
}

/* ---- the superblock ---- */

static int size_fits(uint8_t n)
{
    return n == 2 || n == 4 || n == 8;
}

/* Versions 0 and 1: the root group is in a symbol table's entry. */
static int read_old(stk_h5_file *f, h5_cursor *c, uint32_t version, uint64_t *end)
{
    h5_skip(c, 4);
    f->offsets = (uint8_t)h5_uint(c, 1);
    f->lengths = (uint8_t)h5_uint(c, 1);
    if (!size_fits(f->offsets) || !size_fits(f->lengths))
        return 0;
    h5_skip(c, version ? 13 : 9);
    h5_skip(c, 2u * f->offsets); /* base and free space */
    *end = h5_uint(c, f->offsets);
    h5_skip(c, 2u * f->offsets); /* driver, and the name of the root */
    f->root = h5_address(f, c);
    return !c->bad;
}

/* flags: a writer has the file open, or never closed it; readers may look on (SWMR) */
enum { WRITING = 1, WRITING_FOR_READERS = 4 };

static int read_new(stk_h5_file *f, h5_cursor *c, const uint8_t *start, uint64_t *end,
                    uint32_t *flags)
{
    f->offsets = (uint8_t)h5_uint(c, 1);
    f->lengths = (uint8_t)h5_uint(c, 1);
    if (!size_fits(f->offsets) || !size_fits(f->lengths))
        return 0;
    *flags = (uint32_t)h5_uint(c, 1);
    h5_skip(c, 2u * f->offsets); /* base, extension */
    *end = h5_uint(c, f->offsets);
    f->root = h5_address(f, c);
    h5_skip(c, 4);
    return !c->bad && h5_sum_fits(start, (size_t)(c->p - start));
}

static int read_superblock(stk_h5_file *f, stk_bytes head, stk_error *err)
{
    h5_cursor c = h5_over(head);
    uint64_t end = 0;
    uint32_t version, flags = 0;
    int ok;

    h5_skip(&c, 8);
    version = (uint32_t)h5_uint(&c, 1);
    if (version > 3)
        return stk_fail(err, STK_ENOTSUP, "an HDF5 file with superblock %u, which is not supported",
                        version);
    ok = version < 2 ? read_old(f, &c, version, &end) : read_new(f, &c, head.data, &end, &flags);
    if (!ok || f->root == STK_H5_NOWHERE)
        return h5_bad(err, f->base, "its superblock");
    if (version == 3 && (flags & (WRITING | WRITING_FOR_READERS)) == WRITING)
        return stk_fail(err, STK_ECORRUPT,
                        "a program is writing the HDF5 file, or ended before it closed it: close "
                        "it first (h5clear -s tells that it is whole)");
    if (end > f->size) /* it counts the user block */
        return stk_fail(err, STK_ECORRUPT,
                        "the HDF5 file is cut short: it has %" PRIu64 " bytes of %" PRIu64, f->size,
                        end);
    return 0;
}

int stk_h5_file_init(stk_h5_file *out, stk_file *file, stk_error *err)
{
    static const uint8_t sign[8] = { 0x89, 'H', 'D', 'F', '\r', '\n', 0x1A, '\n' };
    stk_file_info info;
    uint8_t head[128];

    *out = (stk_h5_file){ .file = file };
    STK_TRY(stk_file_stat(file, &info, err));
    out->size = info.size;
    for (uint64_t at = 0; at < info.size; at = at ? 2 * at : 512) { /* after the user block */
        uint64_t n = info.size - at < sizeof head ? info.size - at : sizeof head;

        STK_TRY(stk_file_read(file, at, head, (size_t)n, err));
        if (n >= sizeof sign && !memcmp(head, sign, sizeof sign)) {
            out->base = at;
            return read_superblock(out, (stk_bytes){ head, (size_t)n }, err);
        }
    }
    return stk_fail(err, STK_ECORRUPT, "not an HDF5 file");
}

/* ---- the global heap ---- */

stk_h5_sequence stk_h5_sequence_read(const stk_h5_file *f, const uint8_t *p)
{
    h5_cursor c = { p, p + 8 + f->offsets, 0 };
    stk_h5_sequence seq = { .len = (uint32_t)h5_uint(&c, 4) };

    seq.addr = h5_address(f, &c);
    seq.number = (uint32_t)h5_uint(&c, 4);
    return seq;
}

int stk_h5_sequence_find(const stk_h5_file *f, stk_bytes raw, uint32_t number, stk_bytes *out,
                         uint64_t *need, stk_error *err)
{
    h5_cursor c = h5_over(raw);
    int known = h5_is(&c, "GCOL") && h5_uint(&c, 1) == 1;
    uint64_t total;

    h5_skip(&c, 3);
    total = h5_length(f, &c);
    if (c.bad || !known || total > f->size)
        return h5_bad(err, STK_NO_OFFSET, "a value is not in the heap where it should be");
    if (total < raw.len)
        c.end = raw.data + (total < 8u + f->lengths ? 8u + f->lengths : total);
    *need = total;
    while (h5_left(&c) >= 8u + f->lengths) {
        uint32_t have = (uint32_t)h5_uint(&c, 2);
        uint64_t len;

        h5_skip(&c, 6);
        len = h5_length(f, &c);
        if (!have || len > total) /* free space ends it */
            break;
        if (have == number && len <= h5_left(&c)) {
            *out = (stk_bytes){ c.p, (size_t)len };
            return 0;
        }
        if (len > h5_left(&c))
            return raw.len < total ? STK_END
                                   : h5_bad(err, STK_NO_OFFSET, "a value ends past its heap");
        h5_skip(&c, (len + OBJECT_UNIT - 1) & ~(uint64_t)(OBJECT_UNIT - 1));
    }
    return raw.len < total && h5_left(&c) < 8u + f->lengths
               ? STK_END
               : h5_bad(err, STK_NO_OFFSET, "a value is not in its heap");
}

int h5_object_get(const stk_h5_file *f, uint64_t at, uint32_t number, uint8_t **out, uint64_t *len,
                  stk_error *err)
{
    uint8_t head[16], *all = NULL;
    uint64_t front = 8u + f->lengths, total, need;
    h5_cursor c = { head, head + front, 0 };
    stk_bytes value = { 0 };
    int rc;

    *out = NULL;
    STK_TRY(h5_get(f, at, head, front, err));
    h5_skip(&c, 8);
    total = h5_length(f, &c);
    STK_TRY(h5_get_new(f, at, total, &all, err));
    rc = stk_h5_sequence_find(f, (stk_bytes){ all, (size_t)total }, number, &value, &need, err);
    if (rc > 0)
        rc = h5_bad(err, at, "a value is not in its heap");
    if (rc == 0 && !(*out = stk_alloc(value.len + 1)))
        rc = stk_fail_nomem(err, value.len);
    if (rc == 0)
        memcpy(*out, value.data, value.len);
    *len = value.len;
    stk_free(all);
    return rc;
}
