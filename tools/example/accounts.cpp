// SPDX-License-Identifier: GPL-2.0
// Two accounts, a transfer, and a table of their names. usage: accounts STORE

#include <iostream>
#include <lsmem.hpp>

static std::pair<long, std::uint64_t> balance(const lsmem::store &store, lsmem::handle_t account)
{
	struct lsm_object object;
	long found;

	store.read(account, &found, sizeof(found), 0, &object);
	return { found, object.version };
}

int main(int argc, char **argv)
try {
	lsmem::store store(argc > 1 ? argv[1] : LSM_DEFAULT_STORE);
	lsmem::group group(store);
	long hundred = 100, nothing = 0;

	// A group makes both accounts or none
	auto made = group.alloc({ &hundred, sizeof(long) }, 3).alloc({ &nothing, sizeof(long) }, 3).commit();
	lsmem::handle_t here = made.objects[0].handle, there = made.objects[1].handle;

	// A table leads from names to accounts, in all processes of the host
	lsmem::table names(store, 4);

	names.put("alice", { &here, sizeof(here) });
	names.put("bob", { &there, sizeof(there) });

	// A transfer, if no other client is faster: else it begins again
	for (;;) {
		auto [from, from_version] = balance(store, here);
		auto [to, to_version] = balance(store, there);

		from -= 30;
		to += 30;
		group.replace(here, { &from, sizeof(from) }, lsmem::expect(from_version));
		group.replace(there, { &to, sizeof(to) }, lsmem::expect(to_version));
		try {
			group.commit();
			break;
		} catch (const lsmem::error &error) {
			if (error.code().value() != EILSEQ)
				throw;
		}
	}

	for (const auto &[name, item] : names) {
		lsmem::handle_t account;

		std::memcpy(&account, item.value.data(), sizeof(account));
		std::cout << name << " has " << balance(store, account).first << '\n';
		store.free(account);
		names.remove(name);
	}
	return 0;
} catch (const std::system_error &error) {
	std::cerr << error.what() << '\n';
	return 1;
}
