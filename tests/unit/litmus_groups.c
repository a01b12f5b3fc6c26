// SPDX-License-Identifier: GPL-2.0
/*
 * Named scenarios of groups (invariant 21): a recovery finds a group whole or not at all.  Scripts
 * that are swept, and logs that are written by hand to the frame of an open segment.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "litmus_private.h"
#include "base/memory.h"
#include "recover/private.h"

static const struct sim_options small = { .frames = 24, .size = 0, .steps = 100 };

/* ---- Swept scripts ------------------------------------------------------ */

static void lit_group(uint32_t index, uint32_t head, const uint32_t *lengths, uint32_t nr)
{
	run.sim->model->clock++;
	if (!run.over)
		model_group(run.sim->model, index, head, lengths, nr);
}

/* Segments of this script take groups of several blocks. */
static void lit_large(void)
{
	uint32_t i;

	for (i = 0; i < MODEL_SEGMENTS && !run.over; i++)
		run.sim->model->segments[i].limit = 40000;
}

static const uint32_t fresh[] = { 3000, 60, 5000, 1 }, mixed[] = { 0, 4000, 0, 2000, 100 };

static void groups(void)
{
	lit_settle();
	lit_large();
	lit_group(0, 1, fresh, 4);
	lit_step(1);
	lit_group(4, 2, fresh, 3);
	lit_settle();
	lit_group(0, 1, mixed, 5);
	lit_put(7, 1, 3000);
	lit_step(2);
	lit_group(3, 2, mixed, 5);
	lit_settle();
	lit_roll(1);
	lit_roll(2);
	lit_settle();
	lit_clean(3);
	lit_settle();
}

bool litmus_groups(void)
{
	return sweep(groups, &small);
}

/* A later writer of an object of the group wins on another head, and becomes durable first. */
static void group_races(void)
{
	struct model *m = run.sim->model;

	lit_settle();
	lit_large();
	lit_group(0, 1, fresh, 4);
	lit_settle();
	if (!run.over)
		model_group_begin(m, 0, 1, mixed, 5);
	lit_put(1, 2, 3000);
	lit_delete(2, 2);
	lit_step(2);
	if (!run.over && m->nr_pending)
		model_finish(m, m->nr_pending - 1);
	lit_step(1);
	lit_put(3, 2, 60);
	lit_settle();
}

bool litmus_group_races(void)
{
	return sweep(group_races, &small);
}

/* Digests and commit records hold how far the ranges have been acknowledged. */
static void group_ranges(void)
{
	uint32_t i;

	lit_settle();
	lit_large();
	run.sim->model->pieces = true;
	for (i = 0; i < 3; i++) {
		lit_group(3 * i, 1, i == 1 ? mixed : fresh, 4);
		lit_step(2);
		lit_tick();
		lit_step(2);
	}
	lit_kill();
	lit_group(0, 1, mixed, 5);
	lit_settle();
	lit_tick();
	lit_settle();
}

bool litmus_group_ranges(void)
{
	return sweep(group_ranges, &small);
}

/* ---- Logs written by hand ------------------------------------------------ */

#define HAND_VERSION	lsmem_version_make(1, 1)

/**
 * struct hand - the log of an open segment
 * @sim: its power has failed
 * @where: offset of the log data on the disk
 * @data: the log data; bytes that are not written are zero
 * @at: where the next entry goes
 */
struct hand {
	struct sim *sim;
	uint64_t segment, where;
	uint32_t salt;
	uint8_t *data;
	uint32_t at;
};

static bool hand_begin(struct hand *hand)
{
	struct sim *sim = sim_new(31, &small);
	bool ok = sim_start(sim, false);
	const struct model_segment *seg;

	sim_settle(sim);
	model_roll(sim->model, 1);
	seg = &sim->model->segments[sim->model->heads[1] - 1];
	*hand = (struct hand) {
		.sim = sim, .segment = seg->id, .salt = seg->salt,
		.data = memory_get(LSMEM_SEGMENT_BYTES),
	};
	sim_cut(sim, DISK_CUT_KEEP);
	hand->where = lit_frame(sim, hand->segment, NULL) + LSMEM_BLOCK;
	memset(hand->data, 0, LSMEM_SEGMENT_BYTES);
	return ok && !sim->error[0] && hand->where > LSMEM_BLOCK;
}

