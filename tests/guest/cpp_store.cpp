// SPDX-License-Identifier: GPL-2.0
/* lsmem.hpp: stores, objects, views, groups, roots, tables, large objects and scans, against models.  With ASan and UBSan.  TAP. */
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <lsmem.hpp>

extern "C" {
#include "store.h"
}
#include "../common/tap.h"

static uint64_t state;	/* of the random numbers */

static_assert(!std::is_copy_constructible_v<lsmem::store> && std::is_nothrow_move_constructible_v<lsmem::store>);
static_assert(!std::is_copy_constructible_v<lsmem::view> && std::is_nothrow_move_constructible_v<lsmem::view>);
static_assert(!std::is_copy_constructible_v<lsmem::table> && std::is_nothrow_move_constructible_v<lsmem::table>);
static_assert(!std::is_copy_constructible_v<lsmem::aggregate>);
static_assert(std::is_constructible_v<lsmem::bytes, std::vector<int>> &&
	      !std::is_constructible_v<lsmem::bytes, std::vector<std::string>>);

/* The errno that a call throws; 0: none */
template <class F> static int thrown(F call)
{
	try {
		call();
		return 0;
	} catch (const std::system_error &error) {
		return error.code().value();
	}
}

template <class F> static lsmem::error error_of(F call)
{
	try {
		call();
	} catch (const lsmem::error &error) {
		return error;
	}
	return lsmem::error(0, "nothing");
}

static std::string some_bytes(uint32_t most)
{
	uint32_t length = 1 + random_below(&state, random_chance(&state, 3) ? 200000 : most);
	std::string made(length, 0);
	auto first = static_cast<char>(random_next(&state));

	for (uint32_t i = 0; i < length; i++)
		made[i] = static_cast<char>(first + i % 251);
	return made;
}

static bool view_right(const lsmem::store &store, lsmem::handle_t handle, const std::string &wanted, size_t *most)
{
	lsmem::view first = store.view(handle), view = std::move(first);
	std::string all;

	CHECK(first.pieces() == 0);
	for (size_t i = 0; i < view.pieces(); i++)
		all += view.piece(i);
	*most = std::max(*most, view.pieces());
	CHECK(all == wanted && view.copy<std::string>() == wanted && view.attributes().length == wanted.size());
	first = std::move(view);
	first.end();
	first.end();
	CHECK(!first.pieces());
	return true;
}

static bool objects_right(const lsmem::store &store)
{
	std::map<lsmem::handle_t, std::pair<std::string, uint64_t>> model;
	struct lsm_object object;
	size_t most = 0;

	for (int step = 0; step < 3000; step++) {
		if (model.size() < 400 || random_below(&state, 5) == 0) {
			std::string data = some_bytes(9000);
			lsmem::made made = store.alloc(data, {}, 5);

			model[made.handle] = { data, made.version };
			continue;
		}
		auto at = std::next(model.begin(), random_below(&state, model.size()));
		auto handle = at->first;
		auto &[data, version] = at->second;
		std::string more = some_bytes(100);

		switch (random_below(&state, 5)) {
		case 0:
			data = some_bytes(9000);
			version = store.replace(handle, data, lsmem::expect(version));
			break;
		case 1:
			data += more;
			version = store.append(handle, more);
			break;
		case 2:
			data[0] = '?';
			version = store.write(handle, "?", 0, lsmem::newer(version - 1));
			break;
		case 3: {
			lsmem::error error = error_of([&] { store.replace(handle, "x", lsmem::expect(version - 1)); });

			CHECK(error.code().value() == EILSEQ && error.version == version);
			break;
		}
		default:
			store.free(handle, lsmem::expect(version));
			CHECK(thrown([&] { store.read(handle); }) == ESTALE);
			model.erase(at);
			continue;
		}
		CHECK(store.read<std::string>(handle, &object) == data);
		CHECK(object.version == version && object.table == 5);
		CHECK(view_right(store, handle, data, &most));
	}
	std::set<lsmem::handle_t> listed;
	uint64_t cursor = 0;

	for (auto some = store.next(cursor, 5); !some.empty(); some = store.next(cursor, 5))
		for (const auto &one : some)
			listed.insert(one.handle);
	CHECK(listed.size() == model.size());
	for (const auto &[handle, kept] : model) {
		CHECK(listed.count(handle));
		store.free(handle);
	}
	return true;
}

