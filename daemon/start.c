// SPDX-License-Identifier: GPL-2.0
/*
 * The start: finds the store, checks that backups and store belong together, and recovers, resumes
 * or formats. Several backups count as one here.
 *
 *	backup	    store in the kernel	    what is done
 *	blank	    none, new		    --init, --format: format; else refuse (expect.c)
 *	full	    none, new		    recover, activate
 *	full	    active, same uuid	    resume
 *	full	    active, another uuid    refuse
 *	blank	    active		    refuse
 *	other	    any			    refuse
 *
 * Invariant 18: a new store never replaces a full backup, and a blank backup never stands for an
 * active store.
 */
#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <lsmem_format.h>

#include "base/clock.h"
#include "base/log.h"
#include "lsmemd.h"
#include "base/notify.h"
#include "base/secret.h"
#include "backup/nvmf_address.h"

#define RUN			"/run/lsmem"
#define FETCH_MS_DEFAULT	10000u	/* as limits/fetch_ms of the kernel */

/* ---- The backups ------------------------------------------------------- */

static int refuse_content(struct lsmemd *d)
{
	restore_foreign(d);
	log_err("%s: holds something that is not a backup this lsmemd can use; if all of it may be lost, start lsmemd once with --format --force",
		d->where);
	return STATUS_REFUSED;
}

/* Are the backups without a superblock blank? */
static int all_blank(struct lsmemd *d, const struct recover *r, bool *blank)
{
	struct recover_env env;
	uint32_t slot;
	int err = 0;

	restore_env(d, &env);
	*blank = true;
	for (slot = 0; slot < d->config.nr_backups && !err && *blank; slot++)
		if (recover_slot_blank(r, slot))
			err = restore_blank(&env, slot, blank);
	return err;
}

static int wipe_all(struct lsmemd *d)
{
	uint32_t slot;
	int err = 0;

	log_notice("%s: overwriting its contents, because of --format", d->where);
	for (slot = 0; slot < d->config.nr_backups && !err; slot++)
		err = restore_wipe(d, slot);
	return err;
}

/* Find out what the backups hold; with --format, wipe them. Return: a STATUS_*. */
static int look(struct lsmemd *d, struct recover *r, enum recover_state *state)
{
	char name[LSMEM_NAME_BYTES];
	bool blank;
	int err;

	err = recover_open(r, state);
	if (err == -ECANCELED)
		return STATUS_OK;
	if (err && err != -EBADMSG) {
		log_err("%s: cannot be read: %s", d->where, strerror(-err));
		return STATUS_ERROR;
	}
	if ((err || *state == RECOVER_BLANK || d->options.format || d->options.init) &&
	    d->nr_open < d->config.nr_backups) {
		log_err("%s: there is no store on the backups that are there, and a new one needs all of them",
			d->where);
		return STATUS_REFUSED;
	}
	blank = !err && *state == RECOVER_BLANK;
	if (blank && all_blank(d, r, &blank))
		return STATUS_ERROR;
	if (blank)
		return expect_blank(d);
	if (!err && *state == RECOVER_FULL) {
		err = expect_store(d, recover_super(r)->uuid);
		if (err)
			return err;
	}
	if (!d->options.format)
		return !err && *state == RECOVER_FULL ? STATUS_OK : refuse_content(d);
	if (!err && *state == RECOVER_FULL) {
		if (!kernel_find(recover_super(r)->uuid, name)) {
			log_err("%s: is the backup of %s, which is active in the kernel; destroy the store first (lsmemctl destroy %s), then format",
				d->where, name, name);
			return STATUS_REFUSED;
		}
		err = own(d, recover_super(r)->uuid);
		if (err || d->signals.stop)
			return err;
	} else if (!d->options.force) {
		restore_foreign(d);
		log_err("%s: holds something that is not a backup of lsmem; --format --force overwrites it",
			d->where);
		return STATUS_REFUSED;
	}
	if (wipe_all(d))
		return STATUS_ERROR;
	err = recover_open(r, state);
	if (err || *state != RECOVER_BLANK) {
		log_err("%s: is not blank after it was wiped", d->where);
		return STATUS_ERROR;
	}
	return STATUS_OK;
}

