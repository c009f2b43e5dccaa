/* SPDX-License-Identifier: Apache-2.0 */
/* unlz4 - a field in LZ4's frame format (.lz4) unpacked, without a library.
 *
 * Frames may follow one another.  A first walk over the lengths of blocks says how much they make
 * at most: room for that is made, and no more than STK_UNPACK_MAX.  Checksums of heads, blocks and
 * contents are compared where there are any, so that a damaged field is a bad sample and not
 * another text. */
#include <string.h>

#include "codec/codec.h"
#include "codec/squeeze.h"
#include "codec/unpack.h"

#define MAGIC 0x184D2204u
#define SKIPPABLE 0x184D2A50u /* and the 15 after it */
#define STORED 0x80000000u    /* of a block's length: it is as it is */

enum { HAS_DICT = 1, HAS_CONTENT_SUM = 4, HAS_SIZE = 8, HAS_BLOCK_SUMS = 16, INDEPENDENT = 32 };

typedef struct input {
    const uint8_t *p;
    size_t left;
} input;

typedef struct output {
    uint8_t *dst; /* NULL: only counted, as much as it can be */
    size_t room, len;
} output;

enum { DAMAGED = -1, TORN = -2 };

static const uint8_t *take(input *in, size_t n)
{
    const uint8_t *p = in->p;

    if (n > in->left)
        return NULL;
    in->p += n;
    in->left -= n;
    return p;
}

static int take_word(input *in, uint32_t *out)
{
    const uint8_t *p = take(in, 4);

    if (!p)
        return TORN;
    *out = (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
    return 0;
}

static int sum_fits(input *in, const uint8_t *data, size_t len, int compared)
{
    uint32_t want = 0;
    int rc = take_word(in, &want);

    return rc < 0 || !compared || want == stk_xxh32((stk_bytes){ data, len }) ? rc : DAMAGED;
}

/* *flags and the most that a block makes. */
static int take_head(input *in, uint8_t *flags, size_t *block)
{
    const uint8_t *head = in->p, *p = take(in, 2), *sum;
    size_t more;

    if (!p)
        return TORN;
    *flags = p[0];
    if (p[0] >> 6 != 1 || p[0] & HAS_DICT || (p[1] >> 4 & 7) < 4)
        return DAMAGED;
    *block = (size_t)1 << (8 + 2 * (p[1] >> 4 & 7));
    more = *flags & HAS_SIZE ? 8 : 0;
    if (!take(in, more) || !(sum = take(in, 1)))
        return TORN;
    return *sum == (stk_xxh32((stk_bytes){ head, 2 + more }) >> 8 & 0xFF) ? 0 : DAMAGED;
}

static int take_block(input *in, output *out, uint32_t length, size_t most, size_t history)
{
    size_t packed = length & ~STORED, made = length & STORED ? packed : most;
    const uint8_t *p = packed <= most ? take(in, packed) : NULL;

    if (!p)
        return packed <= most ? TORN : DAMAGED;
    if (!out->dst) {
        out->len += made;
        return out->len > STK_UNPACK_MAX + most ? DAMAGED : 0; /* it is looked at by the caller */
    }
    if (most > out->room - out->len)
        most = out->room - out->len;
    if (!(length & STORED))
        made = stk_lz4_block((stk_bytes){ p, packed }, out->dst + out->len, history, most);
    if (made == SIZE_MAX || made > most)
        return DAMAGED;
    if (length & STORED)
        memcpy(out->dst + out->len, p, packed);
    out->len += made;
    return 0;
}

static int take_frame(input *in, output *out)
{
    size_t most = 0, begin = out->len;
    uint8_t flags = 0;
    uint32_t length = 0;
    int rc = take_head(in, &flags, &most);

    while (rc == 0 && (rc = take_word(in, &length)) == 0 && length) {
        const uint8_t *p = in->p;

        rc = take_block(in, out, length, most, flags & INDEPENDENT ? 0 : out->len - begin);
        if (rc == 0 && flags & HAS_BLOCK_SUMS)
            rc = sum_fits(in, p, length & ~STORED, out->dst != NULL);
    }
    if (rc == 0 && flags & HAS_CONTENT_SUM)
        rc = sum_fits(in, out->dst ? out->dst + begin : NULL, out->len - begin, out->dst != NULL);
    return rc;
}

static int take_frames(stk_bytes bytes, output *out)
{
    input in = { bytes.data, bytes.len };
    uint32_t word = 0;
    int rc = in.left ? 0 : TORN;

    while (rc == 0 && in.left) {
        rc = take_word(&in, &word);
        if (rc == 0 && word == MAGIC)
            rc = take_frame(&in, out);
        else if (rc == 0 && (word & ~15u) == SKIPPABLE)
            rc = take_word(&in, &word) < 0 || !take(&in, word) ? TORN : 0;
        else if (rc == 0)
            rc = DAMAGED;
    }
    return rc;
}

int stk_unlz4_bytes(stk_bytes in, stk_scratch *scratch, stk_bytes *out, stk_error *err)
{
    output o = { 0 };
    int rc = take_frames(in, &o);

    if (rc == DAMAGED && o.len > STK_UNPACK_MAX)
        return stk_unpack_bomb("unlz4", in.len, err);
    if (rc == 0) {
        size_t room = o.len < STK_UNPACK_MAX ? o.len : STK_UNPACK_MAX;

        o = (output){ stk_scratch_get(scratch, room + !room), room, 0 };
        if (!o.dst)
            return stk_fail_nomem(err, room);
        rc = take_frames(in, &o);
        if (rc == DAMAGED && o.len == STK_UNPACK_MAX)
            return stk_unpack_bomb("unlz4", in.len, err);
    }
    *out = (stk_bytes){ o.dst, o.len };
    return rc == TORN ? stk_fail(err, STK_ECORRUPT, "unlz4: truncated: its %zu bytes end too early",
                                 in.len)
           : rc       ? stk_fail(err, STK_ECORRUPT,
                                 "unlz4: these %zu bytes are not LZ4 frames, or damaged", in.len)
                      : 0;
}

static int unlz4_narrow(const void *state, stk_bytes in, stk_scratch *scratch, stk_bytes *out,
                        stk_error *err)
{
    (void)state;
    return stk_unlz4_bytes(in, scratch, out, err);
}

static int unlz4_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    (void)state, (void)args;
    return stk_unpack_plan("unlz4", spec, err);
}

static const stk_arg no_args[] = { { 0 } };

const stk_codec stk_codec_unlz4 = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_codec),
    .name = "unlz4",
    .help = "unpack LZ4 frames, at most 256 MiB; done unasked where from(x) finds x.lz4",
    .args = no_args,
    .plan = unlz4_plan,
    .narrow = unlz4_narrow,
    .can = STK_CODEC_UNPACKS,
    .suffix = ".lz4"
};
