/* SPDX-License-Identifier: Apache-2.0 */
/* decode_cli - what the tests against Pillow call: a picture on stdin and a region, "W H\n"
 * and raw RGB on stdout.
 *
 *     decode_cli DECODER [X Y W H] < in.jpg
 *
 * Exit status 1 and one line on stderr when it can't be decoded. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/registry.h"
#include "codec/codec.h"

#define MAX_INPUT ((size_t)64 << 20)

static int decode(const stk_decoder *d, stk_bytes in, char **region, stk_error *err)
{
    stk_scratch scratch = { 0 };
    stk_image_info info;
    stk_pixels px;
    stk_rect need;
    void *ctx = NULL;
    int rc;

    rc = d->open(&ctx, err);
    if (rc < 0)
        return rc;
    rc = d->header(ctx, in, (stk_bytes){ 0 }, &info, err);
    if (rc < 0)
        goto done;
    need = (stk_rect){ 0, 0, info.width, info.height };
    if (region)
        need = (stk_rect){ (uint32_t)atoi(region[0]), (uint32_t)atoi(region[1]),
                           (uint32_t)atoi(region[2]), (uint32_t)atoi(region[3]) };
    rc = d->decode(ctx, &(stk_decode_request){ .need = need }, &scratch, &px, err);
    if (rc < 0)
        goto done;
    printf("%u %u\n", need.w, need.h);
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

int main(int argc, char **argv)
{
    const stk_decoder *d = argc > 1 ? stk_registry_find(NULL, STK_PLUGIN_DECODER, argv[1]) : NULL;
    uint8_t *data = malloc(MAX_INPUT);
    stk_error err;
    size_t len;
    int rc;

    if (!d || !data || (argc != 2 && argc != 6))
        return 2;
    len = fread(data, 1, MAX_INPUT, stdin);
    rc = decode(d, (stk_bytes){ data, len }, argc == 6 ? argv + 2 : NULL, &err);
    if (rc < 0)
        fprintf(stderr, "%s: %s\n", stk_code_name(rc), err.message);
    free(data);
    return rc < 0;
}
