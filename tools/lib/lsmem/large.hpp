// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/* liblsmem for C++17: objects of many GiB.  lsmem.hpp is the header to include. */
#ifndef _LSMEM_LARGE_HPP
#define _LSMEM_LARGE_HPP

#include <lsmem/store.hpp>

namespace lsmem {

/*
 * A large object (lsm_large_create()): a write is there whole or not at all, also after a crash, and what is read is of
 * one version.  It is a name for the object: copies mean the same one, and none of them frees it.  The store stays where
 * it is.  All functions can be called by many threads at once.
 */
class large {
	const store *in;
	handle_t number;
public:
	/* One that is there */
	large(const store &store, handle_t handle) : in(&store), number(handle) {}

	/* One without bytes.  @table: table id, 0 .. 4095; @part: bytes of a part, 0: 256 KiB */
	static large create(const store &store, unsigned int table = 0, std::uint32_t part = 0)
	{
		handle_t handle;

		detail::check(lsm_large_create(store.get(), part, detail::table_flag(0, table), &handle),
			      "lsm_large_create");
		return { store, handle };
	}

	handle_t handle() const { return number; }

	/* Copies up to @room bytes from @offset on.  Returns how many; @found: out, attributes, of the same version */
	std::size_t read(void *to, std::size_t room, std::uint64_t offset = 0, struct lsm_large *found = nullptr) const
	{
		return detail::check(lsm_large_read(in->get(), number, to, room, offset, found), "lsm_large_read");
	}
	/* Up to @room bytes from @offset on, in a vector or a string of bytes */
	template <class C = std::vector<std::byte>>
	C read(std::uint64_t offset, std::size_t room, struct lsm_large *found = nullptr) const
	{
		static_assert(sizeof(typename C::value_type) == 1, "a large object has any number of bytes");
		std::uint64_t length = attributes().length;
		C to;

		/* What it gets in between may be left out. */
		to.resize(offset < length && room > length - offset ? static_cast<std::size_t>(length - offset) : room);
		to.resize(read(to.data(), to.size(), offset, found));
		return to;
	}
	struct lsm_large attributes() const
	{
		struct lsm_large found;

		read(nullptr, 0, 0, &found);
		return found;
	}

	/* This and the next two return the version.  @how: expect() or {}: of a durable store each is durable */
	std::uint64_t write(bytes data, std::uint64_t offset, change how = {}) const
	{
		int ret = lsm_large_write(in->get(), number, data.data(), data.size(), offset, how.flags, &how.version);

		return detail::check(ret, how.version, "lsm_large_write");
	}
	/* @offset: out, of the first byte */
	std::uint64_t append(bytes data, change how = {}, std::uint64_t *offset = nullptr) const
	{
		int ret = lsm_large_append(in->get(), number, data.data(), data.size(), how.flags, offset, &how.version);

		return detail::check(ret, how.version, "lsm_large_append");
	}
	std::uint64_t free(change how = {}) const
	{
		int ret = lsm_large_free(in->get(), number, how.flags, &how.version);

		return detail::check(ret, how.version, "lsm_large_free");
	}

	/* As lsm_large_sweep(): frees what writers that ended in the middle have left in a table */
	static struct lsm_large_report sweep(const store &store, unsigned int table = 0)
	{
		struct lsm_large_report report;

		detail::check(lsm_large_sweep(store.get(), table, &report), "lsm_large_sweep");
		return report;
	}
};

} /* namespace lsmem */
#endif /* _LSMEM_LARGE_HPP */
