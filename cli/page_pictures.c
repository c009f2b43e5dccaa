/* SPDX-License-Identifier: Apache-2.0 */
/* page_pictures.c - some pictures before and after their chain, with what was drawn for each.
 *
 * Random numbers are addressed by (seed, epoch, position), so a loader of one sample at a time
 * draws what the real one draws.  The chain is cut before normalize and to, as people can't look at
 * floats; the picture is then fitted into a small square. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <stoker/plugin_loader.h>

#include "page.h"

#define PICTURES 8
#define SIDE "96"
#define MAX_CHAIN 4000

typedef struct told { /* what was drawn for one picture, in words */
    stk_view before;
    uint32_t output;
    size_t n;
    char text[600];
} told;

typedef struct shown {
    stk_output *output; /* those of the loader, and the picture as it is */
    uint32_t n, at;     /* which one is looked at */
    char after[MAX_CHAIN], plain[MAX_CHAIN];
    told told;
} shown;

/* ---- chains ---- */

/* The end of the step that begins at `s`: its bar, or the end of the text. */
static const char *end_of_step(const char *s)
{
    int depth = 0;
    char quote = 0;

    for (; *s && (quote || depth || *s != '|'); s++) {
        if (quote)
            quote = *s == quote ? 0 : quote;
        else if (*s == '"' || *s == '\'')
            quote = *s;
        else
            depth += (*s == '(') - (*s == ')');
    }
    return s;
}

static int is_step(const char *s, const char *name)
{
    size_t n = strlen(name);

    s += strspn(s, " ");
    return !strncmp(s, name, n) &&
           !strchr("abcdefghijklmnopqrstuvwxyz_0123456789", s[n] ? s[n] : ' ');
}

static const char *picture_step(const char *chain)
{
    for (const char *s = chain; *s; s = *end_of_step(s) ? end_of_step(s) + 1 : end_of_step(s))
        if (is_step(s, "image"))
            return s;
    return NULL;
}

/* The chain without normalize and to; what it begins with up to the picture is `plain`. */
static int make_chains(shown *w, const char *chain)
{
    const char *picture = picture_step(chain);
    size_t n = 0;

    if (!picture || strlen(chain) + 100 > MAX_CHAIN)
        return 0;
    for (const char *s = chain, *end; *s; s = *end ? end + 1 : end) {
        end = end_of_step(s);
        if (is_step(s, "normalize") || is_step(s, "to"))
            continue;
        n += (size_t)snprintf(w->after + n, sizeof w->after - n, "%s%.*s", n ? "|" : "",
                              (int)(end - s), s);
    }
    snprintf(w->after + n, sizeof w->after - n, " | letterbox(" SIDE ") | to(u8, hwc)");
    snprintf(w->plain, sizeof w->plain, "%.*s | letterbox(" SIDE ") | to(u8, hwc)",
             (int)(end_of_step(picture) - chain), chain);
    return 1;
}

static int choose(shown *w, const stk_output *given, uint32_t n)
{
    w->output = calloc(n + 1, sizeof *w->output);
    w->n = n + 1;
    if (!w->output)
        return 0;
    memcpy(w->output, given, n * sizeof *given);
    for (w->at = 0; w->at < n; w->at++)
        if (make_chains(w, given[w->at].chain)) {
            w->output[w->at].chain = w->after;
            w->output[n] = (stk_output){ "as it is", w->plain };
            return 1;
        }
    return 0;
}

/* ---- what was drawn ---- */

static void say(told *t, const char *fmt, ...) STK_PRINTF(2, 3);
static void say(told *t, const char *fmt, ...)
{
    va_list args;
    int n;

    va_start(args, fmt);
    n = vsnprintf(t->text + t->n, sizeof t->text - t->n, fmt, args);
    va_end(args);
    t->n = n > 0 && t->n + (size_t)n < sizeof t->text ? t->n + (size_t)n : sizeof t->text - 1;
}

static void say_change(told *t, const stk_view *v)
{
    const stk_view *b = &t->before;
    size_t from = t->n;

    if (memcmp(&v->clip, &b->clip, sizeof v->clip) != 0)
        say(t, " cut to %ux%u at (%u, %u)", v->clip.w, v->clip.h, v->clip.x, v->clip.y);
    if ((v->res_w != b->res_w || v->res_h != b->res_h) &&
        (v->res_w != v->clip.w || v->res_h != v->clip.h))
        say(t, " resized to %ux%u", v->res_w, v->res_h);
    if (v->flip_x != b->flip_x)
        say(t, " mirrored");
    if (v->flip_y != b->flip_y)
        say(t, " flipped top to bottom");
    if (t->n == from)
        say(t, " as it was");
}

