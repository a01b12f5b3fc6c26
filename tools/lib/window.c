// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: reading through the windows.
 *
 * This is the protocol of <lsmem/lsmem.h>: a sequence lock that uses the handle word as its
 * sequence number.
 *
 *	word (acquire) -> header -> bytes -> fence -> word again
 *
 * The kernel writes an entry before it exchanges the handle word for one that points to the entry.
 * It uses a seglet again only after it has exchanged all words that pointed into the seglet.  So
 * the bytes have not changed if the word has not changed.  Each exchange increments the tag of the
 * word, so a word that points to the same place again is different.
 *
 * Until the word has been loaded again, the bytes that were read can have any value: an old entry,
 * half of a new one, another object, or what a broken kernel wrote.  Therefore this file checks
 * each index against its bounds before it uses the index, follows a chain of seglets for no more
 * steps than the largest payload needs, and uses a header only if its key holds the handle.
 * A value that does not fit is not an error here: the library makes a system call and returns its
 * result.
 *
 * All loads from windows are atomic and relaxed, because other CPUs may write there at the same
 * time.  The exception are payloads, see copy_from_window().  Payloads and headers are aligned to
 * LSMEM_ALIGN, seglets to more.
 *
 * lsm_read() waits for cache misses most of its time.  A processor overlaps the misses of loads
 * that do not depend on each other, if they lie within some hundred instructions.  So the number
 * of instructions counts more than their kind.
 */
#include <errno.h>

#include "internal.h"

/* Most attempts to read an object that is changing, before lsm_read() makes a system call */
#define TRIES	64

/* lsm_read_many(): objects whose cache misses overlap, and bytes of each that are fetched ahead */
#define MANY		32
#define MANY_BYTES	512u
#define ASKED		64	/* reads in one system call: the kernel has so many fetched together */

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
 * @seglet: in and out: number of the seglet, always below nr_seglets
 *
 * Return: false, with @seglet unchanged: no next seglet, or a number that is out of bounds.
 */
bool lsm_next_seglet(const struct lsm *lsm, uint32_t *seglet)
{
	uint32_t next = __atomic_load_n(&lsm->seglet_table[*seglet].next, __ATOMIC_RELAXED);

	if (next >= lsm->nr_seglets)
		return false;
	*seglet = next;
	return true;
}

/*
 * Reads the header at @offset of @place->seglet, which is followed there by at least
 * LSMEM_LONG_BYTES bytes.  False: not the header of object @handle.
 */
static bool read_header(const struct lsm *lsm, uint64_t handle, uint32_t offset,
			struct lsm_place *place)
{
	const uint8_t *header = lsm_seglet_bytes(lsm, place->seglet) + offset;
	union {
		uint64_t words[LSMEM_LONG_BYTES / sizeof(uint64_t)];
		struct lsmem_entry entry;
	} copy;
	uint32_t i;

	for (i = 0; i < LSMEM_LONG_BYTES / sizeof(uint64_t); i++)
		copy.words[i] = load64(header + i * sizeof(uint64_t));
	if (lsmem_entry_handle(&copy.entry) != handle || !lsmem_entry_sane(&copy.entry) ||
	    lsmem_entry_type(&copy.entry) != LSMEM_TYPE_OBJECT)
		return false;
	place->offset = offset + lsmem_entry_header(&copy.entry);
	place->object = (struct lsm_object){
		.version = lsmem_entry_version(&copy.entry),
		.length = lsmem_entry_length(&copy.entry),
		.table = lsmem_entry_table(&copy.entry),
	};
	return true;
}

/**
 * lsm_place_unchanged() - check that the object has not moved or changed since lsm_locate()
 * @lsm: store
 * @handle: as in lsm_locate()
 * @place: from lsm_locate()
 *
 * Return: true: all bytes that were read since lsm_locate() belong to the object.
 */
