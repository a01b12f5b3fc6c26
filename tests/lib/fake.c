// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/* A store without a kernel.  See fake.h. */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fake.h"

/* Map memory whose end is followed by a page without access. */
static void *window(size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t length = (bytes + page - 1) / page * page;
	uint8_t *memory;

	memory = mmap(NULL, length + page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED || mprotect(memory, length, PROT_READ | PROT_WRITE))
		abort();
	return memory + length - bytes;
}

static void unwindow(void *address, size_t bytes)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	uint8_t *start = (uint8_t *)((uintptr_t)address & ~(uintptr_t)(page - 1));

	munmap(start, (bytes + page - 1) / page * page + page);
}

bool fake_bytes_right(const void *data, uint64_t handle, uint64_t version, uint32_t from,
		      uint32_t length)
{
	const uint8_t *bytes = data;
	uint32_t i;

	for (i = 0; i < length; i++) {
		if (bytes[i] != content_byte(handle, version, from + i))
			return false;
	}
	return true;
}

uint64_t fake_handle(const struct fake *fake, uint32_t index)
{
	return lsmem_handle_make(index, fake->objects[index].generation);
}

/* The stores race with readers on purpose; they are atomic, as they are in the kernel. */
static void store64(void *to, uint64_t value)
{
	__atomic_store_n((uint64_t *)to, value, __ATOMIC_RELAXED);
}

/* Take a free seglet that no view can see any more. Returns false if there is none. */
static bool get_seglet(struct fake *fake, uint32_t *found)
{
	uint64_t oldest = ~0ull, epoch;
	uint32_t i;

	for (i = 0; i < FAKE_SLOTS; i++) {
		epoch = __atomic_load_n(&fake->slots[i].epoch, __ATOMIC_ACQUIRE);
		if (epoch != LSMEM_SLOT_IDLE && epoch < oldest)
			oldest = epoch;
	}
	for (i = 0; i < FAKE_SEGLETS; i++) {
		if (fake->retired_at[i] != ~0ull && fake->retired_at[i] < oldest) {
			fake->retired_at[i] = ~0ull;
			*found = i;
			return true;
		}
	}
	return false;
}

void fake_set_word(struct fake *fake, uint32_t index, uint32_t state, uint64_t position)
{
	struct lsmem_handle *entry = &fake->handles[index];
	uint64_t tag = (entry->word >> LSMEM_WORD_TAG_SHIFT) + 1;

	__atomic_exchange_n(&entry->word, tag << LSMEM_WORD_TAG_SHIFT |
			    (uint64_t)state << LSMEM_WORD_STATE_SHIFT | position,
			    __ATOMIC_SEQ_CST);
}

/* Retire the seglets of a replaced object: views that have begun so far may still read them. */
static void retire(struct fake *fake, const struct fake_object *object)
{
	uint64_t epoch = __atomic_fetch_add(&fake->info.epoch, 1, __ATOMIC_SEQ_CST);
	uint32_t i;

	for (i = 0; i < object->nr_seglets; i++)
		fake->retired_at[object->seglets[i]] = epoch;
}

static void write_entry(struct fake *fake, const struct fake_object *object, uint64_t handle)
{
	uint32_t at = object->offset, i, j, piece;
	uint64_t words[LSMEM_LONG_BYTES / 8], word;
	struct lsmem_entry header;
	uint8_t *seglet;

	/* Intervals and home blocks of all kinds: they share words with handle and version. */
	header = lsmem_entry_make(LSMEM_TYPE_OBJECT, object->length, handle, object->version,
				  (uint32_t)object->version % 32, object->table,
				  (uint32_t)object->version * 37 % 2048 * LSMEM_BLOCK);
	header.crc = __cpu_to_le32(~0u);
	memcpy(words, &header, sizeof(words));
	seglet = fake->seglets + (size_t)object->seglets[0] * LSMEM_SEGLET_BYTES;
	for (i = 0; i < lsmem_entry_header(&header) / 8; i++)
		store64(seglet + at + 8 * i, words[i]);
	at += lsmem_entry_header(&header);
	for (i = 0; i < object->length; i += 8) {
		piece = object->length - i < 8 ? object->length - i : 8;
		word = 0;
		for (j = 0; j < piece; j++)
			((uint8_t *)&word)[j] = content_byte(handle, object->version, i + j);
		seglet = fake->seglets + (size_t)object->seglets[at / LSMEM_SEGLET_BYTES] *
			LSMEM_SEGLET_BYTES;
		store64(seglet + at % LSMEM_SEGLET_BYTES, word);
		at += 8;
	}
}

