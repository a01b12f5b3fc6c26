/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints: append, stall, throttle, balance, compaction, cleaning, retirement,
 * revocation, ranges of pages.
 *
 * The file where an event happens calls trace_lsmem_*(); trace.c makes the functions.
 *
 * Seen under events/lsmem/ of tracefs.  The store's name is copied as an array
 * of its fixed size: no dynamic part, so a filter on it costs one comparison.
 * Times are nanoseconds, sizes bytes.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM lsmem

#if !defined(LSMEM_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define LSMEM_TRACE_H

#include <linux/string.h>
#include <linux/tracepoint.h>

#include "../uapi/lsmem.h"
#include "policy.h"

DECLARE_EVENT_CLASS(lsmem_waited,
		    TP_PROTO(const char *store, u64 ns),
	TP_ARGS(store, ns),
	TP_STRUCT__entry(
		__array(char, store, LSMEM_NAME_BYTES)
		__field(u64, ns)
	),
	TP_fast_assign(
		strscpy(__entry->store, store, LSMEM_NAME_BYTES);
		__entry->ns = ns;
	),
	TP_printk("store=%s ns=%llu", __entry->store, __entry->ns)
);

/* A writer has waited for space, with or without success. */
DEFINE_EVENT(lsmem_waited, lsmem_stall, TP_PROTO(const char *store, u64 ns), TP_ARGS(store, ns));

/* A writer has been slowed down. */
DEFINE_EVENT(lsmem_waited, lsmem_throttle, TP_PROTO(const char *store, u64 ns), TP_ARGS(store, ns));

/* msync() or fsync() of a range of pages has ended, with or without success. */
DEFINE_EVENT(lsmem_waited, lsmem_pages_sync, TP_PROTO(const char *store, u64 ns),
	     TP_ARGS(store, ns));

/*
 * Pages of a range have been written back, by a group of so many changes: pages, nodes, what was freed, and
 * the root.
 */
TRACE_EVENT(lsmem_pages_write,
	    TP_PROTO(const char *store, u64 root, u32 pages, u32 changes, u32 bytes),
	TP_ARGS(store, root, pages, changes, bytes),
	TP_STRUCT__entry(
		__array(char, store, LSMEM_NAME_BYTES)
		__field(u64, root)
		__field(u32, pages)
		__field(u32, changes)
		__field(u32, bytes)
	),
	TP_fast_assign(
		strscpy(__entry->store, store, LSMEM_NAME_BYTES);
		__entry->root = root;
		__entry->pages = pages;
		__entry->changes = changes;
		__entry->bytes = bytes;
	),
	TP_printk("store=%s root=%llx pages=%u changes=%u bytes=%u", __entry->store, __entry->root,
		  __entry->pages, __entry->changes, __entry->bytes)
);

/*
 * The balancer has decided: LSMEM_LEVEL_*, and from what.  Costs: bytes copied for
 * each that is freed, per mille, all ones: none can be.
 */
TRACE_EVENT(lsmem_balance,
	    TP_PROTO(const char *store, u32 level, u32 free_seglets,
		 const struct lsmem_balance *balance),
	TP_ARGS(store, level, free_seglets, balance),
	TP_STRUCT__entry(
		__array(char, store, LSMEM_NAME_BYTES)
		__field(u64, tombstones)
		__field(u64, compact_cost)
		__field(u64, clean_cost)
		__field(u32, level)
		__field(u32, free_seglets)
		__field(u32, segments)
	),
	TP_fast_assign(
		strscpy(__entry->store, store, LSMEM_NAME_BYTES);
		__entry->tombstones = balance->tombstones;
		__entry->compact_cost = balance->compact_cost;
		__entry->clean_cost = balance->clean_cost;
		__entry->level = level;
		__entry->free_seglets = free_seglets;
		__entry->segments = balance->segments_used;
	),
	TP_printk("store=%s level=%u free_seglets=%u segments=%u tombstones=%llu compact_cost=%llu clean_cost=%llu",
		  __entry->store, __entry->level, __entry->free_seglets, __entry->segments,
		  __entry->tombstones, __entry->compact_cost, __entry->clean_cost)
);

/* A segment has been compacted, from so many seglets to so few. */
TRACE_EVENT(lsmem_compact,
	    TP_PROTO(const char *store, u64 segment, u32 from, u32 to, u64 copied_bytes, u64 ns),
	TP_ARGS(store, segment, from, to, copied_bytes, ns),
	TP_STRUCT__entry(
		__array(char, store, LSMEM_NAME_BYTES)
		__field(u64, segment)
		__field(u64, copied_bytes)
		__field(u64, ns)
		__field(u32, from)
		__field(u32, to)
	),
	TP_fast_assign(
		strscpy(__entry->store, store, LSMEM_NAME_BYTES);
		__entry->segment = segment;
		__entry->copied_bytes = copied_bytes;
		__entry->ns = ns;
		__entry->from = from;
		__entry->to = to;
	),
	TP_printk("store=%s segment=%llu from=%u to=%u copied_bytes=%llu ns=%llu",
		  __entry->store, __entry->segment, __entry->from, __entry->to,
		  __entry->copied_bytes, __entry->ns)
);

