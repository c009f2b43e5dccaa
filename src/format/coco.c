/* SPDX-License-Identifier: Apache-2.0 */
/* coco.c - COCO's annotation files: instances, captions, keypoints.  A picture is a sample.
 *
 * Fields are image, image_id, width, height, and of its annotations, in the file's order: ids,
 * boxes (x0, y0, x1, y1 in pixels), labels (categories numbered from 0 by their ids), category_ids,
 * areas, crowd, masks (for the codecs of codec/regions.c), keypoints, captions, as far as the file
 * has them.  A picture without annotations has empty lists.  Samples come by image id, as in
 * torchvision and pycocotools.
 *
 * Files have hundreds of megabytes, so they are read in two passes: one over the file notes where
 * every object is, one over the pictures reads the objects that belong to each.  The texts go into
 * the index. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/numeral.h"
#include "format/annotated.h"
#include "format/json_stream.h"
#include "source/pair_folders.h"

#define TELL_BYTES ((uint64_t)4 << 20)
#define COUNT_MAX ((size_t)1 << 30)

/* ---- what the file has ---- */

typedef struct image {
    int64_t id, width, height;
    size_t name, name_len; /* in names */
    uint64_t at, size;     /* size: of the picture's file */
    uint32_t first;        /* of its annotations */
    int missing;
} image;

typedef struct note { /* an annotation */
    int64_t image_id;
    uint64_t at;
    uint32_t len, image; /* image: number of its picture */
} note;

typedef struct category {
    int64_t id;
    size_t name;
    uint32_t points;
} category;

typedef struct object { /* members of one, as raw text in it; no data: it has none */
    stk_bytes id, image_id, file_name, width, height, name, category_id, bbox, area, iscrowd,
        segmentation, keypoints, caption;
} object;

enum { IDS, BOXES, LABELS, CATEGORIES, AREAS, CROWD, MASKS, KEYPOINTS, CAPTIONS, TEXTS };
static const char *const text_names[TEXTS] = { "ids",          "boxes",     "labels",
                                               "category_ids", "areas",     "crowd",
                                               "masks",        "keypoints", "captions" };

typedef struct coco {
    stk_scan *scan;
    stk_file *file;
    image *image;
    note *note;
    category *category;
    size_t n_images, cap_images, n_notes, cap_notes, n_categories, cap_categories;
    stk_text names; /* of pictures and categories, each with a NUL */
    stk_text root, root_said, head, object, text[TEXTS];
    uint8_t has[TEXTS];
    uint32_t points;  /* keypoints of an annotation */
    uint64_t strange; /* annotations of no picture */
    stk_record record;
} coco;

static int is(stk_bytes key, const char *name)
{
    size_t n = strlen(name);

    return key.len == n + 2 && !memcmp(key.data + 1, name, n);
}

static int take_member(void *cookie, stk_bytes key, stk_bytes value, stk_error *err)
{
    object *o = cookie;
    const struct {
        const char *name;
        stk_bytes *to;
    } all[] = { { "id", &o->id },
                { "image_id", &o->image_id },
                { "file_name", &o->file_name },
                { "width", &o->width },
                { "height", &o->height },
                { "name", &o->name },
                { "category_id", &o->category_id },
                { "bbox", &o->bbox },
                { "area", &o->area },
                { "iscrowd", &o->iscrowd },
                { "segmentation", &o->segmentation },
                { "keypoints", &o->keypoints },
                { "caption", &o->caption } };

    (void)err;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (is(key, all[i].name))
            *all[i].to = value.data[0] == 'n' ? (stk_bytes){ 0 } : value;
    return 0;
}

static int take_object(stk_bytes text, object *o, stk_error *err)
{
    *o = (object){ 0 };
    return stk_json_members(text, take_member, o, err);
}

static int whole(stk_bytes text, const char *what, int64_t *out, stk_error *err)
{
    char shown[STK_SHOWN_MAX];

    return text.data && stk_number_i64(text, out) == 1
               ? 0
               : stk_fail(err, STK_ECORRUPT, "%s is %s, not a whole number", what,
                          text.data ? stk_shown(text, shown) : "missing");
}

