// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/* Makes the n-th call of a named function fail: see nth.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "nth.h"

static const char *wanted;	/* NULL: none */
static unsigned long left;	/* calls until the one that fails; 0: it has */
static bool silent;

void nth_set(const char *name, unsigned long n)
{
	silent = true;
	__atomic_store_n(&left, n, __ATOMIC_RELAXED);
	__atomic_store_n(&wanted, n ? name : NULL, __ATOMIC_RELEASE);
}

bool nth_hit(void)
{
	return wanted && !__atomic_load_n(&left, __ATOMIC_RELAXED);
}

__attribute__((constructor)) static void begin(void)
{
	static char name[32];
	const char *text = getenv("LSMEM_NTH"), *colon = text ? strchr(text, ':') : NULL;

	if (!colon || (size_t)(colon - text) >= sizeof(name))
		return;
	memcpy(name, text, (size_t)(colon - text));
	nth_set(name, strtoul(colon + 1, NULL, 10));
	silent = false;
}

/* Is this the call, which sets errno?  Nothing is allocated here: it may be malloc(). */
static bool is_nth(const char *name, int error)
{
	const char *what = __atomic_load_n(&wanted, __ATOMIC_ACQUIRE);
	unsigned long now;

	if (!what || strcmp(what, name))
		return false;
	now = __atomic_load_n(&left, __ATOMIC_RELAXED);
	while (now && !__atomic_compare_exchange_n(&left, &now, now - 1, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
	if (now != 1)
		return false;
	if (!silent && (write(STDERR_FILENO, "# failed: ", 10) < 0 || write(STDERR_FILENO, name, strlen(name)) < 0 ||
			write(STDERR_FILENO, "\n", 1) < 0))
		abort();
	errno = error;
	return true;
}

/*
 * With 64 bits of an offset, as all of our programs have, mmap() and fopen() are mmap64() and fopen64().
 *
 * FAILS(type, what a failure returns, errno of it, name, (parameters), (arguments)).  The C library's own malloc() and others
 * have names by which they can be called without dlsym(), which may allocate.
 */
#ifdef NTH_PRELOAD
#define REPLACE(name)	name
#define REAL(name)	((typeof(&name))dlsym(RTLD_NEXT, #name))
#define REAL_MEMORY(name) __libc_##name
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t nr, size_t bytes);
void *__libc_realloc(void *old, size_t bytes);
void *__libc_memalign(size_t align, size_t bytes);
#else
#define REPLACE(name)	__wrap_##name
#define REAL(name)	__real_##name
#define REAL_MEMORY(name) __real_##name
#endif

#define FAILS_AS(type, failure, error, name, real, parameters, arguments)	\
	type REPLACE(name) parameters						\
	{									\
		return is_nth(#name, error) ? (failure) : real arguments;	\
	}

#ifdef NTH_PRELOAD
#define FAILS(type, failure, error, name, parameters, arguments)		\
	FAILS_AS(type, failure, error, name, REAL(name), parameters, arguments)
#else
#define FAILS(type, failure, error, name, parameters, arguments)		\
	type __real_##name parameters;						\
	FAILS_AS(type, failure, error, name, __real_##name, parameters, arguments)
void *__real_malloc(size_t bytes);
void *__real_calloc(size_t nr, size_t bytes);
void *__real_realloc(void *old, size_t bytes);
void *__real_aligned_alloc(size_t align, size_t bytes);
#define __real_memalign __real_aligned_alloc
#endif

FAILS_AS(void *, NULL, ENOMEM, malloc, REAL_MEMORY(malloc), (size_t bytes), (bytes))
FAILS_AS(void *, NULL, ENOMEM, calloc, REAL_MEMORY(calloc), (size_t nr, size_t bytes), (nr, bytes))
FAILS_AS(void *, NULL, ENOMEM, realloc, REAL_MEMORY(realloc), (void *old, size_t bytes), (old, bytes))
FAILS_AS(void *, NULL, ENOMEM, aligned_alloc, REAL_MEMORY(memalign), (size_t align, size_t bytes), (align, bytes))
FAILS(char *, NULL, ENOMEM, strdup, (const char *text), (text))
FAILS(FILE *, NULL, ENOMEM, fopen64, (const char *path, const char *mode), (path, mode))
FAILS(void *, MAP_FAILED, ENOMEM, mmap64, (void *at, size_t bytes, int protection, int flags, int fd, off_t offset),
	(at, bytes, protection, flags, fd, offset))
FAILS(int, EAGAIN, EAGAIN, pthread_create, (pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
					    void *argument), (thread, attributes, run, argument))
FAILS(int, -1, EMFILE, epoll_create1, (int flags), (flags))
FAILS(int, -1, ENOMEM, epoll_ctl, (int poll, int what, int fd, struct epoll_event *event), (poll, what, fd, event))
FAILS(int, -1, EINTR, epoll_wait, (int poll, struct epoll_event *events, int most, int ms), (poll, events, most, ms))
FAILS(int, -1, EMFILE, eventfd, (unsigned int value, int flags), (value, flags))
FAILS(int, -1, EMFILE, signalfd, (int fd, const sigset_t *set, int flags), (fd, set, flags))
FAILS(int, -1, EMFILE, timerfd_create, (clockid_t clock, int flags), (clock, flags))
FAILS(int, -1, ECANCELED, timerfd_settime, (int fd, int flags, const struct itimerspec *time, struct itimerspec *old),
	(fd, flags, time, old))
FAILS(int, -1, EMFILE, socket, (int family, int type, int protocol), (family, type, protocol))
FAILS(int, -1, EADDRINUSE, bind, (int fd, const struct sockaddr *address, socklen_t length), (fd, address, length))
FAILS(int, -1, EADDRINUSE, listen, (int fd, int backlog), (fd, backlog))
FAILS(int, -1, ENFILE, accept4, (int fd, struct sockaddr *address, socklen_t *length, int flags),
	(fd, address, length, flags))
FAILS(ssize_t, -1, ENOMEM, recv, (int fd, void *to, size_t room, int flags), (fd, to, room, flags))
FAILS(ssize_t, -1, ENOBUFS, send, (int fd, const void *from, size_t bytes, int flags), (fd, from, bytes, flags))
FAILS(int, EAI_MEMORY, ENOMEM, getaddrinfo, (const char *host, const char *port, const struct addrinfo *hints,
					     struct addrinfo **infos), (host, port, hints, infos))

/* A system call that has no function: of io_uring alone. */
#ifndef NTH_PRELOAD
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);
#endif

static const char *name_of(long number)
{
	if (number == __NR_io_uring_setup)
		return "io_uring_setup";
	return number == __NR_io_uring_enter ? "io_uring_enter" : NULL;
}

long REPLACE(syscall)(long number, ...)
{
	const char *name = name_of(number);
	va_list list;
	long six[6];
	int i;

	va_start(list, number);
	for (i = 0; i < 6; i++)
		six[i] = va_arg(list, long);
	va_end(list);
	if (name && is_nth(name, number == __NR_io_uring_enter ? EAGAIN : ENOMEM))
		return -1;
	return REAL(syscall)(number, six[0], six[1], six[2], six[3], six[4], six[5]);
}
