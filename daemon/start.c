// SPDX-License-Identifier: GPL-2.0
/*
 * The start: which backup, which store, do they belong together, and what is
 * to be done so that the store can be served.
 *
 *	backup	    store in the kernel	    what is done
 *	blank	    none, new		    format, activate
 *	full	    none, new		    recover, activate
 *	full	    active, same uuid	    resume
 *	full	    active, another uuid    refuse
 *	blank	    active		    refuse
 *	other	    any			    refuse
 *
 * Invariant 18: a store that is new never replaces a backup that is full, and
 * a backup that is blank never stands for a store that is active.
 */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lsmem_format.h>

#include "log.h"
#include "lsmemd.h"
#include "notify.h"

#define RUN	"/run/lsmem"
#define PORT_STEP_US	100000u
#define LOOKS	5	/* at digests that may just be written */

static const char *kind_name(uint32_t kind)
{
	return kind == LSMEM_KIND_BLOCK ? "block" : "object";
}

/* ---- The metrics ------------------------------------------------------- */

/* Before anything is changed.  A predecessor that was killed keeps the port as it keeps the backup. */
static int open_metrics(struct lsmemd *d)
{
	const struct config *c = &d->config;
	uint64_t end = status_now_ns() + c->backup.lock_wait * 1000000000ull;
	bool said = false;
	int err;

	if (!c->metrics.listen_line)
		return STATUS_OK;
	for (;;) {
		err = http_open(&d->http, (const struct sockaddr *)&c->metrics.address,
				c->metrics.length);
		if (err != -EADDRINUSE || status_now_ns() >= end)
			break;
		if (!said)
			log_notice("%s: in use; waiting up to %u s for it",
				   c->metrics.listen, c->backup.lock_wait);
		said = true;
		signals_poll(&d->signals);
		if (d->signals.stop)
			return STATUS_OK;
		usleep(PORT_STEP_US);
	}
	if (!err) {
		log_notice("metrics are at http://%s/metrics", c->metrics.listen);
		return STATUS_OK;
	}
	log_err("%s:%u: listen = %s: %s%s", d->options.config_path, c->metrics.listen_line,
		c->metrics.listen, strerror(-err), err == -EADDRINUSE ?
		"; another program has this port, each daemon needs its own" : "");
	return err == -EADDRINUSE ? STATUS_BUSY : STATUS_ERROR;
}

/* ---- The backup -------------------------------------------------------- */

/* progress of backup_open() has no context: there is one daemon. */
static struct lsmemd *opening;

static int open_progress(const char *what, uint64_t done, uint64_t all)
{
	static uint64_t said;
	uint64_t now = status_now_ns();

	signals_poll(&opening->signals);
	if (opening->signals.stop)
		return -ECANCELED;
	if (all < 1u << 20 || now - said < 1000000000u)
		return 0;
	said = now;
	log_info("%s: %s %" PRIu64 " of %" PRIu64 " MiB", opening->config.backup.path, what,
		 done >> 20, all >> 20);
	notify_send("STATUS=Creating the backup: %" PRIu64 " of %" PRIu64 " MiB", done >> 20,
		    all >> 20);
	return 0;
}

enum open_mode {
	OPEN_WRITE,
	OPEN_READ,
	OPEN_LOOK,		/* beside whoever writes */
};