bool lsm_place_unchanged(const struct lsm *lsm, uint64_t handle, const struct lsm_place *place)
{
	/*
	 * The CPU must not reorder the loads before this with the load of the word: an acquire
	 * fence orders earlier loads before all later loads and stores.
	 */
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
	return load64(&lsm->handles[lsmem_handle_index(handle)].word) == place->word;
}

#if !defined(__SANITIZE_THREAD__)
/*
 * memcpy() from memory that other CPUs may write at the same time.  C11 calls this a data race.
 * The asm statements hide from the compiler what @from points to and what @to holds afterwards, so
 * the compiler cannot assume stable bytes.  If bytes were torn, the word has changed, and the
 * caller drops all of them.  They hide @length too: GCC copies few bytes by "rep movs" if it knows
 * that they are few, and that is slow.
 */
static inline void copy_from_window(uint8_t *to, const uint8_t *from, uint32_t length)
{
	__asm__ volatile("" : "+r"(from), "+r"(length) : : "memory");
	memcpy(to, from, length);
	__asm__ volatile("" : : : "memory");
}
#else
/* The same with atomic loads: ThreadSanitizer reports a memcpy(). */
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
	/* Entries are padded to LSMEM_ALIGN, so the whole word can be read. */
	if (length) {
		words[0] = load64(from);
		memcpy(to, words, length);
	}
}
#endif

/**
 * lsm_place_copy() - copy payload bytes
 * @lsm: store
 * @place: from lsm_locate()
 * @data: out; right if lsm_place_unchanged() afterwards
 * @length: bytes
 * @offset: of the first; both lie in the object
 *
 * Return: false: the chain of seglets is too short.
 */