/* ---- What is done ------------------------------------------------------ */

/**
 * warn_slow - warn of backups whose timeout is too long for the store's time limits
 * @d: the daemon, its store attached
 *
 * A backup is lost when a request to it has taken longer than its timeout. A durable call that
 * waits for the backup succeeds only if its limit is long enough for the timeout, for the tick that
 * finds out, and for a digest without the backup.
 */
void warn_slow(const struct lsmemd *d)
{
	const char *limit = d->kernel.kind == LSMEM_KIND_BLOCK ? "flush_ms" : "durable_ms";
	char path[32];
	uint32_t slot;
	uint64_t ms;

	snprintf(path, sizeof(path), "limits/%s", limit);
	kernel_number(d->kernel.name, path, &ms);
	for (slot = 0; ms && slot < d->config.nr_backups; slot++) {
		const struct config_backup *c = &d->config.backups[slot];

		if ((d->config.nr_backups > 1 || config_any_remote(&d->config) ||
		     nvmf_scheme(c->path)) && c->timeout * 1000ul > ms / 2)
			log_warn("%s: timeout = %u: more than half of %s of %s, %" PRIu64 " ms: calls that wait for a backup may fail before the backup is lost",
				 c->path, c->timeout, limit, d->kernel.name, ms);
	}
}

/**
 * new_incarnation - draw a random incarnation for a backup
 * @incarnation: out: not 0
 *
 * Return: true; false: there are no random numbers, which was logged.
 */
bool new_incarnation(uint64_t *incarnation)
{
	do {
		if (secret_random((uint8_t *)incarnation, sizeof(*incarnation)))
			return false;
	} while (!*incarnation);
	return true;
}

static int format(struct lsmemd *d, struct recover *r, const uint8_t *uuid)
{
	struct recover_geometry geometry;
	uint32_t frames;
	int status, err;

	memset(&geometry, 0, sizeof(geometry));
	memcpy(geometry.uuid, uuid, sizeof(geometry.uuid));
	geometry.kind = d->kernel.kind;
	geometry.store_bytes = d->kernel.bytes;
	geometry.max_handles = d->kernel.handles_max;
	geometry.capacity = d->kernel.capacity;
	/* The kernel is told how many more there is room for. */
	geometry.frames = LSMEM_SEGMENTS_DEFAULT((uint32_t)((d->kernel.capacity ? d->kernel.capacity : d->kernel.bytes) /
							    LSMEM_SEGMENT_BYTES));
	geometry.replicas = d->config.store.replicas;
	geometry.k = d->config.store.code.k;
	geometry.m = d->config.store.code.m;
	if (!new_incarnation(&geometry.incarnation))
		return STATUS_ERROR;
	status = expect_formatting(d, uuid);
	if (status)
		return status;
	err = recover_format(r, &geometry);
	if (err == -ENOSPC) {
		frames = geometry.k ? (geometry.frames + geometry.k - 1) / geometry.k : geometry.frames;
		log_err("%s: too small for a store of %" PRIu64 " MiB, whose log needs %" PRIu32 " segments of 8 MiB: %" PRIu64 " MiB are needed%s",
			d->where,
			(d->kernel.capacity ? d->kernel.capacity : d->kernel.bytes) >> 20,
			geometry.frames, (recover_backup_bytes(frames) >> 20) + 1,
			geometry.k ? " for each shard" : d->config.nr_backups > 1 ? " for each replica" : "");
		return STATUS_REFUSED;
	}
	if (err) {
		log_err("%s: cannot be formatted: %s", d->where, strerror(-err));
		return STATUS_ERROR;
	}
	log_notice("%s: formatted, %" PRIu64 " segments", d->where,
		   store_room(d, r));
	return expect_ready(d, uuid);
}

