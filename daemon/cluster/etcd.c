// SPDX-License-Identifier: GPL-2.0
/* A client of etcd: see etcd.h. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <curl/curl.h>
#include <json-c/json.h>
#include <nettle/base64.h>

#include "etcd.h"
#include "base/log.h"

#define REQUEST_BYTES	16384u
#define PEM_BYTES	(1u << 20)	/* longest file of certificates */
#define DEPTH		16		/* most levels of JSON in an answer */
#define GRPC_NOT_FOUND	5

/* ---- Requests ---------------------------------------------------------- */

static size_t take(char *data, size_t size, size_t nr, void *context)
{
	struct etcd *e = context;

	if (size * nr > sizeof(e->answer) - e->used)
		return 0;	/* libcurl ends the request with CURLE_WRITE_ERROR */
	memcpy(e->answer + e->used, data, size * nr);
	e->used += size * nr;
	return size * nr;
}

static int look_up(void *context, curl_off_t down_all, curl_off_t down, curl_off_t up_all,
		   curl_off_t up)
{
	struct etcd *e = context;

	(void)down_all, (void)down, (void)up_all, (void)up;
	return atomic_load(&e->stop);
}

static struct json_object *parse(const struct etcd *e)
{
	struct json_tokener *tokener = json_tokener_new_ex(DEPTH);
	struct json_object *answer;

	if (!tokener)
		return NULL;
	answer = json_tokener_parse_ex(tokener, e->answer, (int)e->used);
	json_tokener_free(tokener);
	return answer;
}

/* The gateway sends numbers of 64 bits as strings, and leaves out numbers that are 0. */
static int64_t number(struct json_object *answer, const char *path)
{
	struct json_object *value;

	return json_pointer_get(answer, path, &value) ? 0 : json_object_get_int64(value);
}

static int ask_one(struct etcd *e, const char *url, const char *what, const char *request,
		   struct json_object **answer)
{
	char full[ETCD_URL_BYTES + 32];
	struct json_object *message;
	long status = 0;
	CURLcode code;
	bool gone;

	snprintf(full, sizeof(full), "%s/v3/%s", url, what);
	e->used = 0;
	curl_easy_setopt(e->curl, CURLOPT_URL, full);
	curl_easy_setopt(e->curl, CURLOPT_POSTFIELDS, request);
	code = curl_easy_perform(e->curl);
	if (code) {
		snprintf(e->why, sizeof(e->why), "%s: %s", url,
			 code == CURLE_WRITE_ERROR ? "the answer is too long" :
			 curl_easy_strerror(code));
		return -EHOSTUNREACH;
	}
	curl_easy_getinfo(e->curl, CURLINFO_RESPONSE_CODE, &status);
	*answer = parse(e);
	e->raft_term = number(*answer, "/header/raft_term") + number(*answer, "/result/header/raft_term");
	e->revision = number(*answer, "/header/revision");
	/* Every answer of etcd has a Raft term. */
	if (status == 200 && e->raft_term)
		return 0;
	snprintf(e->why, sizeof(e->why), "%s: status %ld: %.128s", url, status,
		 json_pointer_get(*answer, "/message", &message) ? "not an answer of etcd" :
		 json_object_get_string(message));
	gone = number(*answer, "/code") == GRPC_NOT_FOUND;
	json_object_put(*answer);
	*answer = NULL;
	return gone ? -ENOENT : -EHOSTUNREACH;
}

/*
 * Send a request. The caller puts *@answer.
 * Return: 0; -ENOENT: etcd answers that there is no such lease; -EHOSTUNREACH: no answer.
 */
static int ask(struct etcd *e, const char *what, const char *request, struct json_object **answer)
{
	unsigned int tries;
	int err;

	*answer = NULL;
	for (tries = 0; tries < e->options->nr_urls; tries++) {
		err = ask_one(e, e->options->urls[e->current], what, request, answer);
		if (err != -EHOSTUNREACH || atomic_load(&e->stop))
			return err;
		e->current = (e->current + 1) % e->options->nr_urls;
	}
	return -EHOSTUNREACH;
}

static int no_sense(struct etcd *e, const char *what)
{
	snprintf(e->why, sizeof(e->why), "%s: %s: an invalid answer",
		 e->options->urls[e->current], what);
	e->current = (e->current + 1) % e->options->nr_urls;
	return -EHOSTUNREACH;
}

/* ---- Leases ------------------------------------------------------------ */

