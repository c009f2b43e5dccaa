/* SPDX-License-Identifier: Apache-2.0 */
/* plugin.c - an op of one's own, used in a chain by its name.
 *     cc plugin.c $(pkg-config --cflags --libs stoker) -o plugin && ./plugin 'train-*.tar'
 *
 * border(n) cuts n pixels off every side.  Like all ops it moves no pixel: it turns the view, and
 * the one sampling pass reads it.  Prints the mean of every picture of the first batch. */
#include <stdio.h>
#include <stoker/plugin.h>
#include <stoker/stoker.h>

struct border {
    uint32_t n;
};

static int border_plan(void *state, const stk_args *args, stk_spec *spec, stk_error *err)
{
    struct border *b = state;
    int64_t n = stk_args_i64(args, "n");

    if (spec->kind != STK_KIND_IMAGE)
        return stk_fail(err, STK_EINVAL, "border comes after image");
    if (n < 0 || n > 10000)
        return stk_fail(err, STK_EINVAL, "border: n=%ld is not in 0..10000", (long)n);
    b->n = (uint32_t)n;
    spec->picture.width = spec->picture.height = 0; /* what comes out differs by sample */
    return 0;
}

static void border_draw(const void *state, stk_rng *rng, stk_view *v)
{
    uint32_t n = ((const struct border *)state)->n;

    (void)rng;
    if (v->vis_w <= 2 * n || v->vis_h <= 2 * n)
        v->refused = "it is smaller than its border";
    else
        stk_view_crop(v, (int32_t)n, (int32_t)n, v->vis_w - 2 * n, v->vis_h - 2 * n);
}

static const stk_arg border_args[] = {
    { .name = "n", .type = STK_ARG_INT, .fallback = "8", .help = "pixels cut off every side" },
    { .name = NULL },
};

static const stk_op border = { .abi = STK_PLUGIN_ABI,
                               .size = sizeof(stk_op),
                               .name = "border",
                               .help = "cut the same number of pixels off every side",
                               .args = border_args,
                               .state_size = sizeof(struct border),
                               .plan = border_plan,
                               .draw = border_draw,
                               .can = STK_OP_VIEW };

int main(int argc, char **argv)
{
    const stk_output out[] = { { "image", "from(jpg) | image | border(4) | resize((32, 32))" } };
    stk_loader_options o = { .size = sizeof o, .batch_size = 8, .outputs = out, .n_outputs = 1 };
    stk_dataset *ds = NULL;
    stk_loader *loader = NULL;
    stk_batch *b = NULL;
    stk_tensor t;
    stk_error err;
    int rc = stk_plugin_add(STK_PLUGIN_OP, &border, &err);

    if (rc == 0)
        rc = stk_dataset_open(&ds, (const char *const *)argv + 1, (size_t)argc - 1, NULL, &err);
    if (rc == 0)
        rc = stk_loader_open(&loader, &ds, 1, &o, &err);
    if (rc == 0)
        rc = stk_loader_next(loader, &b, -1, &err);
    for (uint32_t row = 0; rc == 0 && row < stk_batch_rows(b); row++) {
        double sum = 0;

        rc = stk_batch_row(b, 0, row, &t);
        for (int i = 0; rc == 0 && i < 3 * 32 * 32; i++)
            sum += ((const unsigned char *)t.data)[i];
        printf("%.2f\n", sum / (3 * 32 * 32));
    }
    if (rc < 0)
        fprintf(stderr, "%s: %s\n", stk_code_name(err.code), err.message);
    stk_batch_release(&b);
    stk_loader_close(&loader);
    stk_dataset_unref(&ds);
    return rc < 0;
}
