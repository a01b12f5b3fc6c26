/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Reads of blocks that are on backups only: bios that wait, and no thread for them.  See coldbio.c.
 * block.c makes the set, and adds the bios that meet a COLD block; lsmem_coldbio_put() decides what is
 * next for a bio.
 */
#ifndef LSMEM_COLDBIO_H
#define LSMEM_COLDBIO_H

struct bio;
struct lsmem_block_io;
struct lsmem_coldbios;
struct lsmem_store;

struct lsmem_coldbios *lsmem_coldbios_make(struct lsmem_store *store,
					   void (*end)(struct bio *bio, int error,
						       unsigned long start));
void lsmem_coldbio_add(struct lsmem_coldbios *cold, const struct lsmem_block_io *io);
void lsmem_coldbios_free(struct lsmem_coldbios *cold);

#endif
