/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/*
 * A store without a kernel: windows in anonymous memory, each with a guard page behind it, and
 * functions that do what the kernel does: they write objects to the windows, move them, and carry
 * out ioctls.  One thread at a time may call the functions that change the store.
 */
#ifndef TESTS_LIB_FAKE_H
#define TESTS_LIB_FAKE_H

#include "../common/content.h"
#include "../common/random.h"
#include "internal.h"

#define FAKE_SEGLETS	96u
#define FAKE_HANDLES	64u
#define FAKE_SLOTS	64u
#define FAKE_VECTOR_MAX	8u

/**
 * struct fake_object - the object of a handle index
 * @version: of the object; content_byte() derives the object's bytes from it
 * @generation: of its handle
 * @length: in bytes
 * @table: of the object
 * @offset: of its header in the first seglet
 * @nr_seglets: entries of @seglets
 * @seglets: the chain of the object's seglets; no other object uses them
 * @live: false if the index is free
 */
struct fake_object {
	uint64_t version;
	uint32_t generation;
	uint32_t length;
	uint32_t table;
	uint32_t offset;
	uint32_t nr_seglets;
	uint32_t seglets[LSM_VIEW_PIECES];
	bool live;
};

struct fake {
	struct lsmem_info info;
	uint8_t *seglets;
	struct lsmem_seglet *seglet_table;
	struct lsmem_handle *handles;
	struct lsmem_slot *slots;
	struct lsm *lsm;
	struct fake_object objects[FAKE_HANDLES];
	uint64_t retired_at[FAKE_SEGLETS];	/* 0: free; ~0: in use; else the view epoch */
	atomic_uint calls;			/* number of ioctls */
	int refuse;				/* negative errno that ioctls return; 0: none */
	uint32_t vector_stop;			/* a vector stops (EINTR) after so many; 0: no */
};

struct fake *fake_new(void);
void fake_delete(struct fake *fake);
uint64_t fake_handle(const struct fake *fake, uint32_t index);
bool fake_put(struct fake *fake, uint32_t index, uint32_t generation, uint64_t version,
	      uint32_t length, uint32_t offset);
void fake_free(struct fake *fake, uint32_t index);
void fake_set_word(struct fake *fake, uint32_t index, uint32_t state, uint64_t position);
bool fake_bytes_right(const void *data, uint64_t handle, uint64_t version, uint32_t from,
		      uint32_t length);

#endif
