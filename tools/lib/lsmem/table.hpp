// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/* liblsmem for C++17: tables with keys.  lsmem.hpp is the header to include. */
#ifndef _LSMEM_TABLE_HPP
#define _LSMEM_TABLE_HPP

#include <lsmem/store.hpp>

namespace lsmem {

/* A value and its attributes; @C: a vector or a string of bytes */
template <class C = std::vector<std::byte>> struct item {
	C value;
	handle_t handle;	/* of its object; a key that is removed and put again has another one */
	std::uint64_t version;	/* increases with each put of the key */
};

/*
 * A table with keys, which all processes of a host share.  All of its functions can be called by many threads at
 * once, but that none is under way when it is moved or destroyed.  The store stays open as long.
 */
class table {
	struct closer {
		void operator()(struct lsm_table *table) const { lsm_table_close(table); }
	};
	std::unique_ptr<struct lsm_table, closer> opened;
public:
	/* As lsm_table_open(): table id, 0 .. 4095; LSM_RDONLY */
	table(const store &store, std::uint32_t id, unsigned int flags = 0)
	{
		struct lsm_table *out;

		detail::check(lsm_table_open(store.get(), id, flags, &out), "lsm_table_open");
		opened.reset(out);
	}
	struct lsm_table *get() const { return opened.get(); }

	/* The item of a key, if it is there */
	template <class C = std::vector<std::byte>> std::optional<item<C>> get(bytes key) const
	{
		static_assert(sizeof(typename C::value_type) == 1, "a value has any number of bytes");
		struct lsm_item found;
		item<C> got;

		/* It may become longer in between. */
		for (got.value.resize(1024);; got.value.resize(found.length)) {
			std::ptrdiff_t ret = lsm_table_get(get(), key.data(), key.size(), got.value.data(),
							   got.value.size(), &found);

			if (ret == -ENOENT)
				return {};
			detail::check(ret, "lsm_table_get");
			if (found.length > got.value.size())
				continue;
			got.value.resize(found.length);
			got.handle = found.handle;
			got.version = found.version;
			return got;
		}
	}

	/*
	 * The items of several keys, in their order.  @K: what bytes can be made of.  Memory is waited for once for
	 * several of them.
	 */
	template <class C = std::vector<std::byte>, class K = std::string>
	std::vector<std::optional<item<C>>> get_many(const std::vector<K> &keys) const
	{
		constexpr std::size_t room = 512;
		std::vector<std::optional<item<C>>> all(keys.size());
		std::vector<struct lsm_get> gets(keys.size());
		std::vector<char> values(keys.size() * room);

		for (std::size_t i = 0; i < keys.size(); i++) {
			bytes key(keys[i]);

			gets[i].key = key.data();
			gets[i].key_length = key.size();
			gets[i].value = values.data() + i * room;
			gets[i].room = room;
		}
		lsm_table_get_many(get(), gets.data(), gets.size());
		for (std::size_t i = 0; i < keys.size(); i++) {
			if (gets[i].result == -ENOENT)
				continue;
			detail::check(gets[i].result, "lsm_table_get_many");
			if (gets[i].item.length > room) {
				all[i] = get<C>(keys[i]);
				continue;
			}
			all[i].emplace();
			all[i]->value.resize(gets[i].item.length);
			if (gets[i].item.length)
				std::memcpy(all[i]->value.data(), gets[i].value, gets[i].item.length);
			all[i]->handle = gets[i].item.handle;
			all[i]->version = gets[i].item.version;
		}
		return all;
	}

	/* Returns the version.  @how: durable; new_key, old_key or expect() */
	std::uint64_t put(bytes key, bytes value, change how = {}) const
	{
		int ret = lsm_table_put(get(), key.data(), key.size(), value.data(), value.size(), how.flags,
					&how.version);

		return detail::check(ret, how.version, "lsm_table_put");
	}

	/*
	 * As lsm_table_alloc(): the object of a key, made with @value if there is none.  To call this again after a
	 * crash returns the same.  @how: durable
	 */
	handle_t alloc(bytes key, bytes value, change how = {}) const
	{
		struct lsm_item made;

		detail::check(lsm_table_alloc(get(), key.data(), key.size(), value.data(), value.size(), how.flags, &made),
			      "lsm_table_alloc");
		return made.handle;
	}

