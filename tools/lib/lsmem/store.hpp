// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/* liblsmem for C++17: stores, objects, views, groups, roots, scans.  lsmem.hpp is the header to include. */
#ifndef _LSMEM_STORE_HPP
#define _LSMEM_STORE_HPP

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <iterator>
#include <lsmem.h>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

namespace lsmem {

/* An object: a number that stays the same while the object lives, also after a restart.  Never 0. */
using handle_t = std::uint64_t;

/* What is thrown: the errno in code(), and what the call said nevertheless. */
class error : public std::system_error {
public:
	error(int number, const char *call) : std::system_error(number, std::generic_category(), call) {}

	/* EILSEQ, another version was expected: the present one; ETIMEDOUT: that of the change.  Else 0 */
	std::uint64_t version = 0;
	/* ETIMEDOUT of an allocation, whose durability is unknown: the object, which is there.  Else 0 */
	handle_t handle = 0;
	/* Of a group: the number of the change that cannot be made; -1: none in particular */
	std::ptrdiff_t operation = -1;
};

namespace detail {

/* What a function of the library has returned: a number, or a negative errno, which is thrown. */
inline std::size_t check(std::ptrdiff_t returned, const char *call)
{
	if (returned < 0)
		throw error(static_cast<int>(-returned), call);
	return static_cast<std::size_t>(returned);
}

/* The same of a function that tells a version. */
inline std::uint64_t check(int returned, std::uint64_t version, const char *call, handle_t handle = 0)
{
	if (!returned)
		return version;
	error failed(-returned, call);

	if (returned == -EILSEQ || returned == -ETIMEDOUT)
		failed.version = version;
	failed.handle = handle;
	throw failed;
}

/* The table id, in the flags of an allocation: what is none must not become another one. */
inline unsigned int table_flag(unsigned int flags, unsigned int table)
{
	if (flags >= LSM_TABLE(1) || table > 0xffff)	/* the kernel refuses others */
		throw error(EINVAL, "lsm_alloc");
	return LSM_TABLE(table);
}

/* enum lsm_type of a number of C++, 0: there is none; what is added to it */
template <class T> constexpr std::uint32_t type_of()
{
	if constexpr (std::is_same_v<T, double>)
		return LSM_F64;
	else if constexpr (!std::is_integral_v<T> || std::is_same_v<T, bool>)
		return 0;
	else if constexpr (sizeof(T) == 8)
		return std::is_signed_v<T> ? LSM_I64 : LSM_U64;
	else
		return sizeof(T) == 4 && std::is_unsigned_v<T> ? LSM_U32 : 0;
}
template <class T> using amount = std::conditional_t<std::is_same_v<T, double>, double, std::int64_t>;

} /* namespace detail */

/* Bytes that are given to a call: of a string, a vector, an array ..., of what is trivially copyable. */
class bytes {
	const void *at;
	std::size_t nr;
public:
	bytes(const void *data, std::size_t size) : at(data), nr(size) {}
	bytes(const char *text) : at(text), nr(std::strlen(text)) {}	/* without the zero */
	template <class C, class T = std::remove_pointer_t<decltype(std::data(std::declval<const C &>()))>,
		  class = std::enable_if_t<std::is_trivially_copyable_v<T>>>
	bytes(const C &container) : at(std::data(container)), nr(std::size(container) * sizeof(T)) {}
	const void *data() const { return at; }
	std::size_t size() const { return nr; }
};

/* How something is changed: durable | expect(version), for example; {}: in any case, and without a wait. */
struct change {
	unsigned int flags = 0;
	std::uint64_t version = 0;

