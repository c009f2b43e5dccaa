/* SPDX-License-Identifier: Apache-2.0 */
/* diagnose.h - between diagnose.c, which finds a cause, and diagnose_say.c, which puts it into
 * words. */
#ifndef STOKER_TOOLS_DIAGNOSE_H
#define STOKER_TOOLS_DIAGNOSE_H

#include <stoker/seeing.h>

typedef struct stk_seen {         /* what happened between two sights */
    stk_sight d;                  /* sums: their growth; settings: as they are now */
    double steady, wait, compute; /* without the start: all time, and of it waiting, and the rest */
    double busy;                  /* of all workers */
    double loading;               /* wall time that loading takes by itself */
    double n;                     /* workers, at least 1 */
    int serial;                   /* the consumer's own thread loads */
    int engines;                  /* decoding is held up by the GPU's video decoders */
} stk_seen;

void stk_seen_between(const stk_sight *from, const stk_sight *to, stk_seen *out);
const char *stk_diagnose_function(const stk_diagnose_options *opt); /* or NULL */
void stk_diagnosis_say(const stk_seen *s, const char *bound, const char *doing,
                       const stk_diagnose_options *opt, stk_diagnosis *out);

#endif