static int reserve(void **p, size_t n, size_t *cap, size_t size, stk_error *err)
{
    size_t more = *cap ? 2 * *cap : 64;
    void *grown;

    if (n < *cap)
        return 0;
    grown = more <= COUNT_MAX ? stk_grow(*p, n * size, more * size) : NULL;
    if (!grown)
        return stk_fail_nomem(err, more * size);
    *p = grown;
    *cap = more;
    return 0;
}

/* A JSON string without its quotes, with a NUL after it. */
static int put_string(stk_text *t, stk_bytes s, const char *what, stk_error *err)
{
    size_t at = t->len, len = 0;

    if (!s.data || s.data[0] != '"')
        return stk_fail(err, STK_ECORRUPT, "%s is missing, or not a text", what);
    STK_TRY(stk_text_put(t, s.data, s.len, err));
    STK_TRY(stk_json_unquote(s, (uint8_t *)t->s + at, &len, err));
    t->len = at + len;
    if (!len || memchr(t->s + at, 0, len))
        return stk_fail(err, STK_ECORRUPT, "%s is empty, or has a null character", what);
    return stk_text_put(t, "", 1, err);
}

static int note_image(coco *c, stk_bytes text, uint64_t at, stk_error *err)
{
    object o;
    image *m;

    STK_TRY(reserve((void **)&c->image, c->n_images, &c->cap_images, sizeof *m, err));
    STK_TRY(take_object(text, &o, err));
    m = &c->image[c->n_images];
    *m = (image){ .at = at, .name = c->names.len };
    STK_TRY(whole(o.id, "the id of an image", &m->id, err));
    STK_TRY(put_string(&c->names, o.file_name, "file_name of an image", err));
    m->name_len = c->names.len - m->name - 1;
    if (o.width.data)
        STK_TRY(whole(o.width, "the width of an image", &m->width, err));
    if (o.height.data)
        STK_TRY(whole(o.height, "the height of an image", &m->height, err));
    c->n_images++;
    return 0;
}

static int note_annotation(coco *c, stk_bytes text, uint64_t at, stk_error *err)
{
    object o;
    note *a;

    STK_TRY(reserve((void **)&c->note, c->n_notes, &c->cap_notes, sizeof *a, err));
    STK_TRY(take_object(text, &o, err));
    a = &c->note[c->n_notes];
    *a = (note){ .at = at, .len = (uint32_t)text.len };
    STK_TRY(whole(o.image_id, "the image_id of an annotation", &a->image_id, err));
    c->has[BOXES] |= o.bbox.data != NULL;
    c->has[LABELS] |= o.category_id.data != NULL;
    c->has[AREAS] |= o.area.data != NULL;
    c->has[CROWD] |= o.iscrowd.data != NULL;
    c->has[MASKS] |= o.segmentation.data != NULL;
    c->has[KEYPOINTS] |= o.keypoints.data != NULL;
    c->has[CAPTIONS] |= o.caption.data != NULL;
    c->n_notes++;
    return 0;
}

static int note_category(coco *c, stk_bytes text, uint64_t at, stk_error *err)
{
    category *k;
    object o;

    (void)at;
    STK_TRY(reserve((void **)&c->category, c->n_categories, &c->cap_categories, sizeof *k, err));
    STK_TRY(take_object(text, &o, err));
    k = &c->category[c->n_categories];
    *k = (category){ .name = c->names.len };
    STK_TRY(whole(o.id, "the id of a category", &k->id, err));
    STK_TRY(put_string(&c->names, o.name, "the name of a category", err));
    c->n_categories++;
    return 0;
}

/* ---- the first pass ---- */

typedef int (*note_fn)(coco *c, stk_bytes text, uint64_t at, stk_error *err);

