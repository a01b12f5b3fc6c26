// SPDX-License-Identifier: GPL-2.0
/*
 * Groups of keys: lsm_table_group() puts, removes and checks several keys, of two tables, all or none.
 *
 * At rest: what each operation does, and that each way in which one can fail leaves all as it was.  Then processes
 * move amounts between accounts, and accounts from one table to the other.  One of them is killed again and again:
 * each account must be in one table, and no amount be lost or made.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kselftest_harness.h"
#include "store.h"

#define TABLES		2u
#define FIRST_TABLE	7u	/* table ids */
#define MOST		256u	/* operations in a group */

FIXTURE(keys) {
	struct store store;
	struct lsm_table *tables[TABLES];
	uint8_t *bytes;
};

static int open_tables(struct lsm *lsm, struct lsm_table **tables)
{
	uint32_t i;
	int ret = 0;

	for (i = 0; i < TABLES && !ret; i++)
		ret = lsm_table_open(lsm, FIRST_TABLE + i, 0, &tables[i]);
	return ret;
}

FIXTURE_SETUP(keys)
{
	self->bytes = calloc(1, OBJECT_MAX + 1);
	ASSERT_TRUE(self->bytes);
	ASSERT_EQ(0, store_create(&self->store, STORE_BYTES, 0, 0));
	ASSERT_EQ(0, open_tables(self->store.lsm, self->tables));
}

FIXTURE_TEARDOWN(keys)
{
	uint32_t i;

	for (i = 0; i < TABLES; i++)
		lsm_table_close(self->tables[i]);
	EXPECT_EQ(0, store_livemap(&self->store, NULL));
	EXPECT_EQ(0, store_destroy(&self->store));
	free(self->bytes);
}

static struct lsm_item_op item_op(struct lsm_table *table, uint32_t op, const char *key, const char *value,
				  uint32_t flags, uint64_t version)
{
	return (struct lsm_item_op){
		.table = table, .op = op, .key = key, .key_length = strlen(key), .value = value,
		.length = value ? strlen(value) : 0, .flags = flags, .version = version,
	};
}

/* Is this the value of a key?  NULL: it is not there. */
static bool has(struct lsm_table *table, const char *key, const char *value)
{
	char there[64];
	ssize_t length = lsm_table_get(table, key, strlen(key), there, sizeof(there), NULL);

	return value ? length == (ssize_t)strlen(value) && !memcmp(there, value, strlen(value)) : length == -ENOENT;
}

/* ---- At rest ------------------------------------------------------------------------------- */

#define NR	6u

/* A group of one operation of each kind, on keys of both tables, and an object. */
struct rest {
	struct lsm_item_op items[NR];
	struct lsmem_op op;
	uint64_t versions[2];
	uint64_t object;
	uint64_t version;
	struct lsmem_stat before;
};

static int rest_begin(struct _test_data_keys *self, struct rest *rest)
{
	struct lsm_table *here = self->tables[0], *there = self->tables[1];
	int ret;

	ret = lsm_table_put(here, "old", 3, "1", 1, 0, &rest->versions[0]);
	ret = ret ?: lsm_table_put(here, "goes", 4, "2", 1, 0, NULL);
	ret = ret ?: lsm_table_put(there, "old", 3, "3", 1, 0, &rest->versions[1]);
	ret = ret ?: lsm_alloc(self->store.lsm, "object", 6, LSM_TABLE(1), &rest->object, &rest->version);
	rest->items[0] = item_op(here, LSM_ITEM_PUT, "old", "10", LSM_EXPECT, rest->versions[0]);
	rest->items[1] = item_op(here, LSM_ITEM_PUT, "new", "20", 0, 0);
	rest->items[2] = item_op(here, LSM_ITEM_REMOVE, "goes", NULL, 0, 0);
	rest->items[3] = item_op(there, LSM_ITEM_CHECK, "old", NULL, LSM_EXPECT, rest->versions[1]);
	rest->items[4] = item_op(there, LSM_ITEM_CHECK, "goes", NULL, LSM_NEW, 0);
	rest->items[5] = item_op(there, LSM_ITEM_PUT, "new", "30", LSM_NEW, 0);
	rest->op = lsm_op_replace(rest->object, "other", 5, LSM_EXPECT, rest->version);
	return ret ?: lsm_stat(self->store.lsm, &rest->before);
}

