/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_describe.c - stoker describe and stoker drift: what is in the data, and is it still what it
 * was? */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "page.h"

#define MOST_ROWS 1100
#define MAX_JSON (256u << 20)

static int on_progress(void *cookie, uint64_t done, uint64_t total)
{
    char note[64], a[32], b[32];

    snprintf(note, sizeof note, "%s of %s samples", cli_many(a, done), cli_many(b, total));
    cli_bar_draw(cookie, total ? (double)done / (double)total : 0, note);
    return 0;
}

static int describe_data(const cli_args *a, const char *const *urls, size_t n,
                         stk_description **out)
{
    stk_dataset_options o = { .size = sizeof o,
                              .log = cli_log,
                              .cache_dir = cli_value(a, "cache-dir"),
                              .format = cli_value(a, "format") };
    stk_describe_options how = { .size = sizeof how, .progress = on_progress };
    stk_dataset *ds = NULL;
    double workers = 0;
    stk_error err;
    cli_bar bar;
    int rc = cli_number(a, "workers", 0, 256, &workers);

    if (rc)
        return rc;
    if (stk_dataset_open(&ds, urls, n, &o, &err) < 0)
        return cli_failed(&err);
    if (!stk_dataset_len(ds)) {
        cli_usage("%s: the data set has no samples", urls[0]);
        stk_dataset_unref(&ds);
        return CLI_FAILED;
    }
    how.num_workers = (uint32_t)workers;
    how.progress_cookie = &bar;
    cli_bar_open(&bar, "describing");
    rc = stk_describe(ds, &how, out, &err);
    cli_bar_close(&bar);
    stk_dataset_unref(&ds);
    return rc < 0 ? cli_failed(&err) : 0;
}

/* ---- describe ---- */

static void json_feature(cli_json *j, const stk_feature *f)
{
    cli_json_open(j, f->name, '{');
    cli_json_count(j, "count", f->count);
    if (f->category) {
        cli_json_count(j, "rest", f->rest);
        cli_json_open(j, "values", '{');
        for (uint32_t i = 0; i < f->n_values; i++)
            cli_json_count(j, f->value[i].text, f->value[i].count);
        cli_json_close(j, '}');
    } else {
        cli_json_real(j, "mean", f->mean);
        cli_json_real(j, "std", f->std);
        cli_json_open(j, "quantiles", '[');
        for (uint32_t q = 0; q < STK_QUANTILES; q++)
            cli_json_real(j, NULL, f->quantile[q]);
        cli_json_close(j, ']');
    }
    cli_json_close(j, '}');
}

static void print_description(const stk_description *d)
{
    cli_json j = { .to = stdout };
    stk_description_counts c;
    const stk_feature *f;

    stk_description_count(d, &c);
    cli_json_open(&j, NULL, '{');
    cli_json_count(&j, "stoker_description", STK_DESCRIPTION_VERSION);
    cli_json_count(&j, "samples", c.samples);
    cli_json_count(&j, "described", c.described);
    cli_json_count(&j, "bytes", c.bytes);
    cli_json_count(&j, "duplicates", c.duplicates);
    cli_json_count(&j, "near_duplicates", c.near_duplicates);
    cli_json_count(&j, "bad", c.bad);
    cli_json_open(&j, "features", '{');
    for (uint32_t i = 0; (f = stk_description_feature(d, i)); i++)
        json_feature(&j, f);
    cli_json_close(&j, '}');
    cli_json_close(&j, '}');
}

#define LONG_GOP 64 /* frames: where a random clip of 16 decodes more before it than of itself */

