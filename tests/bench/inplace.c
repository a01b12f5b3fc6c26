// SPDX-License-Identifier: GPL-2.0
/*
 * Coded blocks that are updated in place: what a coded store is compared with.
 *
 *	-p K+M:DRIVE,DRIVE,..	K data and M parity drives
 *	-s BYTES -n OBJECTS	objects of so many bytes, a multiple of 512, and how many
 *	-b BATCH -w PER_MILLE	operations of a group commit, and how many of them are updates
 *
 * Object I has a fixed place: row I / K, drive I mod K; the parities of a row are at the same place of the other drives.
 * All objects are in memory, too, so reads cost no I/O, and an update need not read the old data.  A group commit changes
 * the objects in memory and keeps their differences; the M parities of each row in question are read, and the objects
 * and the parities are written, all with O_DIRECT and all in flight at once; then each drive that was written is
 * flushed.  So several updates of an object, or of a row, in one group commit are one write.  Nothing protects a row
 * against a power cut between the writes of its drives: a store would need a journal beside this, which is not counted.
 *
 * Orders: "updates" prints how many objects were updated so far, and the bytes of all requests; "check" compares all
 * rows on the drives with the objects in memory, and their parities.
 */
#include <errno.h>
#include <fcntl.h>
#include <isa-l.h>
#include <liburing.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

#define MOST_SHARDS	16u
#define ALIGN		4096u
#define SECTOR		512u
#define FILL_ROWS	64u	/* rows of one write of the setup */

static uint32_t k, m, size;
static uint64_t objects, rows, updates;
static int drives[MOST_SHARDS];
static uint8_t tables[MOST_SHARDS * MOST_SHARDS * 32];
static uint8_t *memory;		/* shard after shard, each with its part of all rows */
static uint8_t *source;
static struct io_uring ring;
static uint32_t in_flight;
static uint64_t counts[2];	/* bytes that were read and written */

/*
 * struct row - a row that a group commit changes
 * @changed: mask of its data shards
 * @parity: of the row, m after another
 */
struct row {
	uint64_t nr;
	uint32_t changed;
	uint8_t *parity;
};

static struct row *changed_rows;
static uint32_t nr_changed;
/* The differences of a group commit, one object for each update. */
static uint8_t *differences;
static struct update { uint32_t row, shard; } *taken;

static uint8_t *place(uint32_t shard, uint64_t row)
{
	return memory + (shard * rows + row) * size;
}

static void wait_all(void)
{
	struct io_uring_cqe *cqe;
	int ret;

	ret = io_uring_submit(&ring);
	while (ret >= 0 && in_flight) {
		ret = io_uring_wait_cqe(&ring, &cqe);
		if (ret < 0)
			break;
		if (cqe->res != (int)(cqe->user_data >> 1))
			fail("input or output", cqe->res < 0 ? -cqe->res : EIO);
		counts[cqe->user_data & 1] += (uint64_t)cqe->res;
		io_uring_cqe_seen(&ring, cqe);
		in_flight--;
	}
	if (ret < 0)
		fail("io_uring", -ret);
}

/* A request, which wait_all() waits for; it has to do all of its @bytes. */
static void request(bool write, uint32_t shard, uint8_t *at, uint32_t bytes, uint64_t offset)
{
	struct io_uring_sqe *sqe = io_uring_get_sqe(&ring);

	if (!sqe)
		fail("io_uring: no room", ENOSPC);
	if (!at)
		io_uring_prep_fsync(sqe, drives[shard], IORING_FSYNC_DATASYNC);
	else if (write)
		io_uring_prep_write(sqe, drives[shard], at, bytes, offset);
	else
		io_uring_prep_read(sqe, drives[shard], at, bytes, offset);
	sqe->user_data = (uint64_t)bytes << 1 | write;
	in_flight++;
}

