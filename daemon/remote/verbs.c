// SPDX-License-Identifier: GPL-2.0
/* A reliable RDMA connection: see verbs.h. */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "verbs.h"

/*
 * The transport waits 2^17 * 4.096 us = 0.54 s for an acknowledgement, once and for each of 6
 * retries. 7 retries would mean "for ever" to soft RoCE. If the receiver has no buffer posted,
 * the transport retries 6 times, about 0.65 s apart.
 */
#define ACK_TIMEOUT	17u
#define RETRIES		6u
#define RNR_RETRIES	6u

#define SQ_DEPTH	(VERBS_SENDS + WIRE_SLOTS * VERBS_WRITES + 2)
#define POLL_AT_ONCE	32
#define DEVICES		"/sys/class/infiniband_verbs"
#define DEVICES_MOST	16	/* open at a time; others stay open until the process ends */

/* Kinds of work requests: the upper half of a wr_id; the lower half is a number. */
enum {
	WR_RECEIVE,
	WR_SEND,
	WR_WRITE,
	WR_READ,
	WR_PING,
};

static uint64_t wr_id(uint32_t kind, uint32_t nr)
{
	return (uint64_t)kind << 32 | nr;
}

/**
 * verbs_break - end a connection: call @user->broken
 * @verbs: the connection; nothing happens if it is over
 * @error: a negative errno
 * @why: a text for the log
 */
void verbs_break(struct verbs *verbs, int error, const char *why)
{
	if (verbs->over)
		return;
	verbs->over = true;
	verbs->user->broken(verbs, error, why);
}

/* ---- Its device -------------------------------------------------------- */

/**
 * struct device - a device that librdmacm has opened
 * @name: name of its directory in sysfs; empty: this is none
 * @number: of its character device
 * @cmd_fd: librdmacm's descriptor of the character device
 * @async_fd: librdmacm's descriptor of its events
 *
 * There is no pointer to librdmacm's context of it: librdmacm may free that without a word.
 */
static struct device {
	char name[IBV_SYSFS_NAME_MAX];
	dev_t number;
	int cmd_fd, async_fd;
} devices[DEVICES_MOST];

/* All connections that are open. */
static struct verbs *connections;

/*
 * Protects @devices, @connections and the @next of connections. librdmacm closes removed devices
 * when it looks up the device of an id, which it does in rdma_get_cm_event(): verbs_get_event()
 * holds this lock meanwhile, so that descriptors in @devices are not closed between a look at them
 * and their replacement. librdmacm's own lock is taken within this one. The holder does not wait
 * for the network, but librdmacm may open a device: verbs_release(), which runs in the daemon's
 * loop, only tries to take the lock.
 */
static pthread_mutex_t connections_lock = PTHREAD_MUTEX_INITIALIZER;

/*
 * The kernel detaches the users of a device in the reverse order in which their modules were
 * loaded. If rdma_cm comes first, the connection manager reports an event. If ib_uverbs comes
 * first, and the driver cannot revoke the device from programs, ib_uverbs waits for them and
 * reports nothing. The only sign is that the device's directory in sysfs is gone.
 */
static bool is_removed(const char *name)
{
	char path[sizeof(DEVICES) + IBV_SYSFS_NAME_MAX];

	snprintf(path, sizeof(path), DEVICES "/%.*s", IBV_SYSFS_NAME_MAX - 1, name);
	return !access(DEVICES, F_OK) && access(path, F_OK);
}

/**
 * verbs_gone - is the device of an id being removed?
 * @id: may be bound to no device
 *
 * Return: true: yes; false: not yet, or there is none.
 */
bool verbs_gone(const struct rdma_cm_id *id)
{
	return id->verbs && is_removed(id->verbs->device->dev_name);
}

/* Is @fd a descriptor of the character device @number? */
static bool is_open(int fd, dev_t number)
{
	struct stat st;

	return !fstat(fd, &st) && S_ISCHR(st.st_mode) && st.st_rdev == number;
}

