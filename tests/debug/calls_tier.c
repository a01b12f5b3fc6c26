// SPDX-License-Identifier: GPL-2.0
/*
 * Random calls: those of the daemon of a tiered store.  It places what its backups have, takes fetch
 * requests and answers them.  What the backups have follows from the id of a segment, so no process
 * needs to keep it: an answer is right, cut, damaged, garbage, an error, or for another request.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../guest/follower.h"
#include "calls.h"

#define NR(x)		(sizeof(x) / sizeof(*(x)))
#define LOG_ENTRIES	24u
#define LOG_BYTES	(160u << 10)	/* more than the log of any segment */
#define LOG_PAYLOAD	6000u		/* bytes at most: some entries cross blocks */
#define LOG_INDICES	2048u		/* objects have lower handle indices */
#define MOST		256u		/* requests in a call */

/*
 * Make the log of a segment, with zeroes behind it, and list its objects.  @listings may be NULL.
 * Returns the length.
 */
static uint32_t make_log(uint64_t segment, uint32_t generation, uint8_t *log,
			 struct lsmem_directory_entry *listings)
{
	uint64_t random = segment * 0x9e3779b97f4a7c15ull | 1;
	uint8_t uuid[LSMEM_UUID_BYTES];
	uint32_t at = 0, i, salt;

	memset(uuid, 7, sizeof(uuid));	/* of all stores of callers */
	salt = lsmem_segment_salt(uuid, segment, generation);
	memset(log, 0, LOG_BYTES);
	for (i = 0; i < LOG_ENTRIES; i++) {
		uint32_t length = 1 + random_below(&random, random_below(&random, 4) ? 300 : LOG_PAYLOAD);
		uint64_t index = (segment * LOG_ENTRIES + i) % LOG_INDICES;
		struct lsmem_entry e;
		uint8_t *payload;

		at = lsmem_entry_start(at);
		e = lsmem_entry_make(LSMEM_TYPE_OBJECT, length,
				     lsmem_handle_make(index, 1 + segment % 3), 1 + segment % 1000,
				     0, 5, at);
		payload = log + at + lsmem_entry_header(&e);
		memset(payload, (int)(segment + i), length);
		e.crc = lsmem_entry_crc(&e, crc32c(~0u, payload, length), salt);
		memcpy(log + at, &e, lsmem_entry_header(&e));
		if (listings)
			listings[i] = lsmem_entry_listing(&e, at);
		at += lsmem_entry_bytes(&e);
	}
	return at;
}

uint32_t segment_sealed(uint64_t segment)
{
	static __thread uint8_t log[LOG_BYTES];

	return make_log(segment, 1, log, NULL);
}

/* Callers know the handles that were placed. */
static void placed(int store, const struct lsmem_directory_entry *listings, uint32_t nr)
{
	uint32_t i;

	for (i = 0; i < nr && store >= 0; i++)
		(void)pool_put(&shared->store[store].live, __le64_to_cpu(listings[i].key),
			       __le64_to_cpu(listings[i].version));
}

static void taken_back(int store, const struct lsmem_directory_entry *listings, uint32_t nr)
{
	uint32_t i;

	for (i = 0; i < nr && store >= 0; i++)
		pool_update(&shared->store[store].live, __le64_to_cpu(listings[i].key), 0, 0);
}

int segment_place(int fd, uint64_t segment)
{
	static uint8_t log[LOG_BYTES];
	struct lsmem_directory_entry listings[LOG_ENTRIES];
	struct lsmem_placement place = {
		.size = sizeof(place),
		.segment = segment,
		.generation = 1,
		.sealed = make_log(segment, 1, log, listings),
		.entries = (uintptr_t)listings,
		.nr = LOG_ENTRIES,
	};

	if (ioctl(fd, LSMEM_REPL_PLACE, &place))
		return -errno;
	placed(STORE_PLACED, listings, LOG_ENTRIES);
	return 0;
}

/* As pick_fd(): other stores refuse the calls before they look at a field. */
static void pick_tiered(struct making *m)
{
	pick_fd(m, &m->call->gene[0], FD_REPL);
	if (m->store < 0 || !shared->store[m->store].tiered)
		is_wrong(m, 0);
}

