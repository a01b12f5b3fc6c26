// SPDX-License-Identifier: GPL-2.0
/* Shared secrets: see secret.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "secret.h"

/**
 * secret_read - read a secret from its file
 * @path: the file
 * @secret: out
 *
 * Logs why it fails.
 *
 * Return: 0; -EPERM: not only its owner, root or the user of the daemon, can read it, or it is no
 * regular file; -EINVAL: its length is out of range; or another negative errno.
 */
int secret_read(const char *path, struct secret *secret)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK), err = 0;
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st)) {
		err = -errno;
		log_err("%s: the secret cannot be read: %s; make one with: (umask 077; head -c 32 /dev/urandom > %s) and copy it to the other host",
			path, strerror(-err), path);
		goto out;
	}
	if (!S_ISREG(st.st_mode) || (st.st_uid && st.st_uid != geteuid()) ||
	    st.st_mode & 07077) {
		log_err("%s: a secret must be a file that only its owner, root, can read: chmod 600, chown root",
			path);
		err = -EPERM;
		goto out;
	}
	if (st.st_size < SECRET_MIN || st.st_size > SECRET_MAX) {
		log_err("%s: %lld bytes; a secret has %u to %u", path, (long long)st.st_size,
			SECRET_MIN, SECRET_MAX);
		err = -EINVAL;
		goto out;
	}
	n = read(fd, secret->bytes, SECRET_MAX);
	if (n != st.st_size) {
		err = n < 0 ? -errno : -EIO;
		log_err("%s: the secret cannot be read: %s", path, strerror(-err));
	}
	secret->length = (size_t)st.st_size;
out:
	if (fd >= 0)
		close(fd);
	return err;
}

/**
 * secret_random - get random bytes from the kernel
 * @bytes: out
 * @length: bytes, at most 256
 *
 * Logs an error.
 *
 * Return: 0 or -EIO.
 */
int secret_random(uint8_t *bytes, size_t length)
{
	if (getrandom(bytes, length, 0) != (ssize_t)length) {
		log_err("no random numbers: %s", strerror(errno));
		return -EIO;
	}
	return 0;
}
