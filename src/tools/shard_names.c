/* SPDX-License-Identifier: Apache-2.0 */
/* shard_names.c - what shards and their members are called.
 *
 * A member is called KEY.FIELD, and readers take it apart by WebDataset's rules: the key ends at
 * the first dot after the last slash.  So a key is written only if it would be read back as it
 * is; packing repairs others (dots become underscores), a writer refuses them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "compress/squeeze.h"
#include "base/json.h"
#include "format/format.h"
#include "tools/shard_writer.h"

#define WIDTH_MAX 18

/* ---- shards ---- */

/* "%06d" or "%d" at `s`: its length, else 0. */
static size_t parse_number(const char *s, int *width)
{
    size_t n = 1;

    *width = 0;
    if (s[n] == '0')
        n++;
    while (s[n] >= '0' && s[n] <= '9' && *width <= WIDTH_MAX)
        *width = *width * 10 + (s[n++] - '0');
    return s[n] == 'd' && *width <= WIDTH_MAX ? n + 1 : 0;
}

/* "out/train.tar": a folder of that name is not what is meant. */
static int is_like_a_shard(const char *text)
{
    static const char *const ends[] = { ".tar", ".tar.gz", ".tar.zst", ".tar.lz4", NULL };
    size_t len = strlen(text);
    struct stat st;

    for (int i = 0; ends[i]; i++)
        if (len > strlen(ends[i]) && !strcmp(text + len - strlen(ends[i]), ends[i]))
            return stat(text, &st) < 0 || !S_ISDIR(st.st_mode);
    return 0;
}

int stk_shard_pattern_parse(stk_shard_pattern *p, const char *text, const char *name,
                            stk_error *err)
{
    const char *percent = strchr(text, '%'), *slash = strrchr(text, '/');
    const char *base = percent && slash ? slash + 1 : text;
    size_t number = percent ? parse_number(percent, &p->width) : 0;

    if (!*text)
        return stk_fail(err, STK_EINVAL, "a place for the shards is missing");
    if (!percent && is_like_a_shard(text))
        return stk_fail(err, STK_EINVAL,
                        "%.120s needs a number in its name, as in train-%%06d.tar, or is a folder",
                        text);
    if (percent && (!number || percent < base || strchr(percent + number, '%')))
        return stk_fail(err, STK_EINVAL,
                        "the shards' name %.120s needs one number, as in train-%%06d.tar", text);
    if (percent) {
        p->dir = stk_strndup(text, (size_t)(base - text));
        p->prefix = stk_strndup(base, (size_t)(percent - base));
        p->suffix = stk_strdup(percent + number);
    } else {
        size_t len = strlen(text), size = len + 2, more = strlen(name) + 2;

        p->folder = 1;
        p->width = 6;
        p->dir = stk_alloc(size);
        p->prefix = stk_alloc(more);
        p->suffix = stk_strdup(".tar");
        if (p->dir)
            snprintf(p->dir, size, "%s%s", text, text[len - 1] == '/' ? "" : "/");
        if (p->prefix)
            snprintf(p->prefix, more, "%s-", name);
    }
    if (!p->dir || !p->prefix || !p->suffix)
        return stk_fail_nomem(err, strlen(text));
    if (p->prefix[0] == '.')
        return stk_fail(err, STK_EINVAL,
                        "the shards' name %.120s begins with a dot: patterns "
                        "like *.tar would not find them",
                        text);
    p->squeeze = stk_squeeze_of(p->suffix);
    return 0;
}

int stk_shard_pattern_squeeze(stk_shard_pattern *p, const char *squeeze, stk_error *err)
{
    const char *suffix = squeeze ? stk_squeeze_suffix(squeeze) : NULL;
    char *both;

    if (!squeeze)
        return 0;
    if (!suffix)
        return stk_fail(err, STK_EINVAL, "shards are compressed by gz, zstd or lz4, not by %.40s",
                        squeeze);
    if (!p->folder && (!p->squeeze || strcmp(p->squeeze, squeeze)))
        return stk_fail(
            err, STK_EINVAL,
            "shards that are compressed by %s are called NAME-%%06d.tar%s, not ...%.40s", squeeze,
            suffix, p->suffix);
    p->squeeze = squeeze;
    both = p->folder ? stk_alloc(strlen(p->suffix) + strlen(suffix) + 1) : p->suffix;
    if (!both)
        return stk_fail_nomem(err, 16);
    if (both != p->suffix) {
        strcpy(both, p->suffix);
        strcat(both, suffix);
        stk_free(p->suffix);
        p->suffix = both;
    }
    return 0;
}

