/* SPDX-License-Identifier: Apache-2.0 */
/* encode.h - turns one row of a batch into the bytes of a field: the last step of a chain at pack
 * time.  `stoker pack` calls it (tools/).
 *
 *     encode(jpeg, 90)   encode(png)   encode(webp, 80)   encode(npy)   encode(raw)
 *     encode(text)   encode(json)
 *
 * The same row and the same arguments give the same bytes with the same library, on any thread. */
#ifndef STOKER_ENCODE_H
#define STOKER_ENCODE_H

#include <stoker/batch.h>
#include <stoker/plugin.h>

#include "base/expr.h"
#include "base/text.h"

typedef struct stk_encoder stk_encoder;

typedef struct stk_encoding { /* plain data; planned once, read by any thread */
    const stk_encoder *encoder;
    int quality;  /* 1 to 100; png: the level of compression, 0 to 9; -1: the format's default */
    int lossless; /* webp: pixels stay exact */
} stk_encoding;

typedef struct stk_encode_in { /* a row, borrowed */
    stk_tensor tensor;
    stk_out_kind kind;
} stk_encode_in;

struct stk_encoder {
    const char *name;
    const char *library;  /* the library that it needs; NULL: none */
    int pictures;         /* true if it takes pixels: u8 of 1 or 3 channels, interleaved */
    int low, high, usual; /* range and default of `quality`; high 0: it has no quality */
    /* NULL: the build lacks the library */
    int (*encode)(const stk_encoding *e, const stk_encode_in *in, stk_text *out, stk_error *err);
};

extern const stk_encoder stk_encode_jpeg, stk_encode_png, stk_encode_webp, stk_encode_npy,
    stk_encode_raw, stk_encode_text, stk_encode_json;
extern const stk_arg stk_encode_args[];

/* Fills in *e from the call `encode(...)` of a chain. */
int stk_encoding_plan(stk_encoding *e, const stk_call *call, stk_error *err);
/* Appends the row's bytes to `out`.  Thread: any. */
int stk_encode(const stk_encoding *e, const stk_encode_in *in, stk_text *out, stk_error *err);

/* ---- for encoders ---- */

typedef struct stk_encode_pixels { /* pixels of a picture */
    const uint8_t *data;
    uint32_t width, height, channels;
    size_t stride;
    int deep; /* true if pixels are u16 of one channel, which the encoder has to allow */
} stk_encode_pixels;

#define STK_NPY_TEXT 512   /* bytes that hold any .npy header */
#define STK_NUMBER_ROOM 48 /* bytes that hold any number as text */

/* Writes the header that numpy.save() writes for such an array, and returns its length.  0: NumPy
 * has no such type. */
size_t stk_npy_text(char out[STK_NPY_TEXT], stk_dtype type, uint32_t ndim, const int64_t *shape);
/* Writes the number at `p` with enough digits to be read back exactly, and returns its length.  0:
 * the number is not finite. */
size_t stk_number_text(char out[STK_NUMBER_ROOM], stk_dtype type, const void *p);

/* Sets *out to the row's pixels.  deep: the format takes 16 bits, too.  STK_EINVAL: the row is no
 * such picture. */
int stk_encode_pixels_of(const stk_encode_in *in, int deep, stk_encode_pixels *out, stk_error *err);

#endif
