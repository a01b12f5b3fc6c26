// SPDX-License-Identifier: GPL-2.0
/* lsmem.hpp: pointers in memory of the process, containers in a region against models, reopened. TAP. */
#include <cinttypes>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <lsmem.hpp>

extern "C" {
#include "store.h"
}
#include "../common/tap.h"

static uint64_t state;	/* of the random numbers */

using numbers = std::vector<uint32_t, lsmem::allocator<uint32_t>>;
using text = std::basic_string<char, std::char_traits<char>, lsmem::allocator<char>>;
using names = std::map<uint32_t, text, std::less<uint32_t>,
		       lsmem::allocator<std::pair<const uint32_t, text>>>;

/* A list of nodes that the program links itself. */
struct node {
	lsmem::ptr<node> next;
	uint64_t value;
};

struct everything {
	numbers all;
	names named;
	lsmem::ptr<node> first;

	explicit everything(lsmem::heap &heap)
		: all(lsmem::allocator<uint32_t>(heap)),
		  named(lsmem::allocator<std::pair<const uint32_t, text>>(heap)) {}
};

struct model {
	std::vector<uint32_t> all;
	std::map<uint32_t, std::string> named;
	std::vector<uint64_t> nodes;
};

static void test_ptr()
{
	struct zeroes { uint64_t words[2]; } zero = { };
	lsmem::ptr<int> none;
	int values[4] = { 0, 1, 2, 3 };
	lsmem::ptr<int> p = values, q = p + 3;
	lsmem::ptr<const int> constant = p;
	lsmem::ptr<void> any = p;
	lsmem::ptr<int> back(any);
	struct { lsmem::ptr<void> self; } own;
	std::vector<lsmem::ptr<int>> many;

	std::memcpy(static_cast<void *>(&none), &zero, sizeof(none));
	tap_ok(!none && none == nullptr && none.get() == nullptr, "zeroes are a null pointer");
	own.self = &own;
	tap_ok(own.self && own.self.get() == &own, "a pointer to itself is not null");
	tap_ok(*q == 3 && q - p == 3 && q[-1] == 2 && p < q && p != q && *--q == 2, "arithmetic");
	tap_ok(constant == p && any == p && back == p, "conversions");
	for (int i = 0; i < 100; i++)
		many.push_back(values + i % 4);		/* moves them */
	bool right = true;

	for (int i = 0; i < 100; i++)
		right = right && many[i].get() == values + i % 4;
	tap_ok(right, "copies point to the same");
	p = nullptr;
	tap_ok(!p, "set to null");
}

static void step(everything &is, model &should, lsmem::heap &heap)
{
	uint32_t key = random_below(&state, 500), value = (uint32_t)random_next(&state);

	switch (random_below(&state, 8)) {
	case 0:
	case 1:
		is.all.push_back(value);
		should.all.push_back(value);
		break;
	case 2:
		if (should.all.empty())
			break;
		is.all.pop_back();
		should.all.pop_back();
		break;
	case 3: {
		lsmem::ptr<node> made(lsmem::allocator<node>(heap).allocate(1));

		new (made.get()) node{ is.first, value };
		is.first = made;
		should.nodes.push_back(value);
		break;
	}
	case 4: {
		if (should.nodes.empty())
			break;
		lsmem::ptr<node> gone = is.first;

		is.first = gone->next;
		lsmem::allocator<node>(heap).deallocate(gone, 1);
		should.nodes.pop_back();
		break;
	}
	case 5:
		is.named.erase(key);
		should.named.erase(key);
		break;
	default: {
		std::string name(value % 300, static_cast<char>('a' + value % 26));

		is.named.erase(key);
		is.named.emplace(key, text(name.data(), name.size(), lsmem::allocator<char>(heap)));
		should.named[key] = name;
	}
	}
}

