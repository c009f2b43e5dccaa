/* SPDX-License-Identifier: Apache-2.0 */
/* check_test.c - planted damage is found, all of it and nothing else; exclude takes it out. */
#include <stoker/stoker.h>

#include "index/dataset_model.h"

#include "base/mem.h"

typedef struct seen {
    unsigned shards, samples;
    char last_shard[64], keys[600], why[240];
} seen;

static void note(void *cookie, const stk_bad *b)
{
    seen *s = cookie;

    snprintf(s->last_shard, sizeof s->last_shard, "%s", b->shard);
    snprintf(s->why, sizeof s->why, "%s", b->reason);
    s->shards += !b->key;
    s->samples += b->key != NULL;
    if (b->key)
        snprintf(s->keys + strlen(s->keys), sizeof s->keys - strlen(s->keys), "%.*s ",
                 (int)b->key_len, b->key);
}

static int check_with(const char *url, const stk_check_options *given, seen *s, stk_check_report *r,
                      stk_error *err)
{
    stk_check_options o = given ? *given : (stk_check_options){ .num_workers = 3 };
    const char *urls[] = { url };

    memset(s, 0, sizeof *s);
    *r = (stk_check_report){ .size = sizeof *r };
    o.size = sizeof o;
    o.cache_dir = cache;
    o.bad = note;
    o.bad_cookie = s;
    return stk_check(urls, 1, &o, r, err);
}

static void write_samples(const char *name, const char *const (*f)[3], size_t n)
{
    char path[700], zeros[1024] = { 0 };
    FILE *to;

    snprintf(path, sizeof path, "%s/%s", dir, name);
    to = fopen(path, "wb");
    assert_non_null(to);
    for (size_t i = 0; i < n; i++) {
        char member_name[64];

        snprintf(member_name, sizeof member_name, "%s.%s", f[i][0], f[i][1]);
        member(to, member_name, f[i][2], strlen(f[i][2]));
    }
    fwrite(zeros, 1, sizeof zeros, to);
    assert_int_equal(fclose(to), 0);
}

static const char *const planted[][3] = {
    { "a", "json", "{\"x\": 1}" },
    { "b", "json", "{\"x\": }" },
    { "c", "txt", "fine" },
    { "d", "txt", "\xff\xfe" },
    { "e", "cls", "12" },
    { "f", "cls", "x7" },
    { "g", "bin", "\xff anything" },
    { "h", "jpg", "not a picture" },
    { "i", "meta.json", "[" },
};

static void finds_what_was_planted(void **state)
{
    const stk_output out[] = { { "n", "from(cls) | int" } };
    stk_check_options o = { .num_workers = 1, .outputs = out, .n_outputs = 1 };
    stk_check_report r;
    stk_error err;
    char path[700];
    seen s;

    (void)state;
    write_samples("planted.tar", planted, sizeof planted / sizeof *planted);
    snprintf(path, sizeof path, "%s/planted.tar", dir);
    assert_int_equal(check_with(path, NULL, &s, &r, &err), 0);
    assert_string_equal(s.keys, "b d f h i ");
    assert_int_equal(r.bad_samples, 5);
    assert_int_equal(r.bad_shards, 0);
    assert_int_equal(r.samples, 9);
    assert_non_null(strstr(s.why, "meta.json: "));
    assert_int_equal(check_with(path, &o, &s, &r, &err), 0); /* seven have no such field */
    assert_string_equal(s.keys, "a b c d f g h i ");
    o.outputs = &(stk_output){ "n", "from(nothing) | int" };
    assert_int_equal(check_with(path, &o, &s, &r, &err), STK_EINVAL);
}

static void a_torn_shard_and_one_that_is_gone(void **state)
{
    stk_check_report r;
    stk_error err;
    char path[700], pattern[700];
    seen s;
    set d;

    (void)state;
    set_make(&d, "torn", 4, 300);
    assert_int_equal(check_with(d.pattern, NULL, &s, &r, &err), 0);
    assert_int_equal(r.samples, 1200);
    assert_int_equal(r.bad_samples + r.bad_shards, 0);
    shard_path(&d, 2, path, sizeof path);
    assert_int_equal(truncate(path, 100000), 0);
    assert_int_equal(check_with(d.pattern, NULL, &s, &r, &err), 0);
    assert_int_equal(r.bad_shards, 1);
    assert_int_equal(r.shards, 4);
    assert_int_equal(r.samples, 900);
    assert_string_equal(s.last_shard, "0002.tar");
    snprintf(pattern, sizeof pattern, "%s/{0001..0004}.tar", d.folder);
    assert_int_equal(check_with(pattern, NULL, &s, &r, &err), 0);
    assert_int_equal(r.bad_shards, 2);
    assert_int_equal(r.samples, 600);
    assert_int_equal(check_with(path, NULL, &s, &r, &err), 0);
    assert_int_equal(r.bad_shards, 1);
    assert_int_equal(r.samples, 0);
    snprintf(pattern, sizeof pattern, "%s/*.nothing", d.folder);
    assert_int_equal(check_with(pattern, NULL, &s, &r, &err), STK_ENOTFOUND);
}