static void hand_end(struct hand *hand)
{
	memory_put(hand->data);
	sim_free(hand->sim);
}

/* Stamp an entry of any type at @at.  Return: where it ends. */
static uint32_t hand_stamp(struct hand *hand, uint32_t at, uint32_t type, uint64_t value,
			   uint32_t index)
{
	bool listed = type == LSMEM_TYPE_OBJECT || type == LSMEM_TYPE_TOMBSTONE;
	struct lsmem_entry e = lsmem_entry_make(type, value, listed ? lsmem_handle_make(index, 1) : 0,
						HAND_VERSION + at, 0, 0, at);
	uint8_t *payload = hand->data + at + lsmem_entry_header(&e);
	uint32_t pcrc = ~0u;

	if (lsmem_entry_covers(&e)) {
		memset(payload, index + 1, lsmem_entry_length(&e));
		pcrc = lsmem_crc32c(pcrc, payload, lsmem_entry_length(&e));
	}
	e.crc = __cpu_to_le32(lsmem_entry_crc(&e, pcrc, hand->salt));
	memcpy(hand->data + at, &e, lsmem_entry_header(&e));
	return at + lsmem_entry_bytes(&e);
}

/* Append an entry.  Return: where it begins. */
static uint32_t hand_add(struct hand *hand, uint32_t type, uint64_t value, uint32_t index)
{
	uint32_t at = lsmem_entry_start(hand->at);

	hand->at = hand_stamp(hand, at, type, value, index);
	return at;
}

/* Append padding so that the next entry begins at @to. */
static void hand_pad(struct hand *hand, uint32_t to)
{
	hand_add(hand, LSMEM_TYPE_PAD, to - hand->at - LSMEM_LONG_BYTES, 0);
}

/* Append the record of a group, to be stamped by hand_group_end(). */
static uint32_t hand_group(struct hand *hand)
{
	uint32_t at = lsmem_entry_start(hand->at);

	hand->at = at + LSMEM_LONG_BYTES;
	return at;
}

/* The group that @record begins ends here; @off: what its value says too much. */
static void hand_group_end(struct hand *hand, uint32_t record, int32_t off)
{
	hand_stamp(hand, record, LSMEM_TYPE_GROUP, hand->at - record - LSMEM_LONG_BYTES + off, 0);
}

/* Write the log, holes as holes. */
static void hand_write(struct hand *hand)
{
	uint32_t at;

	for (at = 0; at < RECOVER_DATA_MAX; at += LSMEM_BLOCK) {
		struct iovec iov = { .iov_base = hand->data + at, .iov_len = LSMEM_BLOCK };

		if (at > hand->at + LSMEM_BLOCK)
			break;
		if (!format_is_zero(hand->data + at, LSMEM_BLOCK) ||
		    !disk_hole(hand->sim->disk, hand->where + at, LSMEM_BLOCK))
			disk_complete(hand->sim->disk,
				      disk_write(hand->sim->disk, hand->where + at, &iov, 1));
	}
	disk_settle(hand->sim->disk);
}

static bool hand_find(struct hand *hand, uint32_t cut, uint32_t objects, uint32_t tombstones,
		      const char *what, uint32_t times)
{
	struct recover_result check = { 0 }, result = { 0 };
	struct digest_item item = { 0 };
	bool ok;

	ok = !lit_recover(hand->sim, false, true, &check) &&
	     !lit_recover(hand->sim, false, false, &result) && check.objects == objects &&
	     result.objects == objects && result.tombstones == tombstones && !result.losses &&
	     lit_frame(hand->sim, hand->segment, &item) &&
	     (item.state == LSMEM_ITEM_CLOSED || item.state == LSMEM_ITEM_SEALED) &&
	     item.length == cut;
	if (!ok && !lsmem_mutation)
		printf("# %s, recovery %u: cut at %u, not %u; %u and %u objects, not %u; %u tombstones, not %u; %s\n",
		       what, times, item.length, cut, (uint32_t)check.objects,
		       (uint32_t)result.objects, objects, (uint32_t)result.tombstones, tombstones,
		       hand->sim->last_damage);
	return ok;
}

