// SPDX-License-Identifier: GPL-2.0
/*
 * Recovery: see recover.h. This file holds the order of the passes, and the commit point.
 *
 * The commit point is the digest that recover_commit() writes and flushes. Before that, recovery
 * changes nothing on the backups but the promises in superblocks. After a crash before the commit
 * point the old digest is the newest; after it, the new one (invariant 20).
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "private.h"
#include "stripe/rule.h"

#define RECOVER_TEXT_BYTES	256
#define RECOVER_SAMPLES		16u	/* footers that recover_dense() reads, about */

static void recover_report(struct recover *r, enum recover_severity severity,
			   const char *format, va_list args)
{
	char text[RECOVER_TEXT_BYTES];

	vsnprintf(text, sizeof(text), format, args);
	if (r->env.report)
		r->env.report(r->env.context, severity, text);
}

/**
 * recover_info - report something that the operator should know
 * @r: recovery
 * @format: as printf(), without a line end
 * @...: for @format
 */
void recover_info(struct recover *r, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	recover_report(r, RECOVER_INFO, format, args);
	va_end(args);
}

/**
 * recover_damage - report something lost or damaged, and count it
 * @r: recovery
 * @format: as printf(), without a line end
 * @...: for @format
 */
void recover_damage(struct recover *r, const char *format, ...)
{
	va_list args;

	r->result.losses++;
	va_start(args, format);
	recover_report(r, RECOVER_DAMAGE, format, args);
	va_end(args);
}

/**
 * recover_read - read from a backup
 * @r: recovery
 * @offset: address of the first byte
 * @data: room for @length bytes, aligned to LSMEM_BLOCK
 * @length: bytes, a multiple of LSMEM_BLOCK, at most LSMEM_SEGMENT_BYTES
 *
 * Return: 0 or a negative errno, from @read of struct recover_env.
 */
int recover_read(struct recover *r, uint64_t offset, void *data, uint32_t length)
{
	const struct recover_range *begun = &r->begun[r->begun_first % RECOVER_AHEAD];

	if (r->begun_first != r->begun_next && begun->data == data && begun->offset == offset &&
	    begun->length == length)
		r->begun_first++;
	r->result.read_bytes += length;
	return r->env.read(r->env.context, offset, data, length);
}

/**
 * recover_ahead - begin a read that a later recover_read() of the same range completes
 * @r: recovery
 * @offset: as for recover_read()
 * @data: as for recover_read()
 * @length: as for recover_read(); 0: nothing is read
 *
 * The reads that were begun complete in their order; other reads can come in between.
 */
void recover_ahead(struct recover *r, uint64_t offset, void *data, uint32_t length)
{
	if (!r->env.ahead || !length || r->begun_next - r->begun_first == RECOVER_AHEAD)
		return;
	r->begun[r->begun_next++ % RECOVER_AHEAD] = (struct recover_range) {
		.offset = offset, .data = data, .length = length,
	};
	r->env.ahead(r->env.context, offset, data, length);
}

/**
 * recover_ahead_end - complete the reads that were begun ahead and that no pass needs
 * @r: recovery, after a pass or an error
 */
void recover_ahead_end(struct recover *r)
{
	while (r->begun_first != r->begun_next) {
		const struct recover_range *begun = &r->begun[r->begun_first++ % RECOVER_AHEAD];

		r->env.read(r->env.context, begun->offset, begun->data, begun->length);
	}
}

/**
 * recover_bad_copy - report a bad replica, and have the new digest not list it
 * @r: recovery
 * @seg: its segment; the replica is the one that is read
 * @why: what is wrong with it
 */
void recover_bad_copy(struct recover *r, struct recover_segment *seg, const char *why)
{
	seg->good &= ~(1u << seg->copy);
	r->result.bad_copies++;
	recover_info(r, "segment %llu: the replica in frame %u of %s is passed over: %s",
		     (unsigned long long)seg->item.segment, seg->frame,
		     recover_name(r, seg->slot), why);
}

/**
 * recover_new - begin a recovery
 * @env: the caller's part; copied
 *
 * Return: the recovery; NULL: there is no memory.
 */
struct recover *recover_new(const struct recover_env *env)
{
	struct recover *r = calloc(1, sizeof(*r));
	uint32_t i;

