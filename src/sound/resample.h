/* SPDX-License-Identifier: Apache-2.0 */
/* resample.h - sound at another rate, for `sound(rate=)`, `resample` and `speed`.
 *
 * A filter for each place that an output can have between two inputs (polyphase); places count from
 * the recording's first sample, so that a part of a resampled recording has the same bits as that
 * part of the whole.
 *
 * Two filters: HQ, a Kaiser window as long as soxr's HQ needs it (passes 91.3 % of the band, stops
 * at its end by 120 dB), which runs in blocks by their spectra where the ratio allows that
 * (resample_fft.h); and torchaudio's default, a Hann window of 6 zero crossings. */
#ifndef STOKER_SOUND_RESAMPLE_H
#define STOKER_SOUND_RESAMPLE_H

#include <stoker/plugin.h>

#include "sound/resample_fft.h"

typedef enum stk_resample_kind { STK_RESAMPLE_HQ, STK_RESAMPLE_TORCHAUDIO } stk_resample_kind;

typedef struct stk_rate_change stk_rate_change; /* read-only once made.  Thread: any. */

/* From one rate to another; both at most 2^22.  STK_ENOTSUP: a ratio that this kind does not
 * have. */
int stk_rate_change_open(stk_rate_change **out, uint32_t from, uint32_t to, stk_resample_kind kind,
                         stk_error *err);
void stk_rate_change_close(stk_rate_change **r); /* NULL-safe, nulls */
/* How many samples n become. */
uint64_t stk_rate_change_length(const stk_rate_change *r, uint64_t n);
/* Which inputs outputs [from, to) are made of, from < to: *in_from to *in_to, which may be outside
 * of the recording, where it is silent. */
void stk_rate_change_needs(const stk_rate_change *r, uint64_t from, uint64_t to, int64_t *in_from,
                           int64_t *in_to);

/* Room that run() needs beside its input, in floats. */
size_t stk_rate_change_work(const stk_rate_change *r);

struct stk_resample_in { /* what there is of a recording: samples first .. first + n - 1 */
    const float *data;
    int64_t first;
    uint64_t n;
    float *work; /* stk_rate_change_work() floats */
};

/* Outputs [from, from + n).  What is not in `in` is silent. */
void stk_rate_change_run(const stk_rate_change *r, const stk_resample_in *in, uint64_t from,
                         uint64_t n, float *out);

#endif
