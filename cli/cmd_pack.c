/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_pack.c - stoker pack: any data set into tar shards. */
#include <inttypes.h>
#include <signal.h>
#include <string.h>

#include "pack_job.h"

static const cli_option options[] = {
    { "samples", "N", NULL, "samples in a shard" },
    { "bytes", "SIZE", "500MB", "size of a shard, about" },
    { "shuffle", "SEED", "as they are", "write the samples in a permuted order" },
    { "name", "NAME", "shard", "of the shards, where DST is a folder: DST/NAME-000000.tar" },
    { "force", NULL, NULL, "replace shards of that name, and remove those beyond the last" },
    { "compress", "gz|zstd|lz4", "as they are",
      "compress the shards; zstd in its seekable format" },
    { "arrays", NULL, NULL,
      "write the fields that chains make as arrays: DST/FIELD-000000.npy, one row per sample" },
    { "jpeg", NULL, NULL,
      "also keep seek points of JPEGs, so that a crop is decoded without what comes before it" },
    { "no-index", NULL, NULL, "don't index the new shards" },
    { "field", "NAME=CHAIN", "all as they are",
      "make a field by a chain that ends in encode(): 'jpg=image | resize(256) | encode(jpeg, "
      "90)'; "
      "NAME= leaves it out; may be given several times, other fields are copied" },
    { "video-gop", "N", NULL,
      "encode videos again with a keyframe every N frames, by the ffmpeg program, so that random "
      "clips are decoded in less time" },
    { "exclude", "FILE", NULL, "leave out the samples that `stoker check --write-exclude` listed" },
    { "where", "CONDITION", NULL, "take what satisfies it: 'width >= 256 AND score > 0.3'" },
    { "fraction", "F", "1", "take so much of the data, by a hash of the key" },
    { "dedup", "exact|near", NULL,
      "of samples that are alike take the first: all fields have equal bytes, or pictures look "
      "alike; "
      "exact:FIELD goes by one field" },
    { "balance", "FIELD[:N]", NULL,
      "take as many of each class, of which FIELD has the name or number: as the smallest has, or "
      "N" },
    { "split", "NAME=F,...", NULL,
      "write several sets, by a hash of the key: train=0.9,val=0.1; shards are called "
      "NAME-000000.tar" },
    { "salvage", NULL, NULL, "of a torn shard take the samples before the tear, and say so" },
    { "only", "failed", NULL, "make the samples again that an earlier run of this could not make" },
    { "write-plan", "PLAN", NULL, "write what would be done to a file, for --from-plan" },
    { "from-plan", "PLAN", NULL, "do what a plan says, in place of DATA and DST" },
    { "shard", "K", NULL, "of the plan: write shard K only" },
    { "part", "I/N", NULL,
      "of the plan: write part I (0 to N - 1) of N, shards that follow each other" },
    { "merge", NULL, NULL, "of the plan: look that every shard is there, and write the index" },
    { "workers", "N", "the cores there are", "shards written at a time" },
    { NULL },
};

static volatile sig_atomic_t interrupted; /* the signal */

static void on_interrupt(int number)
{
    interrupted = number;
}

static int is_interrupted(void *unused)
{
    (void)unused;
    return interrupted != 0;
}

/* What is left of an upload costs money: Ctrl-C aborts it first.  A second one ends the program at
 * once. */
static void catch_interrupt(const char *dst)
{
    struct sigaction a = { .sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND };

    if (!strstr(dst, "://"))
        return;
    sigemptyset(&a.sa_mask);
    sigaction(SIGINT, &a, NULL);
    sigaction(SIGTERM, &a, NULL);
    stk_thread_ask(is_interrupted, NULL);
}

static int on_progress(void *cookie, uint64_t done, uint64_t total)
{
    char a[16], b[16], note[40];

    snprintf(note, sizeof note, "%s of %s", stk_size_format(a, done), stk_size_format(b, total));
    cli_bar_draw(cookie, total ? (double)done / (double)total : 1, note);
    return interrupted != 0;
}

