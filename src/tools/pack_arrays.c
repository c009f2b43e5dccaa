/* SPDX-License-Identifier: Apache-2.0 */
/* pack_arrays.c - see pack_arrays.h.
 *
 * A file is written from byte HEAD on, and gets its header when the number of its rows is known:
 * samples that can't be made have no row.  The files of a shard are noted together and then renamed
 * one after the other, so a shard is there when all its files are, with the sizes that the note
 * says. */
#include "tools/pack_arrays.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/json.h"

#define HEAD 256u /* bytes before the rows */
#define BUFFER ((size_t)1 << 20)
#define EMPTY_SHARD 1u /* added to the size in a note, where 0 says that there is none */

/* ---- names ---- */

/* "x-", or with a name of its own "train-x-". */
static void prefix_of(const stk_pack_run *p, const char *field, char *out, size_t size)
{
    const char *name = p->pattern.prefix;
    size_t usual = strlen("shard-");

    snprintf(out, size, "%s%s-", strncmp(name, "shard-", usual) ? name : name + usual, field);
}

#define NAME 512

/* The field's own pattern; borrows, and `name` holds its prefix. */
static stk_shard_pattern pattern_of(const stk_pack_run *p, const char *field, char name[NAME])
{
    static char suffix[] = ".npy";
    stk_shard_pattern x = p->pattern;

    prefix_of(p, field, name, NAME);
    x.prefix = name;
    x.suffix = suffix;
    return x;
}

static char *path_of(const stk_pack_run *p, const char *field, uint64_t k)
{
    char name[NAME];
    stk_shard_pattern x = pattern_of(p, field, name);

    return stk_shard_pattern_at(&x, k);
}

void stk_pack_arrays_pattern(const stk_pack_run *p, const stk_pack_fields *f, char *out,
                             size_t size)
{
    char name[NAME];
    size_t at = (size_t)snprintf(out, size, "%s", p->pattern.dir);
    const char *between = "{";

    for (uint32_t i = 0; i < f->n && at < size; i++)
        if (f->field[i].chain) {
            prefix_of(p, f->field[i].name, name, sizeof name);
            at += (size_t)snprintf(out + at, size - at, "%s%s*.npy", between, name);
            between = ",";
        }
    if (at < size)
        snprintf(out + at, size - at, "}");
}

/* ---- one field's file ---- */

