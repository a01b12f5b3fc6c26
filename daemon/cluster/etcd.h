/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What lsmemd asks of etcd (v3), through the JSON gateway that every etcd has: libcurl
 * brings the requests there, one at a time, to the endpoints in turn until one answers.
 *
 * Every call ends within a fifth of the lease, or soon after etcd_stop().  Whatever answers is
 * not trusted: more than ETCD_ANSWER_BYTES, no JSON, or not what was asked for is no answer.
 * Names are not looked up and files are read by etcd_open() only: nothing here may wait for
 * a filesystem, which may lie on the store.
 */
#ifndef LSMEMD_ETCD_H
#define LSMEMD_ETCD_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define ETCD_ANSWER_BYTES	(64u << 10)
#define ETCD_TEXT_BYTES		5120u	/* longest value that is believed */
#define ETCD_WHY_BYTES		256u

#define ETCD_URLS		7u
#define ETCD_URL_BYTES		80u
#define ETCD_LEASE_MIN		5u	/* seconds */
#define ETCD_LEASE_MAX		300u
#define ETCD_LEASE_DEFAULT	15u

/**
 * struct etcd_options - where etcd is
 * @urls: its endpoints, @nr_urls of them; 0: there is none
 * @lease: seconds
 * @ca, @cert, @key: files in PEM, "": none
 */
struct etcd_options {
	char urls[ETCD_URLS][ETCD_URL_BYTES];
	unsigned int nr_urls;
	unsigned int lease;
	char ca[PATH_MAX], cert[PATH_MAX], key[PATH_MAX];
};

/**
 * struct etcd - a client; one thread at a time
 * @curl: the connection
 * @options: endpoints, @current of which answered last
 * @timeout_ms: of an endpoint
 * @answer: @used bytes of it
 * @why: the last call had no answer
 * @term: of the last answer: since which election of etcd's
 * @stop: and there is to be none
 */
struct etcd {
	void *curl;
	const struct etcd_options *options;
	unsigned int current;
	unsigned int timeout_ms;
	char answer[ETCD_ANSWER_BYTES];
	size_t used;
	char why[ETCD_WHY_BYTES];
	int64_t term;
	atomic_bool stop;
};

/**
 * struct etcd_value - what a key has
 * @revision: of its last change; 0: there is no such key
 * @lease: that it goes with; 0: it stays
 * @text: the value
 */
struct etcd_value {
	int64_t revision, lease;
	char text[ETCD_TEXT_BYTES];
};

/**
 * struct etcd_put - a key to be changed
 * @seen: the revision that it must still have; 0: it must not be there
 * @lease: that it is to go with; 0: it is to stay
 */
struct etcd_put {
	const char *key, *text;
	int64_t seen, lease;
};

/**
 * struct etcd_guard - what a key must be for another to be changed
 * @text: its value, or NULL
 * @lease: then: that it goes with
 */
struct etcd_guard {
	const char *key, *text;
	int64_t lease;
};

int etcd_open(struct etcd *etcd, const struct etcd_options *options);
void etcd_close(struct etcd *etcd);
void etcd_stop(struct etcd *etcd, bool stop);

int etcd_grant(struct etcd *etcd, unsigned int seconds, int64_t *lease, unsigned int *granted);
int etcd_renew(struct etcd *etcd, int64_t lease, unsigned int *granted);
int etcd_left(struct etcd *etcd, int64_t lease, unsigned int *seconds);
int etcd_revoke(struct etcd *etcd, int64_t lease);
int etcd_get(struct etcd *etcd, const char *key, struct etcd_value *value);
int etcd_put(struct etcd *etcd, const struct etcd_put *puts, unsigned int nr);
int etcd_put_guarded(struct etcd *etcd, const char *key, const char *text,
		     const struct etcd_guard *guards, unsigned int nr);

#endif
