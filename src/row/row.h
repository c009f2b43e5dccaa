/* SPDX-License-Identifier: Apache-2.0 */
/* row.h - how one row of a batch is made, output by output.  Called by the workers (pipe/worker.c).
 *
 * The plan has a table of functions for rows (loader/plan_rows.c), and every slot points to one.
 * For each output the table says three things: where the input comes from, what makes the row, and
 * where the row goes.  Each is chosen once, for itself (loader/plan_kinds.c), so that no such
 * question is asked for each row.  The steps of a row:
 *
 *     begin      finds the sample: its index entry, its window, its documents
 *     find       marks fields that are cached and need no read
 *     know       draws, and looks at seek points, to find out which bytes are needed
 *     prepare    plans the reads: which bytes go where
 *     make       turns the bytes into the row
 *     note       stores the row's id after all outputs are made
 *     finish     runs once per batch and output, in the worker that made the last row
 *
 * One worker at a time calls these functions, each worker with its own stk_maker. */
#ifndef STOKER_ROW_H
#define STOKER_ROW_H

#include <config.h>

#include "base/clock.h"
#include "base/spans.h"
#include "codec/codec.h"
#include "codec/decoders.h"
#include "cuda/slab.h"
#include "gpu/pic.h"
#include "index/mediafile.h"
#include "kern/sample.h"
#include "row/plan.h"
#include "row/row_docs.h"

/* Where a worker's time went, in ticks.  Only its worker writes it; any thread may read it.  It has
 * cache lines of its own. */
typedef struct stk_counters {
    _Alignas(64) _Atomic uint64_t ticks[STK_STAGES];
    _Atomic uint64_t samples, bytes, cold, remote;
    _Atomic uint64_t unread; /* bytes that were skipped in fields read in part */
    /* ticks of idle time spent waiting for reads, and for memory */
    _Atomic uint64_t read_wait, room;
    _Atomic uint64_t call[2]; /* ticks in functions of the program: on values, on pictures */
    _Atomic uint64_t lane[STK_LANES]; /* pictures by the way they were decoded */
    _Atomic uint64_t doing, since;    /* stage << 48 | ticket, and the tick at which it began */
    _Alignas(64) _Atomic uint32_t times[STK_STAGES][STK_TIMES]; /* rows that took about 2^k ticks */
} stk_counters;

/* A picture that several outputs of a row read (plan.rows.share).  The first of these outputs
 * decodes what any of them needs, or leaves it to the GPU.  The others follow directly. */
typedef struct stk_shared_picture {
    int ready;
    uint32_t first; /* output that decoded it */
    int left;       /* the GPU decodes it, by `record`; `pixels` is not set */
    stk_pic record;
    stk_pixels pixels; /* in scratch memory */
    unsigned mark;     /* position in the scratch memory after the pixels; rewind to it */
} stk_shared_picture;

/* A picture whose size is known from its record in HASH.media, so that its file is not read. */
typedef struct stk_known_picture {
    uint64_t number;
    uint32_t field;
    stk_media_rec rec;
} stk_known_picture;

typedef struct stk_picture_list { /* the pictures of the current row: row_pictures.c */
    uint32_t n, cap;
    stk_bytes *bytes;         /* encoded bytes of each picture */
    size_t at;                /* offset in the row at which the current picture begins */
    stk_known_picture *known; /* pictures that are only measured: row_picture_sizes.c */
    uint32_t known_cap;
} stk_picture_list;

typedef struct stk_grid_list { /* the sizes, in patches, of the pictures of one output */
    uint32_t n, cap;
    uint32_t (*at)[2];  /* per picture: patches down and across */
    uint64_t row;       /* number of their sample + 1 */
    uint64_t patches;   /* patches of all of them */
    uint32_t *place;    /* indices of their n placeholders in the sample's row of tokens */
    uint32_t places;    /* entries that `place` has memory for */
    uint64_t place_row; /* the sample that `place` is for, numbered as `row` */
    size_t place_len;   /* length of that row of tokens */
} stk_grid_list;

