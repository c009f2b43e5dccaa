/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_check.c - stoker check: read and decode everything, list what is bad. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

#define MAX_OUTPUTS 32

static const cli_option options[] = {
    { "rules", "FILE", NULL,
      "instead, hold what is expected (JSON, docs/seeing.md) against the data" },
    { "html", "FILE", NULL, "with --rules: also write a page" },
    { "field", "NAME=CHAIN", "each field by its content and name",
      "decode with this chain instead, as a loader would; may be given several times" },
    { "where", "CONDITION", NULL, "look only at what satisfies it: 'width >= 256'" },
    { "write-exclude", "FILE", NULL,
      "write the bad samples and those that are not supported to FILE, for a loader's exclude= "
      "(JSON lines)" },
    { "keep-unsupported", NULL, NULL,
      "leave what is not supported out of --write-exclude: it is right, and another build may read "
      "it" },
    { "max-pixels", "N", "178956970", "larger pictures are bad" },
    { "workers", "N", "the cores there are", "threads" },
    { "cache-dir", "DIR", "$STOKER_CACHE, else the user's cache",
      "where indexes of read-only data go" },
    { NULL },
};

typedef struct bad { /* a copy of an stk_bad */
    char *shard, *key, *reason;
    size_t key_len;
    uint64_t offset;
    stk_bad_kind kind;
} bad;

typedef struct found {
    bad *list;
    size_t n, cap;
    int no_memory;
} found;

static char *copy(const char *s, size_t len)
{
    char *p = malloc(len + 1);

    if (p) {
        memcpy(p, s, len);
        p[len] = 0;
    }
    return p;
}

static void on_bad(void *cookie, const stk_bad *b)
{
    found *f = cookie;
    bad *x;

    if (f->n == f->cap) {
        size_t cap = f->cap ? f->cap * 2 : 64;

        x = realloc(f->list, cap * sizeof *x);
        if (!x) {
            f->no_memory = 1;
            return;
        }
        f->list = x;
        f->cap = cap;
    }
    x = &f->list[f->n++];
    *x = (bad){ .shard = copy(b->shard, strlen(b->shard)),
                .key = b->key ? copy(b->key, b->key_len) : NULL,
                .reason = copy(b->reason, strlen(b->reason)),
                .key_len = b->key_len,
                .offset = b->offset,
                .kind = b->kind };
    f->no_memory |= !x->shard || !x->reason || (b->key && !x->key);
}