/* As pick_tiered(); a store that may be new, if there is a descriptor of one. */
static void pick_new(struct making *m)
{
	struct gene gene = m->call->gene[0];
	uint32_t i;

	for (i = 0; i < FD_SLOTS && how_of(&gene) == VALID; i++, gene.bits++) {
		pick_fd(m, &gene, FD_REPL);
		if (m->store >= STORE_DYNAMIC && shared->store[m->store].tiered)
			return;
	}
	pick_tiered(m);
}

/* ---- Placing ------------------------------------------------------------ */

static void listing_change(struct making *m, const struct gene *gene,
			   struct lsmem_directory_entry *listing)
{
	uint64_t bits = random_next(&m->random);

	switch (how_of(gene)) {
	case VALID:
		return;
	case BOUNDARY:
		listing->meta ^= __cpu_to_le64(1ull << gene->bits % 64);
		break;
	case STALE:
		listing->key ^= __cpu_to_le64(1ull << gene->bits % 64);
		break;
	case FOREIGN:
		listing->version ^= __cpu_to_le64(1ull << gene->bits % 64);
		break;
	default:
		memcpy((uint8_t *)listing + gene->bits % 3 * 8, &bits, sizeof(bits));
	}
	is_wrong(m, 0);
}

long run_place(struct making *m)
{
	static const struct field fields[] = {
		FIELD(lsmem_placement, size, SIZE),
		FIELD(lsmem_placement, flags, FLAGS, .low = LSMEM_PLACEMENT_BACK | LSMEM_PLACEMENT_GONE),
		FIELD(lsmem_placement, reserved, ZERO),
	};
	const struct gene *gene = m->call->gene;
	struct lsmem_directory_entry listings[LOG_ENTRIES];
	struct lsmem_placement place;
	uint8_t *log = m->me->heap + HEAP_DATA, *at;
	long ret;

	pick_new(m);
	m->size = sizeof(place);
	make_fields(m, fields, NR(fields), &gene[2], m->bytes);
	memcpy(&place, m->bytes, sizeof(place));
	if (how_of(&gene[3]) == VALID && gene[3].small % 4)	/* most are placed */
		place.flags = 0;
	/* As run_load(): continue the present segment, or begin the next one. */
	place.segment = gene[5].bits * 0x100000001ull;
	if (how_of(&gene[5]) == VALID && m->store >= 0)
		place.segment = atomic_fetch_add(&shared->store[m->store].segment,
						 gene[5].small % 4 != 0) + 1;
	place.generation = how_of(&gene[6]) == VALID ? 1 : gene[6].bits % 3;
	place.sealed = make_log(place.segment, place.generation, log, listings);
	if (how_of(&gene[7]) != VALID)
		place.sealed = gene[7].bits >> gene[7].small % 32;
	listing_change(m, &gene[8], &listings[gene[8].small % LOG_ENTRIES]);
	at = place_array(m, &gene[9], HEAP_ARRAY, sizeof(listings), false);
	touch_copy(at, listings, sizeof(listings));
	place.entries = (uintptr_t)at;
	place.nr = LOG_ENTRIES - gene[10].small % 2;
	if (how_of(&gene[10]) != VALID)
		place.nr = gene[10].bits % 4 ? gene[10].bits : 0;
	else if (place.flags == LSMEM_PLACEMENT_GONE)
		place.nr = 0;
	memcpy(m->bytes, &place, sizeof(place));
	ret = repl_call(m, LSMEM_REPL_PLACE);
	if (!ret && place.flags == LSMEM_PLACEMENT_BACK)
		taken_back(m->store, listings, place.nr < LOG_ENTRIES ? place.nr : LOG_ENTRIES);
	else if (!ret && !place.flags)
		placed(m->store, listings, place.nr < LOG_ENTRIES ? place.nr : LOG_ENTRIES);
	return ret;
}

/* ---- Fetching ----------------------------------------------------------- */

