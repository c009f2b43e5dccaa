/* SPDX-License-Identifier: Apache-2.0 */
/* options.c - loader options as options.def lists them: by name and text, and checked as a struct.
 *
 * Every caller that has options as words (the command line, Python, the documentation) comes
 * through here, so a name, a range or a default is written down once. */
#include "options.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/size.h"

typedef enum option_type {
    COUNT,   /* uint32_t; auto: 0 */
    INDEX,   /* uint32_t */
    WORKERS, /* int32_t; 0 is STK_NONE, auto is 0 */
    NUMBER,  /* uint64_t */
    SIZE,    /* uint64_t, as base/size.h reads it; auto: 0 */
    REAL,    /* double; 0: not given */
    FLAG,    /* stk_tri */
    SHUFFLE, /* the enums: the word's number */
    ON_ERROR,
    COLLATE,
    TEXT, /* const char *, borrowed; none: NULL */
    WORD, /* the same, and one of the words */
} option_type;

typedef struct option {
    stk_option_info info;
    option_type type;
    size_t at;
} option;

static const option options[] = {
#define STK_ARGUMENT(name, python, help)
#define STK_FIELD(name, help)
#define STK_OPTION(name, type, values, fallback, python, help, python_help)                        \
    { { #name, values, fallback, help, type >= FLAG && type <= SHUFFLE },                          \
      type,                                                                                        \
      offsetof(stk_loader_options, name) },
#include "loader/options.def"
};

#define N_OPTIONS (sizeof options / sizeof *options)

int stk_option_list(size_t i, stk_option_info *out)
{
    if (i >= N_OPTIONS)
        return STK_END;
    *out = options[i].info;
    return 0;
}

/* A whole number, or a size.  0: it is none, or too large. */
static int parse_number(const char *text, int size, uint64_t *out, const char **end)
{
    char *stop;

    if (size)
        return stk_size_read(text, out, end);
    if (*text < '0' || *text > '9') /* strtoull would take a sign and white space */
        return 0;
    errno = 0;
    *out = strtoull(text, &stop, 10);
    *end = stop;
    return !errno;
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

static int range_of(const option *o, uint64_t *low, uint64_t *high, stk_error *err)
{
    int size = o->type == SIZE;
    const char *end;

    if (!parse_number(o->info.values, size, low, &end) || strncmp(end, "..", 2) ||
        !parse_number(end + 2, size, high, &end) || *end)
        return stk_fail(err, STK_EINVAL, "the table of options is wrong at %s", o->info.name);
    return 0;
}

static int parse_range(const option *o, const char *text, uint64_t *out, stk_error *err)
{
    uint64_t low, high;
    const char *end;

    STK_TRY(range_of(o, &low, &high, err));
    if (!parse_number(text, o->type == SIZE, out, &end) || *end || *out < low || *out > high)
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

/* A number with a fraction, 0 up to the end of its range. */
static int check_real(const option *o, double v, const char *text, stk_error *err)
{
    return v >= 0 && v <= strtod(strstr(o->info.values, "..") + 2, NULL) ? 0
                                                                         : bad_value(o, text, err);
}

static int set_real(const option *o, double *field, const char *text, stk_error *err)
{
    char *end;

    *field = strtod(text, &end);
    if (*text < '0' || *text > '9' || *end)
        return bad_value(o, text, err);
    return check_real(o, *field, text, err);
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

static int set_text(const option *o, void *field, const char *text, stk_error *err)
{
    int none = !strcmp(text, "none");

    if (o->type == WORD && !none && parse_word(o->info.values, text) < 0)
        return bad_value(o, text, err);
    *(const char **)field = none ? NULL : text;
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
        if (options[i].type >= TEXT)
            return set_text(&options[i], field, text, err);
        if (options[i].type == REAL)
            return set_real(&options[i], field, text, err);
        return options[i].type >= FLAG ? set_word(&options[i], field, text, err)
                                       : set_number(&options[i], field, text, err);
    }
    near = stk_nearest(name, names, N_OPTIONS);
    return stk_fail(err, STK_EINVAL, "a loader has no option %.60s%s%s", name,
                    near ? "; did you mean " : "", near ? near : "");
}

/* ---- a struct that a program filled ---- */

static unsigned count_words(const char *values)
{
    unsigned n = 1;

    for (; *values; values++)
        n += *values == ' ';
    return n;
}

/* The choice as a number. */
static int64_t word_of(const option *o, const void *field)
{
    switch (o->type) {
    case FLAG: return *(const stk_tri *)field;
    case SHUFFLE: return *(const stk_shuffle *)field;
    case ON_ERROR: return *(const stk_on_error *)field;
    default: return *(const stk_collate *)field;
    }
}

static int check_word(const option *o, const void *field, stk_error *err)
{
    int64_t v = word_of(o, field);
    char text[24];

    if (v >= 0 && v < count_words(o->info.values) + (o->type == FLAG)) /* unset, no, yes */
        return 0;
    snprintf(text, sizeof text, "%" PRId64, v);
    return bad_value(o, text, err);
}

static int check_text(const option *o, const char *text, stk_error *err)
{
    return !text || parse_word(o->info.values, text) >= 0 ? 0 : bad_value(o, text, err);
}

static int check_number(const option *o, const void *field, stk_error *err)
{
    uint64_t low, high, v;
    char text[24];

    if (o->type == REAL) {
        snprintf(text, sizeof text, "%g", *(const double *)field);
        return check_real(o, *(const double *)field, text, err);
    }
    v = o->type == COUNT || o->type == INDEX ? *(const uint32_t *)field
        : o->type == WORKERS                 ? (uint64_t) * (const int32_t *)field
                                             : *(const uint64_t *)field;
    if (!v || (o->type == WORKERS && (int64_t)v == STK_NONE))
        return 0;
    STK_TRY(range_of(o, &low, &high, err));
    if (v >= low && v <= high)
        return 0;
    snprintf(text, sizeof text, o->type == WORKERS ? "%" PRId64 : "%" PRIu64, v);
    return bad_value(o, text, err);
}

int stk_options_check(const stk_loader_options *opt, stk_error *err)
{
    for (size_t i = 0; i < N_OPTIONS; i++) {
        const void *field = (const char *)opt + options[i].at;

        if (options[i].type == TEXT)
            continue;
        if (options[i].type == WORD)
            STK_TRY(check_text(&options[i], *(const char *const *)field, err));
        else
            STK_TRY(options[i].type >= FLAG ? check_word(&options[i], field, err)
                                            : check_number(&options[i], field, err));
    }
    return 0;
}
