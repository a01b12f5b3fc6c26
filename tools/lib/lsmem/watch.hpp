// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/* liblsmem for C++17: notes of the changes of a table.  lsmem.hpp is the header to include. */
#ifndef _LSMEM_WATCH_HPP
#define _LSMEM_WATCH_HPP

#include <poll.h>
#include <unistd.h>

#include <lsmem/store.hpp>
#include <lsmem/table.hpp>

namespace lsmem {

/*
 * Notes of the changes of a table id, from the beginning of the watch on, or behind the note that has @cursor; @entries:
 * notes that are kept for watchers, 0: 1024.  The store may be closed meanwhile.  For one thread at a time.
 */
class watch {
	int at = -1;
	bool over = false;
public:
	watch(const store &store, std::uint32_t table, std::uint64_t cursor = 0, std::uint32_t entries = 0)
	{
		at = static_cast<int>(detail::check(lsm_watch_open(store.get(), table, entries, cursor, LSM_NONBLOCK),
						    "lsm_watch_open"));
	}
	/* For table::noted() */
	explicit watch(const table &table, std::uint64_t cursor = 0, std::uint32_t entries = 0)
	{
		at = static_cast<int>(detail::check(lsm_table_watch(table.get(), entries, cursor, LSM_NONBLOCK),
						    "lsm_table_watch"));
	}
	watch(watch &&other) noexcept : at(std::exchange(other.at, -1)), over(other.over) {}
	watch &operator=(watch &&other) noexcept
	{
		std::swap(at, other.at);
		std::swap(over, other.over);
		return *this;
	}
	~watch()
	{
		if (at >= 0)
			::close(at);
	}

	/* For poll(): readable when take() has something to return, or the store is gone */
	int fd() const { return at; }
	/* The store is gone, as take() has found */
	bool ended() const { return over; }

	/* The notes that there are, at most @nr, without waiting */
	std::vector<struct lsmem_note> take(std::size_t nr = 256)
	{
		std::vector<struct lsmem_note> notes(nr);
		std::ptrdiff_t got = over ? 0 : lsm_watch_read(at, notes.data(), nr);

		if (got == -EAGAIN)
			return {};
		notes.resize(detail::check(got, "lsm_watch_read"));
		over = notes.empty();
		return notes;
	}
	/* Waits until there are some, and takes them; none: the store is gone.  EINTR: a signal came */
	std::vector<struct lsmem_note> next(std::size_t nr = 256)
	{
		struct pollfd ready = { at, POLLIN, 0 };

		for (;;) {
			std::vector<struct lsmem_note> notes = take(nr);

			if (!notes.empty() || over)
				return notes;
			if (poll(&ready, 1, -1) < 0)
				throw error(errno, "poll");
		}
	}
};

} /* namespace lsmem */
#endif /* _LSMEM_WATCH_HPP */
