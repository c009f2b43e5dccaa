/* SPDX-License-Identifier: Apache-2.0 */
/* exclude_load.c - see exclude.h.  A line is a JSON object with shard, offset and key (without
 * offset and key: the whole shard), or else a key.  Samples without keys of their own (rows of
 * tables) are named by their number: in the file where a shard is given, else in all data, as
 * sample_keys has it.
 *
 * Lines about shards that are not loaded are passed over: one manifest may serve several splits.
 * A line whose shard is loaded but whose sample is not in it is an error: the manifest is of
 * other data, and what it was to keep out would come in. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/json.h"
#include "loader/exclude.h"

#define FILE_MAX (1ull << 30)

typedef struct entry { /* one line */
    char *shard, *key; /* NULL: not given */
    size_t key_len;
    uint64_t offset; /* STK_NO_OFFSET: not given */
} entry;

typedef struct load {
    const char *path;
    stk_dataset *const *data;
    const stk_sample_set *set;
    stk_exclude *out;
    uint64_t cap, line, passed;
    uint64_t *hash; /* of keys without a shard, sorted */
    uint64_t n_hash, hash_cap;
    uint64_t *number; /* those of them that are numbers */
    uint64_t n_number, number_cap;
    stk_error *err;
} load;

static int push(uint64_t **list, uint64_t *n, uint64_t *cap, uint64_t value, stk_error *err)
{
    if (*n == *cap) {
        uint64_t more = *cap ? *cap * 2 : 64;
        void *grown = stk_grow(*list, *cap * sizeof **list, more * sizeof **list);

        if (!grown)
            return stk_fail_nomem(err, more * sizeof **list);
        *list = grown;
        *cap = more;
    }
    (*list)[(*n)++] = value;
    return 0;
}

static int take_out(load *l, uint32_t data, uint64_t sample)
{
    return push(&l->out->id, &l->out->n, &l->cap, l->set->start[data] + sample, l->err);
}

/* ---- lines ---- */

static int line_failed(const load *l, const char *why)
{
    return stk_fail(l->err, STK_EINVAL, "exclude: line %" PRIu64 " of %.120s %s", l->line, l->path,
                    why);
}

/* A member's text, unquoted; 0 and NULL where it is null or absent. */
static int text_of(const load *l, stk_bytes line, const char *name, char **out, size_t *len)
{
    stk_bytes v;

    *out = NULL;
    *len = 0;
    if (stk_json_find(line, name, &v, NULL) < 0 || !v.len || v.data[0] != '"')
        return 0;
    *out = stk_zalloc(1, v.len + 1);
    if (!*out)
        return stk_fail_nomem(l->err, v.len);
    return stk_json_unquote(v, (uint8_t *)*out, len, l->err);
}

static int parse_line(const load *l, stk_bytes line, entry *e)
{
    stk_bytes v;
    char digits[24] = "";
    size_t len;

    *e = (entry){ .offset = STK_NO_OFFSET };
    if (stk_json_find(line, "", &v, NULL) < 0)
        return line_failed(l, "is not a JSON object");
    STK_TRY(text_of(l, line, "shard", &e->shard, &len));
    STK_TRY(text_of(l, line, "key", &e->key, &e->key_len));
    if (stk_json_find(line, "offset", &v, NULL) == 0 && v.len && v.len < sizeof digits &&
        v.data[0] >= '0' && v.data[0] <= '9') {
        memcpy(digits, v.data, v.len);
        e->offset = strtoull(digits, NULL, 10);
    }
    return e->shard || e->key ? 0 : line_failed(l, "names neither a shard nor a key");
}

/* ---- samples of a shard ---- */

static int has_key(const entry *e, stk_bytes key)
{
    return !e->key || (key.len == e->key_len && !memcmp(key.data, e->key, key.len));
}

