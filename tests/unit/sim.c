// SPDX-License-Identifier: GPL-2.0
/* The daemon, the model of the kernel and the disk together: see sim.h. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim.h"
#include "stripe/row_read.h"

#define SIM_HALF	(3 * LSMEM_BLOCK)	/* small: the halves of the digest log alternate */

void sim_fail(struct sim *sim, const char *format, ...)
{
	va_list args;

	if (sim->error[0])
		return;
	va_start(args, format);
	vsnprintf(sim->error, sizeof(sim->error), format, args);
	va_end(args);
}

static bool sim_failed(struct sim *sim)
{
	if (sim->model->error[0])
		sim_fail(sim, "%s", sim->model->error);
	return sim->error[0];
}

/* ---- The environment of recovery --------------------------------------- */

/* The offset of an address on the disk. */
static uint64_t sim_where(const struct sim *sim, uint64_t address)
{
	uint32_t drive = (recover_address_slot(address) + sim->rotate) % sim->options.backups;

	return drive * sim->span + recover_address_offset(address);
}

static bool sim_io(struct sim *sim)
{
	if (!sim->io_left)
		return false;
	sim->io_left--;
	return true;
}

static int sim_read(void *context, uint64_t offset, void *data, uint32_t length)
{
	struct sim *sim = context;
	uint32_t i;

	for (i = 0; i < sim->nr_ahead && sim->ahead[i] != data; i++)
		;
	if (i < sim->nr_ahead) {
		if (i)
			sim_fail(sim, "a read at %llu ends before one begun earlier",
				 (unsigned long long)offset);
		sim->nr_ahead--;
		memmove(sim->ahead, sim->ahead + 1, sim->nr_ahead * sizeof(*sim->ahead));
	}
	if (!sim_io(sim))
		return -ECANCELED;
	disk_read(sim->disk, sim_where(sim, offset), data, length);
	return 0;
}

/* Recovery must not use the buffer before it reads it: overwrite it. */
static void sim_ahead(void *context, uint64_t offset, void *data, uint32_t length)
{
	struct sim *sim = context;

	if (sim->nr_ahead == RECOVER_AHEAD) {
		sim_fail(sim, "too many reads ahead, the last at %llu", (unsigned long long)offset);
		return;
	}
	sim->ahead[sim->nr_ahead++] = data;
	memset(data, 0xa5, length);
}

static int sim_write(void *context, uint64_t offset, const void *data, uint32_t length)
{
	struct iovec iov = { .iov_base = (void *)data, .iov_len = length };
	struct sim *sim = context;
	uint32_t request;

	if (!sim->io_left)
		return -ECANCELED;
	request = disk_write(sim->disk, sim_where(sim, offset), &iov, 1);
	/* The crash may come while the write is in flight. */
	if (!sim_io(sim) || !sim->io_left) {
		disk_cut(sim->disk, random_below(&sim->random, DISK_CUT_KINDS));
		return -ECANCELED;
	}
	disk_complete(sim->disk, request);
	return 0;
}

static int sim_flush(void *context, uint32_t slot)
{
	struct sim *sim = context;

	if (!sim_io(sim))
		return -ECANCELED;
	disk_complete(sim->disk, disk_flush(sim->disk, (slot + sim->rotate) % sim->options.backups));
	return 0;
}

/*
 * Load as late as possible: at the next load, or when recovery waits for all loads. What was placed
 * of the segment comes first.
 */
static int sim_loaded(void *context)
{
	struct sim *sim = context;
	uint32_t length = sim->load.length, placed = sim->nr_placed;
	const void *data = sim->load.data;

	sim->load.data = NULL;
	sim->nr_placed = 0;
	if (!data && !placed)
		return 0;
	if (data && lsmem_crc32c(~0u, data, length) != sim->load.crc)
		sim_fail(sim, "entries of segment %llu change while they are being loaded",
			 (unsigned long long)sim->load.segment);
	if (!sim_io(sim))
		return -ECANCELED;
	if (placed) {
		if (data)
			memcpy(sim->placed + placed, data, length);
		length = placed + (data ? length : 0);
		data = sim->placed;
	}
	model_load(sim->model, sim->load.segment, sim->load.generation, sim->load.sealed, data,
		   length);
	return 0;
}

static int sim_load(void *context, uint64_t segment, uint32_t generation, uint32_t sealed,
		    const void *data, uint32_t length)
{
	struct sim *sim = context;
	int ret = 0;

	if (!sim->nr_placed || sim->load.segment != segment)
		ret = sim_loaded(sim);
	if (ret)
		return ret;
	sim->load.segment = segment;
	sim->load.generation = generation;
	sim->load.sealed = sealed;
	sim->load.data = data;
	sim->load.length = length;
	sim->load.crc = lsmem_crc32c(~0u, data, length);
	return 0;
}

/* Where the log data of a segment are: behind @at on the disk, or with @code in the lane @number. */
struct sim_source {
	uint64_t at;
	struct code *code;
	uint32_t number;
};

