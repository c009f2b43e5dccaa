/* SPDX-License-Identifier: Apache-2.0 */
/* mediafile.h - the file HASH.media beside the index: the size and length of every picture, video
 * and recording.  Plans read it to know sizes without decoding; column/media_sizes.c makes it.
 *
 * It has a record for each media field of each sample.  It is not a section of the index, so that
 * it can be made later and be deleted; docs/formats/index.md has the layout.  Records of one shard
 * and one field name are a column.  If a shard has changed since, or its records are damaged,
 * stk_mediafile_has() says that it has none, and they are made again. */
#ifndef STOKER_MEDIAFILE_H
#define STOKER_MEDIAFILE_H

#include "base/err.h"

#define STK_MEDIA_NAMES 4096u /* most names of media fields in a shard; others have no records */

typedef struct stk_media_rec { /* record of one field; kind 0: there is none, or it is no media */
    uint64_t units;            /* frames, or samples per channel; 1 for a picture */
    int64_t duration_us;
    uint32_t width, height; /* pixels as stored, before `turn` */
    uint32_t rate;          /* sound: samples per second */
    uint16_t channels;
    uint8_t kind; /* stk_medium + 1 */
    uint8_t turn; /* EXIF orientation, 1 to 8; 0: not known */
} stk_media_rec;

typedef struct stk_media_shard { /* identifies a shard; on disk */
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
/* The same for the content of such a file in memory.  Takes `data`, on failure too. */
int stk_mediafile_take(stk_mediafile **out, uint8_t *data, size_t len, stk_error *err);
void stk_mediafile_close(stk_mediafile **m);

/* Number of this shard in the file, if it has valid records; UINT64_MAX: it has none. */
uint64_t stk_mediafile_match(const stk_mediafile *m, const stk_media_shard *s);
/* 1: shard number `i` of the file is this one, and its records are valid. */
int stk_mediafile_has(const stk_mediafile *m, uint64_t i, const stk_media_shard *s);
uint64_t stk_mediafile_shards(const stk_mediafile *m);
const char *stk_mediafile_name(const stk_mediafile *m, uint32_t i); /* field i; NULL after all */
/* Name of column i, such as FIELD.width or FIELD.height; NULL after the last. */
const char *stk_mediafile_figure(const stk_mediafile *m, uint32_t i);
stk_media_column stk_mediafile_column(const stk_mediafile *m, uint64_t shard, const char *name);

/* ---- writing ---- */

typedef struct stk_media_field { /* records of a field */
    char *name;
    stk_media_rec *rec; /* by row, until stk_media_records_end() */
    uint8_t *packed;    /* after that: as the file has them */
    uint32_t width;     /* bytes of a packed record */
} stk_media_field;

typedef struct stk_media_records { /* of one shard.  Zeros: none.  Thread: one. */
    stk_media_shard shard;
    uint32_t n, cap;
    stk_media_field *field;
} stk_media_records;
int stk_media_records_put(stk_media_records *r, const char *name, uint64_t row,
                          const stk_media_rec *rec, stk_error *err);
int stk_media_records_end(stk_media_records *r, stk_error *err); /* call after the last put() */
/* Instead of put() and end(): copies the records of shard `from` of another file. */
int stk_media_records_copy(stk_media_records *r, const stk_mediafile *old, uint64_t from,
                           stk_error *err);
void stk_media_records_fini(stk_media_records *r);
/* Sets *out to the content of a file with these shards, stk_alloc()ed. */
int stk_mediafile_make(const stk_media_records *shard, uint64_t n, uint8_t **out, size_t *len,
                       stk_error *err);

#endif