/*
 * Recover: the log is cut at @cut, and so much is found.  A second recovery finds the same, also if
 * what was missing behind the seal has come up in between: @whole is the whole log then.
 */
static bool hand_is(struct hand *hand, uint32_t cut, uint32_t objects, uint32_t tombstones,
		    const uint8_t *whole, const char *what)
{
	bool ok;

	hand_write(hand);
	ok = hand_find(hand, cut, objects, tombstones, what, 1) &&
	     hand_find(hand, cut, objects, tombstones, what, 2);
	if (ok && whole) {
		memcpy(hand->data, whole, hand->at);
		hand_write(hand);
		ok = hand_find(hand, cut, objects, tombstones, what, 3);
	}
	return ok;
}

#define TORN_ENTRIES	4u

/*
 * Two objects, a group that replaces one, deletes the other and has two more, then an object and a
 * commit record that knows of nothing acknowledged.
 */
static uint32_t torn_log(struct hand *hand, uint32_t at[TORN_ENTRIES])
{
	uint32_t record, cut;

	hand_add(hand, LSMEM_TYPE_OBJECT, 100, 0);
	hand_add(hand, LSMEM_TYPE_OBJECT, 3000, 2);
	cut = hand->at;
	record = hand_group(hand);
	at[0] = hand_add(hand, LSMEM_TYPE_OBJECT, 3000, 1);
	at[1] = hand_add(hand, LSMEM_TYPE_TOMBSTONE, hand->segment + 1, 2);
	at[2] = hand_add(hand, LSMEM_TYPE_OBJECT, 200, 0);
	at[3] = hand_add(hand, LSMEM_TYPE_OBJECT, 5000, 3);
	hand_group_end(hand, record, 0);
	hand_add(hand, LSMEM_TYPE_OBJECT, 50, 4);
	hand_add(hand, LSMEM_TYPE_COMMIT, cut, 0);
	return cut;
}

enum tear {
	TEAR_HEADER,		/* the entry's header was not written */
	TEAR_PAYLOAD,		/* the last byte of its payload is another */
	TEAR_REST,		/* nothing from the entry on was written */
	TEAR_PADDED,		/* none: the entry lost a race */
	TEARS
};

static bool torn_once(uint32_t entry, enum tear tear)
{
	uint8_t *whole = memory_get(LSMEM_SEGMENT_BYTES);
	uint32_t at[TORN_ENTRIES], cut;
	struct lsmem_entry *e;
	struct hand hand;
	char what[80];
	bool ok;

	snprintf(what, sizeof(what), "entry %u of a group torn, kind %u", entry, tear);
	ok = hand_begin(&hand);
	cut = torn_log(&hand, at);
	memcpy(whole, hand.data, hand.at);
	e = (void *)(hand.data + at[entry]);
	switch (tear) {
	case TEAR_HEADER:
		memset(e, 0, LSMEM_SHORT_BYTES);
		break;
	case TEAR_PAYLOAD:
		hand.data[at[entry] + lsmem_entry_header(e) + lsmem_entry_length(e) - 1] ^= 1;
		break;
	case TEAR_REST:
		memset(e, 0, hand.at - at[entry]);
		break;
	default:
		hand_stamp(&hand, at[entry], LSMEM_TYPE_PAD,
			   lsmem_entry_bytes(e) - LSMEM_LONG_BYTES, 0);
	}
	if (tear != TEAR_PADDED)
		ok = ok && hand_is(&hand, cut, 2, 0, whole, what);
	else	/* without the delete, or without a new object; or with the old version */
		ok = ok && hand_is(&hand, hand.at, entry == 1 ? 5 : entry == 2 ? 4 : 3, entry != 1,
				   NULL, what);
	memory_put(whole);
	hand_end(&hand);
	return ok;
}

