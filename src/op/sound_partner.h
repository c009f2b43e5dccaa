/* SPDX-License-Identifier: Apache-2.0 */
/* sound_partner.h - recordings of another data set, which the ops `noise` (noises to mix in) and
 * `reverb` (responses of rooms) use.
 *
 * A sample's random numbers choose the recording, so it depends on seed, epoch and position
 * alone. */
#ifndef STOKER_OP_SOUND_PARTNER_H
#define STOKER_OP_SOUND_PARTNER_H

#include <stoker/plugin.h>

typedef struct stk_partners stk_partners; /* Thread: any. */

/* Opens the data set that the argument `from` names.  The argument `field` names the field with the
 * recording; not given: the first field that is sound.  op: name of the op, for errors. */
int stk_partners_open(stk_partners **out, const char *op, const stk_args *args, stk_error *err);
void stk_partners_close(stk_partners **p); /* NULL-safe, nulls */
typedef struct stk_partner_ask {
    stk_rng *rng;
    double rate; /* samples per second that are wanted */
    uint64_t n;  /* samples that are wanted */
} stk_partner_ask;

/* Sets *out, in scratch memory, to n samples of a drawn recording: the mean of its channels.  A
 * longer recording begins at a random place, a shorter one is repeated. */
int stk_partners_take(stk_partners *p, const stk_partner_ask *ask, stk_scratch *scratch,
                      float **out, stk_error *err);
/* The same from the start of a recording, without repeating it.  Sets *made to the number of
 * samples, at most n. */
int stk_partners_take_start(stk_partners *p, const stk_partner_ask *ask, stk_scratch *scratch,
                            float **out, uint64_t *made, stk_error *err);

#endif
