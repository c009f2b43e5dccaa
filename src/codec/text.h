/* SPDX-License-Identifier: Apache-2.0 */
/* text.h - what the text codecs share; it is in base, since manifests are JSON too. */
#ifndef STOKER_CODEC_TEXT_H
#define STOKER_CODEC_TEXT_H

#include "base/json.h"

#endif
