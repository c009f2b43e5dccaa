/* SPDX-License-Identifier: Apache-2.0 */
/* sanitized.h - tests only: which sanitizer this build has, and what a test does less of there.
 *
 * TEST_ASAN, TEST_TSAN: 1 in such a build.  TEST_SANITIZED: 1 in either.
 * TEST_SHARE(all, some): how often to repeat.  The plain build does all, and so proves the values.
 * A sanitizer looks at what memory and which locks the code uses: it needs every path, not every
 * repetition, and takes 3 to 20 times as long for each.
 *
 * TEST_FORKS_BESIDE_THREADS: 0 where a test must not fork while other threads of its process
 * allocate.  A child gets the memory of its parent as it is, locks too, but only the thread that
 * called fork().  glibc takes the locks of malloc before a fork and gives them back after it.  The
 * allocator of gcc 12's and clang 14's ASan does not: if another thread was in it, the child waits
 * without end in its own first malloc (in SizeClassAllocator64::GetFromAllocator).  That is a
 * limit of this run-time library, not of what is tested.  The plain and the TSan build run these
 * forks; the ASan build leaves them out. */
#ifndef STOKER_TESTS_SANITIZED_H
#define STOKER_TESTS_SANITIZED_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TEST_ASAN 1
#endif
#if __has_feature(thread_sanitizer)
#define TEST_TSAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) && !defined(TEST_ASAN)
#define TEST_ASAN 1
#endif
#if defined(__SANITIZE_THREAD__) && !defined(TEST_TSAN)
#define TEST_TSAN 1
#endif
#ifndef TEST_ASAN
#define TEST_ASAN 0
#endif
#ifndef TEST_TSAN
#define TEST_TSAN 0
#endif
#define TEST_SANITIZED (TEST_ASAN || TEST_TSAN)
#define TEST_SHARE(all, some) (TEST_SANITIZED ? (some) : (all))
#define TEST_FORKS_BESIDE_THREADS (!TEST_ASAN)

#endif
