/* SPDX-License-Identifier: Apache-2.0 */
/* credentials.h - finds the keys with which requests are signed, as AWS's tools find them.  The
 * HTTP client and the dialects call it.
 *
 * Keys are looked for in this order: arguments (keys, a function, a profile), environment, profile
 * files (keys, roles, a process, single sign-on by the AWS command line), web identity, container,
 * instance metadata.  If there are none, requests are not signed.  Other stores have their own
 * order, in find_keys() of their dialect. */
#ifndef STOKER_STORE_CREDENTIALS_H
#define STOKER_STORE_CREDENTIALS_H

#include "store/store.h"

/* Sets *out to the keys, without waiting; empty keys: there are none.  *turn: number of the look-up
 * that found them.  STK_PENDING: stk_keys_find() must look for them first. */
int stk_keys_peek(stk_store *s, const struct stk_dialect *of, stk_keys *out, uint64_t *turn);
/* Looks for keys, unless that was done since look-up `turn`.  Waits for files, programs and
 * servers. */
int stk_keys_find(stk_store *s, const struct stk_dialect *of, uint64_t turn, stk_error *err);
/* Call when a server refused the keys of look-up `turn`: they are looked for again. */
void stk_keys_stale(stk_store *s, const struct stk_dialect *of, uint64_t turn);

void stk_keys_forked(void); /* call in a forked child: no other thread looks for keys there */

/* ---- for dialects, whose find_keys() asks one place after the other; each function returns 0,
 * STK_END (this place has no keys) or an error ---- */

int stk_keys_of_aws(stk_store *s, stk_keys *out, stk_error *err);
/* The options' keys, with their token or without, then those of the options' function. */
int stk_keys_given(const stk_store *s, int token, stk_keys *out, stk_error *err);
/* Copies keys from texts; NULL: that one is missing. */
int stk_keys_take(stk_keys *out, const char *id, const char *secret, const char *token);

/* A setting of the store's profile in ~/.aws/config, then ~/.aws/credentials; "": it has none. */
void stk_profile_setting(const stk_store *s, const char *name, char *out, size_t size);

/* ---- parts, for tests and fuzzers ---- */

/* The value of `name` in section [section] of an ini file; 1: it is there. */
int stk_ini_find(stk_bytes text, const char *section, const char *name, char *out, size_t size);
/* Keys of a credential endpoint's or process's JSON. */
int stk_keys_from_json(stk_bytes doc, stk_keys *out, stk_error *err);
/* Keys of an answer of STS. */
int stk_keys_from_xml(stk_bytes doc, stk_keys *out, stk_error *err);

#endif
