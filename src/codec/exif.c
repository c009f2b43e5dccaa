/* SPDX-License-Identifier: Apache-2.0 */
/* exif.c - find the EXIF block of a picture and the orientation in its first directory.
 *
 * Apart from the decoders: the containers are simple to walk, and the walk is wanted only where
 * a chain says image(exif=true).  Nothing here can fail: metadata that is damaged, or that lies
 * outside of the bytes, says nothing, and the picture stays as it is filed. */
#include "codec/exif.h"

#include <string.h>

static const stk_bytes nothing = { 0 };

static uint32_t be(const uint8_t *p, int n)
{
    uint32_t v = 0;

    for (int i = 0; i < n; i++)
        v = v << 8 | p[i];
    return v;
}

static uint32_t le(const uint8_t *p, int n)
{
    uint32_t v = 0;

    for (int i = n; i--;)
        v = v << 8 | p[i];
    return v;
}

/* Markers up to the first scan. */
static stk_bytes jpeg_exif(stk_bytes in)
{
    size_t at = 2, len;

    while (in.len - at >= 4 && in.data[at] == 0xFF) {
        uint8_t marker = in.data[at + 1];

        if (marker == 0xFF) { /* padding */
            at++;
            continue;
        }
        if (marker == 0xDA || marker == 0xD9)
            break;
        if (marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8)) { /* no length */
            at += 2;
            continue;
        }
        len = be(in.data + at + 2, 2);
        if (len < 2 || len > in.len - at - 2)
            break;
        if (marker == 0xE1 && len >= 8 && !memcmp(in.data + at + 4, "Exif\0\0", 6))
            return (stk_bytes){ in.data + at + 10, len - 8 };
        at += 2 + len;
    }
    return nothing;
}

/* Chunks: PNG's are { length, type, data, checksum }, WebP's { type, length, data, padding }. */
static stk_bytes chunk_exif(stk_bytes in, int png)
{
    size_t at = png ? 8 : 12, len;

    while (in.len - at >= 8) {
        len = png ? be(in.data + at, 4) : le(in.data + at + 4, 4);
        if (len > in.len - at - 8)
            break;
        if (!memcmp(in.data + at + (png ? 4 : 0), png ? "eXIf" : "EXIF", 4))
            return (stk_bytes){ in.data + at + 8, len };
        len += png ? 4 : len & 1;
        if (len > in.len - at - 8)
            break;
        at += 8 + len;
    }
    return nothing;
}

static unsigned orientation(stk_bytes tiff)
{
    uint32_t (*get)(const uint8_t *, int) = le;
    size_t at, n;

    if (tiff.len >= 6 && !memcmp(tiff.data, "Exif\0\0", 6)) /* some writers of WebP keep it */
        tiff.data += 6, tiff.len -= 6;
    if (tiff.len < 8)
        return 1;
    if (!memcmp(tiff.data, "MM\0\x2a", 4))
        get = be;
    else if (memcmp(tiff.data, "II\x2a\0", 4) != 0)
        return 1;
    at = get(tiff.data + 4, 4);
    if (at > tiff.len - 2)
        return 1;
    n = get(tiff.data + at, 2);
    for (at += 2; n && at <= tiff.len && tiff.len - at >= 12; n--, at += 12) {
        const uint8_t *e = tiff.data + at;
        uint32_t type = get(e + 2, 2), value;

        if (get(e, 2) != 0x0112 || (type != 3 && type != 4) || get(e + 4, 4) != 1)
            continue;
        value = get(e + 8, type == 3 ? 2 : 4);
        return value >= 1 && value <= 8 ? value : 1;
    }
    return 1;
}

unsigned stk_exif_turn(stk_bytes in)
{
    if (in.len >= 4 && in.data[0] == 0xFF && in.data[1] == 0xD8)
        return orientation(jpeg_exif(in));
    if (in.len >= 8 && !memcmp(in.data, "\x89PNG\r\n\x1a\n", 8))
        return orientation(chunk_exif(in, 1));
    if (in.len >= 12 && !memcmp(in.data, "RIFF", 4) && !memcmp(in.data + 8, "WEBP", 4))
        return orientation(chunk_exif(in, 0));
    return 1;
}