/* Send a request about @lease. The answer has its length at @ttl_path and its id at @id_path. */
static int ask_lease(struct etcd *e, const char *what, int64_t lease, const char *ttl_path,
		     const char *id_path, int64_t *seconds)
{
	struct json_object *answer;
	char request[64];
	int64_t id;
	int err;

	snprintf(request, sizeof(request), "{\"ID\":\"%" PRId64 "\"}", lease);
	err = ask(e, what, request, &answer);
	if (err)
		return -EHOSTUNREACH;
	*seconds = number(answer, ttl_path);
	id = number(answer, id_path);
	json_object_put(answer);
	return id != lease || *seconds > UINT32_MAX ? no_sense(e, what) : 0;
}

/**
 * etcd_grant - get a lease
 * @etcd: the client
 * @seconds: its length
 * @lease: out: its id
 * @granted: out: the length that etcd grants, in seconds
 *
 * Return: 0; -EHOSTUNREACH: no answer, @etcd->why tells why.
 */
int etcd_grant(struct etcd *etcd, unsigned int seconds, int64_t *lease, unsigned int *granted)
{
	struct json_object *answer;
	char request[64];
	int64_t ttl;
	int err;

	snprintf(request, sizeof(request), "{\"TTL\":\"%u\"}", seconds);
	err = ask(etcd, "lease/grant", request, &answer);
	if (err)
		return -EHOSTUNREACH;
	*lease = number(answer, "/ID");
	ttl = number(answer, "/TTL");
	json_object_put(answer);
	if (!*lease || ttl <= 0 || ttl > UINT32_MAX)
		return no_sense(etcd, "lease/grant");
	*granted = (unsigned int)ttl;
	return 0;
}

/**
 * etcd_renew - renew a lease
 * @etcd: the client
 * @lease: the lease
 * @granted: out: its length in seconds, from some time during the call
 *
 * Return: 0; -ENOENT: it has expired or was revoked; -EHOSTUNREACH: no answer.
 */
int etcd_renew(struct etcd *etcd, int64_t lease, unsigned int *granted)
{
	int64_t ttl;
	int err = ask_lease(etcd, "lease/keepalive", lease, "/result/TTL", "/result/ID", &ttl);

	if (err)
		return err;
	*granted = ttl > 0 ? (unsigned int)ttl : 0;
	return *granted ? 0 : -ENOENT;
}

/**
 * etcd_left - read the time that a lease has left
 * @etcd: the client
 * @lease: the lease
 * @seconds: out; 0: it has expired
 *
 * Return: 0; -EHOSTUNREACH: no answer.
 */
int etcd_left(struct etcd *etcd, int64_t lease, unsigned int *seconds)
{
	int64_t ttl;
	int err = ask_lease(etcd, "lease/timetolive", lease, "/TTL", "/ID", &ttl);

	if (!err)
		*seconds = ttl > 0 ? (unsigned int)ttl : 0;
	return err;
}

/**
 * etcd_revoke - end a lease, and delete the keys that are attached to it
 * @etcd: the client
 * @lease: the lease
 *
 * Return: 0, also if it has ended already; -EHOSTUNREACH: no answer.
 */
int etcd_revoke(struct etcd *etcd, int64_t lease)
{
	struct json_object *answer;
	char request[64];
	int err;

	snprintf(request, sizeof(request), "{\"ID\":\"%" PRId64 "\"}", lease);
	err = ask(etcd, "lease/revoke", request, &answer);
	json_object_put(answer);
	return err == -ENOENT ? 0 : err;
}

/* ---- Keys -------------------------------------------------------------- */

#define BASE64_BYTES	(BASE64_ENCODE_RAW_LENGTH(ETCD_TEXT_BYTES) + 1)

static const char *encode(char out[BASE64_BYTES], const char *text)
{
	size_t n = strlen(text);

	base64_encode_raw(out, n, (const uint8_t *)text);
	out[BASE64_ENCODE_RAW_LENGTH(n)] = 0;
	return out;
}

static bool decode(char text[ETCD_TEXT_BYTES], struct json_object *value)
{
	const char *from = json_object_get_string(value);
	struct base64_decode_ctx ctx;
	size_t n = from ? strlen(from) : 0, used;

	if (!n || BASE64_DECODE_LENGTH(n) >= ETCD_TEXT_BYTES)
		return false;
	base64_decode_init(&ctx);
	if (!base64_decode_update(&ctx, &used, (uint8_t *)text, n, from) ||
	    !base64_decode_final(&ctx))
		return false;
	text[used] = 0;
	return true;
}

/* Take the value of a key from an answer: @part has its range. Return: 0 or -EHOSTUNREACH. */
static int take_value(struct etcd *e, struct json_object *part, const char *key, struct etcd_value *value)
{
	struct json_object *text;

	memset(value, 0, sizeof(*value));
	if (!number(part, "/count"))
		return 0;
	value->revision = number(part, "/kvs/0/mod_revision");
	value->lease = number(part, "/kvs/0/lease");
	if (value->revision > 0 && !json_pointer_get(part, "/kvs/0/value", &text) && decode(value->text, text))
		return 0;
	return no_sense(e, key);
}