/* What is not as rest_begin() has made it?  "": all is. */
static const char *changed(struct _test_data_keys *self, const struct rest *rest)
{
	struct lsm_table *here = self->tables[0], *there = self->tables[1];
	struct lsm_table_stat stats[TABLES];
	struct lsm_object object;
	struct lsmem_stat stat;

	if (!has(here, "old", "1") || !has(here, "new", NULL) || !has(here, "goes", "2"))
		return "the first table";
	if (!has(there, "old", "3") || !has(there, "goes", NULL) || !has(there, "new", NULL))
		return "the second table";
	if (lsm_read(self->store.lsm, rest->object, NULL, 0, 0, &object) || object.version != rest->version)
		return "the object";
	if (lsm_table_stat(here, &stats[0]) || lsm_table_stat(there, &stats[1]) || stats[0].items != 2 ||
	    stats[1].items != 1)
		return "the items of the index";
	if (lsm_stat(self->store.lsm, &stat) || stat.handles_used != rest->before.handles_used ||
	    stat.live_bytes != rest->before.live_bytes)
		return "the store";
	return "";
}

/* The group is refused with @error, which is that of item @failing; NR: of the object; beyond: of none. */
#define EXPECT_NONE(error, failing) do {								\
	uint32_t which;											\
													\
	EXPECT_EQ(-(error), lsm_table_group(self->store.lsm, rest.items, NR, &rest.op, 1, 0));		\
	for (which = 0; which < NR; which++)								\
		EXPECT_EQ(which == (failing) ? -(error) : -ECANCELED, rest.items[which].result);	\
	EXPECT_EQ((failing) == NR ? -(error) : -ECANCELED, rest.op.result);				\
	EXPECT_STREQ("", changed(self, &rest));								\
} while (0)

TEST_F(keys, all)
{
	struct lsm_table *here = self->tables[0], *there = self->tables[1];
	struct lsm_table_stat stat;
	struct lsm_item item;
	struct rest rest;
	uint32_t i;

	ASSERT_EQ(0, rest_begin(self, &rest));
	EXPECT_EQ(0, lsm_table_group(self->store.lsm, rest.items, NR, &rest.op, 1, 0));
	EXPECT_TRUE(has(here, "old", "10") && has(here, "new", "20") && has(here, "goes", NULL));
	EXPECT_TRUE(has(there, "old", "3") && has(there, "goes", NULL) && has(there, "new", "30"));
	for (i = 0; i < NR; i++)
		EXPECT_EQ(0, rest.items[i].result);
	EXPECT_EQ(0, rest.op.result);
	/* All that has changed has one version. */
	EXPECT_LT(rest.version, rest.op.version);
	for (i = 0; i < NR; i++)
		EXPECT_EQ(i == 3 ? rest.versions[1] : i == 4 ? 0 : rest.op.version, rest.items[i].version);
	EXPECT_EQ(2, lsm_table_get(there, "new", 3, self->bytes, 10, &item));
	EXPECT_EQ(rest.items[5].handle, item.handle);
	EXPECT_EQ(rest.items[5].version, item.version);
	EXPECT_EQ(0, rest.items[4].handle);
	for (i = 0; i < TABLES; i++) {
		ASSERT_EQ(0, lsm_table_stat(self->tables[i], &stat));
		EXPECT_EQ(2, stat.items);
	}
	/* As they are in the store. */
	for (i = 0; i < TABLES; i++) {
		lsm_table_close(self->tables[i]);
		ASSERT_EQ(0, store_forget_index(&self->store, FIRST_TABLE + i));
	}
	ASSERT_EQ(0, open_tables(self->store.lsm, self->tables));
	EXPECT_TRUE(has(self->tables[0], "new", "20") && has(self->tables[0], "goes", NULL));
	EXPECT_TRUE(has(self->tables[1], "new", "30"));
	/* Groups of keys alone, of objects alone, of nothing. */
	rest.items[1] = item_op(self->tables[0], LSM_ITEM_REMOVE, "new", NULL, 0, 0);
	EXPECT_EQ(0, lsm_table_group(self->store.lsm, &rest.items[1], 1, NULL, 0, 0));
	EXPECT_TRUE(has(self->tables[0], "new", NULL));
	rest.op = lsm_op_free(rest.object, 0, 0);
	EXPECT_EQ(0, lsm_table_group(self->store.lsm, NULL, 0, &rest.op, 1, 0));
	EXPECT_EQ(0, lsm_table_group(self->store.lsm, NULL, 0, NULL, 0, 0));
	rest.items[4].table = self->tables[1];
	EXPECT_EQ(0, lsm_table_group(self->store.lsm, &rest.items[4], 1, NULL, 0, 0));
}