static int open_backup(struct lsmemd *d, enum open_mode how, uint64_t fence_epoch)
{
	struct backup_options options = {
		.path = d->config.backup.path,
		.create_bytes = how == OPEN_WRITE ? d->config.backup.size : 0,
		.lock_wait = d->config.backup.lock_wait,
		.read_only = how != OPEN_WRITE,
		.beside = how == OPEN_LOOK,
		.fence_epoch = fence_epoch,
		.key = d->config.backup.key_line ? d->config.backup.key : NULL,
		.timeout = d->config.backup.timeout,
		.progress = open_progress,
	};
	const struct backup_limits *limits = &d->backup.limits;
	int err;

	opening = d;
	err = backup_open(&d->backup, &d->loop, &options);
	if (err)
		return err == -EBUSY ? STATUS_BUSY :
		       err == -ELOOP || err == -ESTALE || err == -EKEYREJECTED ? STATUS_REFUSED :
		       err == -ECANCELED ? STATUS_OK : STATUS_ERROR;
	log_info("%s: %" PRIu64 " MiB, requests up to %" PRIu32 " KiB, %s, blocks of %" PRIu32 "/%" PRIu32,
		 d->backup.path, limits->bytes >> 20, limits->io_bytes >> 10,
		 limits->volatile_cache ? "volatile cache" : "no volatile cache", limits->logical,
		 limits->physical);
	if (limits->io_bytes < LSMEM_SEGLET_BYTES) {
		log_err("%s: takes requests of %" PRIu32 " bytes at the most, %u are needed",
			d->backup.path, limits->io_bytes, LSMEM_SEGLET_BYTES);
		return STATUS_ERROR;
	}
	return STATUS_OK;
}

static void look_report(void *context, enum recover_severity severity, const char *text)
{
	(void)severity;
	log_debug("%s: while somebody may write to it: %s",
		  ((struct lsmemd *)context)->backup.path, text);
}

/*
 * The epoch to take the backup over with: one more than its newest digest has,
 * as the recovery that follows will write.  Whoever writes meanwhile may make
 * what is read contradict itself: then it is read again.
 */
static int next_epoch(struct lsmemd *d, uint64_t *epoch)
{
	struct recover_env env;
	enum recover_state state;
	struct recover *r;
	int err = -EAGAIN, tries, status;

	status = open_backup(d, OPEN_LOOK, 0);
	if (status || !d->backup.private)
		return status;
	restore_env(d, &env);
	env.report = look_report;
	for (tries = 0; tries < LOOKS && err && err != -ECANCELED; tries++) {
		r = recover_new(&env);
		if (!r)
			break;
		err = recover_open(r, &state);
		if (!err && state == RECOVER_FULL)
			err = recover_map(r);
		if (!err)
			*epoch = 1 + (state == RECOVER_FULL ? recover_digest(r)->epoch : 0);
		recover_free(r);
	}
	backup_close(&d->backup);
	d->backup.private = NULL;
	if (!err || err == -ECANCELED)
		return STATUS_OK;
	log_err("%s: its epoch cannot be read: %s; nothing was taken over", d->backup.path,
		strerror(-err));
	return STATUS_REFUSED;
}

/* Ours alone, if need be against who has it. */
static int hold_backup(struct lsmemd *d)
{
	uint64_t epoch = 0;
	int status;

	if (d->options.take_over) {
		status = next_epoch(d, &epoch);
		if (status || d->signals.stop)
			return status;
		log_notice("%s: taking it over with epoch %" PRIu64, d->config.backup.path, epoch);
	}
	return open_backup(d, OPEN_WRITE, epoch);
}

static int refuse_content(const struct lsmemd *d)
{
	log_err("%s: holds something that is not a backup this lsmemd can use; if all of it may be lost, start lsmemd once with --format --force",
		d->backup.path);
	return STATUS_REFUSED;
}

