/* SPDX-License-Identifier: Apache-2.0 */
/* request_files.c - files that fields of a sample name, any number of them: the names of a list.
 *
 * They are read between the two stages of a request, some at a time: those are opened, the sizes of
 * remote ones are asked for together, and then all of them are read together.  Each round is a
 * submit() of its own, so a worker that would wait does something else.  Their bytes stay until the
 * request ends, in a buffer of their own that is charged like the others. */
#include <assert.h>
#include <string.h>

#include "base/json.h"
#include "fetch/reads.h"

#define AT_ONCE 64u      /* files of a round ... */
#define LOCAL_AT_ONCE 8u /* ... of which so many are local: each takes a descriptor */
#define NAME_BYTES 4096u
#define LARGE (64 * 1024)

typedef struct stk_round { /* what a request that reads such files has beside its own reads */
    stk_io io[AT_ONCE];
    uint8_t missing[AT_ONCE], byte[AT_ONCE];
    stk_io *own_io; /* the request's */
    uint8_t *own_missing;
} stk_round;

void stk_request_expect_files(stk_request *r)
{
    assert(r->reads.stage != STK_REQUEST_SECOND);
    r->reads.stage = STK_REQUEST_FIRST;
    r->reads.files = 1; /* end() has something to let go of */
}

int stk_request_add_file(stk_request *r, const char *root, stk_bytes name, stk_error *err)
{
    stk_request_files *f = &r->reads.named;

    if (f->n == STK_FILES_MOST)
        return stk_fail(err, STK_ELIMIT, "its lists name over %u files", STK_FILES_MOST);
    if (f->n == f->cap) {
        uint32_t cap = f->cap ? 2 * f->cap : 8;
        stk_list_file *grown = stk_grow(f->list, f->n * sizeof *grown, cap * sizeof *grown);

        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *grown);
        f->list = grown;
        f->cap = cap;
    }
    f->list[f->n++] = (stk_list_file){ .name = name, .root = root };
    return 0;
}

/* ---- one file ---- */

typedef struct named { /* as data/named.c wants it */
    stk_named at;
    stk_place place;
    uint8_t name[NAME_BYTES];
} named;

static int name_of(const stk_request *r, const stk_list_file *l, named *out, stk_error *err)
{
    size_t len;

    out->at = (stk_named){ r->data, r->entry.shard, l->root };
    if (l->name.len > sizeof out->name)
        return stk_fail(err, STK_ELIMIT, "a name of %zu bytes, %u are allowed", l->name.len,
                        NAME_BYTES);
    STK_TRY(stk_json_unquote(l->name, out->name, &len, err));
    out->place = (stk_place){ .name = { out->name, len }, .whole = 1 };
    return 0;
}

/* An error says which file of the sample it was, and has its name. */
static int failed(const stk_request *r, const stk_list_file *l, int rc, stk_error *err)
{
    char text[sizeof err->message];
    named file;

    if (!err)
        return rc;
    if (r->reads.named.n > 1) {
        memcpy(text, err->message, sizeof text);
        rc = stk_fail(err, rc, "file %u of %u that it names: %.200s",
                      (unsigned)(l - r->reads.named.list) + 1, r->reads.named.n, text);
    }
    return name_of(r, l, &file, NULL) == 0 ? stk_named_failed(&file.at, &file.place, rc, err) : rc;
}

static int failed_read(const stk_request *r, const stk_list_file *l, const stk_io *io,
                       stk_error *err)
{
    char text[STK_REASON_MAX];
    int rc = io->rc;

    if (rc < 0)
        stk_fail(err, rc, "reading failed: %s", stk_io_reason(io, text, sizeof text));
    else
        rc = stk_fail(err, STK_ESTALE,
                      "the file ends after %zu of %" PRIu64 " bytes: it was cut while it was read",
                      io->got, l->len);
    return failed(r, l, rc, err);
}

