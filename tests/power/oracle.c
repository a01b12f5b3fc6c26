// SPDX-License-Identifier: GPL-2.0
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "oracle.h"

static int journal = -1;
static pthread_mutex_t journal_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- Records ------------------------------------------------------------ */

static uint32_t record_check(const struct record *r)
{
	const uint8_t *bytes = (const uint8_t *)r + offsetof(struct record, kind);
	uint32_t hash = 2166136261u;	/* FNV-1a */
	size_t i;

	for (i = 0; i < sizeof(*r) - offsetof(struct record, kind); i++)
		hash = (hash ^ bytes[i]) * 16777619u;
	return hash;
}

void record_fill(struct record *r, uint8_t kind, uint8_t what, uint8_t op, uint8_t thread)
{
	*r = (struct record){ .magic = ORACLE_MAGIC, .kind = kind, .what = what, .op = op,
			      .thread = thread };
}

void record_seal(struct record *r)
{
	r->check = record_check(r);
}

int journal_open(void)
{
	const char *path = getenv("LSMEM_JOURNAL");

	journal = path ? open(path, O_WRONLY | O_CLOEXEC) : -1;
	if (journal < 0)
		fprintf(stderr, "journal %s: %s\n", path ? path : "($LSMEM_JOURNAL)",
			strerror(errno));
	return journal < 0 ? -1 : 0;
}

void journal_write(const struct record *records, size_t nr)
{
	const char *from = (const char *)records;
	size_t left = nr * sizeof(*records);

	pthread_mutex_lock(&journal_lock);
	while (left) {
		ssize_t n = write(journal, from, left);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			perror("journal");
			exit(1);
		}
		from += n;
		left -= n;
	}
	pthread_mutex_unlock(&journal_lock);
}

/* ---- The model ---------------------------------------------------------- */

int oracle_init(struct oracle *o, uint8_t kind, uint64_t nr_slots)
{
	memset(o, 0, sizeof(*o));
	o->kind = kind;
	o->nr_slots = nr_slots;
	o->slots = calloc(nr_slots, sizeof(*o->slots));
	return o->slots ? 0 : -ENOMEM;
}

struct state slot_now(const struct slot *slot)
{
	uint32_t i;

	for (i = slot->nr_pending; i-- > 0;)
		if (!slot->pending[i].refused)
			return slot->pending[i];
	return slot->base;
}

static bool state_present(const struct state *s)
{
	return s->op == OP_ALLOC || s->op == OP_REPLACE;
}

/* The state after pending operation @i becomes the durable state of the slot. */
static void slot_settle(struct oracle *o, struct slot *slot, uint32_t i)
{
	struct state state = slot->pending[i];

	if (o->kind == 'o' && state_present(&slot->base) && !state_present(&state))
		o->freed[o->nr_freed++ % ORACLE_FREED] = slot->base.handle;
	slot->base = state;
	o->acknowledged++;
	if (o->settled)
		o->settled(o, slot - o->slots, &state);
}

void oracle_show(struct oracle *o, uint64_t group, bool there)
{
	if (!o->shows || !group)
		return;
	if (o->nr_shown % 4096 == 0)
		o->shown = reallocarray(o->shown, o->nr_shown + 4096, sizeof(*o->shown));
	if (!o->shown) {
		fprintf(stderr, "no memory for groups\n");
		exit(2);
	}
	o->shown[o->nr_shown++] = (struct shown){ .group = group, .there = there };
}

static int shown_cmp(const void *a, const void *b)
{
	const struct shown *x = a, *y = b;

	return (x->group > y->group) - (x->group < y->group);
}

uint64_t oracle_torn(struct oracle *o, uint64_t *all)
{
	uint64_t torn = 0;
	size_t i, next;

	*all = 0;
	qsort(o->shown, o->nr_shown, sizeof(*o->shown), shown_cmp);
	for (i = 0; i < o->nr_shown; i = next) {
		uint32_t there = 0;

		for (next = i; next < o->nr_shown && o->shown[next].group == o->shown[i].group; next++)
			there += o->shown[next].there;
		++*all;
		if (!there || there == next - i)
			continue;
		torn++;
		fprintf(stderr, "group %llu: torn: of %zu operations %u are there\n",
			(unsigned long long)o->shown[i].group, next - i, there);
	}
	return torn;
}

static uint64_t operation_of(const struct state *state)
{
	return state->check ? state->check : state->sequence;
}

/* All pending operations of a slot up to @sequence are durable. */
static void slot_durable(struct oracle *o, struct slot *slot, uint64_t sequence)
{
	uint32_t i, kept = 0;

	for (i = 0; i < slot->nr_pending; i++) {
		if (operation_of(&slot->pending[i]) > sequence) {
			slot->pending[kept++] = slot->pending[i];
		} else if (!slot->pending[i].refused && !slot->pending[i].check) {
			oracle_show(o, slot->pending[i].group, true);
			slot_settle(o, slot, i);
		}
	}
	slot->nr_pending = kept;
}

static struct state *slot_find(struct slot *slot, uint64_t sequence)
{
	uint32_t i;

	for (i = 0; i < slot->nr_pending; i++)
		if (operation_of(&slot->pending[i]) == sequence)
			return &slot->pending[i];
	fprintf(stderr, "journal: answer to operation %llu, which was not issued\n",
		(unsigned long long)sequence);
	exit(2);
}