	if (!r)
		return NULL;
	r->env = *env;
	r->several = env->backups > 1 ? env->backups : 0;
	for (i = 0; i < LSMEM_BACKUPS; i++)
		r->backups[i].joiner = r->backups[i].past.index = RECOVER_NONE;
	for (i = 1; i < r->several; i++)
		r->domains |= env->domain[i] != env->domain[0];
	r->nr_frames = RECOVER_FRAMES_FIRST + RECOVER_FRAMES_EACH * (r->several ? r->several : 1);
	if (r->nr_frames > RECOVER_FRAMES)
		r->nr_frames = RECOVER_FRAMES;
	for (i = 0; i < r->nr_frames; i++) {
		r->frames[i] = memory_get(LSMEM_SEGMENT_BYTES);
		if (!r->frames[i]) {
			recover_free(r);
			return NULL;
		}
	}
	recover_use(r, 0);
	return r;
}

static void recover_forget(struct recover *r)
{
	recover_close_end(r);
	free(r->winners);
	r->winners = NULL;
	free(r->touched);
	r->touched = NULL;
	free(r->segments);
	r->segments = NULL;
	r->nr_segments = 0;
	recover_coded_free(r->coded);
	r->coded = NULL;
}

/**
 * recover_free - free a recovery
 * @r: recovery; may be NULL
 */
void recover_free(struct recover *r)
{
	uint32_t i;

	if (!r)
		return;
	recover_forget(r);
	free(r->damaged);
	digest_map_destroy(&r->map);
	for (i = 0; i < LSMEM_BACKUPS; i++)
		digest_map_destroy(&r->backups[i].map);
	for (i = 0; i < r->nr_frames; i++)
		memory_put(r->frames[i]);
	free(r);
}

/**
 * recover_super - the superblock of the store
 * @r: recover_open() returned RECOVER_FULL, or recover_format() 0
 */
const struct lsmem_super *recover_super(const struct recover *r)
{
	return &r->super;
}

/**
 * recover_slot_super - the superblock of a backup
 * @r: recovery
 * @slot: of the backup
 *
 * Return: the superblock; NULL: there is none, or it could not be read.
 */
const struct lsmem_super *recover_slot_super(const struct recover *r, uint32_t slot)
{
	return r->backups[slot].there ? &r->backups[slot].super : NULL;
}

/**
 * recover_unread - is a backup of an older format, which this version does not read?
 * @r: recovery; recover_open() returned -EBADMSG
 *
 * Return: true if it is: nothing is known to be damaged.
 */
bool recover_unread(const struct recover *r)
{
	return r->unread;
}

/**
 * recover_slot_blank - is a backup blank?
 * @r: recover_open() or recover_open_slot() was called
 * @slot: of the backup
 *
 * Return: true if it can be read and both superblock copies are zero.
 */
bool recover_slot_blank(const struct recover *r, uint32_t slot)
{
	return r->backups[slot].blank;
}

/**
 * recover_name - the name of a backup in messages
 * @r: recovery
 * @slot: of the backup
 */
const char *recover_name(const struct recover *r, uint32_t slot)
{
	static const char *const numbers[LSMEM_BACKUPS] = {
		"backup 0", "backup 1", "backup 2", "backup 3",
		"backup 4", "backup 5", "backup 6", "backup 7",
		"backup 8", "backup 9", "backup 10", "backup 11",
		"backup 12", "backup 13", "backup 14", "backup 15",
	};

	return r->env.names[slot] ? r->env.names[slot] : numbers[slot];
}

/**
 * recover_slot - find a backup
 * @r: recover_format(), recover_map() or recover_run() has succeeded
 * @index: of the backup in the digest
 *
 * Return: its slot; LSMEM_BACKUPS: it is absent.
 */
uint32_t recover_slot(const struct recover *r, uint32_t index)
{
	uint32_t slot;

	for (slot = 0; slot < LSMEM_BACKUPS; slot++)
		if (r->backups[slot].there && r->backups[slot].index == index)
			return slot;
	return LSMEM_BACKUPS;
}

/**
 * recover_digest - the newest durable digest
 * @r: recover_format(), recover_map() or recover_run() has succeeded
 *
 * Return: after recover_run() the digest that it wrote.
 */
