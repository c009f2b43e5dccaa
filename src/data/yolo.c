/* SPDX-License-Identifier: Apache-2.0 */
/* yolo.c - a folder of pictures with YOLO's text files: images/train/1.jpg and labels/train/1.txt,
 * or 1.txt beside 1.jpg.
 *
 * A line is an object: its class and a box (center, width and height as shares of the picture), or
 * its class and a polygon.  A picture without a file, or with an empty one, has no objects.  Fields
 * are image, width, height, boxes (x0, y0, x1, y1 in pixels), labels, and masks where any line is a
 * polygon.  Pixels need the pictures' sizes, so their headers are read once, when the folder is
 * indexed.  Classes are the lines of classes.txt, of the labels' folder or up to two above, or the
 * names of data.yaml. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/numeral.h"
#include "codec/decoders.h"
#include "data/data.h"
#include "format/annotated.h"
#include "source/folder_files.h"
#include "source/pair_folders.h"
#include "source/yaml.h"

#define HEAD_BYTES ((uint64_t)256 << 10)
#define FILE_MAX ((uint64_t)1 << 30)
#define NUMBERS_MAX 4096

typedef struct yolo {
    stk_record record;
    stk_decoders decoders;
    const char *images, *names; /* names: data.yaml, where the address says it; or NULL */
    stk_text labels, file, path, head, boxes, numbers, regions, masks;
    uint8_t *bytes;
    uint64_t cap;
    uint64_t samples, total;
    double v[NUMBERS_MAX];
    int polygons; /* a line of the folder is one */
} yolo;

static int path_of(yolo *y, const char *folder, const char *name, stk_error *err)
{
    y->path.len = 0;
    STK_TRY(stk_text_put(&y->path, folder, strlen(folder), err));
    STK_TRY(stk_text_put(&y->path, "/", 1, err));
    return stk_text_put(&y->path, name, strlen(name), err);
}

/* The first `most` bytes of the file at y->path. */
static int read_some(yolo *y, uint64_t most, uint64_t *len, uint64_t *size, stk_error *err)
{
    stk_file_info info = { 0 };
    stk_file *f = NULL;
    int rc = stk_source_local.open(STK_URL(y->path.s, NULL), &f, err);

    if (rc == 0)
        rc = stk_file_stat(f, &info, err);
    *size = info.size;
    *len = info.size < most ? info.size : most;
    if (rc == 0 && *len > y->cap) {
        stk_free(y->bytes);
        y->cap = 0;
        y->bytes = stk_alloc((size_t)*len);
        rc = y->bytes ? 0 : stk_fail_nomem(err, (size_t)*len);
        y->cap = y->bytes ? *len : 0;
    }
    if (rc == 0 && *len)
        rc = stk_file_read(f, 0, y->bytes, (size_t)*len, err);
    stk_file_close(&f);
    return rc;
}

static int read_header(yolo *y, uint64_t most, stk_media_info *out, uint64_t *size, stk_error *err)
{
    stk_picture_source from = { 0 };
    uint64_t len;
    int rc;

    STK_TRY(read_some(y, most, &len, size, err));
    rc = stk_decoders_find(&y->decoders, (stk_bytes){ y->bytes, (size_t)len }, &from.decoder,
                           &from.ctx, err);
    if (rc == STK_END)
        return stk_fail(err, STK_ECORRUPT, "the file is not a picture that is known");
    return rc < 0 ? rc : stk_picture_header(&from, (stk_bytes){ y->bytes, (size_t)len }, out, err);
}

