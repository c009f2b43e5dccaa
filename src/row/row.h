/* SPDX-License-Identifier: Apache-2.0 */
/* row.h - one row, output by output: who prepares it, who makes it, who finishes its batch.
 *
 * The plan has a table of rows (loader/plan_rows.c), and every slot points at one.  A table has one
 * set of functions per output, chosen by what the chain is, where its pixels are made and whether
 * rows are packed, so that nothing of that is asked while rows are made.
 *
 *     begin      what the sample is: its index entry, its window, its documents
 *     find       what of it need not be read
 *     know       before it is read: what its points say, what is drawn, which bytes hold that
 *     prepare    its reads are planned: where bytes go
 *     make       its bytes are there: into the row
 *     note       all outputs are made: the row's id
 *     finish     once per batch and output, by the worker that did the last row
 *
 * Everything here is called by one worker at a time, with its own maker. */
#ifndef STOKER_ROW_H
#define STOKER_ROW_H

#include <config.h>

#include "base/clock.h"
#include "base/spans.h"
#include "codec/codec.h"
#include "codec/decoders.h"
#include "codec/jpeg_base.h"
#include "cuda/slab.h"
#include "kern/sample.h"
#include "row/plan.h"
#include "row/row_docs.h"

/* Where a worker's time went, in ticks.  Written by its worker only, read by any thread; its own
 * cache lines. */
typedef struct stk_counters {
    _Alignas(64) _Atomic uint64_t ticks[STK_STAGES];
    _Atomic uint64_t samples, bytes, cold, remote;
    _Atomic uint64_t unread;          /* bytes of fields of which only parts were read */
    _Atomic uint64_t read_wait, room; /* ticks: of idle, until reads came; for memory */
    _Atomic uint64_t call[2];         /* ticks in functions of the program's: of value, of sample */
    _Atomic uint64_t lane[STK_LANES]; /* pictures */
    _Atomic uint64_t doing, since;    /* stage << 48 | ticket, and from which tick on */
    _Alignas(64) _Atomic uint32_t times[STK_STAGES][STK_TIMES]; /* how many took 2^k ticks */
} stk_counters;

/* A picture that several outputs of a row read (plan.rows.share): the first of them decodes what
 * any of them sees, or leaves it to the GPU, the others come right after it. */
typedef struct stk_shared_picture {
    int ready;
    uint32_t first; /* the output that decoded it */
    int left;       /* the GPU decodes it: `record`; there are no pixels here */
    stk_pic record;
    stk_pixels pixels; /* in scratch */
    unsigned mark;     /* ... of which this much is theirs */
} stk_shared_picture;

typedef struct stk_parser { /* what a codec keeps for a worker: stk_codec.open */
    const stk_codec *codec; /* NULL: it was not opened */
    void *ctx;
} stk_parser;

typedef struct stk_maker { /* what a worker makes rows with */
    stk_counters count;
    _Atomic(stk_spans *) spans; /* its laps are noted there; NULL: no one asked for a trace */
    uint64_t last;              /* tick of the last lap */
    uint64_t rows, bytes;       /* of the run in hand, counted at its end */
    uint64_t row_from;          /* tick at which the row that is timed began; 0: it is not timed */
    double fetch_share;         /* of the time of the row that was timed; 1 before that */
    stk_row_arena cut;
    stk_scratch scratch;
    uint64_t ticket;   /* immediate rows: the first of those in hand */
    size_t short_room; /* bytes that the batch had no room for; 0: it had */
    /* The pipe's: the scratch met a shortage, or the batch has no room for `room` bytes: wait,
     * holding no scratch.  0: make the output again. */
    int (*wait_room)(struct stk_maker *m, uint64_t ticket, size_t room, stk_error *err);
    stk_row_docs docs; /* of the row in hand, where it is packed again */
    stk_bytes next;    /* rows of arrays: what is left to prefetch of the next row */
    stk_shared_picture shared;
    stk_decoders decoders;
    stk_parser *parser; /* of each output; NULL: none was needed so far */
    uint32_t n_parsers;
} stk_maker;