const struct digest_map *recover_digest(const struct recover *r)
{
	return &r->map;
}

/**
 * recover_activation - the arguments of LSMEM_REPL_ACTIVATE
 * @r: recover_format() or recover_run() has succeeded
 * @activation: out; these values are durable already
 */
void recover_activation(const struct recover *r, struct recover_activation *activation)
{
	*activation = r->activation;
}

/**
 * recover_damaged - closed segments that the new digest lists although entries are damaged
 * @r: recover_run() has succeeded
 * @segments: out: their ids, valid until recover_free()
 *
 * All that is whole in them was given to the kernel, and a tombstone for each entry that is lost.
 * Until they have been cleaned, every recovery finds the same losses again.
 *
 * Return: how many there are.
 */
uint32_t recover_damaged(const struct recover *r, const uint64_t **segments)
{
	*segments = r->damaged;
	return r->nr_damaged;
}

/* ---- Recovery ---------------------------------------------------------- */

struct recover_item {
	uint64_t segment;
	uint32_t place;
};

static int recover_by_id(const void *a, const void *b)
{
	const struct recover_item *x = a, *y = b;

	if (x->segment != y->segment)
		return x->segment < y->segment ? -1 : 1;
	return x->place < y->place ? -1 : x->place > y->place;
}

/* Make a coded segment of the lane at @place. */
static void recover_add_lane(struct recover *r, struct recover_segment *seg, uint32_t place)
{
	const struct digest_stripes *s = r->map.stripes;
	const struct digest_stripe *stripe = &s->stripe[place / s->k];
	uint32_t shard;

	seg->item = s->lanes[place];
	seg->coded = true;
	seg->lane = place % s->k;
	seg->place = place;
	for (shard = 0; shard < s->k + s->m; shard++) {
		uint32_t slot;

		if (!(stripe->there >> shard & 1u))
			continue;
		slot = recover_slot(r, stripe->place[shard] / r->map.frames);
		if (slot == RECOVER_NONE)
			continue;
		seg->good |= 1u << seg->nr_copies;
		seg->copies[seg->nr_copies].slot = slot;
		seg->copies[seg->nr_copies].shard = shard;
		seg->copies[seg->nr_copies++].frame = stripe->place[shard] % r->map.frames;
	}
	if (seg->nr_copies)
		recover_use_copy(seg, 0);
	if (seg->nr_copies >= s->k)
		return;
	seg->lost = true;
	recover_damage(r, "segment %llu is lost: of the %u shards that it can be read from, %u are on backups that are not there",
		       (unsigned long long)seg->item.segment, s->k, s->k - seg->nr_copies);
}

/* Add a replica to a segment. Return: false: the digest contradicts itself. */
static bool recover_add_copy(struct recover *r, struct recover_segment *seg, uint32_t place)
{
	const struct digest_item *item = &r->map.items[place];
	uint32_t frame = place % r->map.frames, slot = recover_slot(r, place / r->map.frames), i;

	if (seg->item.generation != item->generation || seg->item.state != item->state ||
	    seg->item.length != item->length) {
		recover_damage(r, "digest log: segment %llu: replicas differ in generation, state or length",
			       (unsigned long long)item->segment);
		return false;
	}
	if (slot == RECOVER_NONE)
		return true;
	for (i = 0; i < seg->nr_copies; i++) {
		if (seg->copies[i].slot != slot)
			continue;
		recover_damage(r, "digest log: segment %llu is listed twice, in frames %u and %u",
			       (unsigned long long)item->segment, seg->copies[i].frame, frame);
		return false;
	}
	seg->good |= 1u << seg->nr_copies;
	seg->copies[seg->nr_copies].slot = slot;
	seg->copies[seg->nr_copies++].frame = frame;
	return true;
}

/* Choose a replica of each segment so that recovery reads about as many from each backup. */
static void recover_spread(struct recover *r)
{
	uint32_t reads[LSMEM_BACKUPS] = { 0 }, i, copy, best;

	for (i = 0; i < r->nr_segments; i++) {
		struct recover_segment *seg = &r->segments[i];

		for (best = 0, copy = 1; copy < seg->nr_copies; copy++)
			if (reads[seg->copies[copy].slot] < reads[seg->copies[best].slot])
				best = copy;
		if (!seg->nr_copies || seg->coded)
			continue;
		reads[seg->copies[best].slot]++;
		recover_use_copy(seg, best);
	}
}

