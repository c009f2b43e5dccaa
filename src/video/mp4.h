/* SPDX-License-Identifier: Apache-2.0 */
/* mp4.h - what mp4.c, mp4_entry.c and mp4_fragment.c share: one video track of a moov. */
#ifndef STOKER_VIDEO_MP4_H
#define STOKER_VIDEO_MP4_H

#include "video/mp4_box.h"

#define STK_MP4_EDITS 64u
#define STK_MP4_OTHERS 32u

typedef struct stk_mp4_edit {
    uint64_t len; /* of the movie's time scale */
    int64_t from; /* of the track's; -1: nothing is shown */
    uint32_t rate;
} stk_mp4_edit;

typedef struct stk_mp4_defaults { /* of fragments: trex, and tfhd over it */
    uint32_t duration, size, flags;
} stk_mp4_defaults;

typedef struct stk_mp4 {
    stk_video_track *t;
    uint64_t field;
    uint32_t movie_scale;
    int32_t matrix[4]; /* of the movie, that turns all of its tracks */
    int fragmented;
    uint32_t n_edits;
    stk_mp4_edit edit[STK_MP4_EDITS];
    stk_mp4_defaults trex;
    uint32_t n_others; /* trex of other tracks: sizes that place later ones */
    struct {
        uint32_t track, size;
    } other[STK_MP4_OTHERS];
    uint64_t next_dts; /* of fragments without tfdt */
} stk_mp4;

/* mp4_entry.c: a stsd: codec, size, setup and colors. */
int stk_mp4_entry(stk_video_track *t, stk_mp4_in in, stk_error *err);
/* Length of an MPEG-4 descriptor. */
uint32_t stk_mp4_descriptor(stk_mp4_in *in, uint8_t *tag);
/* mp4_sound.c: a stsd of sound: coding and setup. */
int stk_mp4_sound_entry(stk_video_track *t, stk_mp4_in in, stk_error *err);
/* Edit lists say which samples are the recording. */
int stk_mp4_sound_edits(stk_mp4 *m, stk_error *err);
/* mp4_fragment.c: a moof; at: of it in the file. */
int stk_mp4_fragment(stk_mp4 *m, stk_mp4_in in, uint64_t at, stk_error *err);
/* mp4.c: the defaults of another track; zeros: it says none. */
stk_mp4_defaults stk_mp4_defaults_of(const stk_mp4 *m, uint32_t track);
/* mp4_edit.c: all frames are there: edit lists turn times into show times. */
int stk_mp4_edits(stk_mp4 *m, stk_error *err);

#endif
