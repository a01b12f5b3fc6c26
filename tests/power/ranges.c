// SPDX-License-Identifier: GPL-2.0
/* Ranges of pages under power cuts: transactions that end with msync(). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <lsmem.h>

#include "../common/transaction.h"
#include "acked.h"

static void die(const char *what)
{
	fprintf(stderr, "acked: range: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- The model: a copy of each range ------------------------------------- */

/**
 * struct ranges - model of all ranges
 * @pages: of each
 * @most: pages that a transaction changes
 * @copies: of one after the other (transaction.h)
 */
struct ranges {
	uint32_t pages;
	uint32_t most;
	uint64_t copies[];
};

static uint64_t *ranges_copy(const struct oracle *o, uint64_t slot)
{
	struct ranges *ranges = o->model;

	return ranges->copies + slot * ranges->pages;
}

static struct transactions transactions_of(const struct oracle *o, uint64_t slot,
					   const struct state *state)
{
	const struct ranges *ranges = o->model;

	return (struct transactions){ .seed = state->length, .id = slot, .pages = ranges->pages,
				      .most = ranges->most };
}

static void range_settled(struct oracle *o, uint64_t slot, const struct state *state)
{
	const struct transactions all = transactions_of(o, slot, state);

	if (state->op == OP_REPLACE)
		transaction_note(&all, state->sequence, ranges_copy(o, slot));
}

int ranges_init(struct oracle *o, uint32_t atomic, uint32_t pages, uint32_t most)
{
	const uint32_t nr = atomic ? atomic + 1 : 0;
	struct ranges *ranges;

	if (oracle_init(o, 'r', nr))
		return -ENOMEM;
	o->model_bytes = sizeof(*ranges) + (uint64_t)nr * pages * sizeof(*ranges->copies);
	ranges = calloc(1, o->model_bytes);
	if (!ranges)
		return -ENOMEM;
	ranges->pages = pages;
	ranges->most = most;
	o->model = ranges;
	o->settled = range_settled;
	return 0;
}

/* ---- Loading ------------------------------------------------------------- */

static void note(struct oracle *o, struct record *r, uint8_t what)
{
	r->what = what;
	record_seal(r);
	journal_write(r, 1);
	oracle_take(o, r);
}

int range_open(struct oracle *o, uint64_t slot, const char *store, _Atomic uint64_t *sequence)
{
	uint64_t length = (uint64_t)((struct ranges *)o->model)->pages * TRANSACTION_PAGE;
	bool atomic = slot < o->nr_slots - 1;
	struct record r;
	struct lsm *lsm;
	int ret, fd;

	ret = lsm_open(store, 0, &lsm);
	fd = ret ? ret : o->slots[slot].base.handle ?
	     lsm_pages_open(lsm, o->slots[slot].base.handle, 0) : -ENOENT;
	if (fd == -ENOENT) {
		record_fill(&r, 'r', ISSUED, OP_ALLOC, 0);
		r.slot = slot;
		r.sequence = atomic_fetch_add(sequence, 1) + 1;
		note(o, &r, ISSUED);
		/* The range that is not atomic does not fit into its buffer: pages are written to make room. */
		fd = lsm_pages_create(lsm, length, atomic ? 0 : length / 4,
				      atomic ? LSM_PAGES_ATOMIC : 0, &r.handle);
		if (fd >= 0 && fsync(fd))
			die("fsync");
		if (fd >= 0)
			note(o, &r, DURABLE);
	}
	if (fd < 0) {
		errno = -fd;
		die(store);
	}
	return fd;
}

/* One transaction, and msync() until it is durable. */
static void load_transaction(struct work *w, void *at, uint64_t bytes)
{
	struct transactions all;
	struct state state;
	struct record r;

	record_fill(&r, 'r', ISSUED, OP_REPLACE, w->thread);
	r.slot = w->first;
	r.sequence = atomic_fetch_add(w->sequence, 1) + 1;
	r.handle = w->oracle->slots[w->first].base.handle;
	r.length = random_next(&w->random);
	note(w->oracle, &r, ISSUED);
	state = slot_now(&w->oracle->slots[w->first]);
	all = transactions_of(w->oracle, w->first, &state);
	transaction_store(&all, r.sequence, at);
	note(w->oracle, &r, DONE);
	if (msync_durable(at, bytes))
		die("msync");
	note(w->oracle, &r, DURABLE);
	atomic_fetch_add(&figures.changes, 1);
}

