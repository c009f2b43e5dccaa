/* SPDX-License-Identifier: Apache-2.0 */
/* h264.h - which frames of H.264 the wanted ones depend on, by the headers of their slices, and a
 * cheap frame in place of one that they do not.
 *
 * A frame to which nothing refers can be left out.  One that others may refer to can't: it has its
 * place among the references, and numbers of references are counted from it.  But where no wanted
 * frame depends on it, its pixels do not matter.  So another frame is sent in its place, with its
 * numbers and its marking of references, which copies the frame before it: decoders do that in a
 * fraction of the time.  Lists of references, and so the wanted frames, stay as they were, by the
 * standard alone. */
#ifndef STOKER_VIDEO_H264_H
#define STOKER_VIDEO_H264_H

#include "base/mem.h"
#include "codec/codec.h"

#define STK_H264_REFS 16u
#define STK_H264_RUN 16384u /* packets of a run that are looked at */
#define STK_H264_COPY 512u  /* bytes that a frame which copies takes at most */
#define STK_H264_MORE 32u   /* bytes by which a setup grows */

typedef struct stk_h264 { /* what the sets of a stream say; frames of it are not fields */
    uint32_t num_bits, poc_bits;
    uint32_t refs; /* pictures that stay, at most */
    uint32_t mbs, chroma, sps_id, pps_id;
    uint32_t order_present, weighted, biweighted;
    uint32_t active[2]; /* references of a slice that does not say how many */
    stk_bytes sps, pps; /* in the setup */
    size_t sets_end;    /* where the setup can have another pps */
} stk_h264;

typedef struct stk_h264_move { /* of a list of references */
    uint32_t op, by;
} stk_h264_move;

typedef struct stk_h264_slice {
    uint32_t first, type; /* type: 0 P, 1 B, 2 I */
    uint32_t idr, is_ref; /* is_ref: nal_ref_idc */
    uint32_t num, lsb;
    int32_t bottom;
    uint32_t active[2], n_moves[2], n_unmark, adaptive;
    stk_h264_move move[2][STK_H264_REFS + 1];
    uint32_t unmark[STK_H264_REFS + 1];
} stk_h264_slice;

/* h264_head.c */

/* STK_END: a stream whose frames can't be told apart here; every frame may be needed. */
int stk_h264_sets(stk_h264 *h, stk_bytes setup);
/* The setup with what frames that copy need; `to` has room for STK_H264_MORE bytes more. */
size_t stk_h264_setup(const stk_h264 *h, stk_bytes setup, uint8_t *to);
/* The next slice of a packet.  STK_END: there is none; STK_ENOTSUP: it can't be read. */
int stk_h264_next(const stk_h264 *h, stk_bytes *packet, stk_h264_slice *s);
/* A packet that copies, in place of the one that begins with this slice; its bytes. */
size_t stk_h264_copy(const stk_h264 *h, const stk_h264_slice *s, uint8_t to[STK_H264_COPY]);

/* h264_refs.c: need[i], 1 where a packet is wanted, becomes 1 for all that have to be decoded for
 * these.  The first one begins the run.  STK_END: it can't be told. */
int stk_h264_needed(const stk_h264 *h, const stk_bytes *packet, uint32_t n, uint8_t *need,
                    stk_scratch *scratch);

#endif
