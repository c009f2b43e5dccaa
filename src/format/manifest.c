/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.c - CSV with a header line, or JSON lines: a list of files, or the data themselves.
 *
 * Without a column `path` every line is a sample and its cells or members are fields, which stay in
 * the file: a field is the range of the cell or value, and unpack() takes quotes and escapes away.
 * Its key is its number, and nothing comes after that.
 *
 * With one it is a manifest.  Column `path` names a file, `offset` and `length` (both may be
 * missing) a range of it; every other column is a field of its own.  All texts go into the index,
 * after the sample's key and a NUL, so that a path is known before anything is read: key, NUL, 0 or
 * 1, with 1 the range as two numbers of 8 bytes, then the texts.  A field's offset, less the
 * sample's, is its place in there.  Which file a path means is found out when it is opened: see
 * `open` in a chain. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "format/csv.h"
#include "format/format.h"

#define WINDOW (1u << 20)
#define RECORD_MAX (16u << 20)
#define COLUMNS_MAX 512u
#define TO_THE_END UINT64_MAX

typedef struct column {
    stk_bytes name, value; /* value.data NULL: this record has none */
} column;

typedef struct manifest {
    stk_scan *scan;
    int json;
    int data;      /* there is no column `path`: the lines are the data */
    uint64_t line; /* of the record available */
    uint64_t samples;
    int seen, has_path; /* JSON: a record; one with a path */
    stk_cells header;   /* CSV: the names */
    stk_cells cells;    /* CSV: the values */
    uint8_t *unquoted;  /* JSON: the record's texts */
    size_t unquoted_cap, unquoted_len;
    column *column;
    uint32_t n, cap;
    stk_text blob;
    stk_field *field;
    size_t field_cap;
} manifest;

/* ---- one record ---- */

static int is(stk_bytes s, const char *word)
{
    return s.len == strlen(word) && !memcmp(s.data, word, s.len);
}

static int is_space(uint8_t c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static int add_column(manifest *m, stk_bytes name, stk_bytes value, stk_error *err)
{
    if (m->n == COLUMNS_MAX)
        return stk_fail(err, STK_ELIMIT, "more than %u columns: write the table as Parquet",
                        COLUMNS_MAX);
    if (m->n == m->cap) {
        uint32_t cap = m->cap ? 2 * m->cap : 16;
        column *grown = stk_grow(m->column, m->n * sizeof *grown, cap * sizeof *grown);

        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *grown);
        m->column = grown;
        m->cap = cap;
    }
    m->column[m->n++] = (column){ name, value };
    return 0;
}

static const column *find_column(const manifest *m, const char *name)
{
    for (uint32_t i = 0; i < m->n; i++)
        if (is(m->column[i].name, name))
            return &m->column[i];
    return NULL;
}

/* offset or length: a whole number; an empty cell is none. */
static int number_in(const manifest *m, const char *name, uint64_t none, uint64_t *out,
                     stk_error *err)
{
    const column *c = find_column(m, name);
    char shown[STK_SHOWN_MAX];

    *out = none;
    if (!c || !c->value.len)
        return 0;
    *out = 0;
    for (size_t i = 0; i < c->value.len; i++) {
        uint8_t d = c->value.data[i];

        if (d < '0' || d > '9' || i >= 18)
            return stk_fail(err, STK_ECORRUPT, "%s is %s, no count of bytes", name,
                            stk_shown(c->value, shown));
        *out = *out * 10 + (d - '0');
    }
    return 0;
}

static int put_head(manifest *m, stk_bytes path, stk_error *err)
{
    uint64_t range[2];
    char flag;

    STK_TRY(number_in(m, "offset", 0, &range[0], err));
    STK_TRY(number_in(m, "length", TO_THE_END, &range[1], err));
    flag = range[0] != 0 || range[1] != TO_THE_END;
    STK_TRY(stk_text_put(&m->blob, path.data, path.len, err));
    STK_TRY(stk_text_put(&m->blob, "", 1, err));
    STK_TRY(stk_text_put(&m->blob, &flag, 1, err));
    return flag ? stk_text_put(&m->blob, range, sizeof range, err) : 0;
}

