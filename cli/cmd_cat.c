/* SPDX-License-Identifier: Apache-2.0 */
/* cmd_cat.c - stoker cat: a sample, one of its fields, or what a chain makes of a field. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

#define SHOWN 60

static const cli_option options[] = {
    { "output", "FILE", "standard output", "write there; -o for short" },
    { "decode", "KIND", "as it is", "decode the field and write it as png, ppm or npy" },
    { "chain", "CHAIN", "image", "what to make of the field, with --decode" },
    { "raw", NULL, NULL, "write the bytes as they are, also to a terminal" },
    { "id", NULL, NULL, "KEY is a sample's number, also where some sample has that key" },
    { NULL },
};

typedef struct cat {
    const cli_args *a;
    stk_dataset *ds;
    uint64_t id;
    FILE *to;
} cat;

/* ---- which sample ---- */

static int number_of(const char *text, uint64_t *out)
{
    char *end;

    *out = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end;
}

/* A key first; a number that is not a key is an id. */
static int find_sample(cat *c, const char *word)
{
    size_t want = strlen(word), len;
    uint64_t n = stk_dataset_len(c->ds), id;
    int is_number = number_of(word, &id), by_id = cli_value(c->a, "id") != NULL;

    for (uint64_t i = 0; !by_id && i < n; i++) {
        const char *key = stk_dataset_key(c->ds, i, &len);

        if (key && len == want && !memcmp(key, word, len)) {
            c->id = i;
            return 0;
        }
    }
    if (!is_number)
        return cli_usage("no sample has the key '%s'; 'stoker ls' lists them", word);
    if (id >= n)
        return cli_usage("there is no sample %s: they are numbered 0 to %" PRIu64, word,
                         n ? n - 1 : 0);
    c->id = id;
    return 0;
}

/* ---- a sample ---- */

/* A field as it is shown: of numbers their text, which is to be freed. */
typedef struct shown {
    const char *data;
    size_t len;
    char *text;
} shown;

static shown show_of(const cat *c, const char *name, const void *data, size_t len)
{
    shown v = { data, len, NULL };
    stk_field_type t;

    if (data && cli_field_type(c->ds, name, &t) && (v.text = cli_value_text(&t, data, len))) {
        v.data = v.text;
        v.len = strlen(v.text);
    }
    return v;
}

/* What is plain text as such, else the first bytes. */
static void show_begin(FILE *to, const char *data, size_t len, int plain)
{
    size_t n = len < SHOWN ? len : SHOWN;

    if (plain) {
        while (n < len && ((unsigned char)data[n] & 0xc0) == 0x80)
            n++; /* whole characters */
        cli_put_shown(to, data, n);
    } else {
        n = len < 16 ? len : 16;
        for (size_t i = 0; i < n; i++)
            cli_put(to, "%s%02x", i ? " " : "", (unsigned char)data[i]);
    }
    cli_put(to, "%s\n", n < len ? " ..." : "");
}

static void show_field(const cat *c, const char *name, const void *data, size_t len)
{
    shown v = show_of(c, name, data, len);
    char size[16];

    cli_put(c->to, "%-8s%s%-9s", name, strlen(name) < 8 ? "" : "  ",
            data ? stk_size_format(size, len) : "null");
    show_begin(c->to, v.data, v.len, v.text || (v.len <= 4096 && cli_is_harmless(v.data, v.len)));
    free(v.text);
}

static void show_json(const cat *c, const stk_sample *s)
{
    cli_json j = { .to = c->to };
    const void *data;
    const char *name;
    char number[24];
    size_t len;

    cli_json_open(&j, NULL, '{');
    cli_json_count(&j, "id", c->id);
    name = cli_key(c->ds, c->id, number, &len);
    cli_json_bytes(&j, "key", name, len);
    cli_json_text(&j, "shard", stk_sample_shard(s));
    cli_json_count(&j, "offset", stk_sample_offset(s));
    cli_json_open(&j, "fields", '{');
    for (uint32_t k = 0; (name = stk_sample_field(s, k, &data, &len)); k++) {
        shown v = show_of(c, name, data, len);

        cli_json_open(&j, name, '{');
        cli_json_count(&j, "size", len);
        if (!data)
            cli_json_text(&j, "text", NULL);
        else if (v.len <= 4096 && cli_is_harmless(v.data, v.len))
            cli_json_bytes(&j, "text", v.data, v.len);
        cli_json_close(&j, '}');
        free(v.text);
    }
    cli_json_close(&j, '}');
    cli_json_close(&j, '}');
}

static int show_sample(cat *c, const stk_sample *s)
{
    const void *data;
    const char *name;
    char number[24];
    size_t len;

    if (cli_value(c->a, "json")) {
        show_json(c, s);
        return CLI_OK;
    }
    cli_put(c->to, "%-8s%" PRIu64 "\n%-8s", "id", c->id, "key");
    name = cli_key(c->ds, c->id, number, &len);
    cli_put_shown(c->to, name, len);
    cli_put(c->to, "\n%-8s%s @ %" PRIu64 "\n", "shard", stk_sample_shard(s), stk_sample_offset(s));
    for (uint32_t k = 0; (name = stk_sample_field(s, k, &data, &len)); k++)
        show_field(c, name, data, len);
    return CLI_OK;
}

/* ---- a field ---- */

