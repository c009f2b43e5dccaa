/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_ls.c - stoker ls: the samples of a data set, from its index alone; with --schema also the
 * tables of its first videos. */
#include <fnmatch.h>
#include <inttypes.h>
#include <string.h>

#include "cli.h"

static const cli_option options[] = {
    { "keys", "PATTERN", "all", "only samples whose key is like this: 'n0144*'" },
    { "schema", NULL, NULL,
      "the fields instead of samples: name, type, shape; of videos the first one's figures" },
    { "long", NULL, NULL, "sizes in bytes, with shard and offset" },
    { NULL },
};

static void print_json(const stk_dataset *ds, const stk_sample *s, uint64_t id)
{
    cli_json j = { .to = stdout, .lines = 1 };
    const char *key, *name;
    char number[24];
    size_t len;

    cli_json_open(&j, NULL, '{');
    cli_json_count(&j, "id", id);
    key = cli_key(ds, id, number, &len);
    cli_json_bytes(&j, "key", key, len);
    cli_json_text(&j, "shard", stk_sample_shard(s));
    cli_json_count(&j, "offset", stk_sample_offset(s));
    cli_json_open(&j, "fields", '{');
    for (uint32_t k = 0; (name = stk_sample_field(s, k, NULL, &len)); k++)
        cli_json_count(&j, name, len);
    cli_json_close(&j, '}');
    cli_json_close(&j, '}');
}

static void print_line(const stk_sample *s, uint64_t id, int in_full)
{
    size_t len;
    const char *name = stk_sample_key(s, &len);
    char size[16];

    cli_put(stdout, "%" PRIu64 "%s", id, len ? "  " : ""); /* of a table that is its key */
    cli_put_shown(stdout, name, len);
    for (uint32_t k = 0; (name = stk_sample_field(s, k, NULL, &len)); k++) {
        if (in_full)
            cli_put(stdout, "%s%s %zu", k ? ", " : "  ", name, len);
        else
            cli_put(stdout, "%s%s %s", k ? ", " : "  ", name, stk_size_format(size, len));
    }
    if (in_full)
        cli_put(stdout, "  %s @ %" PRIu64, stk_sample_shard(s), stk_sample_offset(s));
    putchar('\n');
}

/* Keys are not terminated; those too long for the buffer match by their beginning. */
static int matches(const stk_dataset *ds, uint64_t id, const char *pattern)
{
    char text[4096], number[24];
    size_t len;
    const char *key = cli_key(ds, id, number, &len);

    if (!pattern)
        return 1;
    len = len < sizeof text ? len : sizeof text - 1;
    memcpy(text, key, len);
    text[len] = 0;
    return fnmatch(pattern, text, 0) == 0;
}

static const char *type_name(const stk_field_type *t)
{
    return t->dtype ? stk_dtype_name(t->dtype) : t->text ? "text" : "bytes";
}

/* "i64", "f32[*]", "bytes"; a question mark: samples may lack it. */
static void print_type(const stk_field_type *t)
{
    cli_put_shown(stdout, t->name, strlen(t->name));
    cli_put(stdout, "  %s", type_name(t));
    for (uint32_t k = 0; k < t->ndim; k++) {
        if (t->shape[k] < 0)
            cli_put(stdout, "[*]");
        else
            cli_put(stdout, "[%" PRId64 "]", t->shape[k]);
    }
    cli_put(stdout, "%s", t->nullable ? "?" : "");
    cli_put(stdout, t->refused ? "  not read: %s\n" : "\n", t->refused);
}

/* 1: the field of this name of the first sample is a video. */
static int first_video(stk_dataset *ds, const char *name, stk_video_info *v)
{
    stk_sample *s = NULL;
    const char *one;
    stk_error err;
    int is = 0;

    if (!stk_dataset_len(ds) || stk_dataset_look(ds, 0, &s, &err) < 0)
        return 0;
    for (uint32_t k = 0; !is && (one = stk_sample_field(s, k, NULL, NULL)); k++)
        is = !strcmp(one, name) && stk_dataset_video_info(ds, 0, k, v, &err) == 0;
    stk_sample_close(&s);
    return is;
}

