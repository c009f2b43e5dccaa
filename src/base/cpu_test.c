/* SPDX-License-Identifier: Apache-2.0 */
/* cpu_test.c - a rank's share of the cores, as torchrun, Open MPI, MPICH and Slurm tell it. */
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cpu.h"

static const char *const names[] = { "LOCAL_WORLD_SIZE",     "OMPI_COMM_WORLD_LOCAL_SIZE",
                                     "MPI_LOCALNRANKS",      "SLURM_STEP_ID",
                                     "SLURM_STEPID",         "SLURM_STEP_TASKS_PER_NODE",
                                     "SLURM_TASKS_PER_NODE", "SLURM_NTASKS_PER_NODE",
                                     "SLURM_CPUS_ON_NODE" };

/* The share with these variables and no others; pairs end with NULL. */
static uint32_t share(const char *const *pairs)
{
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unsetenv(names[i]);
    for (; *pairs; pairs += 2)
        setenv(pairs[0], pairs[1], 1);
    return stk_cpu_share();
}

#define SHARE(...) share((const char *const[]){ __VA_ARGS__, NULL })

static void shares(void **state)
{
    uint32_t all = stk_cpu_count(), half = all / 2 ? all / 2 : 1;
    char cores[16];

    (void)state;
    snprintf(cores, sizeof cores, "%u", all);
    assert_int_equal(share((const char *const[]){ NULL }), all);
    assert_int_equal(SHARE("LOCAL_WORLD_SIZE", "2"), half);
    assert_int_equal(SHARE("LOCAL_WORLD_SIZE", "4000"), 1);
    assert_int_equal(SHARE("LOCAL_WORLD_SIZE", "-2"), all);
    assert_int_equal(SHARE("LOCAL_WORLD_SIZE", "x"), all);
    assert_int_equal(SHARE("SLURM_TASKS_PER_NODE", "2(x3),1"), all); /* no step: alone */
    assert_int_equal(SHARE("SLURM_TASKS_PER_NODE", "2", "SLURM_STEP_ID", "4294967291"), all);
    assert_int_equal(SHARE("SLURM_TASKS_PER_NODE", "2", "SLURM_STEP_ID", "batch"), all);
    assert_int_equal(
        SHARE("SLURM_TASKS_PER_NODE", "2(x3),1", "SLURM_STEP_ID", "0", "SLURM_CPUS_ON_NODE", cores),
        half);
    assert_int_equal(SHARE("SLURM_NTASKS_PER_NODE", "2", "SLURM_STEPID", "3"), half);
    /* the step's own count comes first */
    assert_int_equal(
        SHARE("SLURM_TASKS_PER_NODE", "2", "SLURM_STEP_TASKS_PER_NODE", "1", "SLURM_STEP_ID", "0"),
        all);
    /* -c 8 --cpu-bind: what we may use is ours */
    assert_int_equal(
        SHARE("SLURM_TASKS_PER_NODE", "2", "SLURM_STEP_ID", "0", "SLURM_CPUS_ON_NODE", "4000"),
        all);
}

static void mpi(void **state)
{
    uint32_t all = stk_cpu_count(), half = all / 2 ? all / 2 : 1;
    cpu_set_t was, one;
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    int first = 0;

    (void)state;
    assert_int_equal(sched_getaffinity(0, sizeof was, &was), 0);
    if (CPU_COUNT(&was) == online) {
        assert_int_equal(SHARE("OMPI_COMM_WORLD_LOCAL_SIZE", "2"), half);
        assert_int_equal(SHARE("MPI_LOCALNRANKS", "2"), half);
    }
    while (!CPU_ISSET(first, &was))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    assert_int_equal(SHARE("OMPI_COMM_WORLD_LOCAL_SIZE", "2"), 1);
    assert_int_equal(sched_setaffinity(0, sizeof was, &was), 0);
}

static void lists_of_cores(void **state)
{
    uint8_t mask[16];

    (void)state;
    assert_int_equal(stk_cpu_list("0-3,8\n", mask, 16), 5);
    assert_int_equal(mask[3] + mask[8], 2);
    assert_int_equal(mask[4] + mask[9], 0);
    assert_int_equal(stk_cpu_list("14-99999999999", mask, 16), 2);
    assert_int_equal(stk_cpu_list("1,1,0-1", mask, 16), 2);
    assert_int_equal(stk_cpu_list("", mask, 16), 0);
    assert_int_equal(stk_cpu_list("-5", mask, 16), 0);
    assert_int_equal(stk_cpu_bind(-1, 1), 0);
    assert_int_equal(stk_cpu_bind(12345, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(shares), cmocka_unit_test(mpi),
                                        cmocka_unit_test(lists_of_cores) };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