static int take_list(coco *c, stk_json_stream *r, note_fn fn, stk_error *err)
{
    uint64_t told = 0;
    uint8_t mark;

    r->pos++;
    STK_TRY(stk_json_mark(r, &mark, err));
    while (mark != ']') {
        stk_bytes text;
        int rc = stk_json_take(r, &text, err);

        if (rc == 0)
            rc = fn(c, text, r->at + r->from, err);
        if (rc < 0) {
            stk_error_at(err, NULL, r->at + r->from, (stk_bytes){ 0 });
            return rc;
        }
        STK_TRY(stk_json_mark(r, &mark, err));
        if (mark != ',' && mark != ']')
            return stk_json_broken(r, "no comma between objects", err);
        if (mark == ',') {
            r->pos++;
            STK_TRY(stk_json_mark(r, &mark, err));
        }
        if (r->at - told > TELL_BYTES && c->scan->progress) {
            told = r->at;
            if (c->scan->progress(c->scan, r->at))
                return stk_fail(err, STK_ECLOSED, "indexing was stopped");
        }
    }
    r->pos++;
    return 0;
}

static int take_top(coco *c, stk_json_stream *r, stk_error *err)
{
    static const struct {
        const char *key;
        note_fn fn;
    } lists[] = { { "images", note_image },
                  { "annotations", note_annotation },
                  { "categories", note_category } };
    stk_bytes key;
    note_fn fn = NULL;
    uint8_t mark;

    STK_TRY(stk_json_take(r, &key, err));
    if (!key.len || key.data[0] != '"')
        return stk_json_broken(r, "a member has no name", err);
    for (size_t i = 0; i < 3; i++)
        fn = is(key, lists[i].key) ? lists[i].fn : fn;
    STK_TRY(stk_json_mark(r, &mark, err));
    if (mark != ':')
        return stk_json_broken(r, "no colon after a name", err);
    r->pos++;
    STK_TRY(stk_json_mark(r, &mark, err));
    return fn && mark == '[' ? take_list(c, r, fn, err) : stk_json_pass(r, err);
}

static int take_file(coco *c, stk_json_stream *r, stk_error *err)
{
    uint8_t mark;

    STK_TRY(stk_json_mark(r, &mark, err));
    if (mark != '{')
        return stk_json_broken(r, "it is not an object", err);
    do {
        r->pos++;
        STK_TRY(stk_json_mark(r, &mark, err));
        if (mark != '}')
            STK_TRY(take_top(c, r, err));
        STK_TRY(stk_json_mark(r, &mark, err));
    } while (mark == ',');
    return mark == '}' ? 0 : stk_json_broken(r, "no comma between members", err);
}

/* ---- who belongs to whom ---- */