static void test_objects(lsmem::store &store, const std::string &path)
{
	std::array<uint32_t, 3> numbers = { 1, 2, 3 };
	lsmem::made made = store.alloc(numbers);
	std::vector<std::byte> back = store.read(made.handle);
	std::string big(OBJECT_MAX, 'x');
	size_t most = 0;

	tap_ok(back.size() == sizeof(numbers) && !memcmp(back.data(), numbers.data(), sizeof(numbers)), "an array");
	store.replace(made.handle, "text");
	tap_ok(store.read<std::string>(made.handle) == "text", "a text has no zero");
	store.replace(made.handle, big);
	tap_ok(view_right(store, made.handle, big, &most) && store.read<std::string>(made.handle) == big,
	       "the largest object");
	tap_is(store.attributes(made.handle).length, OBJECT_MAX, "its attributes");
	tap_is(thrown([&] { store.alloc(""); }), EINVAL, "no bytes");
	tap_is(thrown([&] { store.alloc("x", lsmem::new_key); }), EINVAL, "a flag of tables");
	tap_is(thrown([&] { store.alloc("x", {}, 65536); }), EINVAL, "no table id");
	tap_is(thrown([&] { store.alloc("x", lsmem::durable); }), EOPNOTSUPP, "durable, in a volatile store");
	tap_is(thrown([&] { store.sync(); }), EOPNOTSUPP, "a wait, in a volatile store");
	tap_is(thrown([&] { lsmem::store("/dev/lsmem-none"); }), ENOENT, "no store");
	tap_is(thrown([&] { lsmem::wait_active("/dev/lsmem-none", 0); }), ETIMEDOUT, "a wait for none");

	lsmem::store reader(path, LSM_RDONLY), moved(std::move(reader));

	tap_ok(!reader.get() && moved.read(made.handle).size() == OBJECT_MAX, "a store that is moved");
	reader = std::move(moved);
	tap_is(thrown([&] { reader.view(made.handle); }), EOPNOTSUPP, "a reader has no views");
	tap_ok(thrown([&] { reader.free(made.handle); }) != 0, "and does not write");
	store.free(made.handle);
	tap_ok(store.query().object_max == OBJECT_MAX && store.stat().handles_used == 0, "limits, counters");
}

