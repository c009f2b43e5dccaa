/* SPDX-License-Identifier: Apache-2.0 */
/* voc.c - Pascal VOC's folders: a list of names (ImageSets/Main/train.txt), each with a picture
 * (JPEGImages/NAME.jpg), an annotation (Annotations/NAME.xml) and, where they are, masks
 * (SegmentationClass/NAME.png, SegmentationObject/NAME.png).
 *
 * Fields are image, width, height, boxes, labels, difficult, truncated, class_mask, object_mask.
 * VOC counts pixels from 1 and both corners belong to a box, so a box is xmin - 1, ymin - 1, xmax,
 * ymax.  Classes are VOC's twenty, in their order, or, where others occur, all names of the
 * folder's annotations, sorted, so that every list of the folder has the same numbers. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/numeral.h"
#include "format/annotated.h"
#include "source/folder_files.h"
#include "source/pair_folders.h"

#define FILE_MAX ((uint64_t)64 << 20)

static const char *const twenty[] = { "aeroplane",   "bicycle", "bird",  "boat",      "bottle",
                                      "bus",         "car",     "cat",   "chair",     "cow",
                                      "diningtable", "dog",     "horse", "motorbike", "person",
                                      "pottedplant", "sheep",   "sofa",  "train",     "tvmonitor" };
#define TWENTY (sizeof twenty / sizeof *twenty)

typedef struct voc {
    stk_record record;
    stk_text root, labels, list, xml, head, boxes, numbers, difficult, truncated;
    stk_names classes;
    uint64_t names, missing, bytes;
    char first[80];
} voc;

static int read_file(const char *path, stk_text *out, stk_error *err)
{
    uint64_t size = 0;
    stk_file *f = NULL;
    stk_file_info info;
    int rc = stk_source_local.open(STK_URL(path, NULL), &f, err);

    out->len = 0;
    if (rc == 0)
        rc = stk_file_stat(f, &info, err);
    if (rc == 0) {
        size = info.size;
        rc = size <= FILE_MAX ? 0 : stk_fail(err, STK_ELIMIT, "the file has more than 64 MiB");
    }
    while (rc == 0 && out->len < size) {
        char part[4096];
        size_t n = size - out->len < sizeof part ? (size_t)(size - out->len) : sizeof part;

        rc = stk_file_read(f, out->len, part, n, err);
        if (rc == 0)
            rc = stk_text_put(out, part, n, err);
    }
    if (rc == 0)
        rc = stk_text_put(out, "", 0, err);
    stk_file_close(&f);
    if (rc < 0)
        stk_error_at(err, path, STK_NO_OFFSET, (stk_bytes){ 0 });
    return rc;
}

/* ---- XML ---- */

/* Comments become blanks: what is in them is not there. */
static void drop_comments(stk_text *t)
{
    char *a = t->s, *b;

    while (t->len && (a = memmem(a, (size_t)(t->s + t->len - a), "<!--", 4))) {
        b = memmem(a + 4, (size_t)(t->s + t->len - a) - 4, "-->", 3);
        b = b ? b + 3 : t->s + t->len;
        memset(a, ' ', (size_t)(b - a));
        a = b;
    }
}

/* After the first <tag> or <tag with="attributes">, where it ends; NULL: there is none. */
static const uint8_t *after_tag(stk_bytes in, const char *tag)
{
    const uint8_t *a = in.data, *end = in.data + in.len;
    size_t n = strlen(tag);

    while (a && (a = memchr(a, '<', (size_t)(end - a))) && (size_t)(end - ++a) > n) {
        const uint8_t *gt;

        if (memcmp(a, tag, n) != 0 || !strchr("> \t\r\n", a[n]))
            continue;
        gt = memchr(a + n, '>', (size_t)(end - a) - n);
        if (gt && gt[-1] != '/') /* <tag/> is empty */
            return gt + 1;
    }
    return NULL;
}

/* What is between the first <tag> of `in` and its end; no data: there is none.  *rest: after it. */
static stk_bytes element(stk_bytes in, const char *tag, stk_bytes *rest)
{
    char close[32];
    const uint8_t *a = in.len ? after_tag(in, tag) : NULL, *b, *end = in.data + in.len;
    size_t m = (size_t)snprintf(close, sizeof close, "</%s>", tag);

    b = a ? memmem(a, (size_t)(end - a), close, m) : NULL;
    if (!b)
        return (stk_bytes){ 0 };
    if (rest)
        *rest = (stk_bytes){ b + m, (size_t)(end - b) - m };
    return (stk_bytes){ a, (size_t)(b - a) };
}

