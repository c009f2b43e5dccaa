/* SPDX-License-Identifier: Apache-2.0 */
/* bench_trace.c - stoker bench --trace FILE, and what the timeline of a page is drawn from. */
#include <stdlib.h>

#include "bench.h"

#define PAGE_SPANS 8192 /* of a thread: a page shows the last moments */

static int put_text(void *file, const char *text, size_t len)
{
    return fwrite(text, 1, len, file) != len;
}

/* The file is opened before anything runs: that it can't be written is said at once. */
int bench_trace_begin(const cli_args *a, stk_loader *l, cli_file *file)
{
    const char *path = cli_value(a, "trace");
    stk_error err;
    int rc;

    *file = (cli_file){ 0 };
    if (!path && !cli_value(a, "html"))
        return 0;
    rc = path ? cli_file_open(file, path) : 0;
    if (rc == 0 && stk_loader_trace(l, path ? STK_SPANS : PAGE_SPANS, &err) < 0 && path)
        rc = cli_failed(&err); /* a page does without */
    if (rc)
        cli_file_close(file, 0);
    return rc;
}

int bench_trace_end(stk_loader *l, cli_file *file, int keep, bench_result *r)
{
    uint64_t most = stk_loader_spans(l, NULL, 0);
    stk_error err;
    int rc = 0;

    r->span = most ? malloc(most * sizeof *r->span) : NULL;
    r->n_spans = r->span ? stk_loader_spans(l, r->span, most) : 0;
    if (file->to && keep && stk_loader_trace_text(l, put_text, file->to, &err) < 0)
        rc = CLI_FAILED; /* closing says why */
    if (file->path && cli_file_close(file, keep))
        rc = CLI_FAILED;
    return rc;
}