static void tell_result(struct lsmemd *d, const struct recover_result *result, uint64_t ns)
{
	log_notice("%s: recovered %" PRIu64 " objects, %" PRIu64 " MiB live, from %" PRIu64 " segments (%" PRIu64 " MiB read, %" PRIu64 " of %" PRIu64 " open ones to the end) in %" PRIu64 ".%03" PRIu64 " s; %" PRIu64 " losses",
		   d->where, result->objects, result->live_bytes >> 20, result->segments,
		   result->read_bytes >> 20, result->whole, result->open, ns / 1000000000u, ns / 1000000u % 1000u,
		   result->losses);
}

/* When is what a recovery by places leaves on the backups to be verified? */
static enum config_verify verify(const struct lsmemd *d)
{
	return d->options.verify_first ? CONFIG_VERIFY_FIRST : d->config.store.verify;
}

static int recover(struct lsmemd *d, struct recover *r)
{
	const struct recover_code code = { .k = d->config.store.code.k, .m = d->config.store.code.m };
	struct recover_options options = {
		.code = &code,
		.accept_loss = d->options.accept_loss,
		.accept_missing = d->options.accept_missing,
		.instant = d->kernel.instant,
		.verify = verify(d) == CONFIG_VERIFY_FIRST,
		.told = d->kernel.instant && verify(d) != CONFIG_VERIFY_FIRST ? take_told(d) : NULL,
	};
	struct status *status = &d->status;
	struct recover_result result;
	uint64_t start = clock_now_ns(), ns, branch;
	int err;

	if (!new_incarnation(&branch))
		return STATUS_ERROR;
	options.branch = branch | 1;	/* the low half, not 0 */
	d->recovery_ns = start;
	status->state = "recovering";
	status->recovery = true;
	http_tell(&d->http, status);
	log_notice("%s: recovering %s", d->where, d->kernel.name);
	notify_send("STATUS=Recovering %s from %s", d->kernel.name, d->where);
	memset(&result, 0, sizeof(result));
	err = recover_run(r, &options, &result);
	if (err == -ESTALE && options.told) {
		take_stale(d);
		options.told = NULL;
		err = recover_run(r, &options, &result);
	}
	if (err == -ECANCELED)
		return STATUS_OK;
	ns = clock_now_ns() - start;
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
		log_err("%s: %" PRIu64 " losses, named above; nothing was changed. If there is a better copy of the backup, use it; to continue without the lost data, start lsmemd with --accept-loss%s",
			d->where, status->losses, d->config.nr_backups == 1 ? "" :
			"; if a backup is missing, bring it back; if it is gone for good, and no daemon has written to it without the others, start lsmemd with --accept-missing");
		return STATUS_LOST;
	}
	log_err("%s: the recovery failed: %s; it can be tried again", d->where,
		strerror(-err));
	return err == -EBADMSG || err == -EINVAL ? STATUS_REFUSED : STATUS_ERROR;
}

/* Let stale and new backups join the others. Return: a STATUS_*. */
static int join(struct lsmemd *d, struct recover *r)
{
	uint64_t incarnation;
	bool blank;

	if (all_blank(d, r, &blank) || !new_incarnation(&incarnation))
		return STATUS_ERROR;
	if (!blank) {
		log_err("%s: a backup without a superblock is not blank, and may belong to something else; make it blank, or correct its path in %s",
			d->where, d->options.config_path);
		return STATUS_REFUSED;
	}
	(void)recover_join(r, incarnation);	/* fails at a signal, which the caller checks */
	return STATUS_OK;
}

static int bring_up(struct lsmemd *d, struct recover *r, enum recover_state state,
		    const uint8_t *uuid)
{
	int err;

	if (d->kernel.state == LSMEM_STATE_NEW)
		return state == RECOVER_BLANK ? format(d, r, uuid) : recover(d, r);
	log_notice("%s: resuming, backup %s", d->kernel.name, d->where);
	err = recover_map(r, d->options.accept_missing);
	if (!err || err == -ECANCELED)
		return STATUS_OK;
	log_err("%s: its digests cannot be read: %s; the store stays readable, repair the path to the backup and start lsmemd again",
		d->where, err == -ENODATA ? "the newest are missing" : strerror(-err));
	return err == -EBADMSG ? STATUS_REFUSED : err == -ENODATA ? STATUS_LOST : STATUS_ERROR;
}