/* Make the table of segments from @nr replicas that are sorted by segment. */
static int recover_group(struct recover *r, const struct recover_item *items, uint32_t nr)
{
	struct recover_segment *seg = NULL;
	uint32_t i;

	for (i = 0; i < nr; i++) {
		bool first = !seg || seg->item.segment != items[i].segment;

		if (first)
			seg = &r->segments[r->nr_segments++];
		if (items[i].place >= digest_places(&r->map) ? !first : seg->coded) {
			recover_damage(r, "digest log: segment %llu is listed twice",
				       (unsigned long long)items[i].segment);
			return -EBADMSG;
		}
		if (items[i].place >= digest_places(&r->map)) {
			recover_add_lane(r, seg, items[i].place - digest_places(&r->map));
			continue;
		}
		if (first)
			seg->item = r->map.items[items[i].place];
		if (!recover_add_copy(r, seg, items[i].place))
			return -EBADMSG;
	}
	for (i = 0; i < r->nr_segments; i++) {
		seg = &r->segments[i];
		if (seg->nr_copies || seg->coded)
			continue;
		seg->lost = true;
		recover_damage(r, "segment %llu is lost: it was on backups that are not there",
			       (unsigned long long)seg->item.segment);
	}
	recover_spread(r);
	return 0;
}

/*
 * Do the segments hold so many entries that these touch most pages of the table of winners?
 * Recovery reads the footers of some segments and estimates the rest. Only memory and time depend
 * on the answer: with large pages the whole table takes memory, without them at most a page for
 * each entry.
 */
static bool recover_dense(struct recover *r)
{
	const struct lsmem_segment_footer *footer = (const void *)r->frame;
	uint64_t entries = 0, looked = 0, offset;
	uint32_t step = r->nr_segments / RECOVER_SAMPLES + 1, i;

	for (i = 0; i < r->nr_segments; i += step) {
		const struct recover_segment *seg = &r->segments[i];

		if (seg->lost || seg->coded || seg->item.state != LSMEM_ITEM_CLOSED)
			continue;
		offset = recover_data_offset(r, seg) + LSMEM_SEGMENT_BYTES - 2 * LSMEM_BLOCK;
		if (recover_read(r, offset, r->frame, LSMEM_BLOCK))
			return false;	/* pass 1 reads it again, and reports the error */
		if (format_footer_check(footer, &r->super, seg->item.segment,
					seg->item.generation))
			continue;
		entries += __le32_to_cpu(footer->entries);
		looked++;
	}
	return looked && entries * r->nr_segments / looked >=
			 r->indices * sizeof(*r->winners) / LSMEM_BLOCK;
}

/* Make the table of segments, in the order of their ids, and an empty table of winners. */
static int recover_prepare(struct recover *r)
{
	const struct digest_stripes *stripes = r->map.stripes;
	uint32_t all = r->map.nr + (stripes ? stripes->nr_segments : 0), place, nr = 0;
	struct recover_item *items;
	int ret;

	recover_forget(r);
	items = calloc(all + 1ul, sizeof(*items));
	r->segments = calloc(all + 1ul, sizeof(*r->segments));
	if (stripes && stripes->nr_segments)
		r->coded = recover_coded_new(stripes->k, stripes->m);
	if (!items || !r->segments || (stripes && stripes->nr_segments && !r->coded)) {
		free(items);
		return -ENOMEM;
	}
	for (place = 0; r->coded && place < digest_stripes_nr(&r->map) * stripes->k; place++)
		if (stripes->lanes[place].state)
			items[nr++] = (struct recover_item) {
				.segment = stripes->lanes[place].segment, .place = digest_places(&r->map) + place,
			};
	for (place = 0; place < digest_places(&r->map); place++)
		if (r->map.items[place].state)
			items[nr++] = (struct recover_item) {
				.segment = r->map.items[place].segment, .place = place,
			};
	qsort(items, nr, sizeof(*items), recover_by_id);
	ret = recover_group(r, items, nr);
	free(items);
	r->dense = !ret && !r->told && recover_dense(r);
	r->winners = memory_table(r->indices * sizeof(*r->winners), r->dense);
	r->touched = calloc(r->indices / RECOVER_TOUCH + 1, sizeof(*r->touched));
	free(r->damaged);
	r->damaged = calloc(r->nr_segments + 1ul, sizeof(*r->damaged));
	r->nr_damaged = 0;
	if (!ret && (!r->winners || !r->touched || !r->damaged))
		ret = -ENOMEM;
	r->time = r->map.store_time;
	r->era = r->map.era;
	r->generation = r->map.generation_ceiling;
	r->sequence = r->map.sequence_seen;
	r->max_segment = r->nr_segments ? r->segments[r->nr_segments - 1].item.segment : 0;
	return ret;
}