/* Parts of objects: numbers, bytes that are expected, the length. */
static void test_parts(lsmem::store &store)
{
	struct pair {
		uint32_t a, b;
	} expected = { 1, 2 }, desired = { 3, 4 };
	lsmem::made made = store.alloc(std::vector<uint64_t>(4));
	lsmem::handle_t handle = made.handle;
	uint64_t version;

	tap_ok(store.add<int64_t>(handle, 8, -5) == -5 && store.add<int64_t>(handle, 8, 2) == -3, "a sum");
	tap_ok(store.add<double>(handle, 16, 0.5) == 0.5 && store.add<double>(handle, 16, -1) == -0.5, "of doubles");
	tap_ok(store.add<uint32_t>(handle, 0, 7) == 7 && store.add<uint64_t>(handle, 24, 1LL << 40) == 1ULL << 40,
	       "of numbers without a sign");
	tap_is(thrown([&] { store.add<uint32_t>(handle, 0, -8); }), EOVERFLOW, "a sum beyond the type");
	tap_is(thrown([&] { store.add<uint64_t>(handle, 25, 1); }), EINVAL, "beyond the object");
	version = store.attributes(handle).version;
	lsmem::error error = error_of([&] { store.add<uint32_t>(handle, 0, 1, lsmem::expect(version - 1)); });

	tap_ok(error.code().value() == EILSEQ && error.version == version, "only of a version");
	tap_is(store.add<uint32_t>(handle, 0, 1, lsmem::expect(version)), 8, "which it has");
	version = store.truncate(handle, 8);
	tap_is(store.attributes(handle).length, 8, "cut");
	error = error_of([&] { store.truncate(handle, 8, lsmem::older(version)); });
	tap_ok(error.code().value() == EILSEQ && error.version == version, "not older");
	error = error_of([&] { store.free(handle, lsmem::expect(version - 1)); });
	tap_ok(error.code().value() == EILSEQ && error.version == version, "freed only of a version, too");
	store.write(handle, { "\1\0\0\0\2\0\0\0", 8 }, 0);
	expected.a = 9;
	tap_ok(!store.compare_exchange(handle, 0, expected, desired) && expected.a == 1 && expected.b == 2,
	       "not what is expected, but this");
	tap_ok(store.compare_exchange(handle, 0, expected, desired) && store.add<uint32_t>(handle, 4, 0) == 4, "exchanged");
	error = error_of([&] { store.compare_exchange(handle, 0, expected, desired, lsmem::expect(version)); });
	tap_ok(error.code().value() == EILSEQ && error.version > version, "an exchange only of a version");
	tap_is(thrown([&] { store.compare_exchange(handle, 4, expected, desired); }), EINVAL, "too short for it");
	version = store.attributes(handle).version;
	tap_ok(store.free(handle) > version, "the version of what is freed");
	tap_is(thrown([&] { store.truncate(handle, 1); }), ESTALE, "of what is freed");
}

/* Notes of changes: taken, waited for, lost, behind a cursor, of a table with keys, to the end. */
static void test_watches(lsmem::store &store)
{
	lsmem::watch first(store, 11, 0, 8), watch(std::move(first));

	tap_ok(watch.take().empty() && !watch.ended() && first.fd() < 0, "no notes");
	lsmem::made made = store.alloc("watched", {}, 11);

	store.free(store.alloc("other", {}, 12).handle);
	uint64_t version = store.replace(made.handle, "again");
	auto notes = watch.take();

	tap_ok(notes.size() == 2 && notes[0].kind == LSMEM_NOTE_NEW && notes[0].handle == made.handle &&
	       notes[0].version == made.version && notes[1].kind == LSMEM_NOTE_REPLACED &&
	       notes[1].version == version, "notes of what has changed");
	auto behind = lsmem::watch(store, 11, notes[0].cursor).take();

	tap_ok(behind.size() == 1 && behind[0].version == version, "behind a cursor");
	std::thread other([&] { store.free(made.handle); });

	notes = watch.next();
	other.join();
	tap_ok(notes.size() == 1 && notes[0].kind == LSMEM_NOTE_FREED, "one that is waited for");
	for (int i = 0; i < 20; i++)
		store.free(store.alloc("more", {}, 11).handle);
	notes = watch.take();
	tap_ok(notes.size() == 1 && notes[0].kind == LSMEM_NOTE_LOST && watch.take().empty(), "too slow");
	tap_is(thrown([&] { lsmem::watch(store, 4096); }), EINVAL, "no table id");
	{
		lsmem::table table(store, 10);
		lsmem::watch items(table);
		std::string value(5000, 'v');

		table.put("key", value);
		notes = items.next();
		auto entry = table.noted(notes.at(0));

		tap_ok(entry && entry->key == "key" && entry->found.value.size() == value.size() &&
		       !std::memcmp(entry->found.value.data(), value.data(), value.size()) &&
		       entry->found.version == table.get("key")->version, "key and value of a note");
		table.remove("key");
		tap_ok(!table.noted(notes[0]) && items.next().at(0).kind == LSMEM_NOTE_FREED, "of what is removed");
	}
	struct store gone;

	tap_is(store_create(&gone, STORE_BYTES, 0, 0), 0, "another store");
	{
		lsmem::store opened(gone.path);

		watch = lsmem::watch(opened, 0);
		opened.alloc("last");
	}
	store_destroy(&gone);
	tap_ok(watch.next().size() == 1 && watch.next().empty() && watch.ended() && watch.next().empty(),
	       "the end of the store");
}

