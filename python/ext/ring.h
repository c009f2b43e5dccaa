/* SPDX-License-Identifier: Apache-2.0 */
/* ring.h - memory that worker processes and their parent share: slots of one memfd.
 *
 * One process owns the ring: it takes slots and gives them back, and tells workers by number which
 * one to fill.  A memfd has no name, so nothing stays in /dev/shm when a process is killed.  Slots
 * are sparse: a slot may grow up to RING_ROOM bytes, and only the pages that were written to exist.
 * Pages of a slot that comes back are used again, so that batches are not made of fresh zeroed
 * memory each time.
 *
 * No Python in here.  Thread: any, for all functions but open and close. */
#ifndef STOKER_EXT_RING_H
#define STOKER_EXT_RING_H

#include <stddef.h>
#include <stdint.h>

#define RING_ROOM ((size_t)16 << 30) /* of a slot, less where address space is limited */
#define RING_LEAST ((size_t)64 << 20)
#define RING_DATA 65536 /* of a slot: before it are its head and short messages */
#define RING_SLOTS 65536

typedef struct ring ring;

typedef struct ring_message { /* a message in the head of a slot */
    uint32_t state;           /* meaning is up to the writer; 0: there is no message */
    uint64_t at, len;         /* range of the slot that belongs to it */
} ring_message;

/* fd -1: makes a memfd, which the ring closes; else uses one that another process made.  room 0: as
 * much as possible.  NULL: errno says why. */
ring *ring_open(int fd, size_t room);
void ring_ref(ring *r);
void ring_unref(ring *r); /* the last one unmaps all slots */
int ring_fd(const ring *r);
size_t ring_room(const ring *r);

/* The memory of a slot, mapped at first use; NULL: errno says why. */
uint8_t *ring_slot(ring *r, uint32_t number);
/* For the owner: takes a free slot, the one that was given back last; RING_SLOTS: errno says
 * why. */
uint32_t ring_take(ring *r);
void ring_give(ring *r, uint32_t number);
uint32_t ring_taken(ring *r); /* slots that are out */

/* What was written to the slot before say() is visible after a hear() that returns its message. */
void ring_say(uint8_t *slot, const ring_message *m);
void ring_hear(const uint8_t *slot, ring_message *out);

/* Fills in the 624 words of a Mersenne Twister that belong to an address. */
void ring_words(uint64_t address, uint32_t words[624]);
uint64_t ring_hash(uint64_t a, uint64_t b, uint64_t c);

#endif
