/* SPDX-License-Identifier: Apache-2.0 */
/* video_info.h - what the tables of a video say, for the tools that show it. */
#ifndef STOKER_TOOLS_VIDEO_INFO_H
#define STOKER_TOOLS_VIDEO_INFO_H

#include <stoker/tools.h>

#include "codec/decoders.h"

/* head: the first bytes of what `read` reads, or all; NULL: they are read.  STK_END: it is no
 * container of videos.  STK_ECORRUPT: one that has no video, or is torn. */
int stk_video_tell(stk_decoders *d, stk_scratch *scratch, const stk_media_reader *read,
                   const stk_bytes *head, stk_video_info *out, stk_error *err);

#endif