/**
 * etcd_get - read a key
 * @etcd: the client
 * @key: its name, shorter than ETCD_TEXT_BYTES
 * @value: out
 *
 * A quorum of etcd's members answers, so the value is the newest.
 *
 * Return: 0; -EHOSTUNREACH: no answer.
 */
int etcd_get(struct etcd *etcd, const char *key, struct etcd_value *value)
{
	char request[REQUEST_BYTES], key64[BASE64_BYTES];
	struct json_object *answer;
	int err;

	snprintf(request, sizeof(request), "{\"key\":\"%s\"}", encode(key64, key));
	err = ask(etcd, "kv/range", request, &answer);
	if (err)
		return -EHOSTUNREACH;
	err = take_value(etcd, answer, key, value);
	json_object_put(answer);
	return err;
}

/**
 * etcd_get_all - read keys as they are at one time
 * @etcd: the client
 * @keys: their names, as for etcd_get()
 * @nr: number of keys, at most ETCD_KEYS
 * @values: out
 *
 * A quorum of etcd's members answers, as for etcd_get().
 *
 * Return: 0; -EHOSTUNREACH: no answer.
 */
int etcd_get_all(struct etcd *etcd, const char *const *keys, unsigned int nr, struct etcd_value *values)
{
	char request[REQUEST_BYTES] = "{\"success\":[", key64[BASE64_BYTES], path[48];
	struct json_object *answer, *part;
	size_t n = strlen(request);
	unsigned int i;
	int err;

	for (i = 0; i < nr && n < sizeof(request); i++)
		n += (size_t)snprintf(request + n, sizeof(request) - n, "%s{\"request_range\":{\"key\":\"%s\"}}",
				      i ? "," : "", encode(key64, keys[i]));
	if (n + 2 >= sizeof(request))
		return no_sense(etcd, "keys");
	strcpy(request + n, "]}");
	if (ask(etcd, "kv/txn", request, &answer))
		return -EHOSTUNREACH;
	for (i = 0, err = 0; i < nr && !err; i++) {
		snprintf(path, sizeof(path), "/responses/%u/response_range", i);
		err = json_pointer_get(answer, path, &part) ? no_sense(etcd, keys[i]) :
		      take_value(etcd, part, keys[i], &values[i]);
	}
	json_object_put(answer);
	return err;
}

/**
 * etcd_put - change keys in one transaction, if keys meet conditions
 * @etcd: the client
 * @puts: the changes; all of them, encoded, must fit into REQUEST_BYTES / 2
 * @nr: number of changes
 * @guards: conditions that other keys must meet as well
 * @nr_guards: number of @guards
 *
 * Return: 0; -EAGAIN: nothing was changed, because a condition is not met or a lease has expired;
 * -EHOSTUNREACH: no answer, and the keys may have been changed or not.
 */
int etcd_put(struct etcd *etcd, const struct etcd_put *puts, unsigned int nr,
	     const struct etcd_guard *guards, unsigned int nr_guards)
{
	char compare[REQUEST_BYTES / 2] = "", success[REQUEST_BYTES / 2] = "";
	char request[REQUEST_BYTES + 64], key64[BASE64_BYTES], text64[BASE64_BYTES];
	struct json_object *answer, *done;
	size_t compared = 0, put = 0;
	unsigned int i;
	int err;

	for (i = 0; i < nr; i++) {
		encode(key64, puts[i].key);
		if (puts[i].seen != ETCD_ANY)
			compared += (size_t)snprintf(compare + compared, sizeof(compare) - compared,
				"%s{\"key\":\"%s\",\"target\":\"MOD\",\"result\":\"EQUAL\",\"mod_revision\":\"%" PRId64 "\"}",
				compared ? "," : "", key64, puts[i].seen);
		put += (size_t)snprintf(success + put, sizeof(success) - put,
			"%s{\"request_put\":{\"key\":\"%s\",\"value\":\"%s\",\"lease\":\"%" PRId64 "\"}}",
			put ? "," : "", key64, encode(text64, puts[i].text), puts[i].lease);
	}
	for (i = 0; i < nr_guards; i++) {
		encode(key64, guards[i].key);
		compared += (size_t)snprintf(compare + compared, sizeof(compare) - compared,
			"%s{\"key\":\"%s\",\"result\":\"EQUAL\",", compared ? "," : "", key64);
		if (guards[i].text)
			compared += (size_t)snprintf(compare + compared, sizeof(compare) - compared,
				"\"target\":\"VALUE\",\"value\":\"%s\"}",
				encode(text64, guards[i].text));
		else
			compared += (size_t)snprintf(compare + compared, sizeof(compare) - compared,
				"\"target\":\"LEASE\",\"lease\":\"%" PRId64 "\"}", guards[i].lease);
	}
	snprintf(request, sizeof(request), "{\"compare\":[%s],\"success\":[%s]}", compare, success);
	err = ask(etcd, "kv/txn", request, &answer);
	if (err)
		return err == -ENOENT ? -EAGAIN : err;
	if (json_pointer_get(answer, "/succeeded", &done) || !json_object_get_boolean(done))
		err = -EAGAIN;
	json_object_put(answer);
	return err;
}

