/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.c - CSV with a header line, or JSON lines: a list of files, or the data themselves.
 *
 * Every line is a sample and its cells or members are fields, which stay in the file: a field is
 * the range of the cell or value, and unpack() takes quotes and escapes away.  A sample's key is
 * its number.
 *
 * A field `path` may name a file, of which `offset` and `length` (both may be missing) say a range.
 * Whether it does is not known here: corpora of code have a `path` too.  So nothing is refused for
 * it.  A path that could be one is the sample's key, and the index has it and the range after it:
 * key, NUL, one of enum range, with RANGED the range as two numbers of 8 bytes.  A chain with
 * `open` finds the file without reading the line; a name in another field is read when it is
 * opened. */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/json.h"
#include "format/csv.h"
#include "format/format.h"

#define WINDOW (1u << 20)
#define RECORD_MAX (16u << 20)
#define COLUMNS_MAX 512u
#define PATH_MAX_BYTES 4095u /* a longer `path` names no file */
#define TO_THE_END UINT64_MAX

/* What is after a key and its NUL.  0 and 1 were those of indexes that had all texts. */
enum range { OLD, OLD_RANGED, WHOLE, RANGED, NO_RANGE };

typedef struct column {
    stk_bytes name, value; /* value.data NULL: this record has none */
} column;