int stk_shard_open(stk_tar_writer **out, const stk_shard_pattern *p, uint64_t i, int replace,
                   stk_error *err)
{
    char *path = stk_shard_pattern_at(p, i);
    stk_framer *framer = NULL;
    int rc = path ? 0 : stk_fail_nomem(err, 64);

    if (rc == 0 && p->squeeze)
        rc = stk_squeeze_open(&framer, p->squeeze, err);
    if (rc == 0)
        rc = stk_tar_writer_open(out, path, p->store, replace, err);
    if (rc == 0)
        stk_tar_writer_take_framer(*out, framer);
    else if (framer)
        framer->close(framer);
    stk_free(path);
    return rc;
}

void stk_shard_pattern_fini(stk_shard_pattern *p)
{
    stk_free(p->dir);
    stk_free(p->prefix);
    stk_free(p->suffix);
    memset(p, 0, sizeof *p);
}

char *stk_shard_pattern_at(const stk_shard_pattern *p, uint64_t i)
{
    size_t size = strlen(p->dir) + strlen(p->prefix) + strlen(p->suffix) + 32;
    char *s = stk_alloc(size);

    if (s)
        snprintf(s, size, "%s%s%0*llu%s", p->dir, p->prefix, p->width, (unsigned long long)i,
                 p->suffix);
    return s;
}

int64_t stk_shard_pattern_number(const stk_shard_pattern *p, const char *base)
{
    size_t head = strlen(p->prefix), tail = strlen(p->suffix), len = strlen(base);
    size_t digits = len > head + tail ? len - head - tail : 0;

    if (!digits || digits > WIDTH_MAX || memcmp(base, p->prefix, head) ||
        memcmp(base + len - tail, p->suffix, tail) || strspn(base + head, "0123456789") < digits ||
        digits < (size_t)p->width || (digits > (size_t)p->width && digits > 1 && base[head] == '0'))
        return -1;
    return (int64_t)strtoll(base + head, NULL, 10);
}

int stk_shard_folder_make(const char *dir, stk_error *err)
{
    char *path = stk_strdup(dir);
    char text[96];
    struct stat st;
    int rc = path ? 0 : stk_fail_nomem(err, strlen(dir));

    for (char *p = path; rc == 0 && *p; p++)
        if (*p == '/' && p > path) {
            *p = 0;
            (void)!mkdir(path, 0777); /* whether it is there counts, below */
            *p = '/';
        }
    if (rc == 0 && *dir && mkdir(dir, 0777) < 0 && errno != EEXIST)
        rc = stk_fail(err, STK_EIO, "can't make the folder %.120s: %s", dir,
                      strerror_r(errno, text, sizeof text));
    if (rc == 0 && *dir && (stat(dir, &st) < 0 || !S_ISDIR(st.st_mode)))
        rc = stk_fail(err, STK_EINVAL, "%.120s is not a folder", dir);
    stk_free(path);
    return rc;
}

/* ---- members ---- */

/* Would KEY.FIELD be read back as that key and that field? */
static int reads_back(const stk_text *name, size_t key_len)
{
    size_t key, ext;

    return !memchr(name->s, 0, name->len) && name->s[0] != '/' &&
           stk_wds_split(name->s, name->len, &key, &ext) && key == key_len && ext == key_len + 1 &&
           !stk_wds_ignored(name->s, name->len);
}

static int name_set(stk_sample_out *o, const char *field, stk_error *err)
{
    o->name.len = 0;
    STK_TRY(stk_text_put(&o->name, o->key.s, o->key.len, err));
    STK_TRY(stk_text_put(&o->name, ".", 1, err));
    return stk_text_put(&o->name, field, strlen(field), err);
}

