// SPDX-License-Identifier: GPL-2.0
/*
 * Closing a segment: its directory and footer.
 *
 * At CLOSE, core walks through the entries in the log's memory and makes the directory. This takes
 * a few milliseconds for 8 MiB of the smallest objects, and needs no memory while the segment is
 * open. Each entry must be valid in its place. Otherwise the kernel and the daemon disagree about
 * the bytes of the segment, and core fails.
 */
#include <string.h>

#include "private.h"

/**
 * core_closed - handle CLOSE: a segment has its final length
 * @core: core
 * @event: the event
 */
void core_closed(struct core *core, const struct lsmem_event *event)
{
	struct core_segment *seg = core_segment_find(core, event->segment);
	struct core_open *open = seg ? seg->open : NULL;

	if (!open || open->closing || open->stream != event->to) {
		core_fail(core, "segment %llu: the kernel closes it at %u, but it is not open, or ends at %u",
			  (unsigned long long)event->segment, event->to, open ? open->stream : 0);
		return;
	}
	if (!core_fits(core, seg, event->to, event->entries)) {
		core_fail(core, "segment %llu: %u bytes and %u entries do not fit a frame",
			  (unsigned long long)event->segment, event->to, event->entries);
		return;
	}
	if (open->closed && open->durable != event->to) {
		core_fail(core, "segment %llu: the kernel closes it at %u, its footer says %u",
			  (unsigned long long)event->segment, event->to, open->durable);
		return;
	}
	open->closing = true;
	open->length = event->to;
	open->entries = event->entries;
	open->first_seglet = event->first_seglet;
	core->changes++;
}

/* A place in the log's memory of a segment: the seglet with its @piece of 64 KiB. */
struct core_place {
	uint32_t seglet, piece;
};

/* Move a place forward to home offset @at. Return: the byte there; NULL: core has failed. */
static const uint8_t *core_place_at(struct core *core, const struct core_open *open,
				    struct core_place *place, uint32_t at)
{
	while (place->seglet < core->log.nr_seglets && place->piece < at / LSMEM_SEGLET_BYTES) {
		place->seglet = core_follow(core, place->seglet);
		place->piece++;
	}
	if (place->seglet >= core->log.nr_seglets) {
		core_fail(core, "segment %llu: piece %u is not in memory",
			  (unsigned long long)open->event.segment, place->piece);
		return NULL;
	}
	return core->log.seglets + (uint64_t)place->seglet * LSMEM_SEGLET_BYTES +
	       at % LSMEM_SEGLET_BYTES;
}

/* Check the entry at @walk->at, and step over it; its payload can cross seglets. */
static bool core_walk_step(struct core *core, const struct core_open *open,
			   struct format_walk *walk, struct core_place *place,
			   struct lsmem_entry *entry)
{
	const uint8_t *byte = core_place_at(core, open, place, walk->at);
	uint32_t at = walk->at, pcrc = ~0u, left, part;
	enum format_error error;

	if (!byte)
		return false;
	memcpy(entry, byte, sizeof(*entry));
	error = format_walk_look(walk, entry);
	left = error || !lsmem_entry_covers(entry) ? 0 : lsmem_entry_length(entry);
	for (at += lsmem_entry_header(entry); left; at += part, left -= part) {
		part = LSMEM_SEGLET_BYTES - at % LSMEM_SEGLET_BYTES;
		if (part > left)
			part = left;
		byte = core_place_at(core, open, place, at);
		if (!byte)
			return false;
		pcrc = lsmem_crc32c(pcrc, byte, part);
	}
	if (!error)
		error = format_walk_pass(walk, entry, pcrc);
	if (!error)
		return true;
	core_fail(core, "segment %llu offset %u: no valid entry in the kernel's log: %s",
		  (unsigned long long)open->segment->item.segment, walk->at,
		  format_strerror(error));
	return false;
}

static bool core_make_directory(struct core *core, const struct core_open *open,
				struct core_close *close)
{
	uint32_t bytes = lsmem_directory_bytes(open->entries), entries = 0;
	struct lsmem_directory_entry *directory = (void *)close->buffer;
	struct lsmem_segment_footer *footer = (void *)(close->buffer + bytes);
	struct core_place place = { .seglet = open->first_seglet };
	struct format_verify sums;

	format_verify_begin(&sums, core->uuid, open->segment->item.segment,
			    open->segment->item.generation, open->length);
	memset(close->buffer, 0, bytes + LSMEM_BLOCK);
	while (sums.walk.at < open->length) {
		uint32_t at = sums.walk.at;
		struct lsmem_entry entry;

		if (!core_walk_step(core, open, &sums.walk, &place, &entry))
			return false;
		sums.entries_crc = lsmem_crc32c(sums.entries_crc, &entry.crc, sizeof(entry.crc));
		if (!format_is_listed(&entry))
			continue;
		if (entries < open->entries)
			directory[entries] = lsmem_entry_listing(&entry, at);
		entries++;
	}
	if (entries != open->entries) {
		core_fail(core, "segment %llu: the kernel counts %u entries, its log holds %u",
			  (unsigned long long)open->segment->item.segment, open->entries, entries);
		return false;
	}
	sums.entries = entries;
	sums.directory_crc = lsmem_crc32c(~0u, directory, entries * sizeof(*directory));
	format_footer_make(footer, core->uuid, open->segment->item.segment,
			   open->segment->item.generation, &sums);
	close->bytes = bytes + LSMEM_BLOCK;
	return true;
}