typedef struct stk_measured { /* a row that is only measured */
    uint64_t row;             /* number of its sample + 1 */
    uint64_t longest;         /* length of the longest output so far */
} stk_measured;

/* Records for the GPU of a row of several pictures, until the row gets its room in the batch:
 * row_gpu_pictures.c. */
typedef struct stk_row_records {
    uint8_t *data;              /* the records, one after the other */
    size_t used, cap, at;       /* at: offset of the last record */
    stk_pic_share *share;       /* per record: what it adds to a launch */
    const stk_grid_list *grids; /* the size that each picture must have */
    uint32_t n, most;           /* entries in `share`, and how many it has room for */
} stk_row_records;

typedef struct stk_parser { /* a codec's state for one worker (stk_codec.open) */
    const stk_codec *codec; /* NULL: not opened */
    stk_codec_work work;
} stk_parser;

typedef struct stk_maker { /* what one worker needs to make rows */
    stk_counters count;
    _Atomic(stk_spans *) spans; /* where a trace notes its stages; NULL: no trace */
    uint64_t last;              /* tick at which the last stage ended */
    uint64_t rows, bytes;       /* of the current run of rows; added to `count` at its end */
    uint64_t row_from;          /* tick at which the timed row began; 0: this row is not timed */
    double fetch_share; /* part of the timed row's ticks spent on fetching; 1 before any is timed */
    stk_row_arena cut;
    stk_scratch scratch;
    stk_seek_room points; /* memory for the piece of a video's points that is being read */
    uint64_t ticket;      /* immediate rows: the first ticket of the current run */
    size_t short_room;    /* bytes that the batch had no room for; 0: it had room */
    /* Set by pipe/.  Scratch memory is short, or the batch has no room for `room` bytes: waits for
     * memory while holding no scratch.  0: make the output again. */
    int (*wait_room)(struct stk_maker *m, uint64_t ticket, size_t room, stk_error *err);
    stk_row_docs docs; /* documents of the current row, with repack=true */
    stk_bytes next;    /* rows of arrays: bytes of the next row still to prefetch */
    stk_shared_picture shared;
    stk_picture_list pictures;
    stk_row_records records;
    stk_grid_list *grids; /* by output; NULL: none was needed so far */
    uint32_t n_grids;
    struct stk_clip_span *clip_spans; /* by output (sound_span.h); NULL: none so far */
    stk_measured measured;
    stk_decoders decoders;
    stk_codec_work work; /* for codecs that keep no state; set when the worker is opened */
    stk_parser *parser;  /* by output; NULL: none was needed so far */
    uint32_t n_parsers;
} stk_maker;

void stk_maker_init(stk_maker *m); /* *m starts as zeros */
void stk_maker_fini(stk_maker *m);
/* Waits for the scratch memory that an immediate row needs.  End with stk_scratch_settle(). */
int stk_maker_scratch(stk_maker *m, size_t size, void **out, stk_error *err);

typedef struct stk_row { /* a row while it is made; on the worker's stack */
    stk_maker *m;
    const stk_plan *plan;
    const stk_schedule *schedule;
    const stk_row_table *table;
    stk_request *req; /* NULL: an immediate row */
    stk_batch *batch;
    uint32_t row, output; /* row in the batch; output being made */
    uint32_t view;        /* with views(n): which of the n is being placed */
    uint32_t picture;     /* with pictures(): number of the picture that draws random numbers */
    uint32_t keep;        /* with pictures(): blocks that each picture keeps; 0: all */
    int again;            /* second try of an output that had no memory */
    const stk_piece_place *piece; /* piece of a packed row; NULL: the sample is the row */
    uint64_t position;
    uint64_t at; /* immediate rows: row of the array, or first token */
    stk_where where;
} stk_row;

typedef struct stk_row_from { /* where the bytes of an output come from */
    const char *name;
    void (*know)(stk_row *x); /* NULL: the field is read whole */
    /* After the first stage: adds the files that the field names.  NULL: it names none */
    int (*list)(stk_row *x, stk_error *err);
    void (*prepare)(stk_row *x); /* NULL: nothing to do */
} stk_row_from;

