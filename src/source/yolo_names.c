/* SPDX-License-Identifier: Apache-2.0 */
/* yolo_names.c - YOLO data sets by the names that people have for them: data.yaml, a folder with
 * images/ and labels/, a folder of pictures whose labels are in the folder of the same name.
 *
 * data.yaml is a list that comes with data: the folders that it names are in its own or below
 * (SECURITY.md, *Names*). */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/numeral.h"
#include "base/text.h"
#include "source/folder_files.h"
#include "source/pair_folders.h"
#include "source/yaml.h"

#define LINE_MAX_BYTES 512

static int ends_with(const char *s, const char *end)
{
    size_t n = strlen(s), m = strlen(end);

    return n > m && !strcmp(s + n - m, end);
}

static int is_yaml(const char *name)
{
    return ends_with(name, ".yaml") || ends_with(name, ".yml");
}

static int is_dir(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

/* ---- data.yaml ---- */

/* base/name as a folder; "" in `out`: it is not one, or not below base. */
static void folder_below(const char *base, const char *name, char *out, size_t size)
{
    size_t len = strlen(name);

    out[0] = 0;
    while (!strncmp(name, "./", 2)) {
        name += 2;
        len -= 2;
    }
    while (len > 1 && name[len - 1] == '/')
        len--;
    if (len &&
        stk_name_below((stk_bytes){ (const uint8_t *)base, strlen(base) },
                       (stk_bytes){ (const uint8_t *)name, len }) &&
        (size_t)snprintf(out, size, "%s%s%.*s", *name == '/' ? "" : base, *name == '/' ? "" : "/",
                         (int)len, name) < size &&
        is_dir(out))
        return;
    out[0] = 0;
}

static int add_address(const char *images, const char *yaml, stk_names *out, stk_error *err)
{
    stk_text t = { 0 };
    int rc = stk_text_put(&t, STK_YOLO_SCHEME, strlen(STK_YOLO_SCHEME), err);

    if (rc == 0)
        rc = stk_pairs_escape(&t, images, err);
    if (rc == 0 && yaml)
        rc = stk_text_put(&t, "&names=", 7, err);
    if (rc == 0 && yaml)
        rc = stk_pairs_escape(&t, yaml, err);
    if (rc == 0)
        rc = stk_pairs_resolve(t.s, out, err);
    stk_free(t.s);
    return rc;
}

/* A folder that data.yaml names.  Some tools write ../train/images for train/images. */
static int add_split(const char *base, const char *name, const char *yaml, stk_names *out,
                     stk_error *err)
{
    char path[4096];

    folder_below(base, name, path, sizeof path);
    if (!path[0] && !strncmp(name, "../", 3))
        folder_below(base, name + 3, path, sizeof path);
    if (path[0])
        return add_address(path, yaml, out, err);
    return stk_fail(err, STK_ENOTFOUND,
                    "it names \"%.100s\", which is not a folder in its own or below: give the "
                    "folder, yolo://FOLDER&names=%.100s",
                    name, yaml);
}

/* The folder that names are relative to: `path`, where it is one below, else the file's own. */
static int base_of(stk_bytes text, const char *yaml, char *out, size_t size, stk_error *err)
{
    const char *slash = strrchr(yaml, '/');
    int n = slash ? (int)(slash - yaml) : 0;
    char root[4096];
    stk_names path = { 0 };
    int rc = stk_yaml_values(text, "path", &path, err);

    snprintf(root, sizeof root, "%.*s", slash ? n : 1, slash ? yaml : ".");
    out[0] = 0;
    if (rc == 0 && path.n)
        folder_below(root, path.name[0], out, size);
    if (!out[0])
        snprintf(out, size, "%s", root);
    stk_names_fini(&path);
    return rc < 0 ? rc : 0;
}

static int add_yaml(const char *yaml, const char *split, stk_names *out, stk_error *err)
{
    stk_text text = { 0 };
    stk_names folders = { 0 };
    char base[4096];
    stk_bytes all;
    int rc = stk_yaml_read(yaml, &text, err);

    all = (stk_bytes){ (const uint8_t *)text.s, text.len };
    if (rc == 0)
        rc = base_of(all, yaml, base, sizeof base, err);
    if (rc == 0)
        rc = stk_yaml_values(all, split, &folders, err);
    if (rc == STK_END || (rc == 0 && !folders.n))
        rc = stk_fail(err, STK_ENOTFOUND, "the file has no \"%s:\" with a folder of pictures",
                      split);
    for (size_t i = 0; rc == 0 && i < folders.n; i++)
        rc = add_split(base, folders.name[i], yaml, out, err);
    if (rc < 0)
        stk_error_at(err, yaml, STK_NO_OFFSET, (stk_bytes){ 0 });
    stk_names_fini(&folders);
    stk_free(text.s);
    return rc;
}

int stk_yolo_add(const char *name, stk_names *out, stk_error *err)
{
    stk_pairs p = { 0 };
    int rc;

    if (!stk_is_yolo(name))
        return strstr(name, "://") || !is_yaml(name) || is_dir(name)
                   ? STK_END
                   : add_yaml(name, "train", out, err);
    rc = stk_pairs_parse(name, &p, err);
    if (rc == 0 && is_yaml(p.folder.name[0]) && !is_dir(p.folder.name[0]))
        rc = add_yaml(p.folder.name[0], p.split[0] ? p.split : "train", out, err);
    else if (rc == 0)
        rc = p.split[0] ? stk_fail(err, STK_EINVAL, "split= is of data.yaml, not of a folder")
                        : STK_END;
    stk_pairs_fini(&p);
    return rc;
}

/* ---- folders ---- */

/* Is the first line a class and shares of the picture? */
static int is_label(const char *path)
{
    FILE *f = fopen(path, "re");
    char line[LINE_MAX_BYTES], *word, *save = NULL;
    int n = 0;
    double v;

    if (!f)
        return 0;
    if (!fgets(line, sizeof line, f))
        line[0] = 0;
    fclose(f);
    for (word = strtok_r(line, " \t\r\n", &save); word; word = strtok_r(NULL, " \t\r\n", &save))
        if (stk_number_f64((stk_bytes){ (const uint8_t *)word, strlen(word) }, &v) != 1 ||
            (n++ && !(v > -2 && v < 2)))
            return 0;
    return n >= 5;
}

typedef struct looking {
    const char *base, *sub;
    int files; /* text files that were looked at */
} looking;

static int look_at(void *cookie, const stk_dir_entry *e, stk_error *err)
{
    looking *l = cookie;
    char path[4096];

    (void)err;
    if (e->folder || !ends_with(e->name, ".txt") || !strcmp(e->name, "classes.txt") ||
        snprintf(path, sizeof path, "%s/%s%s%s", l->base, l->sub, l->sub[0] ? "/" : "", e->name) >=
            (int)sizeof path)
        return 0;
    return is_label(path) ? 1 : ++l->files > 100 ? STK_END : 0; /* many may be empty */
}

/* Has the folder a text file of YOLO's? */
static int has_labels(const char *labels, stk_error *err)
{
    stk_names dirs = { 0 };
    int rc = is_dir(labels) ? stk_folder_walk(labels, &dirs, err) : 0, found = 0;

    for (size_t i = 0; rc == 0 && !found && i < dirs.n; i++) {
        looking l = { .base = labels, .sub = dirs.name[i] };

        found = stk_folder_list(labels, dirs.name[i], look_at, &l, err) == 1;
    }
    stk_names_fini(&dirs);
    return found;
}

int stk_yolo_add_folder(const char *path, stk_names *out, stk_error *err)
{
    char cwd[4096] = "", images[4096], yaml[4096];
    size_t len = strlen(path);
    stk_text labels = { 0 }, text = { 0 };
    stk_names train = { 0 };
    int rc = STK_END;

    while (len > 1 && path[len - 1] == '/')
        len--;
    if ((path[0] != '/' && !getcwd(cwd, sizeof cwd)) ||
        snprintf(yaml, sizeof yaml, "%s%s%.*s/data.yaml", cwd, cwd[0] ? "/" : "", (int)len, path) >=
            (int)sizeof yaml)
        return STK_END;
    len = strlen(yaml) - strlen("/data.yaml");
    snprintf(images, sizeof images, "%.*s/images", (int)len, yaml);
    if (!is_dir(images))
        images[len] = 0; /* the folder itself */
    if (stk_labels_folder(STK_YOLO_SCHEME, images, &labels, NULL) == 0 &&
        strcmp(labels.s, images) != 0 && has_labels(labels.s, NULL))
        rc = add_address(images, NULL, out, err);
    else if (stk_yaml_read(yaml, &text, NULL) == 0 &&
             stk_yaml_values((stk_bytes){ (const uint8_t *)text.s, text.len }, "train", &train,
                             NULL) == 0)
        rc = add_yaml(yaml, "train", out, err);
    stk_names_fini(&train);
    stk_free(text.s);
    stk_free(labels.s);
    return rc;
}
