// SPDX-License-Identifier: GPL-2.0
/*
 * A target of a move that takes nothing into a kernel, for guest-move.sh: reads what the source tells, and says what the
 * standard input says.
 *
 *	target rdma://ADDRESS[:PORT]/STORE SECRETFILE HOST [TERM]
 *
 *	move		say MOVE, once the MARK has come
 *	taken TERM	say TAKEN
 *	close TERM	say CLOSE
 *	read BYTES	read the source's memory with its keys: is there a block of each of these? (4 KiB)
 *	leave		end
 *
 * With TERM it asks for keys again. Prints what comes, a line each: "refused REASON", "store SEGLETS", "mark OBJECTS",
 * "ready DIGEST OBJECTS MS", "pulled SEGLETS", "found BYTE ..", "closed", "end WHY". Status 0: it left.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <lsmem_format.h>

#include "lsmem.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/secret.h"
#include "move/known.h"
#include "remote/move.h"
#include "remote/verbs.h"

#define SEGMENTS	65536u	/* the log has fewer */

static struct verbs verbs;
static struct move_target target;
static struct known *known;
static struct ibv_mr *slots, *pulled;
static uint8_t *memory;		/* the store's, as it is pulled */
static bool over, marked, wants_move, told;
static uint64_t moved_ns;

static void out(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

/* ---- What the connection asks for --------------------------------------------- */

static int make_slots(struct move_target *t)
{
	t->memory = memory_get(MOVE_SLOTS * AHEAD_BYTES);
	slots = t->memory ? ibv_reg_mr(verbs.pd, t->memory, MOVE_SLOTS * AHEAD_BYTES, IBV_ACCESS_LOCAL_WRITE) : NULL;
	return slots ? 0 : -ENOMEM;
}

static void send_message(struct move_target *t, const union wire_message *message)
{
	(void)t;
	verbs_send(&verbs, message, 0);
}

static void read_block(struct move_target *t, uint32_t slot, uint32_t length, uint64_t address, uint32_t key)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)(t->memory + (size_t)slot * AHEAD_BYTES), .length = length, .lkey = slots->lkey,
	};

	verbs_read(&verbs, &sge, address, key, slot);
}

static void has_ended(struct move_target *t, const char *why)
{
	if (t->session.refused.reason)
		out("refused %u", le32toh(t->session.refused.reason));
	out("end %s", why);
	over = true;
}

static int is_store(struct move_target *t, const struct move_store *store)
{
	(void)t;
	known = known_new(store->indices, SEGMENTS);
	memory = memory_get((size_t)store->seglets * LSMEM_SEGLET_BYTES);
	pulled = memory ? ibv_reg_mr(verbs.pd, memory, (size_t)store->seglets * LSMEM_SEGLET_BYTES,
				     IBV_ACCESS_LOCAL_WRITE) : NULL;
	out("store %u", store->seglets);
	return known && pulled ? 0 : -ENOMEM;
}

static int take_block(struct move_target *t, const struct ahead_head *block)
{
	int err = known_block(known, block);

	(void)t;
	if (!err && block->kind == htole32(AHEAD_MARK)) {
		marked = true;
		out("mark %llu", (unsigned long long)known_objects(known));
	}
	return err;
}

static void is_ready(struct move_target *t, const struct move_ready *ready)
{
	told = true;
	out("ready %llu %llu %llu", (unsigned long long)ready->digest, (unsigned long long)ready->objects,
	    moved_ns ? (unsigned long long)(clock_now_ns() - moved_ns) / 1000000 : 0);
	if (!session_term(&t->session) && known_objects(known) != ready->objects)
		out("other %llu", (unsigned long long)known_objects(known));
}

static void is_closed(struct move_target *t)
{
	(void)t;
	out("closed");
}

static const struct move_target_user target_user = {
	.slots = make_slots, .send = send_message, .read = read_block, .end = has_ended, .store = is_store,
	.block = take_block, .ready = is_ready, .closed = is_closed,
};

/* ---- RDMA ------------------------------------------------------------------------ */

#define PULL	(1u << 20)	/* tag of a read of the store's memory */

static bool pull_done;

static void came(struct verbs *v, const union wire_message *message, size_t length)
{
	(void)v;
	move_target_message(&target, message, length);
}

static void sent(struct verbs *v, uint32_t tag)
{
	(void)v;
	(void)tag;
}

static void was_read(struct verbs *v, uint32_t tag)
{
	(void)v;
	if (tag == PULL)
		pull_done = true;
	else
		move_target_read(&target, tag);
}

static void broken(struct verbs *v, int error, const char *why)
{
	(void)v;
	(void)error;
	if (!over)
		out("end %s", why);
	over = true;
}

static const struct verbs_user verbs_user = { .message = came, .sent = sent, .read = was_read, .broken = broken };

static struct rdma_event_channel *events;

static bool step(enum rdma_cm_event_type wanted)
{
	struct rdma_cm_event *event;
	bool good;

	if (rdma_get_cm_event(events, &event))
		return false;
	good = event->event == wanted;
	rdma_ack_cm_event(event);
	return good;
}