TEST_F(keys, none)
{
	struct lsm_table *other;
	struct lsm *second;
	struct rest rest;
	uint32_t i;

	ASSERT_EQ(0, rest_begin(self, &rest));
	/* Versions that are not expected, and are told then. */
	rest.items[0].version--;
	EXPECT_NONE(EILSEQ, 0);
	EXPECT_EQ(rest.versions[0], rest.items[0].version);
	rest.items[3].version--;
	EXPECT_NONE(EILSEQ, 3);
	EXPECT_EQ(rest.versions[1], rest.items[3].version);
	rest.items[2].flags = LSM_EXPECT;
	rest.items[2].version = 1;
	EXPECT_NONE(EILSEQ, 2);
	rest.items[2].flags = 0;
	rest.op.version--;
	EXPECT_NONE(EILSEQ, NR);
	EXPECT_EQ(rest.version, rest.op.version);
	/* Keys that are there, or not. */
	rest.items[0].flags = LSM_NEW;
	EXPECT_NONE(EEXIST, 0);
	rest.items[0].flags = LSM_EXPECT;
	rest.items[1].flags = LSM_OLD;
	EXPECT_NONE(ENOENT, 1);
	rest.items[1].flags = LSM_EXPECT;
	EXPECT_NONE(ENOENT, 1);
	rest.items[1].flags = 0;
	rest.items[2].key = "gone";
	EXPECT_NONE(ENOENT, 2);
	rest.items[2].key = "goes";
	rest.items[3].flags = LSM_NEW;
	EXPECT_NONE(EEXIST, 3);
	rest.items[3].flags = LSM_EXPECT;
	rest.items[4].flags = 0;
	EXPECT_NONE(ENOENT, 4);
	rest.items[4].flags = LSM_NEW;
	/* Arguments. */
	for (i = 0; i < NR; i++) {
		struct lsm_item_op right = rest.items[i];

		rest.items[i].op = 4;
		EXPECT_NONE(EINVAL, i);
		rest.items[i].op = 0;
		EXPECT_NONE(EINVAL, i);
		rest.items[i] = right;
		rest.items[i].flags |= LSM_DURABLE;
		EXPECT_NONE(EINVAL, i);
		rest.items[i] = right;
		rest.items[i].key_length = 0;
		EXPECT_NONE(EINVAL, i);
		rest.items[i] = right;
		rest.items[i].table = NULL;
		EXPECT_NONE(EINVAL, i);
		rest.items[i] = right;
	}
	rest.items[2].length = 1;
	EXPECT_NONE(EINVAL, 2);
	rest.items[2].length = 0;
	rest.items[2].flags = LSM_NEW;
	EXPECT_NONE(EINVAL, 2);
	rest.items[2].flags = 0;
	/* The same key, there or not, is named twice; the same object is, by the kernel. */
	rest.items[2].key = "old";
	rest.items[2].key_length = 3;
	EXPECT_NONE(EINVAL, 2);
	rest.items[2].key = "new";
	EXPECT_NONE(EINVAL, 2);
	rest.items[2].key = "goes";
	rest.items[2].key_length = 4;
	rest.op.handle = 0;
	EXPECT_NONE(ENOENT, NR);
	rest.op.handle = rest.object;
	/* Tables of another client, and for reading. */
	ASSERT_EQ(0, lsm_open(self->store.path, 0, &second));
	ASSERT_EQ(0, lsm_table_open(second, FIRST_TABLE, LSM_RDONLY, &other));
	rest.items[0].table = other;
	EXPECT_NONE(EINVAL, 0);
	EXPECT_EQ(-EBADF, lsm_table_group(second, rest.items, 1, NULL, 0, 0));
	lsm_table_close(other);
	lsm_close(second);
	rest.items[0].table = self->tables[0];
	EXPECT_EQ(-EINVAL, lsm_table_group(self->store.lsm, rest.items, NR, NULL, 0, LSM_ATOMIC));
	EXPECT_EQ(-EOPNOTSUPP, lsm_table_group(self->store.lsm, rest.items, NR, NULL, 0, LSM_DURABLE));
	EXPECT_STREQ("", changed(self, &rest));
	EXPECT_EQ(0, lsm_table_group(self->store.lsm, rest.items, NR, &rest.op, 1, 0));
}