/* An element of an object, and not of one of its parts. */
static stk_bytes of_object(stk_bytes object, const char *tag)
{
    stk_bytes rest = object, part, found;

    do {
        stk_bytes own = rest;

        part = element(rest, "part", &rest);
        if (part.data)
            own.len = (size_t)(part.data - own.data);
        found = stk_trimmed(element(own, tag, NULL));
    } while (part.data && !found.data);
    return found;
}

/* The name of an object, in the text itself: R&amp;B is R&B. */
static stk_bytes name_of(stk_bytes object)
{
    static const struct {
        const char *code;
        char c;
    } codes[] = {
        { "&amp;", '&' }, { "&lt;", '<' }, { "&gt;", '>' }, { "&quot;", '"' }, { "&apos;", '\'' }
    };
    stk_bytes name = of_object(object, "name");
    uint8_t *to = (uint8_t *)(uintptr_t)name.data;
    size_t len = 0;

    for (size_t i = 0; i < name.len;) {
        uint8_t c = name.data[i];
        size_t used = 1;

        for (size_t k = 0; c == '&' && k < sizeof codes / sizeof *codes; k++)
            if (name.len - i >= strlen(codes[k].code) &&
                !memcmp(name.data + i, codes[k].code, strlen(codes[k].code))) {
                c = (uint8_t)codes[k].c;
                used = strlen(codes[k].code);
                break;
            }
        to[len++] = c;
        i += used;
    }
    return (stk_bytes){ name.data, len };
}

static int put_flag(stk_text *t, stk_bytes value, stk_error *err)
{
    int64_t v = 0;

    STK_TRY(stk_list_next(t, err));
    return stk_int_put(t, value.data && stk_number_i64(value, &v) == 1 ? v : 0, err);
}

static int put_box(voc *v, stk_bytes object, stk_error *err)
{
    static const char *const sides[] = { "xmin", "ymin", "xmax", "ymax" };
    stk_bytes box = of_object(object, "bndbox");

    STK_TRY(stk_list_next(&v->boxes, err));
    for (int i = 0; i < 4; i++) {
        stk_bytes text = stk_trimmed(element(box, sides[i], NULL));
        double side;

        if (!text.data || stk_number_f64(text, &side) != 1)
            return stk_fail(err, STK_ECORRUPT, "an object has no %s in its bndbox", sides[i]);
        STK_TRY(stk_text_put(&v->boxes, i ? ", " : "[", i ? 2 : 1, err));
        STK_TRY(stk_real_put(&v->boxes, i < 2 ? side - 1 : side, err));
    }
    return stk_text_put(&v->boxes, "]", 1, err);
}

static int put_object(voc *v, stk_bytes object, stk_error *err)
{
    stk_bytes name = name_of(object);

    STK_TRY(put_box(v, object, err));
    for (size_t i = 0; i < v->classes.n; i++)
        if (strlen(v->classes.name[i]) == name.len &&
            !memcmp(v->classes.name[i], name.data, name.len)) {
            STK_TRY(stk_list_next(&v->numbers, err));
            STK_TRY(stk_int_put(&v->numbers, (int64_t)i, err));
            STK_TRY(put_flag(&v->difficult, of_object(object, "difficult"), err));
            return put_flag(&v->truncated, of_object(object, "truncated"), err);
        }
    return stk_fail(err, STK_ECORRUPT, "an object has no name");
}

/* ---- classes ---- */

static int is_known(const stk_names *l, stk_bytes name)
{
    for (size_t i = 0; i < l->n; i++)
        if (strlen(l->name[i]) == name.len && !memcmp(l->name[i], name.data, name.len))
            return 1;
    return 0;
}

static int note_names(voc *v, stk_bytes xml, stk_error *err)
{
    for (stk_bytes object, rest = xml; (object = element(rest, "object", &rest)).data;) {
        stk_bytes name = name_of(object);

        if (name.len && !memchr(name.data, 0, name.len) && !is_known(&v->classes, name))
            STK_TRY(stk_names_add(&v->classes, (const char *)name.data, name.len, err));
    }
    return 0;
}

