/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - loader options as text: the list of options.def, and setting one by its name.
 *
 * Every face that takes options as words (command line, documentation, tests of the Python face)
 * goes through here, so a name, a range or a default is written down once. */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <stoker/stoker.h>

#include "base/err.h"

typedef enum option_type {
    COUNT,   /* uint32_t; auto: 0 */
    INDEX,   /* uint32_t */
    WORKERS, /* int32_t; 0 is STK_NONE, auto is 0 */
    NUMBER,  /* uint64_t */
    SIZE,    /* uint64_t, with K M G T P E; auto: 0 */
    FLAG,    /* stk_tri */
    SHUFFLE, /* the enums: the word's number */
    ON_ERROR,
    COLLATE,
    TEXT, /* const char *, borrowed; none: NULL */
} option_type;

typedef struct option {
    stk_option_info info;
    option_type type;
    size_t at;
} option;

static const option options[] = {
#define STK_OPTION(name, type, values, fallback, help)                                             \
    { { #name, values, fallback, help, type >= FLAG && type <= SHUFFLE },                          \
      type,                                                                                        \
      offsetof(stk_loader_options, name) },
#include "loader/options.def"
#undef STK_OPTION
};

#define N_OPTIONS (sizeof options / sizeof *options)

int stk_option_list(size_t i, stk_option_info *out)
{
    if (i >= N_OPTIONS)
        return STK_END;
    *out = options[i].info;
    return 0;
}

/* A whole number, perhaps with a unit of 1024.  0: it is none, or too large. */
static int parse_number(const char *text, int units, uint64_t *out, const char **end)
{
    static const char unit[] = "KMGTPE";
    char *stop;
    const char *u;
    uint64_t v;

    if (*text < '0' || *text > '9') /* strtoull would take a sign and white space */
        return 0;
    errno = 0;
    v = strtoull(text, &stop, 10);
    if (errno)
        return 0;
    if (units && *stop && *stop != '.' && (u = strchr(unit, *stop & ~0x20))) {
        unsigned shift = 10 * (unsigned)(u - unit + 1);

        if (shift == 60 && v == 16) /* the end of what 64 bits hold */
            v = UINT64_MAX;
        else if (v > UINT64_MAX >> shift)
            return 0;
        else
            v <<= shift;
        stop++;
        if (strncmp(stop, "iB", 2) == 0)
            stop += 2;
        else if (*stop == 'B')
            stop++;
    }
    *out = v;
    *end = stop;
    return 1;
}

static int bad_value(const option *o, const char *text, stk_error *err)
{
    int words = o->type >= FLAG;

    return stk_fail(err, STK_EINVAL, "%s is %s%s, not \"%.60s\"", o->info.name,
                    words ? "one of: " : o->info.values,
                    words                              ? o->info.values
                    : strcmp(o->info.fallback, "auto") ? ""
                                                       : " or auto",
                    text);
}

static int parse_range(const option *o, const char *text, uint64_t *out, stk_error *err)
{
    int units = o->type == SIZE;
    uint64_t low, high;
    const char *end;

    if (!parse_number(o->info.values, units, &low, &end) || strncmp(end, "..", 2) ||
        !parse_number(end + 2, units, &high, &end))
        return stk_fail(err, STK_EINVAL, "the table of options is wrong at %s", o->info.name);
    if (!parse_number(text, units, out, &end) || *end || *out < low || *out > high)
        return bad_value(o, text, err);
    return 0;
}

/* The number of `text` among the words of `values`; -1: none. */
static int parse_word(const char *values, const char *text)
{
    size_t len = strlen(text);

    for (int i = 0;; i++) {
        size_t n = strcspn(values, " ");

        if (n == len && !strncmp(values, text, n))
            return i;
        if (!values[n])
            return -1;
        values += n + 1;
    }
}

static int set_word(const option *o, void *field, const char *text, stk_error *err)
{
    int i = parse_word(o->info.values, text);

    if (i < 0 && o->info.flag)
        i = parse_word("false true", text);
    if (i < 0)
        return bad_value(o, text, err);
    if (o->type == FLAG)
        *(stk_tri *)field = i ? STK_YES : STK_NO;
    else if (o->type == SHUFFLE)
        *(stk_shuffle *)field = (stk_shuffle)i;
    else if (o->type == ON_ERROR)
        *(stk_on_error *)field = (stk_on_error)i;
    else
        *(stk_collate *)field = (stk_collate)i;
    return 0;
}

static int set_number(const option *o, void *field, const char *text, stk_error *err)
{
    int chosen = !strcmp(text, "auto") && !strcmp(o->info.fallback, "auto");
    uint64_t v = 0;

    if (!chosen)
        STK_TRY(parse_range(o, text, &v, err));
    if (o->type == WORKERS)
        *(int32_t *)field = chosen ? 0 : v ? (int32_t)v : STK_NONE;
    else if (o->type == COUNT || o->type == INDEX)
        *(uint32_t *)field = (uint32_t)v;
    else
        *(uint64_t *)field = v;
    return 0;
}

int stk_option_set(stk_loader_options *opt, const char *name, const char *text, stk_error *err)
{
    const char *names[N_OPTIONS], *near;

    for (size_t i = 0; i < N_OPTIONS; i++) {
        void *field = (char *)opt + options[i].at;

        names[i] = options[i].info.name;
        if (strcmp(names[i], name))
            continue;
        if (options[i].type == TEXT) {
            *(const char **)field = strcmp(text, "none") ? text : NULL;
            return 0;
        }
        return options[i].type >= FLAG ? set_word(&options[i], field, text, err)
                                       : set_number(&options[i], field, text, err);
    }
    near = stk_nearest(name, names, N_OPTIONS);
    return stk_fail(err, STK_EINVAL, "a loader has no option %.60s%s%s", name,
                    near ? "; did you mean " : "", near ? near : "");
}