/* Samples decoded pixels into the row, directly or through a tile. */
typedef int (*stk_sample_fn)(stk_row *x, stk_draws *d, const stk_sample_job *job, stk_error *err);

typedef struct stk_row_work { /* what makes a row of these bytes */
    const char *name;
    int (*make)(stk_row *x, stk_error *err); /* errors carry no sample address */
    /* Makes rows x->row, x->row + 1, ... of values that are stored next to each other, as make()
     * would.  Returns how many were made; the caller makes the rest by make(), which reports why
     * the next one failed.  Only for chains for which stk_row_runs() is true. */
    uint64_t (*make_run)(const stk_row *x, const stk_value_span *s);
    stk_sample_fn sample; /* for pictures */
    /* Calls functions of the program before that; they replace *pixels and *d.  1: the row, or the
     * view, is made.  NULL: there are none */
    int (*between)(stk_row *x, stk_draws *d, stk_pixels *pixels, stk_error *err);
} stk_row_work;

typedef int (*stk_row_each)(stk_row *x, stk_error *err);

typedef struct stk_row_goal { /* where the row goes */
    const char *name;
    int (*bytes)(stk_row *x, stk_bytes in, stk_error *err); /* stores bytes as they are */
    /* Gives room for a value of this shape: its codec writes to *dst, then filled() is called.
     * 1: the value itself is not needed, and the row is done */
    int (*room)(stk_row *x, const stk_spec *spec, size_t bytes, void **dst, stk_error *err);
    int (*filled)(stk_row *x, const stk_spec *spec, const void *made, stk_error *err);
    int (*put)(stk_row *x, const stk_value_row *row, stk_error *err); /* a value made by steps */
    int (*counts)(const stk_row *x); /* 1: no values are needed, the row is done.  NULL: they are */
    /* Says where sampled pixels go: those of x->view if `each` is set, else all views side by
     * side */
    int (*place)(stk_row *x, stk_sample_job *job, stk_error *err);
    int each;
    /* used in place of stk_row_work.sample; it cuts patches itself.  NULL: the work's is used */
    stk_sample_fn sample;
    /* Leaves a picture whose header is read to the GPU.  1: done.  NULL: the CPU decodes */
    int (*leave)(stk_row *x, const stk_picture_source *from, const stk_draws *d,
                 const stk_decode_request *ask);
    /* Lets the GPU use its decode of x->m->shared.  1: done.  NULL: it can't */
    int (*join)(stk_row *x, const stk_draws *d);
    /* A row of several pictures: `each` makes all of them.  NULL: they are side by side in it */
    int (*several)(stk_row *x, const stk_grid_list *g, stk_row_each each, stk_error *err);
    /* used: how many tokens each packed row holds. */
    int (*finish)(const stk_plan *p, stk_batch *b, uint32_t output, const uint32_t *used,
                  stk_error *err); /* NULL: nothing to do */
} stk_row_goal;

typedef struct stk_row_ops { /* one output */
    const stk_row_from *from;
    const stk_row_work *work;
    const stk_row_goal *goal;
    int shared; /* another output decodes the same picture */
} stk_row_ops;

typedef enum stk_run_kind { /* how a worker makes the rows that it claimed together */
                            STK_RUN_REQUESTS,
                            /* rows whose bytes are in memory are made without a request */
                            STK_RUN_PEEKS,
                            STK_RUN_BLOCKS, /* the same for rows whose blocks are unpacked */
                            /* the same, and neighbours are made together by make_run() */
                            STK_RUN_SPANS,
                            STK_RUN_IMMEDIATE /* arrays: no request, and never a wait */
} stk_run_kind;