static int by_id(const void *a, const void *b)
{
    const image *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

static int by_category(const void *a, const void *b)
{
    const category *x = a, *y = b;

    return (x->id > y->id) - (x->id < y->id);
}

static int by_image(const void *a, const void *b)
{
    const note *x = a, *y = b;

    if (x->image != y->image)
        return x->image > y->image ? 1 : -1;
    return (x->at > y->at) - (x->at < y->at);
}

static int check_ids(const coco *c, stk_error *err)
{
    for (size_t i = 1; i < c->n_images; i++)
        if (c->image[i].id == c->image[i - 1].id)
            return stk_fail(err, STK_ECORRUPT, "two images have the id %" PRId64, c->image[i].id);
    for (size_t i = 1; i < c->n_categories; i++)
        if (c->category[i].id == c->category[i - 1].id)
            return stk_fail(err, STK_ECORRUPT, "two categories have the id %" PRId64,
                            c->category[i].id);
    return c->n_images ? 0
                       : stk_fail(err, STK_ECORRUPT,
                                  "not an annotation file of COCO: it has no \"images\"");
}

static int sort_all(coco *c, stk_error *err)
{
    size_t at = 0;

    if (c->n_images)
        qsort(c->image, c->n_images, sizeof *c->image, by_id);
    if (c->n_categories)
        qsort(c->category, c->n_categories, sizeof *c->category, by_category);
    STK_TRY(check_ids(c, err));
    for (size_t i = 0; i < c->n_notes; i++) {
        image key = { .id = c->note[i].image_id };
        const image *m = bsearch(&key, c->image, c->n_images, sizeof key, by_id);

        c->note[i].image = m ? (uint32_t)(m - c->image) : UINT32_MAX;
        c->strange += !m;
    }
    if (c->n_notes)
        qsort(c->note, c->n_notes, sizeof *c->note, by_image);
    for (size_t i = 0; i < c->n_images; i++) {
        c->image[i].first = (uint32_t)at;
        while (at < c->n_notes && c->note[at].image == i)
            at++;
    }
    return 0;
}

/* ---- the pictures' folder ---- */

static int try_root(coco *c, const char *said, int *found, stk_error *err)
{
    const image *m = &c->image[0];
    uint64_t size;
    int missing = 1;

    *found = 0;
    STK_TRY(stk_annotated_root(c->scan->name, said, &c->root, err));
    STK_TRY(stk_annotated_stat(c->root.s,
                               (stk_bytes){ (uint8_t *)c->names.s + m->name, m->name_len }, &size,
                               &missing, err));
    *found = !missing;
    c->root_said.len = 0;
    return stk_text_put(&c->root_said, said, strlen(said), err);
}

/* Where people have them: instances_train2017.json in annotations/, the pictures in train2017/. */
static int find_root(coco *c, const char *images, stk_error *err)
{
    static const char *const places[] = { ".",  "../%s",     "../images/%s",
                                          "%s", "../images", "images",
                                          "..", "images/%s", "../../images/%s" };
    const char *name = strrchr(c->scan->name, '/'), *split_at;
    char split[128], said[160];
    int found = 0;

    if (images[0])
        return try_root(c, images, &found, err);
    name = name ? name + 1 : c->scan->name;
    split_at = strrchr(name, '_') ? strrchr(name, '_') + 1 : name;
    snprintf(split, sizeof split, "%.*s", (int)strcspn(split_at, "."), split_at);
    for (size_t i = 0; !found && i < sizeof places / sizeof *places; i++) {
        snprintf(said, sizeof said, places[i], split);
        STK_TRY(try_root(c, said, &found, err));
    }
    return found ? 0
                 : stk_fail(err, STK_ENOTFOUND,
                            "the first picture, \"%.80s\", is neither beside the annotations nor "
                            "in ../%.40s: say images=FOLDER (coco://FILE&images=FOLDER)",
                            c->names.s + c->image[0].name, split);
}

static int find_pictures(coco *c, stk_error *err)
{
    size_t missing = 0, first = 0;
    stk_text file = { 0 }, images = { 0 };
    int rc = stk_coco_file(c->scan->name, &file, &images, err);

    if (rc == 0)
        rc = find_root(c, images.s, err);
    stk_free(file.s);
    stk_free(images.s);
    STK_TRY(rc);
    for (size_t i = 0; i < c->n_images; i++) {
        image *m = &c->image[i];

        STK_TRY(stk_annotated_stat(c->root.s,
                                   (stk_bytes){ (uint8_t *)c->names.s + m->name, m->name_len },
                                   &m->size, &m->missing, err));
        first = m->missing && !missing ? i : first;
        missing += m->missing != 0;
    }
    return !missing ? 0
                    : stk_fail(err, STK_ENOTFOUND,
                               "%zu of %zu pictures are not in \"%.80s\", the first is \"%.60s\": "
                               "fetch them, or say where they are: images=FOLDER",
                               missing, c->n_images, c->root.s, c->names.s + c->image[first].name);
}

/* ---- the second pass ---- */

typedef struct numbers { /* the numbers of a JSON list, nested lists left out */
    double v[512];
    size_t n;
} numbers;

static int take_number(void *cookie, stk_bytes key, stk_bytes value, stk_error *err)
{
    numbers *n = cookie;

    (void)key;
    if (n->n == sizeof n->v / sizeof *n->v || stk_number_f64(value, &n->v[n->n]) != 1)
        return stk_fail(err, STK_ECORRUPT,
                        "a list is too long, or has something that is not a "
                        "number");
    n->n++;
    return 0;
}

static int put_box(coco *c, stk_bytes box, stk_error *err)
{
    stk_text *t = &c->text[BOXES];
    numbers n = { .n = 0 };

    if (box.data)
        STK_TRY(stk_json_elements(box, take_number, &n, err));
    if (n.n != 4)
        return stk_fail(err, STK_ECORRUPT, "bbox has %zu numbers, not 4: x, y, width, height", n.n);
    n.v[2] += n.v[0];
    n.v[3] += n.v[1];
    STK_TRY(stk_list_next(t, err));
    for (int i = 0; i < 4; i++) {
        STK_TRY(stk_text_put(t, i ? ", " : "[", i ? 2 : 1, err));
        STK_TRY(stk_real_put(t, n.v[i], err));
    }
    return stk_text_put(t, "]", 1, err);
}

static int put_label(coco *c, stk_bytes id, stk_error *err)
{
    const category *found;
    category key = { 0 };

    STK_TRY(whole(id, "the category_id of an annotation", &key.id, err));
    found = c->n_categories ? bsearch(&key, c->category, c->n_categories, sizeof key, by_category)
                            : NULL;
    if (!found)
        return stk_fail(err, STK_ECORRUPT, "no category has the id %" PRId64, key.id);
    STK_TRY(stk_list_next(&c->text[LABELS], err));
    STK_TRY(stk_int_put(&c->text[LABELS], found - c->category, err));
    STK_TRY(stk_list_next(&c->text[CATEGORIES], err));
    return stk_int_put(&c->text[CATEGORIES], key.id, err);
}

/* Keypoints (x, y, visibility) of one annotation; one without has zeros. */
static int put_points(coco *c, stk_bytes list, stk_error *err)
{
    stk_text *t = &c->text[KEYPOINTS];
    numbers n = { .n = 0 };

    if (list.data)
        STK_TRY(stk_json_elements(list, take_number, &n, err));
    if (!c->points)
        c->points = (uint32_t)(n.n / 3);
    if (n.n % 3 || (n.n && n.n / 3 != c->points))
        return stk_fail(err, STK_ECORRUPT,
                        "keypoints has %zu numbers, others have %u: x, y, "
                        "visibility of each",
                        n.n, 3 * c->points);
    STK_TRY(stk_list_next(t, err));
    for (uint32_t i = 0; i < c->points; i++) {
        STK_TRY(stk_text_put(t, i ? ", [" : "[[", i ? 3 : 2, err));
        for (uint32_t k = 0; k < 3; k++) {
            if (k)
                STK_TRY(stk_text_put(t, ", ", 2, err));
            STK_TRY(stk_real_put(t, n.n ? n.v[3 * i + k] : 0, err));
        }
        STK_TRY(stk_text_put(t, "]", 1, err));
    }
    return stk_text_put(t, c->points ? "]" : "[]", c->points ? 1 : 2, err);
}

/* JSON without white space between its parts. */
static int put_plain(stk_text *t, stk_bytes json, stk_error *err)
{
    int quoted = 0;

    for (size_t i = 0, from = 0; i <= json.len; i++) {
        uint8_t ch = i < json.len ? json.data[i] : ' ';

        if (quoted && ch == '\\') {
            i++;
            continue;
        }
        quoted ^= ch == '"';
        if (quoted || ch > ' ')
            continue;
        STK_TRY(stk_text_put(t, json.data + from, i - from, err));
        from = i + 1;
    }
    return 0;
}

static int put_region(coco *c, stk_bytes region, stk_error *err)
{
    static const stk_bytes none = { (const uint8_t *)"null", 4 };
    stk_text *t = &c->text[MASKS];

    if (t->len)
        STK_TRY(stk_text_put(t, ",", 1, err));
    return put_plain(t, region.data ? region : none, err);
}

/* A value that is copied as it stands; without one, `none`. */
static int put_value(stk_text *t, stk_bytes value, const char *none, stk_error *err)
{
    STK_TRY(stk_list_next(t, err));
    return stk_text_put(t, value.data ? (const char *)value.data : none,
                        value.data ? value.len : strlen(none), err);
}

static int put_annotation(coco *c, const object *o, stk_error *err)
{
    stk_text *t = c->text;
    int64_t id = 0;

    STK_TRY(whole(o->id, "the id of an annotation", &id, err));
    STK_TRY(stk_list_next(&t[IDS], err));
    STK_TRY(stk_int_put(&t[IDS], id, err));
    if (c->has[BOXES])
        STK_TRY(put_box(c, o->bbox, err));
    if (c->has[LABELS])
        STK_TRY(put_label(c, o->category_id, err));
    if (c->has[AREAS])
        STK_TRY(put_value(&t[AREAS], o->area, "0", err));
    if (c->has[CROWD])
        STK_TRY(put_value(&t[CROWD], o->iscrowd, "0", err));
    if (c->has[MASKS])
        STK_TRY(put_region(c, o->segmentation, err));
    if (c->has[KEYPOINTS])
        STK_TRY(put_points(c, o->keypoints, err));
    if (c->has[CAPTIONS])
        STK_TRY(put_value(&t[CAPTIONS], o->caption, "\"\"", err));
    return 0;
}

static int read_annotation(coco *c, const note *a, stk_error *err)
{
    object o;
    int rc;

    if (c->object.cap < a->len) {
        char *grown = stk_grow(c->object.s, 0, 2 * (size_t)a->len);

        if (!grown)
            return stk_fail_nomem(err, 2 * (size_t)a->len);
        c->object.s = grown;
        c->object.cap = 2 * (size_t)a->len;
    }
    rc = stk_file_read(c->file, a->at, c->object.s, a->len, err);
    if (rc == 0)
        rc = take_object((stk_bytes){ (uint8_t *)c->object.s, a->len }, &o, err);
    if (rc == 0)
        rc = put_annotation(c, &o, err);
    if (rc < 0)
        stk_error_at(err, NULL, a->at, (stk_bytes){ 0 });
    return rc;
}

static int put_int_field(coco *c, const char *name, int64_t v, stk_error *err)
{
    char text[24];
    int n = snprintf(text, sizeof text, "%" PRId64, v);

    return stk_record_text(&c->record, name, (stk_bytes){ (uint8_t *)text, (size_t)n }, err);
}

/* The regions become what the codec reads: {"size":[h,w],"labels":[...],"regions":[...]}. */
static int put_masks(coco *c, const image *m, stk_error *err)
{
    stk_text all = { 0 };
    stk_text *labels = &c->text[LABELS], *regions = &c->text[MASKS];
    char head[96];
    int n = snprintf(head, sizeof head,
                     "{\"size\":[%" PRId64 ",%" PRId64 "],\"labels\":", m->height, m->width),
        rc = stk_text_put(&all, head, (size_t)n, err);

    if (rc == 0)
        rc = stk_text_put(&all, c->has[LABELS] ? labels->s : "[]", c->has[LABELS] ? labels->len : 2,
                          err);
    if (rc == 0)
        rc = stk_text_put(&all, ",\"regions\":[", 12, err);
    if (rc == 0)
        rc = stk_text_put(&all, regions->len ? regions->s : "", regions->len, err);
    if (rc == 0)
        rc = stk_text_put(&all, "]}", 2, err);
    if (rc == 0)
        rc = stk_record_text(&c->record, "masks", (stk_bytes){ (uint8_t *)all.s, all.len }, err);
    stk_free(all.s);
    return rc;
}

static int put_texts(coco *c, const image *m, stk_error *err)
{
    for (int k = 0; k < TEXTS; k++) {
        stk_text *t = &c->text[k];

        if (k == MASKS || !c->has[k])
            continue;
        STK_TRY(stk_list_end(t, err));
        STK_TRY(stk_record_text(&c->record, text_names[k], (stk_bytes){ (uint8_t *)t->s, t->len },
                                err));
    }
    return c->has[MASKS] ? put_masks(c, m, err) : 0;
}

static int report_image(coco *c, size_t i, stk_error *err)
{
    const image *m = &c->image[i];
    stk_bytes name = { (uint8_t *)c->names.s + m->name, m->name_len };
    stk_bytes head = { (uint8_t *)c->head.s, i ? 0 : c->head.len };
    size_t last = i + 1 < c->n_images ? c->image[i + 1].first : c->n_notes - c->strange;

    for (int k = 0; k < TEXTS; k++)
        c->text[k].len = 0;
    for (size_t k = m->first; k < last; k++)
        STK_TRY(read_annotation(c, &c->note[k], err));
    STK_TRY(stk_record_begin(&c->record, stk_picture_stem(name), head, err));
    STK_TRY(stk_record_file(&c->record, "image", 0, name, m->size, err));
    STK_TRY(put_int_field(c, "image_id", m->id, err));
    STK_TRY(put_int_field(c, "width", m->width, err));
    STK_TRY(put_int_field(c, "height", m->height, err));
    STK_TRY(put_texts(c, m, err));
    return stk_record_report(&c->record, m->at, err);
}

static int report_all(coco *c, stk_error *err)
{
    STK_TRY(stk_text_put(&c->head, c->root_said.s, c->root_said.len + 1, err));
    for (size_t i = 0; i < c->n_categories; i++) {
        const char *name = c->names.s + c->category[i].name;

        STK_TRY(stk_text_put(&c->head, name, strlen(name) + 1, err));
    }
    c->has[IDS] = 1;
    c->has[CATEGORIES] = c->has[LABELS];
    for (size_t i = 0; i < c->n_images; i++) {
        STK_TRY(report_image(c, i, err));
        if (!(i % 1024) && c->scan->progress && c->scan->progress(c->scan, 0))
            return stk_fail(err, STK_ECLOSED, "indexing was stopped");
    }
    if (c->strange && c->scan->warn) {
        char why[120];

        snprintf(why, sizeof why,
                 "%" PRIu64 " annotations are of pictures that the file does not "
                 "have: left out",
                 c->strange);
        c->scan->warn(c->scan, why);
    }
    return 0;
}

/* ---- the format ---- */

static void fini(coco *c)
{
    stk_free(c->image);
    stk_free(c->note);
    stk_free(c->category);
    stk_free(c->names.s);
    stk_free(c->root.s);
    stk_free(c->root_said.s);
    stk_free(c->head.s);
    stk_free(c->object.s);
    for (int k = 0; k < TEXTS; k++)
        stk_free(c->text[k].s);
    stk_record_fini(&c->record);
    stk_free(c);
}

static int coco_index(stk_file *f, uint64_t size, stk_scan *scan, stk_error *err)
{
    coco *c = STK_NEW(coco);
    stk_json_stream r;
    int rc;

    if (!c)
        return stk_fail_nomem(err, sizeof *c);
    c->scan = c->record.scan = scan;
    c->file = f;
    rc = stk_json_stream_init(&r, f, size, err);
    if (rc == 0)
        rc = take_file(c, &r, err);
    stk_free(r.buf);
    if (rc == 0 && !scan->name)
        rc = stk_fail(err, STK_EINVAL, "annotations are found by their file's name");
    if (rc == 0)
        rc = sort_all(c, err);
    if (rc == 0)
        rc = find_pictures(c, err);
    if (rc == 0)
        rc = report_all(c, err);
    fini(c);
    return rc;
}

/* By its first key: COCO's own files begin with info, others with one of these. */
static int coco_probe(const char *name, stk_bytes head)
{
    static const char *const keys[] = { "\"images\"",   "\"annotations\"", "\"categories\"",
                                        "\"licenses\"", "\"info\"",        "\"type\"" };
    size_t i = 0, len = strlen(name);

    if (stk_is_coco(name))
        return 100;
    if (len < 5 || strcmp(name + len - 5, ".json") != 0)
        return 0;
    while (i < head.len && head.data[i] <= ' ')
        i++;
    if (i == head.len || head.data[i++] != '{')
        return 0;
    while (i < head.len && head.data[i] <= ' ')
        i++;
    for (size_t k = 0; k < sizeof keys / sizeof *keys; k++)
        if (head.len - i >= strlen(keys[k]) && !memcmp(head.data + i, keys[k], strlen(keys[k])))
            return 90;
    return 0;
}

const stk_format stk_format_coco = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_format),
    .name = "coco",
    .help = "COCO's annotations (instances, captions, keypoints): a sample is a picture",
    .suffixes = ".json",
    .probe = coco_probe,
    .index = coco_index,
    .locate = stk_annotated_locate,
    .open = stk_annotated_open,
    .close = stk_annotated_close,
    .class_name = stk_annotated_class,
};
