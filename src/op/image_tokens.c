/* SPDX-License-Identifier: Apache-2.0 */
/* image_tokens - a row of tokens has one placeholder for each picture of its sample; it becomes as
 * many as the picture has merged patches.  What is given is the tokens, the labels (pictures are
 * ignored in them), or positions of three axes (M-RoPE).  Labels that have no placeholders, as -100
 * stands where their pictures are, take the places from the row of tokens. */
#include "op/image_tokens.h"

#include <string.h>

uint32_t stk_image_tokens_places(const stk_image_tokens *t, const int64_t *ids, size_t n,
                                 uint32_t *out, uint32_t most)
{
    uint32_t seen = 0;

    for (size_t i = 0; i < n; i++) {
        if (ids[i] != t->token)
            continue;
        if (seen < most)
            out[seen] = (uint32_t)i;
        seen++;
    }
    return seen;
}

int stk_image_tokens_count(const stk_image_tokens *t, const int64_t *ids, size_t n,
                           const stk_grids *g, uint64_t *out, stk_error *err)
{
    uint32_t seen = g->place ? g->n : stk_image_tokens_places(t, ids, n, NULL, 0);
    uint32_t merge = t->merge;

    *out = n;
    if (seen != g->n)
        return stk_fail(err, STK_ECORRUPT,
                        "image_tokens: the row has %u placeholders (%" PRId64
                        ") and its sample %u pictures in output %s%s",
                        seen, t->token, g->n, t->pictures,
                        seen || t->give == STK_GIVE_IDS
                            ? ""
                            : "; labels without them follow the tokens of the same length, in an "
                              "output of their own");
    for (uint32_t k = 0; k < g->n; k++) {
        if (g->at[k][0] % merge || g->at[k][1] % merge)
            return stk_fail(err, STK_ECORRUPT,
                            "image_tokens: picture %u has %ux%u patches, which %u do not merge: "
                            "give resize_to_patches merge=%u",
                            k, g->at[k][0], g->at[k][1], merge, merge);
        *out += (uint64_t)(g->at[k][0] / merge) * (g->at[k][1] / merge) - 1;
    }
    return 0;
}

int64_t *stk_mrope_grid(stk_mrope_rule rule, const uint32_t grid[3], int64_t *p, int64_t *out)
{
    uint32_t most = grid[1] > grid[2] ? grid[1] : grid[2];

    for (uint32_t t = 0; t < grid[0]; t++)
        for (uint32_t y = 0; y < grid[1]; y++)
            for (uint32_t x = 0; x < grid[2]; x++, out += 3) {
                out[0] = *p + t;
                out[1] = *p + y;
                out[2] = *p + x;
            }
    if (rule == STK_MROPE_TORCHTITAN && grid[0] > most)
        most = grid[0];
    *p += most;
    return out;
}

static int64_t *put_picture(const stk_image_tokens *t, const uint32_t at[2], int64_t *p,
                            int64_t *out)
{
    const uint32_t grid[3] = { 1, at[0] / t->merge, at[1] / t->merge };
    uint64_t n = (uint64_t)grid[1] * grid[2];

    if (t->give == STK_GIVE_MROPE)
        return stk_mrope_grid(t->rule, grid, p, out);
    while (n--)
        *out++ = t->give == STK_GIVE_IDS ? t->token : t->ignore;
    return out;
}

void stk_image_tokens_put(const stk_image_tokens *t, const int64_t *ids, size_t n,
                          const stk_grids *g, int64_t *out)
{
    uint32_t k = 0;
    int64_t p = 0;

    for (size_t i = 0; i < n; i++) {
        if (g->place ? k < g->n && g->place[k] == i : ids[i] == t->token) {
            out = put_picture(t, g->at[k++], &p, out);
        } else if (t->give == STK_GIVE_MROPE) {
            for (int axis = 0; axis < 3; axis++)
                *out++ = p;
            p++;
        } else {
            *out++ = ids[i];
        }
    }
}