/**
 * fake_put() - write an object, or move it, to other seglets
 * @fake: store
 * @index: of the handle, below FAKE_HANDLES
 * @generation: of the handle; if it differs from the present one, this is another object
 * @version: of the object; decides its bytes
 * @length: of the object, in bytes
 * @offset: of its header in the first seglet, a multiple of 8
 *
 * Return: false, without a change, if there are too few free seglets that no view can see.
 */
bool fake_put(struct fake *fake, uint32_t index, uint32_t generation, uint64_t version,
	      uint32_t length, uint32_t offset)
{
	struct fake_object object = { .version = version, .generation = generation,
				      .length = length, .table = index, .offset = offset,
				      .live = true };
	struct fake_object *old = &fake->objects[index];
	uint32_t end = offset + lsmem_entry_size(length), i;
	struct fake_object had = *old;

	while (object.nr_seglets * LSMEM_SEGLET_BYTES < end) {
		if (!get_seglet(fake, &object.seglets[object.nr_seglets])) {
			for (i = 0; i < object.nr_seglets; i++)
				fake->retired_at[object.seglets[i]] = 0;
			return false;
		}
		object.nr_seglets++;
	}
	for (i = 0; i < object.nr_seglets; i++)
		__atomic_store_n(&fake->seglet_table[object.seglets[i]].next,
				 i + 1 < object.nr_seglets ? object.seglets[i + 1] : LSMEM_NO_SEGLET,
				 __ATOMIC_RELAXED);
	if (!had.live || had.generation != generation)
		fake_set_word(fake, index, LSMEM_WORD_BUSY, generation);
	write_entry(fake, &object, lsmem_handle_make(index, generation));
	*old = object;
	fake_set_word(fake, index, LSMEM_WORD_LIVE,
		      (uint64_t)object.seglets[0] << LSMEM_POSITION_OFFSET_BITS |
		      offset / LSMEM_ALIGN);
	if (had.live)
		retire(fake, &had);
	return true;
}

void fake_free(struct fake *fake, uint32_t index)
{
	struct fake_object had = fake->objects[index];

	fake_set_word(fake, index, LSMEM_WORD_BUSY, had.generation);
	fake_set_word(fake, index, LSMEM_WORD_FREE, had.generation);
	fake->objects[index].live = false;
	retire(fake, &had);
}

/* LSMEM_IOC_READ, for tests in which no object moves at the same time. */
static int call_read(struct fake *fake, struct lsmem_op *op)
{
	uint64_t index = lsmem_handle_index(op->handle);
	struct fake_object *object;
	uint32_t i;

	if (index >= FAKE_HANDLES)
		return -ENOENT;
	object = &fake->objects[index];
	if (!object->live || object->generation != lsmem_handle_generation(op->handle))
		return -ESTALE;
	if (op->offset > object->length)
		return -EINVAL;
	op->object_length = object->length;
	op->version = object->version;
	op->table = object->table;
	if (op->length > object->length - op->offset)
		op->length = object->length - op->offset;
	for (i = 0; i < op->length; i++)
		((uint8_t *)(uintptr_t)op->data)[i] = content_byte(op->handle, object->version,
								op->offset + i);
	return 0;
}