static void name_backup(struct status_backup *backup, const struct config_backup *c)
{
	backup->name = c->name;
	backup->path = c->path;
	backup->domain = c->domain;
	backup->ack_memory = c->ack_memory;
	backup->index = LSMEM_BACKUPS;
}

/**
 * start_name_status - name the status, and its file
 * @d: the daemon: its configuration; its store, if it is in the kernel, and the uuid if it is not: then the file has the name
 *	of the uuid
 */
void start_name_status(struct lsmemd *d)
{
	struct status *status = &d->status;
	const char *file = d->options.status_file, *store = d->kernel.name;
	char uuid[UUID_TEXT_BYTES], other[sizeof(RUN) + UUID_TEXT_BYTES + 8];
	uint32_t slot;
	int n;

	if (file)
		n = snprintf(status->path, sizeof(status->path), "%s", file);
	else
		n = snprintf(status->path, sizeof(status->path), RUN "/%s.json",
			     *store ? store : uuid_text(status->uuid, uuid));
	if (!file && *store) {	/* of a move to here, when the store was not in the kernel yet */
		snprintf(other, sizeof(other), RUN "/%s.json", uuid_text(status->uuid, uuid));
		unlink(other);
	}
	if (!file && mkdir(RUN, 0755) && errno != EEXIST)
		log_warn(RUN ": cannot be made: %s", strerror(errno));
	if (n >= (int)sizeof(status->path))
		status->path[0] = 0;
	strcpy(status->store, store);
	if (*store) {
		kernel_attribute(store, "given_name", status->name, sizeof(status->name));
		status->kind = d->kernel.kind;
	} else {
		snprintf(status->name, sizeof(status->name), "%s", d->config.store.name);
		status->kind = d->config.store.kind;
	}
	status->where = d->where;
	status->nr_backups = d->config.nr_backups;
	status->k = d->config.store.code.k;
	status->m = d->config.store.code.m;
	for (slot = 0; slot < status->nr_backups; slot++)
		name_backup(&status->backups[slot], &d->config.backups[slot]);
}

/* Set the slot of each index in the digest, and the parameters of core that depend on backups. */
static void name_backups(struct lsmemd *d, const struct recover *r, struct core_params *params)
{
	uint32_t index, slot;
	bool joins;

	for (index = 0; index < LSMEM_BACKUPS; index++) {
		slot = recover_joiner(r, index);
		joins = slot < LSMEM_BACKUPS;
		if (!joins)
			slot = recover_slot(r, index);
		d->slots[index] = slot;
		if (slot == LSMEM_BACKUPS)
			continue;
		(joins ? params->joining : params->super)[index] = recover_slot_super(r, slot);
		params->past[index] = joins ? recover_past(r, slot) : NULL;
		params->domain[index] = config_domain(&d->config, slot);
		d->status.backups[slot].index = index;
		if (d->backups[slot].limits.io_bytes < params->io_bytes)
			params->io_bytes = d->backups[slot].limits.io_bytes;
	}
	params->io_bytes &= ~(LSMEM_SEGLET_BYTES - 1);
	d->io_bytes = params->io_bytes;
}

/* Prepare fetching, if objects may be on the backups only. Return: a STATUS_*. */
static int make_fetch(struct lsmemd *d)
{
	struct fetch_params params = { .core = d->core };
	uint64_t ms;

	if (!d->kernel.instant)
		return STATUS_OK;
	if (!kernel_number(d->kernel.name, "limits/fetch_ms", &ms) || !ms)
		ms = FETCH_MS_DEFAULT;
	params.wait_ns = ms * 1000000u;
	d->fetch = fetch_new(&params);
	d->status.tiered = true;
	if (d->fetch)
		return STATUS_OK;
	log_err("%s: no memory to fetch objects", d->kernel.name);
	return STATUS_ERROR;
}

