// SPDX-License-Identifier: GPL-2.0
/*
 * Resuming an active store: a former daemon has ended, the kernel still has the store, and core
 * compares the newest digest with the segments that the kernel reports in RESUME events. The digest
 * can be ahead of what was acknowledged. These differences are valid:
 *
 *	listed, and OPEN not acknowledged	the daemon ended in between; the kernel sends
 *						OPEN again
 *	not listed, OPEN not acknowledged	the kernel sends OPEN again
 *	not listed, RETIRE sent			the record was durable; the kernel sends RETIRE
 *						again
 *	durable beyond what was acknowledged	core acknowledges it now
 *	closed in one of the two only		the kernel sends CLOSE again, or the next digest
 *						names it
 *
 * Any other difference means that the two are not of the same store, or that durable data were
 * lost: core fails and names it.
 */
#include "private.h"

static void core_resume_open(struct core *core, struct core_segment *seg,
			     const struct lsmem_event *event)
{
	struct core_open *open = core_open_get(core);
	uint32_t b;

	if (!open) {
		core_fail(core, "the kernel has more than %u segments open", CORE_OPENS);
		return;
	}
	open->event = *event;
	open->segment = seg;
	seg->open = open;
	open->reopened = !(event->flags & LSMEM_EVENT_OPENED);
	open->placed = core_seglets(core, open, event, 0) == CORE_NONE;
	open->stream = event->from;
	open->acked = open->acked_received = event->from;
	open->closed = seg->life == CORE_CLOSED;
	open->headed = true;
	/* Both are where a range of a former daemon ended: not inside a group (invariant 21). */
	open->durable = seg->item.length > event->from ? seg->item.length : event->from;
	open->committed = open->durable;
	/* The former daemon can have written everything up to @event->to. A tail block that ends
	 * earlier would replace bytes that a digest or a footer calls durable with zeroes.
	 */
	open->hold = RULE(RESUME_HOLD) ? event->to : 0;
	core_each_backup(b, seg->on) {
		struct core_replica *replica = &open->replica[b];

		replica->header = CORE_DURABLE;
		replica->issued = open->durable;
		replica->received = open->durable;
		replica->written = open->durable;
		replica->flushing = open->durable;
		replica->flushed = open->durable;
	}
	if (seg->coded && !open->closed)
		core_rows_resume(core, open);
	/* What the kernel calls acknowledged was durable. */
	if (seg->item.length < open->durable) {
		seg->item.length = open->durable;
		core_segment_dirty(core, seg);
	}
}

static void core_resume_segment(struct core *core, const struct lsmem_event *event)
{
	struct core_segment *seg = core_segment_find(core, event->segment);
	bool opened = event->flags & LSMEM_EVENT_OPENED;

	if (!seg) {
		if (!opened)
			return;
		if (!(event->flags & LSMEM_EVENT_RETIRED)) {
			core_fail(core, "segment %llu was acknowledged, but the newest digest %llu does not list it",
				  (unsigned long long)event->segment,
				  (unsigned long long)core->map.sequence);
			return;
		}
		if (core->nr_gone == CORE_GONE) {
			core_fail(core, "more than %u segments wait to be retired", CORE_GONE);
			return;
		}
		core->gone[core->nr_gone++] = event->segment;
		return;
	}
	if (seg->item.generation != event->generation || seg->seen) {
		core_fail(core, "segment %llu: generation %u in the digest, %u in the kernel%s",
			  (unsigned long long)event->segment, seg->item.generation,
			  event->generation, seg->seen ? ", reported twice" : "");
		return;
	}
	seg->seen = true;
	if (event->to < event->from || !core_fits(core, seg, event->to, 0) ||
	    event->to % LSMEM_ALIGN || event->from % LSMEM_ALIGN ||
	    seg->item.length > event->to || (!opened && event->to)) {
		core_fail(core, "segment %llu: the digest lists %u durable bytes, in the kernel %u of %u are acknowledged",
			  (unsigned long long)event->segment, seg->item.length, event->from,
			  event->to);
		return;
	}
	if (!(event->flags & LSMEM_EVENT_CLOSED)) {
		if (seg->life == CORE_SEALED) {
			core_fail(core, "segment %llu was sealed by a recovery, but the kernel has it open",
				  (unsigned long long)event->segment);
			return;
		}
		core_resume_open(core, seg, event);
		return;
	}
	seg->first_seglet = event->first_seglet;
	if (seg->life == CORE_OPEN) {
		seg->life = CORE_CLOSED;
		seg->item.length = event->to;
		core_segment_dirty(core, seg);
	}
}

/**
 * core_resume - handle RESUME: a segment that the kernel has, or the end of them
 * @core: core; fails if it is not CORE_RESUMING
 * @event: the event; segment UINT64_MAX: there are no more
 */
void core_resume(struct core *core, const struct lsmem_event *event)
{
	uint32_t i;

	if (core->state != CORE_RESUMING) {
		core_fail(core, "segment %llu: a RESUME event came after the end of them",
			  (unsigned long long)event->segment);
		return;
	}
	core->changes++;
	if (event->segment != UINT64_MAX) {
		core_resume_segment(core, event);
		return;
	}
	for (i = 0; i < core->nr_segments; i++) {
		const struct core_segment *seg = &core->segments[i];

		if (seg->life && !seg->seen) {
			core_fail(core, "segment %llu is listed in digest %llu, but the kernel does not know it",
				  (unsigned long long)seg->item.segment,
				  (unsigned long long)core->map.sequence);
			return;
		}
	}
	core->state = CORE_RUNNING;
	/* A full record goes to the other half: a record that the former daemon was writing can be
	 * after the end of this chain.
	 */
	core->full = true;
	core->ceiling_ack = core->map.generation_ceiling;
}