/* Read blocks of a lane of a coded segment, of all shards that are there. Return: they, as a mask. */
static uint32_t sim_lanes(struct sim *sim, uint32_t number, uint32_t block, uint32_t nr, uint8_t *const *to)
{
	const struct digest_map *map = recover_digest(sim->recover);
	uint32_t k = map->stripes->k, shard, slot, there = 0;
	const struct digest_stripe *stripe = &map->stripes->stripe[number / k];
	struct shard_geometry g;
	uint64_t at;

	shard_geometry(&g, k, map->stripes->m, SHARD_FRAME);
	for (shard = 0; shard < k + map->stripes->m; shard++) {
		slot = stripe->there >> shard & 1u ? recover_slot(sim->recover, stripe->place[shard] / map->frames) :
		       LSMEM_BACKUPS;
		if (slot == LSMEM_BACKUPS)
			continue;
		there |= 1u << shard;
		at = format_frame_offset(recover_slot_super(sim->recover, slot), stripe->place[shard] % map->frames) +
		     ((uint64_t)(number % k) * g.blocks + block) * LSMEM_BLOCK;
		disk_read(sim->disk, sim_where(sim, recover_address(slot, at)), to[shard], nr * LSMEM_BLOCK);
	}
	return there;
}

/* The recovery is going to make the rows of a segment whole that was open: until then read it as recovery does. */
static void sim_open(struct sim *sim, const struct sim_source *source)
{
	const struct digest_stripes *s = recover_digest(sim->recover)->stripes;
	const struct digest_item *item = &s->lanes[source->number];
	struct row_read read = { .code = source->code, .least = item->length };
	uint8_t *lanes[CODE_SHARDS];
	struct shard_geometry g;
	uint32_t i;

	shard_geometry(&g, s->k, s->m, SHARD_FRAME);
	read.g = &g;
	memcpy(read.id.uuid, sim->geometry.uuid, sizeof(read.id.uuid));
	read.id.segment = item->segment;
	read.id.generation = item->generation;
	for (i = 0; i < s->k + s->m; i++)
		read.lane[i] = lanes[i] = malloc((size_t)g.blocks * LSMEM_BLOCK);
	read.there = sim_lanes(sim, source->number, 0, g.blocks, lanes);
	if (!sim->stream)
		sim->stream = malloc(LSMEM_SEGMENT_BYTES);
	read.stream = sim->stream;
	if (row_read_open(&read))
		memset(sim->stream, 0, LSMEM_SEGMENT_BYTES);
	sim->stream_of = item->segment;
	for (i = 0; i < s->k + s->m; i++)
		free(lanes[i]);
}

/* Read log data. Return: false: too few shards are there. */
static bool sim_log(struct sim *sim, const struct sim_source *source, uint32_t first, uint8_t *data, uint32_t bytes)
{
	const struct digest_stripes *s = recover_digest(sim->recover)->stripes;
	static uint8_t blocks[CODE_SHARDS][LSMEM_BLOCK];
	uint8_t *shards[CODE_SHARDS];
	uint32_t i, n, there, want;

	if (!source->code) {
		disk_read(sim->disk, source->at + first, data, bytes);
		return true;
	}
	if (s->lanes[source->number].state == LSMEM_ITEM_OPEN) {
		if (sim->stream_of != s->lanes[source->number].segment)
			sim_open(sim, source);
		memcpy(data, sim->stream + first, bytes);
		return true;
	}
	for (i = 0; i < CODE_SHARDS; i++)
		shards[i] = blocks[i];
	for (i = 0; i < bytes; i += LSMEM_BLOCK) {
		n = (first + i) / LSMEM_BLOCK;
		want = 1u << n % s->k;
		there = sim_lanes(sim, source->number, shard_row(n / s->k), 1, shards);
		if (code_decode(source->code, there, want & ~there, LSMEM_BLOCK, (void *const *)shards))
			return false;
		memcpy(data + i, blocks[n % s->k], LSMEM_BLOCK);
	}
	return true;
}

/* Add the entry of a listing to what is placed, if it is there. */
static bool sim_fetch(struct sim *sim, const struct sim_source *source, const struct lsmem_directory_entry *listing)
{
	uint64_t meta = __le64_to_cpu(listing->meta);
	uint32_t home = LSMEM_LISTING_GET(meta, HOME) * LSMEM_ALIGN, first = home & ~(LSMEM_BLOCK - 1);
	uint32_t bytes = lsmem_entry_size(LSMEM_LISTING_GET(meta, LENGTH));
	uint32_t blocks = lsmem_block_round(home + bytes) - first;
	struct lsmem_directory_entry is;
	const struct lsmem_entry *entry;
	uint8_t *data = malloc(blocks);
	bool found;

	entry = (const void *)(data + home - first);
	found = sim_log(sim, source, first, data, blocks) && lsmem_entry_type(entry) == LSMEM_TYPE_OBJECT && lsmem_entry_sane(entry) &&
		lsmem_entry_bytes(entry) == bytes &&
		lsmem_entry_valid(entry, format_payload(entry),
				  lsmem_segment_salt(sim->geometry.uuid, sim->load.segment,
						     sim->load.generation));
	is = lsmem_entry_listing(entry, home);
	found = found && !memcmp(&is, listing, sizeof(is));
	if (found) {
		memcpy(sim->placed + sim->nr_placed, entry, bytes);
		sim->nr_placed += bytes;
	}
	free(data);
	return found;
}

