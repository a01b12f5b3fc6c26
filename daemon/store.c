// SPDX-License-Identifier: GPL-2.0
/* The store in the kernel: creates or finds it, and checks it against backups and configuration. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "lsmemd.h"
#include "stripe/shard.h"

#define FORGET_US	10000u	/* between attempts of store_forget() */
#define FORGET_TRIES	100

/**
 * store_segment_bytes - what a new segment has on backups
 * @d: the daemon
 *
 * Return: bytes: a frame; of a coded segment a block of header, and the rows.
 */
uint32_t store_segment_bytes(const struct lsmemd *d)
{
	const struct config *c = &d->config;
	struct shard_geometry g;

	return d->coded && shard_geometry(&g, c->store.code.k, c->store.code.m, SHARD_FRAME) ? shard_segment_bytes(&g) :
	       LSMEM_SEGMENT_BYTES;
}

/**
 * store_room - count the segments that the backups can hold
 * @d: the daemon
 * @r: the recovery, with open backups
 */
uint64_t store_room(const struct lsmemd *d, const struct recover *r)
{
	uint64_t room = recover_room(r, config_wanted(&d->config));

	/* A stripe has a frame on each of so many backups, and k segments. */
	return config_coded(&d->config) ? room * d->config.store.code.k : room;
}

/* Can the store have the segments that the configuration wants? Return: STATUS_OK or STATUS_USAGE. */
static int check_code(const struct lsmemd *d, const struct lsmem_super *super)
{
	uint32_t code = le32toh(super->code), k = lsmem_code_k(code), m = lsmem_code_m(code), slot;
	const struct config *c = &d->config;
	const char *file = d->options.config_path;

	if (code && c->move.listen_line + c->move.from_line) {
		log_err("%s: [move]: the store on %s has segments of code = %u+%u, and this version does not move coded stores; leave [move] out",
			file, d->where, k, m);
		return STATUS_USAGE;
	}
	for (slot = 0; code && slot < c->nr_backups; slot++) {
		if (!c->backups[slot].ack_memory)
			continue;
		log_err("%s:%u: ack = memory: the store on %s has segments of code = %u+%u, whose writes count when they are durable on all shards; leave it out",
			file, c->backups[slot].ack_line, d->where, k, m);
		return STATUS_USAGE;
	}
	if (k == c->store.code.k && m == c->store.code.m)
		return STATUS_OK;
	if (code && config_coded(c)) {
		log_err("%s:%u: code = %u+%u, but the store on %s has code = %u+%u: a store gets another code when it has replicas only; leave code out, with convert_rate, until it has",
			file, c->store.code_line, c->store.code.k, c->store.code.m, d->where, k, m);
		return STATUS_USAGE;
	}
	if (c->store.convert_rate)
		return STATUS_OK;
	if (code)
		log_err("%s: the store on %s is coded: \"code = %u+%u\" is needed in [store], in place of replicas; or convert_rate, to convert it to replicas",
			file, d->where, k, m);
	else
		log_err("%s:%u: code = %u+%u, but the store on %s has replicas: leave code out; or add convert_rate, to convert it",
			file, c->store.code_line, c->store.code.k, c->store.code.m, d->where);
	return STATUS_USAGE;
}

/**
 * store_check_geometry - do the configuration file and the backup describe the same store?
 * @d: the daemon
 * @super: superblock of the backup
 *
 * Logs the difference.
 *
 * Return: STATUS_OK or STATUS_USAGE.
 */
