/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_index.c - stoker index: build the index of a data set, or find that it is there. */
#include <inttypes.h>
#include <string.h>

#include "cli.h"

#define MAX_COLUMNS 64

static const cli_option options[] = {
    { "columns", "NAMES", "none",
      "also keep these values of every sample: fields, or members of JSON fields, by commas" },
    { "points", NULL, NULL,
      "also keep seek points of JPEGs, videos and sound: a part is read and decoded without the "
      "rest" },
    { "jpeg", NULL, NULL, "the same, its name before 0.3" },
    { "part", "I/N", NULL,
      "index every N-th shard only, from I on (0 to N - 1), beside others that index the rest" },
    { "merge", NULL, NULL, "make one index of what the parts found" },
    { "force", NULL, NULL, "build again although there is a good index" },
    { "workers", "N", "the cores there are", "threads" },
    { "cache-dir", "DIR", "$STOKER_CACHE, else the user's cache",
      "where indexes of read-only data go" },
    { "format", "NAME", "found by looking",
      "how the shards are laid out; 'stoker ops' lists formats" },
    { NULL },
};

static int on_progress(void *cookie, uint64_t done, uint64_t total)
{
    char a[16], b[16], note[40];

    if (!total) /* another process builds it */
        return 0;
    snprintf(note, sizeof note, "%s of %s", stk_size_format(a, done), stk_size_format(b, total));
    cli_bar_draw(cookie, total ? (double)done / (double)total : 1, note);
    return 0;
}

static double bytes_a_sample(const stk_index_report *r)
{
    return r->samples ? (double)r->index_bytes / (double)r->samples : 0;
}

static void print_json(const stk_index_report *r, double seconds)
{
    cli_json j = { .to = stdout };

    cli_json_open(&j, NULL, '{');
    cli_json_bool(&j, "built", r->built);
    if (r->table)
        cli_json_bool(&j, "table", 1);
    cli_json_count(&j, "shards", r->shards);
    cli_json_count(&j, "reused_shards", r->reused_shards);
    cli_json_count(&j, "samples", r->samples);
    cli_json_count(&j, "fields", r->fields);
    cli_json_count(&j, "columns", r->columns);
    cli_json_count(&j, "data_bytes", r->data_bytes);
    cli_json_count(&j, "index_bytes", r->index_bytes);
    cli_json_real(&j, "index_bytes_per_sample", bytes_a_sample(r));
    cli_json_seek(&j, r->jpegs, r->jpegs_without, r->jpeg_bytes, r->seek_bytes);
    cli_json_text(&j, "path", r->path);
    cli_json_real(&j, "seconds", seconds);
    cli_json_close(&j, '}');
}

/* Of a table, whose rows are found by arithmetic. */
static void print_table(const stk_index_report *r, double seconds)
{
    char files[32], rows[32], columns[32], size[16];

    cli_put(stdout, "%s: %s file%s, %s row%s, %s column%s; ",
            !r->index_bytes ? "nothing to make"
            : r->built      ? "row seek points made"
                            : "row seek points already there",
            cli_many(files, r->shards), r->shards == 1 ? "" : "s", cli_many(rows, r->samples),
            r->samples == 1 ? "" : "s", cli_many(columns, r->fields), r->fields == 1 ? "" : "s");
    if (r->index_bytes)
        cli_put(stdout, "%s, %.1f bytes a row, in %s", stk_size_format(size, r->index_bytes),
                bytes_a_sample(r), r->path[0] ? r->path : "memory");
    else
        cli_put(stdout,
                "rows of a table are found without an index, and no column takes row seek points");
    cli_put(stdout, " (%.2f s)\n", seconds);
}

static void print_line(const stk_index_report *r, double seconds)
{
    char shards[32], samples[32], fields[32], reused[32], columns[32], size[16];

    if (!r->built)
        cli_put(stdout, "already there: ");
    cli_put(stdout, "%s shard%s, %s sample%s, %s field%s; index %s, %.1f bytes a sample, in %s",
            cli_many(shards, r->shards), r->shards == 1 ? "" : "s", cli_many(samples, r->samples),
            r->samples == 1 ? "" : "s", cli_many(fields, r->fields), r->fields == 1 ? "" : "s",
            stk_size_format(size, r->index_bytes), bytes_a_sample(r),
            r->path[0] ? r->path : "memory");
    if (r->columns)
        cli_put(stdout, "; %s column%s", cli_many(columns, r->columns), r->columns == 1 ? "" : "s");
    if (r->built && r->reused_shards)
        cli_put(stdout, "; %s shard%s reused", cli_many(reused, r->reused_shards),
                r->reused_shards == 1 ? "" : "s");
    cli_put_seek(r->jpegs, r->jpegs_without, r->jpeg_bytes, r->seek_bytes);
    cli_put(stdout, " (%.2f s)\n", seconds);
}