/* The bounds.  Many keys come and go at once: buckets overflow, and grow. */
TEST_F(keys, bounds)
{
	static struct lsm_item_op items[MOST + 1];
	static char keys[MOST + 1][32];
	struct lsm_table_stat stat;
	uint32_t round, i;

	for (round = 0; round < 40; round++) {
		for (i = 0; i <= MOST; i++) {
			sprintf(keys[i], "key %u %u", i, round);
			items[i] = item_op(self->tables[i % TABLES], LSM_ITEM_PUT, keys[i], keys[i], LSM_NEW, 0);
		}
		if (!round) {
			EXPECT_EQ(-E2BIG, lsm_table_group(self->store.lsm, items, MOST + 1, NULL, 0, 0));
			items[7].value = (char *)self->bytes;
			items[7].length = OBJECT_MAX - 2000;
			EXPECT_EQ(-E2BIG, lsm_table_group(self->store.lsm, items, MOST, NULL, 0, 0));
			items[7].length = 1;
		}
		ASSERT_EQ(0, lsm_table_group(self->store.lsm, items, MOST, NULL, 0, 0));
		for (i = 0; i < MOST; i++)
			ASSERT_TRUE(i == 7 || has(items[i].table, keys[i], keys[i]));
	}
	for (i = 0; i < TABLES; i++) {
		ASSERT_EQ(0, lsm_table_stat(self->tables[i], &stat));
		EXPECT_EQ(40 * MOST / TABLES, stat.items);
	}
	for (round = 0; round < 40; round++) {
		for (i = 0; i < MOST; i++) {
			sprintf(keys[i], "key %u %u", i, round);
			items[i] = item_op(self->tables[i % TABLES], LSM_ITEM_REMOVE, keys[i], NULL, 0, 0);
		}
		ASSERT_EQ(0, lsm_table_group(self->store.lsm, items, MOST, NULL, 0, 0));
	}
	for (i = 0; i < TABLES; i++) {
		ASSERT_EQ(0, lsm_table_stat(self->tables[i], &stat));
		EXPECT_EQ(0, stat.items);
	}
}

/* ---- Threads --------------------------------------------------------------------------------- */

#define THREADS		4u
#define TOGETHER	32u	/* keys that come together */

/* A thread that adds keys, of which others add the same. */
struct adder {
	struct lsm *lsm;
	struct lsm_table **tables;
	uint32_t rounds;
	uint32_t first;		/* key of a group */
	uint32_t made;
	int ret;
};

static void *add_all(void *argument)
{
	struct adder *me = argument;
	struct lsm_item_op items[TOGETHER];
	char keys[TOGETHER][32];
	uint32_t round, i;
	int ret;

	for (round = 0; round < me->rounds && !me->ret; round++) {
		for (i = 0; i < TOGETHER; i++) {
			sprintf(keys[i], "%u %u", round, (me->first + i) % TOGETHER);
			items[i] = item_op(me->tables[i % TABLES], LSM_ITEM_PUT, keys[i], keys[i], LSM_NEW, 0);
		}
		ret = lsm_table_group(me->lsm, items, TOGETHER, NULL, 0, 0);
		me->made += !ret;
		me->ret = ret == -EEXIST ? 0 : ret;
	}
	return NULL;
}

/* Of several groups that add the same keys, one is made. */
TEST_F_TIMEOUT(keys, once, 120)
{
	uint32_t rounds = (uint32_t)test_scaled(3000), made = 0, i;
	struct adder adders[THREADS];
	pthread_t threads[THREADS];
	uint64_t cursor, nr = 0;
	size_t length;
	char key[32];
	int ret;

	for (i = 0; i < THREADS; i++) {
		/* In different orders, with the same keys in each table. */
		adders[i] = (struct adder){ self->store.lsm, self->tables, rounds, .first = 2 * i };
		ASSERT_EQ(0, pthread_create(&threads[i], NULL, add_all, &adders[i]));
	}
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], NULL);
		EXPECT_EQ(0, adders[i].ret);
		made += adders[i].made;
	}
	EXPECT_EQ(rounds, made);
	for (i = 0; i < TABLES; i++) {
		for (cursor = 0, length = sizeof(key);
		     (ret = lsm_table_next(self->tables[i], &cursor, key, &length, NULL, 0, NULL)) > 0; nr++)
			length = sizeof(key);
		ASSERT_EQ(0, ret);
	}
	EXPECT_EQ(TOGETHER * rounds, nr);
}

