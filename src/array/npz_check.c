/* SPDX-License-Identifier: Apache-2.0 */
/* npz_check.c - the checksums of an archive's stored members, when it is opened.
 *
 * Rows of stored members are taken out of the file as they are, so their bytes are summed once, at
 * open and not per row: pieces of 16 MiB by all cores, about 2 GB/s for each, and the file is then
 * in the page cache.  Deflated members are summed where they are unpacked.  An archive with more
 * stored bytes than half of the memory would be read twice: it is not summed, which is logged. */
#include <string.h>

#include "array/arrays_open.h"
#include "base/cpu.h"
#include "base/crc32.h"
#include "base/jobs.h"

#define PIECE ((uint64_t)16 << 20)
#define CHUNK ((size_t)256 << 10)

typedef struct piece {
    const stk_zip_member *m;
    uint64_t at, len; /* in the member */
    uint32_t crc;
} piece;

typedef struct summing {
    stk_file *f;
    stk_crc32 table;
    piece *piece;
    size_t n;
} summing;

static int sum_piece(void *cookie, uint64_t i, stk_error *err)
{
    summing *s = cookie;
    piece *p = &s->piece[i];
    uint8_t *chunk = stk_alloc(CHUNK);
    int rc = chunk ? 0 : stk_fail_nomem(err, CHUNK);

    for (uint64_t at = 0; rc == 0 && at < p->len; at += CHUNK) {
        size_t len = (size_t)(p->len - at < CHUNK ? p->len - at : CHUNK);

        rc = stk_file_read(s->f, p->m->offset + p->at + at, chunk, len, err);
        if (rc == 0)
            p->crc = stk_crc32_of(&s->table, p->crc, chunk, len);
    }
    stk_free(chunk);
    return rc;
}

static int pieces_make(summing *s, const stk_zip *z, stk_error *err)
{
    size_t n = 0;

    for (size_t i = 0; i < z->n; i++)
        n += z->member[i].method == STK_ZIP_STORED ? z->member[i].size / PIECE + 1 : 0;
    s->piece = stk_zalloc(n + 1, sizeof *s->piece);
    if (!s->piece)
        return stk_fail_nomem(err, n * sizeof *s->piece);
    for (size_t i = 0; i < z->n; i++) {
        const stk_zip_member *m = &z->member[i];

        for (uint64_t at = 0; m->method == STK_ZIP_STORED && at <= m->size; at += PIECE)
            s->piece[s->n++] = (piece){ m, at, m->size - at < PIECE ? m->size - at : PIECE, 0 };
    }
    return 0;
}

/* Pieces of a member are side by side. */
static int sums_compare(const summing *s, stk_error *err)
{
    for (size_t i = 0; i < s->n;) {
        const stk_zip_member *m = s->piece[i].m;
        uint32_t crc = 0;

        for (; i < s->n && s->piece[i].m == m; i++)
            crc = stk_crc32_join(crc, s->piece[i].crc, s->piece[i].len);
        if (crc == m->crc)
            continue;
        stk_fail(err, STK_ECORRUPT,
                 "zip: member %.80s is damaged: its bytes have another checksum (%08x) than the "
                 "archive says (%08x); copy or write it again",
                 m->name, crc, m->crc);
        stk_error_at(err, NULL, m->offset,
                     (stk_bytes){ (const uint8_t *)m->name, strlen(m->name) });
        return STK_ECORRUPT;
    }
    return 0;
}

int stk_npz_check(stk_file *f, const char *name, const stk_zip *z, const stk_dataset_options *o,
                  stk_error *err)
{
    uint64_t bytes = 0;
    summing *s;
    int rc;

    for (size_t i = 0; i < z->n; i++)
        bytes += z->member[i].method == STK_ZIP_STORED ? z->member[i].size : 0;
    if (bytes > stk_memory_total() / 2) {
        stk_log_line(&(stk_log){ o->log, o->log_cookie }, STK_LOG_WARN,
                     "%.200s: its %" PRIu64 " MB of arrays are more than half of the memory, so "
                     "their checksums are not compared",
                     name, bytes >> 20);
        return 0;
    }
    s = STK_NEW(summing);
    if (!s)
        return stk_fail_nomem(err, sizeof *s);
    s->f = f;
    stk_crc32_init(&s->table);
    rc = pieces_make(s, z, err);
    if (rc == 0)
        rc = stk_jobs_run(bytes < PIECE ? 1 : o->num_workers, s->n, sum_piece, s, err);
    if (rc == 0)
        rc = sums_compare(s, err);
    stk_free(s->piece);
    stk_free(s);
    return rc;
}
