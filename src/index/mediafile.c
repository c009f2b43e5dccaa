/* SPDX-License-Identifier: Apache-2.0 */
/* mediafile.c - read HASH.media.
 *
 * The file is mapped through base/guarded.h: if another process cuts it short, zeros are read,
 * which are "no record".  Head, tables and every column are checked when it is opened, which reads
 * 8 bytes per picture once; a shard with a column whose checksum is wrong has no records. */
#include "index/mediafile.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/guarded.h"
#include "base/hash.h"
#include "base/mem.h"
#include "index/medialayout.h"

struct stk_mediafile {
    const uint8_t *data;
    size_t len;
    stk_guarded *map; /* data is in it, or ... */
    uint8_t *own;     /* ... in this */
    media_head head;
    media_shard *shard; /* copies of the tables, which can't change any more */
    media_column *column;
    uint32_t *end; /* of each name in `text`, with its zero */
    char *text;
    uint8_t *sound; /* by shard */
    char **figure;  /* names of columns */
};

static int damaged(const char *what, stk_error *err)
{
    return stk_fail(err, STK_ECORRUPT, "sizes of media are damaged (%s): they are made again",
                    what);
}

/* ---- open ---- */

static int head_check(stk_mediafile *m, stk_error *err)
{
    media_head *h = &m->head;
    uint64_t room;

    if (m->len < MEDIA_HEAD)
        return damaged("shorter than the head", err);
    memcpy(h, m->data, sizeof *h);
    if (memcmp(h->magic, MEDIA_MAGIC, sizeof h->magic) != 0 ||
        stk_crc32c(0, h, MEDIA_HEAD - 4) != h->crc)
        return damaged("the head", err);
    if (h->version != MEDIA_VERSION)
        return stk_fail(err, STK_ENOTSUP, "sizes of media have version %u, this library reads %u",
                        h->version, MEDIA_VERSION);
    if (h->file_bytes != m->len || h->tables < MEDIA_HEAD || h->tables > m->len)
        return damaged("the length", err);
    room = m->len - h->tables;
    if (h->shards > room / sizeof(media_shard) || h->columns > room / sizeof(media_column) ||
        h->shards * sizeof(media_shard) + h->columns * sizeof(media_column) +
                (uint64_t)h->names * 4 + h->text !=
            room)
        return damaged("the length", err);
    if (stk_crc32c(0, m->data + h->tables, (size_t)room) != h->table_crc)
        return damaged("the tables", err);
    return 0;
}

static void *copy(const uint8_t **at, size_t len)
{
    void *p = stk_alloc(len + 1);

    if (p)
        memcpy(p, *at, len);
    *at += len;
    return p;
}

static int tables_copy(stk_mediafile *m, stk_error *err)
{
    const media_head *h = &m->head;
    const uint8_t *at = m->data + h->tables;

    m->shard = copy(&at, (size_t)h->shards * sizeof *m->shard);
    m->column = copy(&at, (size_t)h->columns * sizeof *m->column);
    m->end = copy(&at, (size_t)h->names * sizeof *m->end);
    m->text = copy(&at, h->text);
    m->sound = stk_zalloc(h->shards + 1, 1);
    if (!m->shard || !m->column || !m->end || !m->text || !m->sound)
        return stk_fail_nomem(err, m->len - h->tables);
    return 0;
}

static int names_check(const stk_mediafile *m)
{
    uint32_t at = 0;

    for (uint32_t i = 0; i < m->head.names; at = m->end[i++])
        if (m->end[i] <= at || m->end[i] > m->head.text || m->text[m->end[i] - 1] ||
            strlen(m->text + at) + 1 != m->end[i] - at)
            return 0;
    return at == m->head.text;
}

static uint64_t columns_end(const stk_mediafile *m, uint64_t shard)
{
    return shard + 1 < m->head.shards ? m->shard[shard + 1].first : m->head.columns;
}

/* Every number in the tables is in range from here on. */
static int tables_check(const stk_mediafile *m)
{
    uint64_t at = 0;

    for (uint64_t i = 0; i < m->head.shards; i++) {
        const media_shard *s = &m->shard[i];
        uint64_t end = columns_end(m, i);

        if (s->first != at || end < at || end > m->head.columns || s->id.samples >> 48)
            return 0;
        for (; at < end; at++) {
            const media_column *c = &m->column[at];

            if (c->name >= m->head.names || (c->width != MEDIA_NARROW && c->width != MEDIA_WIDE) ||
                c->offset < MEDIA_HEAD || c->offset % 8 || c->offset > m->head.tables ||
                s->id.samples > (m->head.tables - c->offset) / c->width)
                return 0;
        }
    }
    return at == m->head.columns && names_check(m);
}

