/* SPDX-License-Identifier: Apache-2.0 */
/* zip.c - see zip.h.  The directory at the end of the file is what counts; of a member's own header
 * only the lengths are read that say where its bytes begin.  All members are before the directory,
 * and no two share a byte.  Archives in several files, encrypted members and other packings are
 * refused. */
#include "format/zip.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32.h"
#include "compress/unpack.h"

#define END_SIZE 22
#define END64_SIZE 56
#define LOCATOR_SIZE 20
#define ENTRY_SIZE 46
#define LOCAL_SIZE 30
#define MAX_DIRECTORY ((uint64_t)64 << 20)
#define MAX_MEMBERS 65536
#define MAX_RATIO 1032 /* of deflate */

typedef struct directory {
    uint64_t offset, size, members;
} directory;

static uint64_t le(const uint8_t *p, unsigned n)
{
    uint64_t v = 0;

    for (unsigned i = n; i-- > 0;)
        v = v << 8 | p[i];
    return v;
}

static int torn(uint64_t offset, const char *why, stk_error *err)
{
    int rc = stk_fail(err, STK_ECORRUPT, "zip: %s", why);

    stk_error_at(err, NULL, offset, (stk_bytes){ 0 });
    return rc;
}

/* The record past 4 GiB, which is before the plain one. */
static int find_end64(stk_file *f, uint64_t end, directory *d, stk_error *err)
{
    uint8_t b[END64_SIZE];
    uint64_t at;

    if (end < LOCATOR_SIZE)
        return torn(end, "truncated: its directory is not there", err);
    STK_TRY(stk_file_read(f, end - LOCATOR_SIZE, b, LOCATOR_SIZE, err));
    if (le(b, 4) != 0x07064b50)
        return torn(end - LOCATOR_SIZE, "its directory is not where it should be", err);
    at = le(b + 8, 8);
    if (end < END64_SIZE || at > end - END64_SIZE)
        return torn(end - LOCATOR_SIZE + 8, "its directory is said to be past its end", err);
    STK_TRY(stk_file_read(f, at, b, END64_SIZE, err));
    if (le(b, 4) != 0x06064b50)
        return torn(at, "its directory is not where it should be", err);
    *d = (directory){ le(b + 48, 8), le(b + 40, 8), le(b + 32, 8) };
    return 0;
}

static int find_end(stk_file *f, uint64_t size, directory *d, stk_error *err)
{
    size_t len = size < 65535 + END_SIZE ? (size_t)size : 65535 + END_SIZE, i;
    uint8_t *tail = stk_alloc(len + 1);
    int rc;

    if (!tail)
        return stk_fail_nomem(err, len);
    rc = len < END_SIZE ? torn(0, "too short for an archive", err)
                        : stk_file_read(f, size - len, tail, len, err);
    for (i = rc == 0 ? len - END_SIZE + 1 : 0; i-- > 0;)
        if (le(tail + i, 4) == 0x06054b50)
            break;
    if (rc == 0 && i == SIZE_MAX)
        rc = torn(size, "truncated, or no archive: it has no directory at its end", err);
    if (rc == 0 && (le(tail + i + 4, 2) || le(tail + i + 6, 2)) && le(tail + i + 4, 2) != 0xffff)
        rc = stk_fail(err, STK_ENOTSUP, "zip: an archive in several files");
    if (rc == 0) {
        *d = (directory){ le(tail + i + 16, 4), le(tail + i + 12, 4), le(tail + i + 10, 2) };
        if (d->offset == UINT32_MAX || d->size == UINT32_MAX || d->members == UINT16_MAX)
            rc = find_end64(f, size - len + i, d, err);
    }
    stk_free(tail);
    if (rc == 0 && (d->offset > size || d->size > size - d->offset))
        rc = torn(size, "its directory is said to be past its end", err);
    if (rc == 0 && (d->size > MAX_DIRECTORY || d->members > MAX_MEMBERS))
        rc = stk_fail(err, STK_ELIMIT, "zip: %" PRIu64 " members are too many", d->members);
    return rc;
}