long run_fetch(struct making *m)
{
	static const struct field fields[] = {
		FIELD(lsmem_fetch, size, SIZE),
		FIELD(lsmem_fetch, flags, ZERO),
		FIELD(lsmem_fetch, nr, NUMBER, .low = 1, .high = MOST, .error = EINVAL),
		FIELD(lsmem_fetch, reserved, ZERO),
	};
	const struct gene *gene = m->call->gene;
	struct caller *me = m->me;
	struct lsmem_fetch fetch;
	uint64_t requests;
	long ret;

	pick_tiered(m);
	m->size = sizeof(fetch);
	make_fields(m, fields, NR(fields), &gene[2], m->bytes);
	requests = (uintptr_t)place_array(m, &gene[6], HEAP_ARRAY, sizeof(me->requests), true);
	memcpy(m->bytes + offsetof(struct lsmem_fetch, requests), &requests, sizeof(requests));
	if (gene[7].how > 250) {
		memset(m->bytes + offsetof(struct lsmem_fetch, nr), 0, sizeof(fetch.nr));
		is_wrong(m, EINVAL);
	}
	ret = repl_call(m, LSMEM_REPL_FETCH);
	if (ret || !touch_copy(&fetch, m->argument, sizeof(fetch)) || !fetch.nr || fetch.nr > MOST ||
	    !touch_copy(me->requests, (void *)(uintptr_t)fetch.requests,
			fetch.nr * sizeof(*me->requests)))
		return ret;
	me->nr_requests = fetch.nr;
	return 0;
}

/* A request of the last FETCH; if there was none, any. */
static struct lsmem_fetch_one some_request(const struct caller *me, const struct gene *gene)
{
	if (me->nr_requests)
		return me->requests[gene->bits % me->nr_requests];
	return (struct lsmem_fetch_one){
		.cookie = (uint64_t)(gene->small % 64) << 32 | gene->bits % LOG_INDICES,
		.segment = 1 + gene->at % 32,
		.generation = 1,
		.block = gene->bits >> 16 & 1,
		.blocks = 1 + gene->small % 4,
	};
}

/* Make the answer to a request in @log. */
static void make_answer(struct making *m, const struct gene *gene, struct lsmem_fill_one *one,
			uint8_t *log)
{
	struct lsmem_fetch_one request = some_request(m->me, gene);
	uint32_t length = make_log(request.segment, request.generation, log, NULL), from, i;

	one->cookie = request.cookie;
	from = request.block * LSMEM_BLOCK < LOG_BYTES ? request.block * LSMEM_BLOCK : 0;
	one->data = (uintptr_t)(log + from);
	one->length = request.blocks * LSMEM_BLOCK;
	if (request.flags & LSMEM_FETCH_SEGMENT)
		one->length = length;
	/* Other threads may have written to where the request was. */
	if (!one->length || one->length > LOG_BYTES - from)
		one->length = LOG_BYTES - from;
	switch (gene->at % 16) {
	case 0:		/* cut, often where an entry begins or ends */
		one->length = gene->small % 4 ? gene->bits % (one->length + 1) & ~7u : gene->small % 64;
		break;
	case 1:		/* damaged */
		log[from + gene->bits % one->length] ^= 1 << gene->small % 8;
		break;
	case 2:
		for (i = 0; i < one->length; i++)
			log[from + i] = (uint8_t)random_next(&m->random);
		break;
	case 3:
		one->result = -(int)(gene->small % 140);
		break;
	case 4:		/* another's cookie, or none's */
		one->cookie ^= 1ull << gene->bits % 64;
		break;
	case 5:
		one->result = (int)gene->bits;
		one->length = gene->bits;
		break;
	case 6:		/* more than was asked for */
		one->length = LOG_BYTES - from;
		break;
	case 7:
		one->data = (uintptr_t)place(m, gene, HEAP_DATA, one->length, false);
		break;
	default:
		break;
	}
}

long run_fill(struct making *m)
{
	static const struct field fields[] = {
		FIELD(lsmem_fill, size, SIZE),
		FIELD(lsmem_fill, flags, ZERO),
		FIELD(lsmem_fill, reserved, ZERO),
	};
	const struct gene *gene = m->call->gene;
	struct lsmem_fill_one ones[8] = { 0 };
	struct lsmem_fill fill;
	uint8_t *at;
	uint32_t i;

	pick_tiered(m);
	m->size = sizeof(fill);
	m->random = gene[5].bits | 1;
	make_fields(m, fields, NR(fields), &gene[2], m->bytes);
	memcpy(&fill, m->bytes, sizeof(fill));
	fill.nr = 1 + gene[5].small % NR(ones);
	for (i = 0; i < fill.nr; i++) {
		struct gene one = gene[8 + i % 8];

		make_answer(m, &one, &ones[i], m->me->heap + HEAP_DATA + i * LOG_BYTES);
	}
	at = place_array(m, &gene[6], HEAP_ARRAY, sizeof(ones), false);
	touch_copy(at, ones, sizeof(ones));
	fill.fills = (uintptr_t)at;
	if (how_of(&gene[5]) != VALID) {
		fill.nr = gene[5].bits % 2 ? 0 : 257 + gene[5].bits;
		is_wrong(m, 0);
	}
	memcpy(m->bytes, &fill, sizeof(fill));
	m->me->nr_requests = gene[7].small % 4 ? 0 : m->me->nr_requests;	/* or answer them again */
	return repl_call(m, LSMEM_REPL_FILL);
}

