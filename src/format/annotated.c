/* SPDX-License-Identifier: Apache-2.0 */
/* annotated.c - folders, classes and texts of annotated pictures.
 *
 * Names of pictures come from data: they stay below their folder. */
#include "format/annotated.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/decimal.h"
#include "source/pair_folders.h"

typedef stk_annotated state;

/* ---- texts ---- */

int stk_list_next(stk_text *list, stk_error *err)
{
    return stk_text_put(list, list->len ? ", " : "[", list->len ? 2 : 1, err);
}

int stk_list_end(stk_text *list, stk_error *err)
{
    if (!list->len)
        STK_TRY(stk_text_put(list, "[", 1, err));
    return stk_text_put(list, "]", 1, err);
}

int stk_real_put(stk_text *t, double v, stk_error *err)
{
    char text[40];
    int n = 0;

    for (int digits = 6; digits <= 17; digits = digits == 6 ? 15 : digits + 1) {
        n = snprintf(text, sizeof text, "%.*g", digits, v);
        for (char *c = text; *c; c++)
            *c = (char)(*c == ',' ? '.' : *c); /* the program's locale */
        if (stk_decimal(text, NULL) == v)
            break;
    }
    return stk_text_put(t, text, (size_t)n, err);
}

int stk_int_put(stk_text *t, int64_t v, stk_error *err)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%" PRId64, v);

    return stk_text_put(t, text, (size_t)n, err);
}

/* ---- folders ---- */

int stk_annotated_root(const char *shard, const char *root, stk_text *out, stk_error *err)
{
    stk_text file = { 0 }, unused = { 0 };
    int rc = stk_coco_file(shard, &file, &unused, err);

    out->len = 0;
    while (file.len && file.s[file.len - 1] != '/')
        file.len--;
    if (rc == 0 && root[0] != '/')
        rc = stk_text_put(out, file.len ? file.s : "./", file.len ? file.len : 2, err);
    if (rc == 0)
        rc = stk_text_put(out, root, strlen(root), err);
    while (rc == 0 && out->len > 1 && out->s[out->len - 1] == '/')
        out->s[--out->len] = 0;
    stk_free(file.s);
    stk_free(unused.s);
    return rc;
}

stk_bytes stk_picture_stem(stk_bytes name)
{
    const uint8_t *dot = name.len ? memrchr(name.data, '.', name.len) : NULL;
    size_t len = dot ? (size_t)(dot - name.data) : 0;

    return len && dot[-1] != '/' && !memchr(dot, '/', name.len - len)
               ? (stk_bytes){ name.data, len }
               : name;
}

/* 1: the name leads out of its folder. */
static int leads_out(stk_bytes name)
{
    if (!name.len || name.data[0] == '/' || name.data[name.len - 1] == '/' ||
        memchr(name.data, 0, name.len))
        return 1;
    for (size_t i = 0; i + 1 < name.len; i++)
        if (name.data[i] == '.' && name.data[i + 1] == '.' && (!i || name.data[i - 1] == '/') &&
            (i + 2 == name.len || name.data[i + 2] == '/'))
            return 1;
    return 0;
}

int stk_annotated_stat(const char *root, stk_bytes name, uint64_t *size, int *missing,
                       stk_error *err)
{
    char path[4096];
    struct stat st;

    *missing = 0;
    *size = 0;
    if (leads_out(name))
        return stk_fail(err, STK_ECORRUPT, "the picture \"%.*s\" is not below its folder: refused",
                        name.len > 120 ? 120 : (int)name.len, (const char *)name.data);
    if (snprintf(path, sizeof path, "%s/%.*s", root, (int)name.len, (const char *)name.data) >=
        (int)sizeof path)
        return stk_fail(err, STK_ELIMIT, "the path of a picture has more than %zu bytes",
                        sizeof path - 1);
    *missing = stat(path, &st) != 0 || !S_ISREG(st.st_mode);
    *size = *missing ? 0 : (uint64_t)st.st_size;
    return 0;
}

/* ---- a data set ---- */

void stk_annotated_close(void *p)
{
    state *s = p;

    if (!s)
        return;
    stk_names_fini(&s->folders);
    stk_names_fini(&s->classes);
    stk_free(s);
}

/* The classes of a shard: those of the first, or the same. */
static int take_classes(state *s, const stk_format_data *in, uint64_t shard, stk_bytes head,
                        stk_error *err)
{
    size_t n = 0;

    for (size_t at = 0; at < head.len; n++) {
        const char *name = (const char *)head.data + at;
        size_t len = strnlen(name, head.len - at);
        int same = n < s->classes.n && strlen(s->classes.name[n]) == len &&
                   !memcmp(s->classes.name[n], name, len);

        at += len + 1;
        if (!shard)
            STK_TRY(stk_names_add(&s->classes, name, len, err));
        else if (!same)
            break;
    }
    if (!shard || n == s->classes.n)
        return 0;
    stk_fail(err, STK_EINVAL,
             "its classes are not those of %.120s, so labels would mean other things: open the "
             "files apart",
             in->shards[0]);
    stk_error_at(err, in->shards[shard], STK_NO_OFFSET, (stk_bytes){ 0 });
    return STK_EINVAL;
}

static int take_shard(state *s, const stk_format_data *in, uint64_t i, stk_text *path,
                      stk_error *err)
{
    stk_bytes head = in->first ? stk_record_head(in->first[i]) : (stk_bytes){ 0 };
    const char *root = head.len ? (const char *)head.data : "";
    size_t len = head.len ? strnlen(root, head.len) : 0;

    if (head.len && len == head.len)
        return stk_fail(err, STK_ECORRUPT, "the index names no folder; run: stoker index --force");
    STK_TRY(stk_annotated_root(in->shards[i], root, path, err));
    STK_TRY(stk_names_add(&s->folders, path->s, path->len, err));
    if (!head.len) /* no samples */
        return 0;
    return take_classes(s, in, i, (stk_bytes){ head.data + len + 1, head.len - len - 1 }, err);
}

int stk_annotated_open(const stk_format_data *in, void **out, stk_error *err)
{
    state *s = STK_NEW(state);
    stk_text path = { 0 };
    int rc = s ? 0 : stk_fail_nomem(err, sizeof *s);

    *out = NULL;
    if (rc == 0 && in->classes)
        rc = stk_fail(err, STK_ENOTSUP,
                      "classes= is for folders of pictures: annotations have "
                      "their own");
    for (uint64_t i = 0; rc == 0 && i < in->n_shards; i++)
        rc = take_shard(s, in, i, &path, err);
    stk_free(path.s);
    if (rc < 0)
        stk_annotated_close(s);
    else
        *out = s;
    return rc;
}

const char *stk_annotated_class(const void *p, uint32_t i)
{
    const state *s = p;

    return i < s->classes.n ? s->classes.name[i] : NULL;
}

int stk_annotated_locate(const stk_entry *e, const stk_field *field, stk_place *out, stk_error *err)
{
    const state *s = e->state;
    stk_names one = { 0 };

    if (s && e->shard < s->folders.n)
        one = (stk_names){ .name = &s->folders.name[e->shard], .n = 1 };
    return stk_record_locate(e, field, &one, 0, out, err);
}