/* 1: the key is a number. */
static int number_of(const entry *e, uint64_t *out)
{
    char digits[24] = "";

    if (!e->key_len || e->key_len >= 20 || strspn(e->key, "0123456789") != e->key_len)
        return 0;
    memcpy(digits, e->key, e->key_len);
    *out = strtoull(digits, NULL, 10);
    return 1;
}

static int find_by_number(const stk_shard_info *s, const entry *e, uint64_t *id)
{
    if (!number_of(e, id) || *id >= s->samples)
        return STK_END;
    *id += s->first;
    return 0;
}

static int find_by_offset(const stk_dataset *ds, const stk_shard_info *s, const entry *e,
                          uint64_t *id, stk_error *err)
{
    uint64_t lo = s->first, hi = s->first + s->samples;
    stk_entry at;

    while (lo < hi) { /* samples are in the order of their offsets */
        uint64_t mid = lo + (hi - lo) / 2;

        STK_TRY(ds->ops->entry(ds, mid, &at, err));
        if (at.offset < e->offset)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == s->first + s->samples)
        return STK_END;
    STK_TRY(ds->ops->entry(ds, lo, &at, err));
    *id = lo;
    return at.offset == e->offset && has_key(e, at.key) ? 0 : STK_END;
}

static int find_by_key(const stk_dataset *ds, const stk_shard_info *s, const entry *e, uint64_t *id,
                       stk_error *err)
{
    stk_entry at;

    for (*id = s->first; *id < s->first + s->samples; ++*id) {
        STK_TRY(ds->ops->entry(ds, *id, &at, err));
        if (has_key(e, at.key))
            return 0;
    }
    return STK_END;
}

/* STK_END: it has no such sample. */
static int exclude_in(load *l, uint32_t data, const stk_shard_info *s, const entry *e)
{
    const stk_dataset *ds = l->data[data];
    uint64_t id;
    int rc = STK_END;

    if (!e->key && e->offset == STK_NO_OFFSET) {
        for (id = s->first; id < s->first + s->samples; id++)
            STK_TRY(take_out(l, data, id));
        return 0;
    }
    if (!(ds->can & STK_DATA_KEYS)) {
        rc = find_by_number(s, e, &id);
        return rc == 0 ? take_out(l, data, id) : rc;
    }
    if (e->offset != STK_NO_OFFSET)
        rc = find_by_offset(ds, s, e, &id, l->err);
    if (rc == STK_END && e->key)
        rc = find_by_key(ds, s, e, &id, l->err);
    return rc == 0 ? take_out(l, data, id) : rc;
}

/* Is `given` what the index calls the shard, or the end of its path? */
static int is_shard(const char *given, const char *relative, const char *path)
{
    size_t n = strlen(given), len = strlen(path);

    return !strcmp(given, relative) ||
           (n <= len && !strcmp(path + len - n, given) && (n == len || path[len - n - 1] == '/'));
}

static int exclude_line(load *l, const entry *e, uint32_t n_data)
{
    int met = 0, found = 0;
    uint64_t number;

    if (!e->shard && number_of(e, &number))
        STK_TRY(push(&l->number, &l->n_number, &l->number_cap, number, l->err));
    if (!e->shard)
        return push(&l->hash, &l->n_hash, &l->hash_cap, stk_hash64(0, e->key, e->key_len), l->err);
    for (uint32_t d = 0; d < n_data; d++)
        for (uint64_t i = 0; i < stk_dataset_shards(l->data[d]); i++) {
            stk_shard_info s;
            int rc;

            STK_TRY(l->data[d]->ops->shard(l->data[d], i, &s, l->err));
            if (!is_shard(e->shard, s.name, stk_dataset_shard_name(l->data[d], i)))
                continue;
            met = 1;
            rc = exclude_in(l, d, &s, e);
            STK_TRY(rc);
            found |= rc == 0;
        }
    l->passed += !met;
    if (met && !found)
        return line_failed(l, "names a sample that its shard does not have: it was made from "
                              "other data; run stoker check again");
    return 0;
}

