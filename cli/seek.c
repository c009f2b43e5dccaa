/* SPDX-License-Identifier: Apache-2.0 */
/* seek.c - seek points of JPEGs, videos and sound, as index and pack report them. */
#include "cli.h"

static double percent(uint64_t jpeg_bytes, uint64_t seek_bytes)
{
    return jpeg_bytes ? 100.0 * (double)seek_bytes / (double)jpeg_bytes : 0;
}

void cli_put_seek(uint64_t jpegs, uint64_t without, uint64_t jpeg_bytes, uint64_t seek_bytes)
{
    char many[32], size[16];

    if (!seek_bytes)
        return;
    cli_put(stdout, "; seek points of %s field%s: %s, %.2f %% of their bytes",
            cli_many(many, jpegs), jpegs == 1 ? "" : "s", stk_size_format(size, seek_bytes),
            percent(jpeg_bytes, seek_bytes));
    if (without)
        cli_put(stdout, " (%s without: progressive, damaged or small)", cli_many(many, without));
}

void cli_json_seek(cli_json *j, uint64_t jpegs, uint64_t without, uint64_t jpeg_bytes,
                   uint64_t seek_bytes)
{
    cli_json_count(j, "jpegs", jpegs);
    cli_json_count(j, "jpegs_without_seek_points", without);
    cli_json_count(j, "jpeg_bytes", jpeg_bytes);
    cli_json_count(j, "seek_bytes", seek_bytes);
    cli_json_real(j, "seek_percent", percent(jpeg_bytes, seek_bytes));
}

int cli_seek_progress(void *bar, uint64_t done, uint64_t total)
{
    char a[32], b[32], note[80];

    snprintf(note, sizeof note, "seek points of %s of %s", cli_many(a, done), cli_many(b, total));
    cli_bar_draw(bar, total ? (double)done / (double)total : 1, note);
    return 0;
}