/* 1: the field's videos have keyframes far apart: `text` says so. */
static int says_long_gop(const stk_feature *f, char *text, size_t size)
{
    const char *dot = strrchr(f->name, '.');
    double longest = f->quantile[STK_QUANTILES / 2];

    if (!dot || strcmp(dot, ".gop") != 0 || f->category || !(longest > LONG_GOP))
        return 0;
    snprintf(text, size,
             "%.*s: keyframes are up to %.0f frames apart (the middle video), and a random clip is "
             "decoded from the keyframe before it. For random access write the videos again with "
             "short groups of pictures (stoker.pack(SRC, DST, video_gop=16) in Python), or read "
             "windows in order (stoker.Windows, shuffle=\"block\")",
             (int)(dot - f->name), f->name, longest);
    return 1;
}

static void say_long_gops(const stk_description *d, page *p)
{
    const stk_feature *f;
    char text[600];

    for (uint32_t i = 0; (f = stk_description_feature(d, i)); i++)
        if (says_long_gop(f, text, sizeof text)) {
            if (p)
                page_text(p, "say", text);
            else
                cli_put(stderr, "%s\n", text);
        }
}

static void page_feature(page *p, const stk_feature *f)
{
    page_bar bar[20];
    char caption[240];

    if (f->category) {
        uint32_t n = f->n_values < 20 ? f->n_values : 20;

        for (uint32_t i = 0; i < n; i++)
            bar[i] = (page_bar){ f->value[i].text, (double)f->value[i].count };
        snprintf(caption, sizeof caption, "%.160s: %u values", f->name, f->n_values);
        page_bars(p, caption, bar, n, "samples");
        return;
    }
    snprintf(caption, sizeof caption, "%.160s: mean %.4g, from %.4g to %.4g", f->name, f->mean,
             f->quantile[0], f->quantile[STK_QUANTILES - 1]);
    page_line(p, caption, f->quantile, STK_QUANTILES, "by percent of the samples");
}

/* Pictures with the usual augmentation, where there are pictures. */
static void page_usual(page *p, const cli_args *a, const stk_description *d)
{
    char chain[400];
    stk_output output = { "image", chain };
    const stk_feature *f;
    const char *dot;

    for (uint32_t i = 0; (f = stk_description_feature(d, i)); i++) {
        dot = strrchr(f->name, '.');
        if (!dot || strcmp(dot, ".width") != 0 || strchr(f->name, '"'))
            continue;
        snprintf(chain, sizeof chain, "from(\"%.*s\") | image | random_resized_crop(224) | hflip",
                 (int)(dot - f->name), f->name);
        page_pictures(p, a, &output, 1);
        return;
    }
}

static int write_page(const cli_args *a, const stk_description *d)
{
    stk_description_counts c;
    const stk_feature *f;
    char text[32];
    page p;
    int rc = page_open(&p, a, "stoker describe");

    if (rc)
        return rc;
    stk_description_count(d, &c);
    page_table(&p, cli_word_list(a)[0]);
    page_row(&p, "samples", cli_many(text, c.samples), 0);
    page_row(&p, "bytes", cli_many(text, c.bytes), 0);
    page_row(&p, "duplicates", cli_many(text, c.duplicates), c.duplicates ? -1 : 1);
    page_row(&p, "near-duplicates", cli_many(text, c.near_duplicates), c.near_duplicates ? -1 : 1);
    page_row(&p, "bad samples", cli_many(text, c.bad), c.bad ? -1 : 1);
    page_table_end(&p);
    say_long_gops(d, &p);
    for (uint32_t i = 0; (f = stk_description_feature(d, i)); i++)
        page_feature(&p, f);
    page_usual(&p, a, d);
    return page_close(&p, 1);
}

static int run_describe(const cli_args *a)
{
    stk_description *d = NULL;
    int rc = describe_data(a, cli_word_list(a), cli_words(a), &d);

    if (rc == 0) {
        print_description(d);
        say_long_gops(d, NULL);
        rc = write_page(a, d);
    }
    stk_description_close(&d);
    return rc;
}

/* ---- drift ---- */

