// SPDX-License-Identifier: GPL-2.0
/* The kernel module as the daemon uses it: see kernel.h. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "lsmem_format.h"

#include "kernel.h"
#include "base/log.h"

#define CONTROL "/dev/lsmem-control"
#define STORES "/sys/class/lsmem"

static int call(int fd, unsigned long request, void *argument)
{
	int ret;

	do {
		ret = ioctl(fd, request, argument);
	} while (ret < 0 && errno == EINTR);
	return ret < 0 ? -errno : 0;
}

/**
 * kernel_control_open - open the module's control device
 *
 * Logs why it fails.
 *
 * Return: a descriptor or a negative errno.
 */
int kernel_control_open(void)
{
	int fd = open(CONTROL, O_RDWR | O_CLOEXEC), err;

	if (fd >= 0)
		return fd;
	err = -errno;
	log_err(CONTROL ": %s%s", strerror(-err),
		err == -ENOENT || err == -ENODEV || err == -ENXIO ?
		"; is the module loaded? (modprobe lsmem)" :
		err == -EACCES || err == -EPERM ? "; lsmemd needs root (CAP_SYS_ADMIN)" : "");
	return err;
}

/**
 * kernel_create - create a store
 * @control: from kernel_control_open()
 * @create: properties of the store; size is filled in here; out: the store's name. An older module does not take a uuid before a
 *	daemon attaches: then it is cleared here
 *
 * Logs why it fails.
 *
 * Return: 0, or a negative errno of LSMEM_CTL_CREATE.
 */
int kernel_create(int control, struct lsmem_create *create)
{
	int err;

	create->size = sizeof(*create);
	err = call(control, LSMEM_CTL_CREATE, create);
	if (err == -E2BIG) {
		memset(create->uuid, 0, sizeof(create->uuid));
		err = call(control, LSMEM_CTL_CREATE, create);
	}
	if (!err)
		create->name[sizeof(create->name) - 1] = 0;
	else
		log_err("a store of %" PRIu64 " MiB cannot be created: %s%s",
			(uint64_t)create->bytes >> 20, strerror(-err),
			err == -ENOMEM ? "; make the store smaller or free memory" :
			err == -ENOSPC ? "; there are too many stores" :
			err == -EOPNOTSUPP ? "; charge = yes, and this kernel has no memory cgroups" :
			"");
	return err;
}

/**
 * kernel_destroy - destroy a store
 * @control: from kernel_control_open()
 * @name: the store's name
 * @force: even if it has data that are on no backup
 *
 * Return: 0; -EBUSY: it is open, mounted or attached; or another negative errno of LSMEM_CTL_DESTROY.
 */
int kernel_destroy(int control, const char *name, bool force)
{
	struct lsmem_destroy destroy = { .size = sizeof(destroy), .flags = force ? LSMEM_DESTROY_FORCE : 0 };

	memcpy(destroy.name, name, strnlen(name, sizeof(destroy.name) - 1));
	return call(control, LSMEM_CTL_DESTROY, &destroy);
}

/**
 * kernel_kind - the name of a kind of store, as in sysfs and in the configuration
 * @kind: enum lsmem_store_kind
 *
 * Return: a constant text.
 */
const char *kernel_kind(uint32_t kind)
{
	return kind == LSMEM_KIND_BLOCK ? "block" : "object";
}

/**
 * uuid_text - print a uuid as sysfs does
 * @uuid: the uuid
 * @text: out
 *
 * Return: @text.
 */
const char *uuid_text(const uint8_t uuid[16], char text[UUID_TEXT_BYTES])
{
	char *at = text;
	unsigned int i;

	for (i = 0; i < 16; i++)
		at += sprintf(at, "%02x%s", uuid[i],
			      i == 3 || i == 5 || i == 7 || i == 9 ? "-" : "");
	return text;
}

