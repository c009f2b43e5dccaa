/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_ledger - any bytes as ledger files: they end, in an error or after steps that are within
 * what the head says.  A first byte cuts the rest into up to four files; odd ones get sound
 * checksums, so that what is after them is reached too. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/hash.h"
#include "fuzz.h"
#include "ledger/ledger_model.h"

#define MAX_SIZE (1u << 16)

static void mend(uint8_t *p, size_t size)
{
    size_t at = sizeof(ldg_head);
    ldg_head h;
    ldg_step s;

    if (size < at)
        return;
    memcpy(&h, p, sizeof h);
    h.crc = 0;
    h.crc = stk_crc32c(0, &h, sizeof h);
    memcpy(p, &h, sizeof h);
    for (size_t len; h.id_bytes <= 8 && at + sizeof s <= size; at += len) {
        memcpy(&s, p + at, sizeof s);
        if (s.rows > MAX_SIZE || (len = ldg_step_bytes(s.rows, h.id_bytes)) > size - at)
            return;
        s.crc = 0;
        memcpy(p + at, &s, sizeof s);
        s.crc = stk_crc32c(0, p + at, len);
        memcpy(p + at, &s, sizeof s);
    }
}

static int file_of(const uint8_t *data, size_t size, int whole)
{
    static uint8_t copy[MAX_SIZE];
    int fd = memfd_create("ledger", MFD_CLOEXEC);

    FUZZ_CHECK(fd >= 0);
    memcpy(copy, data, size);
    if (whole)
        mend(copy, size);
    FUZZ_CHECK(write(fd, copy, size) == (ssize_t)size);
    return fd;
}

static void read_all(stk_ledger *l)
{
    stk_ledger_step s = { .size = sizeof s };
    stk_ledger_file f = { .size = sizeof f };
    stk_error err;

    stk_ledger_file_at(l, 0, &f);
    while (stk_ledger_next(l, &s, &err) == 0) {
        FUZZ_CHECK(s.rows && s.rank < s.world_size);
        for (uint32_t i = 0; i < s.rows; i++)
            FUZZ_CHECK(s.ids[i] < f.data.samples && s.valid[i] <= 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = { "a", "b", "c", "d" };
    size_t n = size ? data[0] % 4 + 1 : 0;
    stk_ledger *l = NULL;
    int fd[4], rc;

    if (!n || size > MAX_SIZE)
        return 0;
    FUZZ_CHECK(stk_ledger_new(&l, "", NULL) == 0);
    rc = 0;
    for (size_t i = 0; i < n; i++) {
        size_t from = 1 + i * (size - 1) / n, to = 1 + (i + 1) * (size - 1) / n;

        fd[i] = file_of(data + from, to - from, data[0] & 128);
        if (rc == 0)
            rc = stk_ledger_add(l, names[i], fd[i], NULL);
    }
    if (rc == 0 && l->n && stk_ledger_settle(l, NULL) == 0) {
        read_all(l);
        stk_ledger_range(l, 1, 2);
        read_all(l);
    }
    stk_ledger_close(&l);
    for (size_t i = 0; i < n; i++)
        close(fd[i]);
    return 0;
}