/* Split "a,b" in place; blanks around names don't count. */
static uint32_t split_names(char *text, const char **out, uint32_t room)
{
    uint32_t n = 0;
    char *save = NULL;

    for (char *s = strtok_r(text, ", ", &save); s; s = strtok_r(NULL, ", ", &save)) {
        if (n < room)
            out[n] = s;
        n++;
    }
    return n;
}

static int take_columns(const cli_args *a, char *text, size_t size, const char **names,
                        stk_index_options *o)
{
    const char *given = cli_value(a, "columns");

    if (!given)
        return CLI_OK;
    if ((size_t)snprintf(text, size, "%s", given) >= size ||
        (o->n_columns = split_names(text, names, MAX_COLUMNS)) > MAX_COLUMNS || !o->n_columns) {
        cli_put(stderr, "stoker: --columns is a list of 1 to %d names: cls,json.width\n",
                MAX_COLUMNS);
        return CLI_USAGE;
    }
    o->columns = names;
    return CLI_OK;
}

static int take_part(const cli_args *a, stk_index_options *o)
{
    const char *part = cli_value(a, "part");
    char more;

    o->merge = cli_value(a, "merge") ? STK_YES : STK_UNSET;
    if (part && (sscanf(part, "%u/%u%c", &o->part, &o->parts, &more) != 2 || !o->parts ||
                 o->part >= o->parts))
        return cli_usage("--part is I/N with I from 0 to N - 1, as in 3/64, not \"%s\"", part);
    if (part && o->merge == STK_YES)
        return cli_usage("--part and --merge: first all parts, then the merge");
    return CLI_OK;
}

static int run(const cli_args *a)
{
    stk_index_options o = { .size = sizeof o,
                            .cache_dir = cli_value(a, "cache-dir"),
                            .format = cli_value(a, "format"),
                            .log = cli_log };
    stk_index_report report = { .size = sizeof report };
    double workers = 0, start = cli_seconds();
    const char *names[MAX_COLUMNS];
    char text[4096];
    stk_error err;
    cli_bar bar;
    int rc;

    if (take_columns(a, text, sizeof text, names, &o) || take_part(a, &o))
        return CLI_USAGE;
    if (cli_number(a, "workers", 1, 256, &workers))
        return CLI_USAGE;
    o.num_workers = (uint32_t)workers;
    o.force = cli_value(a, "force") ? STK_YES : STK_UNSET;
    cli_bar_open(&bar, "indexing");
    o.progress = on_progress;
    o.progress_cookie = &bar;
    o.jpeg = cli_value(a, "points") || cli_value(a, "jpeg") ? STK_YES : STK_UNSET;
    o.jpeg_progress = cli_seek_progress;
    rc = stk_index_build(cli_word_list(a), cli_words(a), &o, &report, &err);
    cli_bar_close(&bar);
    if (rc < 0)
        return cli_failed(&err);
    if (cli_value(a, "json"))
        print_json(&report, cli_seconds() - start);
    else if (report.table)
        print_table(&report, cli_seconds() - start);
    else
        print_line(&report, cli_seconds() - start);
    return CLI_OK;
}

const cli_command cli_index = {
    .name = "index",
    .synopsis = "DATA... [options]",
    .summary = "find every sample of the shards once and keep a table of them",
    .about = "Walks the shards once and writes down where every sample and field is, so that "
             "opening takes\n"
             "milliseconds and any order is possible.  Run it after making or adding shards; a "
             "loader that finds\n"
             "no index builds one itself.  Shards that an older index knows are not read again, a "
             "stale or\n"
             "damaged index is repaired.  It is in .stoker/ beside the shards, or in the cache "
             "when that\n"
             "folder is read-only.  Columns are what samples are selected, weighted or balanced "
             "by; they "
             "stay\n"
             "when shards are added.  Many machines index one data set on a file system they "
             "share: each "
             "takes\n"
             "a --part, then one merges.  Tables need no index: of Parquet files it makes row "
             "seek\n"
             "points of columns with large values.  DATA is a path, a folder, a glob or a brace "
             "pattern.",
    .examples = "  stoker index 'train-{000000..000099}.tar'\n"
                "  stoker index data/train/ data/extra/ --columns cls,json.width --json\n"
                "  stoker index data/train/ --part 3/64\n",
    .options = options,
    .min_words = 1,
    .max_words = -1,
    .run = run,
};