static int failed(const char *path, const char *what, int sys, stk_error *err)
{
    char text[96];
    int rc = sys == ENOMEM ? stk_fail_nomem(err, BUFFER)
                           : stk_fail(err, STK_EIO, "%s: %s%s; nothing half-written stays", what,
                                      stk_is_full(sys) ? "no room: " : "",
                                      strerror_r(sys, text, sizeof text));

    stk_error_at(err, path, STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}

static int rows_flush(stk_rows_out *o, stk_error *err)
{
    if (o->buf.len && stk_atomic_write(&o->file, o->buf.s, o->buf.len, HEAD + o->bytes, NULL) < 0)
        return failed(o->file.path, "can't write the array", o->file.sys, err);
    o->bytes += o->buf.len;
    o->buf.len = 0;
    return 0;
}

static size_t head_of(stk_bytes row)
{
    assert(row.len > 10); /* encode(npy) wrote it */
    return 10 + (size_t)row.data[8] + (size_t)row.data[9] * 256;
}

/* The shape in a row's header: "24, 24, 3", "5,", or "". */
static stk_bytes shape_of(const stk_text *head)
{
    const char *begin = memchr(head->s + 10, '(', head->len - 10);
    const char *end = begin ? memchr(begin, ')', head->len - (size_t)(begin - head->s)) : NULL;

    assert(begin && end);
    return (stk_bytes){ (const uint8_t *)begin + 1, (size_t)(end - begin) - 1 };
}

static int ragged(const char *field, stk_bytes key, const stk_rows_out *o, stk_bytes row,
                  stk_error *err)
{
    stk_text head = { .s = (char *)(uintptr_t)row.data, .len = head_of(row) };
    stk_bytes was = shape_of(&o->head), now = shape_of(&head);
    char shown[STK_SHOWN_MAX];

    return stk_fail(err, STK_EINVAL,
                    "field %s: sample %s has a row of shape (%.*s) or of another type, others "
                    "(%.*s): an array has "
                    "one; resize, crop or pad before it, or pack to tar shards",
                    field, stk_shown(key, shown), (int)now.len, (const char *)now.data,
                    (int)was.len, (const char *)was.data);
}

static int rows_add(stk_rows_out *o, stk_bytes row, stk_error *err)
{
    size_t head = head_of(row);

    if (!o->head.len)
        STK_TRY(stk_text_put(&o->head, row.data, head, err));
    if (o->buf.len + row.len > BUFFER)
        STK_TRY(rows_flush(o, err));
    o->rows++;
    return stk_text_put(&o->buf, row.data + head, row.len - head, err);
}

/* A row's header, with the number of rows before its shape. */
static int head_make(const stk_rows_out *o, char out[HEAD + 1], stk_error *err)
{
    stk_bytes shape = shape_of(&o->head);
    int before = (int)((const char *)shape.data - o->head.s) - 10, n;

    if (shape.len && shape.data[shape.len - 1] == ',')
        shape.len--;
    memset(out, ' ', HEAD);
    memcpy(out, "\x93NUMPY\x01\x00", 8);
    out[8] = (char)(HEAD - 10);
    out[9] = 0;
    n = 10 + snprintf(out + 10, HEAD - 10, "%.*s%" PRIu64 ",%s%.*s), }", before, o->head.s + 10,
                      o->rows, shape.len ? " " : "", (int)shape.len, (const char *)shape.data);
    if (n >= (int)HEAD - 1)
        return stk_fail(err, STK_ELIMIT, "the array's shape needs more than %u bytes", HEAD);
    out[n] = ' ';
    out[HEAD - 1] = '\n';
    return 0;
}

static int rows_finish(stk_rows_out *o, uint64_t *size, stk_error *err)
{
    char head[HEAD + 1];

    STK_TRY(rows_flush(o, err));
    STK_TRY(head_make(o, head, err));
    if (stk_atomic_write(&o->file, head, HEAD, 0, NULL) < 0 || stk_atomic_sync(&o->file, NULL) < 0)
        return failed(o->file.path, "can't bring the array to disk", o->file.sys, err);
    *size += HEAD + o->bytes;
    return 0;
}

/* ---- a shard ---- */

int stk_array_shard_open(stk_array_shard *s, const stk_pack_run *p, const stk_pack_fields *f,
                         uint64_t k, stk_error *err)
{
    int rc = 0;

    if (!s->field)
        *s = (stk_array_shard){ .p = p, .f = f, .field = stk_zalloc(f->n + 1, sizeof *s->field) };
    if (!s->field)
        return stk_fail_nomem(err, f->n * sizeof *s->field);
    s->open = 1;
    for (uint32_t i = 0; rc == 0 && i < f->n; i++) {
        char *path = f->field[i].chain ? path_of(p, f->field[i].name, k) : NULL;

        s->field[i].rows = s->field[i].bytes = s->field[i].buf.len = 0;

        if (!f->field[i].chain)
            continue;
        if (!path)
            rc = stk_fail_nomem(err, NAME);
        else if (stk_atomic_open(&s->field[i].file, path, NULL) < 0)
            rc = failed(path, "can't make the array", s->field[i].file.sys, err);
        stk_free(path);
    }
    return rc;
}

int stk_array_shard_add(stk_array_shard *s, stk_bytes key, const stk_part *rows, uint32_t n,
                        stk_error *err)
{
    for (int put = 0; put < 2; put++) /* first look that all of them fit */
        for (uint32_t i = 0, k = 0; i < s->f->n && k < n; i++) {
            stk_rows_out *o = &s->field[i];
            stk_bytes row = { rows[k].data, rows[k].len };

            if (!s->f->field[i].chain)
                continue;
            k++;
            if (put)
                STK_TRY(rows_add(o, row, err));
            else if (o->head.len &&
                     (head_of(row) != o->head.len || memcmp(row.data, o->head.s, o->head.len)))
                return ragged(s->f->field[i].name, key, o, row, err);
        }
    return 0;
}

int stk_array_shard_finish(stk_array_shard *s, uint64_t *size, stk_error *err)
{
    *size = EMPTY_SHARD;
    for (uint32_t i = 0; i < s->f->n; i++)
        if (s->field[i].rows)
            STK_TRY(rows_finish(&s->field[i], size, err));
    return 0;
}

/* What was not committed is removed. */
static void drop_files(stk_array_shard *s)
{
    for (uint32_t i = 0; i < s->f->n; i++)
        if (s->field[i].file.tmp)
            stk_atomic_close(&s->field[i].file);
    s->open = 0;
}

int stk_array_shard_publish(stk_array_shard *s, stk_error *err)
{
    for (uint32_t i = 0; i < s->f->n; i++)
        if (s->field[i].rows && stk_atomic_commit(&s->field[i].file, STK_COMMIT_SYNCED, NULL) < 0)
            return failed(s->field[i].file.path, "can't put the array in place",
                          s->field[i].file.sys, err);
    drop_files(s);
    return 0;
}

void stk_array_shard_close(stk_array_shard *s)
{
    if (!s->field)
        return;
    drop_files(s);
    for (uint32_t i = 0; i < s->f->n; i++) {
        stk_free(s->field[i].head.s);
        stk_free(s->field[i].buf.s);
    }
    stk_free(s->field);
    s->field = NULL;
}

/* ---- the target ---- */

int stk_pack_arrays_check(const stk_pack_run *p, const stk_pack_fields *f, stk_error *err)
{
    uint32_t made = 0;

    for (uint32_t i = 0; i < f->n; i++) {
        made += f->field[i].chain != NULL;
        if (f->field[i].chain && f->field[i].encoding.encoder != &stk_encode_npy)
            return stk_fail(err, STK_EINVAL,
                            "field %s: rows of arrays are numbers: leave encode(%s) away",
                            f->field[i].name, f->field[i].encoding.encoder->name);
    }
    if (!made)
        return stk_fail(err, STK_EINVAL,
                        "arrays have the fields that chains make: give some, as x=image | "
                        "resize(32) | to(u8, chw)");
    if (!p->pattern.folder || p->pattern.squeeze || stk_is_address(p->pattern.dir))
        return stk_fail(
            err, STK_EINVAL,
            "arrays go to a local folder, are called after their fields, and are not compressed");
    return p->o.jpeg == STK_YES
               ? stk_fail(err, STK_EINVAL, "seek points are of JPEGs in shards: arrays have none")
               : 0;
}

typedef struct there { /* what is there of a shard */
    uint64_t bytes;
    uint32_t files;
} there;

static int foreign(const char *path, stk_error *err)
{
    stk_fail(err, STK_EINVAL,
             "there is an array of that name that is not of this pack: take another place or name, "
             "or replace it "
             "(--force, force=True)");
    stk_error_at(err, path, STK_NO_OFFSET, (stk_bytes){ 0 });
    return STK_EINVAL;
}

static int look_at(stk_pack_run *p, uint64_t k, const char *path, there *all, stk_error *err)
{
    struct stat st;

    if (stat(path, &st) < 0)
        return 0;
    if (k < p->n && !stk_pack_mine(p, k))
        return 0;
    if (p->o.force == STK_YES)
        return k < p->n || unlink(path) == 0 ? 0 : foreign(path, err);
    if (k >= p->n || !p->stamp.size[k]) /* noted shards may have some of their files only */
        return foreign(path, err);
    all[k].bytes += (uint64_t)st.st_size;
    all[k].files++;
    return 0;
}

static int look_for(stk_pack_run *p, const char *field, there *all, stk_error *err)
{
    char name[NAME];
    stk_shard_pattern x = pattern_of(p, field, name);
    const char *dir = x.dir[0] ? x.dir : ".";
    DIR *d = opendir(dir);
    struct dirent *e;
    int rc = 0;

    stk_atomic_sweep(dir, x.prefix);
    while (rc == 0 && d && (e = readdir(d))) {
        int64_t k = stk_shard_pattern_number(&x, e->d_name);
        char *path = k >= 0 ? stk_shard_pattern_at(&x, (uint64_t)k) : NULL;

        if (path)
            rc = look_at(p, (uint64_t)k, path, all, err);
        else if (k >= 0)
            rc = stk_fail_nomem(err, NAME);
        stk_free(path);
    }
    if (d)
        closedir(d);
    return rc;
}

int stk_pack_arrays_look(stk_pack_run *p, const stk_pack_fields *f, stk_error *err)
{
    there *all = stk_zalloc(p->n + 1, sizeof *all);
    uint32_t made = 0;
    int rc = all ? 0 : stk_fail_nomem(err, p->n * sizeof *all);

    for (uint32_t i = 0; rc == 0 && i < f->n; i++)
        if (f->field[i].chain) {
            made++;
            rc = look_for(p, f->field[i].name, all, err);
        }
    for (uint64_t k = 0; rc == 0 && k < p->n; k++)
        if (p->o.force != STK_YES && p->stamp.size[k] == all[k].bytes + EMPTY_SHARD &&
            all[k].files == (all[k].bytes ? made : 0))
            p->keep[k] = STK_PACK_DONE;
    stk_free(all);
    return rc;
}

/* The header's text without the number of rows, in `out`; 0: the file is missing. */
static size_t kind_of(const char *path, char out[HEAD])
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char head[HEAD + 1] = { 0 }, *begin, *comma, *end;

    if (fd < 0)
        return 0;
    if (pread(fd, head, HEAD, 0) != (ssize_t)HEAD)
        head[10] = 0;
    close(fd);
    begin = strchr(head + 10, '(');
    comma = begin ? strchr(begin, ',') : NULL;
    end = comma ? strchr(comma, ')') : NULL;
    if (!end)
        return 0;
    memset(out, ' ', HEAD);
    memcpy(out, head, (size_t)(begin - head));
    memcpy(out + (begin - head), comma, (size_t)(end - comma));
    return HEAD;
}

static int verify_field(const stk_pack_run *p, const char *field, stk_error *err)
{
    char first[HEAD], now[HEAD];
    size_t have = 0;

    for (uint64_t k = 0; k < p->n; k++) {
        char *path = path_of(p, field, k);
        size_t n = path ? kind_of(path, now) : 0;
        int rc = path ? 0 : stk_fail_nomem(err, NAME);

        if (rc == 0 && n && have && memcmp(first, now, HEAD)) {
            rc = stk_fail(err, STK_EINVAL,
                          "field %s: rows of this file have another shape or type than those of "
                          "the first: an array has "
                          "one; resize, crop or pad before it, or pack to tar shards",
                          field);
            stk_error_at(err, path, STK_NO_OFFSET, (stk_bytes){ 0 });
        }
        stk_free(path);
        STK_TRY(rc);
        if (n && !have)
            memcpy(first, now, HEAD);
        have |= n;
    }
    return 0;
}

int stk_pack_arrays_verify(const stk_pack_run *p, const stk_pack_fields *f, stk_error *err)
{
    for (uint32_t i = 0; i < f->n; i++)
        if (f->field[i].chain)
            STK_TRY(verify_field(p, f->field[i].name, err));
    return 0;
}
