/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.h - watches the loaders of another Python program, for `stoker doctor -- COMMAND`
 * (doctor_child.c).  cmd_doctor.c calls it. */
#ifndef STOKER_CLI_DOCTOR_H
#define STOKER_CLI_DOCTOR_H

/* Runs a command whose Python watches its loaders, prints what it saw, and returns the command's
 * exit status (128 + the signal that ended it). */
int doctor_child(const char *const *command, int json);

#endif