	friend constexpr change operator|(change a, change b)
	{
		return { a.flags | b.flags, a.version ? a.version : b.version };
	}
};

inline constexpr change durable{ LSM_DURABLE, 0 };	/* return when it is durable */
inline constexpr change new_key{ LSM_NEW, 0 };		/* tables: only if the key is not there, else EEXIST */
inline constexpr change old_key{ LSM_OLD, 0 };		/* tables: only if it is there, else ENOENT */

/* Only if the present version is this one, older than it, newer than it; else EILSEQ. */
constexpr change expect(std::uint64_t version) { return { LSM_EXPECT, version }; }
constexpr change older(std::uint64_t version) { return { LSM_OLDER, version }; }
constexpr change newer(std::uint64_t version) { return { LSM_NEWER, version }; }

/* An object that was made or changed. */
struct made {
	handle_t handle;
	std::uint64_t version;
};

class table;
class view;

/*
 * An open store.  All of its functions can be called by many threads at once, but that none is under way when it is
 * moved or destroyed.  Views and tables are gone before.
 */
class store {
	struct closer {
		void operator()(struct lsm *lsm) const { lsm_close(lsm); }
	};
	std::unique_ptr<struct lsm, closer> lsm;
public:
	/* As lsm_open(): a device node, "name:NAME" or "uuid:UUID"; LSM_RDONLY, LSM_NO_WINDOWS */
	explicit store(const std::string &path = LSM_DEFAULT_STORE, unsigned int flags = 0)
	{
		struct lsm *opened;

		detail::check(lsm_open(path.c_str(), flags, &opened), "lsm_open");
		lsm.reset(opened);
	}
	/* What lsm_open() has opened; it belongs to the store from now on. */
	explicit store(struct lsm *opened) : lsm(opened) {}

	/* For calls of C: lsm_update(), lsm_large_write() and others, lsmem::region */
	struct lsm *get() const { return lsm.get(); }

	struct lsmem_query query() const
	{
		struct lsmem_query found;

		detail::check(lsm_query(get(), &found), "lsm_query");
		return found;
	}
	struct lsmem_stat stat() const
	{
		struct lsmem_stat found;

		detail::check(lsm_stat(get(), &found), "lsm_stat");
		return found;
	}
	void sync(std::uint32_t timeout_ms = 0) const { detail::check(lsm_sync(get(), timeout_ms), "lsm_sync"); }

	/* @table: table id, 0 .. 4095 */
	made alloc(bytes data, change how = {}, unsigned int table = 0) const
	{
		made object = {};
		int ret = lsm_alloc(get(), data.data(), data.size(), how.flags | detail::table_flag(how.flags, table),
				    &object.handle, &object.version);

		detail::check(ret, object.version, "lsm_alloc", object.handle);
		return object;
	}
	/* This and the next four return the version. */
	std::uint64_t replace(handle_t handle, bytes data, change how = {}) const
	{
		int ret = lsm_replace(get(), handle, data.data(), data.size(), how.flags, &how.version);

		return detail::check(ret, how.version, "lsm_replace");
	}
	std::uint64_t write(handle_t handle, bytes data, std::uint32_t offset, change how = {}) const
	{
		int ret = lsm_write(get(), handle, data.data(), data.size(), offset, how.flags, &how.version);

		return detail::check(ret, how.version, "lsm_write");
	}
	std::uint64_t append(handle_t handle, bytes data, change how = {}) const
	{
		int ret = lsm_append(get(), handle, data.data(), data.size(), how.flags, nullptr, &how.version);

		return detail::check(ret, how.version, "lsm_append");
	}
	std::uint64_t truncate(handle_t handle, std::size_t length, change how = {}) const
	{
		int ret = lsm_truncate(get(), handle, length, how.flags, &how.version);

		return detail::check(ret, how.version, "lsm_truncate");
	}
	std::uint64_t free(handle_t handle, change how = {}) const
	{
		int ret = lsm_free(get(), handle, how.flags, &how.version);

		return detail::check(ret, how.version, "lsm_free");
	}

	/*
	 * Adds to a number in an object, of type T: 32 bits unsigned, 64 bits, or double.  Returns the sum; EOVERFLOW: it is
	 * beyond the type.
	 */
	template <class T> T add(handle_t handle, std::uint32_t offset, detail::amount<T> amount, change how = {}) const
	{
		constexpr std::uint32_t type = detail::type_of<T>();
		static_assert(type, "uint32_t, uint64_t, int64_t or double");
		union lsm_value value;
		int ret;

		if constexpr (type == LSM_F64)
			value.f64 = amount;
		else
			value.i64 = amount;
		ret = lsm_add(get(), handle, type, offset, &value, how.flags, &how.version);
		detail::check(ret, how.version, "lsm_add");
		if constexpr (type == LSM_F64)
			return value.f64;
		else if constexpr (type == LSM_I64)
			return value.i64;
		else
			return static_cast<T>(value.u64);
	}
	/*
	 * Writes @length bytes at @offset if those at @expected are there.  False: they are not; @expected has those that
	 * are.  EINVAL: the object is too short.
	 */
	bool compare_exchange(handle_t handle, std::uint32_t offset, void *expected, const void *desired,
			      std::size_t length, change how = {}) const
	{
		int ret = lsm_compare_exchange(get(), handle, offset, expected, desired, length, how.flags,
					       &how.version);

		detail::check(ret > 0 ? 0 : ret, how.version, "lsm_compare_exchange");
		return ret > 0;
	}
	template <class T>
	bool compare_exchange(handle_t handle, std::uint32_t offset, T &expected, const T &desired, change how = {}) const
	{
		static_assert(std::is_trivially_copyable_v<T> && !std::is_pointer_v<T>, "bytes of an object");
		return compare_exchange(handle, offset, &expected, &desired, sizeof(T), how);
	}

