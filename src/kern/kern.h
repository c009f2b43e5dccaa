/* SPDX-License-Identifier: Apache-2.0 */
/* kern.h - the pixel loops: one table per CPU level.  kern_c.c is the reference, and all tables
 * give the same bits.  The sampling pass calls them (kern/sample.h).
 *
 * No kernel reads or writes a byte beyond what its comment names; dst never overlaps a source. */
#ifndef STOKER_KERN_H
#define STOKER_KERN_H

#include "base/cpu.h"
#include "base/err.h"

/* Filter weights of one axis (made by kern/taps.h): output i = (sum over k < stride of
 * weight[i*stride+k] * in[first[i]+k] + half) >> shift, clamped to 0..255. The weights of an output
 * sum to 1 << shift; those from count[i] on are zero.  An output that is outside
 * of the picture has count[i] == 0, first[i] == 0 and zero weights, so it comes out black. */
typedef struct stk_taps {
    uint32_t n;      /* outputs */
    uint32_t stride; /* weights an output: 1 (a copy) or even */
    uint32_t shift;  /* 1.0 is 1 << shift, 14 to 22 */
    uint32_t lo, hi; /* inputs that any output touches: [lo, hi); first[] counts from lo */
    uint32_t *first, *count;
    int16_t *weight;
    /* Not NULL: weights are these, 1.0 is 1 << 22; `weight` is NULL, `shift` is not read, stride
     * is a multiple of 4. */
    int32_t *fine;
    void *packed; /* 4 bytes a weight, of outputs up to a multiple of 4: pack_fine()'s */
} stk_taps;

/* What becomes of a u8 channel: u8 * mul + add in f32 (two roundings, never fused), then the
 * type: f16 and bf16 round to nearest even; u8 rounds half to even and clamps, and is a plain
 * copy for mul 1 and add 0. */
typedef struct stk_color {
    float mul[3], add[3]; /* finite */
    stk_dtype dtype;      /* u8, f16, bf16, f32 */
} stk_color;

typedef struct stk_kern {
    const char *name;
    /* One RGBX row of inputs (from lo on) -> t->n RGBX pixels.  Reads `stride` pixels from each
     * first[] on: see stk_taps_slide(). */
    void (*hresample)(uint8_t *dst, const uint8_t *src, const stk_taps *t);
    /* `bytes` bytes of `taps` rows -> one row.  Reads w[0] to w[taps - 1]. */
    void (*vresample)(uint8_t *dst, const uint8_t *const *rows, const int16_t *w, uint32_t taps,
                      uint32_t shift, size_t bytes);
    /* The same with weights of 22 bits (t->fine): hresample_fine() after pack_fine(), which is
     * called once after stk_taps_slide(). */
    void (*pack_fine)(const stk_taps *t);
    void (*hresample_fine)(uint8_t *dst, const uint8_t *src, const stk_taps *t);
    void (*vresample_fine)(uint8_t *dst, const uint8_t *const *rows, const int32_t *w,
                           uint32_t taps, size_t bytes);
    int fine_is_quick; /* ... than the ones with 16 bits, of more than six taps */
    /* n RGBX pixels -> planes dst, dst + plane, dst + 2*plane (elements). */
    void (*store_planar)(void *dst, size_t plane, const uint8_t *src, uint32_t n,
                         const stk_color *color);
    /* The same, interleaved: 3*n elements. */
    void (*store_packed)(void *dst, const uint8_t *src, uint32_t n, const stk_color *color);
    /* The other way, of u8: n RGB pixels -> RGBX, from three planes that are `plane` bytes apart or
     * interleaved.  X is 0. */
    void (*load_planar)(uint8_t *dst, const uint8_t *src, int64_t plane, uint32_t n);
    void (*load_packed)(uint8_t *dst, const uint8_t *src, uint32_t n);
    const struct stk_tile_kern *tile; /* of the same level: kern/tile.h */
} stk_kern;

/* The table for a level, or the best one of this build below it. */
const stk_kern *stk_kern_table(stk_cpu level);

extern const stk_kern stk_kern_c, stk_kern_avx2, stk_kern_avx512,
    stk_kern_vbmi; /* where STK_HAVE_AVX2 */
/* kern_fine.c, kern_fine_avx2.c, kern_fine_vnni.c */
void stk_c_pack_fine(const stk_taps *t);
void stk_c_hresample_fine(uint8_t *dst, const uint8_t *src, const stk_taps *t);
void stk_c_vresample_fine(uint8_t *dst, const uint8_t *const *rows, const int32_t *w, uint32_t taps,
                          size_t bytes);
void stk_avx2_hresample_fine(uint8_t *dst, const uint8_t *src, const stk_taps *t);
void stk_avx2_vresample_fine(uint8_t *dst, const uint8_t *const *rows, const int32_t *w,
                             uint32_t taps, size_t bytes);
void stk_vnni_pack_fine(const stk_taps *t);
void stk_vnni_hresample_fine(uint8_t *dst, const uint8_t *src, const stk_taps *t);
void stk_vnni_vresample_fine(uint8_t *dst, const uint8_t *const *rows, const int32_t *w,
                             uint32_t taps, size_t bytes);
/* kern_avx512.c */
void stk_avx512_store_packed(void *dst, const uint8_t *src, uint32_t n, const stk_color *color);

/* True where storing u8 is moving bytes. */
static inline int stk_color_plain(const stk_color *c)
{
    for (int i = 0; i < 3; i++)
        if (c->mul[i] != 1.0f || c->add[i] != 0.0f)
            return 0;
    return 1;
}

#endif