struct stk_row_table {
    stk_run_kind run;
    uint32_t n_out;
    int replaceable; /* with on_error="skip": a bad sample may be replaced by another */
    int gathered;    /* rows of some outputs are places in arrays on the GPU */
    int (*begin)(stk_row *x, stk_error *err);
    void (*note)(stk_row *x);
    const stk_row_ops *out; /* of each output */
    const uint32_t *order;
    /* with requests, after the fields are located.  NULL: all fields are read */
    void (*find)(stk_row *x);
    int has_know, has_prepare;     /* true if some output has such a function, or open() */
    const stk_row_table *uncached; /* table for a second try when cached bytes fail */
    /* immediate rows */
    /* prefetches what a run of n rows looks up; NULL: it looks nothing up */
    void (*expect)(const stk_plan *p, const stk_where *where, uint32_t n);
    stk_bytes (*next)(const stk_row *x); /* bytes of a later row, to be prefetched; or NULL */
    size_t row_bytes;                    /* bytes that are read for a row */
};

/* The table for a batch that is opened now. */
const stk_row_table *stk_row_table_now(const stk_plan *p);
int stk_row_finish(const stk_row_table *t, const stk_plan *p, stk_batch *b, const uint32_t *used,
                   stk_error *err);
/* 1: some of its fields are in the GPU's cache.  A row that fails then is made again without it. */
int stk_row_was_found(const stk_request *r);

/* A find(): takes the bytes of short fields from the records that the index stores. */
void stk_row_find_short(stk_row *x);

/* row.c */
/* x->req->row.ticket and x->req->where are set */
int stk_row_begin_sample(stk_row *x, stk_error *err);
/* After the first stage of x->req, and after each round of files that its lists name: locates what
 * comes next and plans its reads. */
int stk_row_begin_second(stk_row *x, stk_error *err);
void stk_row_note_sample(stk_row *x);
void stk_row_note_piece(stk_row *x); /* the id of a packed row is that of its first sample */

/* The bytes an output begins with: its field, decompressed and narrowed by the chain. */
int stk_row_extract(stk_row *x, stk_bytes *in, stk_error *err);
/* does not reset the scratch memory */
int stk_row_extract_more(stk_row *x, stk_bytes *in, stk_error *err);
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

/* Before a ragged row gets room: frees what a bad sample that came before left here. */
static inline void stk_row_fresh(const stk_row *x)
{
    if (stk_row_out_of(x)->own)
        stk_batch_unreserve(x->batch, x->output, x->row);
}

/* Rows that are made when they are claimed share a piece of their batch.  A late row may belong to
 * another batch than the row before; a piece for each would fill all batches soon. */
static inline stk_row_arena *stk_row_cut(const stk_row *x)
{
    return x->req->late ? NULL : &x->m->cut;
}

/* An output failed for want of memory: waits for memory and makes it again. */
int stk_row_make_again(stk_row *x, int rc, stk_error *err);

/* Makes all outputs of a row that has a request. */
static inline int stk_row_make(stk_row *x, stk_error *err)
{
    const stk_row_table *t = x->table;
    int rc = 0;

    x->m->short_room = 0;
    for (uint32_t i = 0; i < t->n_out; i++) {
        x->output = t->order ? t->order[i] : i;
        rc = t->out[x->output].work->make(x, err);
        if (rc < 0)
            rc = stk_row_make_again(x, rc, err);
        if (rc < 0)
            break;
    }
    stk_scratch_settle(&x->m->scratch);
    return rc;
}

/* Room for a ragged row.  NULL: there is none, and stk_row_no_room() says why. */
void *stk_row_reserve(stk_row *x, size_t len, stk_row_arena *cut);
int stk_row_no_room(const stk_row *x, size_t len, stk_error *err);
/* Where field f of the sample is. */
int stk_row_place_of(const stk_row *x, const stk_field *f, stk_place *out, stk_error *err);

/* How x->output is made. */
static inline const stk_row_ops *stk_row_ops_of(const stk_row *x)
{
    return &x->table->out[x->output];
}

/* ---- the kinds: each output has one stk_row_from, one stk_row_work, one stk_row_goal ---- */

extern const stk_row_from stk_from_field;     /* row_value.c: the whole field */
extern const stk_row_from stk_from_direct;    /* read straight into the row, if possible */
extern const stk_row_from stk_from_picture;   /* row_know.c: the part of a picture that is seen */
extern const stk_row_from stk_from_cached;    /* all of it, for the GPU to cache */
extern const stk_row_from stk_from_recording; /* row_sound.c: a part of a recording */
extern const stk_row_from stk_from_clip;      /* row_video.c: frames of a video */
extern const stk_row_from stk_from_pictures;  /* row_pictures.c: all pictures of a sample */
extern const stk_row_from stk_from_array;     /* row_array.c */