/* ---- exclude ---- */

static stk_loader *loader_without(stk_dataset *ds, const char *text, stk_loader_options *o,
                                  stk_error *err)
{
    static const stk_output out[] = { { "x", "from(cls) | int" } };
    char path[700];
    stk_loader *l = NULL;
    FILE *f;

    snprintf(path, sizeof path, "%s/exclude", dir);
    f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
    o->size = sizeof *o;
    o->outputs = out;
    o->n_outputs = 1;
    o->exclude = path;
    (void)!stk_loader_open(&l, &ds, 1, o, err);
    return l;
}

static void out_they_go(void **state)
{
    static const char text[] =
        "{\"shard\": \"0001.tar\", \"key\": \"1-000003\", \"reason\": \"x\"}\n"
        "{\"shard\": \"0000.tar\", \"offset\": 0, \"key\": null}\n"
        "{\"shard\": \"9999.tar\", \"offset\": 0, \"key\": \"other data\"}\r\n"
        "\n0-000049\n"
        "{\"shard\": \"0002.tar\"}";
    uint8_t seen_id[150] = { 0 };
    unsigned rows = 0;
    stk_dataset *ds = NULL;
    stk_error err;
    set d;

    (void)state;
    set_make(&d, "out", 3, 50);
    assert_int_equal(set_open(&d, &ds, &err), 0);
    for (uint32_t rank = 0; rank < 3; rank++) {
        stk_loader_options o = { .batch_size = 7,
                                 .shuffle = STK_SHUFFLE_EXACT,
                                 .seed = 5,
                                 .rank = rank,
                                 .world_size = 3,
                                 .num_workers = 2 };
        stk_loader *l = loader_without(ds, text, &o, &err);
        stk_batch *b = NULL;

        assert_non_null(l);
        assert_int_equal(stk_loader_samples(l), 97);
        while (stk_loader_next(l, &b, -1, &err) == 0) {
            for (uint32_t i = 0; i < stk_batch_rows(b); i++)
                if (stk_batch_valid(b)[i]) {
                    assert_int_equal(seen_id[stk_batch_ids(b)[i]]++, 0);
                    rows++;
                }
            stk_batch_release(&b);
        }
        stk_loader_close(&l);
    }
    assert_int_equal(rows, 97);
    assert_int_equal(seen_id[53] + seen_id[0] + seen_id[49], 0);
    for (int i = 100; i < 150; i++)
        assert_int_equal(seen_id[i], 0);
    stk_dataset_unref(&ds);
}

static void wrong_manifests(void **state)
{
    static const char *const text[][2] = {
        { "{\"shard\": \"0000.tar\", \"offset\": 1, \"key\": \"0-000000x\"}\n", "other data" },
        { "a\n{\"shard\": \n", "line 2 of" },
        { "{\"reason\": \"x\"}\n", "neither a shard nor a key" },
        { "{\"shard\": \"0000.tar\"}\n", "leave no samples" },
    };
    stk_dataset *ds = NULL;
    stk_loader_options o = { 0 };
    stk_error err;
    set d;

    (void)state;
    set_make(&d, "wrong", 1, 10);
    assert_int_equal(set_open(&d, &ds, &err), 0);
    for (size_t i = 0; i < sizeof text / sizeof *text; i++) {
        assert_null(loader_without(ds, text[i][0], &o, &err));
        assert_int_equal(err.code, STK_EINVAL);
        assert_non_null(strstr(err.message, text[i][1]));
    }
    stk_dataset_unref(&ds);
}

static void no_memory(void **state)
{
    stk_check_options o = { .num_workers = 1 };
    stk_check_report r;
    stk_error err;
    char path[700];
    uint64_t n = 0;
    seen s;
    int rc;

    (void)state;
    write_samples("nomem.tar", planted, sizeof planted / sizeof *planted);
    snprintf(path, sizeof path, "%s/nomem.tar", dir);
    do {
        stk_mem_fail_at(++n);
        rc = check_with(path, &o, &s, &r, &err);
        stk_mem_fail_at(0);
        assert_true(rc == 0 || rc == STK_ENOMEM);
    } while (rc < 0);
    print_message("%u allocations in vain\n", (unsigned)n);
    assert_true(n > 30);
    assert_int_equal(r.bad_samples, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(finds_what_was_planted),
        cmocka_unit_test(a_torn_shard_and_one_that_is_gone),
        cmocka_unit_test(out_they_go),
        cmocka_unit_test(wrong_manifests),
        cmocka_unit_test(no_memory),
    };

    return cmocka_run_group_tests(tests, setup, teardown);
}