static void columns_check(stk_mediafile *m)
{
    for (uint64_t i = 0; i < m->head.shards; i++) {
        int good = 1;

        for (uint64_t k = m->shard[i].first; good && k < columns_end(m, i); k++)
            good = stk_crc32c(0, m->data + m->column[k].offset,
                              (size_t)m->shard[i].id.samples * m->column[k].width) ==
                   m->column[k].crc;
        m->sound[i] = (uint8_t)good;
    }
}

static int name_figures(stk_mediafile *m, stk_error *err)
{
    static const char *const of[] = { "width", "height" };

    m->figure = stk_zalloc((size_t)m->head.names * 2 + 1, sizeof *m->figure);
    for (uint32_t i = 0; m->figure && i < 2 * m->head.names; i++) {
        const char *name = stk_mediafile_name(m, i / 2);
        size_t size = strlen(name) + 8;

        m->figure[i] = stk_alloc(size);
        if (!m->figure[i])
            return stk_fail_nomem(err, size);
        snprintf(m->figure[i], size, "%s.%s", name, of[i % 2]);
    }
    return m->figure ? 0 : stk_fail_nomem(err, m->head.names * sizeof *m->figure);
}

static int open_data(stk_mediafile *m, stk_error *err)
{
    STK_TRY(head_check(m, err));
    STK_TRY(tables_copy(m, err));
    /* the tables were read a second time: another process may have written in between */
    if (!tables_check(m))
        return damaged("the tables", err);
    columns_check(m);
    return name_figures(m, err);
}

static int map_file(stk_mediafile *m, const char *path, stk_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
    struct stat st;

    if (fd < 0)
        return stk_fail(err, errno == ENOENT ? STK_ENOTFOUND : STK_EIO, "cannot open %s: %s", path,
                        strerror(errno));
    if (fstat(fd, &st) < 0 || st.st_size < (off_t)MEDIA_HEAD)
        rc = damaged("shorter than the head", err);
    else if (stk_guarded_map(&m->map, fd, (size_t)st.st_size) < 0)
        rc = stk_fail(err, STK_EIO, "cannot map %s: %s", path, strerror(errno));
    close(fd);
    if (rc == 0) {
        m->data = stk_guarded_data(m->map);
        m->len = (size_t)st.st_size;
    }
    return rc;
}

int stk_mediafile_open(stk_mediafile **out, const char *path, stk_error *err)
{
    stk_mediafile *m = STK_NEW(stk_mediafile);
    int rc = m ? map_file(m, path, err) : stk_fail_nomem(err, sizeof *m);

    if (rc == 0)
        rc = open_data(m, err);
    if (rc < 0)
        stk_mediafile_close(&m);
    *out = m;
    return rc;
}

int stk_mediafile_take(stk_mediafile **out, uint8_t *data, size_t len, stk_error *err)
{
    stk_mediafile *m = STK_NEW(stk_mediafile);
    int rc;

    *out = NULL;
    if (!m) {
        stk_free(data);
        return stk_fail_nomem(err, sizeof *m);
    }
    m->data = m->own = data;
    m->len = len;
    rc = open_data(m, err);
    if (rc < 0)
        stk_mediafile_close(&m);
    *out = m;
    return rc;
}

void stk_mediafile_close(stk_mediafile **mp)
{
    stk_mediafile *m = *mp;

    *mp = NULL;
    if (!m)
        return;
    if (m->map)
        stk_guarded_close(&m->map);
    stk_free(m->own);
    stk_free(m->shard);
    stk_free(m->column);
    stk_free(m->end);
    stk_free(m->text);
    stk_free(m->sound);
    for (uint32_t i = 0; m->figure && i < 2 * m->head.names; i++)
        stk_free(m->figure[i]);
    stk_free(m->figure);
    stk_free(m);
}

/* ---- what is in it ---- */

int stk_mediafile_has(const stk_mediafile *m, uint64_t i, const stk_media_shard *s)
{
    return i < m->head.shards && m->sound[i] && !memcmp(&m->shard[i].id, s, sizeof *s);
}

uint64_t stk_mediafile_match(const stk_mediafile *m, const stk_media_shard *s)
{
    for (uint64_t i = 0; i < m->head.shards; i++)
        if (stk_mediafile_has(m, i, s))
            return i;
    return UINT64_MAX;
}

uint64_t stk_mediafile_shards(const stk_mediafile *m)
{
    return m->head.shards;
}

const char *stk_mediafile_name(const stk_mediafile *m, uint32_t i)
{
    return i < m->head.names ? m->text + (i ? m->end[i - 1] : 0) : NULL;
}

const char *stk_mediafile_figure(const stk_mediafile *m, uint32_t i)
{
    return i / 2 < m->head.names ? m->figure[i] : NULL;
}

