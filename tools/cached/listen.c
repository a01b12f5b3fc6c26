// SPDX-License-Identifier: GPL-2.0
/* lsmemcached: sockets that accept. */
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "cached.h"

#define SOCKETS		16
#define RETRY_US	100000	/* after the system had no room for a connection */
#define TOO_MANY	"ERROR Too many open connections\r\n"

static int sockets[SOCKETS];
static unsigned int nr_sockets;

static int keep_socket(int fd, const char *where)
{
	if (nr_sockets == SOCKETS) {
		fprintf(stderr, "lsmemcached: %s: more than %d sockets\n", where, SOCKETS);
		close(fd);
		return -1;
	}
	if (!conns_add(fd, NULL)) {
		fprintf(stderr, "lsmemcached: %s: no memory\n", where);
		close(fd);
		return -1;
	}
	sockets[nr_sockets++] = fd;
	return 0;
}

static int open_unix(const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	struct stat stat;
	mode_t mask;
	int fd, ret;

	if (strlen(path) >= sizeof(address.sun_path)) {
		fprintf(stderr, "lsmemcached: %s: the path is too long: %zu bytes at most\n", path,
			sizeof(address.sun_path) - 1);
		return -1;
	}
	strcpy(address.sun_path, path);
	if (!lstat(path, &stat) && S_ISSOCK(stat.st_mode))
		unlink(path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		perror("lsmemcached: socket");
		return -1;
	}
	mask = umask(~cached.options.access & 0777);
	ret = bind(fd, (struct sockaddr *)&address, sizeof(address));
	umask(mask);
	if (ret || listen(fd, (int)cached.options.backlog)) {
		fprintf(stderr, "lsmemcached: %s: cannot listen: %s\n", path, strerror(errno));
		close(fd);
		if (!ret)
			unlink(path);
		return -1;
	}
	ret = keep_socket(fd, path);
	if (ret)
		unlink(path);
	return ret;
}

static int open_address(const struct addrinfo *info, const char *where)
{
	int one = 1, fd = socket(info->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 && errno == EAFNOSUPPORT)
		return 1;
	if (fd < 0) {
		fprintf(stderr, "lsmemcached: %s: cannot open a socket: %s\n", where, strerror(errno));
		return -1;
	}
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	if (info->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof(one));
	if (bind(fd, info->ai_addr, info->ai_addrlen) || listen(fd, (int)cached.options.backlog)) {
		fprintf(stderr, "lsmemcached: %s, port %u: cannot listen: %s\n", where, cached.options.port,
			strerror(errno));
		close(fd);
		return -1;
	}
	return keep_socket(fd, where);
}

/* @host: name or address, NULL: all */
static int open_host(const char *host)
{
	struct addrinfo hints = { .ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM }, *infos, *info;
	const char *where = host ? host : "all addresses";
	unsigned int before = nr_sockets;
	char port[16];
	int ret;

	snprintf(port, sizeof(port), "%u", cached.options.port);
	ret = getaddrinfo(host, port, &hints, &infos);
	if (ret) {
		fprintf(stderr, "lsmemcached: -l %s: %s\n", where, gai_strerror(ret));
		return -1;
	}
	for (info = infos, ret = 0; info && ret >= 0; info = info->ai_next)
		ret = open_address(info, where);
	freeaddrinfo(infos);
	if (ret >= 0 && nr_sockets == before) {
		fprintf(stderr, "lsmemcached: -l %s: none of its addresses is of a family that this system has\n", where);
		ret = -1;
	}
	return ret < 0 ? -1 : 0;
}

/**
 * listen_open - open the sockets that the options ask for
 *
 * Return: 0; -1: an error was printed.
 */
int listen_open(void)
{
	char *hosts, *host, *state;
	int ret = 0;

	if (cached.options.path)
		return open_unix(cached.options.path);
	if (!cached.options.listen)
		return open_host(NULL);
	hosts = strdup(cached.options.listen);
	if (!hosts) {
		fprintf(stderr, "lsmemcached: -l %s: no memory\n", cached.options.listen);
		return -1;
	}
	for (host = strtok_r(hosts, ",", &state); host && !ret; host = strtok_r(NULL, ",", &state))
		ret = open_host(host);
	free(hosts);
	return ret;
}

/**
 * listen_close - close the sockets
 */
void listen_close(void)
{
	if (nr_sockets && cached.options.path)
		unlink(cached.options.path);
	while (nr_sockets) {
		conns_remove(sockets[--nr_sockets]);
		close(sockets[nr_sockets]);
	}
}

static void take(int fd)
{
	static unsigned int next;
	int one = 1;

	if (__atomic_load_n(&cached.open, __ATOMIC_RELAXED) >= cached.options.connections) {
		cached.upkeep.rejected_connections++;
		(void)!send(fd, TOO_MANY, strlen(TOO_MANY), MSG_NOSIGNAL | MSG_DONTWAIT);
		close(fd);
		return;
	}
	if (!cached.options.path)
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	__atomic_add_fetch(&cached.open, 1, __ATOMIC_RELAXED);
	cached.upkeep.total_connections++;
	worker_hand(&cached.workers[next++ % cached.options.threads], fd);
}

static void accept_all(int socket)
{
	int fd;

	while ((fd = accept4(socket, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0)
		take(fd);
	if (errno == EAGAIN || errno == ECONNABORTED || errno == EINTR)
		return;
	perror("lsmemcached: accept");
	/* The connection waits in the backlog, and the poll tells of it at once again */
	usleep(RETRY_US);
}

static bool poll_for(int poll, int fd)
{
	struct epoll_event event = { .events = EPOLLIN, .data.fd = fd };

	return !epoll_ctl(poll, EPOLL_CTL_ADD, fd, &event);
}

/* Opens what tells of connections and of signals.  Return: false: errno says why not. */
static bool open_events(int *poll, int *signals)
{
	unsigned int i;
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR1);
	sigaddset(&set, SIGHUP);
	*poll = epoll_create1(EPOLL_CLOEXEC);
	*signals = *poll < 0 ? -1 : signalfd(-1, &set, SFD_CLOEXEC);
	if (*signals < 0 || !poll_for(*poll, *signals))
		return false;
	for (i = 0; i < nr_sockets && poll_for(*poll, sockets[i]); i++)
		;
	return i == nr_sockets;
}

static void serve(int poll, int signals)
{
	struct signalfd_siginfo signal;
	struct epoll_event event;

	for (;;) {
		if (epoll_wait(poll, &event, 1, -1) != 1)
			continue;
		if (event.data.fd != signals) {
			accept_all(event.data.fd);
			continue;
		}
		if (read(signals, &signal, sizeof(signal)) != sizeof(signal) || signal.ssi_signo != SIGHUP)
			break;
		/* Each prints what is wrong, and keeps what it has */
		auth_load();
		tls_load();
	}
}

/**
 * listen_serve - accept connections until a signal says stop
 *
 * SIGINT, SIGTERM, SIGUSR1 and SIGHUP are blocked in all threads.  After SIGHUP the file of users and the certificates
 * are read again.
 *
 * Return: 0; -1: an error was printed.
 */
int listen_serve(void)
{
	int poll, signals, ret = 0;

	if (open_events(&poll, &signals)) {
		serve(poll, signals);
	} else {
		perror("lsmemcached: cannot wait for connections");
		ret = -1;
	}
	if (signals >= 0)
		close(signals);
	if (poll >= 0)
		close(poll);
	return ret;
}