/**
 * kernel_attribute - read an attribute of a store in sysfs
 * @store: the store's name
 * @name: path of the file, below the store's directory
 * @value: out: the first line of the file, "" if it cannot be read
 * @room: bytes at @value
 */
void kernel_attribute(const char *store, const char *name, char *value, int room)
{
	char path[512];
	FILE *f;

	value[0] = 0;
	if (snprintf(path, sizeof(path), STORES "/%s/%s", store, name) >= (int)sizeof(path))
		return;
	f = fopen(path, "re");
	if (!f)
		return;
	if (!fgets(value, room, f))
		value[0] = 0;
	fclose(f);
	value[strcspn(value, "\n")] = 0;
}

/**
 * kernel_number - read a number from sysfs
 * @store: the store's name
 * @name: as for kernel_attribute()
 * @number: out: 0 if there is none
 *
 * Return: true: the line is a number.
 */
bool kernel_number(const char *store, const char *name, uint64_t *number)
{
	char text[32], *end;

	kernel_attribute(store, name, text, sizeof(text));
	*number = strtoull(text, &end, 10);
	return end != text && !*end;
}

static bool is(const char *store, const char *name, const char *value)
{
	char text[64];

	kernel_attribute(store, name, text, sizeof(text));
	return !strcmp(text, value);
}

/*
 * Find a store in this @state by its @uuid, or, if that is NULL, a durable one of a @kind that no daemon
 * serves. Return: 0 or -ENODEV.
 */
static int find(const char *state, const char *uuid, const char *kind, char name[LSMEM_NAME_BYTES])
{
	DIR *d = opendir(STORES);
	struct dirent *entry;
	int err = -ENODEV;

	name[0] = 0;
	while (d && err && (entry = readdir(d))) {
		const char *store = entry->d_name;

		if (store[0] == '.' || strlen(store) >= LSMEM_NAME_BYTES ||
		    !is(store, "state", state))
			continue;
		if (uuid ? !is(store, "uuid", uuid) :
		    !is(store, "kind", kind) || !is(store, "durability", "durable") ||
		    !is(store, "attached", "0"))
			continue;
		strcpy(name, store);
		err = 0;
	}
	if (d)
		closedir(d);
	return err;
}

/**
 * kernel_find - find the active store with a uuid
 * @uuid: of the store
 * @name: out: the store's name; "": there is none
 *
 * Return: 0 or -ENODEV.
 */
int kernel_find(const uint8_t uuid[16], char name[LSMEM_NAME_BYTES])
{
	char text[UUID_TEXT_BYTES];

	return find("active", uuid_text(uuid, text), NULL, name);
}

/**
 * kernel_find_orphan - find an active durable store that no daemon serves
 * @kind: enum lsmem_store_kind
 * @name: out: the store's name; "": there is none
 *
 * Return: 0 or -ENODEV.
 */
int kernel_find_orphan(uint32_t kind, char name[LSMEM_NAME_BYTES])
{
	return find("active", NULL, kernel_kind(kind), name);
}

/**
 * kernel_find_new - find a store with a uuid that was never active
 * @uuid: of the store
 * @name: out: the store's name; "": there is none
 *
 * Return: 0 or -ENODEV.
 */
int kernel_find_new(const uint8_t uuid[16], char name[LSMEM_NAME_BYTES])
{
	char text[UUID_TEXT_BYTES];

	return find("new", uuid_text(uuid, text), NULL, name);
}

/**
 * kernel_give_name - give a store a name
 * @kernel: attached
 * @name: the name; "": take the name away
 *
 * Does nothing if the store has that name.
 *
 * Return: 0; -ENOENT: the module has no names; -EEXIST: another store has the name; or another
 * negative errno.
 */
int kernel_give_name(const struct kernel *kernel, const char *name)
{
	char path[512], now[64];
	int fd, err = 0;

	snprintf(path, sizeof(path), STORES "/%s/given_name", kernel->name);
	kernel_attribute(kernel->name, "given_name", now, sizeof(now));
	if (!strcmp(now, name))
		return 0;
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	/* The kernel does not call the attribute's function for a write of no bytes. */
	if (write(fd, *name ? name : "\n", *name ? strlen(name) : 1) < 0)
		err = -errno;
	close(fd);
	return err;
}

