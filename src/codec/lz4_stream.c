/* SPDX-License-Identifier: Apache-2.0 */
/* lz4_stream.c - streams in LZ4's frame format (.lz4), as the lz4 command writes them.
 *
 * A frame is a head (flags, block size), blocks with their lengths, and a length of 0.  Blocks may
 * copy from the 64 KiB before them.  Checksums (xxHash) are passed over: a tar has its own, and so
 * has the cache. */
#include <string.h>

#include "base/mem.h"
#include "codec/unpack.h"

#define MAGIC 0x184D2204u
#define SKIPPABLE 0x184D2A50u /* and the 15 after it */
#define HISTORY ((size_t)64 << 10)
#define BLOCK_MAX ((size_t)4 << 20)
#define LITERAL 0x80000000u /* of a block's length: it is as it is */

enum { HAS_DICT = 1, HAS_CONTENT_SUM = 4, HAS_SIZE = 8, HAS_BLOCK_SUMS = 16, INDEPENDENT = 32 };

typedef struct stream {
    const stk_unpack_io *io;
    uint8_t *in, *out; /* out: HISTORY, then a block */
    uint8_t flags;
    size_t block_max, history;
    stk_error *err;
} stream;

static int damaged(stream *s)
{
    return stk_fail(s->err, STK_ECORRUPT, "unlz4: it is not an LZ4 frame, or damaged");
}

/* Exactly n bytes to s->in; at the end of all of them STK_END, where that is fine. */
static int take(stream *s, size_t n, int may_end)
{
    size_t have = 0, got;

    while (have < n) {
        STK_TRY(s->io->read(s->io->cookie, s->in + have, n - have, &got, s->err));
        if (!got)
            return !have && may_end
                       ? STK_END
                       : stk_fail(s->err, STK_ECORRUPT, "unlz4: truncated: it ends too early");
        have += got;
    }
    return 0;
}

static int take_word(stream *s, int may_end, uint32_t *out)
{
    int rc = take(s, 4, may_end);

    if (rc == 0)
        *out = (uint32_t)s->in[0] | (uint32_t)s->in[1] << 8 | (uint32_t)s->in[2] << 16 |
               (uint32_t)s->in[3] << 24;
    return rc;
}

static int skip(stream *s, uint64_t n)
{
    while (n) {
        size_t len = n < BLOCK_MAX ? (size_t)n : BLOCK_MAX;

        STK_TRY(take(s, len, 0));
        n -= len;
    }
    return 0;
}

static int frame_head(stream *s)
{
    STK_TRY(take(s, 2, 0));
    s->flags = s->in[0];
    if (s->flags >> 6 != 1 || s->flags & HAS_DICT || (s->in[1] >> 4 & 7) < 4)
        return damaged(s);
    s->block_max = (size_t)1 << (8 + 2 * (s->in[1] >> 4 & 7));
    s->history = 0;
    return skip(s, (s->flags & HAS_SIZE ? 8 : 0) + 1);
}

static int put_block(stream *s, uint32_t length)
{
    size_t packed = length & ~LITERAL, made = packed;
    uint8_t *dst = s->out + HISTORY;

    if (packed > s->block_max)
        return damaged(s);
    STK_TRY(take(s, packed, 0));
    if (length & LITERAL)
        memcpy(dst, s->in, packed);
    else
        made = stk_lz4_block((stk_bytes){ s->in, packed }, dst, s->history, s->block_max);
    if (made == SIZE_MAX)
        return damaged(s);
    STK_TRY(s->io->write(s->io->cookie, dst, made, s->err));
    if (!(s->flags & INDEPENDENT)) {
        memmove(s->out, s->out + made, HISTORY); /* the last 64 KiB of history and block */
        s->history = s->history + made < HISTORY ? s->history + made : HISTORY;
    }
    return skip(s, s->flags & HAS_BLOCK_SUMS ? 4 : 0);
}

static int frame(stream *s)
{
    uint32_t length = 0;

    STK_TRY(frame_head(s));
    for (;;) {
        STK_TRY(take_word(s, 0, &length));
        if (!length)
            return skip(s, s->flags & HAS_CONTENT_SUM ? 4 : 0);
        STK_TRY(put_block(s, length));
    }
}

static int frames(stream *s)
{
    uint32_t word = 0;

    for (int n = 0;; n++) {
        int rc = take_word(s, n > 0, &word);

        if (rc)
            return rc == STK_END ? 0 : rc;
        if (word == MAGIC) {
            STK_TRY(frame(s));
        } else if ((word & ~15u) == SKIPPABLE) {
            STK_TRY(take_word(s, 0, &word));
            STK_TRY(skip(s, word));
        } else {
            return damaged(s);
        }
    }
}

/* ---- pages ---- */

/* n bytes of it; NULL: it has fewer. */
static const uint8_t *cut(stk_bytes *in, size_t n)
{
    const uint8_t *p = in->data;

    if (n > in->len)
        return NULL;
    in->data += n;
    in->len -= n;
    return p;
}

static const uint8_t *cut_word(stk_bytes *in, uint32_t *out)
{
    const uint8_t *p = cut(in, 4);

    if (p)
        *out = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    return p;
}

/* One frame, its magic number passed: what it makes is appended at *at.  0: it is damaged. */
static int page_frame(stk_bytes *in, uint8_t *dst, size_t len, size_t *at)
{
    const uint8_t *head = cut(in, 2), *block;
    size_t start = *at;
    uint32_t length;

    if (!head || head[0] >> 6 != 1 || head[0] & HAS_DICT ||
        !cut(in, (head[0] & HAS_SIZE ? 8 : 0) + 1))
        return 0;
    for (;;) {
        size_t made;

        if (!cut_word(in, &length))
            return 0;
        if (!length)
            return !(head[0] & HAS_CONTENT_SUM) || cut(in, 4) != NULL;
        made = length & ~LITERAL;
        block = cut(in, made);
        if (!block || (length & LITERAL && made > len - *at))
            return 0;
        if (length & LITERAL)
            memcpy(dst + *at, block, made);
        else
            made = stk_lz4_block((stk_bytes){ block, made }, dst + *at,
                                 head[0] & INDEPENDENT ? 0 : *at - start, len - *at);
        if (made == SIZE_MAX || (head[0] & HAS_BLOCK_SUMS && !cut(in, 4)))
            return 0;
        *at += made;
    }
}

int stk_lz4_frame_page(stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    size_t at = 0;
    uint32_t word;

    while (in.len)
        if (!cut_word(&in, &word) || word != MAGIC || !page_frame(&in, dst, len, &at))
            return stk_fail(err, STK_ECORRUPT, "lz4: it is not an LZ4 frame, or damaged");
    return at == len ? 0
                     : stk_fail(err, STK_ECORRUPT, "lz4: a page makes %zu bytes in place of %zu",
                                at, len);
}

int stk_unlz4_all(const stk_unpack_io *io, stk_error *err)
{
    stream s = { .io = io, .err = err };
    int rc;

    s.in = stk_large_alloc(BLOCK_MAX);
    s.out = stk_large_alloc(HISTORY + BLOCK_MAX);
    rc = s.in && s.out ? frames(&s) : stk_fail_nomem(err, BLOCK_MAX);
    stk_large_free(s.in, BLOCK_MAX);
    stk_large_free(s.out, HISTORY + BLOCK_MAX);
    return rc;
}