/* What is on the backup; with --format, nothing after this. */
static int look(struct lsmemd *d, struct recover *r, enum recover_state *state)
{
	char name[LSMEM_NAME_BYTES];
	bool blank;
	int err;

	err = recover_open(r, state);
	if (err == -ECANCELED)
		return STATUS_OK;
	if (err && err != -EBADMSG) {
		log_err("%s: cannot be read: %s", d->backup.path, strerror(-err));
		return STATUS_ERROR;
	}
	blank = !err && *state == RECOVER_BLANK;
	if (blank && restore_blank(d, &blank))
		return STATUS_ERROR;
	if (blank)
		return STATUS_OK;
	if (!d->options.format)
		return !err && *state == RECOVER_FULL ? STATUS_OK : refuse_content(d);
	if (!err && *state == RECOVER_FULL) {
		if (!kernel_find(recover_super(r)->uuid, name)) {
			log_err("%s: is the backup of %s, which is active in the kernel; destroy the store first (lsmemctl destroy %s), then format",
				d->backup.path, name, name);
			return STATUS_REFUSED;
		}
	} else if (!d->options.force) {
		log_err("%s: holds something that is not a backup of lsmem; --format --force overwrites it",
			d->backup.path);
		return STATUS_REFUSED;
	}
	log_notice("%s: overwriting what is on it, as --format says", d->backup.path);
	if (restore_wipe(d))
		return STATUS_ERROR;
	err = recover_open(r, state);
	if (err || *state != RECOVER_BLANK) {
		log_err("%s: is not blank after it was wiped", d->backup.path);
		return STATUS_ERROR;
	}
	return STATUS_OK;
}

/* ---- The store --------------------------------------------------------- */

/* What the file says must be what the backup says. */
static int check_geometry(const struct lsmemd *d, const struct lsmem_super *super)
{
	const struct config *c = &d->config;
	uint64_t bytes = le64toh(super->store_bytes), handles = le64toh(super->max_handles);
	uint32_t kind = le32toh(super->kind);
	const char *file = d->options.config_path;

	if (c->store.kind_line && c->store.kind != kind) {
		log_err("%s:%u: kind = %s, but %s is the backup of a store of kind = %s", file,
			c->store.kind_line, kind_name(c->store.kind), d->backup.path,
			kind_name(kind));
		return STATUS_USAGE;
	}
	if (c->store.size_line && c->store.bytes != bytes) {
		log_err("%s:%u: size = %" PRIu64 "M, but the store on %s has %" PRIu64 "M, and a store keeps its size",
			file, c->store.size_line, c->store.bytes >> 20, d->backup.path,
			bytes >> 20);
		return STATUS_USAGE;
	}
	if (c->store.handles_line && c->store.handles != handles) {
		log_err("%s:%u: handles = %" PRIu64 ", but the store on %s has %" PRIu64 ", and a store keeps its number of handles",
			file, c->store.handles_line, c->store.handles, d->backup.path, handles);
		return STATUS_USAGE;
	}
	if (c->store.name_line && !strncmp(c->store.name, "lsmemb", 6) !=
				  (kind == LSMEM_KIND_BLOCK)) {
		log_err("%s:%u: name = %s, but %s is the backup of a store of kind = %s", file,
			c->store.name_line, c->store.name, d->backup.path, kind_name(kind));
		return STATUS_USAGE;
	}
	return STATUS_OK;
}

/*
 * Segments that the log may have: as many as the backup has frames, within what the
 * kernel takes; 0, its default, when the backup is of the least size.
 */
static uint32_t backup_segments(const struct lsmemd *d, const struct lsmem_super *super,
				uint64_t store_bytes)
{
	uint64_t full = store_bytes / LSMEM_SEGMENT_BYTES, frames;

	frames = super ? le64toh(super->frames) : d->backup.limits.bytes / LSMEM_SEGMENT_BYTES;
	while (!super && frames && recover_backup_bytes(frames) > d->backup.limits.bytes)
		frames--;
	if (!super && frames)
		frames--;	/* formatting may leave one more to the digest log */
	if (frames > LSMEM_SEGMENTS_MOST * full)
		frames = LSMEM_SEGMENTS_MOST * full;
	return frames < LSMEM_SEGMENTS_LEAST * full ? 0 : (uint32_t)frames;
}

