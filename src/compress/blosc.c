/* SPDX-License-Identifier: Apache-2.0 */
/* blosc.c - the packers of hdf5plugin and PyTables beside lz4 and zstd: bitshuffle and Blosc.
 *
 * Both cut a chunk into blocks, put the n-th bits or bytes of all numbers of a block together, and
 * pack that.  Blocks are unpacked into memory of one block, which is no larger than the chunk. */
#include <string.h>

#include "base/mem.h"
#include "compress/unpack.h"

static uint32_t little32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint32_t big32(const uint8_t *p)
{
    return (uint32_t)p[3] | (uint32_t)p[2] << 8 | (uint32_t)p[1] << 16 | (uint32_t)p[0] << 24;
}

/* ---- bytes and bits ---- */

void stk_unshuffle(const uint8_t *src, uint8_t *dst, size_t len, size_t width)
{
    size_t n = len / width;

    if (!n) /* also of a width that is said to be billions */
        width = 0;
    for (size_t j = 0; j < width; j++) {
        const uint8_t *from = src + j * n;
        uint8_t *to = dst + j;

        for (size_t i = 0; i < n; i++)
            to[i * width] = from[i];
    }
    memcpy(dst + n * width, src + n * width, len - n * width);
}

/* A square of 8 bits by 8, turned over: bit j of byte i becomes bit i of byte j. */
static uint64_t turn_over(uint64_t x)
{
    uint64_t t;

    t = (x ^ x >> 7) & 0x00AA00AA00AA00AA;
    x ^= t ^ t << 7;
    t = (x ^ x >> 14) & 0x0000CCCC0000CCCC;
    x ^= t ^ t << 14;
    t = (x ^ x >> 28) & 0x00000000F0F0F0F0;
    return x ^ t ^ t << 28;
}

/* n numbers of `size` bytes; n is a multiple of 8.  Row k of the source has bit k of all
 * numbers. */
static void unshuffle_bits(const uint8_t *src, uint8_t *dst, size_t n, size_t size)
{
    size_t row = n / 8;

    for (size_t byte = 0; byte < size; byte++)
        for (size_t m = 0; m < row; m++) {
            uint64_t x = 0;

            for (size_t i = 0; i < 8; i++)
                x |= (uint64_t)src[(8 * byte + i) * row + m] << 8 * i;
            x = turn_over(x);
            for (size_t i = 0; i < 8; i++, x >>= 8)
                dst[(8 * m + i) * size + byte] = (uint8_t)x;
        }
}

/* ---- bitshuffle ---- */

enum { BITS_ALONE = 0, BITS_LZ4 = 2, BITS_ZSTD = 3 };

typedef struct shuffled {
    stk_bytes in;
    size_t at;   /* in it */
    size_t size; /* of a number */
    uint32_t packer;
    uint8_t *room; /* a block */
} shuffled;

/* The next block, of n numbers. */
static int next_block(shuffled *s, uint8_t *dst, size_t n, stk_error *err)
{
    size_t len = n * s->size, packed = len, left = s->in.len - s->at;
    const uint8_t *p = s->in.data + s->at;

    if (s->packer != BITS_ALONE) {
        packed = left < 4 ? SIZE_MAX : big32(p);
        p += 4;
        s->at += 4;
        left = left < 4 ? 0 : left - 4;
    }
    if (packed > left)
        return stk_fail(err, STK_ECORRUPT, "bitshuffle: a chunk is too short");
    if (s->packer == BITS_ZSTD)
        STK_TRY(stk_unzstd_page((stk_bytes){ p, packed }, s->room, len, err));
    else if (s->packer == BITS_LZ4)
        STK_TRY(stk_lz4_page((stk_bytes){ p, packed }, s->room, len, err));
    unshuffle_bits(s->packer == BITS_ALONE ? p : s->room, dst, n, s->size);
    s->at += packed;
    return 0;
}

/* The numbers of a block that a writer chooses who is not told. */
static size_t usual_block(size_t size)
{
    size_t n = 8192 / size / 8 * 8;

    return n < 128 ? 128 : n;
}

