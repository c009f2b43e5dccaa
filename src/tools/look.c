/* SPDX-License-Identifier: Apache-2.0 */
/* look.c - what samples are alike.
 *
 * The look of a picture is a difference hash: 9 x 8 areas of its brightness, and a bit for each
 * pair of neighbours.  Sizes, encodings and small changes of color leave it as it is.  Two hashes
 * within 3 bits agree in one of four groups of 16 bits, so sorting by each group brings them
 * together. */
#include "tools/look.h"

#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/hash.h"
#include "base/mem.h"

#define WIDE 9
#define HIGH 8
/* of equal groups that are compared: data of one color is not compared with all of itself */
#define NEIGHBOURS 64

void stk_same_add(stk_same *s, const char *name, const void *data, size_t len)
{
    s->a = stk_hash64(stk_hash64(s->a + len, name, strlen(name)), data, len);
    s->b = stk_hash64(stk_hash64(s->b ^ ~(uint64_t)len, name, strlen(name)) + 1, data, len);
}

void stk_look_at(const stk_pixels *p, uint32_t w, uint32_t h, stk_look *out)
{
    double sum[HIGH][WIDE] = { { 0 } }, all[3] = { 0 };
    uint64_t n[HIGH][WIDE] = { { 0 } };

    *out = (stk_look){ 0 };
    for (uint32_t y = 0; y < h; y++) {
        const uint8_t *row = p->data + ((size_t)y - p->area.y) * p->stride - 4 * (size_t)p->area.x;
        uint32_t r = (uint32_t)((uint64_t)y * HIGH / h);

        for (uint32_t x = 0; x < w; x++) {
            const uint8_t *px = row + 4 * (size_t)x;
            uint32_t c = (uint32_t)((uint64_t)x * WIDE / w);

            sum[r][c] += 0.299 * px[0] + 0.587 * px[1] + 0.114 * px[2];
            n[r][c]++;
            for (int k = 0; k < 3; k++)
                all[k] += px[k];
        }
    }
    for (int r = 0; r < HIGH; r++)
        for (int c = 0; c + 1 < WIDE; c++) {
            double left = n[r][c] ? sum[r][c] / (double)n[r][c] : 0;
            double right = n[r][c + 1] ? sum[r][c + 1] / (double)n[r][c + 1] : 0;

            out->hash = out->hash << 1 | (left > right + 0.5); /* flat areas are equal */
        }
    for (int k = 0; k < 3; k++)
        out->mean[k] = all[k] / ((double)w * (double)h);
}

int stk_look_read(stk_decoders *decoders, stk_scratch *scratch, stk_bytes in, uint64_t max_pixels,
                  stk_media_info *info, stk_look *out)
{
    stk_pixels pixels = { 0 };
    stk_picture_source from = { 0 };
    stk_decode_request ask = { .high_byte = 1 };

    if (stk_decoders_find(decoders, in, &from.decoder, &from.ctx, NULL) != 0)
        return 0;
    stk_scratch_reset(scratch);
    STK_TRY(stk_picture_header(&from, in, info, NULL));
    if (!info->width || !info->height || (uint64_t)info->width * info->height > max_pixels)
        return STK_ELIMIT;
    ask.need = (stk_rect){ 0, 0, info->width, info->height };
    STK_TRY(stk_picture_whole(&from, in, &ask, scratch, &pixels, NULL));
    stk_look_at(&pixels, info->width, info->height, out);
    return 1;
}

/* ---- groups ---- */

typedef struct one {
    uint64_t key, more, id;
} one;

static int by_key(const void *a, const void *b)
{
    const one *x = a, *y = b;

    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    if (x->more != y->more)
        return x->more < y->more ? -1 : 1;
    return x->id < y->id ? -1 : x->id > y->id;
}

int stk_same_groups(const stk_same *s, uint64_t n, uint64_t *group, stk_error *err)
{
    one *list = stk_zalloc(n + 1, sizeof *list);

    if (!list)
        return stk_fail_nomem(err, n * sizeof *list);
    for (uint64_t i = 0; i < n; i++)
        list[i] = (one){ s[i].a, s[i].b, i };
    qsort(list, n, sizeof *list, by_key);
    for (uint64_t i = 0; i < n; i++) {
        int same = i && list[i].key == list[i - 1].key && list[i].more == list[i - 1].more;

        group[list[i].id] = same ? group[list[i - 1].id] : list[i].id;
    }
    stk_free(list);
    return 0;
}

static uint64_t first_of(uint64_t *group, uint64_t i)
{
    for (; group[i] != i; i = group[i])
        group[i] = group[group[i]];
    return i;
}

static void join(uint64_t *group, uint64_t a, uint64_t b)
{
    uint64_t x = first_of(group, a), y = first_of(group, b);

    if (x < y)
        group[y] = x;
    else
        group[x] = y;
}

int stk_look_groups(const uint64_t *hash, const uint8_t *has, uint64_t n, uint64_t *group,
                    stk_error *err)
{
    one *list = stk_zalloc(n + 1, sizeof *list);
    uint64_t m;

    if (!list)
        return stk_fail_nomem(err, n * sizeof *list);
    for (uint64_t i = 0; i < n; i++)
        group[i] = i;
    for (int band = 0; band < 4; band++) {
        m = 0;
        for (uint64_t i = 0; i < n; i++)
            if (has[i])
                list[m++] = (one){ hash[i] >> 16 * band & 0xffff, hash[i], i };
        qsort(list, m, sizeof *list, by_key);
        for (uint64_t i = 1; i < m; i++)
            for (uint64_t k = i; k-- > 0 && i - k <= NEIGHBOURS && list[k].key == list[i].key;)
                if (__builtin_popcountll(list[k].more ^ list[i].more) <= STK_LOOK_ALIKE)
                    join(group, list[k].id, list[i].id);
    }
    for (uint64_t i = 0; i < n; i++)
        group[i] = first_of(group, i);
    stk_free(list);
    return 0;
}
