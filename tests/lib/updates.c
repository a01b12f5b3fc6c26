// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem: changes of parts of objects, objects from pieces, names of stores, words for errors.
 *
 * The kernel is a table of objects with versions.  Before it replaces one, it can let another client change it: what is
 * lost or done twice then shows in the bytes.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fake.h"
#include "../common/tap.h"

#define OBJECT_MAX	LSMEM_OBJECT_MAX
#define OBJECTS		4u
#define THREADS		4u
#define ROUNDS		2000u

/**
 * struct kernel - objects
 * @lock: of all
 * @clock: the last version
 * @objects: index 0 is not used
 * @rivals: so many replaces come too late, because another client changes the object
 * @rival: changes it, with the lock held
 * @replaces: calls
 * @late: a replace is made, and returns this
 */
struct kernel {
	pthread_mutex_t lock;
	uint64_t clock;
	struct object {
		uint64_t version;
		uint32_t length;
		uint8_t *bytes;
	} objects[OBJECTS];
	unsigned int rivals;
	void (*rival)(struct kernel *kernel, struct object *object);
	unsigned int replaces;
	int late;
};

static struct kernel kernel = { .lock = PTHREAD_MUTEX_INITIALIZER, .clock = 100 };

static void set(struct object *object, const void *bytes, uint32_t length)
{
	uint8_t *copy = malloc(length);

	if (!copy)
		abort();
	memcpy(copy, bytes, length);
	free(object->bytes);
	*object = (struct object){ ++kernel.clock, length, copy };
}

static int find(uint64_t handle, struct object **object)
{
	if (!handle || handle >= OBJECTS)
		return -ENOENT;
	*object = &kernel.objects[handle];
	return (*object)->bytes ? 0 : -ESTALE;
}

static int locked_call(unsigned long request, struct lsmem_op *op)
{
	struct object *object;
	int ret;

	if (request == LSMEM_IOC_ALLOC) {
		op->handle = 1;
		set(&kernel.objects[1], (void *)(uintptr_t)op->data, op->length);
		op->version = kernel.clock;
		return 0;
	}
	ret = find(op->handle, &object);
	if (ret)
		return ret;
	if (request == LSMEM_IOC_READ) {
		if (op->offset > object->length)
			return -EINVAL;
		if (op->length > object->length - op->offset)
			op->length = object->length - op->offset;
		memcpy((void *)(uintptr_t)op->data, object->bytes + op->offset, op->length);
		op->version = object->version;
		op->object_length = object->length;
		return 0;
	}
	kernel.replaces++;
	if (kernel.rivals) {
		kernel.rivals--;
		kernel.rival(&kernel, object);
		if (!object->bytes)
			return -ESTALE;
	}
	if (op->flags & ~(LSM_EXPECT | LSM_DURABLE) ||
	    (request == LSMEM_IOC_REPLACE && (!op->length || op->length > OBJECT_MAX)))
		return -EINVAL;
	if (op->flags & LSM_EXPECT && op->version != object->version) {
		op->version = object->version;
		return -EILSEQ;
	}
	if (request == LSMEM_IOC_FREE) {
		free(object->bytes);
		object->bytes = NULL;
		return 0;
	}
	set(object, (void *)(uintptr_t)op->data, op->length);
	op->version = object->version;
	return op->flags & LSM_DURABLE ? kernel.late : 0;
}

static int call(struct lsm *lsm, unsigned long request, void *argument)
{
	int ret;

	(void)lsm;
	pthread_mutex_lock(&kernel.lock);
	ret = locked_call(request, argument);
	pthread_mutex_unlock(&kernel.lock);
	return ret;
}

/* Has object 1 @length bytes: "text", and @rest up to the end? */
static bool has(const char *text, size_t length, uint8_t rest)
{
	const struct object *object = &kernel.objects[1];
	size_t i = strlen(text);

	CHECK(object->bytes && object->length == length);
	CHECK(!memcmp(object->bytes, text, i));
	for (; i < length; i++)
		CHECK(object->bytes[i] == rest);
	return true;
}

