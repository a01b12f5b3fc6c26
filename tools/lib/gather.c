// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: objects from several pieces.
 *
 * The kernel takes one pointer for an object, and copies from there into the log.  So pieces are put together in memory
 * first: a copy more, which is far less than the system call for the small pieces of headers and keys.
 */
#include <errno.h>
#include <stdlib.h>

#include "internal.h"

#define SMALL_BYTES	4096u

/**
 * struct gathered - pieces put together
 * @data: @small, or from malloc(), or the only piece
 * @length: of all
 * @heap: to be freed
 * @small: for most objects
 */
struct gathered {
	const void *data;
	size_t length;
	void *heap;
	uint8_t small[SMALL_BYTES];
};

static int gather(struct gathered *gathered, const struct iovec *iov, size_t nr)
{
	uint8_t *to = gathered->small;
	size_t i;

	gathered->length = 0;
	gathered->heap = NULL;
	for (i = 0; i < nr; i++) {
		if (iov[i].iov_len > LSMEM_OBJECT_MAX - gathered->length)
			return -EINVAL;
		gathered->length += iov[i].iov_len;
	}
	gathered->data = nr == 1 ? iov->iov_base : to;
	if (nr == 1)
		return 0;
	if (gathered->length > sizeof(gathered->small)) {
		gathered->data = gathered->heap = to = malloc(gathered->length);
		if (!to)
			return -ENOMEM;
	}
	for (i = 0; i < nr; i++) {
		if (iov[i].iov_len)
			memcpy(to, iov[i].iov_base, iov[i].iov_len);
		to += iov[i].iov_len;
	}
	return 0;
}

int lsm_allocv(struct lsm *lsm, const struct iovec *iov, size_t nr, unsigned int flags, uint64_t *handle,
	       uint64_t *version)
{
	struct gathered gathered;
	int ret = gather(&gathered, iov, nr);

	if (!ret)
		ret = lsm_alloc(lsm, gathered.data, gathered.length, flags, handle, version);
	free(gathered.heap);
	return ret;
}

int lsm_replacev(struct lsm *lsm, uint64_t handle, const struct iovec *iov, size_t nr, unsigned int flags,
		 uint64_t *version)
{
	struct gathered gathered;
	int ret = gather(&gathered, iov, nr);

	if (!ret)
		ret = lsm_replace(lsm, handle, gathered.data, gathered.length, flags, version);
	free(gathered.heap);
	return ret;
}