void stk_maker_fini(stk_maker *m);
/* All the scratch that an immediate row needs, waiting for it; ends with stk_scratch_settle(). */
int stk_maker_scratch(stk_maker *m, size_t size, void **out, stk_error *err);

typedef struct stk_row { /* one row while it is made; on the worker's stack */
    stk_maker *m;
    const stk_plan *plan;
    const stk_schedule *schedule;
    const stk_row_table *table;
    stk_request *req; /* NULL: an immediate row */
    stk_batch *batch;
    uint32_t row, output;         /* in the batch; the one being made */
    uint32_t view;                /* of views(n): the one being placed */
    int again;                    /* the output was begun before, and had no memory */
    const stk_piece_place *piece; /* of a packed row; NULL: the sample is the row */
    uint64_t position;
    uint64_t at; /* immediate rows: row of the array, or token of the stream */
    stk_where where;
} stk_row;

typedef struct stk_row_ops { /* one output */
    const char *name;
    void (*know)(stk_row *x);                /* NULL: the field is read whole */
    void (*prepare)(stk_row *x);             /* NULL: nothing to do */
    int (*make)(stk_row *x, stk_error *err); /* adds no address to an error */
    /* Rows x->row, x->row + 1, ... of values that follow each other, as make() makes each.  How
     * many were made: from the first on that was not, rows are made by make(), which says why.
     * Only of chains that stk_row_runs() says yes to. */
    uint64_t (*make_run)(const stk_row *x, const stk_value_span *s);
    /* used: of packed rows, how full each is. */
    int (*finish)(const stk_plan *p, stk_batch *b, uint32_t output, const uint32_t *used,
                  stk_error *err); /* NULL: nothing to do */
} stk_row_ops;

typedef enum stk_run_kind { /* how a worker runs through the rows of a claim */
                            STK_RUN_REQUESTS,
                            /* bytes may be in memory: without a request where they are */
                            STK_RUN_PEEKS,
                            STK_RUN_BLOCKS, /* bytes may be in blocks that are unpacked: likewise */
                            /* the same, and samples that follow each other are made together, by
                             * make_run() */
                            STK_RUN_SPANS,
                            STK_RUN_IMMEDIATE /* never waits, and needs no request */
} stk_run_kind;

struct stk_row_table {
    stk_run_kind run;
    uint32_t n_out;
    int replaceable; /* on_error="skip" may put another sample here */
    int gathered;    /* rows of some outputs are places on the GPU */
    int (*begin)(stk_row *x, stk_error *err);
    void (*note)(stk_row *x);
    const stk_row_ops *const *out; /* of each output */
    /* in which they are made: leaders of like() first; NULL: as they stand */
    const uint32_t *order;
    void (*find)(stk_row *x);      /* requests: the fields are known.  NULL: all are read */
    const stk_row_table *uncached; /* what a row is made with when what was found fails; or NULL */
    /* immediate rows */
    void (*expect)(const stk_plan *p, const stk_where *where, uint32_t n); /* of a run; or NULL */
    stk_bytes (*next)(const stk_row *x); /* bytes of a row that comes next; or NULL */
    size_t row_bytes;                    /* that are read for a row */
};

/* The table of a batch that is opened now. */
const stk_row_table *stk_row_table_now(const stk_plan *p);
int stk_row_finish(const stk_row_table *t, const stk_plan *p, stk_batch *b, const uint32_t *used,
                   stk_error *err);
/* 1: the GPU or memory had some of it, and was believed. */
int stk_row_was_found(const stk_request *r);

/* A table's find() where parts of fields are read: short fields that the index keeps. */
void stk_row_find_short(stk_row *x);

/* row.c: rows of samples */
int stk_row_begin_sample(stk_row *x, stk_error *err); /* x->req has ticket and where */
void stk_row_note_sample(stk_row *x);
void stk_row_note_piece(stk_row *x); /* a packed row goes by its first sample */