/* Numbers that did not fit into 32 bits stand in an extra field, in this order. */
static int wide(const uint8_t *extra, size_t len, uint64_t *field[3], uint64_t at, stk_error *err)
{
    while (len >= 4) {
        size_t n = (size_t)le(extra + 2, 2), k = 4;

        if (n > len - 4)
            return torn(at, "a member's extra field is damaged", err);
        if (le(extra, 2) == 1)
            for (int i = 0; i < 3; i++) {
                if (*field[i] != UINT32_MAX)
                    continue;
                if (k + 8 > n + 4)
                    return torn(at, "a member's extra field is damaged", err);
                *field[i] = le(extra + k, 8);
                k += 8;
            }
        extra += 4 + n;
        len -= 4 + n;
    }
    return 0;
}

/* Where a member's bytes begin: after its own header, which must be of the same member. */
static int place(stk_file *f, uint64_t size, uint64_t header, stk_zip_member *m, stk_error *err)
{
    uint8_t b[LOCAL_SIZE];
    size_t name = strlen(m->name);

    if (size < LOCAL_SIZE || header > size - LOCAL_SIZE)
        return torn(header, "a member is said to be past its end", err);
    STK_TRY(stk_file_read(f, header, b, sizeof b, err));
    if (le(b, 4) != 0x04034b50)
        return torn(header, "a member is not where the directory says", err);
    if (le(b + 8, 2) != m->method || le(b + 26, 2) != name)
        return torn(header, "a member's own header says otherwise than the directory", err);
    m->offset = header + LOCAL_SIZE + le(b + 26, 2) + le(b + 28, 2);
    if (m->offset > size || m->packed > size - m->offset)
        return torn(m->offset, "truncated: a member is said to be past its end", err);
    return 0;
}

typedef struct walk { /* through the directory */
    stk_file *f;
    uint64_t size; /* of the part with members */
    stk_bytes left;
    uint64_t at; /* where they are in it */
} walk;

static int entry(walk *w, stk_zip *z, stk_error *err)
{
    const uint8_t *b = w->left.data;
    stk_zip_member *m = &z->member[z->n];
    uint64_t header, *field[3] = { &m->size, &m->packed, &header };
    size_t name, extra, used;

    if (w->left.len < ENTRY_SIZE || le(b, 4) != 0x02014b50)
        return torn(w->at, "its directory is damaged", err);
    name = (size_t)le(b + 28, 2);
    extra = (size_t)le(b + 30, 2);
    used = ENTRY_SIZE + name + extra + (size_t)le(b + 32, 2);
    if (used > w->left.len)
        return torn(w->at, "its directory is damaged", err);
    m->method = (uint16_t)le(b + 10, 2);
    m->crc = (uint32_t)le(b + 16, 4);
    m->packed = le(b + 20, 4);
    m->size = le(b + 24, 4);
    header = le(b + 42, 4);
    STK_TRY(wide(b + ENTRY_SIZE + name, extra, field, w->at, err));
    m->name = stk_strndup((const char *)b + ENTRY_SIZE, name);
    if (!m->name)
        return stk_fail_nomem(err, name);
    z->n++;
    if (le(b + 8, 2) & 1)
        return stk_fail(err, STK_ENOTSUP, "zip: member %.80s is encrypted", m->name);
    if (m->method != STK_ZIP_STORED && m->method != STK_ZIP_DEFLATED)
        return stk_fail(err, STK_ENOTSUP,
                        "zip: member %.80s is packed by method %u; known are stored and deflated",
                        m->name, m->method);
    if (m->method == STK_ZIP_STORED && m->packed != m->size)
        return torn(w->at, "a stored member has two sizes", err);
    if (m->method == STK_ZIP_DEFLATED && m->size / MAX_RATIO > m->packed)
        return torn(w->at, "a member is said to unpack to more than it can", err);
    w->left = (stk_bytes){ b + used, w->left.len - used };
    w->at += used;
    return place(w->f, w->size, header, m, err);
}