/* The payload of an entry is in the log; not yet stamped, nor committed. */
TRACE_EVENT(lsmem_append,
	    TP_PROTO(const char *store, u64 key, u32 table, u64 segment, u32 offset, u32 length),
	TP_ARGS(store, key, table, segment, offset, length),
	TP_STRUCT__entry(
		__array(char, store, LSMEM_NAME_BYTES)
		__field(u64, key)
		__field(u64, segment)
		__field(u32, table)
		__field(u32, offset)
		__field(u32, length)
	),
	TP_fast_assign(
		strscpy(__entry->store, store, LSMEM_NAME_BYTES);
		__entry->key = key;
		__entry->segment = segment;
		__entry->table = table;
		__entry->offset = offset;
		__entry->length = length;
	),
	TP_printk("store=%s key=0x%llx table=%u segment=%llu offset=%u length=%u",
		  __entry->store, __entry->key, __entry->table, __entry->segment,
		  __entry->offset, __entry->length)
);

/* A pass begins: what its victims hold, and what of that is live. */
TRACE_EVENT(lsmem_clean_begin,
	    TP_PROTO(const char *store, u32 victims, u64 live, u64 held),
	TP_ARGS(store, victims, live, held),
	TP_STRUCT__entry(
		__array(char, store, LSMEM_NAME_BYTES)
		__field(u64, live)
		__field(u64, held)
		__field(u32, victims)
	),
	TP_fast_assign(
		strscpy(__entry->store, store, LSMEM_NAME_BYTES);
		__entry->live = live;
		__entry->held = held;
		__entry->victims = victims;
	),
	TP_printk("store=%s victims=%u live=%llu held=%llu", __entry->store,
		  __entry->victims, __entry->live, __entry->held)
);

TRACE_EVENT(lsmem_clean_victim,
	    TP_PROTO(const char *store, u64 segment, u32 live, u32 held),
	TP_ARGS(store, segment, live, held),
	TP_STRUCT__entry(
		__array(char, store, LSMEM_NAME_BYTES)
		__field(u64, segment)
		__field(u32, live)
		__field(u32, held)
	),
	TP_fast_assign(
		strscpy(__entry->store, store, LSMEM_NAME_BYTES);
		__entry->segment = segment;
		__entry->live = live;
		__entry->held = held;
	),
	TP_printk("store=%s segment=%llu live=%u held=%u", __entry->store,
		  __entry->segment, __entry->live, __entry->held)
);

/* The survivors of a pass are written; its victims wait to be retired. */
TRACE_EVENT(lsmem_clean_end,
	    TP_PROTO(const char *store, u64 relocated_bytes, u64 ns),
	TP_ARGS(store, relocated_bytes, ns),
	TP_STRUCT__entry(
		__array(char, store, LSMEM_NAME_BYTES)
		__field(u64, relocated_bytes)
		__field(u64, ns)
	),
	TP_fast_assign(
		strscpy(__entry->store, store, LSMEM_NAME_BYTES);
		__entry->relocated_bytes = relocated_bytes;
		__entry->ns = ns;
	),
	TP_printk("store=%s relocated_bytes=%llu ns=%llu", __entry->store,
		  __entry->relocated_bytes, __entry->ns)
);

/* Seglets of victims are free again. */
TRACE_EVENT(lsmem_retire,
	    TP_PROTO(const char *store, u32 segments, u64 waited_ns),
	TP_ARGS(store, segments, waited_ns),
	TP_STRUCT__entry(
		__array(char, store, LSMEM_NAME_BYTES)
		__field(u64, waited_ns)
		__field(u32, segments)
	),
	TP_fast_assign(
		strscpy(__entry->store, store, LSMEM_NAME_BYTES);
		__entry->waited_ns = waited_ns;
		__entry->segments = segments;
	),
	TP_printk("store=%s segments=%u waited_ns=%llu", __entry->store,
		  __entry->segments, __entry->waited_ns)
);

/* A view has outlived its bound and holds its seglets no more. */
TRACE_EVENT(lsmem_revoke,
	    TP_PROTO(const char *store, u64 epoch),
	TP_ARGS(store, epoch),
	TP_STRUCT__entry(
		__array(char, store, LSMEM_NAME_BYTES)
		__field(u64, epoch)
	),
	TP_fast_assign(
		strscpy(__entry->store, store, LSMEM_NAME_BYTES);
		__entry->epoch = epoch;
	),
	TP_printk("store=%s epoch=%llu", __entry->store, __entry->epoch)
);

#endif

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE trace

#include <trace/define_trace.h>
