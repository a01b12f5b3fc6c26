// SPDX-License-Identifier: GPL-2.0
/*
 * Recovery of whole backups with damage (edits.h).  Recovery finds only what was written; it finds
 * all of that or reports a loss; and a second recovery finds the same.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "edits.h"

/* Recovery has found an object: check its bytes, unless they were not read. */
static void found_object(void *context, uint64_t key, uint64_t version, const uint8_t *data,
			 uint32_t length)
{
	struct model *model = context;

	if (data && !content_is(data, length, key, version))
		fuzz_fail("handle %#llx version %#llx has wrong bytes", (unsigned long long)key,
			  (unsigned long long)version);
	oracle_found(model, key, version, length);
}

static int look(struct edited *e, struct attempt *a, enum attempt_how how)
{
	int ret;

	memset(a, 0, sizeof(*a));
	if (!e->forged) {
		a->found.object = found_object;
		a->found.context = e->base->sim->model;
		oracle_begin(e->base->sim->model);
	}
	ret = attempt(a, e->image, how);
	attempt_judge(a, ret);
	if ((ret == -ENOMEM || ret == -EOVERFLOW) && !e->forged)
		fuzz_fail("recovery returns %d: %s", ret, a->last);
	if (!ret && a->state == RECOVER_BLANK && base_class(e->base, 0, 1) == CLASS_FREE)
		fuzz_fail("a backup is taken for blank");
	return ret;
}

/* The next recovery must find the result of the first one. */
static void judge_again(struct edited *e, const struct attempt *first, enum attempt_how how)
{
	struct attempt again;
	int ret = look(e, &again, how);

	if (ret == -EIO || ret == -EOVERFLOW)
		return;
	/*
	 * A tombstone with a forged barrier may have been dropped too early.  If damaged newest
	 * versions were accepted as lost and their segment was freed, the next recovery finds the
	 * versions before them.
	 */
	if (ret || (!e->forged && how == ATTEMPT_RUN && again.found.sum != first->found.sum))
		fuzz_fail("the second recovery returns %d: %llu objects, not %llu: %s", ret,
			  (unsigned long long)again.found.objects,
			  (unsigned long long)first->found.objects, again.last);
}

/* Recovery must have found all that was acknowledged. */
static void judge_all(struct edited *e, const struct attempt *a)
{
	struct model *model = e->base->sim->model;
	struct oracle before = model->oracle;
	char error[sizeof(model->error)];

	oracle_check(model);
	memcpy(error, model->error, sizeof(error));
	model->error[0] = '\0';
	model->oracle = before;
	if (error[0])
		fuzz_fail("lost, and not told: %s", error);
	if (a->activation.era <= before.era || a->activation.generation_floor < before.generation ||
	    a->activation.store_time < before.time || a->activation.next_segment <= before.segment)
		fuzz_fail("era, generation, time or segment id have been used before");
}

/*
 * An instant recovery finds all that was acknowledged, or reports a loss.  Bytes of objects may be damaged:
 * those are found when they are read.
 */
static int judge_instant(struct edited *e, struct attempt *a)
{
	int ret = look(e, a, ATTEMPT_INSTANT);

	if (ret)
		return ret;
	if (a->damages)
		fuzz_fail("an instant recovery with losses succeeds: %s", a->last);
	if (!e->forged && e->class != CLASS_PROOF)
		judge_all(e, a);
	return 0;
}

static void recover_and_judge(struct edited *e)
{
	struct attempt check, run, instant;
	int checked, ret;

	checked = look(e, &check, ATTEMPT_CHECK);
	ret = look(e, &run, ATTEMPT_RUN);
	if (run.state == RECOVER_BLANK && !ret)
		return;
	if (!checked && ret && ret != -EOVERFLOW)
		fuzz_fail("sound, and its recovery returns %d: %s", ret, run.last);
	if (e->image->fault == UINT64_MAX && e->class == CLASS_FREE && !e->forged && (checked || ret))
		fuzz_fail("nothing was damaged: check %d, recovery %d: %s", checked, ret, run.last);
	if (!ret) {
		if (run.damages)
			fuzz_fail("a recovery with losses succeeds: %s", run.last);
		if (!e->forged && e->class != CLASS_PROOF)
			judge_all(e, &run);
		judge_again(e, &run, ATTEMPT_RUN);
		ret = judge_instant(e, &instant);
		if (!e->forged && ret != -EIO && ret != -EOVERFLOW &&
		    (ret || instant.found.objects != run.found.objects))
			fuzz_fail("loaded, but an instant recovery returns %d: %llu objects, not %llu: %s", ret,
				  (unsigned long long)instant.found.objects,
				  (unsigned long long)run.found.objects, instant.last);
		return;
	}
	judge_instant(e, &instant);
	ret = look(e, &run, ATTEMPT_ACCEPT);
	if (!ret)
		judge_again(e, &run, ATTEMPT_ACCEPT);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct edited e;

	if (!edits_apply(&e, data, size))
		return 0;
	recover_and_judge(&e);
	image_reset(e.image);
	return 0;
}
