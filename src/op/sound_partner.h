/* SPDX-License-Identifier: Apache-2.0 */
/* sound_partner.h - recordings of another data set: noises that `noise` mixes into a sample's, and
 * responses of rooms that `reverb` takes.
 *
 * Which one is drawn by the sample's random numbers: it depends on seed, epoch and position
 * alone. */
#ifndef STOKER_OP_SOUND_PARTNER_H
#define STOKER_OP_SOUND_PARTNER_H

#include <stoker/plugin.h>

typedef struct stk_partners stk_partners; /* Thread: any. */

/* The data set that the argument `from` names; `field` says which field is the recording, NULL: the
 * first that is sound.  op: its name, for errors. */
int stk_partners_open(stk_partners **out, const char *op, const stk_args *args, stk_error *err);
void stk_partners_close(stk_partners **p); /* NULL-safe, nulls */
typedef struct stk_partner_ask {
    stk_rng *rng;
    double rate; /* of what comes out */
    uint64_t n;  /* samples */
} stk_partner_ask;

/* n samples of one of them, the mean of its channels, in scratch memory: from a random place on
 * where it is longer, again and again where it is shorter. */
int stk_partners_take(stk_partners *p, const stk_partner_ask *ask, stk_scratch *scratch,
                      float **out, stk_error *err);
/* One of them from its start on, at most n samples: *made of them, the mean of its channels. */
int stk_partners_take_start(stk_partners *p, const stk_partner_ask *ask, stk_scratch *scratch,
                            float **out, uint64_t *made, stk_error *err);

#endif