static int word(const stk_args *args, const char *name, const char *const *words, int *out,
                stk_error *err)
{
    const char *given = stk_args_str(args, name);

    for (*out = 0; words[*out]; ++*out)
        if (given && !strcmp(given, words[*out]))
            return 0;
    return stk_fail(err, STK_EINVAL, "image_tokens: %s is %s, %s%s%s, not %s", name, words[0],
                    words[1], words[2] ? " or " : "", words[2] ? words[2] : "",
                    given ? given : "a number");
}

static int arguments(stk_image_tokens *t, const stk_args *args, stk_error *err)
{
    static const char *const gives[] = { "tokens", "labels", "positions", NULL }, *const rules[] = {
        "transformers", "torchtitan", NULL
    };
    const char *name = stk_args_str(args, "pictures");
    int64_t merge = stk_args_i64(args, "merge");
    int give, rule;

    if (!name || strlen(name) >= sizeof t->pictures)
        return stk_fail(err, STK_EINVAL,
                        "image_tokens: the first argument names the output that "
                        "has the pictures");
    memcpy(t->pictures, name, strlen(name) + 1);
    if (merge < 1 || merge > 16)
        return stk_fail(err, STK_EINVAL, "image_tokens: merge=%" PRId64 " is not in 1..16", merge);
    STK_TRY(word(args, "give", gives, &give, err));
    STK_TRY(word(args, "rule", rules, &rule, err));
    t->merge = (uint32_t)merge;
    t->token = stk_args_i64(args, "token");
    t->ignore = stk_args_i64(args, "ignore");
    t->give = (stk_token_give)give;
    t->rule = (stk_mrope_rule)rule;
    return 0;
}

static int image_tokens_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    stk_image_tokens *t = state;
    int list = spec->array ? spec->ndim == 1 : spec->out == STK_OUT_LIST;

    STK_TRY(arguments(t, args, err));
    if (spec->kind != STK_KIND_VALUE || !list || spec->sound || spec->dtype_fixed)
        return stk_fail(err, STK_EINVAL,
                        "image_tokens works on a row of tokens: put `ints` or `npy` before it, and "
                        "to() after it");
    if (spec->max_len)
        return stk_fail(err, STK_EINVAL,
                        "image_tokens: truncate() before it would cut placeholders apart from "
                        "their pictures: leave it out");
    *spec = (stk_spec){ .kind = STK_KIND_VALUE, .out = STK_OUT_LIST, .dtype = STK_I64, .ndim = 1 };
    if (t->give == STK_GIVE_MROPE) {
        spec->ndim = 2;
        spec->shape[1] = 3;
    }
    return 0;
}

/* The row does it, which knows its pictures: row/row_pictures.c. */
static int never(const void *state, stk_value_row *row, stk_rng *rng, stk_scratch *scratch,
                 stk_error *err)
{
    (void)state;
    (void)row;
    (void)rng;
    (void)scratch;
    return stk_fail(err, STK_ENOTSUP,
                    "image_tokens works in a loader, beside the output that it names");
}

static const stk_arg image_tokens_args[] = {
    { "pictures", STK_ARG_NAME, NULL, "the output of `pictures` and `patches`" },
    { "token", STK_ARG_INT, "151655", "the placeholder of a picture" },
    { "merge", STK_ARG_INT, "2", "patches of a side that become one token" },
    { "give", STK_ARG_NAME, "tokens", "tokens, labels, or positions of three axes (M-RoPE)" },
    { "rule", STK_ARG_NAME, "transformers", "of positions: transformers or torchtitan" },
    { "ignore", STK_ARG_INT, "-100", "what labels have for a picture" },
    { 0 },
};

const stk_op stk_op_image_tokens = { .abi = STK_PLUGIN_ABI,
                                     .size = sizeof(stk_op),
                                     .name = "image_tokens",
                                     .help = "as many tokens for each picture as it has patches",
                                     .args = image_tokens_args,
                                     .state_size = sizeof(stk_image_tokens),
                                     .plan = image_tokens_plan,
                                     .value = never,
                                     .can = STK_OP_COUNTS };