static int call_vector(struct fake *fake, struct lsmem_vector *vector)
{
	uint32_t i;

	if (vector->nr > FAKE_VECTOR_MAX || !vector->nr)
		return -EINVAL;
	for (i = 0; i < vector->nr; i++) {
		struct lsmem_op *op = (void *)(uintptr_t)(vector->ops + i * vector->stride);

		if (fake->vector_stop && i == fake->vector_stop) {
			vector->nr = i;
			return -EINTR;
		}
		op->result = op->op == LSMEM_OP_READ ? call_read(fake, op) : -EOPNOTSUPP;
	}
	return 0;
}

static int call(struct lsm *lsm, unsigned long request, void *argument)
{
	struct fake *fake = lsm->private;
	struct lsmem_op *op = argument;

	atomic_fetch_add(&fake->calls, 1);
	switch (request) {
	case LSMEM_IOC_READ:
		return fake->refuse ? fake->refuse : call_read(fake, op);
	case LSMEM_IOC_VECTOR:
		return fake->refuse ? fake->refuse : call_vector(fake, argument);
	case LSMEM_IOC_ALLOC:
	case LSMEM_IOC_REPLACE:
	case LSMEM_IOC_FREE:
		/* Return the inputs in the output fields, so that a test can check them. */
		if (request == LSMEM_IOC_ALLOC)
			op->handle = (uint64_t)op->table << 32 | op->flags;
		op->version += 1;
		return fake->refuse;
	case LSMEM_IOC_QUERY:
	case LSMEM_IOC_STAT:
		/* All of what the caller has room for */
		memset(&op->flags, 0xff, op->size - offsetof(struct lsmem_op, flags));
		return fake->refuse;
	default:
		return -ENOTTY;
	}
}

struct fake *fake_new(void)
{
	struct fake *fake = calloc(1, sizeof(*fake));
	struct lsm_memory memory = { 0 };	/* not tiered: no touched bits */
	uint32_t i;

	if (!fake)
		abort();
	fake->info.magic = LSMEM_INFO_MAGIC;
	fake->info.abi = LSMEM_ABI;
	fake->info.compat = LSMEM_ABI;
	fake->info.length = sizeof(fake->info);
	fake->info.kind = LSMEM_KIND_OBJECT;
	fake->info.nr_seglets = FAKE_SEGLETS;
	fake->info.nr_handles = FAKE_HANDLES;
	fake->info.nr_slots = FAKE_SLOTS;
	fake->info.view_ms = 1000;
	fake->info.seglets.length = FAKE_SEGLETS * LSMEM_SEGLET_BYTES;
	fake->info.seglet_table.length = FAKE_SEGLETS * sizeof(struct lsmem_seglet);
	fake->info.handles.length = FAKE_HANDLES * sizeof(struct lsmem_handle);
	fake->info.slots.length = FAKE_SLOTS * sizeof(struct lsmem_slot);
	fake->info.epoch = 1;
	fake->seglets = window(fake->info.seglets.length);
	fake->seglet_table = window(fake->info.seglet_table.length);
	fake->handles = window(fake->info.handles.length);
	fake->slots = window(fake->info.slots.length);
	for (i = 0; i < FAKE_SEGLETS; i++)
		fake->seglet_table[i].next = LSMEM_NO_SEGLET;
	memory.info = &fake->info;
	memory.epoch = &fake->info.epoch;
	memory.seglets = fake->seglets;
	memory.seglet_table = fake->seglet_table;
	memory.handles = fake->handles;
	memory.slots = fake->slots;
	if (lsm_from_memory(&memory, FAKE_VECTOR_MAX, call, fake, &fake->lsm))
		abort();
	return fake;
}

void fake_delete(struct fake *fake)
{
	lsm_close(fake->lsm);
	unwindow(fake->seglets, fake->info.seglets.length);
	unwindow(fake->seglet_table, fake->info.seglet_table.length);
	unwindow(fake->handles, fake->info.handles.length);
	unwindow(fake->slots, fake->info.slots.length);
	free(fake);
}