/* Segments of the kind that the configuration does not have can be lost on as many backups as the others. */
static void set_kinds(const struct lsmemd *d, const struct recover *r, struct core_params *params)
{
	const struct config *c = &d->config;
	uint32_t m = lsmem_code_m(le32toh(recover_super(r)->code));

	params->k = d->coded ? c->store.code.k : 0;
	params->m = d->coded ? c->store.code.m : 0;
	if (config_coded(c)) {
		params->min_parity = c->store.min_parity;
		params->replicas = c->store.code.m + 1;
		params->min_replicas = c->store.min_parity + 1;
	} else {
		params->min_parity = m ? m - 1 : 0;
		params->replicas = c->store.replicas;
		params->min_replicas = c->store.min_replicas;
	}
}

static int make_core(struct lsmemd *d, struct recover *r)
{
	struct core_params params = {
		.domains = config_domains(&d->config),
		.copy_bytes = d->config.store.copy_rate * serve_tick_ns() / 1000000000u,
		.map = recover_digest(r),
		.log = {
			.seglets = d->kernel.seglets,
			.table = d->kernel.table,
			.nr_seglets = d->kernel.nr_seglets,
		},
		.resume = d->kernel.state == LSMEM_STATE_ACTIVE,
		.io_bytes = CORE_IO_BYTES,
	};
	char error[CORE_ERROR_BYTES] = "";
	const uint64_t *damaged;

	set_kinds(d, r, &params);
	d->status.k = lsmem_code_k(le32toh(recover_super(r)->code));
	d->status.m = lsmem_code_m(le32toh(recover_super(r)->code));
	name_backups(d, r, &params);
	d->core = core_new(&params, error);
	if (!d->core) {
		log_err("%s and %s: %s", d->kernel.name, d->where, error);
		return STATUS_ERROR;
	}
	d->candidates = calloc(d->kernel.nr_segments + 1, sizeof(*d->candidates));
	d->nr_damaged = recover_damaged(r, &damaged);
	d->damaged = calloc((size_t)d->nr_damaged + d->kernel.nr_segments + 1, sizeof(*d->damaged));
	if (d->damaged && d->nr_damaged)
		memcpy(d->damaged, damaged, d->nr_damaged * sizeof(*damaged));
	if (!d->candidates || !d->damaged) {
		log_err("%s: no memory for a table of %u segments", d->kernel.name,
			d->kernel.nr_segments);
		return STATUS_ERROR;
	}
	return make_fetch(d);
}

/* Draw a random uuid (RFC 4122, version 4). Return: false: there are no random numbers, logged. */
static bool new_uuid(uint8_t uuid[LSMEM_UUID_BYTES])
{
	if (secret_random(uuid, LSMEM_UUID_BYTES))
		return false;
	uuid[6] = (uuid[6] & 0x0f) | 0x40;
	uuid[8] = (uuid[8] & 0x3f) | 0x80;
	return true;
}

static int activate(struct lsmemd *d, const struct recover_activation *activation)
{
	struct lsmem_activate activate;
	int err;

	if (!owned(d, "nothing was activated"))
		return STATUS_OWNER;
	if (d->kernel.state == LSMEM_STATE_ACTIVE)
		return STATUS_OK;
	memset(&activate, 0, sizeof(activate));
	if (d->config.store.cold)
		activate.flags |= LSMEM_ACTIVATE_COLD;
	/* If losses were accepted, the kernel is to find and name what they are in. */
	if (verify(d) == CONFIG_VERIFY_NEVER ||
	    (verify(d) == CONFIG_VERIFY_FIRST && !d->status.losses))
		activate.flags |= LSMEM_ACTIVATE_UNVERIFIED;
	activate.era = activation->era;
	activate.generation_floor = activation->generation_floor;
	activate.generation_ceiling = activation->generation_ceiling;
	if (d->coded)
		activate.segment_bytes = store_segment_bytes(d);
	activate.store_time = activation->store_time;
	activate.next_segment = activation->next_segment;
	err = kernel_activate(&d->kernel, &activate);
	if (err) {
		log_err("%s: cannot be activated: %s%s", d->kernel.name, strerror(-err),
			err == -EINVAL && activate.segment_bytes ? "; is the module older than lsmemd, and without coded stores?" : "");
		return STATUS_ERROR;
	}
	d->created = false;
	if (d->kernel.instant && d->status.recovery)
		log_notice("%s: %s: active %" PRIu64 ".%03" PRIu64 " s after the start of its recovery, which has read %" PRIu64 " MiB; its objects come from the backups",
			   d->kernel.name, d->kernel.capacity ? "tiered" : "instant", (clock_now_ns() - d->recovery_ns) / 1000000000u,
			   (clock_now_ns() - d->recovery_ns) / 1000000u % 1000u,
			   d->status.read_bytes >> 20);
	return STATUS_OK;
}

