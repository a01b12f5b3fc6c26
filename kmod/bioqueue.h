/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Bios that other threads than their submitter carry out.  See bioqueue.c.  lsmem_bioqueue_next()
 * decides how many bios a thread takes together; block.c makes the queue and adds the bios that
 * wait for the daemon.
 */
#ifndef LSMEM_BIOQUEUE_H
#define LSMEM_BIOQUEUE_H

#define LSMEM_BIOS_TOGETHER	16

struct bio;
struct bio_list;
struct lsmem_bioqueue;

struct lsmem_bioqueue *lsmem_bioqueue_make(const char *name,
					   void (*carry_out)(struct bio_list *bios,
							     unsigned int carrier));
void lsmem_bioqueue_add(struct lsmem_bioqueue *queue, struct bio *bio);
void lsmem_bioqueue_free(struct lsmem_bioqueue *queue);

#endif
