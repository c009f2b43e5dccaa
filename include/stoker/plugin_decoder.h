/* SPDX-License-Identifier: Apache-2.0 */
/* plugin_decoder.h - the table of a decoder of pictures, video or sound, which is chosen by
 * content.  Part of plugin.h.
 *
 * A row draws before it reads.  What the index stores about a field, its *points*, says how large
 * it is (know) and which of its bytes hold what was drawn (ranges); only those are read and
 * decoded.  A field without points is read whole, and header() says how large it is.  The pixels
 * are the same either way.
 *
 * UNSTABLE, as plugin.h is. */
#ifndef STOKER_PLUGIN_H
#include <stoker/plugin.h> /* which includes this where its own types are known */
#elif !defined(STOKER_PLUGIN_DECODER_H)
#define STOKER_PLUGIN_DECODER_H

#ifdef __cplusplus
extern "C" {
#endif

#define STK_MEDIA_RANGES 8 /* ranges of one field; a decoder joins what it needs into as many */

typedef struct stk_rect {
    uint32_t x, y, w, h;
} stk_rect;

typedef enum stk_lane { /* how a picture was decoded; counted in stats() */
                        STK_LANE_PLAIN,
                        STK_LANE_SEEK,     /* from its points */
                        STK_LANE_MISFIT,   /* its points did not fit: decoded without them */
                        STK_LANE_FALLBACK, /* not what the fast decoder reads */
                        STK_LANES
} stk_lane;

typedef enum stk_medium { STK_PICTURE, STK_VIDEO, STK_SOUND } stk_medium;

typedef struct stk_media_points { /* what the index keeps of a field */
    stk_bytes head;               /* no data: nothing is kept */
    /* More of them, as needed: `len` bytes from byte `at` on, valid until the next call.  NULL: the
     * head is all. */
    int (*slice)(void *cookie, uint64_t at, uint32_t len, stk_bytes *out, stk_error *err);
    void *cookie;
} stk_media_points;

typedef struct stk_media_info { /* of one track; a picture is one track */
    stk_medium medium;
    uint32_t tracks;         /* of the field */
    uint32_t width, height;  /* as stored */
    uint32_t turn;           /* that makes it upright: EXIF's 1 to 8; 0: not known */
    uint32_t rate, channels; /* of sound; rate: samples per second */
    uint64_t units;          /* frames, or samples per channel; 1 for a picture */
    int64_t first_us, duration_us;
    uint64_t session_bytes; /* memory that a session takes */
} stk_media_info;

typedef struct stk_media_ask { /* what is wanted of one track */
    uint32_t track;
    stk_rect need; /* of every frame, as stored */
    int index;     /* palette indices, in R, G and B alike; one of several channels is refused */
    /* Values of one channel of 16 bits, as STK_PLANES_DEEP.  What has 8 bits is refused. */
    int deep;
    int high_byte; /* one channel of 16 bits becomes 8 by its high byte; else it is refused */
    const uint64_t *frame; /* of video: in the order in which they are shown, each once */
    uint32_t n_frames;
    uint64_t from, to; /* of sound: samples, `to` not included */
} stk_media_ask;

typedef struct stk_media_range { /* bytes of a field */
    uint64_t offset, len;
} stk_media_range;

typedef struct stk_media_part { /* bytes of a field that were read */
    uint64_t offset;            /* of bytes.data in the field */
    stk_bytes bytes;
} stk_media_part;

typedef enum stk_planes_kind {
    STK_PLANES_RGBX, /* data[0]: R, G, B and one more byte for each pixel */
    STK_PLANES_DEEP, /* data[0]: one value of 16 bits for each pixel, as uint32_t */
    STK_PLANES_YUV,  /* data[0..2]: Y, U, V */
    STK_PLANES_NV12  /* data[0]: Y, data[1]: U and V in turn */
} stk_planes_kind;

typedef struct stk_planes { /* pixels of one frame, or some of its rows */
    stk_planes_kind kind;
    uint32_t bits;                       /* of a value: 8, 10, 12, 16 */
    uint32_t half_x, half_y;             /* 1: U and V have half as many columns, rows */
    uint32_t matrix, full_range, siting; /* of YUV, by the numbers of H.273 */
    const uint8_t *data[3];              /* of pixel (area.x, area.y) */
    size_t stride[3];
    stk_rect area; /* covers what was asked for, may be wider */
    stk_lane lane;
} stk_planes;

typedef struct stk_media_sink { /* who takes what is decoded */
    void *cookie;
    /* Frame number i of ask->frame; 0 for a picture.  Its memory is in scratch memory, or valid
     * during the call only, as the decoder's help says; for pictures it is in scratch memory. */
    int (*frame)(void *cookie, uint32_t i, int64_t time_us, const stk_planes *p, stk_error *err);
    /* NULL, or: rows of a picture's `need` from top to bottom, used while they are in the cache.
     * Their area is as wide as `need`; their memory is used again after the call; rows that begin
     * at need.y begin the picture again.  frame() follows with no data.  A decoder may pay no
     * attention, and give all pixels to frame(). */
    void (*rows)(void *cookie, const stk_planes *p);
    /* n samples of every channel, from sample number `first` on. */
    int (*sound)(void *cookie, uint64_t first, const float *const *channel, uint32_t n,
                 stk_error *err);
    stk_lane *lane; /* set by decode(), also where it fails */
} stk_media_sink;

typedef struct stk_media_reader { /* a field while its points are made */
    void *cookie;
    uint64_t size;
    /* Bytes [at, at + len), valid until the next call. */
    int (*read)(void *cookie, uint64_t at, size_t len, stk_bytes *out, stk_error *err);
} stk_media_reader;

typedef struct stk_media_job { /* one call of decode() */
    void *session;             /* of start(); or NULL */
    const stk_media_points *points;
    const stk_media_ask *ask;
    const stk_media_part *part; /* ascending */
    uint32_t n_parts;
    const stk_media_sink *sink;
    stk_scratch *scratch;
} stk_media_job;

enum { STK_DECODER_GPU = 1 /* OWN: the GPU can decode what it has read the header of */ };

typedef struct stk_decoder { /* chosen by content; one context per worker */
    uint32_t abi, size;
    const char *name, *help;
    int (*probe)(stk_bytes head); /* are these the first bytes of such a field?  0 or 1 */
    int (*open)(void **ctx, stk_error *err);
    void (*close)(void *ctx);
    /* What its bytes say of the field.  Where only that is wanted they may be the first ones, of
     * which a decoder says the same as of all, or fails. */
    int (*header)(void *ctx, stk_bytes in, const stk_media_points *p, stk_media_info *out,
                  stk_error *err);
    /* What job->ask wants, of the parts that were read.  One part from offset 0 on is the whole
     * field; decode() then follows header() on the same bytes.  STK_ESTALE, of fewer bytes: they
     * are not what the points describe, and the field is read whole. */
    int (*decode)(void *ctx, const stk_media_job *job, stk_error *err);
    uint32_t can;
    /* ---- points; a decoder without them leaves the rest NULL ---- */
    char tag; /* the first byte of its points, by which they are known */
    /* Before a byte of the field is read: what the points say of a track. */
    int (*know)(const stk_media_points *p, uint32_t track, stk_media_info *out, stk_error *err);
    /* Which bytes hold what `ask` wants, given a session that is at `session_at` (UINT64_MAX: there
     * is none).  *n 0: all of them are needed.  NULL: always. */
    int (*ranges)(const stk_media_points *p, const stk_media_ask *ask, uint64_t session_at,
                  stk_media_range out[STK_MEDIA_RANGES], uint32_t *n, stk_error *err);
    /* Points of a field, in scratch memory.  STK_ECORRUPT: there are none that help. */
    int (*points)(void *ctx, const stk_media_reader *read, stk_scratch *scratch, stk_bytes *out,
                  stk_error *err);
    /* A decoding session of one track, which decode() is given; NULL: it needs none. */
    int (*start)(const stk_media_points *p, uint32_t track, void **session, stk_error *err);
    void (*stop)(void *session);
    /* What header() says of the field if nothing in it is damaged, by the few bytes that say it;
     * STK_END: they do not.  NULL: header() has to see all of them. */
    int (*measure)(void *ctx, const stk_media_reader *read, stk_media_info *out, stk_error *err);
    /* 1: these points were made of this field.  NULL: they are what points() makes of it. */
    int (*fits)(const stk_media_points *p, const stk_media_reader *read);
} stk_decoder;

#ifdef __cplusplus
}
#endif

#endif