/* Dots after the last slash, newlines and the like become underscores. */
static void plain_key(stk_text *key)
{
    char *slash = key->len ? memrchr(key->s, '/', key->len) : NULL;
    size_t base = slash ? (size_t)(slash - key->s) + 1 : 0;

    for (size_t i = 0; i < key->len; i++)
        if ((unsigned char)key->s[i] < 0x20 || (i >= base && key->s[i] == '.'))
            key->s[i] = '_';
}

static int bad_key(stk_bytes key, const char *why, stk_error *err)
{
    char shown[STK_SHOWN_MAX];

    return stk_fail(err, STK_EINVAL, "the key %s %s", stk_shown(key, shown), why);
}

static int key_set(stk_sample_out *o, stk_bytes key, const char *field, stk_error *err)
{
    static const char why[] = "would not be read back: a key is not empty, has no dot after its "
                              "last slash, and is not in __x__/";

    o->key.len = 0;
    STK_TRY(stk_text_put(&o->key, key.data, key.len, err));
    STK_TRY(name_set(o, field, err));
    if (reads_back(&o->name, o->key.len))
        return 0;
    if (!o->adapt)
        return bad_key(key, why, err);
    plain_key(&o->key);
    STK_TRY(name_set(o, field, err));
    return reads_back(&o->name, o->key.len) ? 1 : bad_key(key, why, err);
}

static int same_key(const stk_sample_out *o)
{
    return o->last.len == o->key.len && o->last.s && !memcmp(o->last.s, o->key.s, o->key.len);
}

static int check_fields(stk_sample_out *o, const stk_part *parts, uint32_t n, stk_error *err)
{
    char shown[STK_SHOWN_MAX];

    for (uint32_t i = 0; i < n; i++) {
        const char *f = parts[i].name;

        STK_TRY(name_set(o, f, err));
        if (!*f || strchr(f, '/') || strchr(f, '\n') || !reads_back(&o->name, o->key.len))
            return stk_fail(err, STK_EINVAL,
                            "%s is not a name of a field: it would not be read back",
                            stk_shown((stk_bytes){ (const uint8_t *)f, strlen(f) }, shown));
        for (uint32_t k = 0; k < i; k++)
            if (!strcasecmp(parts[k].name, f))
                return stk_fail(err, STK_EINVAL, "a sample has the field %.60s twice", f);
    }
    return 0;
}

int stk_sample_out_check(stk_sample_out *o, stk_bytes key, const stk_part *parts, uint32_t n,
                         stk_error *err)
{
    int changed;

    if (!n)
        return bad_key(key, "has no fields: tar shards can't hold such a sample", err);
    changed = key_set(o, key, "x", err);
    STK_TRY(changed);
    if (same_key(o)) { /* readers would take both for one sample */
        if (!o->adapt)
            return bad_key(key, "comes twice in a row: readers would take both for one sample",
                           err);
        STK_TRY(stk_text_put(&o->key, "_2", 2, err));
        changed = 1;
    }
    o->adapted += (uint64_t)changed;
    return check_fields(o, parts, n, err);
}

int stk_sample_out_put(stk_sample_out *o, stk_tar_writer *tar, const stk_part *parts, uint32_t n,
                       stk_error *err)
{
    for (uint32_t i = 0; i < n; i++) {
        STK_TRY(name_set(o, parts[i].name, err));
        STK_TRY(stk_tar_writer_add(tar, (stk_bytes){ (const uint8_t *)o->name.s, o->name.len },
                                   (stk_bytes){ parts[i].data, parts[i].len }, o->mtime, err));
    }
    STK_TRY(stk_tar_writer_sample_end(tar, err));
    o->last.len = 0;
    return stk_text_put(&o->last, o->key.s, o->key.len, err);
}

void stk_sample_out_begin(stk_sample_out *o)
{
    stk_free(o->last.s);
    memset(&o->last, 0, sizeof o->last);
}

void stk_sample_out_fini(stk_sample_out *o)
{
    stk_free(o->name.s);
    stk_free(o->last.s);
    stk_free(o->key.s);
    memset(o, 0, sizeof *o);
}
