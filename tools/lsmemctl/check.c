// SPDX-License-Identifier: GPL-2.0
/* lsmemctl check: is a backup sound?  The daemon's recovery, without the writing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backup.h"
#include "ctl.h"

static const struct ctl_option options[] = { { 0 } };

static void add_number(struct json_object *object, const char *key, uint64_t number)
{
	json_object_object_add(object, key, json_object_new_int64((int64_t)number));
}

static void describe_result(struct json_object *object, const struct recover_result *result)
{
	add_number(object, "segments", result->segments);
	add_number(object, "segments_closed", result->closed);
	add_number(object, "segments_sealed", result->sealed);
	add_number(object, "segments_open", result->open);
	add_number(object, "segments_empty", result->dropped);
	add_number(object, "entries", result->entries);
	add_number(object, "objects", result->objects);
	add_number(object, "deletes", result->deletes);
	add_number(object, "live_bytes", result->live_bytes);
	add_number(object, "read_bytes", result->read_bytes);
	add_number(object, "torn_tails", result->torn);
	add_number(object, "torn_bytes", result->torn_bytes);
	add_number(object, "losses", result->losses);
}

/* Return: an exit code; @verdict says it in a word. */
static int check(struct ctl_backup *backup, struct recover *recover, struct json_object *out,
		 const char **verdict)
{
	struct recover_result result;
	enum recover_state state;
	bool blank;
	int ret;

	*verdict = "unreadable";
	ret = recover_open(recover, &state);
	if (ret == -EBADMSG) {
		*verdict = "damaged";
		return CTL_DAMAGED;
	}
	if (ret) {
		ctl_system_error(-ret, "the superblock cannot be read");
		return CTL_FAILED;
	}
	if (state == RECOVER_BLANK) {
		ret = ctl_backup_blank(backup, &blank);
		if (ret) {
			ctl_system_error(-ret, "the backup cannot be read");
			return CTL_FAILED;
		}
		*verdict = blank ? "blank" : "damaged";
		if (blank)
			return CTL_OK;
		backup->env.report(backup, RECOVER_DAMAGE,
				   "no superblock, and yet something is here: not a backup, or its beginning has been overwritten");
		return CTL_DAMAGED;
	}
	ctl_describe_super(out, recover);
	memset(&result, 0, sizeof(result));
	ret = recover_check(recover, &result);
	if (!ret || ret == -ENODATA)
		describe_result(out, &result);
	if (!ret) {
		*verdict = "sound";
		return CTL_OK;
	}
	if (ret == -ENODATA || ret == -EBADMSG) {
		*verdict = "damaged";
		return CTL_DAMAGED;
	}
	ctl_system_error(-ret, "the backup cannot be read");
	return CTL_FAILED;
}

static int run(int argc, char **argv)
{
	struct ctl_backup backup;
	struct recover *recover;
	struct json_object *out;
	const char *path, *value, *verdict;
	int ret;

	if (ctl_next_option(argc, argv, options, &value) != -1)
		return CTL_USAGE;
	path = ctl_one_argument(argc, argv, "BACKUP");
	if (!path)
		return CTL_USAGE;
	if (!ctl_backup_open(&backup, path, false))
		return CTL_FAILED;
	recover = recover_new(&backup.env);
	if (!recover) {
		ctl_system_error(ENOMEM, "%s", path);
		ctl_backup_close(&backup);
		return CTL_FAILED;
	}
	out = json_object_new_object();
	json_object_object_add(out, "backup", json_object_new_string(path));
	ret = check(&backup, recover, out, &verdict);
	json_object_object_add(out, "verdict", json_object_new_string(verdict));
	if (ctl_json) {
		json_object_object_add(out, "reports", json_object_get(backup.reports));
		ctl_print_json(out);
	} else {
		ctl_print_fields(out);
		ctl_print_reports(&backup);
	}
	json_object_put(out);
	recover_free(recover);
	ctl_backup_close(&backup);
	return ret;
}

const struct ctl_command ctl_check = {
	.name = "check",
	.summary = "Read a backup that no daemon uses and verify all of it; writes nothing",
	.usage = "check BACKUP [--json]",
	.run = run,
};
