/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.h - a worker's memory for one sample: a few blocks that live on for the next one.
 *
 * get() hands out from the blocks in turn, so that several live at once; reset() begins the next
 * sample.  In a loader the scratches of all workers have a ration: each keeps a little from sample
 * to sample, which costs nothing once it is charged; what a sample needs beyond that is charged
 * while the sample is made and given back to the system after it. */
#ifndef STOKER_SCRATCH_H
#define STOKER_SCRATCH_H

#include <stoker/plugin.h>

#include "base/account.h"

#define STK_SCRATCH_BLOCKS 32

typedef struct stk_ration { /* of all scratches of a loader */
    stk_account account;    /* what they have; a part of the loader's */
    size_t most;            /* bytes that one sample may take */
    _Atomic size_t keep;    /* bytes that a scratch keeps between samples */
    _Atomic uint32_t over;  /* scratches that have more than that now */
} stk_ration;

typedef enum stk_shortage {
    STK_SHORT_OF_NOTHING,
    STK_SHORT_NOW,    /* others have it: drop(), wait, grant(), make the sample again */
    STK_SHORT_FOREVER /* more than `most` */
} stk_shortage;

struct stk_scratch {
    struct {
        void *data;
        size_t size;
    } block[STK_SCRATCH_BLOCKS];
    unsigned next;
    int over;           /* counted in ration->over */
    size_t total;       /* of the blocks */
    size_t beside;      /* what decoders hold beside them, of this sample */
    size_t asked;       /* by this sample so far */
    size_t expected;    /* by this sample in all, where a decoder knew it */
    size_t charged;     /* taken of the ration: at least total + beside */
    stk_ration *ration; /* NULL: no one counts */
    stk_shortage shortage;
    size_t high; /* the most that a sample asked for, since `uses` was 0 */
    uint32_t uses;
};

void stk_scratch_reset(stk_scratch *s);
void stk_scratch_fini(stk_scratch *s);

/* For those who hold memory of their own while they make a sample: 1, or 0 like a get() that
 * answers NULL.  back() for what is freed before the next reset(). */
int stk_scratch_beside(stk_scratch *s, size_t size);
void stk_scratch_back(stk_scratch *s, size_t size);
/* So many bytes more will be asked for: 0 where they can't be had, before work is done in vain. */
int stk_scratch_expect(stk_scratch *s, size_t size);

/* What was taken since mark() is free again: for passes of one sample that need the same. */
static inline unsigned stk_scratch_mark(const stk_scratch *s)
{
    return s->next;
}

static inline void stk_scratch_rewind(stk_scratch *s, unsigned mark)
{
    s->next = mark;
}

/* ---- of a ration ---- */

/* Free what is kept, and charge nothing. */
void stk_scratch_drop(stk_scratch *s);
/* `size` bytes were taken of the ration's account, for this scratch that has none. */
void stk_scratch_grant(stk_scratch *s, size_t size);
/* What the sample that met the shortage needs, as far as it got. */
size_t stk_scratch_needs(const stk_scratch *s);
void stk_scratch_give_over(stk_scratch *s);

/* The sample is made: what is over goes back. */
static inline void stk_scratch_settle(stk_scratch *s)
{
    if (s->over)
        stk_scratch_give_over(s);
}

#endif
