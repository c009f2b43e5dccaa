/* SPDX-License-Identifier: Apache-2.0 */
/* track.h - the table of the frames of one video track, as its container lists them.  The readers
 * of containers (mp4*.c, matroska*.c) fill it, and video_points.c packs it.
 *
 * Frames are in decode order, which is the order of their packets.  A frame has a number in that
 * order, its decode number, and a show number: its place among all frames that are shown.  Times
 * are show times, with edit lists applied, in units of num / den seconds. */
#ifndef STOKER_VIDEO_TRACK_H
#define STOKER_VIDEO_TRACK_H

#include "base/err.h"
#include "base/mem.h"

#define STK_VIDEO_FRAMES (1u << 22) /* frames of a track: 38 hours at 30 per second */
#define STK_VIDEO_SETUP (1u << 20)  /* bytes of a codec's setup */
#define STK_VIDEO_TABLES (1u << 28) /* bytes of a container's tables */
#define STK_VIDEO_PACKET (1u << 28) /* bytes of one frame's packet */
#define STK_VIDEO_SIDE (1u << 15)   /* pixels of a side */

typedef enum stk_video_codec { /* on disk */
                               STK_VIDEO_OTHER,
                               STK_VIDEO_H264,
                               STK_VIDEO_HEVC,
                               STK_VIDEO_VP8,
                               STK_VIDEO_VP9,
                               STK_VIDEO_AV1,
                               STK_VIDEO_MPEG4,
                               STK_VIDEO_MJPEG,
                               STK_VIDEO_CODECS
} stk_video_codec;
const char *stk_video_codec_name(stk_video_codec codec);

typedef enum stk_sound_coding {
    STK_CODING_OTHER,
    STK_CODING_AAC,
    STK_CODING_MP3,
    STK_CODING_AC3,
    STK_CODING_EAC3,
    STK_CODING_ALAC,
    STK_CODING_FLAC,
    STK_CODING_OPUS,
    STK_CODINGS
} stk_sound_coding;

/* What the container says about a sound track; 0: it does not say. */
typedef struct stk_track_sound {
    int wanted; /* true if the table is for a sound track, not for a video */
    stk_sound_coding coding;
    uint64_t skip_num, skip_den; /* seconds at the beginning that are left out; den 0: none */
    uint64_t keep_num, keep_den; /* seconds that come after them; den 0: all except pad_ns */
    uint64_t pad_ns;             /* nanoseconds at the end that are left out */
    int64_t first_us;            /* when the first sample that is not left out is heard */
} stk_track_sound;

enum { /* stk_video_frame.flags */
       STK_FRAME_KEY = 1,
       STK_FRAME_HIDDEN = 2 /* decoded but never shown: an edit list leaves it out */
};

typedef struct stk_video_frame {
    uint64_t at; /* offset of its packet in the field */
    int64_t time;
    uint32_t size;
    uint32_t flags;
} stk_video_frame;

typedef struct stk_video_track { /* Thread: one. */
    stk_video_codec codec;
    char fourcc[33]; /* the container's name of the codec */
    uint32_t number; /* number of the track in its file, as the container counts */
    uint32_t tracks; /* video tracks of the file */
    uint32_t width, height;
    uint32_t turn;                      /* EXIF orientation, 1 to 8 */
    uint32_t num, den;                  /* times are in units of num / den seconds */
    uint8_t matrix, full_range, siting; /* numbers of H.273; 2, 0 and 0: not known */
    int64_t last_len;                   /* how long the last frame is shown */
    uint64_t field;                     /* bytes of the field */
    uint8_t *setup;
    uint32_t setup_len;
    stk_video_frame *frame;
    uint32_t n, cap;
    uint32_t *show; /* decode numbers of the frames that are shown, by their show number */
    uint32_t shown, show_cap;
    stk_track_sound sound; /* see sound_track.h */
} stk_video_track;

/* Empties the table; its memory is used again. */
void stk_video_track_begin(stk_video_track *t);
void stk_video_track_fini(stk_video_track *t);
int stk_video_track_reserve(stk_video_track *t, uint64_t frames, stk_error *err);
int stk_video_track_setup(stk_video_track *t, stk_bytes setup, stk_error *err);
static inline int stk_video_track_add(stk_video_track *t, const stk_video_frame *f, stk_error *err)
{
    if (t->n == t->cap)
        STK_TRY(stk_video_track_reserve(t, (uint64_t)t->n + 1, err));
    t->frame[t->n++] = *f;
    return 0;
}
/* Call after all frames were added: finds which are shown, and in which order.  STK_ECORRUPT: the
 * track can't be used. */
int stk_video_track_end(stk_video_track *t, stk_error *err);

/* Read the first video track of a file, through `read`. */
int stk_mp4_read(stk_video_track *t, const stk_media_reader *read, stk_error *err);
int stk_matroska_read(stk_video_track *t, const stk_media_reader *read, stk_error *err);
int stk_mp4_probe(stk_bytes head);
int stk_matroska_probe(stk_bytes head);

#endif