static int note_file(void *cookie, const stk_dir_entry *e, stk_error *err)
{
    voc *v = cookie;
    size_t len = strlen(e->name);
    char path[4096];

    if (e->folder || len < 4 || strcmp(e->name + len - 4, ".xml") != 0 ||
        snprintf(path, sizeof path, "%s/%s", v->labels.s, e->name) >= (int)sizeof path)
        return 0;
    STK_TRY(read_file(path, &v->xml, err));
    drop_comments(&v->xml);
    return note_names(v, (stk_bytes){ (uint8_t *)v->xml.s, v->xml.len }, err);
}

static int by_bytes(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int find_classes(voc *v, stk_error *err)
{
    size_t known;

    for (size_t i = 0; i < TWENTY; i++)
        STK_TRY(stk_names_add(&v->classes, twenty[i], strlen(twenty[i]), err));
    STK_TRY(stk_folder_list(v->labels.s, "", note_file, v, err));
    known = v->classes.n;
    if (known == TWENTY)
        return 0;
    stk_names_fini(&v->classes); /* others occur: those that do, sorted */
    STK_TRY(stk_folder_list(v->labels.s, "", note_file, v, err));
    qsort(v->classes.name, v->classes.n, sizeof *v->classes.name, by_bytes);
    return 0;
}

/* ---- samples ---- */

/* FOLDER/NAME.jpg (.jpeg, .png) below the root as the field; 0: there is none. */
static int put_file(voc *v, const char *field, const char *folder, stk_bytes name, stk_error *err)
{
    static const char *const ends[] = { "jpg", "jpeg", "JPG", "png" };
    char path[1024];
    uint64_t size = 0;
    int missing = 1, n = 0;

    for (size_t i = 0; missing && i < sizeof ends / sizeof *ends; i++) {
        n = snprintf(path, sizeof path, "%s/%.*s.%s", folder, (int)name.len,
                     (const char *)name.data, ends[i]);
        if (n >= (int)sizeof path)
            return stk_fail(err, STK_ELIMIT, "a name has more than %zu bytes", sizeof path);
        STK_TRY(stk_annotated_stat(v->root.s, (stk_bytes){ (uint8_t *)path, (size_t)n }, &size,
                                   &missing, err));
    }
    if (missing)
        return 0;
    v->bytes += size;
    STK_TRY(stk_record_file(&v->record, field, 0, (stk_bytes){ (uint8_t *)path, (size_t)n }, size,
                            err));
    return 1;
}

static int put_list(voc *v, const char *name, stk_text *t, stk_error *err)
{
    STK_TRY(stk_list_end(t, err));
    STK_TRY(stk_record_text(&v->record, name, (stk_bytes){ (uint8_t *)t->s, t->len }, err));
    t->len = 0;
    return 0;
}

static int put_annotation(voc *v, stk_error *err)
{
    stk_bytes xml = { (uint8_t *)v->xml.s, v->xml.len }, size = element(xml, "size", NULL);
    stk_bytes object, rest = xml;
    static const char *const sides[] = { "width", "height" };

    for (int i = 0; i < 2; i++) {
        stk_bytes side = stk_trimmed(element(size, sides[i], NULL));

        if (side.data)
            STK_TRY(stk_record_text(&v->record, sides[i], side, err));
    }
    v->boxes.len = v->numbers.len = v->difficult.len = v->truncated.len = 0;
    while ((object = element(rest, "object", &rest)).data)
        STK_TRY(put_object(v, object, err));
    if (!rest.len || after_tag(rest, "object") || !memmem(rest.data, rest.len, "</annotation>", 13))
        return stk_fail(err, STK_ECORRUPT, "the annotation does not end: was the file cut?");
    STK_TRY(put_list(v, "boxes", &v->boxes, err));
    STK_TRY(put_list(v, "labels", &v->numbers, err));
    STK_TRY(put_list(v, "difficult", &v->difficult, err));
    return put_list(v, "truncated", &v->truncated, err);
}

static int report(voc *v, stk_bytes name, stk_error *err)
{
    stk_bytes head = { (uint8_t *)v->head.s, v->names ? 0 : v->head.len };
    char path[4096];
    int rc;

    if (snprintf(path, sizeof path, "%s/%.*s.xml", v->labels.s, (int)name.len,
                 (const char *)name.data) >= (int)sizeof path)
        return stk_fail(err, STK_ELIMIT, "a name is too long");
    STK_TRY(stk_record_begin(&v->record, name, head, err));
    rc = put_file(v, "image", "JPEGImages", name, err);
    if (rc < 0)
        return rc;
    if (!rc || access(path, R_OK)) {
        if (!v->missing++)
            snprintf(v->first, sizeof v->first, "%.*s", name.len > 70 ? 70 : (int)name.len,
                     (const char *)name.data);
        return 0;
    }
    STK_TRY(read_file(path, &v->xml, err));
    drop_comments(&v->xml);
    rc = put_annotation(v, err);
    if (rc < 0) {
        stk_error_at(err, path, STK_NO_OFFSET, (stk_bytes){ 0 });
        return rc;
    }
    rc = put_file(v, "class_mask", "SegmentationClass", name, err);
    if (rc >= 0)
        rc = put_file(v, "object_mask", "SegmentationObject", name, err);
    if (rc < 0)
        return rc;
    v->names++;
    return v->missing ? 0 : stk_record_report(&v->record, 0, err);
}

/* The first word of each line: lists of one class have 1, 0 or -1 after it. */
static int report_all(voc *v, stk_error *err)
{
    const char *p = v->list.s;
    uint64_t all = 0;

    while (*p) {
        size_t n = strcspn(p, " \t\r\n");

        if (n) {
            STK_TRY(report(v, (stk_bytes){ (const uint8_t *)p, n }, err));
            all++;
        }
        p += n;
        p += strcspn(p, "\n");
        p += *p == '\n';
    }
    if (v->missing)
        return stk_fail(err, STK_ENOTFOUND,
                        "%" PRIu64 " of %" PRIu64 " names have no picture in JPEGImages/ or no "
                        "annotation in Annotations/, the first is \"%s\"",
                        v->missing, all, v->first);
    return v->names ? 0 : stk_fail(err, STK_ECORRUPT, "the list is empty");
}

static int index_list(voc *v, const char *url, const char *path, stk_error *err)
{
    STK_TRY(stk_labels_folder(url, path, &v->labels, err));
    STK_TRY(stk_text_put(&v->root, v->labels.s, v->labels.len - strlen("/Annotations"), err));
    STK_TRY(read_file(path, &v->list, err));
    STK_TRY(find_classes(v, err));
    STK_TRY(stk_text_put(&v->head, v->root.s, v->root.len + 1, err));
    for (size_t i = 0; i < v->classes.n; i++)
        STK_TRY(stk_text_put(&v->head, v->classes.name[i], strlen(v->classes.name[i]) + 1, err));
    return report_all(v, err);
}

static int voc_index(stk_file *f, uint64_t size, stk_scan *scan, stk_error *err)
{
    voc *v = STK_NEW(voc);
    stk_pairs what = { 0 };
    int rc = v ? 0 : stk_fail_nomem(err, sizeof *v);

    (void)f, (void)size;
    if (rc == 0)
        rc = scan->name && stk_is_voc(scan->name) ? stk_pairs_parse(scan->name, &what, err)
                                                  : stk_fail(err, STK_EINVAL, "not voc://LIST");
    if (rc == 0) {
        v->record.scan = scan;
        rc = index_list(v, scan->name, what.folder.name[0], err);
    }
    if (rc == 0 && scan->progress)
        rc = scan->progress(scan, v->bytes) ? stk_fail(err, STK_ECLOSED, "indexing was stopped")
                                            : 0;
    if (v) {
        stk_text *all[] = { &v->root,  &v->labels,  &v->list,      &v->xml,      &v->head,
                            &v->boxes, &v->numbers, &v->difficult, &v->truncated };

        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            stk_free(all[i]->s);
        stk_names_fini(&v->classes);
        stk_record_fini(&v->record);
    }
    stk_free(v);
    stk_pairs_fini(&what);
    return rc;
}

static int voc_probe(const char *name, stk_bytes head)
{
    (void)head;
    return stk_is_voc(name) ? 100 : 0;
}

const stk_format stk_format_voc = {
    .abi = STK_PLUGIN_ABI,
    .size = sizeof(stk_format),
    .name = "voc",
    .help = "Pascal VOC: a list of names with pictures, annotations and masks",
    .suffixes = "",
    .probe = voc_probe,
    .index = voc_index,
    .locate = stk_annotated_locate,
    .open = stk_annotated_open,
    .close = stk_annotated_close,
    .class_name = stk_annotated_class,
};
