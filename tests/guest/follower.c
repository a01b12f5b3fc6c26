// SPDX-License-Identifier: GPL-2.0
/* A daemon for tests that follows the stream of a durable store.  See follower.h. */
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <unistd.h>

#include "follower.h"
#include "keeper.h"
#include "store.h"

#define BATCH		256u
#define POLL_MS		20
#define DRAIN_MS	20000
#define ERA		1u
#define GENERATIONS	(1u << 20)

static uint32_t table[8][256];

/* Before there are threads: several may compute their first CRC at once. */
__attribute__((constructor))
static void fill_table(void)
{
	unsigned int i, j;

	for (i = 0; i < 256; i++) {
		uint32_t c = i;

		for (j = 0; j < 8; j++)
			c = c >> 1 ^ (c & 1 ? 0x82f63b78u : 0);
		table[0][i] = c;
	}
	for (i = 0; i < 256; i++)
		for (j = 1; j < 8; j++)
			table[j][i] = table[j - 1][i] >> 8 ^ table[0][table[j - 1][i] & 0xff];
}

/* Eight bytes at a time, for speed: the follower checks every byte that is written. */
uint32_t crc32c(uint32_t crc, const void *data, size_t length)
{
	const uint8_t *bytes = data;

	for (; length >= 8; length -= 8, bytes += 8) {
		uint32_t low, high;

		memcpy(&low, bytes, 4);
		memcpy(&high, bytes + 4, 4);
		low ^= crc;
		crc = table[7][low & 0xff] ^ table[6][low >> 8 & 0xff] ^
		      table[5][low >> 16 & 0xff] ^ table[4][low >> 24] ^
		      table[3][high & 0xff] ^ table[2][high >> 8 & 0xff] ^
		      table[1][high >> 16 & 0xff] ^ table[0][high >> 24];
	}
	while (length--)
		crc = crc >> 8 ^ table[0][(crc ^ *bytes++) & 0xff];
	return crc;
}

/* lsmem_format.h leaves this function to the program that includes it. */
__u32 lsmem_crc32c(__u32 seed, const void *data, __kernel_size_t length)
{
	return crc32c(seed, data, length);
}

/* Record an error, unless there was one before. */
__attribute__((format(printf, 2, 3)))
static void wrong(struct follower *follower, const char *format, ...)
{
	va_list args;

	if (*follower->wrong)
		return;
	va_start(args, format);
	vsnprintf(follower->wrong, sizeof(follower->wrong), format, args);
	va_end(args);
}

/* A position in a segment that is being read. */
struct cursor {
	uint32_t offset;	/* in the segment */
	uint32_t seglet;	/* that holds @offset */
};

static void advance(const struct follower *follower, struct cursor *at, uint32_t to)
{
	while (at->offset / LSMEM_SEGLET_BYTES < to / LSMEM_SEGLET_BYTES) {
		uint32_t next = follower->table[at->seglet].next;

		/* The position may be at the end of the last seglet; nothing is read there. */
		if (next != LSMEM_NO_SEGLET)
			at->seglet = next;
		at->offset = (at->offset / LSMEM_SEGLET_BYTES + 1) * LSMEM_SEGLET_BYTES;
	}
	at->offset = to;
}

static const void *here(const struct follower *follower, const struct cursor *at)
{
	return follower->seglets + (uint64_t)at->seglet * LSMEM_SEGLET_BYTES +
	       at->offset % LSMEM_SEGLET_BYTES;
}

static uint32_t payload_crc(const struct follower *follower, struct cursor at, uint32_t length)
{
	uint32_t crc = ~0u;

	while (length) {
		uint32_t piece = LSMEM_SEGLET_BYTES - at.offset % LSMEM_SEGLET_BYTES;

		if (piece > length)
			piece = length;
		crc = crc32c(crc, here(follower, &at), piece);
		advance(follower, &at, at.offset + piece);
		length -= piece;
	}
	return crc;
}