/**
 * kernel_attach - become the daemon of a store
 * @kernel: out
 * @control: from kernel_control_open()
 * @name: the store's name
 * @uuid: a new store gets this uuid; an active store must have it
 *
 * The caller holds the backups (see struct lsmem_attach), or the store is frozen: then no seglet is written to again, whatever
 * I/O of a predecessor reads it. It logs errors. A frozen store stays so.
 *
 * Return: 0; -ENODEV: no such store; -EBUSY: another daemon is attached; -EXDEV: the store has
 * another uuid; -EOPNOTSUPP: the store is volatile; or another negative errno of LSMEM_CTL_ATTACH.
 */
int kernel_attach(struct kernel *kernel, int control, const char *name, const uint8_t uuid[16])
{
	struct lsmem_attach attach = { .size = sizeof(attach) };
	int err;

	memset(kernel, 0, sizeof(*kernel));
	kernel->fd = -1;
	memcpy(attach.name, name, strnlen(name, sizeof(attach.name) - 1));
	memcpy(attach.uuid, uuid, sizeof(attach.uuid));
	err = call(control, LSMEM_CTL_ATTACH, &attach);
	if (err)
		return err;
	memcpy(kernel->name, attach.name, sizeof(kernel->name) - 1);
	kernel->fd = attach.fd;
	kernel->state = attach.state;
	kernel->kind = attach.kind;
	kernel->bytes = attach.bytes;
	kernel->handles_max = attach.handles_max;
	kernel->capacity = attach.capacity;
	kernel->frozen = attach.frozen;
	kernel->term = attach.term;
	kernel->instant = attach.instant;
	return 0;
}

/**
 * kernel_freeze - serve no client any more
 * @kernel: attached, active
 * @term: of the store's owner, for the next daemon's kernel_attach(); not 0
 * @objects: out, with the result 1: how many objects the store has
 *
 * Does not wait: the caller calls again until the result is 1, and acknowledges meanwhile.
 *
 * Return: 1: it is frozen, and all that is committed is in closed segments; 0: not yet; or a negative errno of
 * LSMEM_REPL_FREEZE.
 */
int kernel_freeze(struct kernel *kernel, uint64_t term, uint64_t *objects)
{
	struct lsmem_freeze freeze = { .size = sizeof(freeze), .term = term };
	int err = call(kernel->fd, LSMEM_REPL_FREEZE, &freeze);

	if (err)
		return err;
	kernel->frozen = true;
	kernel->term = term;
	*objects = freeze.objects;
	return freeze.frozen;
}

/**
 * kernel_thaw - serve clients again
 * @kernel: attached, active; nothing else happens if it is not frozen
 * @term: of the store's owner, as for kernel_freeze(); 0: not known
 *
 * Return: 0, or a negative errno of LSMEM_REPL_FREEZE.
 */
int kernel_thaw(struct kernel *kernel, uint64_t term)
{
	struct lsmem_freeze thaw = { .size = sizeof(thaw), .flags = LSMEM_FREEZE_THAW, .term = term };
	int err = call(kernel->fd, LSMEM_REPL_FREEZE, &thaw);

	if (err)
		return err;
	kernel->frozen = false;
	kernel->term = term;
	return 0;
}

/**
 * kernel_words - which objects and tombstones are live, and where
 * @kernel: attached, active
 * @words: as for LSMEM_REPL_WORDS; @size is filled in already
 *
 * Return: 0, or a negative errno of LSMEM_REPL_WORDS; -ENOTTY: an older module.
 */
int kernel_words(struct kernel *kernel, struct lsmem_words *words)
{
	return call(kernel->fd, LSMEM_REPL_WORDS, words);
}