static void test_views(lsmem::store &store)
{
	lsmem::handle_t handle = store.alloc("one").handle;
	{
		std::vector<lsmem::view> views;

		for (int i = 0; i < 64; i++)
			views.push_back(store.view(handle));
		tap_is(thrown([&] { store.view(handle); }), EAGAIN, "one view too many");
		store.replace(handle, "two");
		tap_ok(std::all_of(views.begin(), views.end(), [](auto &view) { return view.piece(0) == "one"; }),
		       "they show the version that they began with");
		std::thread other([&] { views[5].end(); });

		other.join();
		tap_ok(store.view(handle).piece(0) == "two", "one is ended by another thread");
	}
	for (int i = 0; i < 200; i++)
		store.view(handle);
	tap_ok(true, "views are ended when they are destroyed");
	store.free(handle);
}

/* Memory that is used up once is given in any order; a view that is held is revoked when it runs out. */
static void test_memory(lsmem::store &store, struct store *at)
{
	lsmem::handle_t handle = store.alloc("held").handle, other = store.alloc("other").handle;
	std::string data(100000, 'x');
	size_t most = 0;
	int writes;

	tap_is(store_set_attribute(at, "limits/view_ms", 10), 0, "a short bound");
	lsmem::store reopened(at->path);
	lsmem::view view = reopened.view(handle);

	store.free(handle);
	for (writes = 0; writes < 1000000 && !store_attribute(at, "cleaner/views_revoked"); writes++)
		store.replace(other, data);
	tap_is(thrown([&] { view.end(); }), ECANCELED, "a view that was held for too long");
	tap_is(thrown([&] { view.end(); }), 0, "is over");
	for (writes = 0; writes < 100000 && most < 2; writes++) {
		data[0]++;
		store.replace(other, data);
		if (!view_right(store, other, data, &most))
			break;
	}
	tap_ok(most > 1, "an object in %zu pieces", most);
	store.free(other);
}

static void test_groups(lsmem::store &store)
{
	lsmem::group group(store);

	group.alloc("100", 2);
	group.alloc(std::string(100, '0'), 2);	/* a string that is gone by then */
	auto made = group.commit();
	auto here = made.objects[0], there = made.objects[1];

	tap_ok(made.certain && here.version == there.version && store.read<std::string>(there.handle) == std::string(100, '0'),
	       "a group makes two objects");
	made = group.replace(here.handle, "70", lsmem::expect(here.version)).replace(there.handle, "30").commit();
	tap_ok(store.read<std::string>(here.handle) == "70" && store.read<std::string>(there.handle) == "30",
	       "and changes them");
	lsmem::error error = error_of([&] {
		group.replace(there.handle, "x").free(here.handle, lsmem::expect(here.version)).commit();
	});
	tap_ok(error.code().value() == EILSEQ && error.operation == 1 && error.version == made.objects[0].version,
	       "one change cannot be made");
	tap_ok(store.read<std::string>(there.handle) == "30", "so none is");
	error = error_of([&] {
		group.check(here.handle, lsmem::expect(here.version)).replace(there.handle, "x").commit();
	});
	tap_ok(error.code().value() == EILSEQ && error.operation == 0 && store.read<std::string>(there.handle) == "30",
	       "a check fails");
	here.version = made.objects[0].version;
	made = group.check(here.handle, lsmem::expect(here.version)).replace(there.handle, "31").commit();
	tap_ok(made.objects[0].version == here.version && made.objects[1].version > here.version &&
	       store.read<std::string>(there.handle) == "31", "what is checked keeps its version");
	{
		lsmem::group dropped(store);

		dropped.free(here.handle);
	}
	tap_ok(store.read<std::string>(here.handle) == "70", "nor those of a group that is not committed");
	group.free(here.handle).free(there.handle).commit();
	tap_is(store.stat().handles_used, 0, "both are freed, and nothing of the group that failed is made");
}

