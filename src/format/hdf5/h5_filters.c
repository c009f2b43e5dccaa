/* SPDX-License-Identifier: Apache-2.0 */
/* h5_filters.c - see h5_filters.h.
 *
 * The innermost filter that packs makes exactly the chunk, with four bytes more for each checksum
 * inside of it.  What is outside of it, as gzip after scale-offset, may be a little longer than the
 * chunk and no more: nothing that a file says leads to more memory. */
#include "format/hdf5/h5_filters.h"

#include <string.h>

#include "base/mem.h"
#include "compress/unpack.h"

/* Exactly dst[0..len). */
static int unpack_by(const stk_h5_filter *f, stk_bytes in, uint8_t *dst, size_t len, stk_error *err)
{
    switch (f->id) {
    case STK_H5_DEFLATE: return stk_inflate_page(in, dst, len, err);
    case STK_H5_ZSTD: return stk_unzstd_page(in, dst, len, err);
    case STK_H5_SZIP: return stk_unszip(f->value, f->n, in, (stk_bytes){ dst, len }, err);
    case STK_H5_NBIT: return stk_unnbit(f, in, dst, len, err);
    case STK_H5_SCALE: return stk_unscale(f, in, dst, len, err);
    case STK_H5_BITSHUFFLE:
        return stk_unbitshuffle(f->value, f->n, in, (stk_bytes){ dst, len }, err);
    case STK_H5_BLOSC: return stk_unblosc(in, dst, len, err);
    case STK_H5_LZF:
        return stk_unlzf(in, dst, len) == len
                   ? 0
                   : stk_fail(err, STK_ECORRUPT, "lzf: a chunk does not unpack to %zu bytes", len);
    default:
        return stk_lz4_plugin_some(in, dst, len) == len
                   ? 0
                   : stk_fail(err, STK_ECORRUPT, "lz4: a chunk does not unpack to %zu bytes", len);
    }
}

/* What is packed again inside of this: *len bytes, at most `room`. */
static int unpack_outer(const stk_h5_filter *f, stk_bytes in, uint8_t *dst, size_t room,
                        size_t *len, stk_error *err)
{
    switch (f->id) {
    case STK_H5_DEFLATE: *len = stk_inflate_some(in, dst, room); break;
    case STK_H5_ZSTD: *len = stk_unzstd_some(in, dst, room); break;
    case STK_H5_LZF: *len = stk_unlzf(in, dst, room); break;
    case STK_H5_LZ4: *len = stk_lz4_plugin_some(in, dst, room); break;
    default:
        return stk_fail(err, STK_ENOTSUP,
                        "filter %u is not unpacked outside of another one: repack the file", f->id);
    }
    return *len != SIZE_MAX
               ? 0
               : stk_fail(err, STK_ECORRUPT, "a chunk that is packed twice is damaged outside");
}

static uint32_t fold(uint32_t v)
{
    return (v & 0xFFFF) + (v >> 16);
}

static uint32_t fletcher32(const uint8_t *p, size_t len)
{
    uint32_t a = 0, b = 0;
    size_t words = len / 2;

    while (words) {
        size_t n = words < 360 ? words : 360; /* sums fit so long */

        words -= n;
        for (; n; n--, p += 2) {
            a += (uint32_t)p[0] << 8 | p[1];
            b += a;
        }
        a = fold(a);
        b = fold(b);
    }
    if (len & 1) {
        a += (uint32_t)p[0] << 8;
        b += a;
        a = fold(a);
        b = fold(b);
    }
    return fold(b) << 16 | fold(a);
}

