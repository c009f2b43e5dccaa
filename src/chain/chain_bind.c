/* SPDX-License-Identifier: Apache-2.0 */
/* chain_bind.c - names of a chain -> fields of samples.
 *
 * Done once per data set and schema when a loader is opened; what no sample has is refused with the
 * names that there are. */
#include <stdio.h>
#include <string.h>

#include "chain/chain.h"

#define NAME_ROOM 64 /* of a field of a picture among several */

static int no_such_field(const stk_chain *c, const char *output, const stk_dataset *ds,
                         stk_error *err)
{
    char wanted[96] = "", have[96] = "";
    const char *field;
    size_t at = 0;
    uint32_t i;

    for (i = 0; i < c->field.n_names && at < sizeof wanted; i++)
        at += (size_t)snprintf(wanted + at, sizeof wanted - at, "%s%s", i ? ", " : "",
                               c->field.name[i]);
    for (i = 0, at = 0; (field = stk_dataset_field(ds, i)) && at < sizeof have; i++)
        at += (size_t)snprintf(have + at, sizeof have - at, "%s%s", i ? ", " : "", field);
    return stk_fail(err, STK_EINVAL, "output %s: no sample has a field %s: the fields are %s",
                    output, wanted, have);
}

/* A compressed field, unless it is asked for by its whole name: then it is taken as it is. */
static const stk_codec *unpack_of(const stk_chain *c, const char *name)
{
    size_t len = strlen(name);

    for (uint32_t k = 0; k < c->field.n_unpackers; k++) {
        const stk_unpacker *u = &c->field.unpacker[k];

        if (len <= u->len || strcmp(name + len - u->len, u->codec->suffix) != 0)
            continue;
        for (uint32_t i = 0; i < c->field.n_names; i++)
            if (!strcmp(c->field.name[i], name))
                return NULL;
        return u->codec;
    }
    return NULL;
}

static int find_field(const stk_chain *c, const stk_dataset *ds, uint32_t schema, const char *name,
                      stk_binding *out)
{
    int found = ds->ops->find(ds, schema, name);
    char packed[256];

    out->unpack = found >= 0 ? unpack_of(c, name) : NULL;
    for (uint32_t k = 0; found < 0 && k < c->field.n_unpackers; k++)
        if ((size_t)snprintf(packed, sizeof packed, "%s%s", name,
                             c->field.unpacker[k].codec->suffix) < sizeof packed) {
            found = ds->ops->find(ds, schema, packed);
            out->unpack = found >= 0 ? unpack_of(c, packed) : NULL;
        }
    out->field = found >= 0 ? (uint16_t)found : UINT16_MAX;
    return found >= 0;
}

static const char *const kinds[] = { "jpg", "jpeg", "png", "webp" };

uint32_t stk_picture_word(const char *name)
{
    for (uint32_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(name, kinds[i]))
            return 1u << (i ? i : 1); /* jpg and jpeg are one */
    return 0;
}

int stk_chain_numbered(const stk_chain *c, const char *name, size_t len, uint64_t *number)
{
    uint32_t kinds_wanted = 0;
    size_t digits = 0;
    char kind[16];

    for (*number = 0; digits < len && digits < 10 && name[digits] >= '0' && name[digits] <= '9';)
        *number = *number * 10 + (uint64_t)(name[digits++] - '0');
    if (!digits || len < digits + 2 || name[digits] != '.' || len - digits > sizeof kind)
        return 0;
    memcpy(kind, name + digits + 1, len - digits - 1);
    kind[len - digits - 1] = 0;
    for (uint32_t i = 0; i < c->field.n_names; i++) {
        kinds_wanted |= stk_picture_word(c->field.name[i]);
        if (!strcmp(c->field.name[i], kind))
            return 1;
    }
    if (!c->field.given || !strcmp(c->field.name[0], "image"))
        return stk_picture_word(kind) != 0;
    return (stk_picture_word(kind) & kinds_wanted) != 0;
}

#define NUMBERS 64u /* ... of kinds of data that do not list their fields */

/* 0.jpg, 1.jpg, ...: the first that samples of this schema have, of few numbers. */
static int find_few(const stk_chain *c, const stk_dataset *ds, uint32_t schema, stk_binding *out)
{
    uint32_t n_kinds = sizeof kinds / sizeof *kinds;
    char name[NAME_ROOM];
    uint64_t number;

    for (uint32_t i = 0; i < NUMBERS; i++)
        for (uint32_t f = 0; f < c->field.n_names + n_kinds; f++) {
            const char *kind = f < c->field.n_names ? c->field.name[f]
                                                    : kinds[f - c->field.n_names];
            int n = snprintf(name, sizeof name, "%u.%s", i, kind);

            if (n > 0 && (size_t)n < sizeof name &&
                stk_chain_numbered(c, name, (size_t)n, &number) &&
                find_field(c, ds, schema, name, out))
                return 1;
        }
    return 0;
}