static double fps_of(const stk_video_info *v)
{
    return v->duration_us > 0 ? (double)v->frames * 1e6 / (double)v->duration_us : 0;
}

static void print_video(const stk_video_info *v)
{
    cli_put(stdout,
            "    sample 0: %s, %ux%u, %.4g frames/s, %" PRIu64 " frames, %.4g s, keyframes up to "
            "%" PRIu64 " frames apart\n",
            v->codec, v->width, v->height, fps_of(v), v->frames, (double)v->duration_us / 1e6,
            v->longest_gop);
}

static void json_video(cli_json *j, const stk_video_info *v)
{
    cli_json_open(j, "video", '{');
    cli_json_text(j, "codec", v->codec);
    cli_json_count(j, "width", v->width);
    cli_json_count(j, "height", v->height);
    cli_json_real(j, "fps", fps_of(v));
    cli_json_count(j, "frames", v->frames);
    cli_json_real(j, "seconds", (double)v->duration_us / 1e6);
    cli_json_count(j, "gop", v->longest_gop);
    cli_json_close(j, '}');
}

static void print_schema(stk_dataset *ds, int json)
{
    cli_json j = { .to = stdout, .lines = 1 };
    stk_video_info v;
    stk_field_type t;
    int video;

    for (uint32_t i = 0; stk_dataset_field_type(ds, i, &t); i++) {
        video = !t.dtype && !t.text && !t.refused && first_video(ds, t.name, &v);
        if (!json) {
            print_type(&t);
            if (video)
                print_video(&v);
            continue;
        }
        cli_json_open(&j, NULL, '{');
        cli_json_text(&j, "name", t.name);
        cli_json_text(&j, "type", type_name(&t));
        cli_json_count(&j, "dimensions", t.ndim);
        cli_json_count(&j, "nullable", (uint64_t)t.nullable);
        if (t.refused)
            cli_json_text(&j, "not_read", t.refused);
        if (video)
            json_video(&j, &v);
        cli_json_close(&j, '}');
    }
}

static int run(const cli_args *a)
{
    stk_dataset_options o = { .size = sizeof o, .log = cli_log };
    const char *pattern = cli_value(a, "keys");
    int json = cli_value(a, "json") != NULL, in_full = cli_value(a, "long") != NULL;
    stk_dataset *ds = NULL;
    stk_sample *s = NULL;
    stk_error err;
    int rc = stk_dataset_open(&ds, cli_word_list(a), cli_words(a), &o, &err);

    if (rc == 0 && cli_value(a, "schema"))
        print_schema(ds, json);
    for (uint64_t i = 0;
         rc == 0 && !cli_value(a, "schema") && i < stk_dataset_len(ds) && !ferror(stdout); i++) {
        rc = stk_dataset_look(ds, i, &s, &err);
        if (rc == 0 && matches(ds, i, pattern)) {
            if (json)
                print_json(ds, s, i);
            else
                print_line(s, i, in_full);
        }
        stk_sample_close(&s);
    }
    stk_dataset_unref(&ds);
    return rc < 0 ? cli_failed(&err) : CLI_OK;
}

const cli_command cli_ls = {
    .name = "ls",
    .synopsis = "DATA... [options]",
    .summary = "list samples: key, fields and their sizes",
    .about = "Prints one line a sample: its number, its key, and its fields with their sizes.  It "
             "reads the\n"
             "index only (and builds it where there is none), so that it starts at once however "
             "large the data\n"
             "is.  With --json every line is an object.",
    .examples = "  stoker ls --schema t.parquet\n"
                "  stoker ls 'train-{000000..000099}.tar' --long | head\n",
    .options = options,
    .min_words = 1,
    .max_words = -1,
    .run = run,
};
