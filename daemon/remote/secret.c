// SPDX-License-Identifier: GPL-2.0
/* The shared secret: see secret.h. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "secret.h"

/**
 * secret_read - read the secret
 * @path: its file
 * @key: out
 *
 * Says itself why it fails.  Returns 0 or a negative errno.
 */
int secret_read(const char *path, struct wire_key *key)
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
	if (st.st_size < WIRE_KEY_MIN || st.st_size > WIRE_KEY_MAX) {
		log_err("%s: %lld bytes; a secret has %u to %u", path, (long long)st.st_size,
			WIRE_KEY_MIN, WIRE_KEY_MAX);
		err = -EINVAL;
		goto out;
	}
	n = read(fd, key->bytes, WIRE_KEY_MAX);
	if (n != st.st_size) {
		err = n < 0 ? -errno : -EIO;
		log_err("%s: the secret cannot be read: %s", path, strerror(-err));
	}
	key->length = (size_t)st.st_size;
out:
	if (fd >= 0)
		close(fd);
	return err;
}

/**
 * secret_nonce - bytes that nobody can foretell
 * @nonce: out
 *
 * Returns 0 or a negative errno.
 */
int secret_nonce(uint8_t nonce[WIRE_NONCE])
{
	if (getrandom(nonce, WIRE_NONCE, 0) != WIRE_NONCE) {
		log_err("no random numbers: %s", strerror(errno));
		return -EIO;
	}
	return 0;
}
