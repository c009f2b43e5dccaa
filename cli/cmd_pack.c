/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_pack.c - stoker pack: any data set into tar shards. */
#include <inttypes.h>
#include <string.h>

#include "cli.h"

static const cli_option options[] = {
    { "samples", "N", NULL, "samples in a shard" },
    { "bytes", "SIZE", "500MB", "size of a shard, about" },
    { "shuffle", "SEED", "as they are", "write the samples in a permuted order" },
    { "name", "NAME", "shard", "of the shards, where DST is a folder: DST/NAME-000000.tar" },
    { "force", NULL, NULL, "replace shards of that name, and remove those beyond the last" },
    { "jpeg", NULL, NULL,
      "also keep seek points of JPEGs, so that a crop is decoded without what comes before it" },
    { "no-index", NULL, NULL, "don't index the new shards" },
    { "workers", "N", "the cores there are", "shards written at a time" },
    { NULL },
};

static int on_progress(void *cookie, uint64_t done, uint64_t total)
{
    char a[16], b[16], note[40];

    snprintf(note, sizeof note, "%s of %s", stk_size_format(a, done), stk_size_format(b, total));
    cli_bar_draw(cookie, total ? (double)done / (double)total : 1, note);
    return 0;
}

static void print_json(const stk_pack_report *r, double seconds)
{
    cli_json j = { .to = stdout };

    cli_json_open(&j, NULL, '{');
    cli_json_bool(&j, "written", r->kept_shards < r->shards);
    cli_json_count(&j, "shards", r->shards);
    cli_json_count(&j, "kept_shards", r->kept_shards);
    cli_json_count(&j, "samples", r->samples);
    cli_json_count(&j, "bytes", r->bytes);
    cli_json_count(&j, "changed_keys", r->changed_keys);
    cli_json_seek(&j, r->jpegs, r->jpegs_without, r->jpeg_bytes, r->seek_bytes);
    cli_json_text(&j, "pattern", r->pattern);
    cli_json_real(&j, "seconds", seconds);
    cli_json_close(&j, '}');
}

static void print_line(const stk_pack_report *r, double seconds)
{
    char shards[32], samples[32], many[32], size[16];

    if (r->kept_shards == r->shards)
        cli_put(stdout, "already there: ");
    cli_put(stdout, "%s sample%s in %s shard%s, %s: %s", cli_many(samples, r->samples),
           r->samples == 1 ? "" : "s", cli_many(shards, r->shards), r->shards == 1 ? "" : "s",
           stk_size_format(size, r->bytes), r->pattern);
    if (r->kept_shards && r->kept_shards < r->shards)
        cli_put(stdout, "; %s shard%s there already", cli_many(many, r->kept_shards),
               r->kept_shards == 1 ? " was" : "s were");
    if (r->changed_keys)
        cli_put(stdout,
                "; %s key%s changed to what tar shards can hold", cli_many(many, r->changed_keys),
               r->changed_keys == 1 ? "" : "s");
    cli_put_seek(r->jpegs, r->jpegs_without, r->jpeg_bytes, r->seek_bytes);
    cli_put(stdout, " (%.2f s)\n", seconds);
}

static int take_options(const cli_args *a, stk_pack_options *o)
{
    double samples = 0, seed = 0, workers = 0;

    if (cli_number(a, "samples", 1, 1e15, &samples) || cli_size_value(a, "bytes", &o->bytes) ||
        cli_number(a, "shuffle", 0, 9007199254740992.0, &seed) ||
        cli_number(a, "workers", 1, 256, &workers))
        return CLI_USAGE;
    o->samples = (uint64_t)samples;
    o->shuffle = cli_value(a, "shuffle") ? STK_YES : STK_UNSET;
    o->seed = (uint64_t)seed;
    o->num_workers = (uint32_t)workers;
    o->force = cli_value(a, "force") ? STK_YES : STK_UNSET;
    o->no_index = cli_value(a, "no-index") ? STK_YES : STK_UNSET;
    o->jpeg = cli_value(a, "jpeg") ? STK_YES : STK_UNSET;
    o->name = cli_value(a, "name");
    if (o->name && strchr(o->name, '/'))
        return cli_usage("--name is the beginning of a file's name, not \"%s\"", o->name);
    return 0;
}

static int run(const cli_args *a)
{
    stk_pack_options o = { .size = sizeof o, .log = cli_log };
    stk_pack_report report = { .size = sizeof report };
    size_t n = cli_words(a) - 1;
    stk_dataset *ds = NULL;
    double start = cli_seconds();
    stk_error err;
    cli_bar bar;
    int rc;

    if (take_options(a, &o))
        return CLI_USAGE;
    rc = stk_dataset_open(&ds, cli_word_list(a), n, NULL, &err);
    if (rc < 0)
        return cli_failed(&err);
    cli_bar_open(&bar, "packing");
    o.progress = on_progress;
    o.jpeg_progress = cli_seek_progress;
    o.progress_cookie = &bar;
    rc = stk_pack(ds, cli_word_list(a)[n], &o, &report, &err);
    cli_bar_close(&bar);
    stk_dataset_unref(&ds);
    if (rc < 0)
        return cli_failed(&err);
    if (cli_value(a, "json"))
        print_json(&report, cli_seconds() - start);
    else
        print_line(&report, cli_seconds() - start);
    return CLI_OK;
}

const cli_command cli_pack = {
    .name = "pack",
    .synopsis = "DATA... DST [options]",
    .summary = "write any data as tar shards that load fast",
    .about = "Reads every sample of DATA and writes tar shards as WebDataset has them: few large "
             "files, which\n"
             "disks, object stores and copies like best.  DST is a folder or a name with a "
             "number in it.\n"
             "Shards appear whole or not at all: a run that was stopped goes on where it was, and "
             "one whose\n"
             "result is there does nothing.  Anything else is replaced only with --force.  The "
             "same input gives\n"
             "the same bytes, however many workers write.",
    .examples = "  stoker pack photos/ shards/ --name train --shuffle 1 --jpeg\n"
                "  stoker pack 'old-*.tar' 'new/train-%06d.tar' --samples 10000 --json\n",
    .options = options,
    .min_words = 2,
    .max_words = -1,
    .run = run,
};