static void open_drives(const char *path)
{
	char *names, *name, *rest = NULL;
	uint32_t nr = 0;
	int used = 0;

	if (!path || sscanf(path, "%u+%u:%n", &k, &m, &used) != 2 || !used || !k || !m || k + m > MOST_SHARDS)
		fail("-p is K+M:DRIVE,DRIVE,..", EINVAL);
	names = strdup(path + used);
	if (!names)
		fail("memory", ENOMEM);
	for (name = strtok_r(names, ",", &rest); name && nr < k + m; name = strtok_r(NULL, ",", &rest)) {
		drives[nr] = open(name, O_RDWR | O_DIRECT);
		if (drives[nr++] < 0)
			fail(name, errno);
	}
	if (nr != k + m || name)
		fail("-p has another number of drives", EINVAL);
	free(names);
}

static void fill(void)
{
	uint8_t *parity = get_memory((uint64_t)m * FILL_ROWS * size, ALIGN);
	uint8_t *from[MOST_SHARDS], *to[MOST_SHARDS];
	uint64_t row;
	uint32_t i;

	for (i = 0; i < m; i++)
		to[i] = parity + (uint64_t)i * FILL_ROWS * size;
	for (row = 0; row < rows; row += FILL_ROWS) {
		uint32_t nr = rows - row < FILL_ROWS ? (uint32_t)(rows - row) : FILL_ROWS;

		for (i = 0; i < k; i++)
			from[i] = place(i, row);
		ec_encode_data((int)(nr * size), (int)k, (int)m, tables, from, to);
		for (i = 0; i < k + m; i++)
			request(true, i, i < k ? from[i] : to[i - k], nr * size, row * size);
		wait_all();
	}
	free(parity);
}

static void inplace_setup(struct bench *bench)
{
	uint8_t matrix[MOST_SHARDS * MOST_SHARDS];
	uint64_t i, state = 1;
	int ret;

	size = bench->size;
	open_drives(bench->path);
	if (size % SECTOR || !bench->handles)
		fail("objects are whole sectors, and -n says how many", EINVAL);
	rows = (bench->handles + k - 1) / k;
	objects = rows * k;
	gf_gen_cauchy1_matrix(matrix, (int)(k + m), (int)k);
	ec_init_tables((int)k, (int)m, matrix + k * k, tables);
	memory = get_memory(objects * size, ALIGN);
	source = get_memory((uint64_t)size * BENCH_SOURCES, ALIGN);
	for (i = 0; i < (uint64_t)size * BENCH_SOURCES / sizeof(uint64_t); i++)
		((uint64_t *)source)[i] = random_next(&state);
	changed_rows = get_memory(sizeof(*changed_rows) * bench->batch, 64);
	for (i = 0; i < bench->batch; i++)
		changed_rows[i].parity = get_memory((uint64_t)m * size, ALIGN);
	differences = get_memory((uint64_t)size * bench->batch, ALIGN);
	taken = get_memory(sizeof(*taken) * bench->batch, 64);
	/* A group commit has at most so many reads, and so many writes, in flight. */
	ret = io_uring_queue_init(bench->batch * (1 + m) + k + m, &ring, 0);
	if (ret)
		fail("io_uring_queue_init", -ret);
	if (bench->zipf)
		zipf_setup_skewed(objects, bench->skew);
	fill();
}

/* Change an object in memory, and keep the difference. */
static void change(uint64_t object, const uint8_t *bytes, uint32_t nr)
{
	uint64_t row = object / k, *to = (uint64_t *)(differences + (uint64_t)nr * size);
	uint32_t shard = object % k, i;
	uint64_t *old = (uint64_t *)place(shard, row);

	for (i = 0; i < size / sizeof(*to); i++)
		to[i] = old[i] ^ ((const uint64_t *)bytes)[i];
	memcpy(old, bytes, size);
	for (i = 0; i < nr_changed && changed_rows[i].nr != row; i++)
		;
	if (i == nr_changed) {
		changed_rows[i].nr = row;
		changed_rows[i].changed = 0;
		nr_changed++;
	}
	changed_rows[i].changed |= 1u << shard;
	taken[nr] = (struct update){ .row = i, .shard = shard };
}