static int fields_reserve(manifest *m, stk_error *err)
{
    stk_field *grown;

    if (m->n <= m->field_cap)
        return 0;
    grown = stk_alloc(m->cap * sizeof *grown);
    if (!grown)
        return stk_fail_nomem(err, m->cap * sizeof *grown);
    stk_free(m->field);
    m->field = grown;
    m->field_cap = m->cap;
    return 0;
}

/* The columns are ranges of the record, which is at `offset` of the file and begins at `from`. */
static int report_line(manifest *m, const uint8_t *from, uint64_t offset, stk_error *err)
{
    char key[24];
    int len = snprintf(key, sizeof key, "%" PRIu64, m->samples++);
    uint32_t n = 0;

    STK_TRY(fields_reserve(m, err));
    for (uint32_t i = 0; i < m->n; i++) {
        const column *c = &m->column[i];

        if (c->value.data && c->name.len)
            m->field[n++] = (stk_field){ (const char *)c->name.data, c->name.len,
                                         offset + (uint64_t)(c->value.data - from), c->value.len };
    }
    return m->scan->sample(m->scan, (stk_bytes){ (uint8_t *)key, (size_t)len }, offset, m->field, n,
                           err);
}

/* The columns available are a sample that is at `offset` of the manifest. */
static int report(manifest *m, uint64_t offset, stk_error *err)
{
    const column *path = find_column(m, "path");
    uint32_t n = 0;

    if (!path || !path->value.len)
        return stk_fail(err, STK_ECORRUPT, "there is no path");
    if (memchr(path->value.data, 0, path->value.len))
        return stk_fail(err, STK_ECORRUPT, "the path has a null character");
    m->blob.len = 0;
    STK_TRY(put_head(m, path->value, err));
    STK_TRY(fields_reserve(m, err));
    for (uint32_t i = 0; i < m->n; i++) {
        const column *c = &m->column[i];
        uint64_t at = c == path ? 0 : m->blob.len;

        if (!c->value.data || !c->name.len || is(c->name, "offset") || is(c->name, "length"))
            continue;
        m->field[n++] = (stk_field){ (const char *)c->name.data, c->name.len, offset + at,
                                     c->value.len };
        if (c != path)
            STK_TRY(stk_text_put(&m->blob, c->value.data, c->value.len, err));
    }
    return m->scan->sample(m->scan, (stk_bytes){ (uint8_t *)m->blob.s, m->blob.len }, offset,
                           m->field, n, err);
}

static int check_names(const manifest *m, stk_error *err)
{
    char shown[STK_SHOWN_MAX];

    for (uint32_t i = 0; i < m->n; i++) {
        if (memchr(m->column[i].name.data, 0, m->column[i].name.len))
            return stk_fail(err, STK_ECORRUPT, "a column's name has a null character");
        for (uint32_t k = 0; m->column[i].name.len && k < i; k++)
            if (m->column[k].name.len == m->column[i].name.len &&
                !memcmp(m->column[k].name.data, m->column[i].name.data, m->column[i].name.len))
                return stk_fail(err, STK_ECORRUPT, "the column %s is there twice",
                                stk_shown(m->column[i].name, shown));
    }
    return 0;
}

/* ---- CSV ---- */

static int csv_header(manifest *m, stk_error *err)
{
    m->n = 0;
    for (uint32_t i = 0; i < m->header.n; i++)
        STK_TRY(add_column(m, stk_cells_at(&m->header, i), (stk_bytes){ 0 }, err));
    STK_TRY(check_names(m, err));
    m->data = !find_column(m, "path");
    return 0;
}

/* The cells of a record that was read, as ranges of it.  Cells in quotes begin with the mark or
 * line's end before them, which tells unpack() what they are: there is one, since a header line
 * comes first. */
static void raw_cells(manifest *m, stk_bytes in)
{
    const uint8_t *p = in.data, *end = in.data + in.len;

    end -= end > p && end[-1] == '\n';
    end -= end > p && end[-1] == '\r';
    for (uint32_t i = 0; i < m->n; i++) {
        const uint8_t *from = p;
        int quoted = p < end && *p == '"';

        if (quoted)
            for (p++; p < end && (*p != '"' || (p + 1 < end && p[1] == '"')); p++)
                p += *p == '"';
        while (p < end && *p != m->cells.mark)
            p++;
        m->column[i].value = (stk_bytes){ from - quoted, (size_t)(p - from) + (size_t)quoted };
        p += p < end;
    }
}