static void core_close_durable(struct core *core, struct core_close *close)
{
	struct core_open *open = close->open;
	struct core_segment *seg = open->segment;

	/* Invariant 8: closed means that length and CRC are durable. The digest can name the new
	 * state later: until then a recovery scans the segment.
	 */
	seg->life = CORE_CLOSED;
	core->copies = true;
	seg->item.length = open->length;
	seg->first_seglet = open->first_seglet;
	core_segment_dirty(core, seg);
	open->ack_close = true;
	open->close = NULL;
	close->open = NULL;
	core->stats.closed++;
	core->changes++;
}

/* The segment is closed when its directory and footer are in @state on every replica. */
static void core_close_check(struct core *core, struct core_close *close, uint8_t state)
{
	uint32_t b;

	core_each_backup(b, close->open->segment->on)
		if (close->to[b].state < state)
			return;
	core_close_durable(core, close);
}

static void core_close_write(struct core *core, struct core_close *close, uint32_t backup)
{
	struct core_transfer *to = &close->to[backup];

	while (to->issued < close->bytes) {
		struct core_op *op = core_op_get(core, CORE_OP_CLOSE, backup, false);
		uint32_t part = close->bytes - to->issued;

		if (!op)
			return;
		if (part > core->io_bytes)
			part = core->io_bytes;
		op->close = close;
		core_op_add(op, close->buffer + to->issued, part);
		core_op_start(core, op, core_where(core, close->open->segment, backup) +
			      LSMEM_SEGMENT_BYTES - close->bytes + to->issued);
		to->issued += part;
	}
}

/* Only with rule FOOTER_AFTER_DATA switched off: have all data been given to writes? */
static bool core_data_issued(const struct core_open *open)
{
	uint32_t b;

	if (open->rows)
		return open->rows->writer && row_issued(open->rows->writer) >= open->length;
	core_each_backup(b, open->segment->on)
		if (open->replica[b].issued < open->length)
			return false;
	return true;
}

/**
 * core_closes_run - make and write directories and footers
 * @core: core
 */
void core_closes_run(struct core *core)
{
	struct core_close *close;
	uint32_t i, b;

	for (i = 0; i < core->nr_opens; i++) {
		struct core_open *open = core->list[i];

		if (!open->closing || open->close || open->ack_close)
			continue;
		if (open->closed) {		/* a former daemon has written its footer */
			open->ack_close = true;
			core->changes++;
			continue;
		}
		/* Data first: a footer proves that all data before it are durable. */
		if (open->durable < open->length && (RULE(FOOTER_AFTER_DATA) ||
						     !core_data_issued(open)))
			continue;
		if (open->segment->life == CORE_CLOSED || open->segment->adding)
			continue;
		for (close = core->closes; close < core->closes + CORE_CLOSES; close++)
			if (!close->open)
				break;
		if (close == core->closes + CORE_CLOSES)
			break;
		if (!core_make_directory(core, open, close))
			return;
		if (open->rows && !core_rows_close(open->rows, close))
			continue;
		close->open = open;
		memset(close->to, 0, sizeof(close->to));
		open->close = close;
		core->changes++;
	}
	for (close = core->closes; close < core->closes + CORE_CLOSES; close++) {
		if (!close->open)
			continue;
		if (close->open->rows) {
			if (core_rows_close_run(core, close) && !RULE(CLOSE_AFTER_FLUSH))
				core_close_check(core, close, CORE_WRITTEN);
			if (close->open)
				core_close_check(core, close, CORE_DURABLE);
			continue;
		}
		core_each_backup(b, close->open->segment->on & ~core->lost)
			core_close_write(core, close, b);
		/* A replica may have been removed, and the others may be durable. */
		core_close_check(core, close, CORE_DURABLE);
	}
}

/**
 * core_close_done - complete a write of a directory and footer
 * @core: core
 * @op: the write
 */
void core_close_done(struct core *core, struct core_op *op)
{
	struct core_close *close = op->close;
	struct core_transfer *to = &close->to[op->io.backup];

	to->done += op->io.length;
	if (op->rows)
		core->changes++;
	if (op->rows || to->done < close->bytes)
		return;
	to->state = CORE_WRITTEN;
	core->flush_wanted[op->io.backup] = true;
	if (!RULE(CLOSE_AFTER_FLUSH))
		core_close_check(core, close, CORE_WRITTEN);
}

/**
 * core_closes_flush - note which directories and footers a flush covers
 * @core: core
 * @backup: backup to which the flush is being issued
 */
void core_closes_flush(struct core *core, uint32_t backup)
{
	uint32_t i;

	for (i = 0; i < CORE_CLOSES; i++)
		if (core->closes[i].to[backup].state == CORE_WRITTEN)
			core->closes[i].to[backup].state = CORE_FLUSHING;
}

/**
 * core_closes_flushed - note that the directories and footers that a flush covered are durable
 * @core: core
 * @backup: backup of the flush
 */
void core_closes_flushed(struct core *core, uint32_t backup)
{
	uint32_t i;

	for (i = 0; i < CORE_CLOSES; i++) {
		struct core_close *close = &core->closes[i];

		if (!close->open || close->to[backup].state != CORE_FLUSHING)
			continue;
		close->to[backup].state = CORE_DURABLE;
		core_close_check(core, close, CORE_DURABLE);
	}
}