/**
 * name_where - set @d->where, for messages: "/dev/nvme0n1", or "a, b and c"
 * @d: the daemon; its backups are known
 */
void name_where(struct lsmemd *d)
{
	uint32_t nr = d->config.nr_backups, i;
	size_t n = 0;

	if (nr == 1) {
		strcpy(d->where, d->config.backups[0].path);
		return;
	}
	for (i = 0; i < nr; i++)
		n += (size_t)snprintf(d->where + n, sizeof(d->where) - n, "%s%s",
				      !i ? "" : i + 1 < nr ? ", " : " and ",
				      d->config.backups[i].name);
}

/**
 * check_take_over - with --take-over: can the holder of the backups be fenced?
 * @d: the daemon; its backups are known
 *
 * Logs why not.
 *
 * Return: STATUS_OK, STATUS_REFUSED or STATUS_USAGE.
 */
int check_take_over(const struct lsmemd *d)
{
	uint32_t slot;

	if (!d->options.take_over)
		return STATUS_OK;
	for (slot = 0; slot < d->config.nr_backups; slot++) {
		if (!nvmf_scheme(d->config.backups[slot].path))
			continue;
		log_err("--take-over: not from an NVMe-oF target, which cannot be asked to fence the holder of %s. Do that at the target: take the other host from the subsystem's allowed hosts and end its connections (nvmet: unlink the subsystem from its ports, and link it again); then start without --take-over",
			d->config.backups[slot].path);
		return STATUS_REFUSED;
	}
	if (config_any_remote(&d->config))
		return STATUS_OK;
	log_err("--take-over: only from another host (path = rdma://..); the holder of %s is on this one: stop it",
		d->config.backups[0].path);
	return STATUS_USAGE;
}

/* Open the cluster, and take the backups from etcd if the configuration says so. */
static int know_backups(struct lsmemd *d)
{
	int status = own_open(d);

	if (status || !*d->config.cluster.store || !d->config.nr_backups)
		return status;
	name_where(d);
	log_notice("etcd: %s: backups %s, as of term %" PRIu64, d->cluster.members_key, d->where,
		   d->cluster.members.term);
	return check_take_over(d);
}