static int on_compare(void *bar, uint64_t done, uint64_t total)
{
    char a[32], b[32], note[80];

    snprintf(note, sizeof note, "comparing %s of %s samples", cli_many(a, done),
             cli_many(b, total));
    cli_bar_draw(bar, total ? (double)done / (double)total : 1, note);
    return 0;
}

typedef struct reason {
    const char *key, *name;
    uint64_t n;
} reason;

#define REASONS 7

/* Why samples were left out. */
static void reasons_of(const stk_pack_dropped *d, reason out[REASONS])
{
    const reason all[REASONS] = { { "exclude", "in the exclude list", d->exclude },
                                  { "where", "by --where", d->where },
                                  { "fraction", "by --fraction", d->fraction },
                                  { "split", "in other parts", d->split },
                                  { "duplicates", "duplicates", d->duplicates },
                                  { "near_duplicates", "look like others", d->near_duplicates },
                                  { "balance", "by --balance", d->balance } };

    memcpy(out, all, sizeof all);
}

static void print_left_out(const stk_pack_report *r)
{
    reason why[REASONS];
    const char *between = " (";
    char many[32];

    if (!r->left_out)
        return;
    reasons_of(&r->dropped, why);
    cli_put(stdout, "; %s left out", cli_many(many, r->left_out));
    for (int i = 0; i < REASONS; i++)
        if (why[i].n) {
            cli_put(stdout, "%s%s %s", between, cli_many(many, why[i].n), why[i].name);
            between = ", ";
        }
    cli_put(stdout, ")");
}

/* part: of a split, whose parts are members of one object; NULL: the whole. */
static void print_json(cli_json *out, const char *part, const stk_pack_report *r, double seconds)
{
    reason why[REASONS];

    cli_json_open(out, part, '{');
    cli_json_bool(out, "written", r->kept_shards < r->shards);
    cli_json_count(out, "shards", r->shards);
    cli_json_count(out, "kept_shards", r->kept_shards);
    cli_json_count(out, "samples", r->samples);
    cli_json_count(out, "bytes", r->bytes);
    cli_json_count(out, "changed_keys", r->changed_keys);
    cli_json_count(out, "failed", r->failed);
    cli_json_count(out, "left_out", r->left_out);
    reasons_of(&r->dropped, why);
    cli_json_open(out, "dropped", '{');
    for (int i = 0; i < REASONS; i++)
        cli_json_count(out, why[i].key, why[i].n);
    cli_json_close(out, '}');
    cli_json_seek(out, r->jpegs, r->jpegs_without, r->jpeg_bytes, r->seek_bytes);
    cli_json_text(out, "pattern", r->pattern);
    cli_json_real(out, "seconds", seconds);
    cli_json_close(out, '}');
}

static void print_line(const stk_pack_report *r, double seconds)
{
    char shards[32], samples[32], many[32], size[16];

    if (!r->shards && !r->left_out) {
        cli_put(stdout, "nothing to do: no sample for %s\n", r->pattern);
        return;
    }
    if (r->kept_shards == r->shards)
        cli_put(stdout, "already there: ");
    cli_put(stdout, "%s sample%s in %s shard%s, %s: %s", cli_many(samples, r->samples),
            r->samples == 1 ? "" : "s", cli_many(shards, r->shards), r->shards == 1 ? "" : "s",
            stk_size_format(size, r->bytes), r->pattern);
    if (r->kept_shards && r->kept_shards < r->shards)
        cli_put(stdout, "; %s shard%s there already", cli_many(many, r->kept_shards),
                r->kept_shards == 1 ? " was" : "s were");
    if (r->changed_keys)
        cli_put(stdout, "; %s key%s changed to what tar shards can hold",
                cli_many(many, r->changed_keys), r->changed_keys == 1 ? "" : "s");
    if (r->failed)
        cli_put(stdout, "; %s could not be made, .stoker beside the shards lists them",
                cli_many(many, r->failed));
    print_left_out(r);
    cli_put_seek(r->jpegs, r->jpegs_without, r->jpeg_bytes, r->seek_bytes);
    cli_put(stdout, " (%.2f s)\n", seconds);
}

