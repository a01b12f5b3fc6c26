// SPDX-License-Identifier: GPL-2.0
/* A backup in memory for the follower of a tiered store.  See keeper.h. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "keeper.h"

#define BATCH	64u
#define POLL_MS	20

static struct keeper_frame *frame_of(struct keeper *keeper, uint64_t id, bool create)
{
	struct keeper_frame *frame, *unused = NULL;

	for (frame = keeper->frames; frame < keeper->frames + KEEPER_FRAMES; frame++) {
		if (frame->id == id)
			return frame;
		if (!frame->id && !unused)
			unused = frame;
	}
	if (!create || !unused)
		return NULL;
	if (!unused->bytes)
		unused->bytes = mmap(NULL, LSMEM_SEGMENT_BYTES, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (unused->bytes == MAP_FAILED)
		return NULL;
	unused->id = id;
	unused->length = 0;
	return unused;
}

void keeper_event(struct keeper *keeper, const struct follower *follower,
		  const struct lsmem_event *event)
{
	struct keeper_frame *frame;

	if (event->type != LSMEM_EVENT_RANGE && event->type != LSMEM_EVENT_RETIRE)
		return;
	pthread_mutex_lock(&keeper->lock);
	frame = frame_of(keeper, event->segment, event->type == LSMEM_EVENT_RANGE);
	if (!frame) {
		atomic_store(&keeper->error, -ENOSPC);
	} else if (event->type == LSMEM_EVENT_RETIRE) {
		madvise(frame->bytes, LSMEM_SEGMENT_BYTES, MADV_DONTNEED);
		frame->id = 0;
	} else {
		follower_copy(follower, event, frame->bytes + event->from);
		frame->length = event->to;
	}
	pthread_mutex_unlock(&keeper->lock);
}

/* Answer @request with @blocks blocks. Returns what the kernel says, or the errno of the call. */
static int answer(struct keeper *keeper, const struct lsmem_fetch_one *request, uint32_t blocks, int error)
{
	struct lsmem_fill_one one = { .cookie = request->cookie, .result = error };
	struct lsmem_fill fill = { .size = sizeof(fill), .fills = (uintptr_t)&one, .nr = 1 };
	uint32_t from = request->block * LSMEM_BLOCK, left;
	struct keeper_frame *frame;
	uint8_t *damaged = NULL;
	int ret;

	pthread_mutex_lock(&keeper->lock);
	frame = frame_of(keeper, request->segment, false);
	if (!frame || from >= frame->length) {
		one.result = -ESTALE;
	} else {
		left = (frame->length - from + LSMEM_BLOCK - 1) / LSMEM_BLOCK * LSMEM_BLOCK;
		one.data = (uintptr_t)(frame->bytes + from);
		one.length = blocks * LSMEM_BLOCK < left ? blocks * LSMEM_BLOCK : left;
		if (atomic_load(&keeper->mood) == KEEPER_DAMAGED && !error) {
			uint32_t i;

			/* In all entries that begin in the first block. */
			damaged = malloc(one.length);
			memcpy(damaged, (void *)(uintptr_t)one.data, one.length);
			for (i = 0; i < one.length; i += 16)
				damaged[i] ^= 1;
			one.data = (uintptr_t)damaged;
		}
	}
	ret = ioctl(keeper->fd, LSMEM_REPL_FILL, &fill) ? -errno : one.result;
	pthread_mutex_unlock(&keeper->lock);
	free(damaged);
	return ret;
}

/* Returns false if the kernel has no memory for the answer now. */
static bool serve(struct keeper *keeper, const struct lsmem_fetch_one *request)
{
	bool whole = request->flags & LSMEM_FETCH_SEGMENT;
	uint32_t blocks = request->blocks;
	int ret;

	if (atomic_load(&keeper->mood) == KEEPER_SHORT && blocks > 1 && !whole)
		blocks--;
	/* Before: a test that sees what the kernel makes of the answer finds it counted. */
	atomic_fetch_add(&keeper->answered, 1);
	atomic_fetch_add(&keeper->segments, whole);
	while ((ret = answer(keeper, request, blocks, 0)) == -ENODATA) {
		atomic_fetch_add(&keeper->again, 1);
		blocks += blocks > request->blocks ? blocks : 1;
	}
	if (ret == -EAGAIN) {
		atomic_fetch_add(&keeper->late, 1);
		atomic_fetch_sub(&keeper->answered, 1);
		atomic_fetch_sub(&keeper->segments, whole);
		return false;
	}
	if (ret == -EBADMSG)
		ret = answer(keeper, request, blocks, -EIO);
	if (ret && ret != -ENOENT)
		atomic_store(&keeper->error, ret);
	return true;
}

static void *keeper_main(void *argument)
{
	struct keeper *keeper = argument;
	struct lsmem_fetch_one requests[BATCH];
	uint32_t nr = 0, left, i;

	while (!atomic_load(&keeper->stop)) {
		struct pollfd pollfd = { .fd = keeper->fd, .events = POLLRDBAND };
		struct lsmem_fetch fetch = {
			.size = sizeof(fetch),
			.requests = (uintptr_t)(requests + nr),
			.nr = BATCH - nr,
		};

		if (atomic_load(&keeper->mood) == KEEPER_ASLEEP) {
			usleep(1000);
			continue;
		}
		if (poll(&pollfd, 1, nr ? 1 : POLL_MS) < 0)
			break;
		if (nr < BATCH && ioctl(keeper->fd, LSMEM_REPL_FETCH, &fetch)) {
			atomic_store(&keeper->error, -errno);
			break;
		}
		nr += nr < BATCH ? fetch.nr : 0;
		for (i = 0, left = 0; i < nr; i++)
			if (atomic_load(&keeper->mood) != KEEPER_SILENT && !serve(keeper, &requests[i]))
				requests[left++] = requests[i];
		nr = left;
	}
	return NULL;
}

void keeper_init(struct keeper *keeper)
{
	memset(keeper, 0, sizeof(*keeper));
	pthread_mutex_init(&keeper->lock, NULL);
}

int keeper_start(struct keeper *keeper, const struct follower *follower)
{
	keeper->fd = follower->attach.fd;
	atomic_store(&keeper->stop, false);
	return -pthread_create(&keeper->thread, NULL, keeper_main, keeper);
}

void keeper_stop(struct keeper *keeper)
{
	atomic_store(&keeper->stop, true);
	pthread_join(keeper->thread, NULL);
}

int keeper_follow(struct keeper *keeper, struct follower *follower, const char *name)
{
	int ret = follower_attach(follower, name);

	follower->keeper = keeper;
	ret = ret ? ret : follower_activate(follower, NULL);
	return ret ? ret : keeper_start(keeper, follower);
}

int keeper_succeed(struct keeper *keeper, struct follower *follower, const struct store *store)
{
	uint8_t uuid[LSMEM_UUID_BYTES];
	int ret;

	memcpy(uuid, follower->attach.uuid, sizeof(uuid));
	keeper_stop(keeper);
	follower_stop(follower);
	follower_free(follower);
	atomic_store(&keeper->mood, KEEPER_GOOD);
	ret = follower_succeed(follower, store, uuid);
	return ret ? ret : keeper_start(keeper, follower);
}

void keeper_free(struct keeper *keeper)
{
	struct keeper_frame *frame;

	for (frame = keeper->frames; frame < keeper->frames + KEEPER_FRAMES; frame++)
		if (frame->bytes)
			munmap(frame->bytes, LSMEM_SEGMENT_BYTES);
	pthread_mutex_destroy(&keeper->lock);
}