static int open_file(const stk_request *r, stk_list_file *l, stk_error *err)
{
    named file;
    int rc = name_of(r, l, &file, err);

    if (rc == 0)
        rc = stk_named_begin(&file.at, &file.place, &l->file, err);
    return rc < 0 ? failed(r, l, rc, err) : 0;
}

static int size_file(const stk_request *r, stk_list_file *l, stk_error *err)
{
    named file;
    int rc = name_of(r, l, &file, err);

    if (rc == 0)
        rc = stk_named_size(&file.at, &file.place, l->file, err);
    l->len = file.place.len;
    return rc < 0 ? failed(r, l, rc, err) : 0;
}

/* ---- a round ---- */

static void close_open(stk_request_files *f)
{
    for (uint32_t i = f->from; i < f->upto; i++)
        stk_file_close(&f->list[i].file);
    f->from = f->upto;
}

static int open_some(stk_request *r, stk_error *err)
{
    stk_request_files *f = &r->reads.named;
    uint32_t local = 0;

    while (f->upto < f->n && f->upto - f->from < AT_ONCE && local < LOCAL_AT_ONCE) {
        stk_list_file *l = &f->list[f->upto++];

        STK_TRY(open_file(r, l, err));
        local += !(l->file->source->can & STK_SOURCE_REMOTE);
    }
    return 0;
}

static stk_io *add_read(stk_request *r, stk_list_file *l, uint8_t *dst, size_t len)
{
    stk_io *io = &r->reads.io[r->reads.n++];

    *io = (stk_io){ .dst = dst, .len = len, .cookie = r, .file = l->file };
    l->io = r->reads.n - 1;
    r->reads.total += len;
    return io;
}

/* A byte of each file whose size is not known: the answer says it. */
static void ask_sizes(stk_request *r)
{
    stk_request_files *f = &r->reads.named;
    stk_file_info info;

    r->reads.n = 0;
    r->reads.total = 0;
    for (uint32_t i = f->from; i < f->upto; i++) {
        stk_list_file *l = &f->list[i];

        l->asks = l->file->source->submit &&
                  l->file->source->ready(l->file, 0, &info, NULL) == STK_PENDING;
        if (l->asks)
            add_read(r, l, &f->round->byte[i - f->from], 1);
    }
}

static int check_asked(const stk_request *r, stk_error *err)
{
    const stk_request_files *f = &r->reads.named;

    for (uint32_t i = f->from; i < f->upto; i++)
        if (f->list[i].asks && r->reads.io[f->list[i].io].rc < 0)
            return failed_read(r, &f->list[i], &r->reads.io[f->list[i].io], err);
    return 0;
}

/* Room for `need` bytes; those that are there stay. */
int stk_request_files_room(stk_request *r, uint64_t need, stk_error *err)
{
    stk_request_files *f = &r->reads.named;
    size_t cap = (size_t)(need + need / 4 + 4096);
    uint8_t *grown;

    if (need <= f->room_cap)
        return 0;
    r->memory.lacks = f->lacks = need;
    if (need > SIZE_MAX / 4)
        cap = 0;
    else if (!stk_account_take(r->account, cap)) {
        cap = (size_t)need;
        cap = stk_account_take(r->account, cap) ? cap : 0;
    }
    if (!cap)
        return stk_fail(err, STK_ELIMIT,
                        "files that it names are %" PRIu64
                        " bytes, more than memory_limit leaves: raise memory_limit",
                        need);
    grown = stk_large_alloc(cap);
    if (!grown) {
        stk_account_give(r->account, cap);
        return stk_fail_nomem(err, cap);
    }
    if (f->used)
        memcpy(grown, f->room, (size_t)f->used);
    stk_request_files_trim(r);
    f->room = grown;
    f->room_cap = cap;
    f->lacks = 0;
    return 0;
}