/* ---- Life -------------------------------------------------------------- */

/* Give libcurl a file of certificates, or the private key: libcurl copies its content. */
static int give_pem(struct etcd *e, CURLoption option, const char *path)
{
	struct curl_blob blob = { .flags = CURL_BLOB_COPY };
	int err = 0;
	FILE *f;

	if (!*path)
		return 0;
	f = fopen(path, "re");
	blob.data = f ? malloc(PEM_BYTES) : NULL;
	if (blob.data)
		blob.len = fread(blob.data, 1, PEM_BYTES, f);
	if (!blob.data || ferror(f) || !feof(f)) {
		err = f && blob.data && !ferror(f) ? -EFBIG : -errno;
		log_err("%s: cannot be read: %s", path, strerror(-err));
	} else if (curl_easy_setopt(e->curl, option, &blob)) {
		log_err("%s: libcurl takes no certificates from memory: install libcurl with OpenSSL",
			path);
		err = -EOPNOTSUPP;
	}
	if (blob.data)
		explicit_bzero(blob.data, PEM_BYTES);	/* it may be the private key */
	free(blob.data);
	if (f)
		fclose(f);
	return err;
}

/**
 * etcd_open - set up a client
 * @etcd: out
 * @options: how to reach etcd; must stay until etcd_close()
 *
 * Reads the files of @options; sends nothing yet. Logs why it fails.
 *
 * Return: 0; -ENOMEM; -EFBIG: a file is too long; -EOPNOTSUPP: libcurl takes no certificates from
 * memory; or a negative errno of reading a file.
 */
int etcd_open(struct etcd *etcd, const struct etcd_options *options)
{
	int err;

	memset(etcd, 0, sizeof(*etcd));
	etcd->options = options;
	etcd->timeout_ms = options->lease * 1000u / 5 / options->nr_urls;
	if (!curl_global_init(CURL_GLOBAL_DEFAULT))
		etcd->curl = curl_easy_init();
	if (!etcd->curl) {
		log_err("libcurl cannot be used: no memory");
		return -ENOMEM;
	}
	curl_easy_setopt(etcd->curl, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(etcd->curl, CURLOPT_PROXY, "");
	curl_easy_setopt(etcd->curl, CURLOPT_CAPATH, NULL);
	curl_easy_setopt(etcd->curl, CURLOPT_PROTOCOLS_STR, "http,https");
	curl_easy_setopt(etcd->curl, CURLOPT_TIMEOUT_MS, (long)etcd->timeout_ms);
	curl_easy_setopt(etcd->curl, CURLOPT_WRITEFUNCTION, take);
	curl_easy_setopt(etcd->curl, CURLOPT_WRITEDATA, etcd);
	curl_easy_setopt(etcd->curl, CURLOPT_XFERINFOFUNCTION, look_up);
	curl_easy_setopt(etcd->curl, CURLOPT_XFERINFODATA, etcd);
	curl_easy_setopt(etcd->curl, CURLOPT_NOPROGRESS, 0L);
	err = give_pem(etcd, CURLOPT_CAINFO_BLOB, options->ca);
	if (!err)
		err = give_pem(etcd, CURLOPT_SSLCERT_BLOB, options->cert);
	if (!err)
		err = give_pem(etcd, CURLOPT_SSLKEY_BLOB, options->key);
	if (err)
		etcd_close(etcd);
	return err;
}

/**
 * etcd_close - free what etcd_open() has allocated
 * @etcd: the client
 */
void etcd_close(struct etcd *etcd)
{
	curl_easy_cleanup(etcd->curl);
	curl_global_cleanup();
}

/**
 * etcd_stop - end the call under way within a second or so, and fail later ones
 * @etcd: the client
 * @stop: false: allow calls again
 *
 * Context: any thread.
 */
void etcd_stop(struct etcd *etcd, bool stop)
{
	atomic_store(&etcd->stop, stop);
}
