// SPDX-License-Identifier: GPL-2.0
/*
 * lsmemcached: threads that serve connections.
 *
 * A pass reads from all connections that can be read, carries out their commands, and sends the answers.  With
 * --durable one wait comes in between, for all changes of the pass.  Answers to changes that cannot be made durable
 * are not sent: their connections are closed.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "cached.h"

#define EVENTS		64
#define GREETING_SECONDS	30	/* for TLS and the password */
#define WAIT_SECONDS	1000000	/* longest wait for a bound that is due later */

/* Seconds of a clock that is never set; debugtime alone moves it */
static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return time.tv_sec + __atomic_load_n(&cached.clock_offset, __ATOMIC_RELAXED);
}

static struct cached_queue *queue_of(struct cached_connection *connection)
{
	return connection->greeted ? &connection->worker->served : &connection->worker->greeting;
}

/* Its time counts from now on. */
static void set_since(struct cached_connection *connection)
{
	__atomic_store_n(&connection->since, connection->worker->tick, __ATOMIC_RELAXED);
}

/**
 * worker_activate - have a connection looked at in this pass
 * @connection: of the calling worker
 */
void worker_activate(struct cached_connection *connection)
{
	struct cached_worker *worker = connection->worker;

	if (connection->active)
		return;
	connection->active = true;
	connection->next = worker->active;
	worker->active = connection;
}

static void end(struct cached_connection *connection)
{
	TAILQ_REMOVE(queue_of(connection), connection, place);
	if (connection->watcher)
		watch_end(connection);
	if (is_watched(WATCH_CONNEVENTS))
		watch_connection(connection, connection->reason ? connection->reason : "error");
	conns_remove(connection->fd);
	connection_free(connection);
}

/* What has done with TLS and the password has, from now on, all of its time once more. */
static void renew(struct cached_connection *connection)
{
	if (!connection->greeted && !(connection->authenticated && tls_is_ready(connection)))
		return;
	TAILQ_REMOVE(queue_of(connection), connection, place);
	connection->greeted = true;
	set_since(connection);
	TAILQ_INSERT_TAIL(queue_of(connection), connection, place);
}

/**
 * worker_poll_out - poll a connection for room, instead of for commands
 * @connection: of the calling worker
 * @out: poll for room
 */
void worker_poll_out(struct cached_connection *connection, bool out)
{
	struct epoll_event event = { .events = out ? EPOLLOUT : EPOLLIN, .data.ptr = connection };

	if (connection->waits_out == out)
		return;
	connection->waits_out = out;
	if (epoll_ctl(connection->worker->poll, EPOLL_CTL_MOD, connection->fd, &event))
		connection->dead = true;
}

/* Takes over connections from the thread that accepts. */
static void adopt(struct cached_worker *worker)
{
	struct cached_connection *connection, *next;
	uint64_t count;

	if (read(worker->wake, &count, sizeof(count)) < 0)
		return;
	watch_each(worker);
	pthread_mutex_lock(&worker->lock);
	next = worker->handed;
	worker->handed = NULL;
	pthread_mutex_unlock(&worker->lock);
	while ((connection = next)) {
		struct epoll_event event = { .events = EPOLLIN, .data.ptr = connection };

		next = connection->next;
		set_since(connection);
		TAILQ_INSERT_TAIL(&worker->greeting, connection, place);
		renew(connection);
		if (is_watched(WATCH_CONNEVENTS))
			watch_connection(connection, NULL);
		if (!conns_add(connection->fd, connection) ||
		    epoll_ctl(worker->poll, EPOLL_CTL_ADD, connection->fd, &event))
			end(connection);
	}
}

/* Closes the connections of a queue whose time is over.  Return: seconds until that of the next one may be. */
static int64_t close_late(struct cached_worker *worker, struct cached_queue *queue, unsigned int bound)
{
	struct cached_connection *connection = bound ? TAILQ_FIRST(queue) : NULL;

	while (connection) {
		struct cached_connection *next = TAILQ_NEXT(connection, place);
		int64_t left = connection->since + bound - worker->tick;

		if (left > 0)
			return left;
		/* What has commands left is closed after the next pass; a watcher sends none */
		if (!connection->active && !connection->watcher) {
			connection->reason = "idle_timeout";
			worker->counters.idle_kicks++;
			end(connection);
		}
		connection = next;
	}
	return WAIT_SECONDS;
}