bool lsm_place_copy(const struct lsm *lsm, const struct lsm_place *place, void *data, uint32_t length,
		    uint32_t offset)
{
	uint32_t seglet = place->seglet, piece;
	uint8_t *to = data;

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
 * @handle: handle from the caller; any value is allowed
 * @place: out if LSM_FOUND: valid if lsm_place_unchanged() afterwards, or if a view epoch was
 *	published before the call
 *
 * Return: LSM_FOUND; LSM_CHANGING: try again; LSM_ASK: make a system call.
 */
enum lsm_locate lsm_locate(const struct lsm *lsm, uint64_t handle, struct lsm_place *place)
{
	const struct lsmem_handle *entry;
	uint64_t position, seglet;
	uint32_t offset;

	if (lsmem_handle_index(handle) >= lsm->nr_handles)
		return LSM_ASK;
	entry = &lsm->handles[lsmem_handle_index(handle)];
	/*
	 * Acquire: header and bytes are loaded after the word.  Pairs with the exchange in
	 * the kernel, which comes after the kernel has written the entry.
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
	position = place->word & ((1ull << LSMEM_POSITION_BITS) - 1);
	seglet = position >> LSMEM_POSITION_OFFSET_BITS;
	offset = (uint32_t)(position & ((1u << LSMEM_POSITION_OFFSET_BITS) - 1)) * LSMEM_ALIGN;
	if (seglet >= lsm->nr_seglets || offset > LSMEM_SEGLET_BYTES - LSMEM_LONG_BYTES)
		return LSM_ASK;
	place->seglet = (uint32_t)seglet;
	if (read_header(lsm, handle, offset, place))
		return LSM_FOUND;
	return lsm_place_unchanged(lsm, handle, place) ? LSM_ASK : LSM_CHANGING;
}

/**
 * lsm_identify() - find out which object has an index
 * @lsm: store, its windows usable
 * @index: below nr_handles
 * @handle: out if LSM_FOUND: of the object
 * @place: out if LSM_FOUND, as of lsm_locate()
 *
 * The entry is fetched from memory as far as lsm_locate() fetches it.
 *
 * Return: LSM_FOUND; LSM_CHANGING: try again; LSM_ASK: there is none; LSM_COLD.
 */
enum lsm_locate lsm_identify(const struct lsm *lsm, uint64_t index, uint64_t *handle,
			     struct lsm_place *place)
{
	uint64_t word = __atomic_load_n(&lsm->handles[index].word, __ATOMIC_ACQUIRE);
	uint64_t at = (word & ((1ull << LSMEM_POSITION_BITS) - 1)) * LSMEM_ALIGN;

	switch (word >> LSMEM_WORD_STATE_SHIFT & ((1u << LSMEM_WORD_STATE_BITS) - 1)) {
	case LSMEM_WORD_LIVE:
		break;
	case LSMEM_WORD_BUSY:
		return LSM_CHANGING;
	case LSMEM_WORD_COLD:
		return LSM_COLD;
	default:
		return LSM_ASK;
	}
	if (at > lsm->last_header)
		return LSM_ASK;
	*handle = load_le64(lsm->seglets + at + offsetof(struct lsmem_entry, key)) &
		  ~LSMEM_KEY_INTERVAL_MASK;
	/* The key is a guess until lsm_locate() has found it, at an unchanged word. */
	if (lsmem_handle_index(*handle) != index || lsm_locate(lsm, *handle, place) != LSM_FOUND ||
	    !lsm_place_unchanged(lsm, *handle, place))
		return LSM_CHANGING;
	return LSM_FOUND;
}

/* One attempt.  LSM_FOUND: *ret is the result of lsm_read(). */
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
	whole = lsm_place_copy(lsm, &place, data, bytes, offset);
	if (!lsm_place_unchanged(lsm, handle, &place))
		return LSM_CHANGING;
	if (!whole)
		return LSM_ASK;
	lsm_touch(lsm, lsmem_handle_index(handle));
	if (object)
		*object = place.object;
	*ret = bytes;
	return LSM_FOUND;
}

/*
 * Reads for all cases that the windows can serve: objects in several seglets, @offset, repeated
 * attempts.  Returns false if the kernel has to be asked.
 */
static __attribute__((noinline)) bool
read_fully(struct lsm *lsm, uint64_t handle, void *data, size_t length, uint32_t offset,
	   struct lsm_object *object, ssize_t *ret)
{
	enum lsm_locate found;
	int tries;

	for (tries = 0; lsm_windows_here(lsm) && tries < TRIES; tries++) {
		found = read_once(lsm, handle, data, length, offset, object, ret);
		if (found == LSM_FOUND)
			return true;
		if (found == LSM_ASK)
			break;
		lsm_relax();
	}
	return false;
}

/*
 * The common case: all of a short entry that lies in one seglet.  Everything is checked that
 * lsm_locate() checks, with as few instructions as possible: the processor then overlaps the cache
 * misses of more reads.  Of a long entry the copy takes most of the time, so these are left to
 * read_fully().
 */
static inline __attribute__((always_inline)) bool
read_quickly(const struct lsm *lsm, uint64_t handle, void *data, size_t length,
	     struct lsm_object *object, ssize_t *ret)
{
	uint64_t index = lsmem_handle_index(handle), word, at, key, version;
	const uint8_t *header;
	uint32_t meta;
	size_t bytes;

	/* Without windows nr_handles is 0. */
	if (index >= lsm->nr_handles || !__atomic_load_n(lsm->alive, __ATOMIC_RELAXED))
		return false;
	word = __atomic_load_n(&lsm->handles[index].word, __ATOMIC_ACQUIRE);	/* as lsm_locate() */
	at = (word & ((1ull << LSMEM_POSITION_BITS) - 1)) * LSMEM_ALIGN;
	if ((word >> LSMEM_WORD_STATE_SHIFT & ((1u << LSMEM_WORD_STATE_BITS) - 1)) !=
	    LSMEM_WORD_LIVE || at > lsm->last_header)
		return false;
	header = lsm->seglets + at;
	/* The word that holds crc and meta, meta in the upper half. */
	meta = (uint32_t)(load_le64(header) >> 32);
	bytes = LSMEM_META_GET(meta, LENGTH);
	key = load_le64(header + offsetof(struct lsmem_entry, key)) & ~LSMEM_KEY_INTERVAL_MASK;
	/* @bytes of a long entry is 0, and then @bytes - 1 is no less than any @length. */
	if (key != handle || bytes - 1 >= length ||
	    at % LSMEM_SEGLET_BYTES + LSMEM_SHORT_BYTES + bytes > LSMEM_SEGLET_BYTES)
		return false;
	version = load_le64(header + offsetof(struct lsmem_entry, version)) &
		  ((1ull << LSMEM_ENTRY_VERSION_BITS) - 1);
	copy_from_window(data, header + LSMEM_SHORT_BYTES, (uint32_t)bytes);
	__atomic_thread_fence(__ATOMIC_ACQUIRE);	/* as lsm_place_unchanged() */
	if (load64(&lsm->handles[index].word) != word)
		return false;
	lsm_touch(lsm, index);
	if (object)
		*object = (struct lsm_object){ .version = version, .length = (uint32_t)bytes,
					       .table = LSMEM_META_GET(meta, TABLE) };
	*ret = (ssize_t)bytes;
	return true;
}

ssize_t lsm_read(struct lsm *lsm, uint64_t handle, void *data, size_t length,
		 uint32_t offset, struct lsm_object *object)
{
	ssize_t ret;

	if (!offset && read_quickly(lsm, handle, data, length, object, &ret))
		return ret;
	if (length > LSMEM_OBJECT_MAX)
		length = LSMEM_OBJECT_MAX;
	if (read_fully(lsm, handle, data, length, offset, object, &ret))
		return ret;
	return lsm_kernel_read(lsm, handle, data, (uint32_t)length, offset, object);
}

/* ---- Many objects ------------------------------------------------------- */

/* Fetches the handle words of @ops into the cache. */
static void fetch_words(const struct lsm *lsm, struct lsmem_op *ops, size_t stride, size_t nr)
{
	size_t i;

	for (i = 0; i < nr; i++) {
		uint64_t index = lsmem_handle_index(lsm_op_at(ops, stride, i)->handle);

		if (index < lsm->nr_handles)
			__builtin_prefetch(&lsm->handles[index]);
	}
}

/*
 * Fetches the entries that the words point to, as far as they will be copied.  The words can be any:
 * a prefetch of an address that is not mapped does nothing.
 */
static void fetch_entries(const struct lsm *lsm, struct lsmem_op *ops, size_t stride, size_t nr)
{
	size_t i;

	for (i = 0; i < nr; i++) {
		const struct lsmem_op *op = lsm_op_at(ops, stride, i);
		uint64_t word, seglet, index = lsmem_handle_index(op->handle);
		uint32_t length = op->length, from, to;
		const uint8_t *bytes;

		if (index >= lsm->nr_handles)
			continue;
		word = load64(&lsm->handles[index].word) & ((1ull << LSMEM_POSITION_BITS) - 1);
		seglet = word >> LSMEM_POSITION_OFFSET_BITS;
		if (seglet >= lsm->nr_seglets)
			continue;
		bytes = lsm_seglet_bytes(lsm, (uint32_t)seglet);
		from = (uint32_t)(word & ((1u << LSMEM_POSITION_OFFSET_BITS) - 1)) * LSMEM_ALIGN;
		to = from + LSMEM_SHORT_BYTES + (length < MANY_BYTES ? length : MANY_BYTES);
		for (from -= from % LSM_CACHE_LINE; from < to; from += LSM_CACHE_LINE)
			__builtin_prefetch(bytes + from);
	}
}

/* Reads from the windows. Returns false if the kernel has to be asked. */
static bool read_op(struct lsm *lsm, struct lsmem_op *op)
{
	void *data = (void *)(uintptr_t)op->data;
	struct lsm_object object;
	ssize_t ret;

	if (op->size < LSMEM_OP_SIZE_VER0 || op->op != LSMEM_OP_READ || op->flags) {
		op->result = -EINVAL;
		return true;
	}
	if (op->length > LSMEM_OBJECT_MAX)
		op->length = LSMEM_OBJECT_MAX;
	if ((op->offset || !read_quickly(lsm, op->handle, data, op->length, &object, &ret)) &&
	    !read_fully(lsm, op->handle, data, op->length, op->offset, &object, &ret))
		return false;
	op->result = 0;
	op->length = (uint32_t)ret;
	op->version = object.version;
	op->table = object.table;
	op->object_length = object.length;
	return true;
}

/* What both the caller and the library know of an operation. */
static size_t op_bytes(const struct lsmem_op *op)
{
	return op->size < sizeof(*op) ? op->size : sizeof(*op);
}

/* Asks the kernel for reads: together, so that objects on backups are fetched at the same time. */
static void ask_many(struct lsm *lsm, struct lsmem_op *const *asked, size_t nr)
{
	struct lsmem_op ops[ASKED];
	size_t done, i;
	int ret;

	for (i = 0; i < nr; i++) {
		memset(&ops[i], 0, sizeof(ops[i]));
		memcpy(&ops[i], asked[i], op_bytes(asked[i]));
		ops[i].size = sizeof(ops[i]);
		ops[i].result = 0;
	}
	ret = lsm_vector(lsm, ops, nr, 0, &done);
	for (i = 0; i < nr; i++) {
		if (i >= done)
			ops[i].result = ret;
		ops[i].size = asked[i]->size;
		memcpy(asked[i], &ops[i], op_bytes(asked[i]));
	}
}

void lsm_read_many(struct lsm *lsm, struct lsmem_op *ops, size_t nr)
{
	bool here = lsm_windows_here(lsm);
	struct lsmem_op *asked[ASKED];
	size_t i, j, now, next, waiting = 0, stride = nr ? lsm_op_stride(ops) : 0;
	struct lsmem_op *op;

	if (here)
		fetch_words(lsm, ops, stride, nr < MANY ? nr : MANY);
	for (i = 0; i < nr; i += now) {
		now = nr - i < MANY ? nr - i : MANY;
		next = nr - i - now < MANY ? nr - i - now : MANY;
		if (here) {
			fetch_entries(lsm, lsm_op_at(ops, stride, i), stride, now);
			fetch_words(lsm, lsm_op_at(ops, stride, i + now), stride, next);
		}
		for (j = 0; j < now; j++) {
			op = lsm_op_at(ops, stride, i + j);
			if (read_op(lsm, op))
				continue;
			asked[waiting++] = op;
			if (waiting == ASKED) {
				ask_many(lsm, asked, waiting);
				waiting = 0;
			}
		}
	}
	if (waiting)
		ask_many(lsm, asked, waiting);
}

/* Is an object in memory, as far as the windows tell? */
static bool in_memory(const struct lsm *lsm, uint64_t handle)
{
	uint64_t index = lsmem_handle_index(handle);

	return index < lsm->nr_handles &&
	       (load64(&lsm->handles[index].word) >> LSMEM_WORD_STATE_SHIFT &
		((1u << LSMEM_WORD_STATE_BITS) - 1)) != LSMEM_WORD_COLD;
}

int lsm_prefetch(struct lsm *lsm, const uint64_t *handles, size_t nr)
{
	bool here = lsm_windows_here(lsm);
	struct lsmem_op ops[ASKED];
	size_t i, asked = 0;
	int ret = 0;

	for (i = 0; i < nr && !ret; i++) {
		if (!here || !in_memory(lsm, handles[i])) {
			ops[asked] = lsm_op_read(handles[i], NULL, 0, 0);
			ops[asked++].flags = LSMEM_OPF_NOWAIT;
		}
		if (asked == ASKED || (asked && i + 1 == nr)) {
			ret = lsm_vector(lsm, ops, asked, 0, NULL);
			asked = 0;
		}
	}
	return ret;
}
