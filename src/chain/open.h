/* SPDX-License-Identifier: Apache-2.0 */
/* open.h - what the step `open` leaves for the request that reads the file. */
#ifndef STOKER_CODEC_OPEN_H
#define STOKER_CODEC_OPEN_H

typedef struct stk_open_state {
    char root[1024]; /* absolute; "": the folder of the manifest */
} stk_open_state;

#endif