/* One target: the whole, or one part of a split. */
static int run_one(pack_job *job, stk_dataset *ds, cli_json *json)
{
    stk_pack_report report = { .size = sizeof report };
    double start = cli_seconds();
    stk_error err;
    cli_bar bar;
    int rc;

    cli_bar_open(&bar, "packing");
    job->o.progress = on_progress;
    job->o.jpeg_progress = cli_seek_progress;
    job->o.dedup_progress = on_compare;
    job->o.progress_cookie = &bar;
    catch_interrupt(pack_job_dst(job));
    rc = stk_pack(ds, pack_job_dst(job), &job->o, &report, &err);
    cli_bar_close(&bar);
    if (interrupted)
        raise(interrupted); /* as if it had not been caught */
    if (rc < 0)
        return cli_failed(&err);
    if (json)
        print_json(json, job->n_splits ? job->o.name : NULL, &report, cli_seconds() - start);
    else
        print_line(&report, cli_seconds() - start);
    return CLI_OK;
}

static int run_job(pack_job *job, const cli_args *a)
{
    cli_json j = { .to = stdout }, *json = cli_value(a, "json") ? &j : NULL;
    stk_dataset *ds = NULL;
    int rc = pack_job_open(job, &ds);

    if (rc == 0)
        rc = pack_plan_check(job, ds);
    for (uint32_t i = 0; rc == 0 && i < pack_job_targets(job); i++) {
        pack_job_target(job, i);
        if (json && job->n_splits && !i)
            cli_json_open(json, NULL, '{');
        rc = run_one(job, ds, json);
    }
    if (j.depth)
        cli_json_close(json, '}');
    stk_dataset_unref(&ds);
    return rc;
}

static int run(const cli_args *a)
{
    pack_job job = { .o = { .size = sizeof job.o, .log = cli_log } };
    int rc = pack_job_take(&job, a);

    if (rc == 0 && cli_value(a, "video-gop"))
        rc = pack_videos(&job, a);
    else if (rc == 0)
        rc = cli_value(a, "write-plan") ? pack_plan_write(&job, cli_value(a, "write-plan"))
                                        : run_job(&job, a);
    pack_job_free(&job);
    return rc;
}

const cli_command cli_pack = {
    .name = "pack",
    .synopsis = "DATA... DST [options] | --from-plan PLAN [options]",
    .summary = "write any data as tar shards that load fast",
    .about =
        "Reads every sample of DATA and writes tar shards as WebDataset has them: few large "
        "files, which\n"
        "disks, object stores and copies like best.  DST is a folder or a name with a "
        "number in it,\n"
        "also s3://, gs:// and az://.\n"
        "Shards appear whole or not at all: a run that was stopped goes on where it was, and "
        "one whose\n"
        "result is there does nothing.  Anything else is replaced only with --force.  The "
        "same input gives\n"
        "the same bytes, however many workers write.\n"
        "With --field chains make fields on the way: a sample that can't be made is left out and\n"
        "listed.  With --write-plan and --from-plan many machines write one data set: each takes "
        "a\n"
        "part, then one merges.",
    .examples = "  stoker pack photos/ shards/ --name train --shuffle 1 --jpeg\n"
                "  stoker pack 'old-*.tar' 'new/train-%06d.tar' --samples 10000 --json\n"
                "  stoker pack raw/ small/ --field 'jpg=image | resize(256) | encode(jpeg, 90)'\n"
                "  stoker pack videos/ short/ --video-gop 16\n"
                "  stoker pack --from-plan plan.json --part 3/64\n",
    .options = options,
    .min_words = 0,
    .max_words = -1,
    .run = run,
};