void follower_copy(const struct follower *follower, const struct lsmem_event *event, uint8_t *to)
{
	struct cursor at = { event->from, event->first_seglet };

	while (at.offset < event->to) {
		uint32_t piece = LSMEM_SEGLET_BYTES - at.offset % LSMEM_SEGLET_BYTES;

		if (piece > event->to - at.offset)
			piece = event->to - at.offset;
		memcpy(to, here(follower, &at), piece);
		to += piece;
		advance(follower, &at, at.offset + piece);
	}
}

const struct lsmem_entry *follower_entry(const struct follower *follower, uint64_t position, uint32_t salt)
{
	struct cursor at = {
		.offset = (position & ((1u << LSMEM_POSITION_OFFSET_BITS) - 1)) * LSMEM_ALIGN,
		.seglet = position >> LSMEM_POSITION_OFFSET_BITS,
	};
	const struct lsmem_entry *e;

	if (at.seglet >= follower->info->nr_seglets || at.offset > LSMEM_SEGLET_BYTES - LSMEM_LONG_BYTES)
		return NULL;
	e = here(follower, &at);
	if (!lsmem_entry_sane(e))
		return NULL;
	advance(follower, &at, at.offset + lsmem_entry_header(e));
	return __le32_to_cpu(e->crc) == lsmem_entry_crc(e, payload_crc(follower, at, lsmem_entry_length(e)), salt) ?
	       e : NULL;
}

/*
 * Record an entry as recovery would: the highest generation wins, then the highest version.  Two
 * entries of one version must be equal.
 */
static void remember(struct follower *follower, const struct lsmem_entry *e, uint32_t pcrc)
{
	uint64_t handle = lsmem_entry_handle(e), index = lsmem_handle_index(handle);
	bool deleted = lsmem_entry_type(e) == LSMEM_TYPE_TOMBSTONE;
	uint32_t generation = lsmem_handle_generation(handle);
	uint64_t version = lsmem_entry_version(e);
	struct follower_key *key;

	if (index >= follower->nr_keys) {
		wrong(follower, "handle index %llu", (unsigned long long)index);
		return;
	}
	key = &follower->keys[index];
	if (generation == key->generation && version == key->version &&
	    (deleted != key->deleted || pcrc != key->pcrc))
		wrong(follower, "handle %#llx: version %#llx twice, and not the same (invariant 5)",
		      (unsigned long long)handle, (unsigned long long)version);
	if (generation > key->generation ||
	    (generation == key->generation && version > key->version))
		*key = (struct follower_key){ version, generation, pcrc, deleted };
}

static void follow_range(struct follower *follower, const struct lsmem_event *event)
{
	uint32_t salt = lsmem_segment_salt(follower->attach.uuid, event->segment,
					   event->generation);
	struct cursor at = { event->from, event->first_seglet };

	while (lsmem_entry_start(at.offset) < event->to) {
		const struct lsmem_entry *e;
		uint32_t pcrc = ~0u, type;
		struct cursor payload;

		advance(follower, &at, lsmem_entry_start(at.offset));
		e = here(follower, &at);
		type = lsmem_entry_type(e);
		if (!lsmem_entry_sane(e) || lsmem_entry_home(e) != at.offset / LSMEM_BLOCK ||
		    at.offset + lsmem_entry_bytes(e) > event->to) {
			wrong(follower, "segment %llu [%u, %u): no entry at %u",
			      (unsigned long long)event->segment, event->from, event->to,
			      at.offset);
			return;
		}
		payload = at;
		advance(follower, &payload, at.offset + lsmem_entry_header(e));
		if (lsmem_entry_covers(e))
			pcrc = payload_crc(follower, payload, lsmem_entry_length(e));
		if (__le32_to_cpu(e->crc) != lsmem_entry_crc(e, pcrc, salt)) {
			wrong(follower, "segment %llu: CRC of the entry at %u",
			      (unsigned long long)event->segment, at.offset);
			return;
		}
		if (type == LSMEM_TYPE_OBJECT || type == LSMEM_TYPE_TOMBSTONE)
			remember(follower, e, pcrc);
		atomic_fetch_add(&follower->entries, 1);
		advance(follower, &at, at.offset + lsmem_entry_bytes(e));
	}
}