/* What feeds the output: its field, decompressed and narrowed by the chain. */
int stk_row_extract(stk_row *x, stk_bytes *in, stk_error *err);
int stk_row_extract_more(stk_row *x, stk_bytes *in, stk_error *err); /* keeps what scratch has */
static inline int stk_row_input(stk_row *x, stk_bytes *in, stk_error *err)
{
    const stk_wanted *want = &x->req->want[x->output];

    *in = want->bytes;
    return want->unpack || x->plan->chains.chain[x->output].extracts ? stk_row_extract(x, in, err)
                                                                     : 0;
}

static inline stk_row_out *stk_row_out_of(const stk_row *x)
{
    return &x->batch->out[x->output].row[x->row];
}

static inline const stk_chain *stk_row_chain(const stk_row *x)
{
    return &x->plan->chains.chain[x->output];
}

/* Before a ragged row gets room: one may be here whose sample went bad later on. */
static inline void stk_row_fresh(const stk_row *x)
{
    if (stk_row_out_of(x)->own)
        stk_batch_unreserve(x->batch, x->output, x->row);
}

/* Rows that come as they are claimed share a piece of their batch; those that come late belong to
 * another batch each time, and a piece each would soon fill all of them. */
static inline stk_row_arena *stk_row_cut(const stk_row *x)
{
    return x->req->late ? NULL : &x->m->cut;
}

/* There was no memory for an output: wait for it, and make the output again. */
int stk_row_make_again(stk_row *x, int rc, stk_error *err);

/* All outputs of a row of a request. */
static inline int stk_row_make(stk_row *x, stk_error *err)
{
    const stk_row_table *t = x->table;
    int rc = 0;

    x->m->short_room = 0;
    for (uint32_t i = 0; i < t->n_out; i++) {
        x->output = t->order ? t->order[i] : i;
        rc = t->out[x->output]->make(x, err);
        if (rc < 0)
            rc = stk_row_make_again(x, rc, err);
        if (rc < 0)
            break;
    }
    stk_scratch_settle(&x->m->scratch);
    return rc;
}

/* Room for a ragged row; NULL: stk_row_no_room() says why. */
void *stk_row_reserve(stk_row *x, size_t len, stk_row_arena *cut);
int stk_row_no_room(const stk_row *x, size_t len, stk_error *err);

/* ---- the kinds ---- */

extern const stk_row_ops stk_row_picture;    /* row_picture.c */
extern const stk_row_ops stk_row_tile;       /* row_tile.c: its chain changes pixels */
extern const stk_row_ops stk_row_video;      /* row_video.c: frames of a video */
extern const stk_row_ops stk_row_shared;     /* of several outputs that read one picture */
extern const stk_row_ops stk_row_gpu;        /* row_gpu.c: decoded by the GPU where it can */
extern const stk_row_ops stk_row_gpu_cached; /* ... which keeps them */
extern const stk_row_ops stk_row_gpu_pixels; /* decoded here, finished there */
extern const stk_row_ops stk_row_gpu_repair; /* made here as it must be there */
void stk_row_gpu_find(stk_row *x);           /* a table's find() */
void stk_row_gpu_forget(stk_row *x);         /* ... that finds nothing */
void stk_row_gpu_note(stk_row *x);
extern const stk_row_ops stk_row_dense, stk_row_ragged, stk_row_bytes; /* row_value.c */
extern const stk_row_ops stk_row_turned;       /* values that steps make others of */
extern const stk_row_ops stk_row_bytes_direct; /* read straight into the row, where it can be */
extern const stk_row_ops stk_row_sound;        /* row_sound.c: a recording, or a part of it */
extern const stk_row_ops stk_row_length_bytes, stk_row_length_value; /* row_length.c */
/* row_call.c: functions of the program's */
extern const stk_row_ops stk_row_call, stk_row_call_picture;
/* ... and rows are packed */
extern const stk_row_ops stk_row_call_packed, stk_row_call_picture_packed;
extern const stk_row_ops stk_row_gpu_call; /* ... and the row goes to a GPU */
extern const stk_row_ops stk_row_packed;   /* row_packed.c */