extern const stk_row_work stk_work_bytes;    /* row_value.c: bytes as they are */
extern const stk_row_work stk_work_value;    /* a value whose shape the plan knows */
extern const stk_row_work stk_work_shaped;   /* a value that says its shape itself */
extern const stk_row_work stk_work_steps;    /* row_call.c: a value that steps change */
extern const stk_row_work stk_work_called;   /* a picture, with functions of the program */
extern const stk_row_work stk_work_picture;  /* row_picture.c */
extern const stk_row_work stk_work_tile;     /* row_tile.c: a picture whose pixels are changed */
extern const stk_row_work stk_work_cached;   /* row_gpu.c: a picture that the GPU may have cached */
extern const stk_row_work stk_work_clip;     /* row_video.c */
extern const stk_row_work stk_work_pictures; /* row_pictures.c */
/* row_gpu_video.c: a clip that a GPU decodes or finishes; a clip that a worker makes whole, so that
 * the GPU only copies it */
extern const stk_row_work stk_work_gpu_clip, stk_work_gpu_clip_ready;
/* row_array.c, in this order: a row; a window of tokens; a window with separators; Megatron's
 * window; documents side by side; nothing, because the first output made the row; the number of a
 * row in an array on the GPU */
extern const stk_row_work stk_work_row, stk_work_window, stk_work_parted, stk_work_megatron,
    stk_work_documents, stk_work_nothing, stk_work_place;

extern const stk_row_goal stk_goal_row;       /* row_value.c: its place in the batch */
extern const stk_row_goal stk_goal_pictures;  /* row_pictures.c: the same, with their grids */
extern const stk_row_goal stk_goal_packed;    /* row_packed.c: beside others in one row */
extern const stk_row_goal stk_goal_length;    /* row_length.c: nowhere; it is only measured */
extern const stk_row_goal stk_goal_gpu;       /* row_gpu.c: a GPU, which decodes it if it can */
extern const stk_row_goal stk_goal_gpu_ops;   /* a GPU, which runs the pixel ops */
extern const stk_row_goal stk_goal_gpu_color; /* a GPU, which converts color and type */
extern const stk_row_goal stk_goal_gpu_ready; /* a GPU, which only copies the finished row */
/* several pictures, for a GPU: it decodes them if it can; it runs only their pixel ops */
extern const stk_row_goal stk_goal_gpu_pictures, stk_goal_gpu_pictures_ops;

void stk_row_gpu_find(stk_row *x);   /* a table's find() */
void stk_row_gpu_forget(stk_row *x); /* the same, but nothing is cached */
void stk_row_gpu_note(stk_row *x);   /* a table's note() */

void stk_row_array_table(stk_row_table *t, const stk_plan *p, int resident);

/* ---- functions that the kinds call on each other ---- */

/* row_picture_sizes.c: several pictures whose sizes are known, while lengths are measured.  The
 * field is not read then. */
void stk_picture_sizes_know(stk_row *x);
/* 1: stk_picture_sizes_know() found all sizes of this field. */
int stk_picture_sizes_are_known(const stk_wanted *want);
/* Sets x->m->pictures.n to the number of pictures. */
int stk_picture_sizes_take(stk_row *x, stk_error *err);
/* The size that picture i has after its geometry. */
int stk_picture_size_known(stk_row *x, uint32_t i, uint32_t size[2], stk_error *err);
/* Of a list of names: one more, a file below root or field k of the sample.  x->m->pictures.n is 0
 * before the first. */
int stk_picture_sizes_file(stk_row *x, const char *root, stk_bytes name, stk_error *err);
int stk_picture_sizes_field(stk_row *x, uint32_t k, stk_error *err);
/* row_picture.c: what decodes a picture that begins so. */
int stk_picture_decoder(stk_maker *m, stk_bytes in, const stk_decoder **out, void **ctx,
                        stk_error *err);