/* Remember the device of an id. connections_lock held. */
static void note(const struct ibv_context *context)
{
	struct device *device, *room = NULL;
	struct stat st;

	for (device = devices; device < devices + DEVICES_MOST; device++) {
		if (*device->name && device->cmd_fd == context->cmd_fd)
			break;
		if (!room && !(*device->name && is_open(device->cmd_fd, device->number)))
			room = device;
	}
	if (device == devices + DEVICES_MOST)
		device = room;
	if (!device || fstat(context->cmd_fd, &st))
		return;
	snprintf(device->name, sizeof(device->name), "%s", context->device->dev_name);
	device->number = st.st_rdev;
	device->cmd_fd = context->cmd_fd;
	device->async_fd = context->async_fd;
}

/*
 * librdmacm keeps the device open until the process ends or another device appears. Replace its
 * descriptors by /dev/null: that closes the device now, and librdmacm can still close them.
 */
static void let_go(const struct device *device)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (fd < 0 || dup3(fd, device->async_fd, O_CLOEXEC) < 0 ||
	    dup3(fd, device->cmd_fd, O_CLOEXEC) < 0)
		log_warn("%s: cannot be let go of: %s", device->name, strerror(errno));
	if (fd >= 0)
		close(fd);
}

/* Connections have mappings of their device. connections_lock held. */
static bool is_used(const struct device *device)
{
	const struct verbs *verbs;

	for (verbs = connections; verbs; verbs = verbs->next)
		if (verbs->id->verbs->cmd_fd == device->cmd_fd)
			return true;
	return false;
}

/*
 * Let go of removed devices without connections. Calls for an id that is bound to one then fail.
 * connections_lock held.
 */
static void release(void)
{
	struct device *device;

	for (device = devices; device < devices + DEVICES_MOST; device++) {
		if (!*device->name || !is_removed(device->name) || is_used(device))
			continue;
		if (is_open(device->cmd_fd, device->number))
			let_go(device);
		*device->name = 0;
	}
}

/**
 * verbs_release - let go of removed devices without connections
 *
 * The kernel may wait for that without a word, see is_removed(), and no connection looks.
 *
 * Context: any thread; call it once a second. Does not wait: if another thread holds the lock, the
 * next call lets go.
 */
void verbs_release(void)
{
	if (pthread_mutex_trylock(&connections_lock))
		return;
	release();
	pthread_mutex_unlock(&connections_lock);
}

/**
 * verbs_get_event - rdma_get_cm_event(), which may open and close devices
 * @channel: its descriptor is O_NONBLOCK
 * @event: out
 *
 * Context: any thread. All clients and servers take their events with it.
 * Return: 0; -1, and errno, EAGAIN if there is no event.
 */
int verbs_get_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	int ret, error;

	pthread_mutex_lock(&connections_lock);
	ret = rdma_get_cm_event(channel, event);
	error = errno;
	if (!ret && (*event)->id->verbs)
		note((*event)->id->verbs);
	pthread_mutex_unlock(&connections_lock);
	errno = error;
	return ret;
}

static void link_in(struct verbs *verbs)
{
	pthread_mutex_lock(&connections_lock);
	verbs->next = connections;
	connections = verbs;
	pthread_mutex_unlock(&connections_lock);
}

static void link_out(struct verbs *verbs)
{
	struct verbs **at = &connections;

	pthread_mutex_lock(&connections_lock);
	while (*at != verbs)
		at = &(*at)->next;
	*at = verbs->next;
	release();
	pthread_mutex_unlock(&connections_lock);
}

/* ---- Its life ---------------------------------------------------------- */

static int post_receive(struct verbs *verbs, uint32_t nr)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)&verbs->messages[nr],
		.length = WIRE_BYTES,
		.lkey = verbs->messages_mr->lkey,
	};
	struct ibv_recv_wr wr = { .wr_id = wr_id(WR_RECEIVE, nr), .sg_list = &sge, .num_sge = 1 };
	struct ibv_recv_wr *bad;

	return -ibv_post_recv(verbs->id->qp, &wr, &bad);
}