/* row_array.c: the ops of output i, and the rest of its table; resident: arrays are on the GPU. */
const stk_row_ops *stk_row_array_ops(const stk_plan *p, uint32_t i, int resident);
void stk_row_array_table(stk_row_table *t, const stk_plan *p, int resident);

/* ---- between the kinds ---- */

typedef struct stk_picture_way { /* what becomes of a picture whose header is read */
    /* 1: the GPU decodes it.  NULL: it does not */
    int (*leave)(stk_row *x, const stk_picture_source *from, const stk_draws *d,
                 const stk_decode_request *ask);
    /* Where sampled pixels go: those of view x->view, where `each` is set; else of all, side by
     * side */
    int (*place)(stk_row *x, stk_sample_job *job, stk_error *err);
    /* The pixels are there: sampled straight into the row, or with work on a tile between */
    int (*sample)(stk_row *x, stk_draws *d, const stk_sample_job *job, stk_error *err);
    /* Functions of the program's come before that: *pixels and *d are replaced.  1: the row, or the
     * view, is made.  NULL: there are none */
    int (*between)(stk_row *x, stk_draws *d, stk_pixels *pixels, stk_error *err);
    int each;
    /* 1: the GPU makes it of what it decodes for x->m->shared.  NULL: it does not */
    int (*join)(stk_row *x, const stk_draws *d);
} stk_picture_way;

/* row_patches.c: pictures as patches.  Shape of the row, for a picture of this view; an error where
 * it is not whole patches. */
int stk_patches_shape(const stk_row *x, const stk_view *v, stk_error *err);
/* The picture that `job` wants as patches, as a job for all of it, in scratch memory: RGBX, or,
 * where something is done in the row, in the row's type. */
int stk_patches_begin(stk_row *x, int in_row, const stk_sample_job *job, stk_sample_job *whole,
                      stk_error *err);
void stk_patches_cut(const stk_row *x, const stk_sample_job *job, const stk_sample_job *whole);

/* How often an output draws its picture: once where it has no views. */
static inline uint32_t stk_row_views(const stk_row *x)
{
    return stk_spec_draws(&stk_row_chain(x)->spec);
}

/* row_picture.c */
int stk_picture_make(stk_row *x, const stk_picture_way *way, stk_error *err);
/* The same where outputs share pictures: decoded by the first of them. */
int stk_picture_make_shared(stk_row *x, const stk_picture_way *way, stk_error *err);
/* 1: the first output of those that share x->output's picture has it ready. */
int stk_picture_is_there(const stk_row *x);
/* `need` widened by what the outputs after x->output see of a picture that they share. */
void stk_picture_look_ahead(stk_row *x, const stk_image_info *info, stk_rect *need);
/* The size and turn of x->output's picture, kept for those who follow it; a follower takes the turn
 * of its leader, and must have its size. */
int stk_picture_note_size(const stk_row *x, const stk_image_info *info, unsigned *turn,
                          stk_image_info *upright, stk_error *err);
/* The shape of a row that differs in size; STK_ELIMIT: more than max_pixels. */
int stk_picture_note_shape(const stk_row *x, const stk_view *v, stk_error *err);
/* row_know.c: what the index keeps of it; and, where that and the chain allow it, which bytes of it
 * are needed. */
void stk_picture_know(stk_row *x);
void stk_picture_know_whole(stk_row *x); /* the same, all bytes are needed */
/* 1: of a field with points, its ranges may be read. */
int stk_row_may_read_parts(const stk_row *x);
/* 1: ranges that a decoder gave are inside a field of `len` bytes, and ascend. */
int stk_row_ranges_fit(const stk_ranged *g, uint64_t len);
int stk_picture_check(const stk_row *x, const stk_image_info *info, stk_error *err);
/* What is seen of a picture of that size, and how it is asked for. */
int stk_picture_look(const stk_row *x, const stk_image_info *info, stk_draws *d,
                     stk_decode_request *ask, stk_error *err);
/* The same of all its views: draws in scratch memory, and what any of them sees. */
int stk_picture_look_views(const stk_row *x, const stk_image_info *info, stk_draws **d,
                           stk_decode_request *ask, stk_error *err);