/* row_patches.c: pictures as patches.  How many blocks the picture keeps in an output if its sample
 * is over the budget; 0: all. */
uint32_t stk_patches_keep(const stk_row *x, uint32_t output);
/* Stores the row's shape for a picture of this view.  STK_ECORRUPT: the view is not a whole number
 * of patches. */
int stk_patches_shape(const stk_row *x, const stk_view *v, stk_error *err);
/* Sets *whole to a job that makes the whole picture in scratch memory, for a `job` that wants
 * patches.  The picture is RGBX, or has the row's type if pixels are changed in the row. */
int stk_patches_begin(stk_row *x, int in_row, const stk_sample_job *job, stk_sample_job *whole,
                      stk_error *err);
void stk_patches_cut(const stk_row *x, const stk_sample_job *job, const stk_sample_job *whole);
/* row_picture.c: samples the picture whole, then cuts it. */
int stk_patches_sample(stk_row *x, stk_sample_fn sample, stk_draws *d, const stk_sample_job *job,
                       stk_error *err);

/* row_gpu.c: a finish() that plans the tensor that a GPU makes of rows of different sizes. */
int stk_gpu_pad(const stk_plan *p, stk_batch *b, uint32_t output, const uint32_t *used,
                stk_error *err);
/* row_gpu_pictures.c: a row of several pictures for a GPU.  make() is a several(), finish() a
 * finish().  For each picture, place() gives room for its record (NULL: no memory), check()
 * compares its size with the measured one, and note() adds its share of a launch. */
int stk_gpu_pictures_make(stk_row *x, const stk_grid_list *g, stk_row_each each, stk_error *err);
int stk_gpu_pictures_finish(const stk_plan *p, stk_batch *b, uint32_t output, const uint32_t *used,
                            stk_error *err);
void *stk_gpu_pictures_place(stk_row *x, size_t size);
int stk_gpu_pictures_check(const stk_row *x, const stk_view *v, stk_error *err);
void stk_gpu_pictures_note(stk_row *x, const stk_pic_share *share);

/* How many views an output draws; 1 without views(). */
static inline uint32_t stk_row_views(const stk_row *x)
{
    return stk_spec_draws(&stk_row_chain(x)->spec);
}

/* row.c: the observer to call after each draw; NULL: none.  A row that is made again was reported
 * the first time. */
const stk_draw_observer *stk_picture_observer(const stk_row *x);

/* row_picture.c */
int stk_picture_make(stk_row *x, stk_error *err); /* the make() of a stk_row_work */
/* 1: the picture that x->output shares with others is decoded. */
int stk_picture_is_there(const stk_row *x); /* row_picture.c */
/* Widens `need` by what later outputs that share this picture will see. */
void stk_picture_look_ahead(stk_row *x, const stk_image_info *info, stk_rect *need);
/* Stores size and turn of x->output's picture for outputs that follow it.  A follower gets its
 * leader's turn; its size must be equal. */
int stk_picture_note_size(const stk_row *x, const stk_image_info *info, unsigned *turn,
                          stk_image_info *upright, stk_error *err);
/* Stores the shape of a row whose size varies.  STK_ELIMIT: more than max_pixels. */
int stk_picture_note_shape(const stk_row *x, const stk_view *v, stk_error *err);
/* row_know.c, the step know() of a picture of which all bytes are read: takes what the index
 * stores about it. */
void stk_picture_know_whole(stk_row *x);
/* The same, but takes at most the first `most` bytes of the stored points. */
void stk_picture_know_some(stk_row *x, uint32_t most);
/* 1: ranges of a field with seek points may be read. */
int stk_row_may_read_parts(const stk_row *x);
/* 1: the ranges a decoder asked for ascend and are inside a field of `len` bytes. */
int stk_row_ranges_fit(const stk_ranged *g, uint64_t len);
int stk_picture_check(const stk_row *x, const stk_image_info *info, stk_error *err);
/* Draws the view of a picture of that size, and fills in what to ask the decoder for. */
int stk_picture_look(const stk_row *x, const stk_image_info *info, stk_draws *d,
                     stk_decode_request *ask, stk_error *err);
