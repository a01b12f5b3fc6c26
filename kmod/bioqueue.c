// SPDX-License-Identifier: GPL-2.0
/*
 * Bios with FLUSH or FUA wait for the daemon.  Other threads than the submitter carry them
 * out: a thread that submits many of them has them made durable together, and does not wait
 * for one after the other.
 *
 * A carrier takes all bios that are queued and waits once for all of them: up to
 * LSMEM_BIOS_TOGETHER; a bio with PREFLUSH alone, because it waits before it begins.  There
 * are LSMEM_CARRIERS; when all are at work, further bios wait until one ends.  Nothing is
 * allocated for a bio: carriers are made with the queue, and the workqueue's rescuer
 * (WQ_MEM_RECLAIM) guarantees progress.  A carrier is idle, called, or at work; when a bio
 * is queued and a carrier is idle, that one is called.  The disk's statistics count a bio
 * from when it begins.
 *
 * Locks: queue->lock for bios and idle carriers.
 */
#include <linux/bio.h>
#include <linux/list.h>
#include <linux/sizes.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/workqueue.h>

#include "bioqueue.h"

#define LSMEM_CARRIERS	64
#define LSMEM_SECTORS_TOGETHER	(SZ_64K >> SECTOR_SHIFT)	/* more is begun by several */

struct lsmem_carrier {
	struct lsmem_bioqueue *queue;
	struct work_struct work;
	struct list_head node;		/* while idle */
};

struct lsmem_bioqueue {
	void (*carry_out)(struct bio_list *bios, unsigned int carrier);
	struct workqueue_struct *threads;
	spinlock_t lock;
	struct bio_list bios;
	struct list_head idle;
	bool called;		/* a carrier that has not looked yet */
	struct lsmem_carrier carriers[LSMEM_CARRIERS];
};

/* Call an idle carrier, if a bio waits and none is called; lock held. */
static void lsmem_bioqueue_call(struct lsmem_bioqueue *queue)
{
	struct lsmem_carrier *carrier;

	if (queue->called || bio_list_empty(&queue->bios) || list_empty(&queue->idle))
		return;
	carrier = list_first_entry(&queue->idle, struct lsmem_carrier, node);
	list_del(&carrier->node);
	queue->called = true;
	queue_work(queue->threads, &carrier->work);
}

/* The next bios, at least one, or the carrier is idle; lock held. */
static bool lsmem_bioqueue_next(struct lsmem_carrier *carrier, struct bio_list *bios)
{
	struct lsmem_bioqueue *queue = carrier->queue;
	unsigned int nr = 0, sectors = 0;
	struct bio *bio;

	bio_list_init(bios);
	while ((bio = bio_list_peek(&queue->bios))) {
		if (nr && (bio->bi_opf & REQ_PREFLUSH || nr == LSMEM_BIOS_TOGETHER ||
			   sectors + bio_sectors(bio) > LSMEM_SECTORS_TOGETHER))
			break;
		bio_list_add(bios, bio_list_pop(&queue->bios));
		nr++;
		sectors += bio_sectors(bio);
		if (bio->bi_opf & REQ_PREFLUSH)
			break;
	}
	if (!nr)
		list_add(&carrier->node, &queue->idle);
	lsmem_bioqueue_call(queue);
	return nr;
}

static void lsmem_bioqueue_work(struct work_struct *work)
{
	struct lsmem_carrier *carrier = container_of(work, struct lsmem_carrier, work);
	struct lsmem_bioqueue *queue = carrier->queue;
	struct bio_list bios;

	spin_lock(&queue->lock);
	queue->called = false;
	while (lsmem_bioqueue_next(carrier, &bios)) {
		spin_unlock(&queue->lock);
		queue->carry_out(&bios, carrier - queue->carriers);
		spin_lock(&queue->lock);
	}
	spin_unlock(&queue->lock);
}

/**
 * lsmem_bioqueue_add - have a bio carried out
 * @queue: the queue
 * @bio: ends at some time from now on
 */
void lsmem_bioqueue_add(struct lsmem_bioqueue *queue, struct bio *bio)
{
	spin_lock(&queue->lock);
	bio_list_add(&queue->bios, bio);
	lsmem_bioqueue_call(queue);
	spin_unlock(&queue->lock);
}

/**
 * lsmem_bioqueue_make - make a queue
 * @name: of its threads
 * @carry_out: carries bios out, at most LSMEM_BIOS_TOGETHER, and ends them; may sleep.  The
 *	carriers at work together have different numbers, small ones if they are few
 * Return: the queue or NULL.
 */
struct lsmem_bioqueue *lsmem_bioqueue_make(const char *name,
					   void (*carry_out)(struct bio_list *bios,
							     unsigned int carrier))
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
	for (i = LSMEM_CARRIERS; i--; ) {
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