static void test_roots(lsmem::store &store)
{
	lsmem::handle_t tree = store.alloc("tree").handle, other = store.alloc("other").handle;

	tap_ok(!store.root("tree"), "no root");
	store.set_root("tree", tree);
	tap_ok(store.root("tree") == tree, "a root");
	tap_is(thrown([&] { store.exchange_root("tree", other, other); }), EILSEQ, "another one is expected");
	store.exchange_root("tree", tree, other);
	for (int i = 0; i < 40; i++)
		store.set_root("root" + std::to_string(i), tree);
	auto roots = store.roots();

	tap_ok(roots.size() == 41 && std::count(roots.begin(), roots.end(), std::make_pair(std::string("tree"), other)) == 1,
	       "all roots");
	for (const auto &[name, handle] : roots)
		store.set_root(name, 0);
	tap_ok(store.roots().empty(), "none is left");
	tap_is(thrown([&] { store.set_root(std::string(256, 'x'), tree); }), EINVAL, "a name that is too long");
	store.free(tree);
	store.free(other);
}

static void change_table(const lsmem::table &table, int thread, std::map<std::string, std::string> &model,
			 std::atomic<int> &wrong)
{
	uint64_t dice = test_seed + static_cast<uint64_t>(thread);

	for (int step = 0; step < 1500; step++) {
		std::string key = std::to_string(thread) + ":" + std::to_string(random_below(&dice, 200));
		std::string value(random_below(&dice, random_chance(&dice, 10) ? 3000 : 600),
				  static_cast<char>(random_next(&dice)));

		switch (random_below(&dice, 4)) {
		case 0:
			wrong += table.remove(key) != (model.erase(key) > 0);
			break;
		case 1: {
			int error = thrown([&] { table.put(key, value, lsmem::new_key); });

			wrong += error != (model.count(key) ? EEXIST : 0);
			model.emplace(key, value);
			break;
		}
		default:
			table.put(key, value);
			model[key] = value;
		}
		auto found = table.get<std::string>(key);
		auto wanted = model.find(key);

		wrong += found.has_value() != (wanted != model.end()) || (found && found->value != wanted->second);
	}
}