/* A whole file for free(); NULL: it said why. */
static char *read_text(const char *path, const char *what, size_t *len)
{
    FILE *f = fopen(path, "re");
    char *text = f ? malloc(MAX_JSON + 1u) : NULL;
    int failed;

    *len = text ? fread(text, 1, MAX_JSON, f) : 0;
    failed = !text || ferror(f);
    if (f)
        fclose(f);
    if (!failed)
        return text;
    cli_usage("%s: the %s could not be read: %s", path, what, strerror(errno));
    free(text);
    return NULL;
}

static int read_description(const char *path, stk_description **out)
{
    size_t len;
    char *text = read_text(path, "description", &len);
    stk_error err;
    int rc = text ? stk_description_read(out, text, len, &err) : -1;

    if (text && rc < 0)
        cli_usage("%s: %s", path, err.message);
    free(text);
    return rc < 0 ? CLI_FAILED : 0;
}

/* ---- check --rules ---- */

typedef struct rule_lines {
    cli_json *j; /* NULL: for people */
    page *p;
} rule_lines;

static void on_broken(void *cookie, const char *line)
{
    const rule_lines *to = cookie;

    if (to->j)
        cli_json_text(to->j, NULL, line);
    else
        cli_put(stdout, "%s\n", line);
    page_row(to->p, line, "", -1);
}

static int hold(const cli_args *a, const stk_description *d, const char *text, size_t len)
{
    cli_json j = { .to = stdout };
    page p;
    rule_lines to = { cli_value(a, "json") ? &j : NULL, &p };
    stk_error err;
    int n, rc = page_open(&p, a, "stoker check --rules");

    if (rc)
        return rc;
    page_table(&p, "rules that do not hold");
    if (to.j) {
        cli_json_open(&j, NULL, '{');
        cli_json_open(&j, "broken", '[');
    }
    n = stk_rules_check(d, text, len, on_broken, &to, &err);
    if (to.j) {
        cli_json_close(&j, ']');
        cli_json_close(&j, '}');
    } else if (n == 0) {
        cli_put(stdout, "all rules hold\n");
    }
    page_table_end(&p);
    page_text(&p, "say", n == 0 ? "all rules hold" : "some rules do not hold");
    rc = page_close(&p, n >= 0);
    if (n < 0) {
        cli_usage("%s: %s", cli_value(a, "rules"), err.message);
        return CLI_USAGE;
    }
    return rc ? rc : n ? CLI_BAD : CLI_OK;
}

int cli_check_rules(const cli_args *a)
{
    stk_description *d = NULL;
    size_t len;
    char *text = read_text(cli_value(a, "rules"), "rules", &len);
    int rc = text ? describe_data(a, cli_word_list(a), cli_words(a), &d) : CLI_FAILED;

    if (rc == 0)
        rc = hold(a, d, text, len);
    stk_description_close(&d);
    free(text);
    return rc;
}

/* ---- drift, the command ---- */

/* A description that was kept, or data that is described now. */
static int take(const cli_args *a, const char *name, stk_description **out)
{
    size_t len = strlen(name);
    struct stat st;

    if (len > 5 && !strcmp(name + len - 5, ".json") && stat(name, &st) == 0 && S_ISREG(st.st_mode))
        return read_description(name, out);
    return describe_data(a, &name, 1, out);
}

static void print_rows(const stk_drift_row *row, uint32_t n, uint32_t drifted)
{
    for (uint32_t i = 0; i < n; i++)
        cli_put(stdout, "  %s %-32s%-16s%10.4f  (drift %s %.3g)\n", row[i].drifted ? "!!" : "ok",
                row[i].feature, row[i].test, row[i].value,
                !strcmp(row[i].test, "ks") || !strcmp(row[i].test, "chi-square") ? "below p"
                                                                                 : "above",
                row[i].bound);
    cli_put(stdout, "%u of %u features drifted\n", drifted, n);
}