/**
 * start - make the store of the configuration active, and create its state machine
 * @d: options, configuration, loop, signals, status
 *
 * Logs errors.
 *
 * Return: a STATUS_*. STATUS_OK without @d->core: a signal has ended the start, or --init is done.
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

	stages_begin(&d->stages);
	status = expect_open(d);
	if (!status)
		status = know_backups(d);
	if (!status && !d->signals.stop && !d->options.init)
		port_open(d, clock_now_ns());
	if (status || d->signals.stop)
		return status;
	d->control = kernel_control_open();
	if (d->control < 0)
		return STATUS_ERROR;
	status = take_store(d);
	if (status || d->signals.stop)
		return status;
	status = wait_backups(d);
	if (status == STATUS_ERROR && !d->signals.stop)
		expect_missing(d);
	if (status || !d->nr_open)
		return status;
	stages_end(&d->stages, "backups");
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
		status = store_check_geometry(d, super);
		if (status)
			goto out;
		memcpy(uuid, super->uuid, sizeof(uuid));
		/* An earlier --init was interrupted after the formatting: only record the store. */
		if (d->options.init) {
			status = expect_ready(d, uuid);
			goto out;
		}
		status = store_check_active(d, uuid);
		if (status)
			goto out;
	} else if (d->options.again) {
		log_err("%s: is blank: not the backup of a store that is active", d->where);
		status = STATUS_REFUSED;
		goto out;
	} else if (!new_uuid(uuid)) {
		status = STATUS_ERROR;
		goto out;
	}
	status = own(d, uuid);
	if (status || d->signals.stop)
		goto out;
	status = store_attach(d, r, super, uuid);
	if (!status && !d->options.init)
		status = store_give_name(d);
	if (status)
		goto out;
	start_name_status(d);
	warn_slow(d);
	http_tell(&d->http, &d->status);
	stages_end(&d->stages, "store");
	status = bring_up(d, r, state, uuid);
	if (d->options.init)
		goto out;
	stages_end(&d->stages, "recovery");
	if (!status && !d->signals.stop)
		status = expect_ready(d, uuid);
	if (!status && !d->signals.stop && state == RECOVER_FULL)
		status = join(d, r);
	if (status || d->signals.stop)
		goto out;
	stages_end(&d->stages, "record");
	if (kernel_map(&d->kernel)) {
		status = STATUS_ERROR;
		goto out;
	}
	store_give_memory(d);
	stages_end(&d->stages, "log memory");
	status = make_core(d, r);
	if (status)
		goto out;
	stages_end(&d->stages, "state");
	recover_activation(r, &activation);
	recover_free(r);
	malloc_trim(0);
	status = prepare(take_has(d));
	stages_end(&d->stages, "memory");
	if (!status)
		status = activate(d, &activation);
	stages_end(&d->stages, "activation");
	return status;
out:
	recover_free(r);
	if (!status && !d->signals.stop && d->options.init)
		log_notice("%s: store %s is formatted, and recorded in %s; start lsmemd without --init to serve it",
			   d->where, d->record.uuid, d->record.path);
	return status;
}

/**
 * check - print what a recovery would find; does not use the kernel, and writes nothing
 * @d: options, configuration, loop, signals, status
 *
 * Return: a STATUS_*; STATUS_LOST: a recovery would lose data.
 */
int check(struct lsmemd *d)
{
	struct recover_result result;
	struct recover_env env;
	enum recover_state state;
	bool blank;
	struct recover *r;
	int status, err;

	status = d->config.nr_backups ? STATUS_OK : know_backups(d);
	if (!status && !d->signals.stop)
		status = open_backups(d, OPEN_READ, 0);
	if (status || !d->nr_open)
		return status;
	restore_env(d, &env);
	env.load = NULL;
	r = recover_new(&env);
	if (!r)
		return STATUS_ERROR;
	err = recover_open(r, &state);
	if (!err && state == RECOVER_BLANK) {
		err = all_blank(d, r, &blank);
		if (!err && blank)
			printf("%s: blank\n", d->where);
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
	printf("%s: backup of a store of kind = %s, size = %" PRIu64 "M, handles = %" PRIu64,
	       d->where, kernel_kind(le32toh(recover_super(r)->kind)),
	       (uint64_t)le64toh(recover_super(r)->store_bytes) >> 20,
	       (uint64_t)le64toh(recover_super(r)->max_handles));
	if (recover_super(r)->code)
		printf(", code = %u+%u", lsmem_code_k(le32toh(recover_super(r)->code)),
		       lsmem_code_m(le32toh(recover_super(r)->code)));
	if (recover_super(r)->capacity)
		printf(", capacity = %" PRIu64 "M",
		       (uint64_t)le64toh(recover_super(r)->capacity) >> 20);
	putchar('\n');
	printf("segments: %" PRIu64 " (%" PRIu64 " closed, %" PRIu64 " sealed, %" PRIu64 " open)",
	       result.segments, result.closed, result.sealed, result.open);
	if (recover_super(r)->code)
		printf(", %" PRIu64 " of them coded", result.coded);
	putchar('\n');
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
