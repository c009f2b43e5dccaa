/* SPDX-License-Identifier: Apache-2.0 */
/* spectral.h - turns sound into frames of features: windows, power spectrum, mel bands, logarithm.
 * The ops fbank, log_mel, mfcc and spectrogram call it.
 *
 * Eight frames are computed side by side, one in each lane of a vector, so that the transform has
 * no shuffles and every CPU level gives the same bits. */
#ifndef STOKER_SOUND_SPECTRAL_H
#define STOKER_SOUND_SPECTRAL_H

#include "base/cpu.h"
#include "sound/fft.h"

#include <stoker/plugin.h>

#define STK_SPECTRAL_LANES 8
#define STK_SPECTRAL_FFT 65536 /* most samples of a transform */

typedef enum stk_frame_rule { /* how many frames n samples have, and where they are */
                              STK_FRAMES_SNIP,   /* 1 + (n - win) / hop, from sample 0 on */
                              STK_FRAMES_ROUND,  /* Kaldi's snip_edges=false: (n + hop / 2) / hop */
                              STK_FRAMES_CENTER, /* 1 + n / hop, around samples 0, hop, ... */
                              STK_FRAMES_SHORT   /* n / hop, around the same samples */
} stk_frame_rule;
typedef enum stk_edge { /* values outside of the recording */
                        STK_EDGE_ZERO,
                        STK_EDGE_REFLECT,  /* mirrored; the first sample occurs once */
                        STK_EDGE_SYMMETRIC /* mirrored; the first sample occurs twice */
} stk_edge;
typedef enum stk_window_kind {
    STK_WINDOW_HANN,     /* periodic */
    STK_WINDOW_HANN_SYM, /* symmetric */
    STK_WINDOW_POVEY
} stk_window_kind;
typedef enum stk_mel_kind { STK_MEL_KALDI, STK_MEL_SLANEY, STK_MEL_HTK } stk_mel_kind;
typedef enum stk_log_kind {
    STK_LOG_NONE,
    STK_LOG_LN,    /* natural logarithm of max(x, floor) */
    STK_LOG_10,    /* the same to base 10 */
    STK_LOG_LN_ADD /* natural logarithm of x + floor */
} stk_log_kind;

typedef struct stk_spectral_config {
    double rate;
    uint32_t win, hop, fft; /* fft: even, win at most, half of it a product of primes up to 19 */
    stk_frame_rule frames;
    stk_edge edge;
    stk_window_kind window;
    double scale;       /* factor for samples */
    double preemphasis; /* applied in each frame, as in Kaldi; 0: none */
    int remove_mean;    /* true if the mean of each frame is subtracted */
    uint32_t mels;      /* 0: the spectrum itself, fft / 2 + 1 values */
    stk_mel_kind mel;
    double low, high; /* Hz */
    int magnitude;    /* true if the root of the power is taken */
    stk_log_kind log;
    double floor;
    int exact; /* of bands: in double precision, so that weak bands are not a transform's noise */
} stk_spectral_config;

typedef struct stk_spectral stk_spectral; /* read-only once made.  Thread: any. */

int stk_spectral_open(stk_spectral **out, const stk_spectral_config *c, stk_error *err);
void stk_spectral_close(stk_spectral **s); /* NULL-safe, nulls */
uint64_t stk_spectral_frames(const stk_spectral *s, uint64_t n);
uint32_t stk_spectral_bins(const stk_spectral *s);
/* Makes all frames of n samples: frames * bins values.  STK_ENOMEM: there is no scratch memory. */
int stk_spectral_run(const stk_spectral *s, const float *x, uint64_t n, stk_scratch *scratch,
                     float *out, stk_error *err);

/* ---- for spectral.c and its kernels ---- */

struct stk_spectral {
    stk_spectral_config c;
    uint32_t half, bins;
    stk_fft transform;                 /* transform of `half` complex values */
    float *window;                     /* `win` weights */
    float *turn;                       /* exp(-2 pi i k / fft), k <= half / 2 + 1: re, im */
    uint32_t *first, *len;             /* by band: its first value of the spectrum, and how many */
    float *weight;                     /* weights of all bands, one after the other */
    double *exact_window, *exact_turn; /* c.exact: the same two tables in double precision */
    void (*run)(const stk_spectral *s, float *work, uint32_t valid, float *out);
    /* c.exact: what run() does with bands, STK_SPECTRAL_LANES frames of each. */
    void (*finish)(const stk_spectral *s, float *made, uint32_t valid, float *out);
};

/* work: STK_SPECTRAL_LANES rows of fft samples, then room for the transform. */
void stk_spectral_block_c(const stk_spectral *s, float *work, uint32_t valid, float *out);
void stk_spectral_block_avx2(const stk_spectral *s, float *work, uint32_t valid, float *out);
void stk_spectral_finish_c(const stk_spectral *s, float *made, uint32_t valid, float *out);
void stk_spectral_finish_avx2(const stk_spectral *s, float *made, uint32_t valid, float *out);
void stk_spectral_exact_c(const stk_spectral *s, float *work, uint32_t valid, float *out);
void stk_spectral_exact_avx2(const stk_spectral *s, float *work, uint32_t valid, float *out);
void stk_spectral_exact_avx512(const stk_spectral *s, float *work, uint32_t valid, float *out);
static inline size_t stk_spectral_work(const stk_spectral *s) /* floats */
{
    size_t more = s->c.exact ? 2 * (size_t)s->c.fft + 5 * (size_t)s->half + 16 : 0;

    return STK_SPECTRAL_LANES *
           ((size_t)s->c.fft + 4 * (size_t)s->half + s->half + 8 + more + s->bins + 8);
}

#endif