static void put(const char *text)
{
	set(&kernel.objects[1], text, (uint32_t)strlen(text));
}

/* ---- Bytes ------------------------------------------------------------------ */

static void test_write(struct lsm *lsm)
{
	uint8_t *big = calloc(1, OBJECT_MAX);
	uint64_t version = 0;

	put("abcdef");
	tap_is(lsm_write(lsm, 1, "XY", 2, 2, 0, &version), 0, "write: inside");
	tap_ok(has("abXYef", 6, 0) && version == kernel.clock, "write: the bytes, and the version");
	tap_is(lsm_write(lsm, 1, "123", 3, 5, 0, NULL), 0, "write: across the end");
	tap_ok(has("abXYe123", 8, 0), "write: it is longer");
	tap_is(lsm_write(lsm, 1, "\0", 1, 9999, 0, NULL), 0, "write: behind the end");
	tap_ok(has("abXYe123", 10000, 0), "write: zeroes in between, in more memory than the stack has");
	tap_is(lsm_write(lsm, 1, big, 1, OBJECT_MAX - 1, 0, NULL), 0, "write: the last byte there can be");
	tap_ok(has("abXYe123", OBJECT_MAX, 0), "write: the largest object");
	tap_is(lsm_write(lsm, 1, big, 2, OBJECT_MAX - 1, 0, NULL), -EFBIG, "write: beyond");
	tap_is(lsm_write(lsm, 1, big, 1, ~0u, 0, NULL), -EFBIG, "write: far beyond");
	tap_is(lsm_write(lsm, 1, big, SIZE_MAX, 1, 0, NULL), -EFBIG, "write: too long");
	tap_is(lsm_write(lsm, 1, big, 0, 0, 0, NULL), -EINVAL, "write: nothing");
	tap_is(lsm_write(lsm, 2, "x", 1, 0, 0, NULL), -ESTALE, "write: the object was freed");
	tap_is(lsm_write(lsm, 1, "x", 1, 0, LSM_ATOMIC, NULL), -EINVAL, "write: another flag");
	tap_is(lsm_write(lsm, 1, "Z", 1, OBJECT_MAX / 2, 0, NULL), 0, "write: inside the largest");
	tap_ok(kernel.objects[1].length == OBJECT_MAX && kernel.objects[1].bytes[OBJECT_MAX / 2] == 'Z',
	       "write: it is there");
	free(big);
}

static void test_append(struct lsm *lsm)
{
	uint64_t version;
	uint32_t at = 77;

	put("ab");
	tap_is(lsm_append(lsm, 1, "cd", 2, 0, &at, &version), 0, "append");
	tap_ok(has("abcd", 4, 0) && at == 2 && version == kernel.clock, "append: where, and the version");
	tap_is(lsm_append(lsm, 1, "", 0, 0, &at, NULL), -EINVAL, "append: nothing");
	tap_is(lsm_truncate(lsm, 1, OBJECT_MAX - 1, 0, NULL), 0, "truncate: longer");
	tap_ok(has("abcd", OBJECT_MAX - 1, 0), "truncate: by zeroes");
	tap_is(lsm_append(lsm, 1, "xy", 2, 0, &at, NULL), -EFBIG, "append: beyond the largest");
	tap_is(at, 2, "append: refused, nothing written");
	tap_is(lsm_append(lsm, 1, "\0", 1, 0, &at, NULL), 0, "append: up to the largest");
	tap_ok(has("abcd", OBJECT_MAX, 0) && at == OBJECT_MAX - 1, "append: it is there");
	tap_is(lsm_truncate(lsm, 1, 3, 0, &version), 0, "truncate: shorter");
	tap_ok(has("abc", 3, 0) && version == kernel.clock, "truncate: it is");
	tap_is(lsm_truncate(lsm, 1, 0, 0, NULL), -EINVAL, "truncate: to nothing");
	tap_is(lsm_truncate(lsm, 1, OBJECT_MAX + 1, 0, NULL), -EFBIG, "truncate: beyond the largest");
}