static void slot_issue(struct slot *slot, const struct record *r)
{
	struct state state = {
		.sequence = r->sequence,
		.handle = r->handle,
		.length = r->length,
		.op = r->op,
	};

	if (r->op == OP_CHECK) {
		state = slot_now(slot);
		state.check = r->sequence;
	}
	state.group = r->group;
	if (!slot->pending)
		slot->pending = calloc(PENDING, sizeof(*slot->pending));
	if (!slot->pending || slot->nr_pending == PENDING) {
		fprintf(stderr, "journal: slot %llu has more than %u operations under way\n",
			(unsigned long long)r->slot, PENDING);
		exit(2);
	}
	slot->pending[slot->nr_pending++] = state;
	slot->thread = r->thread;
}

/* Apply one record to the model. The loading threads do so too, for each record that they write. */
void oracle_take(struct oracle *o, const struct record *r)
{
	struct state *state;
	struct slot *slot;
	uint64_t i;
	bool later;

	if (r->kind != o->kind)
		return;
	if (r->sequence > o->sequence)
		o->sequence = r->sequence;
	if (r->what == SYNCED) {
		for (i = 0; i < o->nr_slots; i++)
			if (o->slots[i].nr_pending && o->slots[i].thread == r->thread)
				slot_durable(o, &o->slots[i], r->sequence);
		return;
	}
	if (r->slot >= o->nr_slots) {
		fprintf(stderr, "journal: slot %llu of %llu\n", (unsigned long long)r->slot,
			(unsigned long long)o->nr_slots);
		exit(2);
	}
	slot = &o->slots[r->slot];
	switch (r->what) {
	case ISSUED:
		slot_issue(slot, r);
		break;
	case DONE:
		state = slot_find(slot, r->sequence);
		state->handle = r->handle;
		state->done = 1;
		break;
	case DURABLE:
		slot_find(slot, r->sequence)->handle = r->handle;
		slot_durable(o, slot, r->sequence);
		break;
	case REFUSED:
		slot_find(slot, r->sequence)->refused = 1;
		break;
	case RESOLVED:
		slot->nr_pending = 0;
		later = r->sequence != slot->base.sequence;
		slot->base = (struct state){
			.sequence = r->sequence,
			.handle = r->handle,
			.length = r->length,
			.op = r->op,
		};
		if (o->settled && later)
			o->settled(o, r->slot, &slot->base);
		break;
	}
}

static int oracle_read_file(struct oracle **oracles, size_t nr, const char *path)
{
	FILE *file = fopen(path, "rb");
	struct record r;
	size_t i;

	if (!file) {
		perror(path);
		return -1;
	}
	while (fread(&r, sizeof(r), 1, file) == 1) {
		if (r.magic != ORACLE_MAGIC || r.check != record_check(&r)) {
			fprintf(stderr, "%s: not a record before offset %ld\n", path, ftell(file));
			fclose(file);
			return -1;
		}
		for (i = 0; i < nr; i++)
			oracle_take(oracles[i], &r);
	}
	fclose(file);
	return 0;
}

/* Apply all journals in @directory, in the order of their names: oldest boot first. */
int oracle_read(struct oracle **oracles, size_t nr, const char *directory)
{
	struct dirent **names;
	char path[4096];
	int n, i, ret = 0;

	n = scandir(directory, &names, NULL, alphasort);
	if (n < 0) {
		perror(directory);
		return -1;
	}
	for (i = 0; i < n; i++) {
		if (names[i]->d_name[0] != '.' && !ret) {
			snprintf(path, sizeof(path), "%s/%s", directory, names[i]->d_name);
			ret = oracle_read_file(oracles, nr, path);
		}
		free(names[i]);
	}
	free(names);
	return ret;
}

/* ---- The state file ------------------------------------------------------ */

void oracle_save(struct oracle **oracles, size_t nr, const char *path)
{
	FILE *file = fopen(path, "wb");
	uint64_t i;
	size_t k;

	for (k = 0; file && k < nr; k++) {
		fwrite(&oracles[k]->sequence, sizeof(uint64_t), 1, file);
		for (i = 0; i < oracles[k]->nr_slots; i++)
			fwrite(&oracles[k]->slots[i].base, sizeof(struct state), 1, file);
		if (oracles[k]->model)
			fwrite(oracles[k]->model, oracles[k]->model_bytes, 1, file);
	}
	if (!file || fclose(file)) {
		perror(path);
		exit(1);
	}
}

void oracle_load(struct oracle **oracles, size_t nr, const char *path)
{
	FILE *file = fopen(path, "rb");
	bool whole = true;
	uint64_t i;
	size_t k;

	if (!file)
		return;	/* there was no verification yet */
	for (k = 0; k < nr; k++) {
		whole &= fread(&oracles[k]->sequence, sizeof(uint64_t), 1, file) == 1;
		for (i = 0; i < oracles[k]->nr_slots; i++)
			whole &= fread(&oracles[k]->slots[i].base, sizeof(struct state), 1,
				       file) == 1;
		if (oracles[k]->model)
			whole &= fread(oracles[k]->model, oracles[k]->model_bytes, 1, file) == 1;
	}
	fclose(file);
	if (!whole) {
		fprintf(stderr, "%s: cut short\n", path);
		exit(1);
	}
}