/**
 * recover_touch - note that winners are about to be used; of a dense table take their pages
 * @r: recovery
 * @index: of one of them
 */
void recover_touch(struct recover *r, uint64_t index)
{
	uint64_t first = index - index % RECOVER_TOUCH, nr = r->indices - first;

	r->touched[index / RECOVER_TOUCH] = true;
	if (r->dense)
		memory_touch(&r->winners[first],
			     (nr < RECOVER_TOUCH ? nr : RECOVER_TOUCH) * sizeof(*r->winners));
}

/**
 * recover_winner_from - find the next index that has a winner
 * @r: recovery
 * @index: the first to look at
 *
 * Does not look at what was never used: each page that is read for the first time is a page fault, and most of
 * a store's handles may never have been given out.
 *
 * Return: the index; indices: there is none.
 */
uint64_t recover_winner_from(const struct recover *r, uint64_t index)
{
	for (; index < r->indices; index++) {
		if (!r->touched[index / RECOVER_TOUCH])
			index |= RECOVER_TOUCH - 1;
		else if (r->winners[index].segment)
			return index;
	}
	return r->indices;
}

/**
 * recover_progress - tell how much is done
 * @r: recovery
 * @done: segments, in this pass
 */
void recover_progress(const struct recover *r, uint32_t done)
{
	if (r->env.progress)
		r->env.progress(r->env.context, (uint64_t)r->pass * r->nr_segments + done,
				(uint64_t)r->passes * r->nr_segments);
}

/* Return: the first segment from @nr on that is read whole; @nr_segments: there is none. */
static uint32_t recover_next(const struct recover *r, uint32_t nr)
{
	while (nr < r->nr_segments && !r->segments[nr].winners &&
	       !(r->check && !r->segments[nr].lost))
		nr++;
	return nr;
}

/* Pass 1 of all segments. @oldest gets the lowest id of a segment that holds entries. */
static int recover_scans(struct recover *r, uint64_t *oldest)
{
	uint32_t nr, ahead = 0;
	int ret = 0;

	*oldest = UINT64_MAX;
	for (nr = 0; nr < r->nr_segments && !ret; nr++) {
		for (; ahead < r->nr_segments && ahead < nr + r->nr_frames - 1; ahead++)
			recover_scan_ahead(r, ahead, ahead);
		recover_use(r, nr);
		ret = recover_scan(r, nr);
		if (!ret && r->segments[nr].cut && r->segments[nr].item.segment < *oldest)
			*oldest = r->segments[nr].item.segment;
		recover_progress(r, nr + 1);
	}
	recover_ahead_end(r);
	r->pass++;
	return ret;
}

/* Pass 2 of all segments that need it, or the pass that verifies them. */
static int recover_loads(struct recover *r, uint64_t oldest)
{
	uint32_t nr = recover_next(r, 0), ahead = nr, turn = 0, turn_ahead = 0;
	int ret = 0, err;

	for (; nr < r->nr_segments && !ret; nr = recover_next(r, nr + 1), turn++) {
		for (; ahead < r->nr_segments && turn_ahead < turn + r->nr_frames - 1;
		     turn_ahead++) {
			recover_load_ahead(r, ahead, turn_ahead);
			ahead = recover_next(r, ahead + 1);
		}
		recover_use(r, turn);
		ret = recover_load(r, nr, oldest);
		recover_progress(r, nr + 1);
	}
	recover_ahead_end(r);
	r->pass++;
	err = recover_loaded(r);
	return ret ? ret : err;
}