	/* Copies up to @room bytes from @offset on.  Returns how many; @object: out, attributes, of the same version */
	std::size_t read(handle_t handle, void *to, std::size_t room, std::uint32_t offset = 0,
			 struct lsm_object *object = nullptr) const
	{
		return detail::check(lsm_read(get(), handle, to, room, offset, object), "lsm_read");
	}
	/* The object, in a vector or a string of bytes */
	template <class C = std::vector<std::byte>>
	C read(handle_t handle, struct lsm_object *object = nullptr) const
	{
		static_assert(sizeof(typename C::value_type) == 1, "an object has any number of bytes");
		struct lsm_object found;
		C to;

		/* It may become longer in between. */
		for (to.resize(1024);; to.resize(found.length)) {
			std::size_t got = read(handle, to.data(), to.size(), 0, &found);

			if (found.length > to.size())
				continue;
			to.resize(got);
			if (object)
				*object = found;
			return to;
		}
	}
	struct lsm_object attributes(handle_t handle) const
	{
		struct lsm_object object;

		read(handle, nullptr, 0, 0, &object);
		return object;
	}
	/* Defined behind class view */
	inline lsmem::view view(handle_t handle) const;

	/* As lsm_next(): up to @nr objects of a table id, -1: of all, from @cursor on; none: there are no more */
	std::vector<struct lsm_listed> next(std::uint64_t &cursor, int table = -1, std::size_t nr = 256) const
	{
		std::vector<struct lsm_listed> listed(nr);

		listed.resize(detail::check(lsm_next(get(), table, &cursor, listed.data(), nr), "lsm_next"));
		return listed;
	}

	/* What a root names, if it is there */
	std::optional<handle_t> root(const std::string &name) const
	{
		handle_t handle;
		int ret = lsm_root_get(get(), name.c_str(), &handle);

		if (ret == -ENOENT)
			return {};
		detail::check(ret, "lsm_root_get");
		return handle;
	}
	/* @handle: 0: nothing any more.  @how: durable */
	void set_root(const std::string &name, handle_t handle, change how = {}) const
	{
		detail::check(lsm_root_set(get(), name.c_str(), handle, how.flags, nullptr), "lsm_root_set");
	}
	/* The same, if it names @expected now, 0: nothing; else EILSEQ */
	void exchange_root(const std::string &name, handle_t expected, handle_t handle, change how = {}) const
	{
		detail::check(lsm_root_set(get(), name.c_str(), handle, how.flags, &expected), "lsm_root_set");
	}
	std::vector<std::pair<std::string, handle_t>> roots() const
	{
		std::vector<std::pair<std::string, handle_t>> all;
		std::vector<struct lsm_root> found(16);
		std::size_t nr;

		while ((nr = detail::check(lsm_root_list(get(), found.data(), found.size()), "lsm_root_list")) >
		       found.size())
			found.resize(nr);
		for (std::size_t i = 0; i < nr; i++)
			all.emplace_back(found[i].name, found[i].handle);
		return all;
	}