/* The same for all views: draws (in scratch memory), and the union of what they see. */
int stk_picture_look_views(const stk_row *x, const stk_image_info *info, stk_draws **d,
                           stk_decode_request *ask, stk_error *err);
/* Draws view `view` of x->output's picture.  An output that follows another gets what that one
 * drew, without changes of pixels. */
int stk_picture_follow(const stk_row *x, const stk_image_info *info, uint32_t view, stk_draws *d,
                       stk_error *err);
/* The same, but stops before the first function of the program. */
int stk_picture_draw(const stk_row *x, const stk_image_info *info, uint32_t view, stk_draws *d,
                     stk_error *err);
/* Applies like() to numbers of x->output: moves points and boxes, drops those outside the
 * picture. */
int stk_boxes_like(stk_row *x, stk_value_row *row, stk_error *err);

/* What the worker lends to x->output's codec, whose state is opened at first use. */
int stk_row_parser(stk_row *x, const stk_codec_work **out, stk_error *err);
/* Parses bytes into a row of the planned shape, or of the shape that shape() returned. */
static inline int stk_row_parse(stk_row *x, stk_bytes in, void *dst, stk_error *err)
{
    const stk_step *s = stk_row_chain(x)->parse;
    const stk_codec_work *work = &x->m->work;

    if (s->codec->open)
        STK_TRY(stk_row_parser(x, &work, err));
    return s->codec->parse(s->state, work, in, dst, err);
}
/* True when truncate() applies after like(), to the entries that stayed. */
int stk_boxes_cut_late(const stk_chain *c);
/* row_call.c: numbers of x->output before like(), for a chain with functions. */
int stk_call_first(stk_row *x, stk_value_row *row, stk_error *err);
/* row_boxes.c: the boxes of an output, for the chain of the picture that they belong to. */
int stk_boxes_read(const stk_row *x, uint32_t output, stk_boxes **out, stk_error *err);
/* Writes the picture to dst with the type, layout and color of `spec`. */
int stk_picture_array(stk_row *x, stk_draws *d, const stk_pixels *pixels, const stk_spec *spec,
                      void *dst, stk_error *err);
/* row_deep.c: the same for a picture of 16 bits. */
int stk_deep_row(stk_row *x, const stk_draws *d, const stk_pixels *pixels, const stk_spec *spec,
                 void *dst, stk_error *err);
int stk_picture_sample(stk_row *x, stk_draws *d, const stk_sample_job *job, stk_error *err);
int stk_picture_place(stk_row *x, stk_sample_job *job, stk_error *err); /* into the batch */
int stk_tile_sample(stk_row *x, stk_draws *d, const stk_sample_job *job, stk_error *err);
/* row_value.c: the shape and size in bytes that a sample's header gives. */
int stk_value_shape(const stk_row *x, stk_bytes in, stk_spec *spec, size_t *size, stk_error *err);
/* The sample's numbers as its codec parses them, in scratch memory, which is not reset before. */
int stk_value_parse(stk_row *x, stk_value_row *row, stk_error *err);
int stk_value_put(stk_row *x, const stk_value_row *row, stk_error *err); /* into the batch */
/* The random numbers of a step for x->output's row. */
void stk_value_rng(const stk_row *x, const stk_step *s, stk_rng *rng);
/* row_sound.c: the part of a recording that the chain reads, at the rate it asks for. */
int stk_sound_value(stk_row *x, stk_value_row *row, stk_error *err);
/* Applies one step to the numbers.  Steps for pictures and codecs have no effect. */
int stk_value_step(stk_row *x, const stk_step *s, stk_value_row *row, stk_error *err);
/* Functions before views() are called once for all views; d: the draws of each view. */
int stk_call_before_views(stk_row *x, stk_draws *d, stk_pixels *px, stk_error *err);
/* STK_ECORRUPT: the row is longer than the length known for its sample. */
int stk_value_check(const stk_row *x, int64_t len, stk_error *err);

/* 1: rows of this chain are values as stored, which make_run() copies. */
int stk_row_runs(const stk_chain *c);