/* Add the entry of a listing to what is placed, from any replica that the digest lists. */
static bool sim_fetch_any(struct sim *sim, const struct lsmem_directory_entry *listing)
{
	const struct digest_map *map = recover_digest(sim->recover);
	struct sim_source source = { 0 };
	uint32_t place, slot;
	bool found = false;

	for (place = 0; place < digest_places(map) && !found; place++) {
		const struct digest_item *item = &map->items[place];

		slot = recover_slot(sim->recover, place / map->frames);
		if (!item->state || item->segment != sim->load.segment || slot == LSMEM_BACKUPS)
			continue;
		source.at = sim_where(sim, recover_address(slot, format_frame_offset(
			    recover_slot_super(sim->recover, slot), place % map->frames))) + LSMEM_BLOCK;
		found = sim_fetch(sim, &source, listing);
	}
	if (found || !map->stripes || !map->stripes->k)
		return found;
	source.code = code_new(map->stripes->k, map->stripes->m);
	for (; source.number < digest_stripes_nr(map) * map->stripes->k && !found; source.number++) {
		const struct digest_item *item = &map->stripes->lanes[source.number];

		if (item->state && item->segment == sim->load.segment)
			found = sim_fetch(sim, &source, listing);
	}
	code_free(source.code);
	return found;
}

/* The kernel would read the objects later: read them now. */
static int sim_place(void *context, uint64_t segment, uint32_t generation, uint32_t sealed,
		     const struct lsmem_directory_entry *entries, uint32_t nr)
{
	struct sim *sim = context;
	uint32_t i;
	int ret = sim_loaded(sim);

	if (ret)
		return ret;
	if (!sim_io(sim))
		return -ECANCELED;
	sim->load.segment = segment;
	sim->load.generation = generation;
	sim->load.sealed = sealed;
	for (i = 0; i < nr; i++) {
		if (!sim_fetch_any(sim, &entries[i]))
			sim_fail(sim, "segment %llu: an object is not where it was placed",
				 (unsigned long long)segment);
	}
	return 0;
}

static bool sim_hole(void *context, uint64_t offset, uint32_t length)
{
	struct sim *sim = context;

	return disk_hole(sim->disk, sim_where(sim, offset), length);
}

static void sim_report(void *context, enum recover_severity severity, const char *text)
{
	struct sim *sim = context;

	if (severity != RECOVER_DAMAGE)
		return;
	sim->nr_damage++;
	snprintf(sim->last_damage, sizeof(sim->last_damage), "%s", text);
}

/* ---- Life -------------------------------------------------------------- */

struct sim *sim_new(uint64_t seed, const struct sim_options *options)
{
	struct sim *sim = calloc(1, sizeof(*sim));
	uint64_t bytes;
	uint32_t i;

	sim->seed = seed;
	sim->options = *options;
	if (!sim->options.backups)
		sim->options.backups = 1;
	sim->random = seed;
	bytes = (1u << 20) + (uint64_t)options->frames * LSMEM_SEGMENT_BYTES;
	bytes = (bytes + LSMEM_SEGMENT_BYTES - 1) & ~(uint64_t)(LSMEM_SEGMENT_BYTES - 1);
	if (sim->options.backups == 1)
		bytes = (1u << 20) + (uint64_t)options->frames * LSMEM_SEGMENT_BYTES;
	sim->span = bytes;
	sim->there = (1u << sim->options.backups) - 1;
	sim->disk = disk_new(bytes, sim->options.backups, &sim->random);
	for (i = 0; i < LSMEM_UUID_BYTES; i++)
		sim->geometry.uuid[i] = random_next(&sim->random);
	sim->geometry.incarnation = random_next(&sim->random) | 1;
	sim->geometry.kind = LSMEM_KIND_OBJECT;
	sim->geometry.store_bytes = 64u << 20;
	/* The last one is reserved: an object as others. */
	sim->geometry.max_handles = options->handles ? options->handles : MODEL_HANDLES - LSMEM_RESERVED;
	sim->geometry.capacity = options->tiered ? 128u << 20 : 0;
	sim->geometry.frames = options->frames;
	sim->geometry.replicas = options->replicas;
	sim->code = (struct recover_code){ .k = options->k, .m = options->m };
	sim->geometry.k = options->k;
	sim->geometry.m = options->m;
	sim->geometry.half_bytes = SIM_HALF;
	sim->env = (struct recover_env) {
		.context = sim, .backup_bytes = { bytes }, .read = sim_read, .write = sim_write,
		.ahead = sim_ahead, .flush = sim_flush, .load = sim_load, .place = sim_place,
		.loaded = sim_loaded, .hole = sim_hole, .report = sim_report,
	};
	sim->env.backups = sim->options.backups;
	sim->model = model_new(&sim->random, sim->geometry.uuid,
			       options->frames * (options->k && !options->turns ? options->k : 1) + options->extra);
	sim->model->size = options->size;
	sim->io_left = UINT32_MAX;
	sim->placed = malloc(LSMEM_SEGMENT_BYTES);
	return sim;
}