static void test_compare_exchange(struct lsm *lsm)
{
	uint64_t version = 0;
	char expected[3] = "cd";

	put("abcdef");
	tap_is(lsm_compare_exchange(lsm, 1, 2, expected, "CD", 2, 0, &version), 1, "compare-exchange");
	tap_ok(has("abCDef", 6, 0) && version == kernel.clock, "compare-exchange: done");
	kernel.replaces = 0;
	version = 0;
	tap_is(lsm_compare_exchange(lsm, 1, 2, expected, "xy", 2, 0, &version), 0, "compare-exchange: others are there");
	tap_ok(has("abCDef", 6, 0) && !kernel.replaces, "compare-exchange: nothing is written");
	tap_ok(!memcmp(expected, "CD", 2) && version == kernel.clock, "compare-exchange: which, of which version");
	tap_is(lsm_compare_exchange(lsm, 1, 5, expected, "xy", 2, 0, NULL), -EINVAL, "compare-exchange: too short");
	tap_is(lsm_compare_exchange(lsm, 1, 7, expected, "xy", 2, 0, NULL), -EINVAL, "compare-exchange: behind");
	tap_is(lsm_compare_exchange(lsm, 1, 0, expected, "xy", 0, 0, NULL), -EINVAL, "compare-exchange: nothing");
}

/* ---- Numbers ---------------------------------------------------------------- */

/* Adds @amount to the number @start, at an offset of 3.  The bytes beside it must stay. */
static int add(struct lsm *lsm, uint32_t type, union lsm_value start, union lsm_value *value)
{
	uint8_t bytes[3 + 8 + 1];
	__le64 wide = __cpu_to_le64(start.u64);

	memset(bytes, 0xa5, sizeof(bytes));
	memcpy(bytes + 3, &wide, type == LSM_U32 ? 4 : 8);
	set(&kernel.objects[1], bytes, sizeof(bytes));
	return lsm_add(lsm, 1, type, 3, value, 0, NULL);
}

static bool added(uint32_t type, union lsm_value wanted)
{
	uint8_t bytes[3 + 8 + 1];
	__le64 wide = __cpu_to_le64(wanted.u64);

	memset(bytes, 0xa5, sizeof(bytes));
	memcpy(bytes + 3, &wide, type == LSM_U32 ? 4 : 8);
	return kernel.objects[1].length == sizeof(bytes) && !memcmp(kernel.objects[1].bytes, bytes, sizeof(bytes));
}

#define VALUE(member, number)	((union lsm_value){ .member = (number) })