/* row_length.c: rows are only measured; stores this one's length, with the patches of its
 * pictures. */
int stk_length_note(const stk_row *x, int64_t len);
/* row_picture.c: the size of the picture in x->req->want[x->output].bytes after its geometry. */
int stk_picture_size(stk_row *x, uint32_t size[2], stk_error *err);
/* row_pictures.c: the grids of an output's pictures in the current row.  NULL: no memory. */
stk_grid_list *stk_row_grids_of(stk_row *x, uint32_t output, stk_error *err);
/* 1: lengths are measured, and the size of this output's pictures is random.  Then each counts as
 * the most that its rule gives, since another epoch draws another size. */
int stk_row_counts_most(const stk_plan *p, uint32_t output);
/* row_image_tokens.c: replaces *row, the tokens of a text, by the tokens of text and pictures. */
int stk_row_image_tokens(stk_row *x, const stk_step *s, stk_value_row *row, stk_error *err);
/* row_packed.c: puts the part x->piece of a sample's numbers in its place. */
int stk_packed_put(stk_row *x, const stk_value_row *row, stk_error *err);
/* 1: the output gives positions, documents or a mask, so values are not needed. */
int stk_packed_count(const stk_row *x);
/* A finish(): fills the rest of each packed row. */
int stk_packed_finish(const stk_plan *plan, stk_batch *b, uint32_t output, const uint32_t *used,
                      stk_error *err);

/* row_learn.c: seek points found while running.  look() gives a field points that an earlier epoch
 * found, or marks it to have them found.  from() makes and stores them after it was decoded. */
void stk_learn_look(const stk_plan *p, stk_request *r, uint32_t output);
void stk_learn_from(stk_row *x, const stk_decoder *decoder, void *ctx);

/* ---- figures ---- */

static inline void stk_count(_Atomic uint64_t *c, uint64_t n)
{
    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

/* Counts a stage of one row that took `ticks`. */
static inline void stk_took(stk_maker *m, stk_stage_id stage, uint64_t ticks)
{
    uint32_t k = 63 - (uint32_t)__builtin_clzll(ticks | 1);
    _Atomic uint32_t *c = &m->count.times[stage][k < STK_TIMES ? k : STK_TIMES - 1];

    atomic_store_explicit(c, atomic_load_explicit(c, memory_order_relaxed) + 1,
                          memory_order_relaxed);
}

/* Notes a span of `stage` for a trace, with the ticket of count.doing. */
static inline void stk_note_span(stk_maker *m, stk_stage_id stage, uint64_t from, uint64_t to)
{
    stk_spans *s = atomic_load_explicit(&m->spans, memory_order_acquire);
    uint64_t doing;

    if (__builtin_expect(!s, 1) || to <= from)
        return;
    doing = atomic_load_explicit(&m->count.doing, memory_order_relaxed);
    stk_spans_note(s, (uint64_t)stage << 48 | (doing & (((uint64_t)1 << 48) - 1)), from, to);
}

/* Counts the time since the last call, except its last `less` ticks, as time of `stage`.  Returns
 * how many ticks were counted. */
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

/* Counts all of the time since the last call. */
static inline uint64_t stk_stage_time(stk_maker *m, stk_stage_id stage)
{
    return stk_stage_time_less(m, stage, 0);
}

/* The same for time that one row took: it is counted in the histogram, too. */
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

/* Records that the worker runs `stage` of `ticket` since the last counted time; reads no clock. */
static inline void stk_does(stk_maker *m, stk_stage_id stage, uint64_t ticket)
{
    atomic_store_explicit(&m->count.since, m->last, memory_order_relaxed);
    atomic_store_explicit(&m->count.doing, (uint64_t)stage << 48 | ticket, memory_order_relaxed);
}

/* The same for the ticket that the worker is at. */
static inline void stk_does_next(stk_maker *m, stk_stage_id stage)
{
    uint64_t now = atomic_load_explicit(&m->count.doing, memory_order_relaxed);

    stk_does(m, stage, now & (((uint64_t)1 << 48) - 1));
}

#endif