static stk_media_column column_at(const stk_mediafile *m, uint64_t shard, uint64_t k)
{
    const media_column *c = &m->column[k];

    return (stk_media_column){ m->data + c->offset, m->shard[shard].id.samples, c->width };
}

/* True if a chain that begins with from(asked) reads the field `have`: of structs as Hugging Face
 * has them, `image` is `image.bytes` (stk_table_find). */
static int is_field(const char *have, const char *asked)
{
    size_t n = strlen(asked);

    return !strncmp(have, asked, n) && !strcmp(have + n, ".bytes");
}

stk_media_column stk_mediafile_column(const stk_mediafile *m, uint64_t shard, const char *name)
{
    uint64_t inner = UINT64_MAX;

    if (shard >= m->head.shards || !m->sound[shard])
        return (stk_media_column){ 0 };
    for (uint64_t k = m->shard[shard].first; k < columns_end(m, shard); k++) {
        const char *have = stk_mediafile_name(m, m->column[k].name);

        if (!strcmp(have, name))
            return column_at(m, shard, k);
        if (is_field(have, name))
            inner = k;
    }
    return inner == UINT64_MAX ? (stk_media_column){ 0 } : column_at(m, shard, inner);
}

stk_media_rec stk_media_at(const stk_media_column *c, uint64_t row)
{
    stk_media_rec r = { 0 };
    uint64_t word;

    if (!c->data || row >= c->rows)
        return r;
    if (c->width == MEDIA_WIDE) {
        memcpy(&r, c->data + row * MEDIA_WIDE, MEDIA_WIDE);
        return r;
    }
    memcpy(&word, c->data + row * MEDIA_NARROW, sizeof word);
    r.width = (uint32_t)word & (MEDIA_SIDE - 1);
    r.height = (uint32_t)(word >> 28) & (MEDIA_SIDE - 1);
    r.turn = word >> 56 & 15;
    r.kind = (uint8_t)(word >> 60);
    r.units = r.kind != 0;
    return r;
}

/* ---- writing ---- */

static stk_media_field *field_find(const stk_media_records *r, const char *name)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (!strcmp(r->field[i].name, name))
            return &r->field[i];
    return NULL;
}

/* The same; one that is new is added. */
static stk_media_field *field_named(stk_media_records *r, const char *name, stk_error *err)
{
    stk_media_field *f, *grown;

    f = field_find(r, name);
    if (f)
        return f;
    if (r->n == r->cap) {
        uint32_t cap = r->cap ? 2 * r->cap : 4;

        grown = stk_grow(r->field, r->cap * sizeof *grown, cap * sizeof *grown);
        if (!grown)
            return stk_fail_nomem(err, cap * sizeof *grown), NULL;
        r->field = grown;
        r->cap = cap;
    }
    f = &r->field[r->n];
    *f = (stk_media_field){ .name = stk_strdup(name) };
    if (!f->name)
        return stk_fail_nomem(err, strlen(name)), NULL;
    r->n++;
    return f;
}

int stk_media_records_put(stk_media_records *r, const char *name, uint64_t row,
                          const stk_media_rec *rec, stk_error *err)
{
    stk_media_field *f;

    if (r->n >= STK_MEDIA_NAMES && !field_find(r, name))
        return 0;
    f = field_named(r, name, err);
    if (!f)
        return STK_ENOMEM;
    if (!f->rec)
        f->rec = stk_zalloc(r->shard.samples + 1, sizeof *f->rec);
    if (!f->rec)
        return stk_fail_nomem(err, r->shard.samples * sizeof *f->rec);
    f->rec[row] = *rec;
    return 0;
}

static int is_narrow(const stk_media_rec *r)
{
    return !r->kind ||
           (r->kind == 1 && r->width < MEDIA_SIDE && r->height < MEDIA_SIDE && r->turn < 16 &&
            r->units == 1 && !r->duration_us && !r->rate && !r->channels);
}

static void pack(const stk_media_rec *r, uint8_t *to)
{
    uint64_t word = (uint64_t)r->kind << 60 | (uint64_t)r->turn << 56 | (uint64_t)r->height << 28 |
                    r->width;

    memcpy(to, &word, sizeof word);
}

int stk_media_records_end(stk_media_records *r, stk_error *err)
{
    uint64_t rows = r->shard.samples;

    for (uint32_t i = 0; i < r->n; i++) {
        stk_media_field *f = &r->field[i];
        int narrow = 1;

        for (uint64_t k = 0; narrow && k < rows; k++)
            narrow = is_narrow(&f->rec[k]);
        f->width = narrow ? MEDIA_NARROW : MEDIA_WIDE;
        f->packed = narrow ? stk_alloc(rows * MEDIA_NARROW + 1) : (uint8_t *)f->rec;
        if (!f->packed)
            return stk_fail_nomem(err, rows * MEDIA_NARROW);
        for (uint64_t k = 0; narrow && k < rows; k++)
            pack(&f->rec[k], f->packed + k * MEDIA_NARROW);
        if (narrow)
            stk_free(f->rec);
        f->rec = NULL;
    }
    return 0;
}