static void read_clocks(struct cached_worker *worker)
{
	worker->now = item_now();
	worker->tick = now();
}

/* Has the timer expire each second, or not at all. */
static bool set_timer(struct cached_worker *worker, time_t seconds)
{
	struct itimerspec time = { .it_interval.tv_sec = seconds, .it_value.tv_sec = seconds };

	return !timerfd_settime(worker->timer, 0, &time, NULL);
}

/*
 * The time of a pass.  Where a clock is a system call, two for each pass are as much as the rest of a short command, so
 * a timer tells of each second while there are commands; a second without any ends that, so that nothing wakes a thread
 * that has nothing to do.  @told: the clock may have been moved.
 */
static void keep_time(struct cached_worker *worker, bool expired, bool commands, bool told)
{
	uint64_t times;

	if (expired && read(worker->timer, &times, sizeof(times)) < 0)
		expired = false;
	if (!worker->timed || expired || told)
		read_clocks(worker);
	if (!worker->timed && commands)
		worker->timed = set_timer(worker, 1);
	else if (expired && !worker->busy && !commands)
		worker->timed = !set_timer(worker, 0);
	worker->busy = commands || (worker->busy && !expired);
}

/* Return: milliseconds until there is something to do without an event, as epoll_wait() wants them. */
static int close_all_late(struct cached_worker *worker)
{
	int64_t greeting = close_late(worker, &worker->greeting, GREETING_SECONDS);
	int64_t served = close_late(worker, &worker->served, cached.options.idle);
	int64_t left = greeting < served ? greeting : served;

	return worker->active ? 0 : (int)(left < WAIT_SECONDS ? left : WAIT_SECONDS) * 1000;
}

static void look_at(struct epoll_event *event)
{
	struct cached_connection *connection = event->data.ptr;

	/* What is active has commands left from the last pass: it reads no more before they are done */
	if (!connection->active && (event->events & (EPOLLIN | EPOLLHUP | EPOLLERR) || connection->tls_full) &&
	    !connection_receive(connection))
		connection->dead = true;
	worker_activate(connection);
}

/* Makes the changes of a pass durable. */
static void settle(struct cached_worker *worker)
{
	struct cached_connection *connection;
	int ret;

	if (!worker->changed || !cached.options.durable)
		return;
	worker->counters.durable_waits++;
	ret = lsm_sync(cached.lsm, 0);
	if (!ret)
		return;
	worker->counters.durable_failures++;
	fprintf(stderr, "lsmemcached: %s: changes may not be durable, their clients are disconnected: %s\n",
		cached.options.store ? cached.options.store : LSM_DEFAULT_STORE, lsm_strerror(ret));
	for (connection = worker->active; connection; connection = connection->next)
		connection->dead |= connection->changed;
}

/* What has been sent what there was waits for its next event, or for the next pass. */
static void rest(struct cached_connection *connection)
{
	conns_note(connection);
	if (connection->more && !connection->out_end)
		worker_activate(connection);
}

/* Sends the answers of a pass.  Connections that have more to do stay active. */
static void answer(struct cached_worker *worker)
{
	struct cached_connection *connection, *next = worker->active;

	worker->active = NULL;
	while ((connection = next)) {
		next = connection->next;
		connection->active = false;
		connection->changed = false;
		renew(connection);
		if (!connection->dead)
			connection_send(connection);
		if (connection->dead || (connection->closing && !connection->out_end))
			end(connection);
		else
			rest(connection);
	}
	worker->changed = false;
}