int store_check_geometry(const struct lsmemd *d, const struct lsmem_super *super)
{
	const struct config *c = &d->config;
	uint64_t bytes = le64toh(super->store_bytes), handles = le64toh(super->max_handles);
	uint64_t capacity = le64toh(super->capacity);
	uint32_t kind = le32toh(super->kind);
	const char *file = d->options.config_path;

	if (format_backups(super) != c->nr_backups) {
		log_err("%s: names %u backups, and the store has %u: name them all, also those that are lost",
			file, c->nr_backups, format_backups(super));
		return STATUS_USAGE;
	}
	if (c->store.kind_line && c->store.kind != kind) {
		log_err("%s:%u: kind = %s, but %s is the backup of a store of kind = %s", file,
			c->store.kind_line, kernel_kind(c->store.kind), d->where,
			kernel_kind(kind));
		return STATUS_USAGE;
	}
	if (c->store.size_line && c->store.bytes != bytes) {
		log_err("%s:%u: size = %" PRIu64 "M, but the store on %s has %" PRIu64 "M, and a store keeps its size",
			file, c->store.size_line, c->store.bytes >> 20, d->where,
			bytes >> 20);
		return STATUS_USAGE;
	}
	if (c->store.capacity_line && c->store.capacity != capacity) {
		log_err("%s:%u: capacity = %" PRIu64 "M, but the store on %s %s %" PRIu64 "M, and a store keeps its capacity",
			file, c->store.capacity_line, c->store.capacity >> 20, d->where,
			capacity ? "has" : "is not tiered: all of it is in its memory of",
			(capacity ? capacity : bytes) >> 20);
		return STATUS_USAGE;
	}
	if (c->store.handles_line && c->store.handles != handles) {
		log_err("%s:%u: handles = %" PRIu64 ", but the store on %s has %" PRIu64 ", and a store keeps its number of handles",
			file, c->store.handles_line, c->store.handles, d->where, handles);
		return STATUS_USAGE;
	}
	if (c->store.node_line && !strncmp(c->store.node, "lsmemb", 6) !=
				  (kind == LSMEM_KIND_BLOCK)) {
		log_err("%s:%u: node = %s, but %s is the backup of a store of kind = %s", file,
			c->store.node_line, c->store.node, d->where, kernel_kind(kind));
		return STATUS_USAGE;
	}
	return check_code(d, super);
}

/*
 * Segments that the log of a store can have: as many as the backups have room for, up to the kernel's limit.
 * Of a backup that is missing nothing is known: the log may have grown into it.
 */
static uint32_t backup_segments(const struct lsmemd *d, const struct recover *r, const struct lsmem_super *super,
				uint64_t bytes, uint64_t capacity)
{
	uint64_t full = (capacity ? capacity : bytes) / LSMEM_SEGMENT_BYTES;
	uint64_t room = store_room(d, r), any;
	uint32_t slot;

	/* While a store is converted, its log has segments of two kinds. Each is in a frame at least. */
	any = super && d->config.store.convert_rate ? recover_room(r, 1) : 0;
	if (room < any)
		room = any;
	for (slot = 0; super && slot < d->config.nr_backups; slot++)
		if (!recover_slot_super(r, slot))
			room = LSMEM_SEGMENTS_MOST * full;
	return (uint32_t)(room < LSMEM_SEGMENTS_MOST * full ? room : LSMEM_SEGMENTS_MOST * full);
}

/*
 * An empty store gets the contents of the backups. All their segments may hold some, so it must have been
 * made for as many: else the recovery could end in the middle.
 *
 * Return: STATUS_OK or STATUS_REFUSED.
 */
static int check_segments(const struct lsmemd *d, const struct recover *r, const struct lsmem_super *super)
{
	uint32_t all = backup_segments(d, r, super, d->kernel.bytes, d->kernel.capacity);
	uint64_t made;

	if (d->kernel.state != LSMEM_STATE_NEW || d->created)
		return STATUS_OK;
	kernel_number(d->kernel.name, "segments_max", &made);
	if (made >= all)
		return STATUS_OK;
	log_err("%s: is empty, and its log can have %" PRIu64 " segments; that of the store on %s can have %" PRIu32 ": \"lsmemctl destroy %s\", leave out \"node =\", and lsmemd makes a store that fits",
		d->kernel.name, made, d->where, all, d->kernel.name);
	return STATUS_REFUSED;
}

/**
 * store_check_active - with --again: is the store still in memory?
 * @d: the daemon
 * @uuid: of the store
 *
 * --again resumes a store in memory. It never recovers one: another host may have recovered it.
 * Logs an error.
 *
 * Return: STATUS_OK or STATUS_REFUSED.
 */
int store_check_active(const struct lsmemd *d, const uint8_t *uuid)
{
	char name[LSMEM_NAME_BYTES];

	if (!d->options.again || !kernel_find(uuid, name))
		return STATUS_OK;
	log_err("%s: its store is not in memory any more, and --again is for one that is; start lsmemd without it to recover the store",
		d->where);
	return STATUS_REFUSED;
}

