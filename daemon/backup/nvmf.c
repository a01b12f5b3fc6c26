// SPDX-License-Identifier: GPL-2.0
/*
 * A backup in a namespace of NVMe over Fabrics: libnvme connects the kernel to the target, and
 * backup/file.c does the I/O on the block device of the namespace.
 *
 * A broken connection is never made again (ctrl_loss_tmo = 0): its requests fail at once, and the
 * backup is lost. By default the kernel would reconnect and repeat the requests. But a target
 * that was restarted may have lost unflushed writes, and then a successful flush proves nothing
 * (invariant 3). The keep-alive of the kernel detects a silent target within 8 s. The I/O timeout
 * of the namespace's queue ends a request that an alive target does not answer.
 *
 * For the same reason lsmemd neither uses a connection to the subsystem that another program
 * made, nor makes a second one beside it: the kernel sends requests over either. lsmemd takes a
 * connection with ctrl_loss_tmo = 0 for one of lsmemd: another daemon made it for another
 * namespace, or a killed daemon left it. Each user of a connection has a shared lock on the
 * controller's device; the last user disconnects.
 *
 * The hold is that of backup/file.c, on the block device: it excludes the other
 * processes of this host. The target has to exclude other hosts, by its list of allowed
 * hosts. lsmemd cannot know when a target has finished the requests that it had received
 * over a connection that broke.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libnvme.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "backup.h"
#include "base/clock.h"
#include "base/log.h"
#include "nvmf_address.h"
#include "base/secret.h"

#define CONTROLLERS	"/sys/class/nvme"
#define WAIT_MS		10000u	/* for the block device, or the end of an old connection */
#define STEP_MS		100	/* between attempts */

/**
 * struct nvmf_backup - the connection below the block device that backup/file.c uses
 * @address: of the namespace
 * @secrets: shared with the target, if @has_secrets
 * @has_secrets: a file of secrets is configured
 * @root: libnvme's view of the system
 * @ctrl: the connection; NULL: none
 * @fd: the controller's device, with a shared lock; -1: none. While it is open, the kernel gives
 *	the controller's name to no other connection
 */
struct nvmf_backup {
	struct nvmf_address address;
	struct nvmf_secrets secrets;
	bool has_secrets;
	nvme_root_t root;
	nvme_ctrl_t ctrl;
	int fd;
};

static int wait_step(const struct backup_options *options)
{
	return options->progress ? options->progress("waited", 0, 0) : 0;
}

/* ---- The connection ---------------------------------------------------- */

static bool attribute_is(const char *directory, const char *name, const char *wanted)
{
	char *value = nvme_get_attr(directory, name);
	bool is = value && !strcmp(value, wanted);

	free(value);
	return is;
}

/* Has lsmemd connected this controller, and to this address? */
static bool is_ours(const char *directory, const struct nvmf_address *address)
{
	char *value = nvme_get_attr(directory, "address"), wanted[128];
	size_t length;
	bool same;

	length = (size_t)snprintf(wanted, sizeof(wanted), "traddr=%s,trsvcid=%s", address->host,
				  address->port);
	same = value && !strncmp(value, wanted, length) &&
	       (!value[length] || value[length] == ',');
	free(value);
	return same && attribute_is(directory, "transport", address->transport) &&
	       attribute_is(directory, "ctrl_loss_tmo", "0");
}

/*
 * Find a connection to the subsystem.
 * Return: 0 and its name; -ENOENT: there is none; -EBUSY: lsmemd has not made it.
 */
static int find(const struct nvmf_backup *n, const struct backup_options *options,
		char name[NAME_MAX + 1])
{
	DIR *controllers = opendir(CONTROLLERS);
	char path[sizeof(CONTROLLERS) + NAME_MAX + 1];
	struct dirent *entry;
	int err = -ENOENT;

	while (controllers && err != -EBUSY && (entry = readdir(controllers))) {
		snprintf(path, sizeof(path), CONTROLLERS "/%s", entry->d_name);
		if (!attribute_is(path, "subsysnqn", n->address.nqn))
			continue;
		strcpy(name, entry->d_name);
		err = is_ours(path, &n->address) ? 0 : -EBUSY;
	}
	if (controllers)
		closedir(controllers);
	if (err == -EBUSY)
		log_err("%s: this host is connected to the subsystem already, as %s, and not by lsmemd: such a connection hides a restart of the target, which may lose what was not flushed. End it (nvme disconnect -d %s); or, if the target's cache is not volatile, name its block device as path",
			options->path, name, name);
	return err;
}

static int no_secrets(const struct backup_options *options)
{
	log_err("%s: this kernel cannot prove secrets to NVMe targets (it has no CONFIG_NVME_HOST_AUTH): boot one that can, as Debian's 6.12; or leave out \"key =\", if the network is yours alone",
		options->path);
	return -EKEYREJECTED;
}