static int make(struct verbs *verbs)
{
	struct ibv_context *device = verbs->id->verbs;
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = {
			.max_send_wr = SQ_DEPTH,
			.max_recv_wr = VERBS_RECEIVES,
			.max_recv_sge = 1,
		},
	};
	struct ibv_device_attr limits;
	uint8_t timeout = ACK_TIMEOUT;
	uint32_t i;
	int err;

	if (ibv_query_device(device, &limits))
		return -EIO;
	verbs->sges = (uint32_t)limits.max_sge < VERBS_SGES ? (uint32_t)limits.max_sge :
		      VERBS_SGES;
	if (verbs->sges < VERBS_SGES_MIN)
		return -EOPNOTSUPP;
	attr.cap.max_send_sge = verbs->sges;
	verbs->pd = ibv_alloc_pd(device);
	verbs->channel = ibv_create_comp_channel(device);
	if (!verbs->pd || !verbs->channel)
		return -errno;
	err = fcntl(verbs->channel->fd, F_SETFL,
		    fcntl(verbs->channel->fd, F_GETFL) | O_NONBLOCK);
	if (err)
		return -errno;
	/* Room for all that can be posted: each request completes when a queue pair dies. */
	verbs->cq = ibv_create_cq(device, SQ_DEPTH + VERBS_RECEIVES, NULL, verbs->channel, 0);
	verbs->messages = memory_get((VERBS_RECEIVES + VERBS_SENDS) * sizeof(*verbs->messages));
	if (!verbs->cq || !verbs->messages)
		return verbs->cq ? -ENOMEM : -errno;
	memset(verbs->messages, 0, (VERBS_RECEIVES + VERBS_SENDS) * sizeof(*verbs->messages));
	verbs->messages_mr = ibv_reg_mr(verbs->pd, verbs->messages,
					(VERBS_RECEIVES + VERBS_SENDS) * sizeof(*verbs->messages),
					IBV_ACCESS_LOCAL_WRITE);
	if (!verbs->messages_mr)
		return -errno;
	attr.send_cq = verbs->cq;
	attr.recv_cq = verbs->cq;
	if (rdma_create_qp(verbs->id, verbs->pd, &attr))
		return -errno;
	/* Kernels without this option use a longer timeout. */
	(void)rdma_set_option(verbs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout,
			      sizeof(timeout));
	for (i = 0; i < VERBS_RECEIVES; i++) {
		err = post_receive(verbs, i);
		if (err)
			return err;
	}
	return -ibv_req_notify_cq(verbs->cq, 0);
}

/**
 * verbs_open - create the queues of a connection
 * @verbs: out
 * @id: bound to a device, not connected; verbs_close() destroys it, also after an error here
 * @user: callbacks; must stay until verbs_close()
 *
 * Return: 0; -EOPNOTSUPP: the device takes fewer than VERBS_SGES_MIN pieces; -ENOMEM; -EIO or
 * another negative errno of the verbs library.
 */
int verbs_open(struct verbs *verbs, struct rdma_cm_id *id, const struct verbs_user *user)
{
	int err;

	memset(verbs, 0, sizeof(*verbs));
	verbs->user = user;
	verbs->id = id;
	verbs->heard_ns = clock_now_ns();
	link_in(verbs);
	err = make(verbs);
	if (err)
		verbs->over = true;
	return err;
}

/**
 * verbs_params - fill in the parameters of rdma_connect() and rdma_accept()
 * @verbs: the connection
 * @params: out
 */
void verbs_params(const struct verbs *verbs, struct rdma_conn_param *params)
{
	struct ibv_device_attr limits;

	memset(params, 0, sizeof(*params));
	params->retry_count = RETRIES;
	params->rnr_retry_count = RNR_RETRIES;
	params->initiator_depth = 1;
	params->responder_resources = 1;
	if (ibv_query_device(verbs->id->verbs, &limits))
		return;
	params->initiator_depth = limits.max_qp_init_rd_atom < 16 ?
				  (uint8_t)limits.max_qp_init_rd_atom : 16;
	params->responder_resources = limits.max_qp_rd_atom < 16 ?
				      (uint8_t)limits.max_qp_rd_atom : 16;
}