static int no_field(const stk_sample *s, const char *field)
{
    char have[256] = "";
    const char *name;
    size_t n = 0;

    for (uint32_t k = 0; (name = stk_sample_field(s, k, NULL, NULL)) && n < sizeof have; k++)
        n += (size_t)snprintf(have + n, sizeof have - n, "%s%s", k ? ", " : "", name);
    return cli_usage("the sample has no field '%s': it has %s", field, have);
}

/* A terminal would obey these bytes: 1, said why.  Files and pipes get them as they are. */
static int refuses(const cat *c)
{
    return isatty(fileno(c->to)) && !cli_value(c->a, "raw") &&
           cli_usage("these bytes are not plain text, and a terminal may act on them: give a file "
                     "(-o FILE) or a pipe, or say --raw");
}

static int raw_field(cat *c, const stk_sample *s, const char *field)
{
    const void *data;
    const char *name;
    size_t len;
    uint32_t k = 0;
    shown v;

    while ((name = stk_sample_field(s, k, &data, &len)) && strcmp(name, field))
        k++;
    if (!name)
        return no_field(s, field);
    if (cli_value(c->a, "raw")) {
        fwrite(data ? data : "", 1, len, c->to);
        return CLI_OK;
    }
    v = show_of(c, name, data ? data : "", data ? len : 0);
    if (!cli_is_harmless(v.data, v.len) && refuses(c))
        return CLI_USAGE;
    fwrite(v.data, 1, v.len, c->to);
    free(v.text);
    return CLI_OK;
}

static int decoded_field(cat *c, const char *field, const char *kind)
{
    const char *given = cli_value(c->a, "chain");
    char chain[1024];
    stk_output out = { "value", chain };
    stk_loader_options o = {
        .size = sizeof o, .outputs = &out, .n_outputs = 1, .num_workers = STK_NONE, .prefetch = 1
    };
    cli_writer writer = cli_writer_of(kind);
    stk_loader *l = NULL;
    stk_batch *b = NULL;
    stk_tensor t;
    stk_error err;
    int rc, code = CLI_OK;

    if (writer && refuses(c))
        return CLI_USAGE;
    if (!writer)
        return cli_usage("--decode is one of: png ppm npy, not \"%s\"", kind);
    if (strchr(field, '"') || snprintf(chain, sizeof chain, "from(\"%s\") | %s", field,
                                       given ? given : "image | to(u8, hwc)") >= (int)sizeof chain)
        return cli_usage("this field can't stand in a chain");
    rc = stk_loader_open(&l, &c->ds, 1, &o, &err);
    if (rc == 0)
        rc = stk_loader_seek(l, 0, c->id, &err);
    if (rc == 0)
        rc = stk_loader_next(l, &b, -1, &err);
    if (rc == 0 && stk_batch_row(b, 0, 0, &t) == 0)
        code = writer(c->to, &t);
    stk_batch_release(&b);
    stk_loader_close(&l);
    return rc < 0 ? cli_failed(&err) : code;
}

/* ---- the command ---- */

static int show(cat *c)
{
    const char *const *word = cli_word_list(c->a), *kind = cli_value(c->a, "decode");
    const char *field = cli_words(c->a) > 2 ? word[2] : NULL;
    stk_sample *s = NULL;
    stk_error err;
    int rc;

    if (find_sample(c, word[1]))
        return CLI_USAGE;
    if (kind && field)
        return decoded_field(c, field, kind);
    if (kind)
        return cli_usage("--decode needs a field: stoker cat %s %s FIELD --decode %s", word[0],
                         word[1], kind);
    if (stk_dataset_read(c->ds, c->id, &s, &err) < 0)
        return cli_failed(&err);
    rc = field ? raw_field(c, s, field) : show_sample(c, s);
    stk_sample_close(&s);
    return rc;
}

static int run(const cli_args *a)
{
    stk_dataset_options o = { .size = sizeof o, .log = cli_log };
    const char *path = cli_value(a, "output");
    cat c = { .a = a, .to = stdout };
    cli_file file = { 0 };
    stk_error err;
    int rc = 0;

    if (stk_dataset_open(&c.ds, cli_word_list(a), 1, &o, &err) < 0)
        return cli_failed(&err);
    if (path && (rc = cli_file_open(&file, path)) == 0)
        c.to = file.to;
    if (rc == 0)
        rc = show(&c);
    stk_dataset_unref(&c.ds);
    if (path && cli_file_close(&file, rc == CLI_OK))
        rc = CLI_FAILED;
    return rc;
}

const cli_command cli_cat = {
    .name = "cat",
    .synopsis = "DATA KEY [FIELD] [options]",
    .summary = "show a sample, a field, or what a chain makes of it",
    .about = "Without FIELD it shows the sample: where it is, its fields and how they begin.  "
             "With FIELD it\n"
             "writes the field's bytes as they are, and columns of numbers as text unless --raw is "
             "given\n"
             "(a terminal gets only plain text without it);\n"
             "with --decode it runs a chain over them first, "
             "as a loader\n"
             "would (what is random is drawn as for seed 0).  KEY may also be the sample's number.",
    .examples =
        "  stoker cat data/ 000123 jpg -o photo.jpg\n"
        "  stoker cat data/ 123 jpg --decode png --chain 'image | resize(256)' -o small.png\n",
    .options = options,
    .min_words = 2,
    .max_words = 3,
    .run = run,
};