#define ADD(type, member, start, by, amount, sum) do {						\
	union lsm_value value = VALUE(by, amount);						\
												\
	tap_is(add(lsm, type, VALUE(member, start), &value), 0, "add: " #start " + " #amount);	\
	tap_ok(value.member == (sum) && added(type, VALUE(member, sum)), "add: is " #sum);		\
} while (0)

#define BEYOND(type, member, start, amount) do {							\
	union lsm_value value = VALUE(i64, amount);						\
												\
	tap_is(add(lsm, type, VALUE(member, start), &value), -EOVERFLOW, "add: " #start " + " #amount); \
	tap_ok(value.i64 == (amount) && added(type, VALUE(member, start)), "add: nothing changes");	\
} while (0)

static void test_add(struct lsm *lsm)
{
	union lsm_value value = { .i64 = 1 };

	ADD(LSM_U32, u64, 5, i64, -5, 0);
	ADD(LSM_U32, u64, 4294967290u, i64, 5, 4294967295u);
	BEYOND(LSM_U32, u64, 4294967290u, 6);
	BEYOND(LSM_U32, u64, 5, -6);
	ADD(LSM_U64, u64, UINT64_MAX - 1, i64, 1, UINT64_MAX);
	BEYOND(LSM_U64, u64, UINT64_MAX - 1, 2);
	BEYOND(LSM_U64, u64, 0, -1);
	ADD(LSM_I64, i64, -7, i64, 5, -2);
	ADD(LSM_I64, i64, INT64_MIN + 1, i64, -1, INT64_MIN);
	BEYOND(LSM_I64, i64, INT64_MIN + 1, -2);
	BEYOND(LSM_I64, i64, INT64_MAX, 1);
	ADD(LSM_F64, f64, 1.5, f64, -0.25, 1.25);
	put("12345678");
	tap_is(lsm_add(lsm, 1, LSM_U64, 1, &value, 0, NULL), -EINVAL, "add: the object is too short");
	tap_is(lsm_add(lsm, 1, LSM_U32, ~0u, &value, 0, NULL), -EINVAL, "add: far too short");
	tap_is(lsm_add(lsm, 1, 0, 0, &value, 0, NULL), -EINVAL, "add: no type");
	tap_is(lsm_add(lsm, 1, LSM_F64 + 1, 0, &value, 0, NULL), -EINVAL, "add: another type");
}

/* ---- Rules ------------------------------------------------------------------ */

#define RULE(flag, given, wanted) do {								\
	put("abc");										\
	version = kernel.clock + (given);								\
	tap_is(lsm_write(lsm, 1, "x", 1, 0, flag, &version), wanted, "write: " #flag ", " #given);		\
	tap_ok(has((wanted) ? "abc" : "xbc", 3, 0) && version == kernel.clock, "write: the present version");	\
	put("abc");										\
	version = kernel.clock + (given);								\
	tap_is(lsm_replace(lsm, 1, "xyz", 3, flag, &version), wanted, "replace: " #flag ", " #given);		\
	tap_ok(has((wanted) ? "abc" : "xyz", 3, 0) && version == kernel.clock, "replace: the present version");	\
	put("abc");										\
	version = kernel.clock + (given);								\
	tap_is(lsm_free(lsm, 1, flag, &version), wanted, "free: " #flag ", " #given);			\
	tap_is(!kernel.objects[1].bytes, !(wanted), "free: is it?");					\
} while (0)

static void test_rules(struct lsm *lsm)
{
	uint64_t version;

	RULE(LSM_EXPECT, 0, 0);
	RULE(LSM_EXPECT, 1, -EILSEQ);
	RULE(LSM_OLDER, 1, 0);
	RULE(LSM_OLDER, 0, -EILSEQ);
	RULE(LSM_NEWER, -1, 0);
	RULE(LSM_NEWER, 0, -EILSEQ);
	put("abc");
	version = kernel.clock;
	tap_is(lsm_write(lsm, 1, "x", 1, 0, LSM_OLDER, NULL), -EINVAL, "a rule without a version");
	tap_is(lsm_replace(lsm, 1, "x", 1, LSM_OLDER, NULL), -EINVAL, "a rule without a version: replace");
	tap_is(lsm_free(lsm, 1, LSM_NEWER, NULL), -EINVAL, "a rule without a version: free");
	tap_is(lsm_write(lsm, 1, "x", 1, 0, LSM_OLDER | LSM_EXPECT, &version), -EINVAL, "two rules");
	tap_is(lsm_replace(lsm, 1, "x", 1, LSM_OLDER | LSM_NEWER, &version), -EINVAL, "two rules: replace");
	tap_ok(has("abc", 3, 0), "nothing has changed");
}

/* ---- Races ------------------------------------------------------------------ */

static void rival_appends(struct kernel *all, struct object *object)
{
	uint8_t bytes[8192];

	(void)all;
	memcpy(bytes, object->bytes, object->length);
	bytes[object->length] = 'r';
	set(object, bytes, object->length + 1);
}

static void rival_frees(struct kernel *all, struct object *object)
{
	(void)all;
	free(object->bytes);
	object->bytes = NULL;
}

static int refuse_second(void *context, const struct lsm_object *object, void *data, size_t room, size_t *length)
{
	int *calls = context;

	(void)object;
	(void)data;
	(void)room;
	(void)length;
	return ++*calls == 2 ? -EXDEV : 0;
}

static void test_races(struct lsm *lsm)
{
	uint8_t bytes[4094];
	uint64_t version;
	int calls = 0;
	uint32_t at;

	put("ab");
	kernel.rival = rival_appends;
	kernel.rivals = 5;
	kernel.replaces = 0;
	tap_is(lsm_append(lsm, 1, "cd", 2, 0, &at, &version), 0, "races: five are lost, the sixth is not");
	tap_ok(has("abrrrrrcd", 9, 0) && at == 7 && version == kernel.clock, "races: nothing is lost or done twice");
	tap_is(kernel.replaces, 6, "races: rounds");

	memset(bytes, 'b', sizeof(bytes));
	set(&kernel.objects[1], bytes, sizeof(bytes));
	kernel.rivals = 3;
	tap_is(lsm_append(lsm, 1, "r", 1, 0, NULL, NULL), 0, "races: it grows beyond the stack meanwhile");
	tap_ok(kernel.objects[1].length == sizeof(bytes) + 4 && !memcmp(kernel.objects[1].bytes, bytes, sizeof(bytes)) &&
	       !memcmp(kernel.objects[1].bytes + sizeof(bytes), "rrrr", 4), "races: all bytes are there");

	put("ab");
	version = kernel.clock;
	kernel.rivals = 1;
	tap_is(lsm_write(lsm, 1, "x", 1, 0, LSM_EXPECT, &version), -EILSEQ, "races: what was expected is over");
	tap_ok(has("abr", 3, 0) && version == kernel.clock, "races: only the other change is made");
	version = kernel.clock + 1;
	kernel.rivals = 1;
	tap_is(lsm_replace(lsm, 1, "x", 1, LSM_OLDER, &version), -EILSEQ, "races: another was newer");
	tap_ok(has("abrr", 4, 0) && version == kernel.clock, "races: it is kept");
	version = kernel.clock + 2;
	kernel.rivals = 1;
	tap_is(lsm_replace(lsm, 1, "x", 1, LSM_OLDER, &version), 0, "races: another was older, too");
	tap_ok(has("x", 1, 0), "races: it is replaced");
	version = 0;
	kernel.rivals = 1;
	tap_is(lsm_free(lsm, 1, LSM_NEWER, &version), 0, "races: free");
	tap_ok(!kernel.objects[1].bytes, "races: it is");

	put("ab");
	kernel.rivals = 1;
	tap_is(lsm_update(lsm, 1, 0, refuse_second, &calls, 0, &version), -EXDEV, "races: a function that gives up");
	tap_ok(has("abr", 3, 0) && calls == 2 && version == kernel.clock, "races: nothing more has changed");
	kernel.rival = rival_frees;
	kernel.rivals = 1;
	tap_is(lsm_append(lsm, 1, "x", 1, 0, NULL, NULL), -ESTALE, "races: it is freed meanwhile");

	put("ab");
	kernel.late = -ETIMEDOUT;
	at = 77;
	tap_is(lsm_append(lsm, 1, "cd", 2, LSM_DURABLE, &at, &version), -ETIMEDOUT, "a durable one that is late");
	tap_ok(has("abcd", 4, 0) && at == 2 && version == kernel.clock, "it is made once, and told");
	kernel.late = 0;
}

static int set_length(void *context, const struct lsm_object *object, void *data, size_t room, size_t *length)
{
	size_t *wanted = context;

	(void)data;
	(void)object;
	*length = *wanted == SIZE_MAX ? room + 1 : *wanted;
	return 0;
}

static void test_lengths(struct lsm *lsm)
{
	size_t length = SIZE_MAX;

	put("abc");
	tap_is(lsm_update(lsm, 1, 2, set_length, &length, 0, NULL), -EINVAL, "update: a length beyond the room");
	length = 0;
	tap_is(lsm_update(lsm, 1, 2, set_length, &length, 0, NULL), -EINVAL, "update: no length");
	tap_ok(has("abc", 3, 0), "update: nothing has changed");
	length = 2;
	tap_is(lsm_update(lsm, 1, SIZE_MAX, set_length, &length, 0, NULL), 0, "update: shorter, with much room");
	tap_ok(has("ab", 2, 0), "update: it is");
}

static void *adder(void *argument)
{
	union lsm_value value;
	unsigned int i;

	for (i = 0; i < ROUNDS; i++) {
		value.i64 = 1;
		if (lsm_add(argument, 1, LSM_U64, 0, &value, 0, NULL))
			return argument;
	}
	return NULL;
}

static void test_threads(struct lsm *lsm)
{
	pthread_t threads[THREADS];
	bool right = true;
	uint64_t sum = 0;
	unsigned int i;
	void *failed;

	set(&kernel.objects[1], &sum, sizeof(sum));
	for (i = 0; i < THREADS; i++)
		right = !pthread_create(&threads[i], NULL, adder, lsm) && right;
	for (i = 0; i < THREADS; i++) {
		pthread_join(threads[i], &failed);
		right = right && !failed;
	}
	tap_ok(right, "threads add to one number");
	lsm_read(lsm, 1, &sum, sizeof(sum), 0, NULL);
	tap_is(sum, THREADS * ROUNDS, "each of them counts");
}

/* ---- Pieces ----------------------------------------------------------------- */

static void test_pieces(struct lsm *lsm)
{
	static uint8_t big[OBJECT_MAX];
	const struct iovec three[] = { { "ab", 2 }, { NULL, 0 }, { "cde", 3 } };
	struct iovec two[] = { { "x", 1 }, { big, 5000 } };
	uint64_t handle = 0, version;

	tap_is(lsm_allocv(lsm, three, 3, 0, &handle, &version), 0, "pieces: alloc");
	tap_ok(has("abcde", 5, 0) && handle == 1 && version == kernel.clock, "pieces: one behind the other");
	tap_is(lsm_replacev(lsm, 1, two, 2, LSM_EXPECT, &version), 0, "pieces: replace, more than the stack has");
	tap_ok(has("x", 5001, 0) && version == kernel.clock, "pieces: all of them");
	two[1].iov_len = OBJECT_MAX - 1;
	tap_is(lsm_replacev(lsm, 1, two, 2, 0, NULL), 0, "pieces: the largest object");
	tap_ok(has("x", OBJECT_MAX, 0), "pieces: all of it");
	two[1].iov_len = OBJECT_MAX;
	tap_is(lsm_replacev(lsm, 1, two, 2, 0, NULL), -EINVAL, "pieces: too long together");
	two[1].iov_len = SIZE_MAX;
	tap_is(lsm_allocv(lsm, two, 2, 0, &handle, NULL), -EINVAL, "pieces: a length that wraps around");
	tap_is(lsm_replacev(lsm, 1, three, 1, 0, NULL), 0, "pieces: one");
	tap_ok(has("ab", 2, 0), "pieces: as it is");
	tap_is(lsm_replacev(lsm, 1, three, 0, 0, NULL), -EINVAL, "pieces: none");
}

/* ---- Names ------------------------------------------------------------------ */

static void make_file(const char *directory, const char *store, const char *name, const char *text)
{
	char path[PATH_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", directory, store);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/%s/%s", directory, store, name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	if (fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		abort();
	close(fd);
}

static void test_names(void)
{
	char directory[] = "/tmp/lsmem-names-XXXXXX", path[64], command[128];

	if (!mkdtemp(directory))
		abort();
	make_file(directory, "lsmem", "given_name", "\n");
	make_file(directory, "lsmem", "uuid", "0123-45\n");
	make_file(directory, "lsmem7", "given_name", "orders\n");
	make_file(directory, "lsmem7", "uuid", "89ab-cd\n");
	make_file(directory, "lsmemb0", "given_name", "orders2\n");
#define FOUND(store, wanted) do {								\
	memset(path, 0, sizeof(path));								\
	tap_is(lsm_path_in(directory, store, path, sizeof(path)), 0, "path: %s", store ? store : "none");	\
	tap_ok(!strcmp(path, wanted), "path: " wanted ": %s", path);					\
} while (0)
	FOUND("name:orders", "/dev/lsmem7");
	FOUND("name:orders2", "/dev/lsmemb0");
	FOUND("uuid:0123-45", "/dev/lsmem");
	FOUND("uuid:89ab-cd", "/dev/lsmem7");
	FOUND("/somewhere/else", "/somewhere/else");
	FOUND((const char *)NULL, "/dev/lsmem");
	tap_is(lsm_path_in(directory, "name:order", path, sizeof(path)), -ENOENT, "path: no such name");
	tap_is(lsm_path_in(directory, "name:", path, sizeof(path)), -EINVAL, "path: an empty name");
	tap_is(lsm_path_in(directory, "uuid:", path, sizeof(path)), -EINVAL, "path: an empty uuid");
	tap_is(lsm_path_in(directory, "uuid:orders", path, sizeof(path)), -ENOENT, "path: a name is no uuid");
	tap_is(lsm_path_in(directory, "name:orders", path, 11), -ENAMETOOLONG, "path: no room for a node");
	tap_is(lsm_path_in(directory, "abc", path, 3), -ENAMETOOLONG, "path: no room for a copy");
	tap_is(lsm_path_in("/nonexistent", "name:orders", path, sizeof(path)), -ENOENT, "path: no module");
	snprintf(command, sizeof(command), "rm -r %s", directory);
	tap_is(system(command), 0, "path: cleaned up");
}

static int64_t ms_since(const struct timespec *start)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (now.tv_sec - start->tv_sec) * 1000 + (now.tv_nsec - start->tv_nsec) / 1000000;
}

static void test_wait(void)
{
	struct timespec start;

	tap_is(lsm_wait_active("/dev/null", 0), -ENOTTY, "wait: not a store");
	tap_is(lsm_wait_active("name:", 0), -EINVAL, "wait: no name");
	tap_is(lsm_wait_active("/nonexistent/lsmem", 0), -ETIMEDOUT, "wait: not there, without waiting");
	clock_gettime(CLOCK_MONOTONIC, &start);
	tap_is(lsm_wait_active("name:nonexistent", 100), -ETIMEDOUT, "wait: not there");
	tap_ok(ms_since(&start) >= 99, "wait: for as long as it was told");
}

static void test_words(void)
{
	static const int own[] = {
		E2BIG, EAGAIN, EBADF, EBADMSG, EBUSY, ECANCELED, ECHILD, EDOM, EEXIST, EFBIG, EILSEQ, EINVAL, EIO, EMFILE,
		ENFILE, ENODEV, ENOENT, ENOSPC, ENOTTY, EOPNOTSUPP, EOVERFLOW, EPROTO, ESTALE, ETIMEDOUT, EUCLEAN, EUSERS,
	};
	size_t i, right = 0;

	for (i = 0; i < sizeof(own) / sizeof(*own); i++)
		right += !!strcmp(lsm_strerror(-own[i]), strerror(own[i]));
	tap_is(right, sizeof(own) / sizeof(*own), "words: own ones for what means more here");
	tap_ok(lsm_strerror(-EILSEQ) == lsm_strerror(EILSEQ) && strstr(lsm_strerror(EILSEQ), "version"),
	       "words: of both signs");
	tap_ok(strstr(lsm_strerror(-ESTALE), "freed") && strcmp(lsm_strerror(-ESTALE), strerror(ESTALE)),
	       "words: those of the store");
	tap_ok(!strcmp(lsm_strerror(-ENOMEM), strerror(ENOMEM)), "words: those of the system");
	tap_ok(!strcmp(lsm_strerror(0), "no error") && lsm_strerror(99999) && lsm_strerror(INT_MIN),
	       "words: for all numbers");
}

int main(void)
{
	struct fake *fake = fake_new();
	unsigned int i;

	/* The windows of the stand-in show no objects, so all calls come to the table. */
	fake->lsm->call = call;
	test_write(fake->lsm);
	test_append(fake->lsm);
	test_compare_exchange(fake->lsm);
	test_add(fake->lsm);
	test_rules(fake->lsm);
	test_races(fake->lsm);
	test_lengths(fake->lsm);
	test_threads(fake->lsm);
	test_pieces(fake->lsm);
	for (i = 0; i < OBJECTS; i++)
		free(kernel.objects[i].bytes);
	fake_delete(fake);
	test_names();
	test_wait();
	test_words();
	return tap_end();
}
