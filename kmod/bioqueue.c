// SPDX-License-Identifier: GPL-2.0
/*
 * Bios that wait for the daemon, FLUSH and FUA, carried out by others than who
 * submits them: a thread that keeps many under way has them durable together,
 * where it would wait for one after the other.
 *
 * No more than LSMEM_CARRIERS are carried out at once; the others wait for one
 * of these to end.  Nothing is allocated for a bio: carriers are made with the
 * queue, and a thread of the workqueue's own does what no other can be had for.
 * A carrier is idle, or scheduled, or at work; an idle one means that no bio
 * waits.  The disk's statistics count a bio from when it is begun.
 *
 * Locks: queue->lock for bios and idle carriers.
 */
#include <linux/bio.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "bioqueue.h"

#define LSMEM_CARRIERS	64

struct lsmem_carrier {
	struct lsmem_bioqueue *queue;
	struct work_struct work;
	struct list_head node;		/* while idle */
};

struct lsmem_bioqueue {
	void (*carry_out)(struct bio *bio);
	struct workqueue_struct *threads;
	spinlock_t lock;
	struct bio_list bios;
	struct list_head idle;
	struct lsmem_carrier carriers[LSMEM_CARRIERS];
};

/* The next bio, or the carrier is idle. */
static struct bio *lsmem_bioqueue_next(struct lsmem_carrier *carrier)
{
	struct lsmem_bioqueue *queue = carrier->queue;
	struct bio *bio;

	spin_lock(&queue->lock);
	bio = bio_list_pop(&queue->bios);
	if (!bio)
		list_add(&carrier->node, &queue->idle);
	spin_unlock(&queue->lock);
	return bio;
}

static void lsmem_bioqueue_work(struct work_struct *work)
{
	struct lsmem_carrier *carrier = container_of(work, struct lsmem_carrier, work);
	struct bio *bio;

	while ((bio = lsmem_bioqueue_next(carrier)))
		carrier->queue->carry_out(bio);
}

/**
 * lsmem_bioqueue_add - have a bio carried out
 * @queue: the queue
 * @bio: ends at some time from now on
 */
void lsmem_bioqueue_add(struct lsmem_bioqueue *queue, struct bio *bio)
{
	struct lsmem_carrier *carrier;

	spin_lock(&queue->lock);
	bio_list_add(&queue->bios, bio);
	carrier = list_first_entry_or_null(&queue->idle, struct lsmem_carrier, node);
	if (carrier)
		list_del(&carrier->node);
	spin_unlock(&queue->lock);
	if (carrier)
		queue_work(queue->threads, &carrier->work);
}

/**
 * lsmem_bioqueue_make - make a queue
 * @name: of its threads
 * @carry_out: carries a bio out and ends it; may sleep
 * Return: the queue or NULL.
 */
struct lsmem_bioqueue *lsmem_bioqueue_make(const char *name, void (*carry_out)(struct bio *bio))
{
	struct lsmem_bioqueue *queue = kzalloc(sizeof(*queue), GFP_KERNEL);
	unsigned int i;

	if (!queue)
		return NULL;
	queue->threads = alloc_workqueue("%s", WQ_UNBOUND | WQ_MEM_RECLAIM, LSMEM_CARRIERS, name);
	if (!queue->threads) {
		kfree(queue);
		return NULL;
	}
	queue->carry_out = carry_out;
	spin_lock_init(&queue->lock);
	bio_list_init(&queue->bios);
	INIT_LIST_HEAD(&queue->idle);
	for (i = 0; i < LSMEM_CARRIERS; i++) {
		queue->carriers[i].queue = queue;
		INIT_WORK(&queue->carriers[i].work, lsmem_bioqueue_work);
		list_add(&queue->carriers[i].node, &queue->idle);
	}
	return queue;
}

/**
 * lsmem_bioqueue_free - the last bio has been added
 * @queue: NULL: nothing
 *
 * Return: when all have been carried out.
 */
void lsmem_bioqueue_free(struct lsmem_bioqueue *queue)
{
	if (!queue)
		return;
	destroy_workqueue(queue->threads);
	kfree(queue);
}