void sim_free(struct sim *sim)
{
	if (!sim)
		return;
	core_free(sim->core);
	model_free(sim->model);
	disk_free(sim->disk);
	free(sim->placed);
	free(sim->stream);
	free(sim);
}

static void sim_core(struct sim *sim, struct recover *r, bool resume)
{
	/* A daemon that resumes cannot change the superblocks. */
	bool coding = !sim->options.turns || (resume ? recover_digest(r)->stripes && random_chance(&sim->random, 50) :
						       sim->code.k);
	struct core_params params = {
		.map = recover_digest(r),
		.domains = sim->options.pairs,
		.replicas = sim->options.replicas,
		.min_replicas = sim->options.min_replicas,
		.k = coding ? sim->options.k : 0,
		.m = coding ? sim->options.m : 0,
		.min_parity = sim->options.min_parity,
		.log = {
			.seglets = sim->model->memory,
			.table = sim->model->table,
			.nr_seglets = MODEL_SEGLETS,
		},
		.resume = resume,
		.io_bytes = random_chance(&sim->random, 50) ? LSMEM_SEGLET_BYTES : CORE_IO_BYTES,
	};
	char error[CORE_ERROR_BYTES];
	uint32_t index, slot;

	for (index = 0; index < LSMEM_BACKUPS; index++) {
		slot = recover_slot(r, index);
		if (slot == LSMEM_BACKUPS)
			continue;
		params.super[index] = recover_slot_super(r, slot);
		params.domain[index] = sim->env.domain[slot];
		sim->drive[index] = (slot + sim->rotate) % sim->options.backups;
	}
	for (index = 0; index < LSMEM_BACKUPS; index++) {
		slot = recover_joiner(r, index);
		if (slot == LSMEM_BACKUPS)
			continue;
		params.joining[index] = recover_slot_super(r, slot);
		params.past[index] = recover_past(r, slot);
		params.domain[index] = sim->env.domain[slot];
		sim->drive[index] = (slot + sim->rotate) % sim->options.backups;
		sim->joined++;
	}
	sim->frames_start = __le64_to_cpu(recover_super(r)->frames_start);
	sim->mixed += params.map->nr && params.map->stripes && params.map->stripes->nr_segments;
	sim->core = core_new(&params, error);
	if (!sim->core)
		sim_fail(sim, "%s", error);
	else if (sim->options.k)
		core_scrub(sim->core, 3);
	memset(sim->requests, 0, sizeof(sim->requests));
	sim->draining = false;
	if (sim->core)
		core_batch(sim->core, sim->options.batch_us * 1000ull);
}

static uint64_t sim_drive_bytes(const struct sim *sim, uint32_t drive)
{
	return sim->span - (uint64_t)drive * sim->options.smaller * LSMEM_SEGMENT_BYTES;
}

/* Give recovery the drives in @there, in an order that begins with any of them. */
static void sim_plug(struct sim *sim)
{
	uint32_t slot, drive;

	if (sim->options.backups == 1)
		return;
	sim->rotate = random_below(&sim->random, sim->options.backups);
	for (slot = 0; slot < sim->options.backups; slot++) {
		drive = (slot + sim->rotate) % sim->options.backups;
		sim->env.backup_bytes[slot] =
			sim->there >> drive & 1u ? sim_drive_bytes(sim, drive) : 0;
		sim->env.domain[slot] = sim->options.pairs ? drive / 2 : 0;
	}
}

/* Try once to bring the store up from the backups. Returns -ECANCELED if that crashed. */
int sim_attempt(struct sim *sim)
{
	struct recover *r;
	struct recover_activation activation;
	enum recover_state state;
	bool coded;
	int ret;

	sim_plug(sim);
	r = recover_new(&sim->env);
	sim->recover = r;
	sim->nr_placed = 0;
	sim->stream_of = 0;
	model_reset(sim->model);
	oracle_begin(sim->model);
	if (sim->options.turns)
		sim->geometry.k = sim->code.k = random_chance(&sim->random, 50) ? sim->options.k : 0;
	ret = recover_open(r, &state);
	if (!ret && state == RECOVER_BLANK) {
		if (sim->model->recovered)
			sim_fail(sim, "the backup is blank, and it was not");
		if (sim->options.backups > 1)
			sim->geometry.incarnation = random_next(&sim->random) | 1;
		ret = recover_format(r, &sim->geometry);
	} else if (!ret) {
		coded = format_coded(recover_super(r));
		ret = recover_run(r, &(struct recover_options){
				  .accept_missing = sim->accept_missing,
				  .instant = sim->options.tiered,
				  .verify = sim->options.verify,
				  .told = sim->told,
				  .code = sim->code.m ? &sim->code : NULL,
				  .branch = random_next(&sim->random) | 1 }, &sim->result);
		sim->raised += !ret && !coded && format_coded(recover_super(r));
		sim->lowered += !ret && coded && !format_coded(recover_super(r));
		if (!ret && sim->options.join)
			ret = recover_join(r, random_next(&sim->random) | 1);
	}
	if (!ret) {
		recover_activation(r, &activation);
		oracle_check(sim->model);
		sim->memory_lost = false;
		model_activate(sim->model, activation.era, activation.generation_floor,
			       activation.generation_ceiling, activation.store_time,
			       activation.next_segment);
		sim_core(sim, r, false);
		sim->recoveries++;
	}
	recover_free(r);
	if (sim->nr_ahead)
		sim_fail(sim, "%u reads ahead are left", sim->nr_ahead);
	return ret;
}

