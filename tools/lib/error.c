// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: what its errors mean.
 *
 * Only errors that mean something else to a store than the words of the system say; errors of single calls
 * (lsm_spread(), lsm_aggregate_feed() ..) are in lsmem(3).
 */
#define _GNU_SOURCE
#include <errno.h>

#include "internal.h"

const char *lsm_strerror(int error)
{
	unsigned int number = error < 0 ? 0u - (unsigned int)error : (unsigned int)error;
	const char *text;

	switch (number) {
	case 0:
		return "no error";
	case E2BIG:
		return "more operations than can be carried out all or none";
	case EAGAIN:
		return "the store is not active yet, or all view slots are in use";
	case EBADF:
		return "the store was opened for reading only";
	case EBADMSG:
		return "the object is of another kind, or damaged";
	case EBUSY:
		return "in use, or waiting for a change that is not durable yet";
	case ECANCELED:
		return "not carried out as a whole: a view or snapshot was revoked, or another operation failed";
	case ECHILD:
		return "not possible in the child of a fork";
	case EDOM:
		return "a weight is negative or no number, or all are 0";
	case EEXIST:
		return "there is an object with this index or key already";
	case EFBIG:
		return "the object would be larger than an object can be";
	case EILSEQ:
		return "the object has another version than the caller allows";
	case EINVAL:
		return "an argument is not valid";
	case EIO:
		return "the object is not in memory, and no backup has it whole";
	case EMFILE:
		return "no handle or no descriptor is free";
	case ENFILE:
		return "too many open files of the store, or of the system";
	case ENODEV:
		return "the store is being destroyed";
	case ENOENT:
		return "no such store, handle, key or root";
	case ENOSPC:
		return "the store is full";
	case ENOTTY:
		return "not an object store, or the module is too old";
	case EOPNOTSUPP:
		return "not possible with this store, or the way it was opened, or this module";
	case EOVERFLOW:
		return "the result is beyond its type, or more than was allowed";
	case EPROTO:
		return "the module is of another ABI than this library";
	case ESTALE:
		return "the object was freed";
	case ETIMEDOUT:
		return "not in time; of a durable change: it is made, and it is not known whether it is durable";
	case EUSERS:
		return "as many clients as there can be have the table open";
	case EUCLEAN:
		return "the memory of the store is damaged";
	}
#ifdef __GLIBC__
	text = strerrordesc_np((int)number);	/* strerror() may use a buffer of the thread */
#else
	text = strerror((int)number);
#endif
	return text ? text : "unknown error";
}