static int by_offset(const void *a, const void *b)
{
    const stk_zip_member *x = *(const stk_zip_member *const *)a,
                         *y = *(const stk_zip_member *const *)b;

    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Forged: one member's bytes in another's, so that few unpack to many. */
static int check_apart(const stk_zip *z, stk_error *err)
{
    const stk_zip_member **m = stk_zalloc(z->n + 1, sizeof *m);
    int rc = m ? 0 : stk_fail_nomem(err, z->n * sizeof *m);

    for (size_t i = 0; rc == 0 && i < z->n; i++)
        m[i] = &z->member[i];
    if (rc == 0 && z->n)
        qsort(m, z->n, sizeof *m, by_offset);
    for (size_t i = 1; rc == 0 && i < z->n; i++)
        if (m[i - 1]->packed > m[i]->offset - m[i - 1]->offset || m[i]->offset == m[i - 1]->offset)
            rc = torn(m[i]->offset, "two members share bytes", err);
    stk_free(m);
    return rc;
}

int stk_zip_read(stk_file *f, uint64_t size, stk_zip *out, stk_error *err)
{
    directory d = { 0 };
    uint8_t *bytes;
    walk w;
    int rc;

    STK_TRY(find_end(f, size, &d, err));
    bytes = stk_alloc(d.size + 1);
    out->member = stk_zalloc(d.members + 1, sizeof *out->member);
    rc = bytes && out->member ? stk_file_read(f, d.offset, bytes, d.size, err)
                              : stk_fail_nomem(err, d.size);
    w = (walk){ f, d.offset, { bytes, (size_t)d.size }, d.offset };
    while (rc == 0 && out->n < d.members)
        rc = entry(&w, out, err);
    if (rc == 0)
        rc = check_apart(out, err);
    stk_free(bytes);
    return rc;
}

void stk_zip_fini(stk_zip *z)
{
    for (size_t i = 0; i < z->n; i++)
        stk_free(z->member[i].name);
    stk_free(z->member);
    *z = (stk_zip){ 0 };
}

/* ---- deflated members ---- */

typedef struct inflating {
    stk_file *file;
    const stk_zip_member *member;
    uint64_t at;   /* bytes read */
    uint8_t *dst;  /* for the rest */
    uint64_t room; /* of it */
} inflating;

static int read_packed(void *cookie, void *dst, size_t room, size_t *got, stk_error *err)
{
    inflating *x = cookie;
    uint64_t left = x->member->packed - x->at;

    *got = left < room ? (size_t)left : room;
    x->at += *got;
    return *got ? stk_file_read(x->file, x->member->offset + x->at - *got, dst, *got, err) : 0;
}

static int write_plain(void *cookie, const void *data, size_t len, stk_error *err)
{
    inflating *x = cookie;

    if (len > x->room)
        return stk_fail(err, STK_ECORRUPT, "zip: a member is too long");
    memcpy(x->dst, data, len);
    x->dst += len;
    x->room -= len;
    return 0;
}

int stk_zip_inflate(stk_file *f, const stk_zip_member *m, void *dst, stk_error *err)
{
    inflating x = { f, m, 0, dst, m->size };
    stk_unpack_io io = { read_packed, write_plain, &x };
    int rc = stk_inflate_all(&io, err);
    stk_crc32 crc;

    if (rc < 0 && rc != STK_ECORRUPT)
        return rc;
    stk_crc32_init(&crc);
    if (rc < 0 || x.room)
        rc = stk_fail(err, STK_ECORRUPT,
                      "zip: member %.80s is damaged: it does not unpack to %" PRIu64 " bytes",
                      m->name, m->size);
    else if (stk_crc32_of(&crc, 0, dst, m->size) != m->crc)
        rc = stk_fail(err, STK_ECORRUPT, "zip: member %.80s is damaged: its checksum is another",
                      m->name);
    if (rc < 0)
        stk_error_at(err, NULL, m->offset, (stk_bytes){ 0 });
    return rc;
}