/**
 * store_plan - what a store is made with
 * @d: the daemon
 * @r: the recovery, with open backups
 * @super: superblock of the backups; NULL: they are blank
 * @plan: out: for store_make()
 */
void store_plan(const struct lsmemd *d, const struct recover *r, const struct lsmem_super *super,
		struct lsmem_create *plan)
{
	const struct config *c = &d->config;
	struct lsmem_create create;

	memset(&create, 0, sizeof(create));
	create.flags = LSMEM_STORE_DURABLE | (c->store.charge ? LSMEM_STORE_CHARGED : 0) |
		       (c->store.instant ? LSMEM_STORE_INSTANT : 0);
	create.kind = super ? le32toh(super->kind) : c->store.kind;
	create.bytes = super ? le64toh(super->store_bytes) :
		       c->store.bytes ? c->store.bytes : CONFIG_STORE_BYTES_DEFAULT;
	create.capacity = super ? le64toh(super->capacity) : c->store.capacity;
	create.segments = backup_segments(d, r, super, create.bytes, create.capacity);
	if (create.segments < LSMEM_SEGMENTS_LEAST * ((create.capacity ? create.capacity : create.bytes) /
						      LSMEM_SEGMENT_BYTES))
		create.segments = 0;	/* the default is less than the least that can be asked for */
	if (create.kind == LSMEM_KIND_OBJECT) {
		create.handles_max = super ? le64toh(super->max_handles) : c->store.handles;
		create.mode = c->store.mode;
		create.uid = c->store.uid;
		create.gid = c->store.gid;
	}
	*plan = create;
}

/*
 * A start that was killed before the store was active leaves it here, with nothing in it, and, since it was created, with its
 * uuid, which no other store has: it is no data, and has the memory and the name that this start needs. One in which a daemon is
 * at work is attached, and is not destroyed.
 */
static void drop_left(const struct lsmemd *d, const uint8_t *uuid)
{
	char name[LSMEM_NAME_BYTES];
	int err;

	while (!kernel_find_new(uuid, name)) {
		err = kernel_destroy(d->control, name, false);
		if (err) {
			log_warn("%s: was left by a start that did not end, and cannot be destroyed: %s", name, strerror(-err));
			return;
		}
		log_notice("%s: was left by a start that did not end, and was empty: destroyed", name);
	}
}

/**
 * store_make - make a store in the kernel, and attach to it
 * @d: the daemon; out: @kernel, and @created
 * @plan: from store_plan(); out: the name
 * @uuid: of the store
 *
 * What an earlier start has left of the store is destroyed first. Logs errors.
 *
 * Context: takes as long as the kernel needs for the memory, which no signal but SIGKILL ends.
 * Return: 0 or a negative errno.
 */
int store_make(struct lsmemd *d, struct lsmem_create *plan, const uint8_t *uuid)
{
	char name[LSMEM_NAME_BYTES];
	int err;

	drop_left(d, uuid);
	memcpy(plan->uuid, uuid, sizeof(plan->uuid));
	err = kernel_create(d->control, plan);
	if (err)
		return err;
	d->created = true;
	memcpy(name, plan->name, sizeof(name));
	err = kernel_attach(&d->kernel, d->control, name, uuid);
	if (err)
		log_err("%s: cannot be attached: %s", name, strerror(-err));
	else
		log_notice("%s: made, %" PRIu64 " MiB of kind = %s", name, (uint64_t)plan->bytes >> 20,
			   kernel_kind(plan->kind));
	memcpy(d->kernel.name, name, sizeof(name));
	return err;
}

/**
 * store_give_memory - let backups write from the log memory
 * @d: the daemon, its store mapped; backups that can do so already stay as they are
 */
void store_give_memory(struct lsmemd *d)
{
	uint32_t slot;

	for (slot = 0; slot < d->config.nr_backups; slot++)
		if (d->backups[slot].private && !d->backups[slot].memory)
			backup_memory(&d->backups[slot], d->kernel.seglets, d->kernel.seglets_bytes);
}

/**
 * store_detach - detach from the store
 * @d: the daemon; no backup writes. out: @kernel keeps its name
 */
void store_detach(struct lsmemd *d)
{
	char name[LSMEM_NAME_BYTES];
	uint32_t slot;

	for (slot = 0; slot < d->config.nr_backups; slot++)
		if (d->backups[slot].private && d->backups[slot].memory)
			backup_memory(&d->backups[slot], NULL, 0);
	memcpy(name, d->kernel.name, sizeof(name));
	kernel_detach(&d->kernel);
	memcpy(d->kernel.name, name, sizeof(name));
}