static void *map(struct kernel *kernel, const char *what, uint64_t offset, uint64_t length,
		 int protection, int flags)
{
	void *address;

	address = mmap(NULL, length, protection, MAP_SHARED | flags, kernel->fd, (off_t)offset);
	if (address != MAP_FAILED)
		return address;
	log_err("%s: the window of its %s (%" PRIu64 " bytes) cannot be mapped: %s",
		kernel->name, what, length, strerror(errno));
	return NULL;
}

static bool window_sane(const struct lsmem_window *window, uint64_t length)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	return !(window->offset % page) && !(window->length % page) &&
	       window->length >= length && window->length - length < page;
}

/* Map the table of segments, for cleaning. A module without this window cleans by itself. */
static int map_segments(struct kernel *kernel, const struct lsmem_info *info)
{
	const struct lsmem_window *window = &info->segments;
	const struct lsmem_cleaning *cleaning;
	uint64_t at, nr;

	if (info->length < sizeof(*info) || !window->length)
		return 0;
	if (!window_sane(window, window->length) || window->length < sizeof(*cleaning)) {
		log_err("%s: its info page is not valid (%" PRIu64 " bytes of segments)",
			kernel->name, (uint64_t)window->length);
		return -EPROTO;
	}
	cleaning = map(kernel, "segments", window->offset, window->length, PROT_READ,
		       MAP_POPULATE);
	if (!cleaning)
		return -EIO;
	kernel->segments_bytes = window->length;
	kernel->cleaning = cleaning;
	at = __atomic_load_n(&cleaning->segments, __ATOMIC_RELAXED);
	nr = __atomic_load_n(&cleaning->nr_segments, __ATOMIC_RELAXED);
	if (__atomic_load_n(&cleaning->length, __ATOMIC_RELAXED) < sizeof(*cleaning) ||
	    at % sizeof(uint64_t) || at < sizeof(*cleaning) || at > window->length ||
	    nr > (window->length - at) / sizeof(*kernel->segments)) {
		log_err("%s: its window of segments is not valid (%" PRIu64 " at %" PRIu64 ")",
			kernel->name, nr, at);
		return -EPROTO;
	}
	kernel->segments = (const void *)((const char *)cleaning + at);
	kernel->nr_segments = (uint32_t)nr;
	return 0;
}

/**
 * kernel_map - map the windows of an attached store
 * @kernel: the store; kernel_detach() unmaps the windows, also after an error
 *
 * Populates the page tables, so that no later access allocates memory. If they are mapped already, nothing is done. Logs why it
 * fails.
 *
 * Return: 0; -EIO: a window cannot be mapped; -EPROTO: the module has another ABI, or an impossible
 * value.
 */
int kernel_map(struct kernel *kernel)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	struct lsmem_info info;

	if (kernel->table_bytes)
		return 0;
	kernel->info = map(kernel, "info page", LSMEM_WINDOW_INFO, page, PROT_READ, 0);
	if (!kernel->info)
		return -EIO;
	kernel->info_bytes = page;
	memcpy(&info, kernel->info, sizeof(info));
	if (info.magic != LSMEM_INFO_MAGIC || info.compat > LSMEM_ABI) {
		log_err("%s: the module speaks ABI %" PRIu32 " (compatible from %" PRIu32 "), this lsmemd ABI %u; install the two together",
			kernel->name, (uint32_t)info.abi, (uint32_t)info.compat, LSMEM_ABI);
		return -EPROTO;
	}
	if (!info.nr_seglets || info.nr_seglets > 1u << 24 ||
	    !window_sane(&info.seglets, info.nr_seglets * LSMEM_SEGLET_BYTES) ||
	    !window_sane(&info.seglet_table, info.nr_seglets * sizeof(struct lsmem_seglet))) {
		log_err("%s: its info page is not valid (%" PRIu64 " seglets)", kernel->name,
			(uint64_t)info.nr_seglets);
		return -EPROTO;
	}
	kernel->nr_seglets = (uint32_t)info.nr_seglets;
	kernel->seglets = map(kernel, "seglets", info.seglets.offset, info.seglets.length,
			     PROT_READ, MAP_POPULATE);
	if (!kernel->seglets)
		return -EIO;
	kernel->seglets_bytes = info.seglets.length;
	kernel->table = map(kernel, "seglet table", info.seglet_table.offset,
			    info.seglet_table.length, PROT_READ, MAP_POPULATE);
	if (!kernel->table)
		return -EIO;
	kernel->table_bytes = info.seglet_table.length;
	return map_segments(kernel, &info);
}