static void *serve(void *argument)
{
	struct cached_worker *worker = argument;
	struct cached_connection *connection;
	struct epoll_event events[EVENTS];
	bool expired, told;
	int i, nr, wait_ms = -1;

	while (!__atomic_load_n(&cached.stop, __ATOMIC_ACQUIRE)) {
		nr = epoll_wait(worker->poll, events, EVENTS, wait_ms);
		for (expired = told = false, i = 0; i < nr; i++) {
			expired |= events[i].data.ptr == &worker->timer;
			told |= events[i].data.ptr == &worker->wake;
		}
		keep_time(worker, expired, worker->active || nr > expired + told, told);
		for (i = 0; i < nr; i++) {
			if (events[i].data.ptr == &worker->wake)
				adopt(worker);
			else if (events[i].data.ptr != &worker->timer)
				look_at(&events[i]);
		}
		for (connection = worker->active; connection; connection = connection->next)
			connection->more = command_run(connection);
		batch_flush(worker);
		settle(worker);
		answer(worker);
		wait_ms = close_all_late(worker);
	}
	return NULL;
}

static void release(struct cached_worker *worker)
{
	free(worker->batch);
	free(worker->large);
	free(worker->prefix_counts);
	if (worker->poll >= 0)
		close(worker->poll);
	if (worker->wake >= 0)
		close(worker->wake);
	if (worker->timer >= 0)
		close(worker->timer);
}

/* Return: 0; -errno. */
static int open_events(struct cached_worker *worker)
{
	struct epoll_event wakes = { .events = EPOLLIN, .data.ptr = &worker->wake };
	struct epoll_event times = { .events = EPOLLIN, .data.ptr = &worker->timer };

	worker->wake = worker->timer = -1;
	worker->poll = epoll_create1(EPOLL_CLOEXEC);
	if (worker->poll < 0)
		return -errno;
	worker->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (worker->wake < 0 || epoll_ctl(worker->poll, EPOLL_CTL_ADD, worker->wake, &wakes))
		return -errno;
	worker->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (worker->timer < 0 || epoll_ctl(worker->poll, EPOLL_CTL_ADD, worker->timer, &times))
		return -errno;
	return 0;
}

/**
 * worker_start - start a thread
 * @worker: zeroed; out
 *
 * Return: 0; -ENOMEM, and others: nothing is left of it.
 */
int worker_start(struct cached_worker *worker)
{
	int ret;

	TAILQ_INIT(&worker->greeting);
	TAILQ_INIT(&worker->served);
	pthread_mutex_init(&worker->lock, NULL);
	pthread_mutex_init(&worker->prefix_lock, NULL);
	ret = open_events(worker);
	worker->batch = batch_new();
	worker->large = malloc(CACHED_OBJECT_MAX + CACHED_OBJECT_MAX);
	if (!ret && (!worker->batch || !worker->large))
		ret = -ENOMEM;
	if (!ret)
		ret = -pthread_create(&worker->thread, NULL, serve, worker);
	if (ret)
		release(worker);
	return ret;
}

/**
 * worker_wake - have a thread begin a pass
 * @worker: that was started
 */
void worker_wake(struct cached_worker *worker)
{
	uint64_t one = 1;

	if (write(worker->wake, &one, sizeof(one)) < 0)
		perror("lsmemcached: eventfd");
}

/**
 * worker_hand - hand a connection over
 * @worker: that is to serve it
 * @fd: socket, not blocking; it is closed if there is no memory
 */
void worker_hand(struct cached_worker *worker, int fd)
{
	struct cached_connection *connection = connection_new(worker, fd);

	if (!connection) {
		close(fd);
		__atomic_sub_fetch(&cached.open, 1, __ATOMIC_RELAXED);
		return;
	}
	pthread_mutex_lock(&worker->lock);
	connection->next = worker->handed;
	worker->handed = connection;
	pthread_mutex_unlock(&worker->lock);
	worker_wake(worker);
}

/**
 * worker_wake_all - the clock was moved: all threads look at it
 */
void worker_wake_all(void)
{
	unsigned int i;

	for (i = 0; i < cached.options.threads; i++)
		worker_wake(&cached.workers[i]);
}

/**
 * worker_stop - wait until a thread has ended
 * @worker: started; cached.stop is set
 */
void worker_stop(struct cached_worker *worker)
{
	worker_wake(worker);
	pthread_join(worker->thread, NULL);
	adopt(worker);
	while (!TAILQ_EMPTY(&worker->greeting))
		end(TAILQ_FIRST(&worker->greeting));
	while (!TAILQ_EMPTY(&worker->served))
		end(TAILQ_FIRST(&worker->served));
	release(worker);
}
