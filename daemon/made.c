// SPDX-License-Identifier: GPL-2.0
/* A move's store in the kernel: see made.h. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/log.h"
#include "base/thread.h"
#include "made.h"

#define PLACE_MOST	16384u	/* objects between two looks at the loop: some milliseconds */

/* ---- The store --------------------------------------------------------------------- */

/*
 * No thread_begin(): nothing is above this store yet, and its memory may have to come from writeback. The main thread leaves
 * @d->kernel and @d->created alone meanwhile.
 */
static void *make(void *context)
{
	struct made *m = context;

	m->err = store_make(m->d, &m->plan, m->uuid);
	if (!m->err && store_give_name(m->d))
		m->err = -EEXIST;
	if (!m->err)
		m->err = kernel_map(&m->d->kernel);
	if (!m->err)
		log_info("%s: is here for what the source has", m->d->kernel.name);
	atomic_store(&m->done, true);
	return NULL;
}

/* Wait for the thread. It looks at no signal, but the kernel ends. */
static void join(struct made *m)
{
	if (m->making)
		pthread_join(m->thread, NULL);
	m->making = false;
	atomic_store(&m->done, false);
}

/**
 * made_begin - begin with nothing made
 * @m: out, but for @plan, which is set
 * @d: the daemon
 * @uuid: of the store
 */
void made_begin(struct made *m, struct lsmemd *d, const uint8_t *uuid)
{
	m->d = d;
	memcpy(m->uuid, uuid, sizeof(m->uuid));
}

/**
 * made_step - make the store, and place what is known
 * @m: begun
 *
 * A thread makes it when this is called first: the memory of a large store takes longer than the source waits for a word.
 *
 * Return: 1: it is there, mapped, and all words that are known by now are placed; 0: not yet; or a negative errno: it cannot be made.
 * With "node =" always 1: an operator has made it, and the start attaches to it.
 */
int made_step(struct made *m)
{
	int err;

	if (m->d->config.store.node_line)
		return 1;
	if (!m->making) {
		err = thread_start(&m->thread, make, m);
		if (err)
			return err;
		m->making = true;
	}
	if (!atomic_load(&m->done))
		return 0;
	if (m->err)
		return m->err;
	store_give_memory(m->d);
	return !made_waits(m);
}

/**
 * made_undo - destroy what was made for a move that is given up
 * @m: begun
 *
 * Return: 0; -EAGAIN: it is being made; or another negative errno of the kernel.
 */
int made_undo(struct made *m)
{
	struct lsmemd *d = m->d;
	int err;

	if (m->making && !atomic_load(&m->done))
		return -EAGAIN;
	join(m);
	if (!d->created)
		return 0;
	store_detach(d);
	err = kernel_destroy(d->control, d->kernel.name, false);
	if (!err) {
		d->created = false;
		d->kernel.name[0] = 0;
	}
	return err;
}

/**
 * made_end - nothing more is placed, and no thread runs
 * @m: begun; before the known is freed
 */
void made_end(struct made *m)
{
	join(m);
	placing_free(m->placing);
	m->placing = NULL;
}

/* ---- Its words ---------------------------------------------------------------------- */

static int place(void *context, struct lsmem_placement *placement)
{
	struct made *m = context;

	return kernel_place(&m->d->kernel, placement);
}

static const struct placing_user user = { .place = place };

/**
 * made_knows - place what is going to be known
 * @m: begun
 * @known: no block was taken yet
 *
 * What is to be verified first is recovered from the backups, and a store that an operator has made is attached to later: then nothing
 * is placed.
 */
void made_knows(struct made *m, struct known *known)
{
	const struct lsmemd *d = m->d;

	if (!d->options.verify_first && d->config.store.verify != CONFIG_VERIFY_FIRST && !d->config.store.node_line)
		m->placing = placing_new(known, &user, m);
}

/**
 * made_forget - the words that are placed do not count, or not all are there
 * @m: its store is made
 */
void made_forget(struct made *m)
{
	if (!m->placing)
		return;
	placing_free(m->placing);
	m->placing = NULL;
	store_forget(m->d, m->uuid);
}

static void failed(struct made *m, int err)
{
	log_warn("%s: its words are not placed ahead: %s", m->d->kernel.name, strerror(-err));
	made_forget(m);
}

static bool can_place(const struct made *m)
{
	return m->placing && atomic_load(&m->done) && !m->err;
}

/**
 * made_place - place some words of what is known
 * @m: begun; READY has not come
 */
void made_place(struct made *m)
{
	int err = can_place(m) ? placing_run(m->placing, PLACE_MOST) : 0;

	if (err)
		failed(m, err);
}

/**
 * made_waits - is there something that made_place() can do at once?
 * @m: begun
 */
bool made_waits(const struct made *m)
{
	return can_place(m) && placing_waits(m->placing);
}

/**
 * made_told - place the rest: all was told
 * @m: begun
 * @told: from known_told(); NULL: the recovery is told nothing
 *
 * Return: for the recovery: @told, or the same with the words placed.
 */
const struct recover_told *made_told(struct made *m, const struct recover_told *told)
{
	int err;

	if (!told || !can_place(m))
		return told;
	err = placing_finish(m->placing);
	if (err) {
		failed(m, err);
		return told;
	}
	log_info("%s: the words of %" PRIu64 " objects are placed", m->d->kernel.name, told->objects);
	m->told = *told;
	placing_told(m->placing, &m->told);
	return &m->told;
}