/* Objects that nothing has asked for, as the backups would have them, or something else; or no more of them. */
long run_bring(struct making *m)
{
	static const struct field fields[] = {
		FIELD(lsmem_bring, size, SIZE),
		FIELD(lsmem_bring, flags, ZERO),
		FIELD(lsmem_bring, reserved, ZERO),
	};
	const struct gene *gene = m->call->gene;
	struct lsmem_bring_one ones[LOG_ENTRIES] = { 0 };
	uint8_t *log = m->me->heap + HEAP_DATA, *at;
	struct lsmem_fetch_one request;
	struct lsmem_bring bring;
	uint32_t length, from = 0, i;

	pick_tiered(m);
	m->size = sizeof(bring);
	make_fields(m, fields, NR(fields), &gene[2], m->bytes);
	memcpy(&bring, m->bytes, sizeof(bring));
	request = some_request(m->me, &gene[5]);
	length = make_log(request.segment, request.generation, log, NULL);
	for (i = 0; i < NR(ones) && from < length; i++) {
		const struct lsmem_entry *e = (const void *)(log + from);

		/* Other threads may have written to it. */
		ones[i].data = (uintptr_t)e;
		ones[i].length = lsmem_entry_bytes(e);
		from = lsmem_entry_start(from + ones[i].length);
	}
	bring.nr = gene[7].small % 8 ? i : 0;
	i = gene[8].bits % NR(ones);
	switch (gene[8].at % 8) {
	case 0:		/* damaged */
		log[gene[9].bits % LOG_BYTES] ^= 1 << gene[9].small % 8;
		break;
	case 1:		/* cut, or longer than it is */
		ones[i].length = gene[9].small % 2 ? gene[9].bits : gene[9].bits % LOG_BYTES;
		break;
	case 2:		/* of what is not an entry, or not in the call, nothing is read */
		if (i < bring.nr && ones[i].length >= LSMEM_LONG_BYTES && ones[i].length <= LSMEM_LONG_BYTES + LSMEM_OBJECT_MAX)
			ones[i].data = (uintptr_t)place(m, &gene[9], HEAP_DATA, LOG_BYTES, false);
		break;
	default:
		break;
	}
	at = place_array(m, &gene[6], HEAP_ARRAY, sizeof(ones), false);
	touch_copy(at, ones, sizeof(ones));
	bring.entries = (uintptr_t)at;
	if (how_of(&gene[10]) != VALID) {
		bring.nr = 257 + gene[10].bits % 1000000;
		is_wrong(m, 0);
	}
	memcpy(m->bytes, &bring, sizeof(bring));
	return repl_call(m, LSMEM_REPL_BRING);
}

/* A drive, something else, or nothing; and where segments are there, which is never true. */
long run_near(struct making *m)
{
	static const struct field fields[] = {
		FIELD(lsmem_near, size, SIZE),
		FIELD(lsmem_near, flags, ZERO),
		FIELD(lsmem_near, reserved, ZERO),
	};
	const struct gene *gene = m->call->gene;
	struct lsmem_near near;
	int drive = -1;
	long ret;

	pick_tiered(m);
	m->size = sizeof(near);
	m->random = gene[1].bits | 1;
	make_fields(m, fields, NR(fields), &gene[2], m->bytes);
	memcpy(&near, m->bytes, sizeof(near));
	near.segment = gene[5].small % 4 ? gene[6].bits % 200 : 0;
	near.offset = (gene[7].bits % 1024) * LSMEM_BLOCK;
	near.fd = -1;
	if (!near.segment && gene[6].small % 4)
		near.fd = drive = open(gene[6].small % 8 == 1 ? "/dev/null" : "/dev/drive/log1", O_RDONLY | O_CLOEXEC);
	if (how_of(&gene[5]) != VALID) {
		near.offset += gene[7].bits % LSMEM_BLOCK | 1;
		is_wrong(m, 0);
	}
	memcpy(m->bytes, &near, sizeof(near));
	ret = repl_call(m, LSMEM_REPL_NEAR);
	if (drive >= 0)
		close(drive);
	return ret;
}
