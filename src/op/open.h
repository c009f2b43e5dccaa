/* SPDX-License-Identifier: Apache-2.0 */
/* open.h - the argument of the step `open`: the folder that the names of files are relative to.
 * The request that reads those files uses it. */
#ifndef STOKER_CODEC_OPEN_H
#define STOKER_CODEC_OPEN_H

typedef struct stk_open_state {
    char root[1024]; /* absolute; "": the folder of the manifest */
} stk_open_state;

#endif