	/*
	 * As lsm_scan(): calls @batch(thread, rows, nr) by several threads at once.  @what: batch, progress and context
	 * are not used.  What @batch throws ends the scan, and is thrown again.
	 */
	template <class F> struct lsm_scan_result scan(struct lsm_scan what, F batch) const
	{
		struct caller {
			F &batch;
			std::mutex lock;
			std::exception_ptr thrown;

			static int call(void *context, unsigned int thread, const struct lsm_row *rows, std::size_t nr)
			{
				caller &self = *static_cast<caller *>(context);

				try {
					self.batch(thread, rows, nr);
					return 0;
				} catch (...) {
					std::lock_guard<std::mutex> hold(self.lock);

					if (!self.thrown)
						self.thrown = std::current_exception();
					return -ECANCELED;
				}
			}
		} self{ batch, {}, {} };
		struct lsm_scan_result result;
		int ret;

		what.batch = caller::call;
		what.progress = nullptr;
		what.context = &self;
		ret = lsm_scan(get(), &what, &result);
		if (self.thrown)
			std::rethrow_exception(self.thrown);
		detail::check(ret, "lsm_scan");
		return result;
	}
};

/* As lsm_wait_active() */
inline void wait_active(const std::string &path, int timeout_ms)
{
	detail::check(lsm_wait_active(path.c_str(), timeout_ms), "lsm_wait_active");
}

/*
 * The bytes of an object in place.  They do not change, also if the object is replaced, freed or moved, until the
 * view is ended or destroyed, or until lsm_view_bound(), whichever comes first: then the kernel revokes the view, and
 * may write other bytes there.  Only when end() has returned is it certain that what was read is right.
 */
class view {
	struct lsm *lsm;
	struct lsm_view raw;

	void drop() noexcept
	{
		if (lsm)
			lsm_view_end(lsm, &raw);
		lsm = nullptr;
	}
public:
	view(const store &from, handle_t handle) : lsm(from.get())
	{
		detail::check(lsm_view_begin(lsm, handle, &raw), "lsm_view_begin");
	}
	view(view &&other) noexcept : lsm(std::exchange(other.lsm, nullptr)), raw(other.raw) {}
	view &operator=(view &&other) noexcept
	{
		if (this != &other) {
			drop();
			raw = other.raw;
			lsm = std::exchange(other.lsm, nullptr);
		}
		return *this;
	}
	~view() { drop(); }

	/* As of the beginning of the view */
	const struct lsm_object &attributes() const { return raw.object; }
	/* The bytes in order, in 1 to LSM_VIEW_PIECES pieces; none after end() */
	std::size_t pieces() const { return lsm ? raw.nr : 0; }
	std::string_view piece(std::size_t i) const
	{
		return { static_cast<const char *>(raw.iov[i].iov_base), raw.iov[i].iov_len };
	}
	/* A copy of the bytes, in a vector or a string of bytes */
	template <class C = std::vector<std::byte>> C copy() const
	{
		static_assert(sizeof(typename C::value_type) == 1, "an object has any number of bytes");
		std::size_t at = 0;
		C to;

		to.resize(raw.object.length);
		for (std::size_t i = 0; i < pieces(); at += piece(i).size(), i++)
			std::memcpy(to.data() + at, piece(i).data(), piece(i).size());
		return to;
	}
	/* Ends the view.  Throws ECANCELED: it was revoked, and what was read may be wrong */
	void end()
	{
		if (lsm)
			detail::check(lsm_view_end(std::exchange(lsm, nullptr), &raw), "lsm_view_end");
	}
};

inline lsmem::view store::view(handle_t handle) const { return lsmem::view(*this, handle); }

/*
 * Changes of several objects, and of keys of tables, which commit() makes all or none, also after a crash.  They are
 * kept, with copies of their bytes, until then; a group that is not committed changes nothing.
 */
class group {
	/* Of a key if it has a table, else of an object */
	struct operation {
		struct lsmem_op object;
		struct lsm_item_op item;
		std::vector<std::byte> key, data;

		int result() const { return item.table ? item.result : object.result; }
		made changed() const
		{
			return item.table ? made{ item.handle, item.version } : made{ object.handle, object.version };
		}
	};
	const store *in;
	std::vector<operation> operations;

	static std::vector<std::byte> copy(bytes from)
	{
		const auto *first = static_cast<const std::byte *>(from.data());

		return { first, first + from.size() };
	}
	group &add(struct lsmem_op op, bytes from)
	{
		operations.push_back({ op, {}, {}, copy(from) });
		return *this;
	}
	inline group &add(std::uint32_t op, const table &table, bytes key, bytes value, change how);
public:
	/* The store stays where it is until commit(). */
	explicit group(const store &store) : in(&store) {}

	group &alloc(bytes from, unsigned int table = 0)
	{
		return add(lsm_op_alloc(nullptr, length_of(from), detail::table_flag(0, table)), from);
	}
	/* @how: expect() or {} */
	group &replace(handle_t handle, bytes from, change how = {})
	{
		return add(lsm_op_replace(handle, nullptr, length_of(from), how.flags, how.version), from);
	}
	group &free(handle_t handle, change how = {})
	{
		return add(lsm_op_free(handle, how.flags, how.version), { nullptr, 0 });
	}
	/* Changes nothing: the others are made only if the object is there, with expect() at that version. */
	group &check(handle_t handle, change how = {})
	{
		return add(lsm_op_check(handle, how.flags, how.version), { nullptr, 0 });
	}

