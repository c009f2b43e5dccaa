/* SPDX-License-Identifier: Apache-2.0 */
/* mediafile.h - how large every picture, video and recording is, beside the index: HASH.media.
 *
 * What planning needs to know of media without decoding any: a record for each media field of each
 * sample.  A file of its own and no section of the index, so that it can be made after the index
 * and be thrown away; docs/formats/index.md has the layout.  Records of one shard and one field
 * name are a column.  A shard that is not what it was when its records were made, or whose records
 * are damaged, has none: stk_mediafile_has() says so, and they are made again. */
#ifndef STOKER_MEDIAFILE_H
#define STOKER_MEDIAFILE_H

#include "base/err.h"

#define STK_MEDIA_NAMES 4096u /* media fields of one shard, by name; more have no records */

typedef struct stk_media_rec { /* of one field; kind 0: it has none, or is no media */
    uint64_t units;            /* frames, or samples per channel; 1 for a picture */
    int64_t duration_us;
    uint32_t width, height; /* as stored */
    uint32_t rate;          /* of sound: samples per second */
    uint16_t channels;
    uint8_t kind; /* stk_medium + 1 */
    uint8_t turn; /* that makes it upright, EXIF's 1 to 8; 0: not known */
} stk_media_rec;

typedef struct stk_media_shard { /* by which a shard is known; on disk */
    uint64_t size, print, samples;
} stk_media_shard;

typedef struct stk_media_column { /* records of one shard and field.  Zeros: none */
    const uint8_t *data;
    uint64_t rows;
    uint32_t width; /* bytes of a record */
} stk_media_column;
stk_media_rec stk_media_at(const stk_media_column *c, uint64_t row); /* no record: kind 0 */

typedef struct stk_mediafile stk_mediafile; /* read-only.  Thread: any. */

/* STK_ENOTFOUND: the file does not exist.  STK_ECORRUPT, STK_ENOTSUP, STK_EIO: it exists and can't
 * be used. */
int stk_mediafile_open(stk_mediafile **out, const char *path, stk_error *err);
/* Bytes as such a file has them; they are its own from now on, also on failure. */
int stk_mediafile_take(stk_mediafile **out, uint8_t *data, size_t len, stk_error *err);
void stk_mediafile_close(stk_mediafile **m);

/* The number of the shard that this one is, whose records are sound; UINT64_MAX: none. */
uint64_t stk_mediafile_match(const stk_mediafile *m, const stk_media_shard *s);
/* 1: shard number `i` is this one, and its records are sound. */
int stk_mediafile_has(const stk_mediafile *m, uint64_t i, const stk_media_shard *s);
uint64_t stk_mediafile_shards(const stk_mediafile *m);
const char *stk_mediafile_name(const stk_mediafile *m, uint32_t i); /* fields; NULL past all */
/* Names of columns: FIELD.width and FIELD.height of each; NULL past all. */
const char *stk_mediafile_figure(const stk_mediafile *m, uint32_t i);
stk_media_column stk_mediafile_column(const stk_mediafile *m, uint64_t shard, const char *name);

/* ---- writing ---- */

typedef struct stk_media_field { /* records of a field */
    char *name;
    stk_media_rec *rec; /* while they come */
    uint8_t *packed;    /* then: as a file has them */
    uint32_t width;
} stk_media_field;

typedef struct stk_media_records { /* of one shard.  Zeros: none.  Thread: one. */
    stk_media_shard shard;
    uint32_t n, cap;
    stk_media_field *field;
} stk_media_records;
int stk_media_records_put(stk_media_records *r, const char *name, uint64_t row,
                          const stk_media_rec *rec, stk_error *err);
int stk_media_records_end(stk_media_records *r, stk_error *err); /* all are there */
/* In place of both: what shard `from` of another file has. */
int stk_media_records_copy(stk_media_records *r, const stk_mediafile *old, uint64_t from,
                           stk_error *err);
void stk_media_records_fini(stk_media_records *r);
/* The bytes of a file with these shards, stk_alloc()ed. */
int stk_mediafile_make(const stk_media_records *shard, uint64_t n, uint8_t **out, size_t *len,
                       stk_error *err);

#endif