/* Choose the drives that recovery gets. */
static void sim_pick_drives(struct sim *sim)
{
	sim->there = random_chance(&sim->random, 50) ? (1u << sim->options.backups) - 1 :
		     random_below(&sim->random, 1u << sim->options.backups);
}

bool sim_start(struct sim *sim, bool crash)
{
	uint32_t all = (1u << sim->options.backups) - 1;
	int ret;

	if (sim->options.backups > 1 && crash)
		sim_pick_drives(sim);
	for (;;) {
		sim->io_left = crash && random_chance(&sim->random, 30) ?
			       1 + random_below(&sim->random, sim->options.k ? 400 : 40) : UINT32_MAX;
		sim->nr_damage = 0;
		sim->last_damage[0] = '\0';
		ret = sim_attempt(sim);
		/* Recovery refuses too few drives: give it all. */
		if (sim->there != all &&
		    ((ret == -ENODATA && (strstr(sim->last_damage, "can tell") ||
					  strstr(sim->last_damage, "not there"))) ||
		     ret == -EBADMSG)) {
			sim->there = all;
			sim->refused++;
			continue;
		}
		if (ret != -ECANCELED)
			break;
		sim_pick_drives(sim);
		sim->crashes++;
		disk_cut(sim->disk, random_below(&sim->random, DISK_CUT_KINDS));
	}
	if (ret)
		sim_fail(sim, "recovery: error %d: %s", -ret, sim->last_damage);
	else if (sim->nr_damage)
		sim_fail(sim, "recovery reports a loss: %s", sim->last_damage);
	return !sim_failed(sim);
}

/* After a daemon was killed, start another one: the store is still up. */
static bool sim_resume(struct sim *sim)
{
	struct recover *r;
	enum recover_state state;
	int ret;

	sim->there = (1u << sim->options.backups) - 1;
	sim_plug(sim);
	r = recover_new(&sim->env);
	sim->io_left = UINT32_MAX;
	ret = recover_open(r, &state);
	if (!ret)
		ret = recover_map(r, false);
	if (!ret && sim->options.join)
		ret = recover_join(r, random_next(&sim->random) | 1);
	if (ret)
		sim_fail(sim, "resume: error %d: %s", -ret, sim->last_damage);
	else
		sim_core(sim, r, true);
	recover_free(r);
	model_attach(sim->model);
	return !sim_failed(sim);
}

/* ---- The daemon's loop, piece by piece --------------------------------- */

static void sim_watch(struct sim *sim)
{
	if (core_state(sim->core) == CORE_FAILED)
		sim_fail(sim, "core: %s", core_error(sim->core));
}

void sim_issue(struct sim *sim)
{
	struct core_io io;

	while (core_io_next(sim->core, &io)) {
		uint64_t where = sim->drive[io.backup] * sim->span + io.offset;
		struct sim_request *request;
		uint32_t n;

		if (io.kind == CORE_IO_FLUSH)
			n = disk_flush(sim->disk, sim->drive[io.backup]);
		else
			n = disk_write(sim->disk, where, io.iov,
				       io.kind == CORE_IO_READ ? 0 : io.nr_iov);
		if (io.durable)
			disk_durable(sim->disk, n);
		request = &sim->requests[n];
		request->used = true;
		request->backup = io.backup;
		request->offset = where;
		request->length = io.length;
		request->into.iov_len = 0;
		if (io.kind == CORE_IO_READ)
			request->into = io.iov[0];
		request->id = io.id;
		request->flush = io.kind == CORE_IO_FLUSH;
		request->received = false;
	}
	sim_watch(sim);
}

void sim_time(struct sim *sim, uint64_t ns)
{
	sim->now_ns += ns;
	core_time(sim->core, sim->now_ns);
	sim_issue(sim);
}

void sim_events(struct sim *sim)
{
	struct lsmem_event events[SIM_EVENTS];
	uint32_t room = core_room(sim->core), nr, i;

	if (sim->draining || core_state(sim->core) == CORE_FAILED)
		return;
	if (room > SIM_EVENTS)
		room = SIM_EVENTS;
	nr = model_next(sim->model, events, room);
	core_clock(sim->core, sim->model->generation_wanted, sim->model->clock,
		   sim->model->next_segment);
	for (i = 0; i < nr && core_state(sim->core) != CORE_FAILED; i++)
		core_event(sim->core, &events[i]);
	sim_issue(sim);
}