	/*
	 * Keys of tables of the store, which stay open until commit(); defined behind class table.  @how: new_key, old_key,
	 * expect() or {}
	 */
	inline group &put(const table &table, bytes key, bytes value, change how = {});
	/* The key must be there.  @how: expect() or {} */
	inline group &remove(const table &table, bytes key, change how = {});
	/* Changes nothing: the others are made only if the key is there, with expect() at that version, with new_key is not. */
	inline group &check(const table &table, bytes key, change how = {});

	struct committed {
		std::vector<made> objects;	/* of each change, in order; of a key: of its item, 0: there is none */
		bool certain;			/* false: it was to be durable, and whether it is, is not known */
	};

	/*
	 * Makes all changes, or throws and has made none: then error::operation is the number of the one that cannot
	 * be made.  The group is empty afterwards, in either case.  @how: durable or {}
	 */
	committed commit(change how = {})
	{
		std::vector<operation> all = std::move(operations);
		committed done{ {}, true };
		bool carried_out = true;
		int ret;

		operations.clear();
		ret = make(all, how.flags);
		for (const operation &one : all) {
			done.objects.push_back(one.changed());
			carried_out = carried_out && !one.result();
		}
		if (ret && (ret != -ETIMEDOUT || !carried_out))
			fail(ret, all);
		done.certain = !ret;
		return done;
	}
private:
	static std::uint32_t length_of(bytes from)
	{
		/* What is longer than an object the kernel refuses. */
		return from.size() < UINT32_MAX ? static_cast<std::uint32_t>(from.size()) : UINT32_MAX;
	}

	/* As lsm_table_group() */
	int make(std::vector<operation> &all, unsigned int flags) const
	{
		std::vector<struct lsmem_op> objects;
		std::vector<struct lsm_item_op> items;
		std::size_t object = 0, item = 0;
		int ret;

		for (operation &one : all) {
			if (one.item.table) {
				one.item.key = one.key.data();
				one.item.value = one.data.data();
				items.push_back(one.item);
				continue;
			}
			if (!one.data.empty())
				one.object.data = reinterpret_cast<std::uintptr_t>(one.data.data());
			objects.push_back(one.object);
		}
		ret = lsm_table_group(in->get(), items.data(), items.size(), objects.data(), objects.size(), flags);
		for (operation &one : all) {
			if (one.item.table)
				one.item = items[item++];
			else
				one.object = objects[object++];
		}
		return ret;
	}

	[[noreturn]] static void fail(int ret, const std::vector<operation> &failed_operations)
	{
		error failed(-ret, "lsm_table_group");

		for (std::size_t i = 0; i < failed_operations.size() && failed.operation < 0; i++)
			if (failed_operations[i].result() == ret)
				failed.operation = static_cast<std::ptrdiff_t>(i);
		if (ret == -EILSEQ && failed.operation >= 0)
			failed.version = failed_operations[static_cast<std::size_t>(failed.operation)].changed().version;
		throw failed;
	}
};

/* An aggregate: what lsm_scan_aggregate() has computed */
class aggregate {
	struct closer {
		void operator()(struct lsm_aggregate *made) const { lsm_aggregate_destroy(made); }
	};
	std::unique_ptr<struct lsm_aggregate, closer> made;
public:
	/* Scans the store; @what: batch and context are not used */
	aggregate(const store &store, const struct lsm_scan &what, const struct lsm_question &question)
	{
		struct lsm_aggregate *out;

		detail::check(lsm_scan_aggregate(store.get(), &what, &question, &out, nullptr), "lsm_scan_aggregate");
		made.reset(out);
	}
	struct lsm_aggregate *get() const { return made.get(); }
	struct lsm_counts counts() const
	{
		struct lsm_counts found;

		detail::check(lsm_aggregate_counts(get(), &found), "lsm_aggregate_counts");
		return found;
	}
	struct lsm_total total(std::size_t measure) const
	{
		struct lsm_total found;

		detail::check(lsm_aggregate_total(get(), measure, &found), "lsm_aggregate_total");
		return found;
	}
};

} /* namespace lsmem */
#endif /* _LSMEM_STORE_HPP */