/* View `view` of x->output's picture of that size; of one that follows another: what that one drew,
 * without what only changes pixels. */
int stk_picture_follow(const stk_row *x, const stk_image_info *info, uint32_t view, stk_draws *d,
                       stk_error *err);
/* The same up to the first function. */
int stk_picture_draw(const stk_row *x, const stk_image_info *info, uint32_t view, stk_draws *d,
                     stk_error *err);
/* Numbers of x->output as its like() says: moved, and those that left the picture dropped. */
int stk_boxes_like(stk_row *x, stk_value_row *row, stk_error *err);

/* The context of x->output's codec, made when it is first asked for. */
int stk_row_parser(stk_row *x, void **ctx, stk_error *err);
/* The bytes become a row of the planned shape, or of that which shape() said. */
static inline int stk_row_parse(stk_row *x, stk_bytes in, void *dst, stk_error *err)
{
    const stk_step *s = stk_row_chain(x)->parse;
    stk_codec_work work = { NULL, &x->m->scratch };

    if (s->codec->open)
        STK_TRY(stk_row_parser(x, &work.ctx, err));
    return s->codec->parse(s->state, &work, in, dst, err);
}
/* 1: truncate() is for the entries that like() leaves, not for those that are filed. */
int stk_boxes_cut_late(const stk_chain *c);
/* row_call.c: numbers of x->output, of a chain with functions, as they are before like(). */
int stk_call_first(stk_row *x, stk_value_row *row, stk_error *err);
/* row_boxes.c: the boxes of an output, as the chain of the picture that they follow looks at
 * them. */
int stk_boxes_read(const stk_row *x, uint32_t output, stk_boxes **out, stk_error *err);
/* As `spec` has type, layout and color, into dst. */
int stk_picture_array(stk_row *x, stk_draws *d, const stk_pixels *pixels, const stk_spec *spec,
                      void *dst, stk_error *err);
/* row_deep.c: the same of a picture of 16 bits. */
int stk_deep_row(stk_row *x, const stk_draws *d, const stk_pixels *pixels, const stk_spec *spec,
                 void *dst, stk_error *err);
int stk_picture_sample(stk_row *x, stk_draws *d, const stk_sample_job *job, stk_error *err);
int stk_picture_place(stk_row *x, stk_sample_job *job, stk_error *err); /* into the batch */
int stk_tile_sample(stk_row *x, stk_draws *d, const stk_sample_job *job, stk_error *err);
/* row_value.c: what a sample says of itself: its shape, and the bytes it has. */
int stk_value_shape(const stk_row *x, stk_bytes in, stk_spec *spec, size_t *size, stk_error *err);
/* The sample's numbers as its codec makes them, in scratch, which is reset before, or not. */
int stk_value_parse(stk_row *x, stk_value_row *row, stk_error *err);
int stk_value_parse_more(stk_row *x, stk_value_row *row, stk_error *err);
int stk_value_put(stk_row *x, const stk_value_row *row, stk_error *err); /* into the batch */
/* The numbers that a step draws for x->output's row. */
void stk_value_rng(const stk_row *x, const stk_step *s, stk_rng *rng);
/* row_sound.c: the part of a recording that the chain begins with, at the rate that it asks for. */
int stk_sound_value(stk_row *x, stk_value_row *row, stk_error *err);
/* What a step makes of them; a step for pictures, or a codec, has nothing to do. */
int stk_value_step(stk_row *x, const stk_step *s, stk_value_row *row, stk_error *err);
int stk_bytes_put(stk_row *x, stk_bytes in, stk_error *err);
int stk_call_pictures(stk_row *x, stk_draws *d, stk_pixels *px, stk_error *err); /* a between() */
/* Functions that stand before views are called once for all of them; d: of each view. */
int stk_call_before_views(stk_row *x, stk_draws *d, stk_pixels *px, stk_error *err);
/* A finish(): rows that differ become one tensor, where that was asked for. */
int stk_value_pad(const stk_plan *p, stk_batch *b, uint32_t output, const uint32_t *used,
                  stk_error *err);
