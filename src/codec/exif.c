/* SPDX-License-Identifier: Apache-2.0 */
/* exif.c - find the EXIF block of a picture and the orientation in its first directory.
 *
 * Apart from the decoders: the containers are simple to walk, and the walk is wanted only where
 * a chain says image(exif=true).  Nothing here can fail: metadata that is damaged, or that is
 * outside of the bytes, says nothing, and the picture stays as it is filed.
 *
 * PNG has had a chunk of its own for EXIF since 2017.  Before, and by ImageMagick until today, the
 * block was written as text: hexadecimal digits in a tEXt, zTXt or iTXt chunk with the keyword "Raw
 * profile type exif" or "... APP1".  Of these the first 32 KiB are looked at, where the first
 * directory is; that bounds the memory, which is the stack's. */
#include "codec/exif.h"

#include <string.h>

#include "compress/unpack.h"

#define TEXT_MAX ((size_t)64 << 10)

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

/* Markers up to the first scan.  *all: they are all in `in`, or those up to EXIF's are. */
static stk_bytes jpeg_exif(stk_bytes in, int *all)
{
    size_t at = 2, len;

    *all = 1;

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
    *all = in.len - at >= 2 && in.data[at] == 0xFF && in.data[at + 1] >= 0xD9;
    *all = *all && in.data[at + 1] <= 0xDA;
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

/* ---- EXIF as text ---- */

/* Take the bytes up to a NUL, and it, off the front; 0: there is none. */
static int cut_word(stk_bytes *s, stk_bytes *word)
{
    const uint8_t *nul = s->len ? memchr(s->data, 0, s->len) : NULL;

    if (!nul)
        return 0;
    *word = (stk_bytes){ s->data, (size_t)(nul - s->data) };
    *s = (stk_bytes){ nul + 1, s->len - word->len - 1 };
    return 1;
}

static int is_profile(stk_bytes keyword)
{
    static const char exif[] = "Raw profile type exif", app1[] = "Raw profile type APP1";

    return keyword.len == sizeof exif - 1 &&
           (!memcmp(keyword.data, exif, keyword.len) || !memcmp(keyword.data, app1, keyword.len));
}

/* The text of a chunk that holds a profile, at most TEXT_MAX bytes; 0: it holds none. */
static size_t profile_text(const uint8_t *type, stk_bytes chunk, uint8_t *text)
{
    int packed = !memcmp(type, "zTXt", 4);
    stk_bytes word;

    if ((!packed && memcmp(type, "tEXt", 4) != 0 && memcmp(type, "iTXt", 4) != 0) ||
        !cut_word(&chunk, &word) || !is_profile(word))
        return 0;
    if (packed) {
        if (!chunk.len || chunk.data[0])
            return 0;
        chunk.data++, chunk.len--;
    } else if (type[0] == 'i') {
        if (chunk.len < 2 || (chunk.data[0] && chunk.data[1]))
            return 0;
        packed = chunk.data[0];
        chunk.data += 2, chunk.len -= 2;
        if (!cut_word(&chunk, &word) || !cut_word(&chunk, &word)) /* language, translation */
            return 0;
    }
    if (packed)
        return stk_inflate_head(chunk, text, TEXT_MAX);
    chunk.len = chunk.len < TEXT_MAX ? chunk.len : TEXT_MAX;
    memcpy(text, chunk.data, chunk.len);
    return chunk.len;
}

static int hex(uint8_t c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/* Three lines (empty, the name, the length), then digits.  In place; how many bytes they are. */
static size_t profile_bytes(uint8_t *text, size_t len)
{
    size_t at = 0, n = 0;

    for (int lines = 0; lines < 3 && at < len; at++)
        lines += text[at] == '\n';
    while (at + 1 < len) {
        int high = hex(text[at]), low = hex(text[at + 1]);

        if (high < 0 && memchr(" \t\r\n", text[at], 4)) {
            at++;
            continue;
        }
        if (high < 0 || low < 0)
            return 0; /* Pillow refuses the whole of it */
        text[n++] = (uint8_t)(high << 4 | low);
        at += 2;
    }
    return n;
}

static unsigned orientation(stk_bytes tiff);

/* By the first chunk that has a profile: many that each unpack to much would take long. */
static unsigned png_profile(stk_bytes in)
{
    uint8_t text[TEXT_MAX];

    for (size_t at = 8, len; in.len - at >= 12; at += 12 + len) {
        size_t n;

        len = be(in.data + at, 4);
        if (len > in.len - at - 12)
            break;
        n = profile_text(in.data + at + 4, (stk_bytes){ in.data + at + 8, len }, text);
        if (n)
            return orientation((stk_bytes){ text, profile_bytes(text, n) });
    }
    return 1;
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

static unsigned png_turn(stk_bytes in)
{
    stk_bytes exif = chunk_exif(in, 1);

    return exif.data ? orientation(exif) : png_profile(in);
}

/* Of a WebP: does its first chunk say that there is no EXIF?  Only VP8X has a flag for it. */
static int webp_has_none(stk_bytes in)
{
    return in.len >= 21 && (memcmp(in.data + 12, "VP8X", 4) != 0 || !(in.data[20] & 8));
}

/* *all: bytes that may follow `in` say nothing more. */
static unsigned turn_of(stk_bytes in, int *all)
{
    *all = 1;
    if (in.len >= 4 && in.data[0] == 0xFF && in.data[1] == 0xD8)
        return orientation(jpeg_exif(in, all));
    if (in.len >= 8 && !memcmp(in.data, "\x89PNG\r\n\x1a\n", 8)) {
        *all = in.len >= 12 && !memcmp(in.data + in.len - 8, "IEND", 4);
        return png_turn(in);
    }
    if (in.len >= 12 && !memcmp(in.data, "RIFF", 4) && !memcmp(in.data + 8, "WEBP", 4)) {
        *all = webp_has_none(in);
        return orientation(chunk_exif(in, 0));
    }
    return 1;
}

unsigned stk_exif_turn(stk_bytes in)
{
    int all;

    return turn_of(in, &all);
}

unsigned stk_exif_turn_head(stk_bytes head)
{
    int all;
    unsigned turn = turn_of(head, &all);

    return turn > 1 || all ? turn : 0;
}