static int create_store(struct lsmemd *d, const struct lsmem_super *super, char *name)
{
	const struct config *c = &d->config;
	struct lsmem_create create;

	memset(&create, 0, sizeof(create));
	create.flags = LSMEM_STORE_DURABLE;
	create.kind = super ? le32toh(super->kind) : c->store.kind;
	create.bytes = super ? le64toh(super->store_bytes) :
		       c->store.bytes ? c->store.bytes : CONFIG_STORE_BYTES_DEFAULT;
	create.segments = backup_segments(d, super, create.bytes);
	if (create.kind == LSMEM_KIND_OBJECT) {
		create.handles_max = super ? le64toh(super->max_handles) : c->store.handles;
		create.mode = c->store.mode;
		create.uid = c->store.uid;
		create.gid = c->store.gid;
	}
	if (kernel_create(d->control, &create))
		return STATUS_ERROR;
	d->created = true;
	memcpy(name, create.name, LSMEM_NAME_BYTES);
	memcpy(d->kernel.name, create.name, LSMEM_NAME_BYTES);
	log_notice("%s: made, %" PRIu64 " MiB of kind = %s", name, (uint64_t)create.bytes >> 20,
		   kind_name(create.kind));
	if (c->store.name_line && strcmp(name, c->store.name)) {
		log_err("%s:%u: name = %s: there is no such store, and a new one is called %s; leave the name out, or make the stores in the order of their names",
			d->options.config_path, c->store.name_line, c->store.name, name);
		return STATUS_REFUSED;
	}
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
				name, d->backup.path, d->options.config_path);
		else
			log_err("%s: is active, and %s is blank: what it holds is on another backup; give it that one (a blank backup never stands for an active store)",
				name, d->backup.path);
		return STATUS_REFUSED;
	case -EOPNOTSUPP:
		log_err("%s: is volatile: it has no use for a daemon", name);
		return STATUS_REFUSED;
	default:
		log_err("%s: cannot be attached: %s", name, strerror(-err));
		return STATUS_ERROR;
	}
}

static int attach_store(struct lsmemd *d, const struct lsmem_super *super, const uint8_t *uuid)
{
	const struct config *c = &d->config;
	char name[LSMEM_NAME_BYTES] = "";
	int status, err;

	if (c->store.name_line) {
		strcpy(name, c->store.name);
	} else if (super) {
		(void)kernel_find(uuid, name);
	} else if (!kernel_find_orphan(c->store.kind, name)) {
		log_err("%s: is active and no daemon serves it, and %s is blank: give it its own backup; if this is meant for a new store, destroy the old one first or start its daemon",
			name, d->backup.path);
		return STATUS_REFUSED;
	}
	err = *name ? kernel_attach(&d->kernel, d->control, name, uuid) : -ENODEV;
	if (err == -ENODEV) {
		status = create_store(d, super, name);
		if (status)
			return status;
		err = kernel_attach(&d->kernel, d->control, name, uuid);
	}
	if (err)
		return attach_failed(d, name, super, err);
	if (super && (d->kernel.kind != le32toh(super->kind) ||
		      d->kernel.bytes != le64toh(super->store_bytes) ||
		      d->kernel.handles_max != le64toh(super->max_handles))) {
		log_err("%s: has %" PRIu64 " MiB and %" PRIu64 " handles, the store on %s has %" PRIu64 " MiB and %" PRIu64 " handles; leave out \"name =\" and lsmemd makes a store that fits",
			name, d->kernel.bytes >> 20, d->kernel.handles_max, d->backup.path,
			(uint64_t)le64toh(super->store_bytes) >> 20,
			(uint64_t)le64toh(super->max_handles));
		return STATUS_REFUSED;
	}
	if (!super && (d->kernel.kind != c->store.kind ||
		       (c->store.size_line && d->kernel.bytes != c->store.bytes) ||
		       (c->store.handles_line && d->kernel.handles_max != c->store.handles))) {
		log_err("%s: is of kind = %s, size = %" PRIu64 "M, handles = %" PRIu64 ", and %s says otherwise; a store keeps what it was made with",
			name, kind_name(d->kernel.kind), d->kernel.bytes >> 20,
			d->kernel.handles_max, d->options.config_path);
		return STATUS_USAGE;
	}
	return STATUS_OK;
}

/* ---- What is done ------------------------------------------------------ */