/* Take, check and acknowledge one batch of events. Returns false if an ioctl fails. */
static bool follow(struct follower *follower)
{
	struct lsmem_event events[BATCH];
	struct lsmem_ack_one acks[BATCH];
	struct lsmem_next next = {
		.size = sizeof(next),
		.events = (uintptr_t)events,
		.nr = BATCH,
	};
	struct lsmem_ack ack = { .size = sizeof(ack), .acks = (uintptr_t)acks };
	uint32_t i;

	if (ioctl(follower->attach.fd, LSMEM_REPL_NEXT, &next)) {
		wrong(follower, "NEXT: %s", strerror(errno));
		return false;
	}
	for (i = 0; i < next.nr; i++) {
		const struct lsmem_event *event = &events[i];

		if (event->type == LSMEM_EVENT_RANGE)
			follow_range(follower, event);
		if (event->type == LSMEM_EVENT_RANGE && !event->from)
			atomic_fetch_add(&follower->open, 1);
		else if (event->type == LSMEM_EVENT_CLOSE && event->to)
			atomic_fetch_sub(&follower->open, 1);
		if (event->type == LSMEM_EVENT_RETIRE && event->segment < FOLLOWER_SEGMENTS)
			atomic_store(&follower->gone[event->segment], true);
		if (follower->keeper)
			keeper_event(follower->keeper, follower, event);
		if (event->type == LSMEM_EVENT_RESUME ||
		    (event->type == LSMEM_EVENT_RETIRE && event->flags & LSMEM_EVENT_MORE))
			continue;
		acks[ack.nr++] = (struct lsmem_ack_one){
			.type = event->type,
			.to = event->to,
			.segment = event->segment,
		};
	}
	ack.generation_ceiling = next.generation_wanted;
	if (ioctl(follower->attach.fd, LSMEM_REPL_ACK, &ack)) {
		wrong(follower, "ACK %u of %u: %s", ack.nr, next.nr, strerror(errno));
		return false;
	}
	return true;
}

static void *follower_main(void *argument)
{
	struct follower *follower = argument;
	bool good = true;

	while (good && !atomic_load(&follower->stop)) {
		struct pollfd pollfd = { .fd = follower->attach.fd, .events = POLLIN };

		poll(&pollfd, 1, POLL_MS);
		pthread_mutex_lock(&follower->lock);
		if (follower->asleep) {
			pthread_mutex_unlock(&follower->lock);
			usleep(POLL_MS * 1000);
			continue;
		}
		good = follow(follower);
		pthread_mutex_unlock(&follower->lock);
	}
	return NULL;
}

static const void *window(const struct follower *follower, uint64_t offset, uint64_t length)
{
	return mmap(NULL, length, PROT_READ, MAP_SHARED, follower->attach.fd, (off_t)offset);
}

int follower_attach_as(struct follower *follower, const char *name, const uint8_t *uuid)
{
	memset(follower, 0, sizeof(*follower));
	pthread_mutex_init(&follower->lock, NULL);
	follower->attach.size = sizeof(follower->attach);
	follower->attach.fd = -1;
	snprintf((char *)follower->attach.name, sizeof(follower->attach.name), "%s", name);
	memcpy(follower->attach.uuid, uuid, sizeof(follower->attach.uuid));
	return control_call(LSMEM_CTL_ATTACH, &follower->attach);
}