/**
 * kernel_detach - unmap the windows and detach from the store
 * @kernel: a store, attached or not
 */
void kernel_detach(struct kernel *kernel)
{
	if (kernel->segments_bytes)
		munmap((void *)kernel->cleaning, kernel->segments_bytes);
	if (kernel->table_bytes)
		munmap((void *)kernel->table, kernel->table_bytes);
	if (kernel->seglets_bytes)
		munmap((void *)kernel->seglets, kernel->seglets_bytes);
	if (kernel->info_bytes)
		munmap((void *)kernel->info, kernel->info_bytes);
	if (kernel->fd >= 0)
		close(kernel->fd);
	memset(kernel, 0, sizeof(*kernel));
	kernel->fd = -1;
}

/**
 * kernel_next - take events from the stream, without waiting
 * @kernel: the store
 * @events: out
 * @room: elements at @events, at least 128
 * @clock: out
 *
 * Return: the number of events; -EPROTO: more than @room; or a negative errno of LSMEM_REPL_NEXT.
 */
int kernel_next(struct kernel *kernel, struct lsmem_event *events, uint32_t room,
		struct kernel_clock *clock)
{
	struct lsmem_next next = {
		.size = sizeof(next),
		.events = (uintptr_t)events,
		.nr = room,
	};
	int err;

	err = call(kernel->fd, LSMEM_REPL_NEXT, &next);
	if (err)
		return err;
	if (next.nr > room)
		return -EPROTO;
	clock->store_time = next.store_time;
	clock->next_segment = next.next_segment;
	clock->generation_wanted = next.generation_wanted;
	return (int)next.nr;
}

/**
 * kernel_ack - acknowledge to the kernel
 * @kernel: the store
 * @acks: the acknowledgements
 * @nr: elements at @acks
 * @generation_ceiling: durable ceiling of handle generations; 0: no change
 *
 * Return: 0, or a negative errno of LSMEM_REPL_ACK.
 */
int kernel_ack(struct kernel *kernel, const struct lsmem_ack_one *acks, uint32_t nr,
	       uint32_t generation_ceiling)
{
	struct lsmem_ack ack;
	uint32_t part;
	int err;

	do {
		part = nr < 4096 ? nr : 4096;
		memset(&ack, 0, sizeof(ack));
		ack.size = sizeof(ack);
		ack.acks = (uintptr_t)acks;
		ack.nr = part;
		ack.generation_ceiling = generation_ceiling;
		err = call(kernel->fd, LSMEM_REPL_ACK, &ack);
		if (err)
			return err;
		acks += part;
		nr -= part;
	} while (nr);
	return 0;
}

/**
 * kernel_load - begin to load entries of a segment
 * @kernel: the store, new or recovering
 * @loop: carries the command
 * @op: called at the end, with 0 or a negative errno of LSMEM_REPL_LOAD
 * @load: stays, with its data, until the end; @load->size is filled in here
 *
 * A thread of the kernel copies and checks the entries.
 */
void kernel_load(struct kernel *kernel, struct loop *loop, struct loop_op *op,
		 struct lsmem_load *load)
{
	const struct lsmem_command command = { .structure = (uintptr_t)load };
	struct io_uring_sqe *sqe = loop_sqe(loop, op);

