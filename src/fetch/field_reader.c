/* SPDX-License-Identifier: Apache-2.0 */
/* field_reader.c - see field_reader.h. */
#include "fetch/field_reader.h"

#include <string.h>

#include "base/mem.h"
#include "fetch/request.h"
#include "source/read_steps.h"
#include "source/source.h"

struct stk_field_reader {
    stk_dataset *ds;
    stk_request *request;
    stk_entry entry;
    uint32_t number;
    stk_bytes whole; /* of a field that is no range */
    uint8_t *bytes;
    size_t cap;
    stk_read_steps steps;
};

int stk_field_reader_open(stk_field_reader **out, stk_dataset *ds, stk_error *err)
{
    stk_field_reader *f = STK_NEW(stk_field_reader);

    *out = f;
    if (!f)
        return stk_fail_nomem(err, sizeof *f);
    f->ds = ds;
    return stk_dataset_request(ds, 1, &f->request, err);
}

void stk_field_reader_close(stk_field_reader **fp)
{
    stk_field_reader *f = *fp;

    *fp = NULL;
    if (!f)
        return;
    stk_dataset_request_done(f->ds, &f->request);
    stk_read_steps_fini(&f->steps);
    stk_free(f->bytes);
    stk_free(f);
}

static int room_for(stk_field_reader *f, uint64_t size, stk_error *err)
{
    if (size <= f->cap)
        return 0;
    stk_free(f->bytes);
    f->cap = 0;
    f->bytes = stk_alloc(size);
    if (!f->bytes)
        return stk_fail_nomem(err, size);
    f->cap = size;
    return 0;
}

static int locate(stk_field_reader *f, stk_error *err)
{
    stk_request *r = f->request;

    stk_request_end(r);
    r->entry = f->entry;
    r->want[0].number = f->number;
    return stk_request_locate(r, 1, err);
}

/* Bytes [at, at + len) of a range, to dst. */
static int fill(void *cookie, uint64_t at, size_t len, uint8_t *dst, stk_error *err)
{
    stk_field_reader *f = cookie;
    stk_request *r = f->request;
    stk_bytes got;

    STK_TRY(locate(f, err));
    r->ranged[0].n = 1;
    r->ranged[0].range[0] = (stk_media_range){ at, len };
    STK_TRY(stk_request_plan_parts(r, err));
    STK_TRY(room_for(f, r->reads.total, err));
    STK_TRY(stk_request_wait(r, f->bytes, err));
    got = r->ranged[0].part[0].bytes;
    if (got.len != len)
        return stk_fail(err, STK_ECORRUPT, "the field ends before its bytes");
    if (dst)
        memcpy(dst, got.data, len);
    return 0;
}

static int read_part(void *cookie, uint64_t at, size_t len, stk_bytes *out, stk_error *err)
{
    stk_field_reader *f = cookie;

    if (!len) {
        *out = (stk_bytes){ (const uint8_t *)"", 0 };
        return 0;
    }
    STK_TRY(fill(f, at, len, NULL, err));
    *out = f->request->ranged[0].part[0].bytes;
    return 0;
}

static int read_here(void *cookie, uint64_t at, size_t len, stk_bytes *out, stk_error *err)
{
    const stk_field_reader *f = cookie;

    if (at > f->whole.len || len > f->whole.len - at)
        return stk_fail(err, STK_ECORRUPT, "the field ends before its bytes");
    *out = (stk_bytes){ f->whole.data + at, len };
    return 0;
}

int stk_field_reader_take(stk_field_reader *f, const stk_entry *e, uint32_t number,
                          stk_media_reader *out, stk_error *err)
{
    stk_request *r = f->request;

    f->entry = *e;
    f->number = number;
    STK_TRY(locate(f, err));
    if (stk_request_has_range(r, 0)) {
        *out = (stk_media_reader){ f, r->want[0].place.len, read_part };
        if (r->want[0].file->source->can & STK_SOURCE_REMOTE) {
            f->steps.fill = fill;
            f->steps.cookie = f;
            stk_read_steps_begin(&f->steps, out->size);
            out->cookie = &f->steps;
            out->read = stk_read_steps_read;
        }
        return 0;
    }
    STK_TRY(stk_request_plan(r, err));
    STK_TRY(room_for(f, r->reads.total, err));
    STK_TRY(stk_request_wait(r, f->bytes, err));
    f->whole = r->want[0].bytes;
    *out = (stk_media_reader){ f, f->whole.len, read_here };
    return 0;
}
