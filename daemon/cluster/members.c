// SPDX-License-Identifier: GPL-2.0
/* The backups of a store as etcd has them: see members.h. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <json-c/json.h>

#include "members.h"
#include "backup/nvmf_address.h"
#include "remote/wire.h"

/* May the character stand in JSON and on a terminal without being quoted? */
static bool is_plain(char c)
{
	return c > ' ' && c <= '~' && c != '"' && c != '\\';
}

/**
 * members_far - can other hosts reach a backup?
 * @path: of the backup
 *
 * Return: true: it is on another host, or in a namespace of NVMe over Fabrics.
 */
bool members_far(const char *path)
{
	return nvmf_scheme(path) || wire_scheme(path);
}

/**
 * members_copy - copy a text as etcd stores it
 * @to: out: characters that need quoting are replaced, a long text is cut
 * @room: bytes at @to
 * @from: the text
 */
void members_copy(char *to, size_t room, const char *from)
{
	size_t i;

	for (i = 0; i + 1 < room && from[i]; i++)
		to[i] = is_plain(from[i]) ? from[i] : '?';
	to[i] = 0;
}

/**
 * members_print - print the members as members_parse() reads them
 * @members: their texts are from members_copy()
 * @text: out
 */
void members_print(const struct members *members, char text[MEMBERS_TEXT_BYTES])
{
	const struct member *m = members->member, *end = m + members->nr;
	size_t used;

	_Static_assert(LSMEM_BACKUPS * (sizeof(*m) + 96) + 64 <= MEMBERS_TEXT_BYTES,
		       "there is room for all of them");
	used = (size_t)sprintf(text, "{\"term\":%" PRIu64 ",\"backups\":[", members->term);
	for (; m < end; m++)
		used += (size_t)sprintf(text + used,
			"%s{\"name\":\"%s\",\"path\":\"%s\",\"domain\":\"%s\",\"state\":\"%s\",\"incarnation\":%" PRIu32 ",\"secret\":%s}",
			m == members->member ? "" : ",", m->name, m->path, m->domain, m->state,
			m->incarnation, m->secret ? "true" : "false");
	strcpy(text + used, "]}");
}

static bool take_text(struct json_object *json, const char *key, char *to, size_t room)
{
	struct json_object *value;
	const char *text;
	size_t i;

	if (!json_object_object_get_ex(json, key, &value) ||
	    !json_object_is_type(value, json_type_string) ||
	    (size_t)json_object_get_string_len(value) >= room)
		return false;
	text = json_object_get_string(value);
	for (i = 0; i < (size_t)json_object_get_string_len(value); i++)
		if (!is_plain(text[i]))
			return false;
	memcpy(to, text, i);
	return true;
}

static bool take_number(struct json_object *json, const char *key, uint64_t *to)
{
	struct json_object *value;

	if (!json_object_object_get_ex(json, key, &value) ||
	    !json_object_is_type(value, json_type_int) || json_object_get_int64(value) < 0)
		return false;
	*to = json_object_get_uint64(value);
	return true;
}

static bool take_member(struct json_object *json, struct member *m, const char **what)
{
	struct json_object *secret;
	uint64_t incarnation;

	*what = "name";
	if (!take_text(json, *what, m->name, sizeof(m->name)))
		return false;
	*what = "path";
	if (!take_text(json, *what, m->path, sizeof(m->path)) ||
	    (!members_far(m->path) && (*m->path == '/' || !strstr(m->path, ":/"))))
		return false;
	*what = "domain";
	if (!take_text(json, *what, m->domain, sizeof(m->domain)))
		return false;
	*what = "state";
	if (!take_text(json, *what, m->state, sizeof(m->state)))
		return false;
	*what = "incarnation";
	if (!take_number(json, *what, &incarnation) || incarnation > UINT32_MAX)
		return false;
	m->incarnation = (uint32_t)incarnation;
	*what = "secret";
	if (!json_object_object_get_ex(json, *what, &secret) ||
	    !json_object_is_type(secret, json_type_boolean))
		return false;
	m->secret = json_object_get_boolean(secret);
	return true;
}

static void take_all(struct json_object *json, struct members *members, char *error)
{
	struct json_object *backups;
	const char *what;
	size_t nr, i;

	strcpy(error, "no JSON object");
	if (!json_object_is_type(json, json_type_object))
		return;
	strcpy(error, "\"term\" is none");
	if (!take_number(json, "term", &members->term) || !members->term)
		return;
	strcpy(error, "\"backups\" is no list");
	if (!json_object_object_get_ex(json, "backups", &backups) ||
	    !json_object_is_type(backups, json_type_array))
		return;
	nr = json_object_array_length(backups);
	sprintf(error, "%zu backups, and a store has 1 to %u", nr, LSMEM_BACKUPS);
	if (!nr || nr > LSMEM_BACKUPS)
		return;
	for (i = 0; i < nr; i++) {
		if (take_member(json_object_array_get_idx(backups, i), &members->member[i], &what))
			continue;
		sprintf(error, "backup %zu: its \"%s\" is none", i + 1, what);
		return;
	}
	members->nr = (unsigned int)nr;
}

/**
 * members_parse - parse the members
 * @text: JSON
 * @members: out
 * @error: out: why @text is not valid
 *
 * Return: true; false: @text is not valid, and @members has no member.
 */
bool members_parse(const char *text, struct members *members, char error[MEMBERS_ERROR_BYTES])
{
	struct json_object *json = json_tokener_parse(text);

	memset(members, 0, sizeof(*members));
	take_all(json, members, error);
	json_object_put(json);
	return members->nr;
}