static int format(struct lsmemd *d, struct recover *r, const uint8_t *uuid)
{
	struct recover_geometry geometry;
	int err;

	memset(&geometry, 0, sizeof(geometry));
	memcpy(geometry.uuid, uuid, sizeof(geometry.uuid));
	geometry.kind = d->kernel.kind;
	geometry.store_bytes = d->kernel.bytes;
	geometry.max_handles = d->kernel.handles_max;
	/* As many as the log may have segments, or it would wait for a frame for ever. */
	geometry.frames = kernel_segments(d->kernel.name);
	if (!geometry.frames) {
		log_err("%s: sysfs does not tell how many segments it may have",
			d->kernel.name);
		return STATUS_ERROR;
	}
	do {
		if (getrandom(&geometry.incarnation, sizeof(geometry.incarnation), 0) < 0)
			return STATUS_ERROR;
	} while (!geometry.incarnation);
	err = recover_format(r, &geometry);
	if (err == -ENOSPC) {
		log_err("%s: %" PRIu64 " MiB are too little for a store of %" PRIu64 " MiB, whose log may have %" PRIu32 " segments of 8 MiB: %" PRIu64 " MiB are needed",
			d->backup.path, d->backup.limits.bytes >> 20, d->kernel.bytes >> 20,
			geometry.frames, (recover_backup_bytes(geometry.frames) >> 20) + 1);
		return STATUS_REFUSED;
	}
	if (err) {
		log_err("%s: cannot be formatted: %s", d->backup.path, strerror(-err));
		return STATUS_ERROR;
	}
	log_notice("%s: formatted, %" PRIu64 " segments", d->backup.path,
		   (uint64_t)le64toh(recover_super(r)->frames));
	return STATUS_OK;
}

static void tell_result(struct lsmemd *d, const struct recover_result *result, uint64_t ns)
{
	log_notice("%s: recovered %" PRIu64 " objects, %" PRIu64 " MiB live, from %" PRIu64 " segments (%" PRIu64 " MiB read) in %" PRIu64 ".%03" PRIu64 " s; %" PRIu64 " losses",
		   d->backup.path, result->objects, result->live_bytes >> 20, result->segments,
		   result->read_bytes >> 20, ns / 1000000000u, ns / 1000000u % 1000u,
		   result->losses);
}

static int recover(struct lsmemd *d, struct recover *r)
{
	struct recover_options options = { .accept_loss = d->options.accept_loss };
	struct status *status = &d->status;
	struct recover_result result;
	uint64_t start = status_now_ns(), ns;
	int err;

	status->state = "recovering";
	status->recovery = true;
	http_tell(&d->http, status);
	log_notice("%s: recovering %s", d->backup.path, d->kernel.name);
	notify_send("STATUS=Recovering %s from %s", d->kernel.name, d->backup.path);
	memset(&result, 0, sizeof(result));
	err = recover_run(r, &options, &result);
	if (err == -ECANCELED)
		return STATUS_OK;
	ns = status_now_ns() - start;
	status->read_bytes = result.read_bytes;
	status->recovered_bytes = result.live_bytes;
	status->recovered_objects = result.objects;
	status->recovered_segments = result.segments;
	status->recovery_ms = ns / 1000000u;
	if (result.losses > status->losses)
		status->losses = result.losses;
	if (!err) {
		status->recovery_done = status->recovery_all;
		tell_result(d, &result, ns);
		return STATUS_OK;
	}
	status->state = "failed";
	status_write(status);
	if (err == -ENODATA) {
		log_err("%s: %" PRIu64 " losses, named above; nothing was changed. If there is a better copy of the backup, use it; to go on without what is lost, start lsmemd with --accept-loss",
			d->backup.path, status->losses);
		return STATUS_LOST;
	}
	log_err("%s: the recovery failed: %s; it can be tried again", d->backup.path,
		strerror(-err));
	return err == -EBADMSG ? STATUS_REFUSED : STATUS_ERROR;
}