/* Parities are read, get the differences, and are written with the objects; then all is flushed. */
static void commit(uint32_t nr)
{
	uint32_t i, j, written = 0;
	uint8_t *to[MOST_SHARDS];

	for (i = 0; i < nr_changed; i++)
		for (j = 0; j < m; j++)
			request(false, k + j, changed_rows[i].parity + (uint64_t)j * size, size, changed_rows[i].nr * size);
	wait_all();
	for (i = 0; i < nr; i++) {
		for (j = 0; j < m; j++)
			to[j] = changed_rows[taken[i].row].parity + (uint64_t)j * size;
		ec_encode_data_update((int)size, (int)k, (int)m, (int)taken[i].shard, tables,
				      differences + (uint64_t)i * size, to);
	}
	for (i = 0; i < nr_changed; i++) {
		const struct row *row = &changed_rows[i];

		written |= row->changed | (((1u << m) - 1) << k);
		for (j = 0; j < k; j++)
			if (row->changed & (1u << j))
				request(true, j, place(j, row->nr), size, row->nr * size);
		for (j = 0; j < m; j++)
			request(true, k + j, row->parity + (uint64_t)j * size, size, row->nr * size);
	}
	wait_all();
	for (i = 0; i < k + m; i++)
		if (written & (1u << i))
			request(true, i, NULL, 0, 0);
	wait_all();
	nr_changed = 0;
	updates += nr;
}

static uint64_t inplace_work(struct worker *worker)
{
	const struct bench *bench = worker->bench;
	uint8_t *copy = get_memory(size, 64);
	uint64_t operations = 0;
	uint32_t i, nr;

	while (worker_goes_on(worker, operations)) {
		for (i = 0, nr = 0; i < bench->batch; i++) {
			uint64_t object = worker_any(worker, objects);

			if (random_below(&worker->state, 1000) < bench->writes) {
				change(object, source + (updates + nr) % BENCH_SOURCES * size, nr);
				nr++;
			} else {
				memcpy(copy, place(object % k, object / k), size);
				__asm__ volatile("" : : "r"(copy) : "memory");
			}
		}
		commit(nr);
		operations += bench->batch;
	}
	free(copy);
	return operations;
}

/* Are the parities on the drives those of the objects in memory, and the objects, too? */
static uint64_t wrong_rows(void)
{
	uint8_t *right = get_memory((uint64_t)m * size, ALIGN), *there = get_memory((uint64_t)(k + m) * size, ALIGN);
	uint8_t *from[MOST_SHARDS], *to[MOST_SHARDS];
	uint64_t row, wrong = 0;
	uint32_t i;

	for (row = 0; row < rows; row++) {
		bool same = true;

		for (i = 0; i < k + m; i++)
			request(false, i, there + (uint64_t)i * size, size, row * size);
		wait_all();
		for (i = 0; i < k; i++) {
			from[i] = place(i, row);
			same = same && !memcmp(from[i], there + (uint64_t)i * size, size);
		}
		for (i = 0; i < m; i++)
			to[i] = right + (uint64_t)i * size;
		ec_encode_data((int)size, (int)k, (int)m, tables, from, to);
		same = same && !memcmp(right, there + (uint64_t)k * size, (uint64_t)m * size);
		wrong += !same;
	}
	free(right);
	free(there);
	return wrong;
}

static bool inplace_order(struct bench *bench, const char *verb, const double *arguments, unsigned int nr)
{
	(void)bench;
	(void)arguments;
	if (nr)
		return false;
	if (!strcmp(verb, "updates"))
		printf("{\"updates\": %llu, \"bytes read\": %llu, \"bytes written\": %llu}\n", (unsigned long long)updates,
		       (unsigned long long)counts[0], (unsigned long long)counts[1]);
	else if (!strcmp(verb, "check"))
		printf("{\"rows\": %llu, \"wrong\": %llu}\n", (unsigned long long)rows, (unsigned long long)wrong_rows());
	else
		return false;
	return true;
}

static const struct mode inplace_modes[] = {
	{ "in-place", inplace_setup, inplace_work, inplace_order, false },
	{ 0 }
};

const struct mode *const bench_modes[] = { inplace_modes, NULL };
