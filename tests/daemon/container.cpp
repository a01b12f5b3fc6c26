// SPDX-License-Identifier: GPL-2.0
/*
 * Containers of the standard library in a region of a store, for guest-container.sh: they are there when the store has moved.
 *
 *	build/container make STORE N		a map of N keys to lists of strings, in a region that the root "container" names
 *	build/container check STORE N ROUNDS	compares it with what N and ROUNDS changes make; prints how many microseconds
 *						it took to open it, and to copy it to the heap of this process, and how
 *						many page faults each
 *	build/container change STORE N ROUND	changes a part of it
 *	build/container hold STORE		opens it, prints a line, and waits for the end of its input
 */
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <scoped_allocator>
#include <string>
#include <sys/resource.h>
#include <vector>

#include <lsmem.hpp>

#include "../common/random.h"

static const char name[] = "container";
static const std::uint64_t region_bytes = 32u << 20;

/* Scoped: a list and a string that the map makes get their memory from the region as well. */
template <class T> using in_region = std::scoped_allocator_adaptor<lsmem::allocator<T>>;
using text = std::basic_string<char, std::char_traits<char>, lsmem::allocator<char>>;
using list = std::vector<text, in_region<text>>;
using index_of = std::map<std::uint64_t, list, std::less<std::uint64_t>, in_region<std::pair<const std::uint64_t, list>>>;
using copy_of = std::map<std::uint64_t, std::vector<std::string>>;

static const std::uint64_t changes = 500;	/* of a round */

/* The same changes of either map. */
template <class Map> static void grow(Map &map, std::uint64_t n)
{
	std::uint64_t state = 1;

	for (std::uint64_t i = 0; i < n; i++)
		for (std::uint32_t words = random_below(&state, 4); words; words--)
			map[i * 7919 % n].emplace_back(random_below(&state, 60), static_cast<char>('a' + i % 26));
}

template <class Map> static void change(Map &map, std::uint64_t n, std::uint64_t round)
{
	std::uint64_t state = round;

	for (std::uint64_t i = 0; i < changes; i++) {
		std::uint64_t key = random_below(&state, n);

		if (random_chance(&state, 30))
			map.erase(key);
		else
			map[key].emplace_back(random_below(&state, 60), static_cast<char>('A' + round % 26));
	}
}

static copy_of copy(const index_of &index)
{
	copy_of copied;

	for (const auto &[key, words] : index)
		for (const auto &word : words)
			copied[key].emplace_back(word.data(), word.size());
	/* Keys without words are keys, too. */
	for (const auto &[key, words] : index)
		copied[key];
	return copied;
}

static lsmem::region open_region(struct lsm *store)
{
	std::uint64_t root = 0;
	int err = lsm_root_get(store, name, &root);

	if (err)
		throw std::system_error(-err, std::generic_category(), name);
	return lsmem::region::open(store, root);
}

static index_of &index_in(lsmem::region &region)
{
	return region.root<index_of>(region.get_allocator<std::pair<const std::uint64_t, list>>());
}

static void make(struct lsm *store, std::uint64_t n)
{
	std::uint64_t root = 0;
	auto region = lsmem::region::create(store, region_bytes, LSM_PAGES_ATOMIC, root);
	int err;

	grow(index_in(region), n);
	region.sync();
	err = lsm_root_set(store, name, root, LSM_DURABLE, nullptr);
	if (err)
		throw std::system_error(-err, std::generic_category(), name);
}

/* What this process has used up: microseconds, page faults. */
struct cost {
	std::int64_t us, faults;

	cost()
	{
		struct rusage usage;

		getrusage(RUSAGE_SELF, &usage);
		faults = usage.ru_minflt + usage.ru_majflt;
		us = std::chrono::duration_cast<std::chrono::microseconds>(
			std::chrono::steady_clock::now().time_since_epoch()).count();
	}
};

static int check(struct lsm *store, std::uint64_t n, std::uint64_t rounds)
{
	cost begin;
	auto region = open_region(store);
	const index_of &index = index_in(region);
	auto first = index.begin()->first;
	cost opened;
	copy_of is, should;

	if (region.moved()) {
		std::cerr << "the region is mapped at another address\n";
		return 1;
	}
	is = copy(index);
	cost copied;

	grow(should, n);
	for (std::uint64_t round = 1; round <= rounds; round++)
		change(should, n, round);
	if (is != should || first != should.begin()->first) {
		std::cerr << "it has " << is.size() << " keys, not the " << should.size() << " that it should have, or others\n";
		return 1;
	}
	std::cout << opened.us - begin.us << ' ' << copied.us - opened.us << ' ' << opened.faults - begin.faults << ' '
		  << copied.faults - opened.faults << '\n';
	return 0;
}

int main(int argc, char **argv)
{
	std::string what = argc > 1 ? argv[1] : "";
	struct lsm *store = nullptr;
	int err = argc > 2 ? lsm_open(argv[2], 0, &store) : -EINVAL, ret = 0;
	auto number = [&](int i) { return argc > i ? std::strtoull(argv[i], nullptr, 0) : 0; };

	try {
		if (err)
			throw std::system_error(-err, std::generic_category(), what);
		if (what == "make") {
			make(store, number(3));
		} else if (what == "check") {
			ret = check(store, number(3), number(4));
		} else if (what == "change") {
			auto region = open_region(store);

			change(index_in(region), number(3), number(4));
			region.sync();
		} else {
			auto region = open_region(store);

			std::cout << "open" << std::endl;
			while (std::cin.get() != std::char_traits<char>::eof())
				;
		}
	} catch (const std::exception &error) {
		std::cerr << error.what() << '\n';
		ret = 1;
	}
	if (store)
		lsm_close(store);
	return ret;
}