/**
 * verbs_qps - get the numbers of both queue pairs
 * @verbs: connected
 * @own: out: of this side; 0 on iWARP, where a side does not know the other side's number
 * @other: out: of the other side, likewise
 *
 * Return: 0 or a negative errno of the verbs library.
 */
int verbs_qps(const struct verbs *verbs, uint32_t *own, uint32_t *other)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int err;

	*own = 0;
	*other = 0;
	if (verbs->id->verbs->device->transport_type == IBV_TRANSPORT_IWARP)
		return 0;
	err = ibv_query_qp(verbs->id->qp, &attr, IBV_QP_DEST_QPN, &init);
	if (err)
		return -err;
	*own = verbs->id->qp->qp_num;
	*other = attr.dest_qp_num;
	return 0;
}

/**
 * verbs_register - register a window of a store's memory, which is mapped read-only
 * @verbs: open
 * @base: first byte
 * @bytes: its length
 * @access: of the device: 0, or IBV_ACCESS_REMOTE_READ
 *
 * Kernels up to 6.1 register only writable memory, also if the device only reads it: make the
 * mapping writable for the call of ibv_reg_mr(). On later kernels, which do not need this, the
 * module refuses it (EACCES).
 *
 * Return: the registration, in the protection domain of @verbs; or NULL, and errno.
 */
struct ibv_mr *verbs_register(struct verbs *verbs, const void *base, size_t bytes, int access)
{
	struct ibv_mr *mr;
	int err;

	if (mprotect((void *)base, bytes, PROT_READ | PROT_WRITE) && errno != EACCES)
		return NULL;
	mr = ibv_reg_mr(verbs->pd, (void *)base, bytes, access);
	err = errno;
	if (mprotect((void *)base, bytes, PROT_READ) && mr) {
		err = errno;
		ibv_dereg_mr(mr);
		mr = NULL;
	}
	errno = err;
	return mr;
}

/**
 * verbs_cut - destroy the queue pair
 * @verbs: in any state
 *
 * When it returns, no device reads or writes memory for this connection, and no callback is
 * called any more. Call verbs_close() after it.
 */
void verbs_cut(struct verbs *verbs)
{
	verbs->over = true;
	if (!verbs->id || !verbs->id->qp)
		return;
	(void)rdma_disconnect(verbs->id);
	rdma_destroy_qp(verbs->id);
	if (verbs->polling)
		loop_cancel(verbs->loop, &verbs->op);
}

/**
 * verbs_close - free a connection
 * @verbs: not @polling, or verbs_open() has failed; all events of its id are acknowledged
 *
 * Context: not from a callback.
 */
void verbs_close(struct verbs *verbs)
{
	if (!verbs->id)
		return;
	verbs_cut(verbs);
	if (verbs->cq)
		ibv_destroy_cq(verbs->cq);
	if (verbs->messages_mr)
		ibv_dereg_mr(verbs->messages_mr);
	if (verbs->channel)
		ibv_destroy_comp_channel(verbs->channel);
	if (verbs->pd)
		ibv_dealloc_pd(verbs->pd);
	memory_put(verbs->messages);
	link_out(verbs);
	rdma_destroy_id(verbs->id);
	memset(verbs, 0, sizeof(*verbs));
	verbs->over = true;
}

/* ---- Out --------------------------------------------------------------- */

static void post(struct verbs *verbs, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;
	int err;

	if (verbs->over)
		return;
	err = ibv_post_send(verbs->id->qp, wr, &bad);
	if (err)
		verbs_break(verbs, -err, "a request cannot be posted");
}

/**
 * verbs_send - send a message
 * @verbs: verbs_room() is not 0
 * @message: is copied; @head.length bytes
 * @tag: argument of @sent
 */
