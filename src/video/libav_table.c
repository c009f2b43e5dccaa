/* SPDX-License-Identifier: Apache-2.0 */
/* libav_table.c - where fields are, by libavcodec's major version.  A row is what
 * tools/libav_offsets.py prints for the headers of that version. */
#include "video/libav.h"

const stk_libav_at stk_libav_table[] = {
    /* FFmpeg 5 */
    { 59,
      57,
      { 8, 88, 96 },
      { 8, 24, 32 },
      { 0, 64, 104, 108, 116, 136, 316, 320, 332, 336, 376 } },
    /* FFmpeg 6 */
    { 60,
      58,
      { 8, 88, 96 },
      { 8, 24, 32 },
      { 0, 64, 104, 108, 116, 136, 316, 320, 332, 336, 376 } },
    /* FFmpeg 7 */
    { 61,
      59,
      { 8, 72, 80 },
      { 8, 24, 32 },
      { 0, 64, 104, 108, 116, 136, 292, 296, 308, 312, 344 } },
    /* FFmpeg 8 */
    { 62,
      60,
      { 8, 72, 80 },
      { 8, 24, 32 },
      { 0, 64, 104, 108, 116, 136, 276, 280, 292, 296, 320 } },
    /* FFmpeg 9 */
    { 63,
      61,
      { 8, 72, 80 },
      { 8, 24, 32 },
      { 0, 64, 104, 108, 116, 136, 276, 280, 292, 296, 320 } },
};
const uint32_t stk_libav_rows = sizeof stk_libav_table / sizeof *stk_libav_table;