/* Headers are short, as a rule. */
static int picture_size(yolo *y, stk_media_info *out, uint64_t *size, stk_error *err)
{
    int rc = read_header(y, HEAD_BYTES, out, size, err);

    if (rc < 0 && *size > HEAD_BYTES)
        rc = read_header(y, FILE_MAX, out, size, err);
    if (rc < 0)
        stk_error_at(err, y->path.s, STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}

/* ---- lines ---- */

static int numbers_of(yolo *y, stk_bytes line, size_t *n, stk_error *err)
{
    size_t i = 0;

    *n = 0;
    while (i < line.len) {
        size_t from = i;

        while (i < line.len && line.data[i] > ' ')
            i++;
        if (i > from && (*n == NUMBERS_MAX ||
                         stk_number_f64((stk_bytes){ line.data + from, i - from }, &y->v[*n]) != 1))
            return stk_fail(err, STK_ECORRUPT,
                            "a line has a word that is not a number, or more "
                            "than %d numbers",
                            NUMBERS_MAX);
        *n += i > from;
        while (i < line.len && line.data[i] <= ' ')
            i++;
    }
    return 0;
}

static int put_polygon(yolo *y, size_t n, const stk_media_info *p, double box[4], stk_error *err)
{
    STK_TRY(stk_text_put(&y->regions, "[[", 2, err));
    for (size_t i = 1; i < n; i++) {
        int down = i % 2 == 0;
        double at = y->v[i] * (down ? p->height : p->width);

        if (i > 1)
            STK_TRY(stk_text_put(&y->regions, ",", 1, err));
        STK_TRY(stk_real_put(&y->regions, at, err));
        box[down] = i <= 2 || at < box[down] ? at : box[down];
        box[2 + down] = i <= 2 || at > box[2 + down] ? at : box[2 + down];
    }
    return stk_text_put(&y->regions, "]]", 2, err);
}

static int put_object(yolo *y, size_t n, const stk_media_info *p, stk_error *err)
{
    double box[4] = { 0 }, w = p->width, h = p->height, *v = y->v;

    if (v[0] < 0 || v[0] > 1e6 || v[0] != (double)(int)v[0] || (n != 5 && (n < 7 || n % 2 == 0)))
        return stk_fail(err, STK_ECORRUPT,
                        "a line has %zu numbers: a class and a box (5), or a class and a polygon",
                        n);
    if (y->regions.len)
        STK_TRY(stk_text_put(&y->regions, ",", 1, err));
    if (n == 5) {
        STK_TRY(stk_text_put(&y->regions, "null", 4, err));
        box[0] = (v[1] - v[3] / 2) * w;
        box[1] = (v[2] - v[4] / 2) * h;
        box[2] = (v[1] + v[3] / 2) * w;
        box[3] = (v[2] + v[4] / 2) * h;
    } else {
        y->polygons = 1;
        STK_TRY(put_polygon(y, n, p, box, err));
    }
    STK_TRY(stk_list_next(&y->numbers, err));
    STK_TRY(stk_int_put(&y->numbers, (int64_t)v[0], err));
    STK_TRY(stk_list_next(&y->boxes, err));
    for (int i = 0; i < 4; i++) {
        STK_TRY(stk_text_put(&y->boxes, i ? ", " : "[", i ? 2 : 1, err));
        STK_TRY(stk_real_put(&y->boxes, box[i], err));
    }
    return stk_text_put(&y->boxes, "]", 1, err);
}

static int take_lines(yolo *y, stk_bytes text, const stk_media_info *p, stk_error *err)
{
    uint64_t line = 1;

    for (size_t i = 0; i < text.len; line++) {
        const uint8_t *nl = memchr(text.data + i, '\n', text.len - i);
        size_t len = nl ? (size_t)(nl - text.data) - i : text.len - i, n;
        int rc = numbers_of(y, (stk_bytes){ text.data + i, len }, &n, err);

        if (rc == 0 && n)
            rc = put_object(y, n, p, err);
        if (rc < 0) {
            stk_error_at(err, y->path.s, i, (stk_bytes){ 0 });
            return rc;
        }
        i += len + (nl != NULL);
    }
    return 0;
}

/* ---- samples ---- */

static int put_text(yolo *y, const char *name, const stk_text *t, stk_error *err)
{
    return stk_record_text(&y->record, name, (stk_bytes){ (uint8_t *)t->s, t->len }, err);
}

static int put_masks(yolo *y, const stk_media_info *p, stk_error *err)
{
    char head[64];
    int n = snprintf(head, sizeof head, "{\"size\":[%u,%u],\"labels\":", p->height, p->width);

    y->masks.len = 0;
    STK_TRY(stk_text_put(&y->masks, head, (size_t)n, err));
    STK_TRY(stk_text_put(&y->masks, y->numbers.s, y->numbers.len, err));
    STK_TRY(stk_text_put(&y->masks, ",\"regions\":[", 12, err));
    STK_TRY(stk_text_put(&y->masks, y->regions.len ? y->regions.s : "", y->regions.len, err));
    STK_TRY(stk_text_put(&y->masks, "]}", 2, err));
    return put_text(y, "masks", &y->masks, err);
}

static int read_labels(yolo *y, stk_bytes stem, const stk_media_info *p, stk_error *err)
{
    uint64_t len = 0, size;
    struct stat st;

    y->file.len = y->boxes.len = y->numbers.len = y->regions.len = 0;
    STK_TRY(stk_text_put(&y->file, stem.data, stem.len, err));
    STK_TRY(stk_text_put(&y->file, ".txt", 4, err));
    STK_TRY(path_of(y, y->labels.s, y->file.s, err));
    if (stat(y->path.s, &st) == 0) {
        STK_TRY(read_some(y, FILE_MAX, &len, &size, err));
        STK_TRY(take_lines(y, (stk_bytes){ y->bytes, (size_t)len }, p, err));
    }
    STK_TRY(stk_list_end(&y->boxes, err));
    return stk_list_end(&y->numbers, err);
}

static int report(yolo *y, const char *name, int masks, stk_error *err)
{
    stk_bytes whole = { (const uint8_t *)name, strlen(name) }, stem = stk_picture_stem(whole);
    stk_bytes head = { (uint8_t *)y->head.s, y->samples ? 0 : y->head.len };
    stk_media_info info = { 0 };
    char side[16];
    uint64_t size = 0;
    int n;

    STK_TRY(path_of(y, y->images, name, err));
    STK_TRY(picture_size(y, &info, &size, err));
    STK_TRY(read_labels(y, stem, &info, err));
    if (masks < 0) /* only to see whether there are polygons */
        return 0;
    STK_TRY(stk_record_begin(&y->record, stem, head, err));
    STK_TRY(stk_record_file(&y->record, "image", 0, whole, size, err));
    n = snprintf(side, sizeof side, "%u", info.width);
    STK_TRY(stk_record_text(&y->record, "width", (stk_bytes){ (uint8_t *)side, (size_t)n }, err));
    n = snprintf(side, sizeof side, "%u", info.height);
    STK_TRY(stk_record_text(&y->record, "height", (stk_bytes){ (uint8_t *)side, (size_t)n }, err));
    STK_TRY(put_text(y, "boxes", &y->boxes, err));
    STK_TRY(put_text(y, "labels", &y->numbers, err));
    if (masks)
        STK_TRY(put_masks(y, &info, err));
    y->samples++;
    y->total += size;
    return stk_record_report(&y->record, 0, err);
}

/* ---- the folder ---- */

typedef struct listing {
    stk_names *out;
    const char *sub;
} listing;

static int take_entry(void *cookie, const stk_dir_entry *e, stk_error *err)
{
    listing *l = cookie;
    char name[4096];
    int n = snprintf(name, sizeof name, "%s%s%s", l->sub, l->sub[0] ? "/" : "", e->name);

    if (e->folder || !stk_is_picture(e->name))
        return 0;
    return n < (int)sizeof name ? stk_names_add(l->out, name, (size_t)n, err)
                                : stk_fail(err, STK_ELIMIT, "a path is too long");
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int list_pictures(const char *images, stk_names *out, stk_error *err)
{
    stk_names dirs = { 0 };
    int rc = stk_folder_walk(images, &dirs, err);

    for (size_t i = 0; rc == 0 && i < dirs.n; i++)
        rc = stk_folder_list(images, dirs.name[i], take_entry, &(listing){ out, dirs.name[i] },
                             err);
    stk_names_fini(&dirs);
    if (rc == 0 && !out->n)
        rc = stk_fail(err, STK_ENOTFOUND, "the folder has no pictures");
    if (rc == 0)
        qsort(out->name, out->n, sizeof *out->name, by_bytes);
    return rc;
}

static int put_names(yolo *y, const char *yaml, stk_error *err)
{
    stk_text text = { 0 };
    stk_names names = { 0 };
    int rc = stk_yaml_read(yaml, &text, err);

    if (rc == 0)
        rc = stk_yaml_values((stk_bytes){ (const uint8_t *)text.s, text.len }, "names", &names,
                             err);
    for (size_t i = 0; rc == 0 && i < names.n; i++)
        rc = names.name[i][0]
                 ? stk_text_put(&y->head, names.name[i], strlen(names.name[i]) + 1, err)
                 : stk_fail(err, STK_ECORRUPT, "class %zu of \"names:\" has no name", i);
    if (rc < 0)
        stk_error_at(err, yaml, STK_NO_OFFSET, (stk_bytes){ 0 });
    stk_names_fini(&names);
    stk_free(text.s);
    return rc < 0 ? rc : 0;
}

/* classes.txt, a name a line, or data.yaml, in the labels' folder or up to two above. */
static int put_classes(yolo *y, stk_error *err)
{
    static const char *const places[] = { "classes.txt", "../classes.txt", "../../classes.txt",
                                          "data.yaml",   "../data.yaml",   "../../data.yaml" };
    uint64_t len = 0, size;
    const size_t all = sizeof places / sizeof *places;
    size_t i = 0;
    struct stat st;

    STK_TRY(stk_text_put(&y->head, y->images, strlen(y->images) + 1, err));
    if (y->names)
        return put_names(y, y->names, err);
    for (; i < all; i++) {
        STK_TRY(path_of(y, y->labels.s, places[i], err));
        if (stat(y->path.s, &st) == 0)
            break;
    }
    if (i >= all / 2)
        return i < all ? put_names(y, y->path.s, err) : 0;
    STK_TRY(read_some(y, (uint64_t)1 << 20, &len, &size, err));
    for (size_t at = 0; at < len;) {
        const uint8_t *nl = memchr(y->bytes + at, '\n', (size_t)len - at);
        size_t n = nl ? (size_t)(nl - y->bytes) - at : (size_t)len - at;
        stk_bytes name = stk_trimmed((stk_bytes){ y->bytes + at, n });

        if (name.len && !memchr(name.data, 0, name.len)) {
            STK_TRY(stk_text_put(&y->head, name.data, name.len, err));
            STK_TRY(stk_text_put(&y->head, "", 1, err));
        }
        at += n + 1;
    }
    return 0;
}

static int index_folder(yolo *y, const char *url, stk_error *err)
{
    stk_names names = { 0 };
    int rc = stk_labels_folder(url, y->images, &y->labels, err);

    if (rc == 0)
        rc = stk_decoders_init(&y->decoders, NULL, err);
    if (rc == 0)
        rc = list_pictures(y->images, &names, err);
    if (rc == 0)
        rc = put_classes(y, err);
    for (size_t i = 0; rc == 0 && !y->polygons && i < names.n; i++)
        rc = report(y, names.name[i], -1, err);
    for (size_t i = 0; rc == 0 && i < names.n; i++)
        rc = report(y, names.name[i], y->polygons, err);
    stk_names_fini(&names);
    return rc;
}

static int yolo_index(stk_file *f, uint64_t size, stk_scan *scan, stk_error *err)
{
    yolo *y = STK_NEW(yolo);
    stk_pairs what = { 0 };
    int rc = y ? 0 : stk_fail_nomem(err, sizeof *y);

    (void)f, (void)size;
    if (rc == 0)
        rc = scan->name && stk_is_yolo(scan->name) ? stk_pairs_parse(scan->name, &what, err)
                                                   : stk_fail(err, STK_EINVAL, "not yolo://FOLDER");
    if (rc == 0) {
        y->record.scan = scan;
        y->images = what.folder.name[0];
        y->names = what.folder.n > 1 ? what.folder.name[1] : NULL;
        rc = index_folder(y, scan->name, err);
    }
    if (rc == 0 && scan->progress && scan->progress(scan, y->total))
        rc = stk_fail(err, STK_ECLOSED, "indexing was stopped");
    if (y) {
        stk_text *all[] = { &y->labels, &y->file,    &y->path,    &y->head,
                            &y->boxes,  &y->numbers, &y->regions, &y->masks };

        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            stk_free(all[i]->s);
        if (y->decoders.ctx)
            stk_decoders_fini(&y->decoders);
        stk_free(y->bytes);
        stk_record_fini(&y->record);
    }
    stk_free(y);
    stk_pairs_fini(&what);
    return rc;
}

static int yolo_probe(const char *name, stk_bytes head)
{
    (void)head;
    return stk_is_yolo(name) ? 100 : 0;
}

/* Pictures were found by listing: symlinks are followed. */
static int yolo_locate(const stk_entry *e, const stk_field *field, stk_place *out, stk_error *err)
{
    int rc = stk_annotated_locate(e, field, out, err);

    out->listed = 1;
    return rc;
}

const stk_format stk_format_yolo = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_format),
    .name = "yolo",
    .help = "pictures with YOLO's text files: yolo://data/images/train",
    .suffixes = "",
    .probe = yolo_probe,
    .index = yolo_index,
    .locate = yolo_locate,
    .open = stk_annotated_open,
    .close = stk_annotated_close,
    .class_name = stk_annotated_class,
};