int stk_media_records_copy(stk_media_records *r, const stk_mediafile *old, uint64_t from,
                           stk_error *err)
{
    for (uint64_t k = old->shard[from].first; k < columns_end(old, from); k++) {
        stk_media_column c = column_at(old, from, k);
        stk_media_field *f = field_named(r, stk_mediafile_name(old, old->column[k].name), err);

        if (!f)
            return STK_ENOMEM;
        f->width = c.width;
        f->packed = stk_alloc(c.rows * c.width + 1);
        if (!f->packed)
            return stk_fail_nomem(err, c.rows * c.width);
        memcpy(f->packed, c.data, c.rows * c.width);
    }
    return 0;
}

void stk_media_records_fini(stk_media_records *r)
{
    for (uint32_t i = 0; i < r->n; i++) {
        stk_free(r->field[i].name);
        stk_free(r->field[i].rec);
        stk_free(r->field[i].packed);
    }
    stk_free(r->field);
    *r = (stk_media_records){ 0 };
}

typedef struct image { /* of a file while it is made */
    media_head head;
    stk_media_records names; /* each once */
    uint8_t *data;
} image;

static int plan(image *m, const stk_media_records *shard, uint64_t n, stk_error *err)
{
    media_head *h = &m->head;

    h->tables = MEDIA_HEAD;
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < shard[i].n; k++) {
            uint32_t before = m->names.n;
            const stk_media_field *f = field_named(&m->names, shard[i].field[k].name, err);

            if (!f)
                return STK_ENOMEM;
            if (m->names.n > before)
                h->text += (uint32_t)strlen(f->name) + 1;
            h->columns++;
            h->tables += shard[i].shard.samples * shard[i].field[k].width;
        }
    h->shards = n;
    h->names = m->names.n;
    h->file_bytes = h->tables + n * sizeof(media_shard) + h->columns * sizeof(media_column) +
                    (uint64_t)h->names * 4 + h->text;
    m->data = stk_zalloc(h->file_bytes, 1);
    return m->data ? 0 : stk_fail_nomem(err, h->file_bytes);
}

/* The columns of a shard, from column number *number on, at *at. */
static void put_shard(const image *m, const stk_media_records *s, uint64_t *number, uint64_t *at)
{
    uint8_t *table = m->data + m->head.tables + m->head.shards * sizeof(media_shard);

    for (uint32_t k = 0; k < s->n; k++) {
        const stk_media_field *f = &s->field[k];
        size_t len = (size_t)s->shard.samples * f->width;
        media_column c = { .offset = *at, .width = f->width };

        while (strcmp(m->names.field[c.name].name, f->name) != 0)
            c.name++;
        memcpy(m->data + *at, f->packed, len);
        c.crc = stk_crc32c(0, f->packed, len);
        memcpy(table + *number * sizeof c, &c, sizeof c);
        *at += len;
        ++*number;
    }
}

static void fill(image *m, const stk_media_records *shard, uint64_t n)
{
    uint8_t *table = m->data + m->head.tables, *ends, *text;
    uint64_t number = 0, at = MEDIA_HEAD;
    uint32_t end = 0;

    for (uint64_t i = 0; i < n; i++) {
        media_shard s = { shard[i].shard, number };

        memcpy(table + i * sizeof s, &s, sizeof s);
        put_shard(m, &shard[i], &number, &at);
    }
    ends = table + n * sizeof(media_shard) + m->head.columns * sizeof(media_column);
    text = ends + (size_t)m->head.names * 4;
    for (uint32_t i = 0; i < m->names.n; i++) {
        size_t len = strlen(m->names.field[i].name) + 1;

        memcpy(text + end, m->names.field[i].name, len);
        end += (uint32_t)len;
        memcpy(ends + (size_t)i * 4, &end, 4);
    }
    memcpy(m->head.magic, MEDIA_MAGIC, sizeof m->head.magic);
    m->head.version = MEDIA_VERSION;
    m->head.table_crc = stk_crc32c(0, table, (size_t)(m->head.file_bytes - m->head.tables));
    m->head.crc = stk_crc32c(0, &m->head, MEDIA_HEAD - 4);
    memcpy(m->data, &m->head, sizeof m->head);
}

int stk_mediafile_make(const stk_media_records *shard, uint64_t n, uint8_t **out, size_t *len,
                       stk_error *err)
{
    image m = { 0 };
    int rc = plan(&m, shard, n, err);

    if (rc == 0)
        fill(&m, shard, n);
    *out = m.data;
    *len = (size_t)m.head.file_bytes;
    stk_media_records_fini(&m.names);
    return rc;
}