/* The record at the beginning of `in`.  *used 0 and STK_PENDING: more of the file is needed. */
static int csv_take(manifest *m, stk_bytes in, int last, uint64_t offset, size_t *used,
                    stk_error *err)
{
    stk_cells *to = m->n ? &m->cells : &m->header;
    uint64_t lines = 0;
    int rc;

    if (to == &m->header)
        m->cells.mark = to->mark = stk_csv_mark(in, last);
    if (!to->mark)
        return STK_PENDING;
    rc = stk_csv_record(in, last, to, used, &lines, err);
    if (rc)
        return rc;
    if (to->n && to == &m->header)
        STK_TRY(csv_header(m, err));
    else if (to->n) {
        if (to->n != m->n)
            return stk_fail(err, STK_ECORRUPT, "%u cells, the header line has %u", to->n, m->n);
        if (m->data)
            raw_cells(m, (stk_bytes){ in.data, *used });
        for (uint32_t i = 0; i < m->n && !m->data; i++)
            m->column[i].value = stk_cells_at(to, i);
        STK_TRY(m->data ? report_line(m, in.data, offset, err) : report(m, offset, err));
    }
    m->line += lines;
    return 0;
}

/* ---- JSON lines ---- */

static int unquote(manifest *m, stk_bytes s, stk_bytes *out, stk_error *err)
{
    uint8_t *dst = m->unquoted + m->unquoted_len;
    size_t len;

    STK_TRY(stk_json_unquote(s, dst, &len, err));
    *out = (stk_bytes){ dst, len };
    m->unquoted_len += len; /* never more than the record has */
    return 0;
}

static int json_member(void *cookie, stk_bytes key, stk_bytes value, stk_error *err)
{
    manifest *m = cookie;
    stk_bytes name;

    STK_TRY(unquote(m, key, &name, err));
    m->has_path |= is(name, "path");
    if (m->data)
        return value.data[0] == 'n' ? 0 : add_column(m, name, value, err);
    if (value.data[0] == '"')
        STK_TRY(unquote(m, value, &value, err));
    else if (value.data[0] == 'n')
        return 0; /* null: it is not there */
    return add_column(m, name, value, err);
}

static int json_columns(manifest *m, stk_bytes line, stk_error *err)
{
    m->n = 0;
    m->unquoted_len = 0;
    STK_TRY(stk_json_members(line, json_member, m, err));
    return check_names(m, err);
}

static int json_take(manifest *m, stk_bytes in, int last, uint64_t offset, size_t *used,
                     stk_error *err)
{
    const uint8_t *nl = memchr(in.data, '\n', in.len);
    stk_bytes line = { in.data, nl ? (size_t)(nl - in.data) : in.len };

    if (!nl && !last)
        return STK_PENDING;
    *used = line.len + (nl != NULL);
    while (line.len && is_space(line.data[line.len - 1]))
        line.len--;
    if (line.len) {
        if (m->unquoted_cap < line.len) {
            stk_free(m->unquoted);
            m->unquoted_cap = 0;
            m->unquoted = stk_alloc(2 * line.len);
            if (!m->unquoted)
                return stk_fail_nomem(err, 2 * line.len);
            m->unquoted_cap = 2 * line.len;
        }
        STK_TRY(json_columns(m, line, err));
        if (!m->seen && !m->has_path) { /* the first record decides */
            m->data = 1;
            STK_TRY(json_columns(m, line, err));
        }
        m->seen = 1;
        STK_TRY(m->data ? report_line(m, in.data, offset, err) : report(m, offset, err));
    }
    m->line++;
    return 0;
}

/* ---- the file ---- */

typedef struct window { /* bytes [at, at + len) of the file */
    stk_file *file;
    uint64_t size, at;
    uint8_t *data;
    size_t len, cap;
    int quotes; /* records may go on over lines */
} window;

