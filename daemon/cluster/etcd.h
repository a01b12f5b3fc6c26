/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A client of etcd (v3). It uses the JSON gateway that every etcd has. libcurl sends the requests,
 * one at a time, to one endpoint after the other until one answers.
 *
 * Every call ends within a fifth of the lease, or soon after etcd_stop(). Answers are not trusted:
 * one that is longer than ETCD_ANSWER_BYTES, is no JSON or lacks a part does not count. The client
 * resolves no names, and only etcd_open() reads files: the other calls must not wait for a
 * filesystem, which may lie on the store.
 */
#ifndef LSMEMD_ETCD_H
#define LSMEMD_ETCD_H

#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define ETCD_ANSWER_BYTES	(64u << 10)
#define ETCD_TEXT_BYTES		5120u	/* longest value, with a final zero */
#define ETCD_WHY_BYTES		256u
#define ETCD_ANY		(-1)
#define ETCD_KEYS		4u	/* read at one time */

#define ETCD_URLS		7u
#define ETCD_URL_BYTES		80u
#define ETCD_LEASE_MIN		5u	/* seconds */
#define ETCD_LEASE_MAX		300u
#define ETCD_LEASE_DEFAULT	15u

/**
 * struct etcd_options - how to reach etcd
 * @urls: its endpoints
 * @nr_urls: number of endpoints; 0: no cluster is configured
 * @lease: length of a lease, in seconds
 * @ca: file of the certificate authority, PEM; "": none
 * @cert: file of this client's certificate, PEM; "": none
 * @key: file of this client's private key, PEM; "": none
 */
struct etcd_options {
	char urls[ETCD_URLS][ETCD_URL_BYTES];
	unsigned int nr_urls;
	unsigned int lease;
	char ca[PATH_MAX], cert[PATH_MAX], key[PATH_MAX];
};

/**
 * struct etcd - a client, used by one thread at a time
 * @curl: libcurl's handle
 * @options: how to reach etcd
 * @current: the endpoint that answered last
 * @timeout_ms: for the answer of one endpoint
 * @answer: the last answer
 * @used: bytes of @answer
 * @why: why the last call had no answer
 * @raft_term: Raft term of the last answer
 * @revision: of the last answer; after etcd_put() has changed keys, their revision
 * @stop: calls end without an answer; any thread may set it
 */
struct etcd {
	void *curl;
	const struct etcd_options *options;
	unsigned int current;
	unsigned int timeout_ms;
	char answer[ETCD_ANSWER_BYTES];
	size_t used;
	char why[ETCD_WHY_BYTES];
	int64_t raft_term, revision;
	atomic_bool stop;
};

/**
 * struct etcd_value - a key as it is in etcd
 * @revision: of its last change; 0: there is no such key
 * @lease: the lease that the key is attached to; 0: none
 * @text: the value
 */
struct etcd_value {
	int64_t revision, lease;
	char text[ETCD_TEXT_BYTES];
};

/**
 * struct etcd_put - a change of a key
 * @key: its name
 * @text: its new value
 * @seen: the revision that it must still have; 0: it must not exist; ETCD_ANY: no condition
 * @lease: the lease to attach the key to; 0: none
 */
struct etcd_put {
	const char *key, *text;
	int64_t seen, lease;
};

/**
 * struct etcd_guard - a condition for the change of another key
 * @key: the key that must meet the condition
 * @text: the value that it must have; NULL: it must be attached to @lease
 * @lease: see @text
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
int etcd_get_all(struct etcd *etcd, const char *const *keys, unsigned int nr, struct etcd_value *values);
int etcd_put(struct etcd *etcd, const struct etcd_put *puts, unsigned int nr,
	     const struct etcd_guard *guards, unsigned int nr_guards);

#endif
