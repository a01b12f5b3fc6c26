// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: reading through the windows.
 *
 * The protocol of <lsmem/lsmem.h>, a sequence lock with the handle word for a
 * sequence number:
 *
 *	word (acquire) -> generation -> header -> bytes -> fence -> word again
 *
 * The kernel writes an entry before it exchanges the word for one that points
 * to it, and gives a seglet out again only after the words that pointed there
 * were exchanged.  So while the word has not changed, neither have the bytes;
 * the word's tag grows at each exchange, so a word that came back is seen.
 *
 * Until the word has been looked at again, everything that was read may be
 * anything: an old entry, half of a new one, another object, or what a broken
 * kernel put there.  Therefore each index is held against the bounds before it
 * is used, a chain of seglets is followed for as many steps as a payload can
 * have, and nothing is believed of a header but by its key.  What does not fit
 * is not an error here: the kernel is asked, and what it says is so.
 *
 * All loads from windows are atomic and relaxed, since other CPUs may write
 * there meanwhile: all but those of payloads, see copy_from_window().  Payloads
 * and headers are aligned to LSMEM_ALIGN, seglets to more.
 *
 * Reads that do not wait for each other overlap in the processor, which has room
 * for some hundred instructions while a line comes from memory.  So what counts
 * in lsm_read() is how few there are, more than which.
 */
#include <errno.h>

#include "internal.h"

/* Looks at a changing object before the kernel is asked. */
#define TRIES	64

static uint64_t load64(const void *from)
{
	return __atomic_load_n((const uint64_t *)from, __ATOMIC_RELAXED);
}

static uint64_t load_le64(const void *from)
{
	return __le64_to_cpu(load64(from));
}

/**
 * lsm_next_seglet() - step from a seglet to the next of its segment
 * @lsm: store
 * @seglet: in and out; always below nr_seglets
 *
 * Return: false at the end of the chain, or where it leads out of the store.
 */
bool lsm_next_seglet(const struct lsm *lsm, uint32_t *seglet)
{
	uint32_t next = __atomic_load_n(&lsm->seglet_table[*seglet].next, __ATOMIC_RELAXED);

	if (next >= lsm->nr_seglets)
		return false;
	*seglet = next;
	return true;
}

/* The header at @place->seglet, @offset: is it of object @handle, and how large? */
static bool read_header(const struct lsm *lsm, uint64_t handle, uint32_t offset,
			struct lsm_place *place)
{
	const uint8_t *header = lsm_seglet_bytes(lsm, place->seglet) + offset;
	uint64_t meta = load_le64(header + offsetof(struct lsmem_entry, meta));
	uint32_t length = (uint32_t)LSMEM_META_GET(meta, LENGTH);

	if (load_le64(header + offsetof(struct lsmem_entry, key)) != handle ||
	    LSMEM_META_GET(meta, TYPE) != LSMEM_TYPE_OBJECT ||
	    meta >> (LSMEM_META_TABLE_SHIFT + LSMEM_META_TABLE_BITS) ||
	    !length || length > LSMEM_OBJECT_MAX)
		return false;
	place->offset = offset + LSMEM_ENTRY_BYTES;
	place->object.version = load_le64(header + offsetof(struct lsmem_entry, version));
	place->object.length = length;
	place->object.table = (uint32_t)LSMEM_META_GET(meta, TABLE);
	return true;
}

/**
 * lsm_place_unchanged() - true when what was read since lsm_locate() is of it
 * @lsm: store
 * @handle: as in lsm_locate()
 * @place: from lsm_locate()
 */
bool lsm_place_unchanged(const struct lsm *lsm, uint64_t handle, const struct lsm_place *place)
{
	/*
	 * The loads before may not be done after the load of the word: an
	 * acquire fence orders earlier loads before everything that follows.
	 */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return load64(&lsm->handles[lsmem_handle_index(handle)].word) == place->word;
}

/* lsm_locate(), in the line of lsm_read(). */
static inline __attribute__((always_inline)) enum lsm_locate
locate(const struct lsm *lsm, uint64_t handle, struct lsm_place *place)
{
	const struct lsmem_handle *entry;
	uint64_t position, info, seglet;
	uint32_t offset;

	if (lsmem_handle_index(handle) >= lsm->nr_handles)
		return LSM_ASK;
	entry = &lsm->handles[lsmem_handle_index(handle)];
	/*
	 * Acquire: info, header and bytes are loaded after the word.  Pairs with
	 * the kernel's exchange, which comes after the entry was written.
	 */
	place->word = __atomic_load_n(&entry->word, __ATOMIC_ACQUIRE);
	switch (place->word >> LSMEM_WORD_STATE_SHIFT & ((1u << LSMEM_WORD_STATE_BITS) - 1)) {
	case LSMEM_WORD_LIVE:
		break;
	case LSMEM_WORD_BUSY:
		return LSM_CHANGING;
	default:
		return LSM_ASK;
	}
	info = load64(&entry->info);
	if ((info & LSMEM_GENERATION_MAX) != lsmem_handle_generation(handle))
		return LSM_ASK;
	position = place->word & ((1ull << LSMEM_POSITION_BITS) - 1);
	seglet = position >> LSMEM_POSITION_OFFSET_BITS;
	offset = (uint32_t)(position & ((1u << LSMEM_POSITION_OFFSET_BITS) - 1)) * LSMEM_ALIGN;
	if (seglet >= lsm->nr_seglets || offset > LSMEM_SEGLET_BYTES - LSMEM_ENTRY_BYTES)
		return LSM_ASK;
	place->seglet = (uint32_t)seglet;
	if (read_header(lsm, handle, offset, place))
		return LSM_FOUND;
	return lsm_place_unchanged(lsm, handle, place) ? LSM_ASK : LSM_CHANGING;
}