int follower_attach(struct follower *follower, const char *name)
{
	uint8_t uuid[sizeof(follower->attach.uuid)];

	return getrandom(uuid, sizeof(uuid), 0) < 0 ? -errno : follower_attach_as(follower, name, uuid);
}

/* Map what the follower reads. */
static int map(struct follower *follower)
{
	follower->nr_keys = follower->attach.handles_max + LSMEM_RESERVED;
	follower->keys = calloc(follower->nr_keys, sizeof(*follower->keys));
	follower->info = window(follower, LSMEM_WINDOW_INFO, 4096);
	if (!follower->keys || follower->info == MAP_FAILED)
		return -ENOMEM;
	follower->seglets = window(follower, follower->info->seglets.offset,
				  follower->info->seglets.length);
	follower->table = window(follower, follower->info->seglet_table.offset,
				 follower->info->seglet_table.length);
	return follower->seglets == MAP_FAILED || follower->table == MAP_FAILED ? -ENOMEM : 0;
}

int follower_activate(struct follower *follower, struct lsmem_activate *activate)
{
	struct lsmem_activate new = {
		.size = sizeof(new),
		.era = ERA,
		.generation_ceiling = GENERATIONS,
		.next_segment = 1,
	};
	int ret = map(follower);

	if (!ret && ioctl(follower->attach.fd, LSMEM_REPL_ACTIVATE, activate ? activate : &new))
		ret = -errno;
	return ret ?: -pthread_create(&follower->thread, NULL, follower_main, follower);
}

int follower_succeed(struct follower *follower, const struct store *store, const uint8_t *uuid)
{
	struct keeper *keeper = follower->keeper;
	int ret = follower_attach_as(follower, store->name, uuid);

	if (!ret)
		ret = map(follower);
	follower->keeper = keeper;
	return ret ?: -pthread_create(&follower->thread, NULL, follower_main, follower);
}

int follower_start(struct follower *follower, const char *name)
{
	int ret = follower_attach(follower, name);

	return ret ?: follower_activate(follower, NULL);
}

void follower_sleep(struct follower *follower, bool asleep)
{
	pthread_mutex_lock(&follower->lock);
	follower->asleep = asleep;
	pthread_mutex_unlock(&follower->lock);
}

/*
 * Drain the store as lsmemd does before it stops: no new pass of cleaning begins, the passes under
 * way end, and the thread acknowledges all events.
 */
static void drain(struct follower *follower)
{
	struct lsmem_clean last = { .size = sizeof(last), .flags = LSMEM_CLEAN_LAST };
	struct pollfd pollfd = { .fd = follower->attach.fd, .events = POLLIN };
	uint64_t end = now_ms() + test_limit(DRAIN_MS);
	const struct lsmem_cleaning *cleaning;
	bool asked;

	if (follower->asleep)
		return;
	cleaning = window(follower, follower->info->segments.offset,
			  follower->info->segments.length);
	if (cleaning == MAP_FAILED)
		return;
	asked = !ioctl(follower->attach.fd, LSMEM_REPL_CLEAN, &last);
	while (asked && now_ms() < end &&
	       (__atomic_load_n(&cleaning->begun, __ATOMIC_ACQUIRE) !=
		__atomic_load_n(&cleaning->ended, __ATOMIC_ACQUIRE) ||
		poll(&pollfd, 1, POLL_MS) > 0))
		usleep(1000);	/* the follower's thread does the work */
	munmap((void *)cleaning, follower->info->segments.length);
}

void follower_stop(struct follower *follower)
{
	drain(follower);
	atomic_store(&follower->stop, true);
	pthread_join(follower->thread, NULL);
	munmap((void *)follower->table, follower->info->seglet_table.length);
	munmap((void *)follower->seglets, follower->info->seglets.length);
	munmap((void *)follower->info, 4096);
	close(follower->attach.fd);
}

void follower_free(struct follower *follower)
{
	free(follower->keys);
	pthread_mutex_destroy(&follower->lock);
}
