/* SPDX-License-Identifier: Apache-2.0 */
/* diagnose.h - shared by diagnose.c, which finds what holds a consumer up, and diagnose_say.c,
 * which puts it into words. */
#ifndef STOKER_TOOLS_DIAGNOSE_H
#define STOKER_TOOLS_DIAGNOSE_H

#include <stoker/seeing.h>

typedef struct stk_seen {         /* what happened between two sights */
    stk_sight d;                  /* growth of the sums; settings as they are now */
    double steady, wait, compute; /* without the start: all time, its part of waiting, the rest */
    double busy;                  /* time in which workers worked, summed over them */
    double loading;               /* wall time that loading takes if nothing else runs */
    double n;                     /* workers, at least 1 */
    int serial;                   /* true if the consumer's thread loads */
    int engines;                  /* true if decoding waits for the GPU's video decoders */
} stk_seen;

void stk_seen_between(const stk_sight *from, const stk_sight *to, stk_seen *out);
/* The function of the program that takes most time, which the options may name; NULL: they do
 * not. */
const char *stk_diagnose_function(const stk_diagnose_options *opt);
void stk_diagnosis_say(const stk_seen *s, const char *bound, const char *doing,
                       const stk_diagnose_options *opt, stk_diagnosis *out);

#endif