/* Let go of the first `used` bytes and read on; a record that fills it all gets more room. */
static int window_slide(window *w, size_t used, stk_error *err)
{
    uint64_t left;
    size_t want;

    memmove(w->data, w->data + used, w->len - used);
    w->at += used;
    w->len -= used;
    if (w->len == w->cap) {
        uint8_t *grown = w->cap < RECORD_MAX ? stk_grow(w->data, w->len, 2 * w->cap) : NULL;

        if (w->cap >= RECORD_MAX)
            return stk_fail(err, STK_ELIMIT, "a record of more than %u bytes%s", RECORD_MAX,
                            w->quotes ? ": is a quote not closed?" : "");
        if (!grown)
            return stk_fail_nomem(err, 2 * w->cap);
        w->data = grown;
        w->cap *= 2;
    }
    left = w->size - w->at - w->len;
    want = left < w->cap - w->len ? (size_t)left : w->cap - w->len;
    STK_TRY(stk_file_read(w->file, w->at + w->len, w->data + w->len, want, err));
    w->len += want;
    return 0;
}

/* All records of the window; *used: how much of it they were. */
static int take_records(manifest *m, const window *w, size_t *used, stk_error *err)
{
    int last = w->at + w->len == w->size, rc = 0;

    *used = w->at == 0 && w->len >= 3 && !memcmp(w->data, "\xEF\xBB\xBF", 3) ? 3 : 0;
    while (rc == 0 && *used < w->len) {
        stk_bytes in = { w->data + *used, w->len - *used };
        size_t n = 0;

        rc = m->json ? json_take(m, in, last, w->at + *used, &n, err)
                     : csv_take(m, in, last, w->at + *used, &n, err);
        if (rc < 0)
            stk_error_at(err, NULL, w->at + *used, (stk_bytes){ 0 });
        *used += rc == 0 ? n : 0;
    }
    return rc < 0 ? rc : 0;
}

static int take_file(manifest *m, window *w, stk_error *err)
{
    size_t used = 0;

    do {
        STK_TRY(window_slide(w, used, err));
        STK_TRY(take_records(m, w, &used, err));
        if (m->scan->progress && m->scan->progress(m->scan, w->at + used))
            return stk_fail(err, STK_ECLOSED, "indexing was stopped");
    } while (w->at + used < w->size);
    if (!m->json && !m->n)
        return stk_fail(err, STK_ECORRUPT, "a manifest begins with a header line; this is empty");
    return 0;
}

/* Put the line in front of what went wrong in it. */
static int at_line(const manifest *m, int rc, stk_error *err)
{
    char text[sizeof err->message];
    uint64_t offset;

    if (!err || (rc != STK_ECORRUPT && rc != STK_ELIMIT))
        return rc;
    memcpy(text, err->message, sizeof text);
    offset = err->offset;
    stk_fail(err, rc, "line %" PRIu64 ": %.200s", m->line, text);
    stk_error_at(err, NULL, offset, (stk_bytes){ 0 });
    return rc;
}

static int ends(const char *name, const char *end)
{
    size_t n = strlen(name), k = strlen(end);

    return n >= k && !strcasecmp(name + n - k, end);
}

/* `end`, or `end` of a file that was packed and is read unpacked. */
static int ends_so(const char *name, const char *end)
{
    static const char *const packed[] = { "", ".gz", ".zst", ".zstd", ".lz4" };
    char whole[24];

    for (size_t i = 0; i < sizeof packed / sizeof *packed; i++) {
        snprintf(whole, sizeof whole, "%s%s", end, packed[i]);
        if (ends(name, whole))
            return 1;
    }
    return 0;
}

/* Is it JSON lines by its name?  It may be packed: x.jsonl.gz. */
static int says_json(const char *name)
{
    const char *base = strrchr(name, '/');

    base = base ? base : name;
    return ends_so(base, ".jsonl") || ends_so(base, ".ndjson");
}

static int manifest_index(stk_file *f, uint64_t size, stk_scan *scan, stk_error *err)
{
    manifest m = { .scan = scan, .line = 1 };
    window w = { .file = f, .size = size, .cap = size < WINDOW ? (size_t)size + 1 : WINDOW };
    uint8_t head[64];
    size_t n = size < sizeof head ? (size_t)size : sizeof head, i = 0;
    int rc;

    STK_TRY(stk_file_read(f, 0, head, n, err));
    while (i < n && (is_space(head[i]) || (i < 3 && head[i] == (uint8_t) "\xEF\xBB\xBF"[i])))
        i++;
    m.json = (i < n && head[i] == '{') || (scan->name && says_json(scan->name));
    w.quotes = !m.json;
    w.data = stk_alloc(w.cap);
    rc = w.data ? at_line(&m, take_file(&m, &w, err), err) : stk_fail_nomem(err, w.cap);
    stk_free(w.data);
    stk_cells_fini(&m.header);
    stk_cells_fini(&m.cells);
    stk_free(m.unquoted);
    stk_free(m.column);
    stk_free(m.blob.s);
    stk_free(m.field);
    return rc;
}

