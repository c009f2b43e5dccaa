/* SPDX-License-Identifier: Apache-2.0 */
/* media_sizes.h - the sizes of the pictures, videos and recordings of a data set, without decoding
 * them: from HASH.media, which is made when it is first needed.  Plans of batches by size, columns
 * such as jpg.width, and `stoker index` call it.
 *
 * The sizes stay in memory until the data set is closed. */
#ifndef STOKER_MEDIA_SIZES_H
#define STOKER_MEDIA_SIZES_H

#include "data/data.h"
#include "index/mediafile.h"

typedef struct stk_media_making {
    uint32_t workers;
    int force;                /* make sizes again that exist already */
    stk_progress_fn progress; /* called with the number of samples; may be NULL */
    void *progress_cookie;
} stk_media_making;

/* The sizes, if they exist for all shards; NULL: they have to be made. */
const stk_mediafile *stk_media_found(stk_dataset *ds);
/* The same, but makes missing sizes: it reads the first bytes of every field once. */
int stk_media_sizes(stk_dataset *ds, const stk_media_making *how, const stk_mediafile **out,
                    stk_error *err);

/* ---- columns: jpg.width, mp4.units ---- */

typedef struct stk_media_what { /* one number of a media field, such as its width */
    char field[256];
    uint32_t figure; /* which number: width, height, units ... (media_sizes.c) */
} stk_media_what;

/* 1: the name (FIELD.width) is a number of a media field; sets *out.  0: it is not.  If the data
 * set has no sizes yet, it looks at some samples.  Or an error. */
int stk_media_is_column(stk_dataset *ds, const char *name, stk_media_what *out, stk_error *err);
int stk_media_chunk(const stk_mediafile *m, const stk_media_what *what, uint64_t shard,
                    uint64_t rows, stk_chunk *out, stk_error *err);

/* ---- media_look.c: one sample ---- */

typedef struct stk_media_look stk_media_look; /* Thread: one. */
typedef int (*stk_media_take_fn)(void *cookie, const char *field, const stk_media_rec *rec,
                                 stk_error *err);

int stk_media_look_open(stk_media_look **out, stk_dataset *ds, stk_error *err);
void stk_media_look_close(stk_media_look **l);
/* Calls take() for each media field of sample `id` whose size can be read.  only: looks at this
 * field alone; NULL: at all. */
int stk_media_look_at(stk_media_look *l, uint64_t id, const char *only, stk_media_take_fn take,
                      void *cookie, stk_error *err);

#endif