/**
 * store_forget - have the kernel forget all that was loaded or placed of a store that was never active
 * @d: the daemon, attached to it
 * @uuid: of the store
 *
 * Detaches and attaches again. If that fails, which is logged, so do all calls that follow.
 */
void store_forget(struct lsmemd *d, const uint8_t *uuid)
{
	char name[LSMEM_NAME_BYTES];
	int err, tries = 0;

	store_detach(d);
	memcpy(name, d->kernel.name, sizeof(name));
	while ((err = kernel_attach(&d->kernel, d->control, name, uuid)) == -EBUSY && tries++ < FORGET_TRIES)
		usleep(FORGET_US);
	if (err)
		log_err("%s: cannot be attached again: %s", name, strerror(-err));
	memcpy(d->kernel.name, name, sizeof(name));
}

static int create_store(struct lsmemd *d, const struct recover *r,
			const struct lsmem_super *super, const uint8_t *uuid, char *name)
{
	const struct config *c = &d->config;
	struct lsmem_create create;

	store_plan(d, r, super, &create);
	if (store_make(d, &create, uuid))
		return STATUS_ERROR;
	memcpy(name, create.name, LSMEM_NAME_BYTES);
	if (create.capacity)
		log_notice("%s: tiered: its capacity is %" PRIu64 " MiB", name,
			   (uint64_t)create.capacity >> 20);
	if (c->store.node_line && strcmp(name, c->store.node)) {
		log_err("%s:%u: node = %s: there is no such store, and a new one gets %s; leave it out, and use /dev/lsmem-by-name or /dev/lsmem-by-uuid",
			d->options.config_path, c->store.node_line, c->store.node, name);
		return STATUS_REFUSED;
	}
	return STATUS_OK;
}

/*
 * Choose the kind of new segments. The kernel keeps the length that the activation said, and a coded segment is shorter: if it
 * was told the longer one, they get replicas until the store is recovered.
 *
 * Return: STATUS_OK or STATUS_REFUSED.
 */
static int choose_kind(struct lsmemd *d)
{
	uint64_t has;

	d->coded = config_coded(&d->config);
	if (!d->coded || d->kernel.state != LSMEM_STATE_ACTIVE)
		return STATUS_OK;
	if (!kernel_number(d->kernel.name, "segment_bytes", &has))
		has = LSMEM_SEGMENT_BYTES;	/* an older module */
	if (has <= store_segment_bytes(d))
		return STATUS_OK;
	if (!d->config.store.convert_rate) {
		log_err("%s: is active with segments of %" PRIu64 " bytes on backups, and this lsmemd writes %" PRIu32 ": serve it with the lsmemd that made it active, stop that one, and destroy the store (lsmemctl destroy %s); then this one recovers it",
			d->kernel.name, has, store_segment_bytes(d), d->kernel.name);
		return STATUS_REFUSED;
	}
	d->coded = false;
	log_notice("%s: was made active with replicas, and gets them until its next recovery, which begins to convert it to code = %u+%u (to begin now: stop lsmemd, \"lsmemctl destroy %s\", and start it)",
		   d->kernel.name, d->config.store.code.k, d->config.store.code.m, d->kernel.name);
	return STATUS_OK;
}

static int attach_failed(struct lsmemd *d, const char *name, bool full, int err)
{
	switch (err) {
	case -EBUSY:
		log_err("%s: another lsmemd serves it", name);
		return STATUS_BUSY;
	case -EXDEV:
		if (full)
			log_err("%s: is active, and %s is the backup of another store; give it its own backup, or name another store in %s",
				name, d->where, d->options.config_path);
		else
			log_err("%s: is active, and %s is blank: what it holds is on another backup; give it that one (a blank backup never stands for an active store)",
				name, d->where);
		return STATUS_REFUSED;
	case -EOPNOTSUPP:
		log_err("%s: is volatile: it has no use for a daemon", name);
		return STATUS_REFUSED;
	default:
		log_err("%s: cannot be attached: %s", name, strerror(-err));
		return STATUS_ERROR;
	}
}