static void note(void *cookie, const stk_drawn *d)
{
    told *t = cookie;

    if (d->output != t->output || (d->op && !strcmp(d->op, "letterbox")))
        return;
    if (!d->op) {
        say(t, "%ux%u", d->view->clip.w, d->view->clip.h);
    } else {
        say(t, "; %s:", d->op);
        say_change(t, d->view);
    }
    t->before = *d->view;
}

/* ---- pictures ---- */

/* PNG as text that a page can hold; for free().  NULL: it can't be. */
static char *png_text(const stk_tensor *t)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *png = NULL, *text = NULL, *out;
    size_t len = 0;
    FILE *to = open_memstream(&png, &len);
    int bad = !to || cli_writer_of("png")(to, t);

    if (to && fclose(to) == 0 && !bad)
        out = text = malloc(len / 3 * 4 + 5);
    for (size_t i = 0; text && i < len; i += 3) {
        uint32_t v = 0;

        for (size_t k = 0; k < 3; k++)
            v = v << 8 | (i + k < len ? (unsigned char)png[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            *out++ = i + k > len ? '=' : digit[v >> (18 - 6 * k) & 63];
    }
    if (text)
        *out = 0;
    free(png);
    return text;
}

static void put_picture(page *p, const stk_batch *b, uint32_t output, const char *what)
{
    stk_tensor t;
    char *png = stk_batch_row(b, output, 0, &t) == 0 ? png_text(&t) : NULL;

    if (png)
        fprintf(p->file.to,
                "<img width=\"" SIDE "\" height=\"" SIDE
                "\" alt=\"%s\" src=\"data:image/png;base64,%s\">",
                what, png);
    free(png);
}

static void put_row(page *p, const stk_batch *b, const shown *w)
{
    size_t len;
    const char *key = stk_batch_key(b, 0, &len);
    char name[80];

    snprintf(name, sizeof name, "%.*s",
             (int)(key && len < 79 ? len
                   : key           ? 79
                                   : 0),
             key ? key : "");
    fputs("<figure>", p->file.to);
    put_picture(p, b, w->n - 1, "before");
    fputs(" ", p->file.to);
    put_picture(p, b, w->at, "after");
    page_text(p, "figcaption", name);
    page_text(p, "small", w->told.text);
    fputs("</figure>\n", p->file.to);
}

static int put_pictures(page *p, stk_dataset *ds, stk_loader_options *o, shown *w, stk_error *err)
{
    stk_loader *l = NULL;
    stk_batch *b = NULL;
    int rc = stk_loader_open(&l, &ds, 1, o, err);

    if (rc == 0)
        page_text(p, "h2", "pictures before and after their chain");
    for (int i = 0; i < PICTURES && rc == 0; i++) {
        w->told.n = 0;
        w->told.text[0] = 0;
        rc = stk_loader_next(l, &b, -1, err);
        if (rc == 0)
            put_row(p, b, w);
        stk_batch_release(&b);
    }
    stk_loader_close(&l);
    return rc;
}

/* One sample at a time by this thread, and nothing of what is for whole batches or for a GPU. */
static stk_loader_options options_of(const stk_loader_options *given, const shown *w)
{
    stk_loader_options o = { .size = sizeof o,
                             .batch_size = 1,
                             .num_workers = STK_NONE,
                             .prefetch = 1,
                             .seed = given->seed,
                             .shuffle = given->shuffle,
                             .outputs = w->output,
                             .n_outputs = w->n,
                             .skip = given->skip,
                             .limit = given->limit,
                             .exclude = given->exclude,
                             .repeat = given->repeat,
                             .max_pixels = given->max_pixels,
                             .on_error = given->on_error,
                             .log = cli_log };

    return o;
}

void page_pictures(page *p, const cli_args *a, const stk_output *outputs, uint32_t n)
{
    stk_dataset_options d = { .size = sizeof d,
                              .log = cli_log,
                              .cache_dir = cli_value(a, "cache-dir"),
                              .format = cli_value(a, "format") };
    shown *w = p->on ? calloc(1, sizeof *w) : NULL;
    stk_loader_options given = { .size = sizeof given }, o;
    stk_draw_observer watch = {
        .abi = STK_PLUGIN_ABI, .size = sizeof watch, .name = "page", .drawn = note
    };
    stk_dataset *ds = NULL;
    stk_error err = { 0 };
    int rc = 0;

    if (w && choose(w, outputs, n) && cli_loader_options(a, &given) == 0) {
        w->told.output = w->at;
        watch.cookie = &w->told;
        o = options_of(&given, w);
        o.watch = &watch;
        rc = stk_dataset_open(&ds, cli_word_list(a), cli_words(a), &d, &err);
        if (rc == 0)
            rc = put_pictures(p, ds, &o, w, &err);
        if (rc < 0)
            page_text(p, "p", err.message);
        stk_dataset_unref(&ds);
    }
    if (w)
        free(w->output);
    free(w);
}