void verbs_send(struct verbs *verbs, const union wire_message *message, uint32_t tag)
{
	uint32_t nr = verbs->sends % VERBS_SENDS;
	union wire_message *copy = &verbs->messages[VERBS_RECEIVES + nr];
	struct ibv_sge sge = {
		.addr = (uintptr_t)copy,
		.length = le32toh(message->head.length),
		.lkey = verbs->messages_mr->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = wr_id(WR_SEND, nr), .sg_list = &sge, .num_sge = 1,
		.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED,
	};

	memcpy(copy, message, sge.length);
	verbs->tags[nr] = tag;
	verbs->sends++;
	post(verbs, &wr);
}

/**
 * verbs_write - write to the other side's memory
 * @verbs: the connection
 * @sges: pieces of local memory
 * @nr: number of @sges, at most verbs->sges
 * @address: RDMA address in the other side's memory
 * @key: RDMA key of the other side's memory
 *
 * The bytes arrive before the next message. The local memory must stay unchanged until the other
 * side has answered a message that was sent later.
 */
void verbs_write(struct verbs *verbs, struct ibv_sge *sges, uint32_t nr, uint64_t address,
		 uint32_t key)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id(WR_WRITE, 0), .sg_list = sges, .num_sge = (int)nr,
		.opcode = IBV_WR_RDMA_WRITE,
		.wr.rdma = { .remote_addr = address, .rkey = key },
	};

	post(verbs, &wr);
}

/**
 * verbs_read - read the other side's memory
 * @verbs: the connection
 * @sge: local memory to read into; must stay until @read or verbs_cut()
 * @address: RDMA address in the other side's memory
 * @key: RDMA key of the other side's memory
 * @tag: argument of @read
 */
void verbs_read(struct verbs *verbs, struct ibv_sge *sge, uint64_t address, uint32_t key,
		uint32_t tag)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id(WR_READ, tag), .sg_list = sge, .num_sge = 1,
		.opcode = IBV_WR_RDMA_READ, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { .remote_addr = address, .rkey = key },
	};

	post(verbs, &wr);
}

/**
 * verbs_tick - end a connection whose device or peer is gone
 * @verbs: connected
 *
 * Context: call it once a second.
 */
void verbs_tick(struct verbs *verbs)
{
	struct ibv_send_wr wr = {
		.wr_id = wr_id(WR_PING, 0), .opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED,
	};

	if (!verbs->over && verbs_gone(verbs->id))
		verbs_break(verbs, -ENODEV, "the RDMA device is gone");
	if (verbs->over || clock_now_ns() - verbs->heard_ns < VERBS_PING_S * 1000000000ull)
		return;
	if (verbs->pinging) {
		if (++verbs->silent > VERBS_SILENT_TICKS)
			verbs_break(verbs, -ETIMEDOUT,
				    "the transport has neither an answer nor an error");
		return;
	}
	verbs->pinging = true;
	verbs->silent = 0;
	post(verbs, &wr);
}

/* ---- In ---------------------------------------------------------------- */

static void broken_completion(struct verbs *verbs, const struct ibv_wc *wc)
{
	switch (wc->status) {
	case IBV_WC_RETRY_EXC_ERR:
	case IBV_WC_RNR_RETRY_EXC_ERR:
		verbs_break(verbs, -ETIMEDOUT, "the other side does not answer");
		break;
	case IBV_WC_WR_FLUSH_ERR:
		verbs_break(verbs, -ECONNRESET, "the connection was cut");
		break;
	case IBV_WC_REM_ACCESS_ERR:
		verbs_break(verbs, -EACCES, "the other side has taken its memory away");
		break;
	case IBV_WC_LOC_LEN_ERR:
		verbs_break(verbs, -EPROTO, "a message longer than any");
		break;
	default:
		verbs_break(verbs, -EIO, ibv_wc_status_str(wc->status));
		break;
	}
}