/* ---- Processes that are killed -------------------------------------------------------------- */

#define ACCOUNTS	12u
#define AMOUNT		1000000

struct account {
	int64_t amount;
	uint32_t number;
	uint8_t rest[300];
};

#define SHORTEST	offsetof(struct account, rest)

/**
 * struct bank - what the processes share
 * @made: groups
 * @refused: groups, because another process was faster
 * @moved: accounts to the other table
 * @turns: of the process that is killed
 * @error: the first
 */
struct bank {
	_Atomic uint64_t made, refused, moved, turns;
	_Atomic int error;
};

/* An account that a client has found. */
struct place {
	uint32_t table;
	struct account account;
	struct lsm_item item;
	char key[32];
};

/* Return: 0; -ENOENT: it is just being moved. */
static int find(struct lsm_table **tables, uint32_t number, struct place *place)
{
	ssize_t ret = -ENOENT;

	sprintf(place->key, "account %u", number);
	for (place->table = 0; place->table < TABLES; place->table++) {
		ret = lsm_table_get(tables[place->table], place->key, strlen(place->key), &place->account,
				    sizeof(place->account), &place->item);
		if (ret != -ENOENT)
			break;
	}
	if (ret < 0)
		return (int)ret;
	return ret >= (ssize_t)SHORTEST && place->account.number == number ? 0 : -EUCLEAN;
}

/* Puts all accounts, and makes the token that each transfer replaces. */
static int open_accounts(struct lsm *lsm, struct lsm_table **tables, uint64_t *token)
{
	struct account account = { .amount = AMOUNT };
	char key[32];
	int ret;

	ret = lsm_alloc(lsm, "token", 5, LSM_TABLE(1), token, NULL);
	for (; !ret && account.number < ACCOUNTS; account.number++) {
		sprintf(key, "account %u", account.number);
		ret = lsm_table_put(tables[account.number % TABLES], key, strlen(key), &account, SHORTEST, LSM_NEW, NULL);
	}
	return ret;
}

static struct lsm_item_op place_op(struct lsm_table *table, const struct place *place, uint32_t op, uint32_t flags)
{
	struct lsm_item_op item = item_op(table, op, place->key, NULL, flags, place->item.version);

	if (op == LSM_ITEM_PUT) {
		item.value = &place->account;
		item.length = SHORTEST + place->item.version % sizeof(place->account.rest);
	}
	return item;
}

/* Moves an amount from one account to another, half of the times with the first one; a third is only looked at. */
static int transfer(struct lsm *lsm, struct lsm_table **tables, uint64_t token, struct bank *bank, uint64_t *random)
{
	uint32_t first = random_below(random, ACCOUNTS), nr = 0, i;
	int64_t amount = random_below(random, 1000);
	bool moves = random_chance(random, 50);
	struct lsm_item_op items[6];
	struct place places[3];
	struct lsmem_op op = lsm_op_replace(token, "token", 5, 0, 0);
	int ret;

	for (i = 0; i < 3; i++) {
		ret = find(tables, (first + 1 + i * 3) % ACCOUNTS, &places[i]);
		if (ret)
			return ret;
	}
	places[0].account.amount -= amount;
	places[1].account.amount += amount;
	if (moves) {
		items[nr++] = place_op(tables[places[0].table], &places[0], LSM_ITEM_REMOVE, LSM_EXPECT);
		items[nr++] = place_op(tables[!places[0].table], &places[0], LSM_ITEM_PUT, LSM_NEW);
	} else {
		items[nr++] = place_op(tables[places[0].table], &places[0], LSM_ITEM_PUT, LSM_EXPECT);
	}
	items[nr++] = place_op(tables[places[1].table], &places[1], LSM_ITEM_PUT, LSM_EXPECT);
	items[nr++] = place_op(tables[places[2].table], &places[2], LSM_ITEM_CHECK, LSM_EXPECT);
	items[nr++] = place_op(tables[!places[2].table], &places[2], LSM_ITEM_CHECK, LSM_NEW);
	ret = lsm_table_group(lsm, items, nr, &op, random_below(random, 2), 0);
	if (!ret && moves)
		bank->moved++;
	return ret;
}