static int by_place(const void *a, const void *b)
{
    const bad *x = a, *y = b;
    int d = strcmp(x->shard, y->shard);

    return d ? d : x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void found_free(found *f)
{
    for (size_t i = 0; i < f->n; i++) {
        free(f->list[i].shard);
        free(f->list[i].key);
        free(f->list[i].reason);
    }
    free(f->list);
}

static int on_progress(void *cookie, uint64_t done, uint64_t total)
{
    char a[32], b[32], note[80];

    snprintf(note, sizeof note, "%s of %s samples", cli_many(a, done), cli_many(b, total));
    cli_bar_draw(cookie, total ? (double)done / (double)total : 1, note);
    return 0;
}

/* ---- what was found ---- */

static const char *const kind_names[] = { [STK_BAD_DATA] = "bad",
                                          [STK_BAD_UNSUPPORTED] = "unsupported",
                                          [STK_BAD_POINTS] = "seek points",
                                          [STK_BAD_INDEX] = "index" };

/* In a manifest, a shard that is bad as a whole has no offset, and a key that JSON can't hold is
 * left to the offset. */
static void json_bad(cli_json *j, const bad *b)
{
    cli_json_text(j, "shard", b->shard);
    if (b->offset == STK_NO_OFFSET || (j->lines && !b->key))
        cli_json_text(j, "offset", NULL);
    else
        cli_json_count(j, "offset", b->offset);
    if (b->key && (!j->lines || cli_is_utf8(b->key, b->key_len)))
        cli_json_bytes(j, "key", b->key, b->key_len);
    else
        cli_json_text(j, "key", NULL);
    cli_json_text(j, "kind", kind_names[b->kind]);
    cli_json_text(j, "reason", b->reason);
}

/* A loader passes over lines about shards that it does not have: a name that JSON can't hold would
 * keep nothing out. */
static int write_line(FILE *to, const bad *b)
{
    cli_json j = { .to = to, .lines = 1 };

    if (!cli_is_utf8(b->shard, strlen(b->shard))) {
        cli_usage("--write-exclude: the name of the shard %s is not UTF-8, and the list can't hold "
                  "it: rename the shard",
                  b->shard);
        return CLI_FAILED;
    }
    cli_json_open(&j, NULL, '{');
    json_bad(&j, b);
    cli_json_close(&j, '}');
    return 0;
}

static int write_manifest(const char *path, const found *f, int keep_unsupported)
{
    cli_file file;
    int rc = cli_file_open(&file, path);

    for (size_t i = 0; rc == 0 && i < f->n; i++)
        if (f->list[i].kind == STK_BAD_DATA ||
            (f->list[i].kind == STK_BAD_UNSUPPORTED && !keep_unsupported))
            rc = write_line(file.to, &f->list[i]);
    return cli_file_close(&file, rc == 0) || rc ? CLI_FAILED : 0;
}

static void json_list(cli_json *j, const char *name, const found *f, stk_bad_kind kind)
{
    cli_json_open(j, name, '[');
    for (size_t i = 0; i < f->n; i++) {
        if (f->list[i].kind != kind)
            continue;
        cli_json_open(j, NULL, '{');
        json_bad(j, &f->list[i]);
        cli_json_close(j, '}');
    }
    cli_json_close(j, ']');
}

static void json_fields(cli_json *j, const stk_check_report *r)
{
    cli_json_count(j, "fields", r->fields);
    cli_json_open(j, "decoded_fields", '{');
    for (uint32_t i = 0; i < r->n_kinds; i++)
        cli_json_count(j, r->kind[i].name, r->kind[i].fields);
    cli_json_close(j, '}');
    cli_json_count(j, "only_read_fields", r->only_read);
}

static void print_json(const stk_check_report *r, const found *f, double seconds)
{
    cli_json j = { .to = stdout };

    cli_json_open(&j, NULL, '{');
    cli_json_count(&j, "shards", r->shards);
    cli_json_count(&j, "samples", r->samples);
    cli_json_count(&j, "bytes", r->bytes);
    cli_json_count(&j, "pictures", r->pictures);
    cli_json_count(&j, "unchecked_pictures", r->unchecked);
    json_fields(&j, r);
    cli_json_count(&j, "bad_shards", r->bad_shards);
    cli_json_count(&j, "bad_samples", r->bad_samples);
    cli_json_count(&j, "unsupported_samples", r->unsupported);
    cli_json_count(&j, "seek_point_misfits", r->misfits);
    cli_json_count(&j, "index_differences", r->index_faults);
    cli_json_count(&j, "shard_warnings", r->warnings);
    json_list(&j, "bad", f, STK_BAD_DATA);
    json_list(&j, "unsupported", f, STK_BAD_UNSUPPORTED);
    json_list(&j, "misfits", f, STK_BAD_POINTS);
    json_list(&j, "differences", f, STK_BAD_INDEX);
    json_list(&j, "warnings", f, STK_BAD_WARNING);
    cli_json_real(&j, "seconds", seconds);
    cli_json_close(&j, '}');
}

static void print_bad(const bad *b)
{
    char line[1024];
    stk_error e = { .code = STK_ECORRUPT, .offset = b->offset, .sample = UINT64_MAX };

    snprintf(e.shard, sizeof e.shard, "%s", b->shard);
    snprintf(e.key, sizeof e.key, "%s", b->key ? b->key : "");
    snprintf(e.message, sizeof e.message, "%s%s",
             b->kind == STK_BAD_UNSUPPORTED ? "not supported: " : "", b->reason);
    stk_error_format(&e, line, sizeof line);
    cli_put(stdout, "%s\n", line);
}

/* "24 fields: 12 jpeg and 12 int decoded, 0 only read". */
static void print_fields(const stk_check_report *r)
{
    char many[32];

    if (!r->fields) /* chains */
        return;
    cli_put(stdout, "%s field%s: ", cli_many(many, r->fields), r->fields == 1 ? "" : "s");
    for (uint32_t i = 0; i < r->n_kinds; i++)
        cli_put(stdout, "%s%s %s", i ? ", " : "", cli_many(many, r->kind[i].fields),
                r->kind[i].name);
    cli_put(stdout, "%s%s only read\n", r->n_kinds ? " decoded; " : "none decoded; ",
            cli_many(many, r->only_read));
}

typedef struct counted {
    uint64_t n;
    const char *one, *many;
} counted;

static void print_found(const stk_check_report *r)
{
    const counted list[] = {
        { r->bad_samples, "bad sample", "bad samples" },
        { r->bad_shards, "bad shard", "bad shards" },
        { r->unsupported, "not supported", "not supported" },
        { r->index_faults, "difference between index and data (stoker index --force)",
          "differences between index and data (stoker index --force)" },
        { r->misfits, "field whose seek points do not fit (stoker index --points --force)",
          "fields whose seek points do not fit (stoker index --points --force)" },
        { r->warnings, "shard with a warning", "shards with a warning" },
    };
    const char *sep = "";
    char many[32];

    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (list[i].n) {
            cli_put(stdout, "%s%s %s", sep, cli_many(many, list[i].n),
                    list[i].n == 1 ? list[i].one : list[i].many);
            sep = ", ";
        }
}

static void print_lines(const stk_check_report *r, const found *f, double seconds)
{
    char samples[32], shards[32], many[32], size[16];

    for (size_t i = 0; i < f->n; i++)
        print_bad(&f->list[i]);
    print_fields(r);
    cli_put(stdout, "%s sample%s in %s shard%s, %s: ", cli_many(samples, r->samples),
            r->samples == 1 ? "" : "s", cli_many(shards, r->shards), r->shards == 1 ? "" : "s",
            stk_size_format(size, r->bytes));
    if (!f->n)
        cli_put(stdout, "all good");
    print_found(r);
    if (r->unchecked)
        cli_put(stdout, "; %s picture%s of a kind that this build can't decode, only read",
                cli_many(many, r->unchecked), r->unchecked == 1 ? "" : "s");
    cli_put(stdout, " (%.2f s)\n", seconds);
}

/* ---- the command ---- */

static int take_fields(const cli_args *a, char text[MAX_OUTPUTS][128], stk_output *out, uint32_t *n)
{
    const char *f;

    for (*n = 0; (f = cli_value_at(a, "field", *n)); ++*n) {
        const char *equals = strchr(f, '=');

        if (*n == MAX_OUTPUTS)
            return cli_usage("at most %d fields", MAX_OUTPUTS);
        if (!equals || equals == f || equals - f >= 128)
            return cli_usage(
                "--field is NAME=CHAIN, as in --field 'label=from(cls) | int', not \"%s\"", f);
        snprintf(text[*n], 128, "%.*s", (int)(equals - f), f);
        out[*n] = (stk_output){ text[*n], equals + 1 };
    }
    return 0;
}

static int report(const cli_args *a, const stk_check_report *r, found *f, double seconds)
{
    const char *manifest = cli_value(a, "write-exclude");

    if (f->no_memory)
        return cli_usage("out of memory");
    if (f->n)
        qsort(f->list, f->n, sizeof *f->list, by_place);
    if (manifest && write_manifest(manifest, f, cli_value(a, "keep-unsupported") != NULL))
        return CLI_FAILED;
    if (cli_value(a, "json"))
        print_json(r, f, seconds);
    else
        print_lines(r, f, seconds);
    return f->n ? CLI_BAD : CLI_OK;
}

static int run(const cli_args *a)
{
    stk_check_options o = { .size = sizeof o,
                            .cache_dir = cli_value(a, "cache-dir"),
                            .bad = on_bad,
                            .progress = on_progress,
                            .log = cli_log };
    stk_check_report r = { .size = sizeof r };
    double workers = 0, pixels = 0, start = cli_seconds();
    char text[MAX_OUTPUTS][128];
    stk_output out[MAX_OUTPUTS];
    found f = { 0 };
    stk_error err;
    cli_bar bar;
    int rc;

    if (cli_value(a, "rules"))
        return cli_check_rules(a);
    if (cli_number(a, "workers", 1, 256, &workers) ||
        cli_number(a, "max-pixels", 1, 1e15, &pixels) || take_fields(a, text, out, &o.n_outputs))
        return CLI_USAGE;
    o.num_workers = (uint32_t)workers;
    o.max_pixels = (uint64_t)pixels;
    o.outputs = out;
    o.where = cli_value(a, "where");
    o.bad_cookie = &f;
    cli_bar_open(&bar, "checking");
    o.progress_cookie = &bar;
    rc = stk_check(cli_word_list(a), cli_words(a), &o, &r, &err);
    cli_bar_close(&bar);
    rc = rc < 0 ? cli_failed(&err) : report(a, &r, &f, cli_seconds() - start);
    found_free(&f);
    return rc;
}

const cli_command cli_check = {
    .name = "check",
    .synopsis = "DATA... [options]",
    .summary = "read and decode everything, list what is bad",
    .about = "Reads every field of every sample and decodes it: what it is, its content says, "
             "whatever its name\n"
             "(pictures whole, gzip, zstd, npy, npz, JSON); a name decides where content can't (a "
             "cls must be a\n"
             "number, a jpg a picture).  It says how many fields were decoded as what, and how "
             "many only read.\n"
             "What this build does not support is listed, and the rest is checked; so is a shard "
             "that is torn.\n"
             "The shards are walked and compared with their index.  Run it once on new data, "
             "before a training\n"
             "run finds out at night; give what it found to the loader as exclude=FILE.  Exit "
             "code 1 if anything\n"
             "was found; 3, and no list, if the machine failed (no descriptors, no memory, a bad "
             "disk).",
    .examples = "  stoker check 'train-{000000..000099}.tar' --write-exclude bad.jsonl\n"
                "  stoker check data/ --field 'image=from(jpg) | image | resize(256)' --json\n",
    .options = options,
    .min_words = 1,
    .max_words = -1,
    .run = run,
};
