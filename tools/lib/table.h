/* SPDX-License-Identifier: LGPL-2.1-or-later OR MIT */
/* liblsmem: what the files of tables with keys share.  Nothing here is exported. */
#ifndef LSMEM_LIB_TABLE_H
#define LSMEM_LIB_TABLE_H

#include "index.h"

/**
 * struct lsm_hand - the seglets that lsm_table_evict() looks at next
 * @seglets: of them, in the order of the log
 * @nr: entries of @seglets until the next survey
 * @all: entries of @seglets
 * @at: the next one
 * @first: seglet that the last survey began with
 */
struct lsm_hand {
	struct lsm_aged *seglets;
	uint32_t nr;
	uint32_t all;
	uint32_t at;
	uint32_t first;
};

/**
 * struct lsm_table - an open table
 * @lsm: store
 * @id: table id of its objects
 * @index: of its keys
 * @evicting: protects @hand
 * @hand: of lsm_table_evict()
 */
struct lsm_table {
	struct lsm *lsm;
	uint32_t id;
	struct lsm_index *index;
	pthread_mutex_t evicting;
	struct lsm_hand hand;
};

/**
 * struct lsm_key - a key
 * @bytes: it
 * @length: of @bytes
 * @hash: of @bytes
 */
struct lsm_key {
	const void *bytes;
	size_t length;
	uint64_t hash;
};

/* What an item has behind its value. */
static inline size_t lsm_tail_bytes(size_t key_length)
{
	return key_length + sizeof(struct lsmem_item_end);
}

#define LSM_KEY_ROOM	lsm_tail_bytes(LSM_KEY_MAX)

ssize_t lsm_table_key(struct lsm_table *table, const struct lsm_listed *listed, uint8_t *key);
int lsm_table_make_key(const struct lsm_table *table, const void *bytes, size_t length, struct lsm_key *key);
int lsm_table_check_put(const struct lsm_table *table, size_t key_length, size_t length, unsigned int flags);
void lsm_table_fill(uint8_t *bytes, const struct lsm_key *key, const void *value, size_t length);
int lsm_table_find(struct lsm_table *table, const struct lsm_key *key, bool locked, void *value, size_t room,
		   struct lsm_item *item, struct lsm_probe *probe);
int lsm_table_exceed(struct lsm_table *table, const struct lsm_key *key, uint64_t handle, const void *bytes,
		     size_t length, uint64_t *version);
void lsm_table_forget(struct lsm_table *table, uint32_t stripe, _Atomic uint64_t *slot, uint64_t version);

#endif