static void test_tables(lsmem::store &store)
{
	tap_is(thrown([&] { lsmem::table(store, 9, LSM_RDONLY); }), EAGAIN, "no index yet");
	lsmem::table first(store, 9), table(std::move(first));
	std::array<std::map<std::string, std::string>, 4> models;
	std::map<std::string, std::string> model, found;
	std::vector<std::thread> threads;
	std::atomic<int> wrong = 0;

	for (int i = 0; i < 4; i++)
		threads.emplace_back(change_table, std::cref(table), i, std::ref(models[i]), std::ref(wrong));
	for (auto &thread : threads)
		thread.join();
	for (auto &part : models)
		model.merge(part);
	tap_is(wrong, 0, "a table, changed by threads");
	size_t nr = 0;

	for (const auto &[key, item] : table) {
		found[key] = std::string(reinterpret_cast<const char *>(item.value.data()), item.value.size());
		nr++;
	}
	tap_ok(found == model && nr == model.size(), "all items, each once");
	tap_is(table.stat().items, model.size(), "as many as are counted");

	std::vector<std::string> keys;
	bool right = true;

	for (int i = 0; i < 1000; i++)
		keys.push_back(std::to_string(i % 5) + ":" + std::to_string(i / 5));
	auto items = table.get_many<std::string>(keys);

	for (size_t i = 0; i < keys.size(); i++)
		right = right && items[i].has_value() == (model.count(keys[i]) > 0) &&
			(!items[i] || items[i]->value == model[keys[i]]);
	tap_ok(right, "many items at once");
	std::map<std::string, std::vector<uint32_t>> many = { { "a", { 1 } }, { "b", { 1, 2 } }, { "", {} } };
	std::vector<int> errors = table.put_many(many);

	tap_ok(errors == std::vector<int>({ EINVAL, 0, 0 }) && table.get("b")->value.size() == 8, "many puts at once");

	std::string key(LSM_KEY_MAX, 'k'), value(900000, 'v');
	uint64_t version = table.put(key, value);

	tap_ok(table.get<std::string>(key)->value == value && table.get(key)->version == version, "the longest key");
	tap_ok(std::any_of(table.begin(), table.end(), [&](auto &entry) {
		return entry.key == key && entry.found.value.size() == value.size();
	}), "is listed");
	lsmem::error error = error_of([&] { table.put(key, "x", lsmem::expect(version - 1)); });

	tap_ok(error.code().value() == EILSEQ && error.version == version, "another version");
	version = table.put("both", "1");
	version = table.put("both", "2", lsmem::old_key | lsmem::expect(version));
	tap_is(thrown([&] { table.put("both", "3", lsmem::expect(version) | lsmem::old_key); }), 0, "two conditions, in any order");
	tap_is(thrown([&] { table.put("none", "x", lsmem::old_key); }), ENOENT, "no such key");
	tap_ok(!table.get("none") && !table.remove("none"), "to be got, to be removed");
	tap_ok(table.alloc("17", "x") == table.alloc("17", "y") && table.get<std::string>("17")->value == "x",
	       "one object for a key");
	tap_is(thrown([&] { table.alloc("18", "x", lsmem::durable); }), EOPNOTSUPP, "durable, of a volatile store");
	table.put("empty", "");
	tap_ok(lsmem::table(store, 9, LSM_RDONLY).get("empty")->value.empty(), "an empty value, for a reader");
	uint64_t evicted = 0;

	tap_ok(table.evict(100000, &evicted) >= 100000 && evicted, "items are evicted");
	for (const auto &entry : table)
		table.remove(entry.key);
	tap_ok(table.begin() == table.end() && !table.stat().items, "none is left");
}

/* Are keys and object as the groups that fail must leave them? */
static bool keys_right(const lsmem::table &here, const lsmem::table &there, const std::string &object)
{
	CHECK(here.get<std::string>("old")->value == "10" && !here.get("goes") && here.get("empty")->value.empty());
	CHECK(there.get<std::string>("new")->value == std::string(300, 'n') && there.get<std::string>("other")->value == "2");
	CHECK(object == "changed");
	return true;
}

