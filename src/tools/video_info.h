/* SPDX-License-Identifier: Apache-2.0 */
/* video_info.h - reads what the tables of a video say.  Tools that show it call it (`stoker cat`,
 * stoker.video_info()). */
#ifndef STOKER_TOOLS_VIDEO_INFO_H
#define STOKER_TOOLS_VIDEO_INFO_H

#include <stoker/tools.h>

#include "codec/decoders.h"

/* head: the first bytes of what `read` reads, or all of it; NULL: they are read here.  STK_END: it
 * is not a container of videos.  STK_ECORRUPT: it has no video, or is cut off. */
int stk_video_tell(stk_decoders *d, stk_scratch *scratch, const stk_media_reader *read,
                   const stk_bytes *head, stk_video_info *out, stk_error *err);

#endif
