// SPDX-License-Identifier: GPL-2.0
/* lsmemctl check: verify the backups of a store by the recovery code of the daemon, read-only. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backup.h"
#include "ctl.h"

static const struct ctl_option options[] = { { 0 } };

/**
 * struct backups - all backups of a store
 * @one: the backups, in the order of the command line; @one[0] collects all reports
 * @nr: number of backups in @one
 * @env: for recover_new(); its calls work on the backup that the address or slot names
 */
struct backups {
	struct ctl_backup one[LSMEM_BACKUPS];
	uint32_t nr;
	struct recover_env env;
};

static int backups_read(void *context, uint64_t address, void *data, uint32_t length)
{
	struct backups *backups = context;
	struct ctl_backup *backup = &backups->one[recover_address_slot(address)];

	return backup->env.read(backup, recover_address_offset(address), data, length);
}

/* Makes durable what another program wrote before check read it; check itself writes nothing. */
static int backups_flush(void *context, uint32_t slot)
{
	struct ctl_backup *backup = &((struct backups *)context)->one[slot];

	return backup->env.flush(backup, 0);
}

static void backups_report(void *context, enum recover_severity severity, const char *text)
{
	struct ctl_backup *first = &((struct backups *)context)->one[0];

	first->env.report(first, severity, text);
}

static void backups_progress(void *context, uint64_t done, uint64_t all)
{
	struct ctl_backup *first = &((struct backups *)context)->one[0];

	first->env.progress(first, done, all);
}

static void backups_close(struct backups *backups)
{
	while (backups->nr)
		ctl_backup_close(&backups->one[--backups->nr]);
}

/* Return: false when an error has been printed. */
static bool backups_open(struct backups *backups, char **paths, int nr)
{
	memset(backups, 0, sizeof(*backups));
	for (; (int)backups->nr < nr; backups->nr++) {
		uint32_t slot = backups->nr;

		if (!ctl_backup_open(&backups->one[slot], paths[slot], false)) {
			backups_close(backups);
			return false;
		}
		backups->env.names[slot] = paths[slot];
		backups->env.backup_bytes[slot] = backups->one[slot].env.backup_bytes[0];
	}
	backups->env.context = backups;
	backups->env.backups = backups->nr;
	backups->env.read = backups_read;
	backups->env.flush = backups_flush;
	backups->env.report = backups_report;
	backups->env.progress = backups_progress;
	return true;
}

static void describe_result(struct json_object *object, const struct recover_result *result)
{
	ctl_add_number(object, "segments", result->segments);
	ctl_add_number(object, "segments_closed", result->closed);
	ctl_add_number(object, "segments_sealed", result->sealed);
	ctl_add_number(object, "segments_open", result->open);
	ctl_add_number(object, "segments_empty", result->dropped);
	ctl_add_number(object, "entries", result->entries);
	ctl_add_number(object, "objects", result->objects);
	ctl_add_number(object, "tombstones", result->tombstones);
	ctl_add_number(object, "live_bytes", result->live_bytes);
	ctl_add_number(object, "read_bytes", result->read_bytes);
	ctl_add_number(object, "torn_tails", result->torn);
	ctl_add_number(object, "torn_bytes", result->torn_bytes);
	ctl_add_number(object, "losses", result->losses);
}

/* Are all backups without a superblock blank? */
static int all_blank(struct backups *backups, const struct recover *recover, bool *blank)
{
	uint32_t slot;
	int ret = 0;

	*blank = true;
	for (slot = 0; slot < backups->nr && !ret && *blank; slot++)
		if (recover_slot_blank(recover, slot))
			ret = ctl_backup_blank(&backups->one[slot], blank);
	return ret;
}

/* Return: an exit code.  @verdict: out: the verdict of lsmemctl(8), or "incomplete". */
static int check(struct backups *backups, struct recover *recover, struct json_object *out,
		 const char **verdict)
{
	struct recover_result result;
	enum recover_state state;
	bool blank;
	int ret;

	*verdict = "unreadable";
	ret = recover_open(recover, &state);
	if (ret == -EBADMSG && recover_unread(recover))
		return CTL_FAILED;
	if (ret == -EBADMSG) {
		*verdict = "damaged";
		return CTL_DAMAGED;
	}
	if (ret) {
		ctl_system_error(-ret, "the superblock cannot be read");
		return CTL_FAILED;
	}
	if (state == RECOVER_BLANK) {
		ret = all_blank(backups, recover, &blank);
		if (ret) {
			ctl_system_error(-ret, "the backup cannot be read");
			return CTL_FAILED;
		}
		*verdict = blank ? "blank" : "damaged";
		if (blank)
			return CTL_OK;
		backups_report(backups, RECOVER_DAMAGE,
			       "no superblock, but not blank: not a backup, or its beginning has been overwritten");
		return CTL_DAMAGED;
	}
	ctl_describe_super(out, recover);
	if (format_backups(recover_super(recover)) != backups->nr) {
		ctl_error("the store has %u backups: name them all to check them together",
			  format_backups(recover_super(recover)));
		*verdict = "incomplete";
		return CTL_FAILED;
	}
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

static int check_paths(char **paths, int nr)
{
	const char *verdict;
	struct backups backups;
	struct recover *recover;
	struct json_object *out;
	int ret, i;

	if (!backups_open(&backups, paths, nr))
		return CTL_FAILED;
	recover = recover_new(&backups.env);
	if (!recover) {
		ctl_system_error(ENOMEM, "%s", paths[0]);
		backups_close(&backups);
		return CTL_FAILED;
	}
	out = json_object_new_object();
	for (i = 0; i < nr; i++) {
		char key[24] = "backup";

		if (i)
			snprintf(key, sizeof(key), "backup_%d", i + 1);
		json_object_object_add(out, key, json_object_new_string(paths[i]));
	}
	ret = check(&backups, recover, out, &verdict);
	json_object_object_add(out, "verdict", json_object_new_string(verdict));
	if (ctl_json) {
		json_object_object_add(out, "reports", json_object_get(backups.one[0].reports));
		ctl_print_json(out);
	} else {
		ctl_print_fields(out);
		ctl_print_reports(&backups.one[0]);
	}
	json_object_put(out);
	recover_free(recover);
	backups_close(&backups);
	return ret;
}

static int run(int argc, char **argv)
{
	const char *value;

	if (ctl_next_option(argc, argv, options, &value) != -1)
		return CTL_USAGE;
	if (optind == argc)
		return ctl_usage_error("BACKUP is missing");
	if (argc - optind > (int)LSMEM_BACKUPS)
		return ctl_usage_error("a store has at most %u backups", LSMEM_BACKUPS);
	return check_paths(argv + optind, argc - optind);
}

const struct ctl_command ctl_check = {
	.name = "check",
	.summary = "Verify all backups of a store that no daemon uses, without writing",
	.usage = "check BACKUP... [--json]",
	.run = run,
};