static bool connect_to(const struct wire_address *address)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(address->port)) };
	struct rdma_conn_param params;
	struct rdma_cm_id *id;

	events = rdma_create_event_channel();
	if (!events || inet_pton(AF_INET, address->host, &to.sin_addr) != 1 ||
	    rdma_create_id(events, &id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 2000) || !step(RDMA_CM_EVENT_ADDR_RESOLVED) ||
	    rdma_resolve_route(id, 2000) || !step(RDMA_CM_EVENT_ROUTE_RESOLVED) ||
	    verbs_open(&verbs, id, &verbs_user))
		return false;
	verbs_params(&verbs, &params);
	return !rdma_connect(id, &params) && step(RDMA_CM_EVENT_ESTABLISHED);
}

static void turn(int ms)
{
	struct pollfd fds[3] = {
		{ .fd = events->fd, .events = POLLIN },
		{ .fd = verbs.channel->fd, .events = POLLIN },
		{ .fd = ms < 0 ? -1 : 0, .events = POLLIN },
	};
	struct rdma_cm_event *event, copy;

	if (poll(fds, 3, 100) > 0 && fds[0].revents && !rdma_get_cm_event(events, &event)) {
		copy = *event;
		rdma_ack_cm_event(event);
		verbs_event(&verbs, &copy);
	}
	verbs_poll(&verbs);
}

/* Read a range of the source's memory to the same place here. */
static void pull_range(const struct move_region *from, size_t at, uint32_t length)
{
	struct ibv_sge sge = { .addr = (uintptr_t)memory + at, .length = length, .lkey = pulled->lkey };

	pull_done = false;
	verbs_read(&verbs, &sge, from->address + at, from->key, PULL);
	while (!pull_done && !over)
		turn(-1);
}

/* Mark the seglets with objects that were told. */
static void mark_told(bool *used)
{
	struct known_listing listing;
	struct known_where where;
	uint64_t index, segment;

	for (index = 0; index < target.store.indices; index++) {
		if (known_listing(known, index, &listing, &segment) &&
		    known_where(&listing, target.store.seglets, &where))
			used[where.seglet] = true;
	}
}

/* After keys again nothing was told: mark the seglets that were ever used, as the table says. */
static void mark_table(bool *used)
{
	const struct lsmem_seglet *table = (const void *)memory;
	uint32_t seglet;

	pull_range(&target.ready.keys.table, 0, (uint32_t)target.ready.keys.table.bytes);
	for (seglet = 0; seglet < target.store.seglets; seglet++)
		used[seglet] = table[seglet].incarnation;
}

/* Read the store's memory from the source, and look for blocks of one byte. */
static void pull(const char *bytes)
{
	const struct move_region *from = &target.ready.keys.seglets;
	bool *used = calloc(target.store.seglets, sizeof(*used));
	uint32_t seglet, read = 0;

	if (session_term(&target.session))
		mark_table(used);
	else
		mark_told(used);
	memset(memory, 0, from->bytes);
	for (seglet = 0; seglet < target.store.seglets && !over; seglet++) {
		if (!used[seglet])
			continue;
		pull_range(from, (size_t)seglet * LSMEM_SEGLET_BYTES, LSMEM_SEGLET_BYTES);
		read++;
	}
	out("pulled %u", read);
	printf("found");
	for (; *bytes && !over; bytes++) {
		uint8_t block[LSMEM_BLOCK];

		memset(block, *bytes, sizeof(block));
		if (memmem(memory, from->bytes, block, sizeof(block)))
			printf(" %c", *bytes);
	}
	out("%s", "");
	free(used);
}

/* Return: false: leave. */
static bool obey(char *line)
{
	line[strcspn(line, "\n")] = 0;
	if (!strcmp(line, "leave"))
		return false;
	if (!strcmp(line, "move"))
		wants_move = true;
	else if (!strncmp(line, "taken ", 6))
		move_target_taken(&target, strtoull(line + 6, NULL, 10));
	else if (!strncmp(line, "close ", 6))
		move_target_close(&target, strtoull(line + 6, NULL, 10));
	else if (!strncmp(line, "read ", 5) && told)
		pull(line + 5);
	else
		out("what %s", line);
	return true;
}

int main(int argc, char **argv)
{
	struct move_call call = { .setup = { .nonce = "not very random" } };
	struct pollfd input = { .fd = 0, .events = POLLIN };
	static struct secret key;
	struct wire_address address;
	char line[256];

	if ((argc != 4 && argc != 5) || !wire_address(argv[1], &address) || secret_read(argv[2], &key))
		return 2;
	log_setup(-1);
	setvbuf(stdin, NULL, _IONBF, 0);
	if (!connect_to(&address)) {
		out("end no connection");
		return 1;
	}
	(void)verbs_qps(&verbs, &call.setup.link.client_qp, &call.setup.link.server_qp);
	call.key = &key;
	call.name = address.name;
	call.who = argv[3];
	call.term = argc == 5 ? strtoull(argv[4], NULL, 10) : 0;
	move_target_begin(&target, &target_user, &call, clock_now_ns());
	while (!over) {
		turn(0);
		move_target_tick(&target, clock_now_ns());
		if (wants_move && marked && move_target_move(&target)) {
			moved_ns = clock_now_ns();
			wants_move = false;
		}
		if (!over && poll(&input, 1, 0) > 0 && (!fgets(line, sizeof(line), stdin) || !obey(line))) {
			verbs_cut(&verbs);
			return 0;
		}
	}
	return 1;
}
