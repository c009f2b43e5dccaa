/* SPDX-License-Identifier: Apache-2.0 */
/* doctor.h - between cmd_doctor.c and doctor_child.c. */
#ifndef STOKER_CLI_DOCTOR_H
#define STOKER_CLI_DOCTOR_H

/* Run a command whose Python watches its loaders, say what it saw, and answer the command's exit
 * status (128 + the signal that ended it). */
int doctor_child(const char *const *command, int json);

#endif