	load->size = sizeof(*load);
	io_uring_prep_rw(IORING_OP_URING_CMD, sqe, kernel->fd, NULL, 0, 0);
	sqe->cmd_op = LSMEM_REPL_LOAD;
	sqe->flags |= IOSQE_ASYNC;
	memcpy(sqe->cmd, &command, sizeof(command));
}

/**
 * kernel_place - tell where objects are that stay on backups
 * @kernel: the store, tiered, new or recovering
 * @place: a segment and listings of objects in it; @place->size is filled in here
 *
 * Return: 0, or a negative errno of LSMEM_REPL_PLACE.
 */
int kernel_place(struct kernel *kernel, struct lsmem_placement *place)
{
	place->size = sizeof(*place);
	return call(kernel->fd, LSMEM_REPL_PLACE, place);
}

/**
 * kernel_activate - activate the store: it takes writes from now on
 * @kernel: the store, new or recovering
 * @activate: from the durable digest of a new term; size is filled in here
 *
 * Return: 0, or a negative errno of LSMEM_REPL_ACTIVATE.
 */
int kernel_activate(struct kernel *kernel, const struct lsmem_activate *activate)
{
	struct lsmem_activate copy = *activate;

	copy.size = sizeof(copy);
	return call(kernel->fd, LSMEM_REPL_ACTIVATE, &copy);
}

/**
 * kernel_cleaning - read what the kernel's balancer wants, and whether a pass is under way
 * @kernel: the store
 * @now: out: all zero if the module cleans by itself
 *
 * If @now->begun and @now->ended are equal, no pass was under way when @now->begun was read.
 */
void kernel_cleaning(const struct kernel *kernel, struct lsmem_cleaning *now)
{
	const struct lsmem_cleaning *window = kernel->cleaning;

	memset(now, 0, sizeof(*now));
	if (!window)
		return;
	/* In this order: a pass that begins after @ended was read makes the two differ. */
	now->ended = __atomic_load_n(&window->ended, __ATOMIC_ACQUIRE);
	now->begun = __atomic_load_n(&window->begun, __ATOMIC_ACQUIRE);
	now->level = __atomic_load_n(&window->level, __ATOMIC_RELAXED);
	now->urgent = __atomic_load_n(&window->urgent, __ATOMIC_RELAXED);
	now->rule = __atomic_load_n(&window->rule, __ATOMIC_RELAXED);
	now->oldest_first = __atomic_load_n(&window->oldest_first, __ATOMIC_RELAXED);
	now->utilization_max = __atomic_load_n(&window->utilization_max, __ATOMIC_RELAXED);
	now->room = __atomic_load_n(&window->room, __ATOMIC_RELAXED);
	now->store_time = __atomic_load_n(&window->store_time, __ATOMIC_RELAXED);
	now->by_backup = __atomic_load_n(&window->by_backup, __ATOMIC_RELAXED);
}

/**
 * kernel_clean_last - tell the kernel to begin no more passes, before the daemon drains
 * @kernel: attached
 *
 * Errors do not matter: a module without the flag, or a store that is not active, begins none.
 */
void kernel_clean_last(struct kernel *kernel)
{
	struct lsmem_clean clean = { .size = sizeof(clean), .flags = LSMEM_CLEAN_LAST };

	call(kernel->fd, LSMEM_REPL_CLEAN, &clean);
}

/**
 * kernel_clean - ask for a pass over segments
 * @kernel: the store
 * @segments: their ids, in the order wanted
 * @nr: number of @segments; out: how many of them are being cleaned
 * @anyway: they are to leave the backups: clean them even if nothing is gained
 *
 * Return: 0; -EBUSY or -ENOENT: no pass begins, which is no failure (see struct lsmem_clean); or
 * another negative errno of LSMEM_REPL_CLEAN.
 */