typedef struct manifest {
    stk_scan *scan;
    int json;
    uint64_t line; /* of the record available */
    uint64_t samples;
    uint64_t skipped;               /* damaged lines that were left out */
    char first_skipped[200];        /* the first of them: its line and why */
    stk_bytes path, offset, length; /* of the record available; .data NULL: it has none */
    stk_cells header, names;        /* CSV: the header line; what the columns are called */
    stk_cells cells;                /* CSV: the values */
    uint8_t *unquoted;              /* JSON: the record's texts */
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

/* offset or length as a count of bytes; an empty one is `none`.  Returns 1 if it is one. */
static int count_in(stk_bytes s, uint64_t none, uint64_t *out)
{
    *out = s.len ? 0 : none;
    for (size_t i = 0; i < s.len; i++) {
        if (s.data[i] < '0' || s.data[i] > '9' || i >= 18)
            return 0;
        *out = *out * 10 + (uint64_t)(s.data[i] - '0');
    }
    return 1;
}

/* Append a text of the file as UTF-8. */
static int put_text(const manifest *m, stk_text *to, stk_bytes s, stk_error *err)
{
    const uint32_t *encoding = m->scan->encoding;
    size_t len = s.len;

    STK_TRY(stk_text_put(to, s.data, s.len, err));
    for (int i = 1; encoding && i < STK_RECODED_MAX; i++) /* room */
        STK_TRY(stk_text_put(to, s.data, s.len, err));
    if (!encoding)
        return 0;
    to->len -= STK_RECODED_MAX * s.len;
    STK_TRY(stk_recode(encoding, (uint8_t *)to->s + to->len, &len, STK_RECODED_MAX * s.len, err));
    to->len += len;
    return 0;
}

/* The record's key and what is after it. */
static int put_key(manifest *m, stk_error *err)
{
    uint64_t range[2];
    char number[24], flag;
    stk_bytes path = m->path;

    m->blob.len = 0;
    if (!path.len || path.len > PATH_MAX_BYTES || memchr(path.data, 0, path.len))
        return stk_text_put(&m->blob, number,
                            (size_t)snprintf(number, sizeof number, "%" PRIu64, m->samples), err);
    flag = !count_in(m->offset, 0, &range[0]) || !count_in(m->length, TO_THE_END, &range[1])
               ? NO_RANGE
           : range[0] || range[1] != TO_THE_END ? RANGED
                                                : WHOLE;
    STK_TRY(put_text(m, &m->blob, path, err));
    STK_TRY(stk_text_put(&m->blob, "", 1, err));
    STK_TRY(stk_text_put(&m->blob, &flag, 1, err));
    return flag == RANGED ? stk_text_put(&m->blob, range, sizeof range, err) : 0;
}

/* A field of the record that a file's place may be in: where it is kept, or NULL. */
static stk_bytes *place_of(manifest *m, stk_bytes name)
{
    return is(name, "path")     ? &m->path
           : is(name, "offset") ? &m->offset
           : is(name, "length") ? &m->length
                                : NULL;
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
static int report(manifest *m, const uint8_t *from, uint64_t offset, stk_error *err)
{
    uint32_t n = 0;

    STK_TRY(put_key(m, err));
    STK_TRY(fields_reserve(m, err));
    for (uint32_t i = 0; i < m->n; i++) {
        const column *c = &m->column[i];

        if (c->value.data && c->name.len)
            m->field[n++] = (stk_field){ (const char *)c->name.data, c->name.len,
                                         offset + (uint64_t)(c->value.data - from), c->value.len };
    }
    m->samples++;
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

static int is_taken(const stk_cells *names, stk_bytes name)
{
    for (uint32_t i = 0; i < names->n; i++) {
        stk_bytes other = stk_cells_at(names, i);

        if (other.len == name.len && !memcmp(other.data, name.data, name.len))
            return 1;
    }
    return 0;
}

/* Column i's name: an empty cell is column0, column1, ... by its place, and a name that a column
 * before it has is name_1, name_2, ...: as DuckDB calls them. */
static int name_column(manifest *m, uint32_t i, stk_error *err)
{
    stk_bytes cell = stk_cells_at(&m->header, i);
    size_t from = m->names.text.len;
    char made[24], more[24];

    if (memchr(cell.data, 0, cell.len))
        return stk_fail(err, STK_ECORRUPT, "a column's name has a null character");
    if (!m->scan->encoding && stk_utf8_span(cell) != cell.len)
        return stk_fail(err, STK_ECORRUPT,
                        "the name of column %u is not UTF-8: say how the file is encoded, as in "
                        "open(..., encoding=\"cp1252\")",
                        i + 1);
    if (!cell.len)
        cell = (stk_bytes){ (uint8_t *)made, (size_t)snprintf(made, sizeof made, "column%u", i) };
    for (uint32_t k = 0;; k++) {
        int len = k ? snprintf(more, sizeof more, "_%u", k) : 0;
        stk_bytes name;

        m->names.text.len = from;
        STK_TRY(put_text(m, &m->names.text, cell, err));
        STK_TRY(stk_text_put(&m->names.text, more, (size_t)len, err));
        name = (stk_bytes){ (uint8_t *)m->names.text.s + from, m->names.text.len - from };
        if (!is_taken(&m->names, name))
            return stk_cells_add(&m->names, (stk_cell){ .end = from + name.len }, err);
    }
}

static int csv_header(manifest *m, stk_error *err)
{
    m->n = 0;
    m->names.n = 0;
    m->names.text.len = 0;
    for (uint32_t i = 0; i < m->header.n; i++)
        STK_TRY(name_column(m, i, err));
    for (uint32_t i = 0; i < m->header.n; i++)
        STK_TRY(add_column(m, stk_cells_at(&m->names, i), (stk_bytes){ 0 }, err));
    return 0;
}

/* The cells of a record that was read, as ranges of it.  A cell with quotes in it begins with the
 * mark or line's end before it, which tells unpack() that there are some: there is one, since a
 * header line comes first. */
static void take_cells(manifest *m, const uint8_t *from)
{
    m->path = m->offset = m->length = (stk_bytes){ 0 };
    for (uint32_t i = 0; i < m->n; i++) {
        const stk_cell *c = &m->cells.cell[i];
        stk_bytes *place = place_of(m, m->column[i].name);

        m->column[i].value = (stk_bytes){ from + c->from - c->quotes, c->len + c->quotes };
        if (place)
            *place = stk_cells_at(&m->cells, i);
    }
}

/* The record at the beginning of `in`.  *used 0 and STK_PENDING: more of the file is needed. */
static int csv_take(manifest *m, stk_bytes in, int last, uint64_t offset, size_t *used,
                    stk_error *err)
{
    stk_cells *to = m->n ? &m->cells : &m->header;
    uint64_t lines = 0;
    int rc;

    if (to == &m->header && stk_csv_marks(in, last, to) == STK_PENDING)
        return STK_PENDING;
    m->cells.mark = m->header.mark;
    m->cells.end = m->header.end;
    rc = stk_csv_record(in, last, to, used, &lines, err);
    if (rc)
        return rc;
    if (to->n && to == &m->header)
        STK_TRY(csv_header(m, err));
    else if (to->n) {
        if (to->n != m->n)
            return stk_fail(err, STK_ECORRUPT, "%u cells, the header line has %u", to->n, m->n);
        take_cells(m, in.data);
        STK_TRY(report(m, in.data, offset, err));
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
    stk_bytes name, *place;

    STK_TRY(unquote(m, key, &name, err));
    if (value.data[0] == 'n')
        return 0; /* null: it is not there */
    STK_TRY(add_column(m, name, value, err));
    place = place_of(m, name);
    if (place && value.data[0] == '"')
        return unquote(m, value, place, err);
    if (place && place != &m->path) /* a path is a string */
        *place = value;
    return 0;
}

static int json_columns(manifest *m, stk_bytes line, stk_error *err)
{
    m->n = 0;
    m->unquoted_len = 0;
    m->path = m->offset = m->length = (stk_bytes){ 0 };
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
        STK_TRY(report(m, in.data, offset, err));
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

/* The line's end that is next, and what comes with it; 0: it is not in `in`. */
static size_t line_of(stk_bytes in, int last)
{
    const uint8_t *end = memchr(in.data, '\n', in.len);
    const uint8_t *cr = end ? NULL : memchr(in.data, '\r', in.len);

    return end ? (size_t)(end - in.data) + 1 : cr ? (size_t)(cr - in.data) + 1 : last ? in.len : 0;
}

/* A damaged line is left out, if that is wanted: *used, 0 where its end is not known yet. */
static int skip_line(manifest *m, int rc, stk_bytes in, int last, size_t *used, stk_error *err)
{
    if (!m->scan->skip_damaged || rc != STK_ECORRUPT || (!m->json && !m->n))
        return rc;
    *used = line_of(in, last);
    if (!*used)
        return STK_PENDING;
    if (!m->skipped++)
        snprintf(m->first_skipped, sizeof m->first_skipped, "line %" PRIu64 ": %.150s", m->line,
                 err ? err->message : "");
    m->line++;
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
            rc = skip_line(m, rc, in, last, &n, err);
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
        return stk_fail(err, STK_ECORRUPT, "CSV begins with a header line; this is empty");
    if (m->skipped && m->scan->warn) {
        char why[280];

        snprintf(why, sizeof why, "%" PRIu64 " damaged lines were left out, the first is %s",
                 m->skipped, m->first_skipped);
        m->scan->warn(m->scan, why);
    }
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
    if (n >= 2 && (!memcmp(head, "\xFF\xFE", 2) || !memcmp(head, "\xFE\xFF", 2)))
        return stk_fail(err, STK_ENOTSUP,
                        "it is UTF-16; make UTF-8 of it: iconv -f UTF-16 -t UTF-8 OLD > NEW");
    while (i < n && (is_space(head[i]) || (i < 3 && head[i] == (uint8_t) "\xEF\xBB\xBF"[i])))
        i++;
    m.json = (i < n && head[i] == '{') || (scan->name && says_json(scan->name));
    if (m.json && scan->encoding)
        return stk_fail(err, STK_EINVAL, "encoding= is for CSV: JSON is UTF-8");
    w.quotes = !m.json;
    w.data = stk_alloc(w.cap);
    rc = w.data ? at_line(&m, take_file(&m, &w, err), err) : stk_fail_nomem(err, w.cap);
    stk_free(w.data);
    stk_cells_fini(&m.header);
    stk_cells_fini(&m.names);
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

/* What is after the key's NUL, a `path` with its range; NULL: nothing is. */
static const uint8_t *place_in(const stk_entry *e)
{
    const uint8_t *nul = e->key.len ? memchr(e->key.data, 0, e->key.len) : NULL;

    return nul && nul + 1 < e->key.data + e->key.len ? nul + 1 : NULL;
}

static int manifest_locate(const stk_entry *e, const stk_field *field, stk_place *out,
                           stk_error *err)
{
    const uint8_t *place = place_in(e);

    *out = (stk_place){ .offset = field->offset, .len = field->size, .unpacked = field->size };
    if (place && *place < WHOLE)
        return stk_fail(err, STK_ESTALE,
                        "its index was made by an older version; run: stoker index --force ...");
    if (!field->size)
        out->here = (stk_bytes){ (const uint8_t *)"", 0 };
    return 0;
}

/* Is this, after the byte before it, a whole cell in quotes? */
static int is_quoted(stk_bytes raw)
{
    size_t i = 2;

    if (raw.len < 3 || raw.data[1] != '"')
        return 0;
    while (i + 1 < raw.len && (raw.data[i] != '"' || raw.data[i + 1] == '"'))
        i += 1 + (raw.data[i] == '"'); /* doubled */
    return i + 1 == raw.len && raw.data[i] == '"';
}

/* A cell or value as it is written -> its text.  JSON's strings begin with their quote, cells with
 * quotes in them with what is before them (see take_cells), all else is taken as it is. */
static int manifest_unpack(stk_bytes raw, void *dst, size_t *len, stk_error *err)
{
    uint8_t *to = dst;
    stk_bytes all;
    int cell = raw.len && memchr(",;\t\r\n", raw.data[0], 5) && memchr(raw.data, '"', raw.len);

    if (raw.len && raw.data[0] == '"') {
        STK_TRY(stk_json_find(raw, "", &all, err)); /* the file may have been written to */
        return stk_json_unquote(all, to, len, err);
    }
    if (!cell || !is_quoted(raw)) {
        memcpy(dst, raw.data + cell, raw.len - (size_t)cell);
        *len = raw.len - (size_t)cell;
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
    const uint8_t *place = place_in(e);
    uint64_t range[2];

    STK_TRY(manifest_locate(e, field, out, err));
    if (!field->size)
        return stk_fail(err, STK_ECORRUPT, "field %s is empty: there is no file to open",
                        field->name);
    if (strcmp(field->name, "path") != 0)
        return 0; /* the name is in the file */
    if (!place)
        return stk_fail(err, STK_ECORRUPT, "its path is empty, or not a file's name");
    *out = (stk_place){ .whole = 1, .name = { e->key.data, (size_t)(place - e->key.data) - 1 } };
    if (*place == NO_RANGE)
        return stk_fail(err, STK_ECORRUPT,
                        "its offset or length is not a count of bytes: open reads that range of "
                        "the file");
    if (*place != RANGED)
        return 0;
    if ((size_t)(e->key.data + e->key.len - place) < 1 + sizeof range)
        return stk_fail(err, STK_ECORRUPT, "the index has half a range here");
    memcpy(range, place + 1, sizeof range);
    out->offset = range[0];
    out->whole = range[1] == TO_THE_END;
    out->len = out->whole ? 0 : range[1];
    return 0;
}

const stk_format stk_format_manifest = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_format),
    .name = "manifest",
    .help = "CSV or JSON lines: every line is a sample; open reads the files that it names",
    .suffixes = ".csv .tsv .jsonl .ndjson",
    .probe = manifest_probe,
    .index = manifest_index,
    .locate = manifest_locate,
    .unpack = manifest_unpack,
    .find = manifest_find,
};