static int bring_up(struct lsmemd *d, struct recover *r, enum recover_state state,
		    const uint8_t *uuid)
{
	int err;

	if (d->kernel.state == LSMEM_STATE_NEW)
		return state == RECOVER_BLANK ? format(d, r, uuid) : recover(d, r);
	log_notice("%s: resuming, backup %s", d->kernel.name, d->backup.path);
	err = recover_map(r);
	if (!err)
		return STATUS_OK;
	if (err == -ECANCELED)
		return STATUS_OK;
	log_err("%s: its digests cannot be read: %s; the store stays readable, repair the path to the backup and start lsmemd again",
		d->backup.path, strerror(-err));
	return err == -EBADMSG ? STATUS_REFUSED : STATUS_ERROR;
}

static void name_status(struct lsmemd *d)
{
	struct status *status = &d->status;
	const char *file = d->options.status_file;
	int n;

	if (file)
		n = snprintf(status->path, sizeof(status->path), "%s", file);
	else
		n = snprintf(status->path, sizeof(status->path), RUN "/%s.json", d->kernel.name);
	if (!file && mkdir(RUN, 0755) && errno != EEXIST)
		log_warn(RUN ": cannot be made: %s", strerror(errno));
	if (n >= (int)sizeof(status->path))
		status->path[0] = 0;
	strcpy(status->store, d->kernel.name);
	status->kind = d->kernel.kind;
	status->backup = d->backup.path;
}

static int make_core(struct lsmemd *d, struct recover *r)
{
	struct core_params params = {
		.super = { recover_super(r) },
		.map = recover_digest(r),
		.log = {
			.frames = d->kernel.frames,
			.table = d->kernel.table,
			.nr_frames = d->kernel.nr_frames,
		},
		.resume = d->kernel.state == LSMEM_STATE_ACTIVE,
		.io_bytes = d->backup.limits.io_bytes & ~(LSMEM_SEGLET_BYTES - 1),
	};
	char error[CORE_ERROR_BYTES] = "";

	d->core = core_new(&params, error);
	if (!d->core) {
		log_err("%s and %s: %s", d->kernel.name, d->backup.path, error);
		return STATUS_ERROR;
	}
	d->candidates = calloc(d->kernel.nr_segments + 1, sizeof(*d->candidates));
	if (!d->candidates) {
		log_err("%s: no memory for a table of %u segments", d->kernel.name,
			d->kernel.nr_segments);
		return STATUS_ERROR;
	}
	return STATUS_OK;
}

/* A random one (RFC 4122, version 4). */
static bool new_uuid(uint8_t uuid[LSMEM_UUID_BYTES])
{
	if (getrandom(uuid, LSMEM_UUID_BYTES, 0) != LSMEM_UUID_BYTES) {
		log_err("no random numbers: %s", strerror(errno));
		return false;
	}
	uuid[6] = (uuid[6] & 0x0f) | 0x40;
	uuid[8] = (uuid[8] & 0x3f) | 0x80;
	return true;
}

static int activate(struct lsmemd *d, const struct recover_activation *activation)
{
	struct lsmem_activate activate;
	int err;

	if (d->kernel.state == LSMEM_STATE_ACTIVE)
		return STATUS_OK;
	memset(&activate, 0, sizeof(activate));
	activate.era = activation->era;
	activate.generation_floor = activation->generation_floor;
	activate.generation_ceiling = activation->generation_ceiling;
	activate.store_time = activation->store_time;
	activate.next_segment = activation->next_segment;
	err = kernel_activate(&d->kernel, &activate);
	if (err) {
		log_err("%s: cannot be activated: %s", d->kernel.name, strerror(-err));
		return STATUS_ERROR;
	}
	d->created = false;
	return STATUS_OK;
}

/**
 * start - from the configuration to an active store and its state machine
 * @d: options, configuration, loop, signals, status
 *
 * Returns a STATUS_*.  When it is STATUS_OK and d->core is not set, a signal
 * has ended it.
 */