static void test_groups_of_keys(lsmem::store &store, const std::string &path)
{
	lsmem::table here(store, 6), there(store, 7);
	lsmem::handle_t object = store.alloc("object").handle;
	uint64_t old = here.put("old", "1"), other = there.put("other", "2");
	lsmem::group group(store);

	here.put("goes", "3");
	group.put(here, "old", "10", lsmem::expect(old)).replace(object, "changed");
	group.put(there, std::string("new"), std::string(300, 'n'), lsmem::new_key).remove(here, "goes");
	group.check(there, "other", lsmem::expect(other)).check(there, "none", lsmem::new_key).put(here, "empty", "");
	auto made = group.commit();
	auto now = [&] { return keys_right(here, there, store.read<std::string>(object)); };
	auto is = [&](size_t which, lsmem::handle_t handle, uint64_t version) {
		return made.objects[which].handle == handle && made.objects[which].version == version;
	};

	tap_ok(made.certain && made.objects.size() == 7 && now(), "a group changes keys of two tables, and an object");
	tap_ok(is(0, here.get("old")->handle, here.get("old")->version) && is(1, object, store.attributes(object).version) &&
	       is(2, there.get("new")->handle, there.get("new")->version) &&
	       is(4, there.get("other")->handle, other) && is(5, 0, 0), "and says which they are, in order");

	lsmem::error error = error_of([&] {
		group.replace(object, "x").put(there, "other", "x").put(here, "old", "x", lsmem::expect(old)).commit();
	});
	tap_ok(error.code().value() == EILSEQ && error.operation == 2 && error.version == here.get("old")->version && now(),
	       "another version of a key");
	error = error_of([&] {
		group.put(here, "none", "x").remove(there, "new").free(object, lsmem::expect(old)).commit();
	});
	tap_ok(error.code().value() == EILSEQ && error.operation == 2 &&
	       error.version == store.attributes(object).version && now() && !here.get("none"),
	       "another version of an object");
	error = error_of([&] { group.remove(here, "old").put(there, "new", "x", lsmem::new_key).commit(); });
	tap_ok(error.code().value() == EEXIST && error.operation == 1 && now(), "a key that is there");
	error = error_of([&] { group.free(object).remove(there, "none").commit(); });
	tap_ok(error.code().value() == ENOENT && error.operation == 1 && now(), "one that is not");
	error = error_of([&] { group.put(there, "other", "x").check(here, "old", lsmem::new_key).commit(); });
	tap_ok(error.code().value() == EEXIST && error.operation == 1 && now(), "a check that one is not");
	error = error_of([&] { group.put(here, "old", "x").check(here, "old").commit(); });
	tap_ok(error.code().value() == EINVAL && error.operation == 1 && now(), "a key twice");
	tap_is(thrown([&] { group.put(here, "old", "x").commit(lsmem::durable); }), EOPNOTSUPP,
	       "durable, in a volatile store");
	{
		lsmem::store second(path);
		lsmem::table foreign(second, 6);

		error = error_of([&] { group.put(here, "old", "x").remove(foreign, "empty").commit(); });
	}
	tap_ok(error.code().value() == EINVAL && error.operation == 1 && now(), "a table of another store");
	tap_ok(group.commit().objects.empty() && now(), "a group that failed is empty");
	group.remove(here, "old").remove(here, "empty").remove(there, "new").remove(there, "other").free(object).commit();
	tap_ok(!here.stat().items && !there.stat().items, "none is left");
}

/* Writes at random, by one of two names of an object, compared with a string. */
static bool large_right(const lsmem::large &object, const lsmem::large &other, std::string *model, uint64_t *version)
{
	struct lsm_large found;

	for (uint32_t i = 0; i < 60; i++) {
		std::string data = some_bytes(50000);
		uint64_t at = random_below(&state, static_cast<uint32_t>(model->size() + 10000)), now;

		if (random_chance(&state, 30)) {
			now = other.append(data, {}, &at);
			CHECK(at == model->size());
		} else {
			now = object.write(data, at, random_chance(&state, 50) ? lsmem::expect(*version) : lsmem::change{});
		}
		model->resize(std::max(model->size(), static_cast<size_t>(at) + data.size()));
		model->replace(at, data.size(), data);
		CHECK(now > *version && object.attributes().version == now);
		*version = now;
		at = random_below(&state, static_cast<uint32_t>(model->size()));
		CHECK(other.read<std::string>(at, 70000, &found) == model->substr(at, 70000));
		CHECK(found.version == now && found.length == model->size() && found.part == 8192 && found.table == 5);
	}
	return object.read<std::string>(0, SIZE_MAX) == *model;
}

static void test_large(const lsmem::store &store, const char *path)
{
	lsmem::large object = lsmem::large::create(store, 5, 8192), other(store, object.handle());
	uint64_t version = object.attributes().version;
	std::string model;

	tap_ok(large_right(object, other, &model, &version), "a large object, written at random");
	tap_ok(object.read(model.size(), 1).empty(), "nothing is behind its end");
	tap_is(thrown([&] { object.read(model.size() + 1, 1); }), EINVAL, "nor can be asked for");
	auto error = error_of([&] { object.write("x", 0, lsmem::expect(version + 1)); });
	tap_ok(error.code().value() == EILSEQ && error.version == version, "another version was expected");
	error = error_of([&] { object.free(lsmem::expect(version + 1)); });
	tap_ok(error.code().value() == EILSEQ && error.version == version, "also to free it");
	tap_is(thrown([&] { lsmem::large::create(lsmem::store(path, LSM_RDONLY)); }), EBADF, "a store that is only read");
	tap_is(thrown([&] { lsmem::large::create(store, 5, 1); }), EINVAL, "parts of one byte");
	auto small = store.alloc("small");
	tap_is(thrown([&] { lsmem::large(store, small.handle).attributes(); }), EBADMSG, "an object that is not large");
	store.free(small.handle);
	auto report = lsmem::large::sweep(store, 5);
	tap_ok(report.objects == 1 && report.parts && !report.orphans && !report.broken, "nothing is swept");
	object.free(lsmem::expect(version));
	tap_is(thrown([&] { other.attributes(); }), ESTALE, "it is gone");
}

