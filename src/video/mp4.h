/* SPDX-License-Identifier: Apache-2.0 */
/* mp4.h - one track of an MP4 file while its tables are read.  Shared by the files mp4*.c. */
#ifndef STOKER_VIDEO_MP4_H
#define STOKER_VIDEO_MP4_H

#include "video/mp4_box.h"

#define STK_MP4_EDITS 64u
#define STK_MP4_OTHERS 32u

typedef struct stk_mp4_edit {
    uint64_t len; /* length, in the movie's time scale */
    int64_t from; /* start, in the track's time scale; -1: nothing is shown */
    uint32_t rate;
} stk_mp4_edit;

typedef struct stk_mp4_defaults { /* defaults of fragments: from trex, replaced by tfhd */
    uint32_t duration, size, flags;
} stk_mp4_defaults;

typedef struct stk_mp4 {
    stk_video_track *t;
    uint64_t field;
    uint32_t movie_scale;
    int32_t matrix[4]; /* the movie's matrix, which turns all of its tracks */
    int fragmented;
    uint32_t n_edits;
    stk_mp4_edit edit[STK_MP4_EDITS];
    stk_mp4_defaults trex;
    uint32_t n_others; /* default sizes of other tracks, which are needed to find offsets */
    struct {
        uint32_t track, size;
    } other[STK_MP4_OTHERS];
    uint64_t next_dts; /* decode time of the next fragment, if it has no tfdt */
} stk_mp4;

/* mp4_entry.c: reads an stsd box of video: codec, size, setup and colors. */
int stk_mp4_entry(stk_video_track *t, stk_mp4_in in, stk_error *err);
/* Length of an MPEG-4 descriptor. */
uint32_t stk_mp4_descriptor(stk_mp4_in *in, uint8_t *tag);
/* mp4_sound.c: reads an stsd box of sound: coding and setup. */
int stk_mp4_sound_entry(stk_video_track *t, stk_mp4_in in, stk_error *err);
/* Sets which samples are the recording, by the edit lists. */
int stk_mp4_sound_edits(stk_mp4 *m, stk_error *err);
/* mp4_fragment.c: reads a moof box; at: its offset in the file. */
int stk_mp4_fragment(stk_mp4 *m, stk_mp4_in in, uint64_t at, stk_error *err);
/* mp4.c: the defaults of another track; zeros: it has none. */
stk_mp4_defaults stk_mp4_defaults_of(const stk_mp4 *m, uint32_t track);
/* mp4_edit.c: call after all frames were added: turns times into show times, by the edit lists. */
int stk_mp4_edits(stk_mp4 *m, stk_error *err);

#endif