int start(struct lsmemd *d)
{
	struct recover_activation activation;
	struct recover_env env;
	enum recover_state state;
	uint8_t uuid[LSMEM_UUID_BYTES];
	const struct lsmem_super *super;
	struct recover *r;
	int status;

	status = open_metrics(d);
	if (status || d->signals.stop)
		return status;
	d->control = kernel_control_open();
	if (d->control < 0)
		return STATUS_ERROR;
	status = hold_backup(d);
	if (status || !d->backup.private)
		return status;
	restore_env(d, &env);
	r = recover_new(&env);
	if (!r) {
		log_err("no memory for the recovery");
		return STATUS_ERROR;
	}
	status = look(d, r, &state);
	if (status || d->signals.stop)
		goto out;
	super = state == RECOVER_FULL ? recover_super(r) : NULL;
	if (super) {
		status = check_geometry(d, super);
		if (status)
			goto out;
		memcpy(uuid, super->uuid, sizeof(uuid));
	} else if (!new_uuid(uuid)) {
		status = STATUS_ERROR;
		goto out;
	}
	status = attach_store(d, super, uuid);
	if (status)
		goto out;
	name_status(d);
	memcpy(d->status.uuid, uuid, sizeof(uuid));
	http_tell(&d->http, &d->status);
	status = bring_up(d, r, state, uuid);
	if (status || d->signals.stop)
		goto out;
	if (kernel_map(&d->kernel)) {
		status = STATUS_ERROR;
		goto out;
	}
	backup_memory(&d->backup, d->kernel.frames, d->kernel.frames_bytes);
	status = make_core(d, r);
	if (status)
		goto out;
	recover_activation(r, &activation);
	recover_free(r);
	malloc_trim(0);
	status = prepare(d);
	if (!status)
		status = activate(d, &activation);
	return status;
out:
	recover_free(r);
	return status;
}

/**
 * check - what a recovery would find, without the kernel, writing nothing
 * @d: options, configuration, loop, signals, status
 *
 * Returns a STATUS_*.
 */
int check(struct lsmemd *d)
{
	struct recover_result result;
	struct recover_env env;
	enum recover_state state;
	bool blank;
	struct recover *r;
	int status, err;

	status = open_backup(d, OPEN_READ, 0);
	if (status || !d->backup.private)
		return status;
	restore_env(d, &env);
	env.load = NULL;
	r = recover_new(&env);
	if (!r)
		return STATUS_ERROR;
	err = recover_open(r, &state);
	if (!err && state == RECOVER_BLANK) {
		err = restore_blank(d, &blank);
		if (!err && blank)
			printf("%s: blank\n", d->backup.path);
		else if (!err)
			status = refuse_content(d);
		goto out;
	}
	if (err)
		goto out;
	memset(&result, 0, sizeof(result));
	err = recover_check(r, &result);
	if (err && err != -ENODATA)
		goto out;
	printf("%s: backup of a store of kind = %s, size = %" PRIu64 "M, handles = %" PRIu64 "\n",
	       d->backup.path, kind_name(le32toh(recover_super(r)->kind)),
	       (uint64_t)le64toh(recover_super(r)->store_bytes) >> 20,
	       (uint64_t)le64toh(recover_super(r)->max_handles));
	printf("segments: %" PRIu64 " (%" PRIu64 " closed, %" PRIu64 " sealed, %" PRIu64 " open)\n",
	       result.segments, result.closed, result.sealed, result.open);
	printf("objects:  %" PRIu64 ", %" PRIu64 " bytes live\n", result.objects,
	       result.live_bytes);
	printf("lost:     %" PRIu64 "\n", result.losses);
	if (err == -ENODATA)
		status = STATUS_LOST;
	err = 0;
out:
	recover_free(r);
	if (err == -EBADMSG)
		return refuse_content(d);
	return err && err != -ECANCELED ? STATUS_ERROR : status;
}