/* Whether the kernel lists secrets among the options of a connection. Linux 6.1 does so in any case. */
static bool lists_secrets(void)
{
	FILE *f = fopen("/dev/nvme-fabrics", "re");
	char line[1024] = "";

	if (!f)
		return true;	/* connecting says what is wrong */
	if (!fgets(line, sizeof(line), f))
		*line = '\0';
	fclose(f);
	return !*line || strstr(line, "dhchap_secret");
}

static int make(struct nvmf_backup *n, const struct backup_options *options)
{
	nvme_host_t host = nvme_default_host(n->root);
	struct nvme_fabrics_config config;

	nvmf_default_config(&config);
	config.ctrl_loss_tmo = 0;
	n->ctrl = nvme_create_ctrl(n->root, n->address.nqn, n->address.transport,
				   n->address.host, NULL, NULL, n->address.port);
	if (!host || !n->ctrl)
		return -ENOMEM;
	if (n->has_secrets && !lists_secrets())
		return no_secrets(options);
	nvme_host_set_dhchap_key(host, n->has_secrets ? n->secrets.host : NULL);
	nvme_ctrl_set_dhchap_key(n->ctrl, *n->secrets.target ? n->secrets.target : NULL);
	if (!nvmf_add_ctrl(host, n->ctrl, &config))
		return 0;
	if (errno == ENVME_CONNECT_ALREADY)
		return -EAGAIN;
	log_err("%s: not connected: %s; the kernel's log says why. The target must know the subsystem, let in this host (%s), and have the same secrets, if any",
		options->path, nvme_errno_to_string(errno), nvme_host_get_hostnqn(host));
	return -EHOSTUNREACH;
}

/* Lock the connection. Return: 0; -EAGAIN: the connection is ending, try again. */
static int hold(struct nvmf_backup *n)
{
	char path[NAME_MAX + 8];

	snprintf(path, sizeof(path), "/dev/%s", nvme_ctrl_get_name(n->ctrl));
	n->fd = open(path, O_RDONLY | O_CLOEXEC);
	return n->fd < 0 || flock(n->fd, LOCK_SH | LOCK_NB) ? -EAGAIN : 0;
}

static void let_go(struct nvmf_backup *n)
{
	if (n->fd >= 0 && !flock(n->fd, LOCK_EX | LOCK_NB) && nvme_disconnect_ctrl(n->ctrl))
		log_warn("%s stays connected: %s", nvme_ctrl_get_name(n->ctrl), strerror(errno));
	if (n->fd >= 0)
		close(n->fd);
	if (n->root)
		nvme_free_tree(n->root);
	n->fd = -1;
	n->ctrl = NULL;
	n->root = NULL;
}

static int connect_once(struct nvmf_backup *n, const struct backup_options *options)
{
	char name[NAME_MAX + 1];
	int err;

	n->root = nvme_create_root(NULL, -1);
	if (!n->root)
		return -ENOMEM;
	err = find(n, options, name);
	if (!err)
		n->ctrl = nvme_scan_ctrl(n->root, name);
	else if (err == -ENOENT)
		err = make(n, options);
	if (!err && !n->ctrl)
		err = -EAGAIN;
	return err ? err : hold(n);
}

static int connect_nvmf(struct nvmf_backup *n, const struct backup_options *options)
{
	uint64_t end = clock_now_ms() + WAIT_MS;
	int err, stop;

	for (;;) {
		err = connect_once(n, options);
		if (err != -EAGAIN)
			return err;
		let_go(n);
		stop = wait_step(options);
		if (stop)
			return stop;
		if (clock_now_ms() >= end) {
			log_err("%s: a connection of this host to the subsystem is ending, and does not end",
				options->path);
			return -EBUSY;
		}
		usleep(STEP_MS * 1000);
	}
}

/*
 * Check that the kernel uses the secrets: a 6.1 without CONFIG_NVME_HOST_AUTH accepts and ignores
 * them. A kernel that uses them shows them in files of sysfs: make these private.
 */
static int check_secrets(const struct nvmf_backup *n, const struct backup_options *options)
{
	static const char *const names[] = { "dhchap_secret", "dhchap_ctrl_secret" };
	char path[PATH_MAX];
	unsigned int i;

	for (i = 0; n->has_secrets && i < 2; i++) {
		snprintf(path, sizeof(path), "%s/%s", nvme_ctrl_get_sysfs_dir(n->ctrl), names[i]);
		if (chmod(path, 0600))
			return no_secrets(options);
	}
	return 0;
}

/* ---- The namespace ----------------------------------------------------- */

/*
 * Find the block device of the namespace, and the sysfs directory of its path by this connection.
 * Return: false: they are not there yet.
 */
static bool find_namespace(const struct nvmf_backup *n, char node[64], char queue[PATH_MAX])
{
	const char *directory = nvme_ctrl_get_sysfs_dir(n->ctrl);
	DIR *entries = opendir(directory);
	unsigned int subsystem, head;
	struct dirent *entry;
	char nsid[16];
	bool found = false;

	snprintf(nsid, sizeof(nsid), "%" PRIu32, n->address.nsid);
	while (entries && !found && (entry = readdir(entries))) {
		snprintf(queue, PATH_MAX, "%s/%s", directory, entry->d_name);
		if (!attribute_is(queue, "nsid", nsid))
			continue;
		/* With multipath, nvmeScCnH is the path and nvmeSnH the block device. */
		if (sscanf(entry->d_name, "nvme%uc%*un%u", &subsystem, &head) == 2)
			snprintf(node, 64, "/dev/nvme%un%u", subsystem, head);
		else
			snprintf(node, 64, "/dev/%.48s", entry->d_name);
		found = !access(node, F_OK);
	}
	if (entries)
		closedir(entries);
	return found;
}