#if !defined(__SANITIZE_THREAD__)
/*
 * memcpy() of what others may write meanwhile.  In C11 that is a data race; but
 * the library's memcpy() is no code of this compiler's, which knows nothing of
 * what @from points to, nor of what @to has afterwards.  Bytes that were torn
 * are thrown away with all others when the word has changed.
 */
static inline void copy_from_window(uint8_t *to, const uint8_t *from, uint32_t length)
{
	__asm__ volatile("" : "+r"(from) : : "memory");
	memcpy(to, from, length);
	__asm__ volatile("" : : : "memory");
}
#else
/* The same for who watches each access. */
static void copy_from_window(uint8_t *to, const uint8_t *from, uint32_t length)
{
	uint64_t words[4];

	while (length && (uintptr_t)from % sizeof(uint64_t)) {
		*to++ = __atomic_load_n(from++, __ATOMIC_RELAXED);
		length--;
	}
	while (length >= sizeof(words)) {
		words[0] = load64(from);
		words[1] = load64(from + 8);
		words[2] = load64(from + 16);
		words[3] = load64(from + 24);
		memcpy(to, words, sizeof(words));
		to += sizeof(words);
		from += sizeof(words);
		length -= sizeof(words);
	}
	while (length >= sizeof(uint64_t)) {
		words[0] = load64(from);
		memcpy(to, words, sizeof(uint64_t));
		to += sizeof(uint64_t);
		from += sizeof(uint64_t);
		length -= sizeof(uint64_t);
	}
	/* Entries are padded to LSMEM_ALIGN: the word may be read whole. */
	if (length) {
		words[0] = load64(from);
		memcpy(to, words, length);
	}
}
#endif

/* Copy @length payload bytes from @offset on.  False: the chain has an end. */
static bool copy_payload(const struct lsm *lsm, const struct lsm_place *place, uint8_t *to,
			 uint32_t length, uint32_t offset)
{
	uint32_t seglet = place->seglet, piece;

	offset += place->offset;
	/* At most LSMEM_OBJECT_MAX / LSMEM_SEGLET_BYTES + 1 steps in all. */
	while (length) {
		while (offset >= LSMEM_SEGLET_BYTES) {
			if (!lsm_next_seglet(lsm, &seglet))
				return false;
			offset -= LSMEM_SEGLET_BYTES;
		}
		piece = LSMEM_SEGLET_BYTES - offset;
		if (piece > length)
			piece = length;
		copy_from_window(to, lsm_seglet_bytes(lsm, seglet) + offset, piece);
		to += piece;
		offset += piece;
		length -= piece;
	}
	return true;
}

/**
 * lsm_locate() - find an object by its handle
 * @lsm: store, its windows usable
 * @handle: anything
 * @place: out if LSM_FOUND: true if the word has not changed, or if an epoch
 *	was published before
 *
 * Return: LSM_FOUND, LSM_CHANGING: try again, LSM_ASK: the kernel knows.
 */
enum lsm_locate lsm_locate(const struct lsm *lsm, uint64_t handle, struct lsm_place *place)
{
	return locate(lsm, handle, place);
}

/* One look.  Found: *ret is what lsm_read() returns. */
static enum lsm_locate read_once(const struct lsm *lsm, uint64_t handle, void *data,
				 size_t length, uint32_t offset, struct lsm_object *object,
				 ssize_t *ret)
{
	enum lsm_locate found;
	struct lsm_place place;
	uint32_t bytes;
	bool whole;

	found = lsm_locate(lsm, handle, &place);
	if (found != LSM_FOUND)
		return found;
	if (offset > place.object.length)
		return lsm_place_unchanged(lsm, handle, &place) ? LSM_ASK : LSM_CHANGING;
	bytes = place.object.length - offset;
	if (bytes > length)
		bytes = (uint32_t)length;
	whole = copy_payload(lsm, &place, data, bytes, offset);
	if (!lsm_place_unchanged(lsm, handle, &place))
		return LSM_CHANGING;
	if (!whole)
		return LSM_ASK;
	if (object)
		*object = place.object;
	*ret = bytes;
	return LSM_FOUND;
}

/* Whatever it takes. */
static __attribute__((noinline)) ssize_t
read_fully(struct lsm *lsm, uint64_t handle, void *data, size_t length, uint32_t offset,
	   struct lsm_object *object)
{
	enum lsm_locate found;
	ssize_t ret;
	int tries;

	if (length > LSMEM_OBJECT_MAX)
		length = LSMEM_OBJECT_MAX;
	for (tries = 0; lsm_windows_here(lsm) && tries < TRIES; tries++) {
		found = read_once(lsm, handle, data, length, offset, object, &ret);
		if (found == LSM_FOUND)
			return ret;
		if (found == LSM_ASK)
			break;
		lsm_relax();
	}
	return lsm_kernel_read(lsm, handle, data, (uint32_t)length, offset, object);
}

/* The common case by itself: all of an object that lies in one seglet. */
ssize_t lsm_read(struct lsm *lsm, uint64_t handle, void *data, size_t length,
		 uint32_t offset, struct lsm_object *object)
{
	struct lsm_place place;

	if (lsm_windows_here(lsm) && !offset && locate(lsm, handle, &place) == LSM_FOUND &&
	    place.object.length <= length &&
	    place.offset + place.object.length <= LSMEM_SEGLET_BYTES) {
		copy_from_window(data, lsm_seglet_bytes(lsm, place.seglet) + place.offset,
				 place.object.length);
		if (lsm_place_unchanged(lsm, handle, &place)) {
			if (object)
				*object = place.object;
			return place.object.length;
		}
	}
	return read_fully(lsm, handle, data, length, offset, object);
}