bool litmus_group_torn(void)
{
	uint32_t at[TORN_ENTRIES], entry, tear;
	struct hand hand;
	bool ok;

	ok = hand_begin(&hand);
	torn_log(&hand, at);
	ok = ok && hand_is(&hand, hand.at, 4, 1, NULL, "a whole group");
	hand_end(&hand);
	for (tear = 0; tear < TEARS && ok; tear++)
		for (entry = 0; entry < TORN_ENTRIES && ok; entry++)
			ok = torn_once(entry, tear);
	return ok;
}

/* The value of the record says @off bytes more than there are. */
static bool lie_once(int32_t off, bool nested)
{
	uint32_t record, inner = 0, cut;
	struct hand hand;
	char what[80];
	bool ok;

	snprintf(what, sizeof(what), "%s, %d bytes off", nested ? "a group in a group" : "a group",
		 off);
	ok = hand_begin(&hand);
	hand_add(&hand, LSMEM_TYPE_OBJECT, 100, 0);
	cut = hand.at;
	record = hand_group(&hand);
	hand_add(&hand, LSMEM_TYPE_OBJECT, 1000, 1);
	if (nested)
		inner = hand_group(&hand);
	hand_add(&hand, LSMEM_TYPE_OBJECT, 1000, 2);
	hand_add(&hand, LSMEM_TYPE_OBJECT, 1000, 3);
	if (nested)
		hand_group_end(&hand, inner, 0);
	hand_group_end(&hand, record, off);
	hand_add(&hand, LSMEM_TYPE_OBJECT, 1000, 4);
	hand_add(&hand, LSMEM_TYPE_COMMIT, cut, 0);
	ok = ok && hand_is(&hand, cut, 1, 0, NULL, what);
	hand_end(&hand);
	return ok;
}

bool litmus_group_lies(void)
{
	static const int32_t off[] = {
		-8, 8, 512, -1000, 1, LSMEM_SEGMENT_BYTES - 4000, RECOVER_DATA_MAX - 4000,
	};
	bool ok = lie_once(0, true);
	uint32_t i;

	for (i = 0; i < sizeof(off) / sizeof(off[0]) && ok; i++)
		ok = lie_once(off[i], false);
	return ok;
}

enum gap {
	GAP_RECORD,		/* after the record */
	GAP_INSIDE,		/* after the first of two objects */
	GAP_BEHIND,		/* behind the group */
	GAPS
};

/* What is before the gap ends @left bytes before the end of a seglet. */
static bool gap_once(uint32_t left, enum gap gap, int32_t off)
{
	uint32_t record, cut;
	struct hand hand;
	char what[80];
	bool ok;

	snprintf(what, sizeof(what), "a gap of %u bytes, kind %u, %d bytes off", left, gap, off);
	ok = hand_begin(&hand);
	hand_add(&hand, LSMEM_TYPE_OBJECT, 100, 0);
	hand_pad(&hand, LSMEM_SEGLET_BYTES - left - LSMEM_LONG_BYTES -
			(gap == GAP_RECORD ? 0 : lsmem_entry_size(100)));
	cut = hand.at;
	record = hand_group(&hand);
	hand_add(&hand, LSMEM_TYPE_OBJECT, 100, 1);
	if (gap == GAP_BEHIND)
		hand_group_end(&hand, record, off);
	hand_add(&hand, LSMEM_TYPE_OBJECT, 100, 2);
	if (gap != GAP_BEHIND)
		hand_group_end(&hand, record, off);
	hand_add(&hand, LSMEM_TYPE_OBJECT, 100, 3);
	ok = ok && hand_is(&hand, off ? cut : hand.at, off ? 1 : 4, 0, NULL, what);
	hand_end(&hand);
	return ok;
}

bool litmus_group_gaps(void)
{
	uint32_t left, gap;
	bool ok = true;

	for (left = 0; left < 48 && ok; left += 8)
		for (gap = 0; gap < GAPS && ok; gap++)
			ok = gap_once(left, gap, 0);
	/* The value counts the gaps inside, and not the one behind. */
	for (left = 8; left < LSMEM_LONG_BYTES && ok; left += 8)
		ok = gap_once(left, GAP_RECORD, -(int32_t)left) &&
		     gap_once(left, GAP_INSIDE, -(int32_t)left) && gap_once(left, GAP_BEHIND, left);
	return ok;
}

