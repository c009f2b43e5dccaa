/* SPDX-License-Identifier: Apache-2.0 */
/* decode_cli - what the tests against Pillow talk to: pictures on stdin, raw RGB on stdout.
 *
 *     decode_cli DECODER
 *
 * One process decodes many pictures, because starting one takes longer than a small picture.  Each
 * request is "BYTES X Y W H\n" and the file's bytes; W is 0 for the whole picture.  The answer is
 * "ok W H\n" and the pixels, or one line that begins with "error ".  Input is in memory of just its
 * size, and every picture has a context of its own. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/registry.h"
#include "codec/codec.h"
#include "codec/decoders.h"

#define MAX_INPUT ((size_t)64 << 20)

static int decode(const stk_decoder *d, stk_bytes in, const stk_rect *region, stk_error *err)
{
    stk_scratch scratch = { 0 };
    stk_picture_source from = { .decoder = d };
    stk_media_info info;
    stk_pixels px;
    stk_rect need;
    void *ctx = NULL;
    int rc;

    rc = d->open(&ctx, err);
    if (rc < 0)
        return rc;
    from.ctx = ctx;
    rc = stk_picture_header(&from, in, &info, err);
    if (rc < 0)
        goto done;
    need = (stk_rect){ 0, 0, info.width, info.height };
    if (region->w)
        need = *region;
    rc = stk_picture_whole(&from, in, &(stk_decode_request){ .need = need, .high_byte = 1 },
                           &scratch, &px, err);
    if (rc < 0)
        goto done;
    printf("ok %u %u\n", need.w, need.h);
    for (uint32_t y = 0; y < need.h; y++)
        for (uint32_t x = 0; x < need.w; x++)
            fwrite(px.data + (need.y + y - px.area.y) * px.stride +
                       (size_t)(need.x + x - px.area.x) * 4,
                   1, 3, stdout);
done:
    d->close(ctx);
    stk_scratch_fini(&scratch);
    return rc;
}

static int answer(const stk_decoder *d, size_t len, const stk_rect *region)
{
    uint8_t *data = malloc(len ? len : 1);
    stk_error err;
    int rc;

    if (!data || fread(data, 1, len, stdin) != len) {
        free(data);
        return 0;
    }
    rc = decode(d, (stk_bytes){ data, len }, region, &err);
    if (rc < 0)
        printf("error %s: %s\n", stk_code_name(rc), err.message);
    fflush(stdout);
    free(data);
    return 1;
}

int main(int argc, char **argv)
{
    const stk_decoder *d = argc == 2 ? stk_registry_find(NULL, STK_PLUGIN_DECODER, argv[1]) : NULL;
    stk_rect r;
    size_t len;

    while (d && scanf("%zu %" SCNu32 " %" SCNu32 " %" SCNu32 " %" SCNu32, &len, &r.x, &r.y, &r.w,
                      &r.h) == 5)
        if (getchar() != '\n' || len > MAX_INPUT || !answer(d, len, &r))
            return 2;
    return d && feof(stdin) ? 0 : 2;
}