/**
 * store_attach - attach to the store of the backups; create it if the kernel does not have it
 * @d: the daemon
 * @r: the recovery, with open backups
 * @super: superblock of the backups; NULL: they are blank
 * @uuid: of the store
 *
 * Logs why it fails.
 *
 * Return: a STATUS_*.
 */
int store_attach(struct lsmemd *d, const struct recover *r, const struct lsmem_super *super,
		 const uint8_t *uuid)
{
	const struct config *c = &d->config;
	char name[LSMEM_NAME_BYTES] = "";
	int status, err;

	if (c->store.node_line) {
		strcpy(name, c->store.node);
	} else if (super) {
		(void)kernel_find(uuid, name);
	} else if (!kernel_find_orphan(c->store.kind, name)) {
		log_err("%s: is active and no daemon serves it, and %s is blank: give it its own backup; if this is meant for a new store, destroy the old one first or start its daemon",
			name, d->where);
		return STATUS_REFUSED;
	}
	if (d->created) {	/* before this host took the store (take.c) */
		strcpy(name, d->kernel.name);
		err = 0;
	} else {
		err = *name ? kernel_attach(&d->kernel, d->control, name, uuid) : -ENODEV;
	}
	if (err == -ENODEV) {
		status = create_store(d, r, super, uuid, name);
		if (status)
			return status;
		err = 0;
	}
	if (err)
		return attach_failed(d, name, super, err);
	status = frozen_check(d);
	if (!status)
		status = choose_kind(d);
	if (status)
		return status;
	if (super && (d->kernel.kind != le32toh(super->kind) ||
		      d->kernel.bytes != le64toh(super->store_bytes) ||
		      d->kernel.capacity != le64toh(super->capacity) ||
		      d->kernel.handles_max != le64toh(super->max_handles))) {
		log_err("%s: has %" PRIu64 " MiB, capacity %" PRIu64 " MiB and %" PRIu64 " handles, the store on %s has %" PRIu64 " MiB, capacity %" PRIu64 " MiB and %" PRIu64 " handles (capacity 0: not tiered); leave out \"node =\" and lsmemd makes a store that fits",
			name, d->kernel.bytes >> 20, d->kernel.capacity >> 20,
			d->kernel.handles_max, d->where,
			(uint64_t)le64toh(super->store_bytes) >> 20,
			(uint64_t)le64toh(super->capacity) >> 20,
			(uint64_t)le64toh(super->max_handles));
		return STATUS_REFUSED;
	}
	if (!super && (d->kernel.kind != c->store.kind ||
		       (c->store.size_line && d->kernel.bytes != c->store.bytes) ||
		       (c->store.capacity_line && d->kernel.capacity != c->store.capacity) ||
		       (c->store.handles_line && d->kernel.handles_max != c->store.handles))) {
		log_err("%s: is of kind = %s, size = %" PRIu64 "M, capacity = %" PRIu64 "M (0: not tiered), handles = %" PRIu64 ", and %s says otherwise; a store keeps what it was made with",
			name, kernel_kind(d->kernel.kind), d->kernel.bytes >> 20,
			d->kernel.capacity >> 20, d->kernel.handles_max, d->options.config_path);
		return STATUS_USAGE;
	}
	return super ? check_segments(d, r, super) : STATUS_OK;
}

/**
 * store_give_name - give the store its name
 * @d: the daemon, its store attached
 *
 * If another store has the name, the start fails only if the configuration asks for the name and
 * this start has created the store, so that nothing waits for it. Otherwise it logs a warning.
 *
 * Context: before the activation, at which udev makes links with the name.
 * Return: STATUS_OK or STATUS_REFUSED.
 */
int store_give_name(const struct lsmemd *d)
{
	const struct config *c = &d->config;
	int err = kernel_give_name(&d->kernel, c->store.name);

	if (!err || err == -ENOENT)	/* an older module */
		return STATUS_OK;
	if (err == -EEXIST && c->store.name_line && d->created) {
		log_err("%s:%u: name = %s: another store has this name (lsmemctl list)",
			d->options.config_path, c->store.name_line, c->store.name);
		return STATUS_REFUSED;
	}
	log_warn("%s: is not called \"%s\": %s", d->kernel.name, c->store.name,
		 err == -EEXIST ? "another store is; \"name =\" in [store] gives it another name" :
		 strerror(-err));
	return STATUS_OK;
}