void *load_range(void *arg)
{
	struct work *w = arg;
	uint64_t bytes = (uint64_t)((struct ranges *)w->oracle->model)->pages * TRANSACTION_PAGE;
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, w->fd, 0);

	if (at == MAP_FAILED)
		die("mmap");
	load_transaction(w, at, bytes);
	atomic_fetch_add(w->ready, 1);
	for (;;)
		load_transaction(w, at, bytes);
	return NULL;
}

/* ---- Verification -------------------------------------------------------- */

bool range_look(const struct oracle *o, uint64_t number, const char *range, struct state *found)
{
	const struct slot *slot = &o->slots[number];
	struct transactions all = transactions_of(o, number, &slot->base);
	size_t bytes = all.pages * sizeof(uint64_t);
	uint64_t *copy = malloc(bytes), serial;
	uint32_t i, wrong, page, where = 0;
	bool torn = false;

	if (!copy)
		die("memory");
	memcpy(copy, ranges_copy(o, number), bytes);
	*found = slot->base;
	wrong = transaction_differ(&all, range, copy, &where);
	for (i = 0; wrong && i < slot->nr_pending; i++) {
		*found = slot->pending[i];
		all = transactions_of(o, number, found);
		if (found->op == OP_REPLACE)
			transaction_note(&all, found->sequence, copy);
		wrong = transaction_differ(&all, range, copy, &where);
	}
	if (!wrong)
		goto out;
	found->sequence = 0;
	for (page = 0; page < all.pages; page++) {
		const char *at = range + (uint64_t)page * TRANSACTION_PAGE;

		if (transaction_page_is(&all, at, page, 0))
			continue;
		torn |= !content_right(at, TRANSACTION_PAGE, transaction_content(&all, page), &serial) ||
			serial > slot->base.sequence;
	}
	memcpy(&serial, range + (uint64_t)where * TRANSACTION_PAGE, sizeof(serial));
	fprintf(stderr, "range %llu: %u pages are not as after transaction %llu: the first is %u, of %llu\n",
		(unsigned long long)number, wrong,
		(unsigned long long)(slot->nr_pending ? slot->pending[slot->nr_pending - 1].sequence :
				     slot->base.sequence), where, (unsigned long long)serial);
out:
	free(copy);
	return torn;
}

static void range_count(const struct slot *slot, const struct state *found, struct verdict *v)
{
	const struct state *last = slot->nr_pending ? &slot->pending[slot->nr_pending - 1] : NULL;

	if (!last || last->op != OP_REPLACE)
		return;
	v->in_msync += last->done;
	v->before_msync += !last->done;
	v->kept += last->done && found->sequence == last->sequence;
}

/* The handle of a range that is there or may be. */
static uint64_t range_handle(const struct slot *slot)
{
	return slot->nr_pending ? slot->pending[slot->nr_pending - 1].handle : slot->base.handle;
}

static bool read_all(int fd, char *to, uint64_t bytes)
{
	uint64_t at = 0;
	ssize_t n;

	while (at < bytes) {
		n = pread(fd, to + at, bytes - at, at);
		if (n <= 0) {
			fprintf(stderr, "range: read at %llu: %s\n", (unsigned long long)at,
				n ? strerror(errno) : "end");
			return false;
		}
		at += n;
	}
	return true;
}

int verify_ranges(const char *store, struct oracle *o, struct verdict *v)
{
	uint64_t bytes = (uint64_t)((struct ranges *)o->model)->pages * TRANSACTION_PAGE, i;
	char *range = malloc(bytes);
	struct state found;
	struct lsm *lsm;
	int ret, fd = -1;

	ret = lsm_open(store, 0, &lsm);
	if (ret || !range) {
		errno = range ? -ret : ENOMEM;
		die(store);
	}
	for (i = 0; i < o->nr_slots; i++) {
		struct slot *slot = &o->slots[i];
		bool torn = false;

		found = (struct state){ .op = OP_FREE };
		fd = range_handle(slot) ? lsm_pages_open(lsm, range_handle(slot), 0) : -ENOENT;
		if (fd < 0 && fd != -ENOENT && fd != -ESTALE) {
			fprintf(stderr, "range %llu: %s\n", (unsigned long long)i, strerror(-fd));
			torn = true;
		} else if (fd >= 0 && i < o->nr_slots - 1) {
			if (read_all(fd, range, bytes))
				torn = range_look(o, i, range, &found);
			else
				torn = true;
			range_count(slot, &found, v);
		} else if (fd >= 0) {
			found = slot_now(slot);
		}
		verify_slot(o, i, &found, torn, v);
		if (fd >= 0 && i < o->nr_slots - 1)
			close(fd);
	}
	free(range);
	return fd >= 0 ? fd : -1;
}