/* The one with the lowest number. */
static int find_numbered(const stk_chain *c, const stk_dataset *ds, uint32_t schema,
                         stk_binding *out)
{
    uint64_t number, best = UINT64_MAX;
    const char *name;

    if (!ds->ops->field_name)
        return find_few(c, ds, schema, out);
    for (uint32_t k = 0; (name = ds->ops->field_name(ds, schema, k)) != NULL; k++)
        if (stk_chain_numbered(c, name, strlen(name), &number) && number < best) {
            best = number;
            *out = (stk_binding){ .field = (uint16_t)k };
        }
    return best < UINT64_MAX;
}

/* One rule for names of pictures: jpg and jpeg are one word; `image` is a picture of any kind; and
 * a picture that is called `image`, as in folders, goes by its kind too. */
static int find_picture(const stk_chain *c, const stk_dataset *ds, uint32_t schema,
                        const char *name, stk_binding *out)
{
    size_t n = sizeof kinds / sizeof *kinds, k = 0;
    int found = 0;

    for (size_t i = 0; i < n && !strcmp(name, "image") && !found; i++)
        found = find_field(c, ds, schema, kinds[i], out);
    while (k < n && strcmp(name, kinds[k]) != 0)
        k++;
    if (!found && k < 2)
        found = find_field(c, ds, schema, kinds[1 - k], out);
    if (!found && k < n)
        found = find_field(c, ds, schema, "image", out);
    return found;
}

#define KINDS 9u

/* The same for files of folders that are videos or sound: `video` is a video of any kind, and mp4 a
 * field that is called `video`. */
static int find_media(const stk_chain *c, const stk_dataset *ds, uint32_t schema, const char *name,
                      stk_binding *out)
{
    static const struct {
        const char *field, *kind[KINDS];
    } media[] = {
        { "video", { "mp4", "mkv", "webm", "mov", "m4v" } },
        { "sound", { "wav", "flac", "mp3", "ogg", "opus", "oga", "m4a", "aac", "mka" } },
    };
    int found = 0;

    for (size_t m = 0; m < sizeof media / sizeof *media && !found; m++)
        for (size_t k = 0; k < KINDS && media[m].kind[k] && !found; k++) {
            if (!strcmp(name, media[m].field))
                found = find_field(c, ds, schema, media[m].kind[k], out);
            else if (!strcmp(name, media[m].kind[k]))
                found = find_field(c, ds, schema, media[m].field, out);
        }
    return found;
}

int stk_chain_bind(const stk_chain *c, const char *output, const stk_dataset *ds, stk_binding **out,
                   stk_error *err)
{
    uint32_t schemas = ds->ops->schemas(ds), s, i, bound = 0;
    stk_binding *map = stk_alloc((schemas + 1) * sizeof *map);

    *out = map;
    if (!map)
        return stk_fail_nomem(err, schemas * sizeof *map);
    for (s = 0; s < schemas; s++) {
        int found = 0;

        map[s] = (stk_binding){ .field = UINT16_MAX };
        for (i = 0; i < c->field.n_names && !found; i++)
            found = find_field(c, ds, s, c->field.name[i], &map[s]);
        for (i = 0; i < c->field.n_names && !found; i++)
            found = find_picture(c, ds, s, c->field.name[i], &map[s]);
        for (i = 0; i < c->field.n_names && !found; i++)
            found = find_media(c, ds, s, c->field.name[i], &map[s]);
        if (!found && (c->many.pictures || c->clip))
            found = find_numbered(c, ds, s, &map[s]);
        if (!found && !c->field.given && ds->can & STK_DATA_ONE_FIELD) {
            map[s].field = 0;
            found = 1;
        }
        bound += (uint32_t)found;
    }
    if (!bound && c->field.fallback)
        return STK_END;
    if (!bound && stk_dataset_len(ds)) {
        stk_free(map);
        *out = NULL;
        return no_such_field(c, output, ds, err);
    }
    return 0;
}

uint32_t stk_chain_names(const stk_chain *c, const stk_binding *b, const stk_dataset *ds,
                         const char *out[STK_BOUND_NAMES])
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < c->field.n_names; i++)
        out[n++] = c->field.name[i];
    for (uint32_t s = 0; b && ds->ops->field_name && s < ds->ops->schemas(ds); s++) {
        const char *name = b[s].field == UINT16_MAX || b[s].unpack
                               ? NULL
                               : ds->ops->field_name(ds, s, b[s].field);
        uint32_t i = 0;

        while (name && i < n && strcmp(name, out[i]) != 0)
            i++;
        if (name && i == n && n < STK_BOUND_NAMES)
            out[n++] = name;
    }
    return n;
}
