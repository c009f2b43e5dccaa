/* SPDX-License-Identifier: Apache-2.0 */
/* annotated_folder.h - for fuzz targets of annotated pictures (Pascal VOC, YOLO): indexes the
 * folder that the target has written, and checks every sample and every error. */
#ifndef STOKER_FUZZ_ANNOTATED_FOLDER_H
#define STOKER_FUZZ_ANNOTATED_FOLDER_H

#include "data/data.h"
#include "folder.h"

static const stk_format *fuzz_format; /* that fuzz_index() indexes with */

/* Every field of a sample, apart from the picture, can be found again, with its size. */
static int fuzz_hear(stk_scan *scan, stk_bytes key, uint64_t offset, const stk_field *f, uint32_t n,
                     stk_error *err)
{
    stk_entry e = { .offset = offset, .n_fields = n, .key = key };

    (void)scan;
    FUZZ_CHECK(key.len && memchr(key.data, 0, key.len) && n >= 5);
    for (uint32_t i = 0; i < n; i++) {
        stk_place p = { 0 };

        if (!strcmp(f[i].name, "image"))
            continue;
        FUZZ_CHECK(fuzz_format->locate(&e, &f[i], &p, err) == 0);
        FUZZ_CHECK(p.here.data && p.here.len == f[i].size);
    }
    return 0;
}

/* It worked, or there is one line that says why not. */
static void fuzz_clean(int rc, const stk_error *err)
{
    FUZZ_CHECK(rc == 0 || (rc < 0 && err->code == rc && err->message[0]));
    FUZZ_CHECK(rc == 0 || rc == STK_ECORRUPT || rc == STK_ELIMIT || rc == STK_ENOTFOUND);
    FUZZ_CHECK(!strchr(err->message, '\n'));
}

static void fuzz_index(const stk_format *format, const char *name)
{
    stk_scan scan = { .sample = fuzz_hear, .name = name };
    stk_error err = { 0 };

    fuzz_format = format;
    fuzz_clean(format->index(NULL, 0, &scan, &err), &err);
}

#endif