static bool same(everything &is, const model &should, bool moved)
{
	size_t i = should.nodes.size();

	if (is.all.size() != should.all.size() ||
	    !std::equal(is.all.begin(), is.all.end(), should.all.begin()))
		return false;
	for (node *n = is.first; n; n = n->next)
		if (!i || n->value != should.nodes[--i])
			return false;
	if (i)
		return false;
	if (moved)
		return true;	/* the library's maps keep plain pointers */
	if (is.named.size() != should.named.size())
		return false;
	auto at = should.named.begin();

	for (auto &[key, name] : is.named) {
		if (key != at->first || std::string(name.data(), name.size()) != at->second)
			return false;
		++at;
	}
	return true;
}

static void test_containers(struct lsm *store, unsigned int flags)
{
	const uint64_t steps = test_scaled(100000), length = 64 * MIB;
	uint64_t root = 0, used = 0;
	model should;

	{
		auto region = lsmem::region::create(store, length, flags, root, MIB);
		auto &is = region.root<everything>(region.get_heap());

		for (uint64_t i = 0; i < steps; i++)
			step(is, should, region.get_heap());
		tap_ok(same(is, should, false), "flags %u: as the model, of %zu, %zu, %zu elements", flags,
		       should.all.size(), should.named.size(), should.nodes.size());
		region.sync();
	}
	for (int round = 0; round < 3; round++) {
		auto region = lsmem::region::open(store, root);
		auto &is = region.root<everything>(region.get_heap());

		tap_ok(!region.moved() && same(is, should, false), "the same after it was reopened");
		for (uint64_t i = 0; i < steps / 4; i++)
			step(is, should, region.get_heap());
		tap_ok(same(is, should, false), "as the model, round %d", round);
	}
	{
		/* The same address twice is not possible: the second one has moved. */
		auto first = lsmem::region::open(store, root), second = lsmem::region::open(store, root);
		auto &is = second.root<everything>(second.get_heap());

		tap_ok(!first.moved() && second.moved() && same(is, should, true),
		       "vectors and pointers at another address");
	}
	{
		auto region = lsmem::region::open(store, root);
		auto &is = region.root<everything>(region.get_heap());
		lsmem::allocator<node> nodes(region.get_heap());
		std::vector<node *> made;

		used = region.get_heap().used();
		for (int i = 0; i < 1000; i++)
			made.push_back(nodes.allocate(1));
		used = region.get_heap().used() - used;
		for (node *n : made)
			nodes.deallocate(n, 1);
		tap_ok(same(is, should, false) && used <= 1000 * sizeof(node), "%" PRIu64 " bytes used", used);
		used = region.get_heap().used();
	}
	{
		auto region = lsmem::region::open(store, root);
		lsmem::allocator<node> nodes(region.get_heap());
		bool full = false;

		for (int i = 0; i < 1000; i++)
			nodes.allocate(1);
		tap_ok(region.get_heap().used() == used, "free blocks are found again after it was reopened");
		try {
			region.get_heap().allocate(length);
		} catch (const std::bad_alloc &) {
			full = true;
		}
		tap_ok(full && region.get_heap().used() == used, "a full region");
	}
	tap_is(lsm_pages_remove(store, root), 0, "remove");
}

static int error_of(struct lsm *store, uint64_t root)
{
	try {
		lsmem::region::open(store, root);
	} catch (const std::system_error &error) {
		return error.code().value();
	}
	return 0;
}

static void test_refused(struct lsm *store)
{
	uint64_t handle = 0, root = 0;

	tap_is(error_of(store, 0), ENOENT, "no root");
	tap_is(lsm_alloc(store, "x", 1, 0, &handle, NULL), 0, "an object");
	tap_is(error_of(store, handle), EBADMSG, "which is no root");
	int fd = lsm_pages_create(store, MIB, 0, 0, &root);

	tap_ok(fd >= 0, "a range");
	tap_is(error_of(store, root), EBADMSG, "which has no heap");
	close(fd);
}

int main()
{
	struct store store;

	state = test_seed;
	test_ptr();
	tap_is(store_create(&store, STORE_BYTES, 0, 0), 0, "a store");
	test_containers(store.lsm, 0);
	test_containers(store.lsm, LSM_PAGES_ATOMIC);
	test_refused(store.lsm);
	tap_is(store_destroy(&store), 0, "nothing holds the store");
	return tap_end();
}