static bool is_lost_race(int ret)
{
	return ret == -EILSEQ || ret == -ENOENT || ret == -EEXIST;
}

static void child(const char *path, struct bank *bank, uint64_t token, bool killed, uint64_t random)
{
	struct lsm_table *tables[TABLES];
	struct lsm *lsm;
	int none = 0, ret;

	if (lsm_open(path, 0, &lsm) || open_tables(lsm, tables))
		_exit(1);
	for (;;) {
		ret = transfer(lsm, tables, token, bank, &random);
		if (ret && !is_lost_race(ret)) {
			atomic_compare_exchange_strong(&bank->error, &none, ret);
			_exit(2);
		}
		(*(ret ? &bank->refused : &bank->made))++;
		bank->turns += killed;
	}
}

/*
 * The sum of all accounts, if none has changed since it was read: that is what a group of checks says.  Return: 0;
 * -EUCLEAN: an account has the value of another one; as lsm_table_group().
 */
static int audit(struct lsm *lsm, struct lsm_table **tables, int64_t *sum)
{
	static struct place places[ACCOUNTS];
	struct lsm_item_op items[2 * ACCOUNTS];
	uint32_t i;
	int ret = 0;

	*sum = 0;
	for (i = 0; i < ACCOUNTS && !ret; i++) {
		ret = find(tables, i, &places[i]);
		*sum += places[i].account.amount;
		items[2 * i] = place_op(tables[places[i].table % TABLES], &places[i], LSM_ITEM_CHECK, LSM_EXPECT);
		items[2 * i + 1] = place_op(tables[!places[i].table], &places[i], LSM_ITEM_CHECK, LSM_NEW);
	}
	return ret ?: lsm_table_group(lsm, items, 2 * ACCOUNTS, NULL, 0, 0);
}

/* The accounts of both tables, as the store has them. */
static int list(struct lsm_table **tables, int64_t *sum, uint32_t *nr)
{
	struct account account;
	size_t length;
	char key[32];
	uint64_t cursor;
	uint32_t i;
	int ret = 0;

	*sum = *nr = 0;
	for (i = 0; i < TABLES && !ret; i++)
		for (cursor = 0, length = sizeof(key); (ret = lsm_table_next(tables[i], &cursor, key, &length, &account,
									     sizeof(account), NULL)) > 0;
		     length = sizeof(key)) {
			*sum += account.amount;
			*nr += 1;
		}
	return ret;
}

/* Starts a client that makes groups, and kills it after @turns of its turns.  Returns whether it was killed. */
static bool killed(const char *path, struct bank *bank, uint64_t token, uint64_t seed, uint64_t turns)
{
	uint64_t end = bank->turns + turns;
	pid_t pid = fork(), ended = 0;
	int status;

	if (!pid)
		child(path, bank, token, true, seed);
	if (pid < 0)
		return false;
	while (bank->turns < end && !(ended = waitpid(pid, &status, WNOHANG)))
		sched_yield();
	if (!ended) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
	}
	return WIFSIGNALED(status);
}

/*
 * A client dies between the change of its group in the store and that in the index: each key is found where the group
 * has put it, without another client that changes one.  One that can only read cannot say that a key is not there.
 */