static void json_rows(const stk_drift_row *row, uint32_t n, uint32_t drifted)
{
    cli_json j = { .to = stdout };

    cli_json_open(&j, NULL, '{');
    cli_json_count(&j, "drifted", drifted);
    cli_json_open(&j, "features", '[');
    for (uint32_t i = 0; i < n; i++) {
        cli_json_open(&j, NULL, '{');
        cli_json_text(&j, "feature", row[i].feature);
        cli_json_text(&j, "test", row[i].test);
        cli_json_real(&j, "value", row[i].value);
        cli_json_real(&j, "bound", row[i].bound);
        cli_json_bool(&j, "drifted", row[i].drifted);
        cli_json_close(&j, '}');
    }
    cli_json_close(&j, ']');
    cli_json_close(&j, '}');
}

static int run_drift(const cli_args *a)
{
    static stk_drift_row row[MOST_ROWS];
    const char *const *name = cli_word_list(a);
    stk_description *before = NULL, *now = NULL;
    uint32_t n = 0, drifted = 0;
    int rc = cli_words(a) == 2
                 ? 0
                 : cli_usage("drift compares two: a description or data before, and now");

    if (rc == 0)
        rc = take(a, name[0], &before);
    if (rc == 0)
        rc = take(a, name[1], &now);
    if (rc == 0) {
        drifted = stk_drift(before, now, row, MOST_ROWS, &n);
        (cli_value(a, "json") ? json_rows : print_rows)(row, n < MOST_ROWS ? n : MOST_ROWS,
                                                        drifted);
    }
    stk_description_close(&before);
    stk_description_close(&now);
    return rc ? rc : drifted ? CLI_BAD : CLI_OK;
}

#define WHERE                                                                                      \
    { "workers", "N", "the cores there are", "threads" },                                          \
        { "cache-dir", "DIR", "$STOKER_CACHE, else the user's cache",                              \
          "where indexes of read-only data go" },                                                  \
    {                                                                                              \
        "format", "NAME", "found by looking",                                                      \
            "how the shards are laid out; 'stoker ops' lists formats"                              \
    }

static const cli_option describe_options[] = {
    { "html", "FILE", NULL, "also write a page with charts: one file, no network" }, WHERE, { NULL }
};
static const cli_option drift_options[] = { WHERE, { NULL } };

const cli_command cli_describe = {
    .name = "describe",
    .synopsis = "DATA... [options] > FILE.json",
    .summary = "sizes, shapes, colors, labels and duplicates, as JSON to keep",
    .about = "Reads and decodes every sample and prints figures as one JSON object: sizes of "
             "fields, width,\n"
             "height, brightness and colors of pictures, codec, rate, frames and keyframes of "
             "videos, how often\n"
             "each label occurs, duplicates by content and pictures that look alike, bad samples. "
             " Keep it\n"
             "beside the data; 'stoker drift' compares.",
    .examples = "  stoker describe v1/ > v1.json\n"
                "  stoker describe 'train-*.tar' --html train.html > train.json\n",
    .options = describe_options,
    .min_words = 1,
    .max_words = -1,
    .run = run_describe,
};

const cli_command cli_drift = {
    .name = "drift",
    .synopsis = "BEFORE NOW [options]",
    .summary = "is the data still what it was? exit status 1 if not",
    .about = "Each is a description that 'stoker describe' wrote (FILE.json) or data, which is "
             "described now.\n"
             "Above 1,000 samples numbers drift at a Wasserstein distance of 0.1 standard "
             "deviations, and\n"
             "categories at a Jensen-Shannon distance of 0.1; below by Kolmogorov-Smirnov and "
             "chi-square at\n"
             "p < 0.05 over all features together.  A field that is missing or new is drift.",
    .examples = "  stoker drift v1.json v2/\n"
                "  stoker drift yesterday/ today/ --json\n",
    .options = drift_options,
    .min_words = 1,
    .max_words = 2,
    .run = run_drift,
};
