/* SPDX-License-Identifier: Apache-2.0 */
/* decode_cli - what test_jpeg_pillow.py calls: a JPEG on stdin and a region, "W H\n"
 * and raw RGB on stdout.
 *
 *     decode_cli [X Y W H] < in.jpg
 *
 * Exit status 1 and one line on stderr when it can't be decoded. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "codec/codec.h"

#define MAX_INPUT ((size_t)64 << 20)

static int decode(stk_bytes in, int argc, char **argv, stk_error *err)
{
    stk_scratch scratch = { 0 };
    stk_image_info info;
    stk_pixels px;
    stk_rect need;
    void *ctx = NULL;
    int rc;

    rc = stk_decoder_jpeg.open(&ctx, err);
    if (rc < 0)
        return rc;
    rc = stk_decoder_jpeg.header(ctx, in, &info, err);
    if (rc < 0)
        goto done;
    need = (stk_rect){ 0, 0, info.width, info.height };
    if (argc == 5)
        need = (stk_rect){ (uint32_t)atoi(argv[1]), (uint32_t)atoi(argv[2]),
                           (uint32_t)atoi(argv[3]), (uint32_t)atoi(argv[4]) };
    rc = stk_decoder_jpeg.decode(ctx, &need, &scratch, &px, err);
    if (rc < 0)
        goto done;
    printf("%u %u\n", need.w, need.h);
    for (uint32_t y = 0; y < need.h; y++)
        for (uint32_t x = 0; x < need.w; x++)
            fwrite(px.data + (need.y + y - px.area.y) * px.stride +
                       (size_t)(need.x + x - px.area.x) * 4,
                   1, 3, stdout);
done:
    stk_decoder_jpeg.close(ctx);
    stk_scratch_fini(&scratch);
    return rc;
}

int main(int argc, char **argv)
{
    uint8_t *data = malloc(MAX_INPUT);
    stk_error err;
    size_t len;
    int rc;

    if (!data || (argc != 1 && argc != 5))
        return 2;
    len = fread(data, 1, MAX_INPUT, stdin);
    rc = decode((stk_bytes){ data, len }, argc, argv, &err);
    if (rc < 0)
        fprintf(stderr, "%s: %s\n", stk_code_name(rc), err.message);
    free(data);
    return rc < 0;
}