/* STK_ECORRUPT: the row is longer than was said of its sample. */
int stk_value_check(const stk_row *x, int64_t len, stk_error *err);

/* 1: rows of this chain are values as they are stored, which make_run() of stk_row_dense or
 * stk_row_ragged copies. */
int stk_row_runs(const stk_chain *c);

/* row_length.c: a row is only measured: so long is it. */
int stk_length_note(const stk_row *x, int64_t len);
/* row_packed.c: a whole sample's numbers, of which x->piece is put in its place. */
int stk_packed_put(const stk_row *x, const stk_value_row *row, stk_error *err);
/* 1: the output asks for positions, documents or a mask, which need no values. */
int stk_packed_count(const stk_row *x);
/* All pieces are there: fill the rest of each row.  A finish(). */
int stk_packed_finish(const stk_plan *plan, stk_batch *b, uint32_t output, const uint32_t *used,
                      stk_error *err);

/* row_learn.c: seek points found while running */
void stk_learn_look(const stk_plan *p, stk_request *r, uint32_t output);
void stk_learn_from(stk_row *x, const stk_decoder *decoder, void *ctx);

/* ---- figures ---- */

static inline void stk_count(_Atomic uint64_t *c, uint64_t n)
{
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* A stage of one row took so many ticks. */
static inline void stk_took(stk_maker *m, stk_stage_id stage, uint64_t ticks)
{
    uint32_t k = 63 - (uint32_t)__builtin_clzll(ticks | 1);
    _Atomic uint32_t *c = &m->count.times[stage][k < STK_TIMES ? k : STK_TIMES - 1];

    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* For a trace; `what` is as in count.doing. */
static inline void stk_note_span(stk_maker *m, stk_stage_id stage, uint64_t from, uint64_t to)
{
    stk_spans *s = atomic_load_explicit(&m->spans, memory_order_acquire);
    uint64_t doing;

    if (__builtin_expect(!s, 1) || to <= from)
        return;
    doing = atomic_load_explicit(&m->count.doing, memory_order_relaxed);
    stk_spans_note(s, (uint64_t)stage << 48 | (doing & (((uint64_t)1 << 48) - 1)), from, to);
}

/* The time since the last lap, but for its last `less` ticks, belongs to `stage`.  Answers how long
 * that was. */
static inline uint64_t stk_stage_time_less(stk_maker *m, stk_stage_id stage, uint64_t less)
{
#if STK_COUNTERS
    uint64_t now = stk_ticks() - less, ticks = now - m->last;

    stk_count(&m->count.ticks[stage], ticks);
    stk_note_span(m, stage, m->last, now);
    m->last = now;
    return ticks;
#else
    (void)m;
    (void)stage;
    (void)less;
    return 0;
#endif
}

static inline uint64_t stk_stage_time(stk_maker *m, stk_stage_id stage)
{
    return stk_stage_time_less(m, stage, 0);
}

/* ... and is that of one row. */
static inline void stk_stage_time_row_less(stk_maker *m, stk_stage_id stage, uint64_t less)
{
    uint64_t ticks = stk_stage_time_less(m, stage, less);

    if (ticks)
        stk_took(m, stage, ticks);
}

static inline void stk_stage_time_row(stk_maker *m, stk_stage_id stage)
{
    stk_stage_time_row_less(m, stage, 0);
}

/* From the last lap on the worker does this; no clock is read. */
static inline void stk_does(stk_maker *m, stk_stage_id stage, uint64_t ticket)
{
    atomic_store_explicit(&m->count.since, m->last, memory_order_relaxed);
    atomic_store_explicit(&m->count.doing, (uint64_t)stage << 48 | ticket, memory_order_relaxed);
}

/* ... of the same row. */
static inline void stk_does_next(stk_maker *m, stk_stage_id stage)
{
    uint64_t now = atomic_load_explicit(&m->count.doing, memory_order_relaxed);

    stk_does(m, stage, now & (((uint64_t)1 << 48) - 1));
}

#endif
