/* SPDX-License-Identifier: Apache-2.0 */
/* transform.h - a chain's ops on pictures that are decoded in memory, the host's or a GPU's, and on
 * recordings in the host's memory.
 *
 * Draws are addressed as a loader's: for equal (seed, epoch, position, output, place in the chain)
 * the pixels and numbers are the loader's, bit for bit, whatever the number of threads. */
#ifndef STOKER_TRANSFORM_H
#define STOKER_TRANSFORM_H

#include <stoker/batch.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct stk_transform stk_transform; /* Thread: any. */

struct stk_registry; /* plugin.h */

typedef struct stk_transform_options {
    uint32_t size;
    uint32_t num_workers; /* threads of a run; 0: this rank's cores, 1: the caller's alone */
    uint64_t seed;
    uint32_t output;               /* number of the output whose draws these are, 0..255 */
    struct stk_registry *registry; /* what the chain may name; kept; NULL: what the process has */
    uint32_t rate; /* of a chain of sound's ops alone: they follow sound(rate=...); else 0 */
} stk_transform_options;

typedef struct stk_transform_info { /* what comes out */
    uint32_t size;
    stk_dtype dtype;
    uint32_t width, height; /* 0: differ by picture */
    const char *layout;     /* "chw": planes; "hwc", "channels_last": interleaved; static */
    uint32_t views;         /* of views(n): a picture comes out n times; 0: it has none */
    uint32_t sound;         /* 1: it takes recordings, and what is said of pictures is 0 or "" */
    uint32_t ndim;          /* of a recording's row, where all have one shape; 0: they differ */
    int64_t shape[STK_MAX_DIMS];
} stk_transform_info;

typedef struct stk_picture {
    const void *data; /* u8, pixel (0, 0) of the first channel; borrowed */
    uint32_t width, height;
    uint32_t channels;              /* 3: RGB; 1: gray */
    uint32_t view;                  /* which of the info's views, counted from 0 */
    int64_t step_x, step_y, step_c; /* bytes to the next pixel, row, channel; may be negative */
    uint64_t position;              /* addresses its draws */
    uint32_t out_width, out_height; /* filled by stk_transform_sizes() */
    void *out;                      /* stk_transform_run() writes here, dense, the info's layout */
    uint64_t out_size;              /* bytes there; fewer than it takes: STK_EINVAL */
} stk_picture;

/* `chain`: "random_resized_crop(224) | hflip | to(f16)", numbered as if `image |` stood before it;
 * with a rate "speed(0.9, 1.1) | fbank(80)", as if `sound(rate=RATE) |` did; or a loader's whole
 * chain, from(), image or sound included.  *out: end with stk_transform_close(). */
STK_API STK_MUST_CHECK int stk_transform_open(stk_transform **out, const char *chain,
                                              const stk_transform_options *opt, stk_error *err);
/* What comes out: type, layout, and the size where the chain fixes one. */
STK_API void stk_transform_describe(const stk_transform *t, stk_transform_info *out);

/* How large each picture comes out in an epoch. */
STK_API STK_MUST_CHECK int stk_transform_sizes(const stk_transform *t, uint32_t epoch,
                                               stk_picture *pictures, uint64_t n, stk_error *err);
/* Make them.  The first that fails stops the rest; its number is in the message. */
STK_API STK_MUST_CHECK int stk_transform_run(const stk_transform *t, uint32_t epoch,
                                             const stk_picture *pictures, uint64_t n,
                                             stk_error *err);

typedef struct stk_recording { /* sound in memory */
    const float *data;         /* f32, the first sample of the first channel; borrowed */
    uint64_t samples;          /* of each channel, side by side */
    uint32_t channels;
    uint32_t rate;     /* samples per second */
    int64_t step_c;    /* bytes to the next channel, a multiple of 4; may be negative */
    uint64_t position; /* addresses its draws */
} stk_recording;

/* The row of each recording, in the host's memory: out[i].buffer is the caller's, who ends it with
 * stk_buffer_unref().  Where the info has a shape, the rows are one after another in one block of
 * memory.  The first that fails stops the rest; its number is in the message, and all of `out` is
 * empty.  STK_ECORRUPT: a recording that a loader would call bad. */
STK_API STK_MUST_CHECK int stk_transform_run_sound(const stk_transform *t, uint32_t epoch,
                                                   const stk_recording *in, uint64_t n,
                                                   stk_tensor *out, stk_error *err);

typedef struct stk_transform_place { /* a GPU, and a CUDA stream on it (NULL: the default one) */
    uint32_t size;
    uint32_t gpu; /* counted from 0 */
    void *stream;
} stk_transform_place;

/* The same of pictures whose `data` and `out` are memory of that GPU: queued on the stream after
 * what is queued there, so `data` may be in the making, and done when the stream gets there.  The
 * bits are stk_transform_run()'s.  `out` must be aligned to its elements.  STK_ENOTSUP: no CUDA
 * part, or a view that shrinks more than 256 times; nothing is queued then. */
STK_API STK_MUST_CHECK int stk_transform_run_gpu(stk_transform *t, uint32_t epoch,
                                                 const stk_picture *pictures, uint64_t n,
                                                 const stk_transform_place *where, stk_error *err);

/* Free it and null the pointer; work that it queued on a GPU is waited for. */
STK_API void stk_transform_close(stk_transform **t);

#ifdef __cplusplus
}
#endif
#endif