int kernel_clean(struct kernel *kernel, const uint64_t *segments, uint32_t *nr, bool anyway)
{
	struct lsmem_clean clean = {
		.size = sizeof(clean),
		.flags = anyway ? LSMEM_CLEAN_DAMAGED : 0,
		.segments = (uintptr_t)segments,
		.nr = *nr,
	};
	int err = call(kernel->fd, LSMEM_REPL_CLEAN, &clean);

	*nr = err ? 0 : clean.nr;
	return err;
}

/**
 * kernel_limit - tell how many segments the backups have room for
 * @kernel: attached
 * @segments: most that the log can have at present, at least 1
 *
 * Errors do not matter: an older module goes on with what the store was created for.
 */
void kernel_limit(struct kernel *kernel, uint32_t segments)
{
	struct lsmem_room room = { .size = sizeof(room), .segments = segments };

	call(kernel->fd, LSMEM_REPL_ROOM, &room);
}

/**
 * kernel_fetch - take fetch requests, without waiting
 * @kernel: the store, tiered
 * @requests: out
 * @room: elements at @requests, 1..KERNEL_FETCHES
 *
 * Return: the number of requests; -EPROTO: more than @room; or a negative errno of LSMEM_REPL_FETCH.
 */
int kernel_fetch(struct kernel *kernel, struct lsmem_fetch_one *requests, uint32_t room)
{
	struct lsmem_fetch fetch = {
		.size = sizeof(fetch),
		.requests = (uintptr_t)requests,
		.nr = room,
	};
	int err = call(kernel->fd, LSMEM_REPL_FETCH, &fetch);

	if (err)
		return err;
	return fetch.nr > room ? -EPROTO : (int)fetch.nr;
}

/**
 * kernel_fill - answer fetch requests
 * @kernel: the store, tiered
 * @fills: the answers; out: the result of each
 * @nr: elements at @fills, 1..KERNEL_FETCHES
 *
 * Return: 0, or a negative errno of LSMEM_REPL_FILL.
 */
int kernel_fill(struct kernel *kernel, struct lsmem_fill_one *fills, uint32_t nr)
{
	struct lsmem_fill fill = {
		.size = sizeof(fill),
		.fills = (uintptr_t)fills,
		.nr = nr,
	};

	return call(kernel->fd, LSMEM_REPL_FILL, &fill);
}

/**
 * kernel_bring - give objects that were not asked for
 * @kernel: the store, tiered
 * @ones: their entries; out: the result of each
 * @nr: elements at @ones, up to KERNEL_FETCHES; 0: no more come
 *
 * Return: 0, or a negative errno of LSMEM_REPL_BRING; -ENOTTY: the module is older than this call.
 */
int kernel_bring(struct kernel *kernel, struct lsmem_bring_one *ones, uint32_t nr)
{
	struct lsmem_bring bring = {
		.size = sizeof(bring),
		.entries = (uintptr_t)ones,
		.nr = nr,
	};

	return call(kernel->fd, LSMEM_REPL_BRING, &bring);
}

/**
 * kernel_near - name the drive that the kernel reads itself
 * @kernel: the store, tiered
 * @fd: of a block device; -1: none
 *
 * Return: 0, or a negative errno of LSMEM_REPL_NEAR.
 */
int kernel_near(struct kernel *kernel, int fd)
{
	struct lsmem_near near = { .size = sizeof(near), .fd = fd };

	return call(kernel->fd, LSMEM_REPL_NEAR, &near);
}

/**
 * kernel_near_place - say where a segment is on that drive
 * @kernel: the store, tiered
 * @segment: its id
 * @offset: of its log data, bytes
 *
 * Return: 0, or a negative errno of LSMEM_REPL_NEAR.
 */
int kernel_near_place(struct kernel *kernel, uint64_t segment, uint64_t offset)
{
	struct lsmem_near near = {
		.size = sizeof(near),
		.segment = segment,
		.offset = offset,
	};

	return call(kernel->fd, LSMEM_REPL_NEAR, &near);
}
