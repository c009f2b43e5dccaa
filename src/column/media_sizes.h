/* SPDX-License-Identifier: Apache-2.0 */
/* media_sizes.h - how large the pictures, videos and recordings of a data set are, without decoding
 * them: from HASH.media, which is made when it is first asked for.
 *
 * A data set keeps what was found until it is closed. */
#ifndef STOKER_MEDIA_SIZES_H
#define STOKER_MEDIA_SIZES_H

#include "data/data.h"
#include "index/mediafile.h"

typedef struct stk_media_making {
    uint32_t workers;
    int force;                /* make again what is there */
    stk_progress_fn progress; /* in samples; may be NULL */
    void *progress_cookie;
} stk_media_making;

/* What is there already, of all shards; NULL: it has to be made. */
const stk_mediafile *stk_media_found(stk_dataset *ds);
/* The same; what lacks is made: one pass over the first bytes of fields. */
int stk_media_sizes(stk_dataset *ds, const stk_media_making *how, const stk_mediafile **out,
                    stk_error *err);

/* ---- columns: jpg.width, mp4.units ---- */

typedef struct stk_media_what { /* a figure of a field */
    char field[256];
    uint32_t figure;
} stk_media_what;

/* 1: the name is a figure of a field whose values are media; looks at some samples where nothing is
 * known yet.  0: it is not.  Or an error. */
int stk_media_is_column(stk_dataset *ds, const char *name, stk_media_what *out, stk_error *err);
int stk_media_chunk(const stk_mediafile *m, const stk_media_what *what, uint64_t shard,
                    uint64_t rows, stk_chunk *out, stk_error *err);

/* ---- media_look.c: one sample ---- */

typedef struct stk_media_look stk_media_look; /* Thread: one. */
typedef int (*stk_media_take_fn)(void *cookie, const char *field, const stk_media_rec *rec,
                                 stk_error *err);

int stk_media_look_open(stk_media_look **out, stk_dataset *ds, stk_error *err);
void stk_media_look_close(stk_media_look **l);
/* Call take() for each media field of sample `id` whose size can be read.  only: NULL, or the one
 * field that matters. */
int stk_media_look_at(stk_media_look *l, uint64_t id, const char *only, stk_media_take_fn take,
                      void *cookie, stk_error *err);

#endif