/* ---- keys alone: one look at every sample ---- */

static int by_value(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return x < y ? -1 : x > y;
}

static int exclude_keys(load *l, uint32_t n_data)
{
    stk_entry at;

    if (!l->n_hash)
        return 0;
    qsort(l->hash, l->n_hash, sizeof *l->hash, by_value);
    for (uint32_t d = 0; d < n_data; d++) {
        int keys = (l->data[d]->can & STK_DATA_KEYS) != 0;

        for (uint64_t i = 0; !keys && i < l->n_number; i++)
            /* below start it wraps */
            if (l->number[i] - l->set->start[d] < stk_dataset_len(l->data[d]))
                STK_TRY(take_out(l, d, l->number[i] - l->set->start[d]));
        for (uint64_t i = 0; keys && i < stk_dataset_len(l->data[d]); i++) {
            uint64_t h;

            STK_TRY(l->data[d]->ops->entry(l->data[d], i, &at, l->err));
            h = stk_hash64(0, at.key.data, at.key.len);
            if (bsearch(&h, l->hash, l->n_hash, sizeof h, by_value))
                STK_TRY(take_out(l, d, i));
        }
    }
    return 0;
}

/* ---- the file ---- */

static int read_whole(const char *path, char **out, size_t *len, stk_error *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    char text[96];
    struct stat st;
    ssize_t got = 0;

    *out = NULL;
    *len = 0;
    if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size > FILE_MAX) {
        int sys = fd < 0 ? errno : EINVAL;

        if (fd >= 0)
            close(fd);
        return stk_fail(err, sys == ENOENT ? STK_ENOTFOUND : STK_EINVAL,
                        "exclude: can't read %.120s: %s", path, strerror_r(sys, text, sizeof text));
    }
    *out = stk_alloc((size_t)st.st_size + 1);
    while (*out && *len < (size_t)st.st_size &&
           (got = read(fd, *out + *len, (size_t)st.st_size - *len)) > 0)
        *len += (size_t)got;
    close(fd);
    if (!*out)
        return stk_fail_nomem(err, (size_t)st.st_size);
    return got < 0 ? stk_fail(err, STK_EIO, "exclude: can't read %.120s", path) : 0;
}

static int take_line(load *l, const char *s, size_t len, uint32_t n_data)
{
    entry e = { .offset = STK_NO_OFFSET };
    int rc = 0;

    if (len && s[len - 1] == '\r')
        len--;
    if (!len)
        return 0;
    if (s[0] == '{') {
        rc = parse_line(l, (stk_bytes){ (const uint8_t *)s, len }, &e);
    } else {
        e.key = stk_strndup(s, len);
        e.key_len = len;
        rc = e.key ? 0 : stk_fail_nomem(l->err, len);
    }
    if (rc == 0)
        rc = exclude_line(l, &e, n_data);
    stk_free(e.shard);
    stk_free(e.key);
    return rc;
}

int stk_exclude_load(stk_exclude *out, const char *path, stk_dataset *const *data,
                     const stk_sample_set *set, const stk_log *log, stk_error *err)
{
    load l = { .path = path, .data = data, .set = set, .out = out, .line = 1, .err = err };
    char *text = NULL;
    size_t len = 0;
    int rc = read_whole(path, &text, &len, err);

    for (size_t at = 0, n; rc == 0 && at < len; at += n + 1, l.line++) {
        const char *end = memchr(text + at, '\n', len - at);

        n = end ? (size_t)(end - text) - at : len - at;
        rc = take_line(&l, text + at, n, set->n);
    }
    if (rc == 0)
        rc = exclude_keys(&l, set->n);
    if (rc == 0)
        stk_exclude_settle(out);
    if (rc == 0 && len && !out->n)
        stk_log_line(log, STK_LOG_WARN, "exclude: nothing in %s is in this data", path);
    stk_free(l.hash);
    stk_free(l.number);
    stk_free(text);
    return rc;
}