/* Are there losses that the caller does not accept? */
static bool recover_lost(const struct recover *r, const struct recover_options *options)
{
	return r->result.losses && !options->accept_loss && !r->check;
}

/* Which code do the superblocks have to have, with new segments as @options say? One that is there stays at first. */
static struct recover_code recover_code(const struct recover *r, const struct recover_options *options)
{
	uint32_t code = __le32_to_cpu(r->super.code);

	if (options->code && (options->code->k || !STRIPE_RULE(CODE_LAST)))
		return *options->code;
	return (struct recover_code){ .k = lsmem_code_k(code), .m = lsmem_code_m(code) };
}

/* Can the store have the code that @options want? It has one at a time, and its digest log must have room for stripes. */
static int recover_check_code(struct recover *r, const struct recover_options *options)
{
	const struct digest_stripes *stripes = r->map.stripes;
	const struct recover_code code = recover_code(r, options);

	if (!options->code || !options->code->k)
		return 0;
	if (stripes && stripes->k && (stripes->k != code.k || stripes->m != code.m)) {
		recover_info(r, "there are segments of code %u+%u: a store gets another code when it has replicas only",
			     stripes->k, stripes->m);
		return -EINVAL;
	}
	if (!format_code(code.k, code.m, format_backups(&r->super)) ||
	    __le64_to_cpu(r->super.digest_bytes) < format_digest_bytes(2 * digest_places(&r->map) + 1)) {
		recover_info(r, "code %u+%u: the store was formatted without room for it", code.k, code.m);
		return -EINVAL;
	}
	return 0;
}

/* Do all passes. They write nothing to the backups. */
static int recover_passes(struct recover *r, const struct recover_options *options)
{
	bool places = options->instant && !r->check;	/* a check reads everything */
	uint64_t oldest;
	int ret;

	r->told = options->told;
	if (r->told && (!places || options->verify || format_coded(&r->super)))
		return -EINVAL;
	r->pass = 0;
	r->passes = places && options->verify ? 3 : 2;
	ret = recover_read_digests(r, options->accept_missing);
	if (!ret)
		ret = recover_check_code(r, options);
	if (!ret && r->told)
		ret = recover_told_digest(r, options->told);
	if (!ret)
		ret = recover_prepare(r);
	if (!ret)
		ret = r->told ? recover_told(r, options->told, &oldest) : recover_scans(r, &oldest);
	if (!ret && !recover_lost(r, options) && places && options->verify) {
		r->verifying = true;
		ret = recover_loads(r, oldest);
		r->verifying = false;
	}
	if (!ret && recover_lost(r, options))
		return -ENODATA;
	if (!ret)
		ret = places ? recover_places(r, oldest) : recover_loads(r, oldest);
	if (ret)
		return ret;
	return r->result.losses && !options->accept_loss ? -ENODATA : 0;
}

/*
 * The commit point: write the digest of a new term. Segments stay in their frames. The digest does
 * not list a segment without a winner: entries of listed segments supersede all entries in it.
 */