/* A group of an object of 100 bytes begins @left bytes before the end of the log data. */
static bool end_once(uint32_t left, int32_t off, bool whole)
{
	uint32_t record, cut;
	struct hand hand;
	char what[80];
	bool ok;

	snprintf(what, sizeof(what), "a group %u bytes before the end, %d bytes off", left, off);
	ok = hand_begin(&hand);
	hand_add(&hand, LSMEM_TYPE_OBJECT, 100, 0);
	hand_pad(&hand, RECOVER_DATA_MAX - left);
	cut = hand.at;
	record = hand_group(&hand);
	if (left >= LSMEM_LONG_BYTES + lsmem_entry_size(100))
		hand_add(&hand, LSMEM_TYPE_OBJECT, 100, 1);
	hand_group_end(&hand, record, off);
	ok = ok && hand_is(&hand, whole ? hand.at : cut, whole ? 2 : 1, 0, NULL, what);
	hand_end(&hand);
	return ok;
}

bool litmus_group_end(void)
{
	uint32_t size = lsmem_entry_size(100);

	return end_once(LSMEM_LONG_BYTES + size, 0, true) &&
	       end_once(LSMEM_LONG_BYTES + size, 8, false) &&
	       end_once(LSMEM_LONG_BYTES + size + 24, 0, true) &&
	       end_once(LSMEM_LONG_BYTES, size, false) &&
	       end_once(LSMEM_LONG_BYTES, LSMEM_SEGMENT_BYTES - 8, false);
}

/* A digest calls the segment sealed, as the recovery of an earlier version leaves it. */
static bool hand_seal(struct hand *hand)
{
	struct sim *sim = hand->sim;
	struct recover *r = recover_new(&sim->env);
	struct digest_map map;
	enum recover_state state;
	struct iovec iov;
	uint32_t frame;
	bool ok;

	sim->io_left = UINT32_MAX;
	ok = !recover_open(r, &state) && !recover_map(r, false);
	map = *recover_digest(r);
	for (frame = 0; ok && frame < map.frames; frame++) {
		if (map.items[frame].segment != hand->segment)
			continue;
		map.items[frame].state = LSMEM_ITEM_SEALED;
		map.items[frame].length = hand->at;
	}
	map.sequence++;
	iov.iov_len = digest_full_bytes(&map);
	iov.iov_base = memory_get(iov.iov_len);
	memset(iov.iov_base, 0, iov.iov_len);
	digest_full(iov.iov_base, &map, recover_super(r));
	disk_complete(sim->disk, disk_write(sim->disk, format_half_offset(recover_super(r), !map.half),
					    &iov, 1));
	disk_settle(sim->disk);
	memory_put(iov.iov_base);
	recover_free(r);
	return ok;
}

/* A byte of a group is destroyed that is known to have been acknowledged: a loss, and reported. */
bool litmus_group_lost(void)
{
	uint32_t at[TORN_ENTRIES], when;
	bool ok = true;

	for (when = 0; when < 2 && ok; when++) {
		struct hand hand;
		uint32_t end;

		ok = hand_begin(&hand);
		torn_log(&hand, at);
		/* Either a commit record says so, or the length of a sealed segment. */
		end = at[3] + lsmem_entry_size(5000);
		hand_add(&hand, LSMEM_TYPE_COMMIT, end, 0);
		hand_write(&hand);
		if (when)
			ok = ok && hand_seal(&hand);
		hand.data[at[3] + LSMEM_LONG_BYTES + 77] ^= 4;
		hand_write(&hand);
		ok = ok && lit_recover(hand.sim, false, false, NULL) == -ENODATA &&
		     lit_recover(hand.sim, false, true, NULL) == -ENODATA &&
		     hand.sim->last_damage[0];
		/* If the loss is accepted, none of the group is found. */
		ok = ok && !lit_recover(hand.sim, true, false, NULL) &&
		     hand_find(&hand, at[0] - LSMEM_LONG_BYTES, 2, 0, "an accepted loss", 2);
		if (!ok && !lsmem_mutation)
			printf("# an acknowledged group, case %u: %s\n", when,
			       hand.sim->last_damage);
		hand_end(&hand);
	}
	return ok;
}
