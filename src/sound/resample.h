/* SPDX-License-Identifier: Apache-2.0 */
/* resample.h - changes the rate of sound, for `sound(rate=)`, `resample` and `speed`.
 *
 * There is one filter for each position that an output can have between two inputs (polyphase).
 * Positions count from the recording's first sample, so a part of a resampled recording has the
 * same bits as that part of the whole.
 *
 * There are two kinds of filters.  HQ is a Kaiser window of the length that soxr's HQ needs: it
 * passes 91.3 % of the band and attenuates by 120 dB at its end.  It runs in blocks by their
 * spectra if the ratio allows that (resample_fft.h).  The other is torchaudio's default, a Hann
 * window of 6 zero crossings. */
#ifndef STOKER_SOUND_RESAMPLE_H
#define STOKER_SOUND_RESAMPLE_H

#include <stoker/plugin.h>

#include "sound/resample_fft.h"

typedef enum stk_resample_kind { STK_RESAMPLE_HQ, STK_RESAMPLE_TORCHAUDIO } stk_resample_kind;

typedef struct stk_rate_change stk_rate_change; /* read-only once made.  Thread: any. */

/* Plans a change from one rate to another, both at most 2^22.  STK_ENOTSUP: this kind does not have
 * such a ratio. */
int stk_rate_change_open(stk_rate_change **out, uint32_t from, uint32_t to, stk_resample_kind kind,
                         stk_error *err);
void stk_rate_change_close(stk_rate_change **r); /* NULL-safe, nulls */
/* How many samples n samples become. */
uint64_t stk_rate_change_length(const stk_rate_change *r, uint64_t n);
/* Sets *in_from and *in_to to the inputs that outputs [from, to) are made of, from < to.  They may
 * be outside of the recording, where it is silent. */
void stk_rate_change_needs(const stk_rate_change *r, uint64_t from, uint64_t to, int64_t *in_from,
                           int64_t *in_to);

/* Floats of work memory that run() needs. */
size_t stk_rate_change_work(const stk_rate_change *r);

struct stk_resample_in { /* samples first .. first + n - 1 of a recording */
    const float *data;
    int64_t first;
    uint64_t n;
    float *work; /* stk_rate_change_work() floats */
};

/* Makes outputs [from, from + n).  Samples that are not in `in` are silent. */
void stk_rate_change_run(const stk_rate_change *r, const stk_resample_in *in, uint64_t from,
                         uint64_t n, float *out);

#endif