static int wait_namespace(const struct nvmf_backup *n, const struct backup_options *options,
			  char node[64], char queue[PATH_MAX])
{
	struct pollfd created = { .fd = inotify_init1(IN_CLOEXEC | IN_NONBLOCK), .events = POLLIN };
	uint64_t end = clock_now_ms() + WAIT_MS;
	char events[4096];
	int err = 0;

	if (created.fd < 0 || inotify_add_watch(created.fd, "/dev", IN_CREATE) < 0)
		err = -errno;
	while (!err && !find_namespace(n, node, queue)) {
		(void)poll(&created, 1, STEP_MS);
		while (read(created.fd, events, sizeof(events)) > 0)
			;
		err = wait_step(options);
		if (!err && clock_now_ms() >= end)
			err = -ETIMEDOUT;
	}
	if (created.fd >= 0)
		close(created.fd);
	if (err && err != -ECANCELED)
		log_err("%s: its block device does not come: %s", options->path, strerror(-err));
	return err;
}

static int set_timeout(const struct backup_options *options, const char *queue)
{
	char path[PATH_MAX + 32];
	FILE *f;

	snprintf(path, sizeof(path), "%s/queue/io_timeout", queue);
	f = fopen(path, "we");
	if (f && fprintf(f, "%u\n", options->timeout * 1000) > 0 && !fclose(f))
		return 0;
	log_err("%s: timeout = %u: %s: %s", options->path, options->timeout, path,
		strerror(errno));
	return -EIO;
}

static int attach(struct nvmf_backup *n, const struct backup_options *options, char node[64])
{
	char queue[PATH_MAX];
	struct nvme_id_ns id;
	int err;

	err = connect_nvmf(n, options);
	if (!err)
		err = check_secrets(n, options);
	if (err)
		return err;
	if (nvme_identify_ns(n->fd, n->address.nsid, &id) || !id.nsze) {
		log_err("%s: the subsystem has no namespace %" PRIu32 " for this host (?ns=)",
			options->path, n->address.nsid);
		return -ENOENT;
	}
	err = wait_namespace(n, options, node, queue);
	if (!err)
		err = set_timeout(options, queue);
	if (!err)
		log_info("%s: connected as %s, namespace %" PRIu32 " is %s", options->path,
			 nvme_ctrl_get_name(n->ctrl), n->address.nsid, node);
	return err;
}

/* ---- The make ---------------------------------------------------------- */

static int read_secrets(struct nvmf_backup *n, const struct backup_options *options)
{
	struct secret key;
	int err;

	if (!options->key) {
		log_warn("%s: without \"key =\" neither side authenticates the other: only for a private network",
			 options->path);
		return 0;
	}
	err = secret_read(options->key, &key);
	if (err)
		return err;
	n->has_secrets = nvmf_secrets(key.bytes, key.length, &n->secrets);
	explicit_bzero(&key, sizeof(key));
	if (n->has_secrets)
		return 0;
	log_err("%s: no secret of NVMe's form, DHHC-1:..: (nvme gen-dhchap-key), or two, the host's and the target's",
		options->key);
	return -EINVAL;
}

static int nvmf_open(struct backup *backup, const struct backup_options *options)
{
	struct nvmf_backup *n = calloc(1, sizeof(*n));
	struct backup_options device = *options;
	char node[64];
	int err;

	if (!n)
		return -ENOMEM;
	n->fd = -1;
	err = nvmf_address(options->path, &n->address) ? read_secrets(n, options) : -EINVAL;
	if (!err)
		err = attach(n, options, node);
	explicit_bzero(&n->secrets, sizeof(n->secrets));
	if (!err) {
		device.path = node;
		err = backup_file_make.open(backup, &device);
	}
	if (!err) {
		backup->below = n;
		return 0;
	}
	let_go(n);
	free(n);
	return err;
}

static int nvmf_attach(struct backup *backup)
{
	return backup_file_make.attach(backup);
}

static void nvmf_detach(struct backup *backup)
{
	backup_file_make.detach(backup);
}

static void nvmf_submit(struct backup *backup, struct backup_io *io)
{
	backup_file_make.submit(backup, io);
}

static void nvmf_close(struct backup *backup)
{
	backup_file_make.close(backup);
	let_go(backup->below);
	free(backup->below);
}

const struct backup_make backup_nvmf_make = {
	.name = "nvmf",
	.takes = nvmf_scheme,
	.open = nvmf_open,
	.attach = nvmf_attach,
	.detach = nvmf_detach,
	.submit = nvmf_submit,
	.close = nvmf_close,
};