TEST_F_TIMEOUT(keys, found_after_death, 300)
{
	struct bank *bank = mmap(NULL, sizeof(*bank), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	enum { ROUNDS_LEAST = 20, ROUNDS_MOST = 5000 };
	uint32_t rounds = (uint32_t)test_scaled(150), round, i;
	uint64_t random = test_seed, token;
	struct lsm *lsm = self->store.lsm, *reader;
	struct lsm_table *read_only[TABLES];
	int64_t sum;
	int ret = 0;

	ASSERT_TRUE(bank != MAP_FAILED);
	ASSERT_EQ(0, open_accounts(lsm, self->tables, &token));
	ASSERT_EQ(0, lsm_open(self->store.path, LSM_RDONLY, &reader));
	for (i = 0; i < TABLES; i++)
		ASSERT_EQ(0, lsm_table_open(reader, FIRST_TABLE + i, LSM_RDONLY, &read_only[i]));
	/* Until one was killed just there. */
	for (round = 0; round < ROUNDS_LEAST || round < rounds || (!ret && round < ROUNDS_MOST); round++) {
		ASSERT_TRUE(killed(self->store.path, bank, token, test_seed + round + 1,
				   1 + random_below(&random, 20)));
		ASSERT_EQ(0, bank->error);
		/* It waits ten seconds: once is enough. */
		for (i = 0; i < ACCOUNTS && !ret; i++) {
			struct place place;

			ret = find(read_only, i, &place);
			ASSERT_TRUE(!ret || ret == -ETIMEDOUT);
		}
		for (i = 0; i < ACCOUNTS; i++) {
			struct place place;

			ASSERT_EQ(0, find(self->tables, i, &place)) {
				TH_LOG("account %u after %u kills", i, round + 1);
			}
		}
		ASSERT_EQ(0, audit(lsm, self->tables, &sum));
		ASSERT_EQ((int64_t)ACCOUNTS * AMOUNT, sum);
	}
	TH_LOG("%u kills", round);
	EXPECT_EQ(-ETIMEDOUT, ret);
	for (i = 0; i < TABLES; i++)
		lsm_table_close(read_only[i]);
	lsm_close(reader);
	munmap(bank, sizeof(*bank));
}

TEST_F_TIMEOUT(keys, killed, 300)
{
	struct bank *bank = mmap(NULL, sizeof(*bank), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	uint32_t rounds = (uint32_t)test_scaled(60), round, audits = 0, nr, i;
	uint64_t random = test_seed, token, end;
	struct lsm *lsm = self->store.lsm;
	struct lsm_table_stat stats[TABLES];
	pid_t steady;
	int64_t sum;
	int status, ret;

	ASSERT_TRUE(bank != MAP_FAILED);
	ASSERT_EQ(0, open_accounts(lsm, self->tables, &token));
	steady = fork();
	if (!steady)
		child(self->store.path, bank, token, false, test_seed);
	ASSERT_GT(steady, 0);
	for (round = 0; round < (rounds < 5 ? 5 : rounds); round++) {
		ASSERT_TRUE(killed(self->store.path, bank, token, test_seed + round + 1,
				   1 + random_below(&random, 500)));
		/* Until no other client is faster, for a while. */
		end = now_ms() + 100;
		do {
			ret = audit(lsm, self->tables, &sum);
			ASSERT_TRUE(!ret || is_lost_race(ret)) {
				TH_LOG("audit: %d", ret);
			}
		} while (ret && now_ms() < end);
		if (!ret)
			ASSERT_EQ((int64_t)ACCOUNTS * AMOUNT, sum);
		audits += !ret;
	}
	kill(steady, SIGKILL);
	waitpid(steady, &status, 0);
	EXPECT_TRUE(WIFSIGNALED(status));
	EXPECT_EQ(0, bank->error);
	ASSERT_EQ(0, audit(lsm, self->tables, &sum));
	EXPECT_EQ((int64_t)ACCOUNTS * AMOUNT, sum);
	TH_LOG("%llu groups, %llu of them moved an account, %llu refused, %u of %u audits",
	       (unsigned long long)bank->made, (unsigned long long)bank->moved, (unsigned long long)bank->refused, audits,
	       round);
	EXPECT_LT(0, audits);
	EXPECT_LT(0, bank->moved);
	ASSERT_EQ(0, list(self->tables, &sum, &nr));
	EXPECT_EQ((int64_t)ACCOUNTS * AMOUNT, sum);
	EXPECT_EQ(ACCOUNTS, nr);
	/* The index made anew from the objects. */
	for (i = 0; i < TABLES; i++) {
		lsm_table_close(self->tables[i]);
		ASSERT_EQ(0, store_forget_index(&self->store, FIRST_TABLE + i));
	}
	ASSERT_EQ(0, open_tables(lsm, self->tables));
	ASSERT_EQ(0, audit(lsm, self->tables, &sum));
	EXPECT_EQ((int64_t)ACCOUNTS * AMOUNT, sum);
	for (i = 0; i < TABLES; i++)
		ASSERT_EQ(0, lsm_table_stat(self->tables[i], &stats[i]));
	EXPECT_EQ(ACCOUNTS, stats[0].items + stats[1].items);
	munmap(bank, sizeof(*bank));
}

TEST_HARNESS_MAIN