static int plan_round(stk_request *r, stk_error *err)
{
    stk_request_files *f = &r->reads.named;
    uint64_t need = f->used;

    for (uint32_t i = f->from; i < f->upto; i++) {
        stk_list_file *l = &f->list[i];

        STK_TRY(size_file(r, l, err));
        l->at = need;
        if (__builtin_add_overflow(need, l->len, &need))
            need = UINT64_MAX;
    }
    STK_TRY(stk_request_files_room(r, need, err));
    r->reads.n = 0;
    r->reads.total = 0;
    for (uint32_t i = f->from; i < f->upto; i++)
        add_read(r, &f->list[i], f->room + f->list[i].at, (size_t)f->list[i].len);
    f->used = need;
    return 0;
}

/* A source that has the bytes in memory gives their address: they are copied. */
static int take_round(stk_request *r, stk_error *err)
{
    stk_request_files *f = &r->reads.named;

    for (uint32_t i = f->from; i < f->upto; i++) {
        stk_list_file *l = &f->list[i];
        stk_io *io = &r->reads.io[l->io];
        int rc;

        if (io->rc < 0 || io->got < l->len)
            return failed_read(r, l, io, err);
        if (io->dst != f->room + l->at)
            memcpy(f->room + l->at, io->dst, (size_t)l->len);
        rc = stk_file_unchanged(l->file, l->len < LARGE, err);
        if (rc < 0)
            return failed(r, l, rc, err);
    }
    close_open(f);
    return 0;
}

static int begin_rounds(stk_request *r, stk_error *err)
{
    stk_request_files *f = &r->reads.named;

    if (!f->round)
        f->round = STK_NEW(stk_round);
    if (!f->round)
        return stk_fail_nomem(err, sizeof *f->round);
    f->round->own_io = r->reads.io;
    f->round->own_missing = r->reads.missing;
    r->reads.io = f->round->io;
    r->reads.missing = f->round->missing;
    r->reads.stage = STK_REQUEST_FILES;
    r->reads.in_parts = 0;
    return 0;
}

static void end_rounds(stk_request *r)
{
    if (r->reads.stage != STK_REQUEST_FILES)
        return;
    r->reads.io = r->reads.named.round->own_io;
    r->reads.missing = r->reads.named.round->own_missing;
    r->reads.n = 0;
    r->reads.stage = STK_REQUEST_SECOND;
}

/* What came is taken, and the next reads are planned.  STK_END: there are none left. */
static int next_round(stk_request *r, stk_error *err)
{
    stk_request_files *f = &r->reads.named;

    if (f->asking) {
        STK_TRY(check_asked(r, err));
    } else {
        if (f->upto)
            STK_TRY(take_round(r, err));
        if (f->from == f->n)
            return STK_END;
        STK_TRY(open_some(r, err));
        ask_sizes(r);
    }
    f->asking = !f->asking && r->reads.n;
    return f->asking ? 0 : plan_round(r, err);
}

int stk_request_next_files(stk_request *r, stk_error *err)
{
    int rc;

    if (!r->reads.named.n)
        return STK_END;
    if (r->reads.stage != STK_REQUEST_FILES)
        STK_TRY(begin_rounds(r, err));
    rc = next_round(r, err);
    if (rc < 0) {
        rc = stk_request_give_up(r, rc, err);
        r->reads.named.lacks = rc == STK_ELIMIT && r->memory.lacks ? r->reads.named.lacks : 0;
        return rc;
    }
    if (rc == STK_END)
        end_rounds(r);
    return rc;
}

void stk_request_files_end(stk_request *r)
{
    stk_request_files *f = &r->reads.named;

    close_open(f);
    end_rounds(r);
    f->n = f->from = f->upto = 0;
    f->used = 0;
    f->asking = 0;
}

int stk_request_files_trim(stk_request *r)
{
    stk_request_files *f = &r->reads.named;
    int had = f->room_cap != 0;

    stk_large_free(f->room, f->room_cap);
    stk_account_give(r->account, f->room_cap);
    f->room = NULL;
    f->room_cap = 0;
    return had;
}

void stk_request_files_close(stk_request *r)
{
    stk_free(r->reads.named.list);
    stk_free(r->reads.named.round);
}