void sim_acks(struct sim *sim)
{
	struct lsmem_ack_one acks[8];
	uint32_t nr, i, ceiling;

	do {
		nr = core_acks(sim->core, acks, 8, &ceiling);
		for (i = 0; i < nr; i++)
			model_ack(sim->model, &acks[i]);
		if (ceiling)
			sim->model->generation_ceiling = ceiling;
	} while (nr == 8);
	sim_issue(sim);
}

static bool sim_memory(const struct sim *sim, uint32_t backup)
{
	return sim->options.memory >> sim->drive[backup] & 1u;
}

/* A host applies writes of the same blocks in the order in which it receives them. */
void sim_receive(struct sim *sim, uint32_t n)
{
	uint32_t request = disk_nth(sim->disk, n);
	struct sim_request *r = &sim->requests[request];

	if (r->flush || r->into.iov_len || r->received || !sim_memory(sim, r->backup))
		return;
	disk_apply(sim->disk, request);
	r->received = true;
	core_io_received(sim->core, r->id);
	sim_issue(sim);
}

void sim_complete(struct sim *sim, uint32_t n)
{
	uint32_t request = disk_nth(sim->disk, n);
	struct sim_request *r = &sim->requests[request];

	sim_receive(sim, n);
	disk_complete(sim->disk, request);
	if (r->into.iov_len)
		disk_read(sim->disk, r->offset, r->into.iov_base, r->into.iov_len);
	core_io_done(sim->core, sim->requests[request].id, 0);
	sim_issue(sim);
}

void sim_fail_request(struct sim *sim, uint32_t n)
{
	uint32_t request = disk_nth(sim->disk, n);

	if (sim->requests[request].flush) {
		disk_fail_flush(sim->disk, request);
	} else {
		if (random_chance(&sim->random, 50))
			disk_apply(sim->disk, request);
		disk_drop(sim->disk, request);
	}
	core_io_done(sim->core, sim->requests[request].id, -EIO);
	sim_issue(sim);
}

static uint32_t sim_backups(const struct sim *sim, enum core_backup_state state)
{
	uint32_t nr = 0, b;

	for (b = 0; b < sim->options.backups; b++)
		nr += core_backup(sim->core, b) == state;
	return nr;
}

/* Do digests still count without @backup?  A leaving backup is a member until one does. */
static bool sim_may_lose(const struct sim *sim, const struct core_stats *stats, uint32_t backup)
{
	struct digest_map map = { .mask = 0 };
	uint32_t left = 0, b;

	for (b = 0; b < sim->options.backups; b++) {
		enum core_backup_state state = stats->backup[b].state;

		if (state != CORE_BACKUP_MEMBER && state != CORE_BACKUP_LEAVING)
			continue;
		map.mask |= 1u << b;
		map.domain[b] = sim->options.pairs ? sim->drive[b] / 2 + 1 : 0;
		left |= (uint32_t)(state == CORE_BACKUP_MEMBER && b != backup) << b;
	}
	map.floor = digest_floor(&map);
	return digest_counts(&map, left);
}

/* The number of failure domains of members without backup @without. */
static uint32_t sim_domains(const struct sim *sim, uint32_t without)
{
	uint32_t domains = 0, b;

	for (b = 0; b < sim->options.backups; b++)
		if (b != without && core_backup(sim->core, b) == CORE_BACKUP_MEMBER)
			domains |= 1u << (sim->options.pairs ? sim->drive[b] / 2 : b);
	return __builtin_popcount(domains);
}

bool sim_lose(struct sim *sim)
{
	uint32_t left = sim_backups(sim, CORE_BACKUP_MEMBER) - 1, b, n;
	struct core_stats all;

	core_stats(sim->core, &all);
	/* A coded segment loses one shard of those that it could have. */
	if (sim->options.k && (sim_domains(sim, sim->options.backups) <= sim->options.k ||
			       (!sim->options.join && left < sim->options.k + sim->options.min_parity)))
		return false;
	if (!left || all.short_segments || all.short_open || !disk_in_flight(sim->disk))
		return false;
	n = random_below(&sim->random, disk_in_flight(sim->disk));
	b = sim->requests[disk_nth(sim->disk, n)].backup;
	/* With one failure domain each segment has one replica, possibly on @b. */
	if (sim_domains(sim, sim->options.backups) < 2)
		return false;
	if (all.backup[b].state != CORE_BACKUP_MEMBER || !sim_may_lose(sim, &all, b) ||
	    (sim_domains(sim, b) < sim->options.min_replicas && !sim->options.join))
		return false;
	if (sim->requests[disk_nth(sim->disk, n)].into.iov_len) {
		core_lose(sim->core, b, "a test");
		sim_issue(sim);
	} else {
		sim_fail_request(sim, n);
	}
	sim->lost++;
	sim->memory_lost |= sim_memory(sim, b);
	return true;
}