static int all_blocks(shuffled *s, uint8_t *dst, size_t n, size_t block, stk_error *err)
{
    size_t done = 0, last = n % 8;

    while (n - done >= 8) {
        size_t k = n - done < block ? (n - done) / 8 * 8 : block;

        STK_TRY(next_block(s, dst + done * s->size, k, err));
        done += k;
    }
    if (s->in.len - s->at < last * s->size)
        return stk_fail(err, STK_ECORRUPT, "bitshuffle: a chunk is too short");
    memcpy(dst + done * s->size, s->in.data + s->at, last * s->size);
    return 0;
}

int stk_unbitshuffle(const uint32_t *value, uint32_t n, stk_bytes in, stk_bytes dst, stk_error *err)
{
    shuffled s = { .in = in,
                   .size = n > 2 ? value[2] : 0,
                   .packer = n > 4 ? value[4] : BITS_ALONE };
    size_t len = dst.len, block = n > 3 ? value[3] : 0, room;
    int rc;

    if (!s.size || len % s.size ||
        (s.packer != BITS_ALONE && s.packer != BITS_LZ4 && s.packer != BITS_ZSTD))
        return stk_fail(err, STK_ECORRUPT, "bitshuffle: its values do not fit the chunk");
    block = block ? block : usual_block(s.size);
    if (s.packer != BITS_ALONE) { /* the chunk says itself what its blocks are */
        if (in.len < 12 || big32(in.data) != len >> 16 >> 16 || big32(in.data + 4) != (uint32_t)len)
            return stk_fail(err, STK_ECORRUPT,
                            "bitshuffle: a chunk is of another size than its data set says");
        block = big32(in.data + 8) / s.size;
        s.at = 12;
    }
    if (!block || block % 8)
        return stk_fail(err, STK_ECORRUPT, "bitshuffle: blocks of %zu numbers", block);
    room = block < len / s.size ? block * s.size : len;
    s.room = stk_large_alloc(room + 1);
    if (!s.room)
        return stk_fail_nomem(err, room);
    rc = all_blocks(&s, (uint8_t *)(uintptr_t)dst.data, len / s.size, block, err);
    stk_large_free(s.room, room + 1);
    return rc;
}

/* ---- blosclz: literals and copies, as FastLZ has them ---- */

typedef struct lz {
    const uint8_t *p, *end;
    uint8_t *dst;
    size_t n, room;
} lz;

static int lz_copy(lz *z, uint32_t ctrl)
{
    size_t len = (ctrl >> 5) + 2, back = (size_t)(ctrl & 31) << 8, more;
    uint8_t code = 255;

    for (int longer = (ctrl >> 5) == 7; longer && code == 255;) {
        if (z->p == z->end)
            return 0;
        code = *z->p++;
        len += code;
    }
    if (z->p == z->end)
        return 0;
    more = *z->p++;
    if (more == 255 && back == 31u << 8) { /* further back than 13 bits say */
        if (z->end - z->p < 2)
            return 0;
        back = 8191 + ((size_t)z->p[0] << 8) + z->p[1];
        z->p += 2;
    } else
        back += more;
    back++;
    if (back > z->n || len > z->room - z->n)
        return 0;
    for (; len; len--, z->n++) /* what is copied may be what was just written */
        z->dst[z->n] = z->dst[z->n - back];
    return 1;
}

static size_t unblosclz(stk_bytes in, uint8_t *dst, size_t room) /* SIZE_MAX: it is damaged */
{
    lz z = { in.data, in.data + in.len, dst, 0, room };
    uint32_t mask = 31; /* the first byte is always literals */

    while (z.p < z.end) {
        uint32_t ctrl = *z.p++ & mask;

        mask = 255;
        if (ctrl >= 32) {
            if (!lz_copy(&z, ctrl))
                return SIZE_MAX;
            continue;
        }
        ctrl++;
        if (ctrl > (size_t)(z.end - z.p) || ctrl > room - z.n)
            return SIZE_MAX;
        memcpy(dst + z.n, z.p, ctrl);
        z.p += ctrl;
        z.n += ctrl;
    }
    return z.n;
}

/* ---- Blosc 1 ---- */

enum { BY_BYTES = 1, STORED = 2, BY_BITS = 4, WHOLE = 16 }; /* flags */
enum { BLOSCLZ = 0, LZ4 = 1, SNAPPY = 2, ZLIB = 3, ZSTD = 4 };