static void test_scans(lsmem::store &store)
{
	std::atomic<uint64_t> sum = 0, rows = 0;
	struct lsm_scan what = {};
	uint64_t cursor = 0;

	for (uint64_t i = 0; i < 5000; i++)
		store.alloc({ &i, sizeof(i) }, {}, 3);
	what.one_table = 1;
	what.table = 3;
	what.threads = 2;
	auto result = store.scan(what, [&](unsigned int, const struct lsm_row *row, size_t nr) {
		for (size_t i = 0; i < nr; i++) {
			uint64_t value;

			memcpy(&value, row[i].data, sizeof(value));
			sum += value;
			rows++;
		}
	});
	tap_ok(rows == 5000 && sum == 5000ull * 4999 / 2 && result.rows == 5000, "a scan");
	int caught = 0;

	try {
		store.scan(what, [](unsigned int, const struct lsm_row *, size_t) { throw 42; });
	} catch (int number) {
		caught = number;
	}
	tap_is(caught, 42, "what is thrown in a scan is caught behind it");
	what.plan = LSM_PLANS;
	tap_is(thrown([&] { store.scan(what, [](unsigned int, const struct lsm_row *, size_t) {}); }), EINVAL,
	       "a plan that there is not");
	what.plan = LSM_PLAN_AUTO;
	struct lsm_measure measure = {};
	struct lsm_question question = {};

	measure.column.type = LSM_U64;
	question.measures = &measure;
	question.nr_measures = 1;
	lsmem::aggregate first(store, what, question), aggregate(std::move(first));

	tap_ok(aggregate.counts().selected == 5000 && aggregate.total(0).sum_low == 5000ull * 4999 / 2, "an aggregate");
	tap_is(thrown([&] { aggregate.total(1); }), EINVAL, "no such measure");
	for (auto some = store.next(cursor, 3); !some.empty(); some = store.next(cursor, 3))
		for (const auto &one : some)
			store.free(one.handle);
}

/* The example of Documentation/cpp.rst */
static void test_example(const std::string &directory, const char *path)
{
	std::string command = directory + "/../../../tools/example/accounts " + path + " | sort", said;
	FILE *pipe = popen(command.c_str(), "r");
	char line[100];

	while (pipe && fgets(line, sizeof(line), pipe))
		said += line;
	tap_ok(pipe && !pclose(pipe) && said == "alice has 70\nbob has 30\n", "the example");
}

int main(int, char **argv)
{

	std::string program(argv[0]);
	struct store store;

	state = test_seed;
	tap_is(store_create(&store, STORE_BYTES, 0, 0), 0, "a store");
	{
		lsmem::store opened(store.path);

		test_objects(opened, store.path);
		tap_ok(objects_right(opened), "objects, changed at random");
		test_parts(opened);
		test_watches(opened);
		test_views(opened);
		test_memory(opened, &store);
		test_groups(opened);
		test_roots(opened);
		test_tables(opened);
		test_groups_of_keys(opened, store.path);
		test_large(opened, store.path);
		test_scans(opened);
		test_example(program.substr(0, program.rfind('/')), store.path);
		tap_is(opened.stat().handles_used, 1, "no object is left but that of the roots");
	}
	tap_is(store_destroy(&store), 0, "nothing holds the store");
	return tap_end();
}