static int manifest_probe(const char *name, stk_bytes head)
{
    (void)head;
    return ends_so(name, ".csv") || ends_so(name, ".tsv") || ends_so(name, ".jsonl") ||
                   ends_so(name, ".ndjson")
               ? 90
               : 0;
}

/* ---- reading ---- */

static int text_of(const stk_entry *e, const stk_field *field, stk_bytes *out, stk_error *err)
{
    uint64_t at = field->offset - e->offset;

    if (field->offset < e->offset || at > e->key.len || field->size > e->key.len - at)
        return stk_fail(err, STK_ECORRUPT, "the index says that field %s is outside its sample",
                        field->name);
    *out = (stk_bytes){ e->key.data + at, (size_t)field->size };
    return 0;
}

/* Is the sample a line of data?  A manifest's has a NUL after its key. */
static int is_line(const stk_entry *e)
{
    return !e->key.len || !memchr(e->key.data, 0, e->key.len);
}

static int manifest_locate(const stk_entry *e, const stk_field *field, stk_place *out,
                           stk_error *err)
{
    *out = (stk_place){ 0 };
    if (is_line(e)) {
        out->offset = field->offset;
        out->len = out->unpacked = field->size;
        if (!field->size)
            out->here = (stk_bytes){ (const uint8_t *)"", 0 };
        return 0;
    }
    return text_of(e, field, &out->here, err);
}

/* A cell or value as it is written -> its text.  JSON's strings begin with their quote, cells in
 * quotes with what is before them (see raw_cells), all else is taken as it is. */
static int manifest_unpack(stk_bytes raw, void *dst, size_t *len, stk_error *err)
{
    uint8_t *to = dst;
    stk_bytes all;

    if (raw.len && raw.data[0] == '"') {
        STK_TRY(stk_json_find(raw, "", &all, err)); /* the file may have been written to */
        return stk_json_unquote(all, to, len, err);
    }
    /* no plain cell has a quote */
    if (raw.len < 3 || raw.data[1] != '"' || !memchr(",\n\t;", raw.data[0], 4)) {
        memcpy(dst, raw.data, raw.len);
        *len = raw.len;
        return 0;
    }
    for (size_t i = 2; i + 1 < raw.len; i++) {
        *to++ = raw.data[i];
        i += raw.data[i] == '"'; /* doubled */
    }
    *len = (size_t)(to - (uint8_t *)dst);
    return 0;
}

static int manifest_find(const stk_entry *e, const stk_field *field, stk_place *out, stk_error *err)
{
    size_t head = (size_t)field->size + 2;
    uint64_t range[2];

    *out = (stk_place){ .whole = 1 };
    if (is_line(e))
        return stk_fail(err, STK_ENOTSUP,
                        "open reads files that a manifest names, and this file has no column "
                        "\"path\": its lines are the data");
    STK_TRY(text_of(e, field, &out->name, err));
    if (!out->name.len)
        return stk_fail(err, STK_ECORRUPT, "field %s is empty: there is no file to open",
                        field->name);
    if (strcmp(field->name, "path") != 0 || e->key.len < head || !e->key.data[head - 1])
        return 0;
    if (e->key.len < head + sizeof range)
        return stk_fail(err, STK_ECORRUPT, "the index has half a range here");
    memcpy(range, e->key.data + head, sizeof range);
    out->offset = range[0];
    out->whole = range[1] == TO_THE_END;
    out->len = out->whole ? 0 : range[1];
    return 0;
}

const stk_format stk_format_manifest = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_format),
    .name = "manifest",
    .help = "CSV or JSON lines: with a column path a list of files, else every line is a sample",
    .suffixes = ".csv .tsv .jsonl .ndjson",
    .probe = manifest_probe,
    .index = manifest_index,
    .locate = manifest_locate,
    .unpack = manifest_unpack,
    .find = manifest_find,
};