/* Find a drive that is not used, and a free index for it. False if there is none. */
static bool sim_spare(struct sim *sim, uint32_t *drive, uint32_t *index)
{
	uint32_t used = 0, b;

	*index = LSMEM_BACKUPS;
	for (b = 0; b < sim->options.backups; b++) {
		switch (core_backup(sim->core, b)) {
		case CORE_BACKUP_JOINING:
		case CORE_BACKUP_LEAVING:
			return false;
		case CORE_BACKUP_MEMBER:
			used |= 1u << sim->drive[b];
			break;
		default:
			*index = b;
		}
	}
	*drive = __builtin_ctz(~used);
	return *index < LSMEM_BACKUPS;
}

bool sim_add(struct sim *sim, bool blank)
{
	struct recover_env env = sim->env;
	const struct lsmem_super *like;
	uint32_t drive, index, slot;
	struct recover *r;
	struct digest_log log;
	int ret;

	if (core_state(sim->core) != CORE_RUNNING || !sim_spare(sim, &drive, &index))
		return false;
	memset(env.backup_bytes, 0, sizeof(env.backup_bytes));
	slot = (drive + sim->options.backups - sim->rotate) % sim->options.backups;
	env.backup_bytes[slot] = sim_drive_bytes(sim, drive);
	r = recover_new(&env);
	like = core_super(sim->core, &log);
	if (blank) {
		disk_zero(sim->disk, drive * sim->span);
		disk_zero(sim->disk, drive * sim->span + LSMEM_BLOCK);
	}
	ret = recover_open_slot(r, slot);
	if (!ret)
		ret = recover_ready(r, slot, like, &log, random_next(&sim->random) | 1);
	if (!ret && core_add(sim->core, index, recover_slot_super(r, slot),
			     sim->options.pairs ? drive / 2 : 0, recover_past(r, slot))) {
		sim->drive[index] = drive;
		sim->joined++;
		sim->added++;
		sim_issue(sim);
	}
	recover_free(r);
	sim->cut = ret == -ECANCELED;
	sim->io_left = UINT32_MAX;
	if (ret && !sim->cut)
		sim_fail(sim, "a drive that is not used cannot be made ready: error %d", -ret);
	return true;
}

bool sim_clean(struct sim *sim)
{
	struct clean_choice choice;
	struct lsmem_cleaning want;

	if (core_state(sim->core) != CORE_RUNNING || sim->model->pass.under_way)
		return false;
	model_window(sim->model, &want, sim->table);
	want.by_backup = sim->options.tiered;
	clean_choose(&want, sim->table, MODEL_SEGMENTS, core_frames_left(sim->core),
		     LSMEM_SEGMENT_BYTES, sim->candidates, &choice);
	return choice.nr && model_pass_begin(sim->model, choice.segments, choice.nr);
}

void sim_step(struct sim *sim)
{
	uint64_t *r = &sim->random;
	uint32_t in_flight = disk_in_flight(sim->disk), what = random_below(r, 100);

	sim->steps++;
	if (sim->options.join && random_chance(r, 2)) {
		if (random_chance(r, 20))
			sim->io_left = 1 + random_below(r, 10);
		/* One in four is a new drive. */
		if (sim_add(sim, !random_below(&sim->random, 4)))
			return;
		sim->io_left = UINT32_MAX;
	}
	if (what < 35) {
		model_operate(sim->model);
	} else if (what < 50) {
		if (sim->options.batch_us)
			sim_time(sim, random_below(r, sim->options.batch_us * 500));
		sim_events(sim);
	} else if (what < 80 && in_flight) {
		uint32_t n = random_below(r, in_flight);

		if (sim->options.memory && random_chance(r, 50))
			sim_receive(sim, n);
		else if (random_chance(r, 20))
			disk_apply(sim->disk, disk_nth(sim->disk, n));
		else
			sim_complete(sim, n);
	} else if (what < 92) {
		sim_acks(sim);
	} else if (what < 94) {
		core_tick(sim->core);
		sim_issue(sim);
	} else if (what < 95) {
		model_roll(sim->model, random_below(r, MODEL_HEADS));
	} else if (what < 97) {
		model_clean(sim->model, 1 + random_below(r, 3));
	} else if (what < 98) {
		uint32_t slot = random_below(r, MODEL_SEGMENTS), i = 0;
		uint64_t before = sim->model->compacted;

		while (sim->model->compacted == before && i++ < MODEL_SEGMENTS)
			model_compact(sim->model, (slot + i) % MODEL_SEGMENTS);
	} else if (!sim->model->pass.under_way) {
		sim_clean(sim);
	} else {
		model_pass_step(sim->model, 1 + random_below(r, 20));
	}
}

void sim_settle(struct sim *sim)
{
	uint32_t rounds = 0;

	while (!sim_failed(sim)) {
		sim_events(sim);
		sim_acks(sim);
		if (disk_in_flight(sim->disk))
			sim_complete(sim, random_below(&sim->random, disk_in_flight(sim->disk)));
		else if (core_due(sim->core) != CORE_NEVER)
			sim_time(sim, core_due(sim->core) - sim->now_ns);
		else if (rounds++ > 20)
			break;
	}
}