static int recover_commit(struct recover *r, const struct recover_options *options)
{
	const struct recover_code code = recover_code(r, options);
	struct digest_map *map = &r->map;
	uint32_t floor = r->generation, i, copy;
	uint32_t half;
	int ret = 0;

	if (r->era >= LSMEM_ERA_MAX) {
		recover_info(r, "the store has been recovered %u times: its eras are used up; copy it to a new one",
			     r->era);
		return -EOVERFLOW;
	}
	ret = recover_close_all(r);
	if (!ret && code.k && !map->stripes)
		ret = digest_map_code(map);
	if (ret)
		return ret;
	digest_items_clear(map);
	for (i = 0; i < r->nr_segments; i++) {
		struct recover_segment *seg = &r->segments[i];

		if (!seg->winners) {
			if (seg->coded)
				digest_lane_set(map, seg->place, &(struct digest_item){ .state = 0 });
			r->result.dropped++;
			continue;
		}
		if (seg->damaged)
			r->damaged[r->nr_damaged++] = seg->item.segment;
		seg->item.length = seg->cut;
		/* Invariant 15: sealed segments are never extended. Entries after the cut can be
		 * whole, and would seem to follow new entries.
		 */
		if (!seg->closed && RULE(SEAL))
			seg->item.state = LSMEM_ITEM_SEALED;
		if (seg->coded)
			digest_lane_set(map, seg->place, &seg->item);
		for (copy = 0; copy < seg->nr_copies && !seg->coded; copy++) {
			if (!(seg->good >> copy & 1u))
				continue;
			map->items[r->backups[seg->copies[copy].slot].index * map->frames +
				   seg->copies[copy].frame] = seg->item;
			map->nr++;
		}
		r->result.segments++;
		r->result.coded += seg->coded;
	}
	recover_members(r);
	digest_stripes_trim(map);
	if (STRIPE_RULE(CODE_FIRST))
		recover_set_code(r, &code);
	if (RULE(PROMISE))
		ret = recover_promise(r);
	else
		map->term++;
	if (ret)
		return ret;
	map->sequence = r->sequence + 1;
	if (r->accepted && RULE(BRANCH))
		map->branch = (struct digest_branch) {
			.term = map->term, .sequence = map->sequence, .id = options->branch,
		};
	/* Invariant 14: the era is above all versions, and the old ceiling above all generations,
	 * that were ever issued: also those of deleted objects, and those that the crash has lost.
	 */
	if (RULE(ERA))
		map->era = r->era + 1;
	map->generation_ceiling = LSMEM_GENERATION_MAX - floor < RECOVER_GENERATIONS ?
				  LSMEM_GENERATION_MAX : floor + RECOVER_GENERATIONS;
	if (r->time > map->store_time)
		map->store_time = r->time;
	if (map->next_segment <= r->max_segment)
		map->next_segment = r->max_segment + 1;
	if (map->next_segment < r->barrier)
		map->next_segment = r->barrier;
	r->activation = (struct recover_activation) {
		.era = map->era,
		.generation_floor = RULE(GENERATION) ? floor : 0,
		.generation_ceiling = map->generation_ceiling,
		.store_time = map->store_time,
		.next_segment = map->next_segment,
	};
	/* Write to the half that the chain does not use: until this record is whole, the chain
	 * counts.
	 */
	half = RULE(DIGEST_HALF) ? !map->half : map->half;
	ret = recover_write_digest(r, half);
	if (!ret && options->code && !options->code->k && code.k && !map->stripes->nr_shards)
		ret = recover_forget_code(r);
	return ret;
}

/**
 * recover_run - recover a store
 * @r: recover_open() returned RECOVER_FULL
 * @options: how; NULL: accept nothing
 * @result: out: what was found; may be NULL
 *
 * Return: 0; -ENODATA: acknowledged data are lost, @options does not accept that, and nothing was
 * written; -EBADMSG: there is no digest, or it contradicts itself; -EOVERFLOW: the eras are used
 * up; -ESTALE: what was told is not what the newest digest lists, nothing was written, and the caller
 * recovers without it; -EINVAL: @options contradicts itself, a source has told of a coded store, or the store
 * cannot get the code of @options, which is reported; -ENOMEM; or what a call returned. The first four are reported.
 */
int recover_run(struct recover *r, const struct recover_options *options,
		struct recover_result *result)
{
	static const struct recover_options none;
	int ret;

	if (!options)
		options = &none;
	memset(&r->result, 0, sizeof(r->result));
	r->check = false;
	ret = recover_passes(r, options);
	if (!ret)
		ret = recover_commit(r, options);
	if (result)
		*result = r->result;
	recover_forget(r);
	return ret;
}

/**
 * recover_check - read and check everything that the digest lists, and write nothing
 * @r: recover_open() returned RECOVER_FULL
 * @result: out: what was found; may be NULL
 *
 * Return: 0: a recovery would find everything; -ENODATA: something is lost or damaged, as reported;
 * or another error, as of recover_run().
 */
int recover_check(struct recover *r, struct recover_result *result)
{
	const struct recover_options options = { .accept_missing = true };
	uint32_t nr;
	int ret;

	memset(&r->result, 0, sizeof(r->result));
	r->check = true;
	ret = recover_passes(r, &options);
	for (nr = 0; nr < r->nr_segments; nr++) {
		r->result.segments += r->segments[nr].winners != 0;
		r->result.coded += r->segments[nr].winners && r->segments[nr].coded;
	}
	if (result)
		*result = r->result;
	recover_forget(r);
	return ret;
}
