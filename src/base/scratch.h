/* SPDX-License-Identifier: Apache-2.0 */
/* scratch.h - memory that a worker needs for one sample: a few blocks that are reused for the next
 * sample.  Decoders, codecs and rows take from it.
 *
 * get() hands out one block after another, so that several are in use at once; reset() begins the
 * next sample.  In a loader, the scratch memories of all workers share a ration.  Each keeps a
 * little from sample to sample, which is charged once.  What a sample needs beyond that is charged
 * while the sample is made, and given back to the system after it. */
#ifndef STOKER_SCRATCH_H
#define STOKER_SCRATCH_H

#include <stoker/plugin.h>

#include "base/account.h"

#define STK_SCRATCH_BLOCKS 32

typedef struct stk_ration { /* shared by all scratch memories of a loader */
    stk_account account;    /* bytes they hold; a part of the loader's account */
    size_t most;            /* most bytes for one sample */
    _Atomic size_t keep;    /* bytes that each keeps between samples */
    _Atomic uint32_t over;  /* how many hold more than that now */
} stk_ration;

typedef enum stk_shortage {
    STK_SHORT_OF_NOTHING,
    STK_SHORT_NOW,    /* others hold the memory: drop(), wait, grant(), make the sample again */
    STK_SHORT_FOREVER /* more than `most` */
} stk_shortage;

struct stk_scratch {
    struct {
        void *data;
        size_t size;
    } block[STK_SCRATCH_BLOCKS];
    unsigned next;
    int used;           /* this sample asked for something */
    int over;           /* counted in ration->over */
    size_t total;       /* bytes of all blocks */
    size_t beside;      /* bytes that decoders hold beside them for this sample */
    size_t held;        /* of them those that a reset does not end */
    size_t asked;       /* bytes this sample asked for so far */
    size_t expected;    /* bytes this sample needs in all, if a decoder said so */
    size_t charged;     /* bytes taken from the ration, at least total + beside */
    stk_ration *ration; /* NULL: nothing is counted */
    stk_shortage shortage;
    size_t high; /* most bytes that a sample asked for since `uses` was 0 */
    uint32_t uses;
};

void stk_scratch_begin(stk_scratch *s);
/* A sample that asks for nothing leaves nothing to reset. */
static inline void stk_scratch_reset(stk_scratch *s)
{
    if (s->used)
        stk_scratch_begin(s);
}

void stk_scratch_fini(stk_scratch *s);

/* For code that holds memory of its own while it makes a sample.  1, or 0 like a get() that returns
 * NULL.  Call back() for what is freed before the next reset(). */
int stk_scratch_beside(stk_scratch *s, size_t size);
void stk_scratch_back(stk_scratch *s, size_t size);
/* The same for memory that outlives a reset(), until let_go(): call that before drop(). */
int stk_scratch_hold(stk_scratch *s, size_t size);
void stk_scratch_let_go(stk_scratch *s);
/* Announces that `size` more bytes will be asked for.  0: they can't be had, so no work is done in
 * vain. */
int stk_scratch_expect(stk_scratch *s, size_t size);

/* Frees what was taken since mark(), for passes over one sample that need the same memory. */
static inline unsigned stk_scratch_mark(const stk_scratch *s)
{
    return s->next;
}

static inline void stk_scratch_rewind(stk_scratch *s, unsigned mark)
{
    s->next = mark;
}

/* ---- of a ration ---- */

/* Frees all blocks, so that nothing is charged. */
void stk_scratch_drop(stk_scratch *s);
/* Tells this scratch that `size` bytes were taken from the ration's account for it. */
void stk_scratch_grant(stk_scratch *s, size_t size);
/* Bytes that the sample which met the shortage needs, as far as it got. */
size_t stk_scratch_needs(const stk_scratch *s);
void stk_scratch_give_over(stk_scratch *s);

/* The sample is made: gives back what exceeds `keep`. */
static inline void stk_scratch_settle(stk_scratch *s)
{
    if (s->over)
        stk_scratch_give_over(s);
}

#endif