	/*
	 * Puts several values, with one wait if they are to be durable.  @items: pairs of what bytes can be made of.
	 * Returns of each 0, or the errno why it is not put.
	 */
	template <class Pairs> std::vector<int> put_many(const Pairs &items, change how = {}) const
	{
		std::vector<struct lsm_put> puts;
		std::vector<int> errors;

		for (const auto &[key, value] : items) {
			bytes from(key), to(value);
			struct lsm_put put = {};

			put.key = from.data();
			put.key_length = from.size();
			put.value = to.data();
			put.length = to.size();
			puts.push_back(put);
		}
		detail::check(lsm_table_put_many(get(), puts.data(), puts.size(), how.flags), "lsm_table_put_many");
		for (const struct lsm_put &put : puts)
			errors.push_back(-put.result);
		return errors;
	}

	/* Removes a key; false: it is not there.  @how: durable; expect() */
	bool remove(bytes key, change how = {}) const
	{
		int ret = lsm_table_remove(get(), key.data(), key.size(), how.flags, &how.version);

		if (ret == -ENOENT)
			return false;
		detail::check(ret, how.version, "lsm_table_remove");
		return true;
	}

	struct lsm_table_stat stat() const
	{
		struct lsm_table_stat found;

		detail::check(lsm_table_stat(get(), &found), "lsm_table_stat");
		return found;
	}

	/* As lsm_table_evict(): returns the bytes given back; @evicted: out, items removed */
	std::size_t evict(std::size_t room, std::uint64_t *evicted = nullptr) const
	{
		return detail::check(lsm_table_evict(get(), room, evicted), "lsm_table_evict");
	}

	/* A key and its item */
	struct entry {
		std::string key;
		item<> found;
	};

	/* The item that a note of the table is about, as it is by now; none: it was removed.  EINVAL: LSMEM_NOTE_LOST */
	std::optional<entry> noted(const struct lsmem_note &note) const
	{
		std::size_t room = 1024, length;
		struct lsm_item found;
		entry now;

		for (;;) {
			now.key.resize(LSM_KEY_MAX);
			now.found.value.resize(room);
			length = now.key.size();
			if (!detail::check(lsm_table_note(get(), &note, now.key.data(), &length, now.found.value.data(),
							  room, &found), "lsm_table_note"))
				return {};
			if (found.length <= room)
				break;
			room = found.length;	/* it may become longer in between */
		}
		now.key.resize(length);
		now.found.value.resize(found.length);
		now.found.handle = found.handle;
		now.found.version = found.version;
		return now;
	}

	/* Goes through all items, in no order: one that is there from begin() to end() is seen once. */
	class iterator {
		const table *in = nullptr;	/* null: behind the last */
		std::uint64_t cursor = 0;
		entry now;

		friend class table;
		explicit iterator(const table &from) : in(&from) { ++*this; }
	public:
		using iterator_category = std::input_iterator_tag;
		using value_type = entry;
		using difference_type = std::ptrdiff_t;
		using pointer = const entry *;
		using reference = const entry &;

		iterator() = default;
		reference operator*() const { return now; }
		pointer operator->() const { return &now; }
		iterator &operator++()
		{
			std::size_t room = 1024, length;
			struct lsm_item found;

			for (;;) {
				std::uint64_t next = cursor;

				now.key.resize(LSM_KEY_MAX);
				now.found.value.resize(room);
				length = now.key.size();
				if (!detail::check(lsm_table_next(in->get(), &next, now.key.data(), &length,
								  now.found.value.data(), room, &found),
						   "lsm_table_next")) {
					in = nullptr;
					return *this;
				}
				if (found.length <= room) {
					cursor = next;
					break;
				}
				room = found.length;	/* and once more from where it was */
			}
			now.key.resize(length);
			now.found.value.resize(found.length);
			now.found.handle = found.handle;
			now.found.version = found.version;
			return *this;
		}
		void operator++(int) { ++*this; }
		bool operator==(const iterator &other) const { return in == other.in; }
		bool operator!=(const iterator &other) const { return in != other.in; }
	};

	iterator begin() const { return iterator(*this); }
	iterator end() const { return iterator(); }
};

inline group &group::add(std::uint32_t op, const table &table, bytes key, bytes value, change how)
{
	operation one = { {}, {}, copy(key), copy(value) };

	one.item.table = table.get();
	one.item.key_length = key.size();
	one.item.length = value.size();
	one.item.op = op;
	one.item.flags = how.flags;
	one.item.version = how.version;
	operations.push_back(std::move(one));
	return *this;
}
inline group &group::put(const table &table, bytes key, bytes value, change how)
{
	return add(LSM_ITEM_PUT, table, key, value, how);
}
inline group &group::remove(const table &table, bytes key, change how)
{
	return add(LSM_ITEM_REMOVE, table, key, { nullptr, 0 }, how);
}
inline group &group::check(const table &table, bytes key, change how)
{
	return add(LSM_ITEM_CHECK, table, key, { nullptr, 0 }, how);
}

} /* namespace lsmem */
#endif /* _LSMEM_TABLE_HPP */
