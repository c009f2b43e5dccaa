/* SPDX-License-Identifier: Apache-2.0 */
/* key_sources.h - the places where keys are looked for, one function each.  credentials.c and the
 * dialects call them.
 *
 * All functions return 0, STK_END (this place has no keys) or an error. */
#ifndef STOKER_STORE_KEY_SOURCES_H
#define STOKER_STORE_KEY_SOURCES_H

#include "store/credentials.h"

typedef struct stk_profile { /* a profile of ~/.aws; texts are "" if it does not set them */
    const char *name;
    int found, sso;
    char id[256], secret[256], token[4096];
    char role_arn[2048], source_profile[128], credential_source[64], session[128],
        external_id[1300];
    char token_file[1024], process[2048];
} stk_profile;

typedef struct stk_role {
    const char *arn, *session, *external_id, *token_file; /* NULL or "": not said */
} stk_role;

void stk_profile_read(const char *name, stk_profile *out);
/* Assumes a role, by a token of web identity or with the keys `base`. */
int stk_keys_of_role(stk_store *s, const stk_role *role, const stk_keys *base, stk_keys *out,
                     stk_error *err);
int stk_keys_of_container(stk_store *s, stk_keys *out, stk_error *err);
int stk_keys_of_instance(stk_store *s, stk_keys *out, stk_error *err);
int stk_keys_of_google(stk_store *s, stk_keys *out, stk_error *err);
int stk_keys_of_process(const char *command, stk_keys *out, stk_error *err);

#endif