/* The checksum is the last four bytes; early writers had its halves the other way round. */
static int check_sum(stk_bytes *bytes, stk_error *err)
{
    const uint8_t *at;
    uint32_t sum;

    if (bytes->len < 4)
        return stk_fail(err, STK_ECORRUPT, "a chunk is too short for its checksum");
    bytes->len -= 4;
    at = bytes->data + bytes->len;
    sum = fletcher32(bytes->data, bytes->len);
    if (sum == ((uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
                (uint32_t)at[3] << 24) ||
        sum == ((uint32_t)at[1] | (uint32_t)at[0] << 8 | (uint32_t)at[3] << 16 |
                (uint32_t)at[2] << 24))
        return 0;
    return stk_fail(err, STK_ECORRUPT, "a chunk's checksum is another: it is damaged");
}

#define OUTER 4096u /* bytes that a packed chunk may have more than one that is not */

typedef struct undoing {
    stk_bytes now;     /* what there is so far */
    uint8_t *spare[2]; /* room of `room` bytes each; made when it is needed */
    uint32_t next;
    size_t room, plain; /* plain: bytes of the chunk and of checksums inside the packing */
    uint32_t packers;   /* that are left to undo */
} undoing;

static int spare_get(undoing *u, uint8_t **out, stk_error *err)
{
    uint8_t **s = &u->spare[u->next++ & 1];

    if (!*s && !(*s = stk_large_alloc(u->room)))
        return stk_fail_nomem(err, u->room);
    *out = *s;
    return 0;
}

static int undo(undoing *u, const stk_h5_filter *f, uint8_t *last, stk_error *err)
{
    uint8_t *to = last;

    if (f->id == STK_H5_FLETCHER) {
        STK_TRY(check_sum(&u->now, err));
        u->plain -= 4;
        return 0;
    }
    if (!to)
        STK_TRY(spare_get(u, &to, err));
    if (f->id == STK_H5_SHUFFLE) {
        if (!f->n || f->value[0] < 1 || u->now.len > u->room)
            return stk_fail(err, STK_ECORRUPT, "a chunk is shuffled by nothing");
        stk_unshuffle(u->now.data, to, u->now.len, f->value[0]);
        u->now.data = to;
        return 0;
    }
    size_t len = u->plain;

    if (--u->packers)
        STK_TRY(unpack_outer(f, u->now, to, u->room, &len, err));
    else
        STK_TRY(unpack_by(f, u->now, to, len, err));
    u->now = (stk_bytes){ to, len };
    return 0;
}

/* The last filter that has to write straight to where the chunk goes: of those after it only
 * checksums are checked. */
static uint32_t last_writer(const stk_h5_filter *filter, uint32_t n, uint32_t mask)
{
    for (uint32_t i = 0; i < n; i++)
        if (!(mask >> i & 1) && filter[i].id != STK_H5_FLETCHER)
            return i;
    return UINT32_MAX;
}

static int undo_all(undoing *u, const stk_h5_filter *filter, uint32_t n, uint32_t mask,
                    stk_bytes dst, stk_error *err)
{
    uint32_t last = last_writer(filter, n, mask);
    int inside = 0; /* a checksum comes after it, which has no room in dst */

    for (uint32_t i = 0; i < n; i++)
        if (!(mask >> i & 1) && filter[i].id == STK_H5_FLETCHER) {
            u->plain += 4;
            inside |= i < last;
        } else if (!(mask >> i & 1) && filter[i].id != STK_H5_SHUFFLE)
            u->packers++;
    u->room = (u->plain > u->now.len ? u->plain : u->now.len) + 1;
    if (u->packers > 1) /* what packs may also make longer */
        u->room += u->plain / 16 + OUTER;
    for (uint32_t i = n; i-- > 0;) {
        uint8_t *to = i == last && !inside && u->now.len <= dst.len ? (uint8_t *)(uintptr_t)dst.data
                                                                    : NULL;

        if (!(mask >> i & 1))
            STK_TRY(undo(u, &filter[i], to, err));
    }
    if (u->now.len != dst.len)
        return stk_fail(err, STK_ECORRUPT, "a chunk has %zu bytes instead of %zu", u->now.len,
                        dst.len);
    if (u->now.data != dst.data)
        memcpy((uint8_t *)(uintptr_t)dst.data, u->now.data, dst.len);
    return 0;
}

int stk_unpack_chunk(const stk_h5_filter *filter, uint32_t n, uint32_t mask, stk_bytes raw,
                     stk_bytes dst, stk_error *err)
{
    undoing u = { .now = raw, .plain = dst.len };
    int rc = undo_all(&u, filter, n, mask, dst, err);

    for (int i = 0; i < 2; i++)
        if (u.spare[i])
            stk_large_free(u.spare[i], u.room);
    return rc;
}