void sim_shutdown(struct sim *sim)
{
	uint32_t rounds = 0;

	core_shutdown(sim->core);
	sim->draining = true;
	sim->shutdowns++;
	sim_issue(sim);
	while (!sim_failed(sim) && core_state(sim->core) != CORE_STOPPED) {
		if (disk_in_flight(sim->disk))
			sim_complete(sim, random_below(&sim->random, disk_in_flight(sim->disk)));
		sim_acks(sim);
		if (rounds++ > 10000)
			sim_fail(sim, "core does not stop");
	}
}

static void sim_count(struct sim *sim)
{
	struct core_stats stats;

	core_stats(sim->core, &stats);
	sim->copied += stats.copied;
	sim->kept += stats.kept;
}

/* The power fails. */
void sim_cut(struct sim *sim, enum disk_cut kind)
{
	disk_cut(sim->disk, kind);
	sim->cut = false;
	sim_count(sim);
	core_free(sim->core);
	sim->core = NULL;
	sim->crashes++;
}

void sim_cut_alone(struct sim *sim, enum disk_cut kind)
{
	uint32_t n = 0, drive, request;

	while (n < disk_in_flight(sim->disk)) {
		request = disk_nth(sim->disk, n);
		if (!sim_memory(sim, sim->requests[request].backup))
			n++;
		else if (sim->requests[request].received || random_chance(&sim->random, 50))
			disk_complete(sim->disk, request);
		else
			disk_drop(sim->disk, request);
	}
	for (drive = 0; drive < sim->options.backups; drive++)
		if (sim->options.memory >> drive & 1u)
			disk_complete(sim->disk, disk_flush(sim->disk, drive));
	sim->alone++;
	sim->model->oracle.alone = !sim->memory_lost;
	sim_cut(sim, kind);
}

/*
 * The daemon is killed: its requests in flight complete, and a new daemon starts. Some had not been submitted yet: with
 * replicas that changes nothing, since what is not acknowledged on one of them is sent again to all.
 */
void sim_kill(struct sim *sim)
{
	uint32_t n = 0;

	while (sim->options.k && n < disk_in_flight(sim->disk)) {
		if (random_chance(&sim->random, 30))
			disk_drop(sim->disk, disk_nth(sim->disk, n));
		else
			n++;
	}
	disk_land(sim->disk);
	core_free(sim->core);
	sim->core = NULL;
	sim->kills++;
	sim_resume(sim);
}

/* A flush fails: the device loses writes. */
static void sim_fault(struct sim *sim)
{
	uint32_t i, n;

	for (i = 0; i < 400 && !sim_failed(sim); i++) {
		for (n = 0; n < disk_in_flight(sim->disk); n++) {
			uint32_t request = disk_nth(sim->disk, n);

			if (!sim->requests[request].flush)
				continue;
			disk_fail_flush(sim->disk, request);
			core_io_done(sim->core, sim->requests[request].id, -EIO);
			sim->faults++;
			sim->memory_lost = true;
			if (core_state(sim->core) == CORE_FAILED)
				return;
			/* With this rule switched off core goes on: run it for a while. */
			for (i = 0; i < 60 && !sim_failed(sim); i++) {
				sim_issue(sim);
				sim_step(sim);
			}
			return;
		}
		sim_step(sim);
	}
}

bool sim_life(struct sim *sim, uint32_t crashes)
{
	uint64_t *r = &sim->random;
	uint64_t end;

	if (!sim_start(sim, true))
		return false;
	while (sim->crashes < crashes) {
		bool goes_on = false;

		end = sim->steps + random_below(r, sim->options.steps);
		if (random_chance(r, 20))
			end += 5 * sim->options.steps;
		while (sim->steps < end && !sim->cut && !sim_failed(sim))
			sim_step(sim);
		if (sim_failed(sim))
			return false;
		if (!sim->cut && random_chance(r, 10))
			sim_settle(sim);
		if (!sim->cut && random_chance(r, sim->options.kills)) {
			/* With too few backups a shutdown waits. */
			if (random_chance(r, 30) &&
			    sim_domains(sim, LSMEM_BACKUPS) >= sim->options.min_replicas &&
			    sim_domains(sim, LSMEM_BACKUPS) >= sim->options.k + sim->options.min_parity)
				sim_shutdown(sim);
			if (!sim_failed(sim))
				sim_kill(sim);
			if (sim_failed(sim))
				return false;
			continue;
		}
		if (!sim->cut && random_chance(r, sim->options.faults)) {
			if (sim->options.backups == 1)
				sim_fault(sim);
			else
				goes_on = sim_lose(sim) && random_chance(r, 70);
		}
		if (sim_failed(sim))
			return false;
		if (goes_on)
			continue;
		if (sim->options.memory && random_chance(r, 60))
			sim_cut_alone(sim, random_below(r, DISK_CUT_KINDS));
		else
			sim_cut(sim, random_below(r, DISK_CUT_KINDS));
		if (!sim_start(sim, true))
			return false;
	}
	return true;
}