typedef struct frame {
    stk_bytes in;
    uint32_t flags, size, block; /* of a number, of a block */
    uint8_t *room;               /* a block */
} frame;

static int unpack_part(const frame *f, stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    switch (f->flags >> 5) {
    case ZLIB: return stk_inflate_page(in, dst, len, err);
    case ZSTD: return stk_unzstd_page(in, dst, len, err);
    case LZ4: return stk_lz4_page(in, dst, len, err);
    case BLOSCLZ:
        return unblosclz(in, dst, len) == len
                   ? 0
                   : stk_fail(err, STK_ECORRUPT, "Blosc: a block does not unpack to %zu bytes",
                              len);
    default:
        return stk_fail(err, STK_ENOTSUP,
                        "Blosc: a chunk is packed with snappy, which is not supported: repack it");
    }
}

/* A block is one stream, or one for the n-th bytes of all its numbers. */
static int unpack_block(const frame *f, size_t at, uint8_t *dst, size_t len, stk_error *err)
{
    uint32_t parts = !(f->flags & WHOLE) && f->size <= 16 && len == f->block && len / f->size >= 128
                         ? f->size
                         : 1;
    size_t each = len / parts;

    for (uint32_t i = 0; i < parts; i++) {
        size_t left = at < f->in.len ? f->in.len - at : 0,
               packed = left < 4 ? SIZE_MAX : little32(f->in.data + at);

        if (left < 4 || packed > left - 4)
            return stk_fail(err, STK_ECORRUPT, "Blosc: a block is past the end of its chunk");
        at += 4;
        if (packed == each)
            memcpy(dst + i * each, f->in.data + at, each);
        else
            STK_TRY(
                unpack_part(f, (stk_bytes){ f->in.data + at, packed }, dst + i * each, each, err));
        at += packed;
    }
    return len % parts ? stk_fail(err, STK_ECORRUPT, "Blosc: blocks of %zu bytes for numbers of %u",
                                  len, f->size)
                       : 0;
}

static void unshuffle_block(const frame *f, uint8_t *dst, size_t len)
{
    size_t n = len / f->size;

    if (f->flags & BY_BYTES && f->size > 1)
        stk_unshuffle(f->room, dst, len, f->size);
    else if (f->flags & BY_BITS && n && n % 8 == 0) {
        unshuffle_bits(f->room, dst, n, f->size);
        memcpy(dst + n * f->size, f->room + n * f->size, len - n * f->size);
    } else
        memcpy(dst, f->room, len);
}

static int unpack_blocks(const frame *f, uint8_t *dst, size_t len, stk_error *err)
{
    for (size_t i = 0, done = 0; done < len; i++, done += f->block) {
        size_t here = len - done < f->block ? len - done : f->block;

        if (f->in.len < 16 + 4 * (i + 1))
            return stk_fail(err, STK_ECORRUPT, "Blosc: a chunk is too short");
        STK_TRY(unpack_block(f, little32(f->in.data + 16 + 4 * i), f->room, here, err));
        unshuffle_block(f, dst + done, here);
    }
    return 0;
}

int stk_unblosc(stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    frame f = { .in = in };
    size_t room;
    int rc;

    if (in.len < 16 || in.data[0] < 1 || in.data[0] > 2 || little32(in.data + 4) != len ||
        little32(in.data + 12) > in.len)
        return stk_fail(err, STK_ECORRUPT, "Blosc: a chunk is not one of %zu bytes", len);
    f.flags = in.data[2];
    f.size = in.data[3];
    f.block = little32(in.data + 8);
    if (f.flags & STORED && in.len - 16 >= len) {
        memcpy(dst, in.data + 16, len);
        return 0;
    }
    if (f.flags & STORED || !f.size || !f.block)
        return stk_fail(err, STK_ECORRUPT, "Blosc: the head of a chunk is damaged");
    room = len < f.block ? len : f.block;
    f.room = stk_large_alloc(room + 1);
    if (!f.room)
        return stk_fail_nomem(err, room);
    rc = unpack_blocks(&f, dst, len, err);
    stk_large_free(f.room, room + 1);
    return rc;
}