static void complete(struct verbs *verbs, const struct ibv_wc *wc)
{
	uint32_t nr = (uint32_t)wc->wr_id;
	union wire_message message;
	size_t length;
	int err;

	if (wc->status != IBV_WC_SUCCESS) {
		broken_completion(verbs, wc);
		return;
	}
	verbs->heard_ns = clock_now_ns();
	verbs->silent = 0;
	switch (wc->wr_id >> 32) {
	case WR_RECEIVE:
		/* Copy it: the buffer must be posted again before the user can answer. */
		length = wc->byte_len;
		message = verbs->messages[nr];
		err = post_receive(verbs, nr);
		if (err)
			verbs_break(verbs, err, "a receive cannot be posted");
		else
			verbs->user->message(verbs, &message, length);
		break;
	case WR_SEND:
		verbs->sends_done++;
		verbs->user->sent(verbs, verbs->tags[nr]);
		break;
	case WR_READ:
		verbs->user->read(verbs, nr);
		break;
	case WR_PING:
		verbs->pinging = false;
		break;
	}
}

/**
 * verbs_poll - handle all completions that there are
 * @verbs: the connection
 */
void verbs_poll(struct verbs *verbs)
{
	struct ibv_wc wcs[POLL_AT_ONCE];
	struct ibv_cq *cq;
	void *context;
	int n, i;

	/* Take one event: if there are more, the channel stays readable. */
	if (!verbs->over && !ibv_get_cq_event(verbs->channel, &cq, &context))
		ibv_ack_cq_events(cq, 1);
	if (!verbs->over && ibv_req_notify_cq(verbs->cq, 0))
		verbs_break(verbs, -EIO, "completions cannot be waited for");
	while (!verbs->over && (n = ibv_poll_cq(verbs->cq, POLL_AT_ONCE, wcs))) {
		if (n < 0) {
			verbs_break(verbs, -EIO, "completions cannot be taken");
			break;
		}
		for (i = 0; i < n && !verbs->over; i++)
			complete(verbs, &wcs[i]);
	}
}

static void polled(struct loop_op *op, int res)
{
	struct verbs *verbs = (struct verbs *)((char *)op - offsetof(struct verbs, op));

	verbs->polling = false;
	if (verbs->over || !verbs->loop)
		return;
	if (res < 0 && res != -EINTR && res != -EAGAIN) {
		verbs_break(verbs, res, "completions cannot be waited for");
		return;
	}
	/* Poll first: verbs_poll() may end the connection, and verbs_cut() cancels the poll. */
	verbs->polling = true;
	loop_poll(verbs->loop, &verbs->op, verbs->channel->fd, POLLIN);
	verbs_poll(verbs);
}

/**
 * verbs_poll_in - let a loop handle the completions
 * @verbs: in no loop
 * @loop: the loop; must stay until @polling is false for good
 */
void verbs_poll_in(struct verbs *verbs, struct loop *loop)
{
	verbs->loop = loop;
	verbs->op.done = polled;
	verbs->polling = true;
	loop_poll(loop, &verbs->op, verbs->channel->fd, POLLIN);
}

/**
 * verbs_poll_out - take a connection out of its loop
 * @verbs: the connection, with nothing in flight
 *
 * The loop must run until @polling is false.
 */
void verbs_poll_out(struct verbs *verbs)
{
	if (verbs->polling)
		loop_cancel(verbs->loop, &verbs->op);
	verbs->loop = NULL;
}

/**
 * verbs_event - handle an event of the connection manager
 * @verbs: connected
 * @event: a copy; the caller has acknowledged the event
 */
void verbs_event(struct verbs *verbs, const struct rdma_cm_event *event)
{
	switch (event->event) {
	case RDMA_CM_EVENT_ESTABLISHED:
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		/* A REFUSE of the other side may be among the completions. */
		verbs_poll(verbs);
		verbs_break(verbs, -ECONNRESET, "the other side has ended the connection");
		break;
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		verbs_break(verbs, -ENODEV, "the RDMA device is gone");
		break;
	case RDMA_CM_EVENT_ADDR_CHANGE:
		verbs_break(verbs, -ENETDOWN, "the address of the RDMA device has changed");
		break;
	default:
		verbs_break(verbs, -EIO, rdma_event_str(event->event));
		break;
	}
}
