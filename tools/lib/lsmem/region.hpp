// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem for C++17: containers in a region of pages, which are there again when it is reopened.
 *
 *	lsmem::region		a region that is mapped, with a heap in it
 *	lsmem::ptr<T>		a pointer that stays right wherever the region is mapped
 *	lsmem::allocator<T>	an allocator of the standard library, from a region's heap
 *
 *	using numbers = std::vector<int, lsmem::allocator<int>>;
 *
 *	uint64_t root;
 *	auto region = lsmem::region::create(store, 1 << 30, LSM_PAGES_ATOMIC, root);
 *	auto &all = region.root<numbers>(region.get_allocator<int>());
 *	all.push_back(1);
 *	region.sync();
 *
 * root() returns the same object after lsmem::region::open(store, root).  What is not in the region must not
 * be pointed to from it; functions, virtual functions among them, are at other addresses in another process.
 *
 * Some containers keep plain pointers, whatever the allocator's pointers are: std::map, std::set and
 * std::list of libstdc++ 14 and earlier.  So open() maps a region where it was created, if that address is
 * free; if moved() is true, do not use such containers.  std::vector and lsmem::ptr are right in any case.
 *
 * Errors are exceptions: std::system_error of the region, std::bad_alloc of the heap.  Nothing here has a
 * lock: threads that change a region's heap, or a container, take turns.
 */
#ifndef _LSMEM_REGION_HPP
#define _LSMEM_REGION_HPP

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <lsmem.h>
#include <memory>
#include <new>
#include <sys/mman.h>
#include <system_error>
#include <type_traits>
#include <unistd.h>
#include <utility>

namespace lsmem {

/*
 * A pointer that keeps how far away its target is from itself.  Both are in the same mapping, or both are
 * in this process only.  Zeroes are null, so a page that was never written to has null pointers; one
 * that points to itself (a list of no elements) is not null: distances from 0 on are kept plus 1.
 */
template <class T> class ptr {
	std::intptr_t distance = 0;
	void set(const volatile void *to)
	{
		std::intptr_t d = reinterpret_cast<std::intptr_t>(to) -
				  reinterpret_cast<std::intptr_t>(this);
		distance = !to ? 0 : d >= 0 ? d + 1 : d;
	}
public:
	using element_type = T;
	using value_type = std::remove_cv_t<T>;
	using difference_type = std::ptrdiff_t;
	using pointer = ptr;
	using reference = std::add_lvalue_reference_t<T>;
	using iterator_category = std::random_access_iterator_tag;

	ptr() = default;
	ptr(std::nullptr_t) {}
	ptr(T *to) { set(to); }
	ptr(const ptr &other) { set(other.get()); }
	template <class U, class = std::enable_if_t<std::is_convertible_v<U *, T *>>>
	ptr(const ptr<U> &other) { set(static_cast<T *>(other.get())); }
	/* As static_cast<T *>(): from void, from a base class */
	template <class U, class = decltype(static_cast<T *>(std::declval<U *>())),
		  class = std::enable_if_t<!std::is_convertible_v<U *, T *>>>
	explicit ptr(const ptr<U> &other) { set(static_cast<T *>(other.get())); }
	ptr &operator=(const ptr &other) { set(other.get()); return *this; }

	template <class U = T> static ptr pointer_to(U &to) { return ptr(std::addressof(to)); }
	T *get() const
	{
		std::intptr_t to = reinterpret_cast<std::intptr_t>(this) + distance - (distance > 0);

		return distance ? reinterpret_cast<T *>(to) : nullptr;
	}
	operator T *() const { return get(); }
	T *operator->() const { return get(); }
	reference operator*() const { return *get(); }
	ptr &operator+=(difference_type n) { set(get() + n); return *this; }
	ptr &operator-=(difference_type n) { set(get() - n); return *this; }
	ptr &operator++() { return *this += 1; }
	ptr &operator--() { return *this -= 1; }
	ptr operator++(int) { ptr old(*this); ++*this; return old; }
	ptr operator--(int) { ptr old(*this); --*this; return old; }
	friend ptr operator+(const ptr &p, difference_type n) { return ptr(p.get() + n); }
	friend ptr operator-(const ptr &p, difference_type n) { return ptr(p.get() - n); }
	/* p[n], n + p, p - q and comparisons are those of plain pointers, by the conversion. */
};

/*
 * The heap of a region, in its first page.  A block has 2^k bytes, at least 16, and is aligned to its
 * size, up to 4096: so a block of up to a page is in one page.  Free blocks are in a list for each k, linked
 * by offsets from the beginning of the region in their first eight bytes; if the list is empty, a block
 * comes from the end of what has been used.  Blocks are not joined, and pages of free blocks stay.
 */
class heap {
	static constexpr std::uint64_t magic_value = 0x31504145484d534cull;	/* "LSMHEAP1" */
	static constexpr unsigned int smallest = 4, largest = 43;	/* k */
	static constexpr std::size_t page = 4096;

	std::uint64_t magic;
	std::uint64_t length;		/* of the region, bytes */
	std::uint64_t address;		/* where the region was first mapped */
	std::uint64_t end;		/* offset of the first byte that was never used */
	std::uint64_t root, root_bytes;	/* offset, size of the object of region::root(); 0: none */
	std::uint64_t free[largest + 1];	/* offset of the first free block of 2^k bytes; 0: none */

	friend class region;
	char *at(std::uint64_t offset) { return reinterpret_cast<char *>(this) + offset; }

	static unsigned int size_class(std::size_t bytes)
	{
		unsigned int k = smallest;

		while (k <= largest && std::size_t(1) << k < bytes)
			k++;
		if (k > largest)
			throw std::bad_alloc();
		return k;
	}
public:
	void *allocate(std::size_t bytes)
	{
		unsigned int k = size_class(bytes);
		std::uint64_t size = std::uint64_t(1) << k, align = size < page ? size : page;
		std::uint64_t from = free[k];

		if (from) {
			free[k] = *reinterpret_cast<std::uint64_t *>(at(from));
			return at(from);
		}
		from = (end + align - 1) & ~(align - 1);
		if (from > length || size > length - from)
			throw std::bad_alloc();
		end = from + size;
		return at(from);
	}

	/* @bytes: as of allocate() */
	void deallocate(void *block, std::size_t bytes) noexcept
	{
		unsigned int k = size_class(bytes);

		*static_cast<std::uint64_t *>(block) = free[k];
		free[k] = static_cast<std::uint64_t>(static_cast<char *>(block) - at(0));
	}

	/* Bytes of the region that have been used, free blocks among them */
	std::uint64_t used() const { return end; }
};

static_assert(sizeof(heap) <= 4096);

/* Allocates from a heap.  Do not swap containers of different heaps. */
template <class T> struct allocator {
	using value_type = T;
	using pointer = ptr<T>;
	static_assert(alignof(T) <= 4096, "a block has no larger alignment than a page");
	ptr<heap> from;

	explicit allocator(heap &h) : from(&h) {}
	template <class U> allocator(const allocator<U> &other) : from(other.from) {}

	static std::size_t bytes(std::size_t n)
	{
		if (n > PTRDIFF_MAX / sizeof(T))
			throw std::bad_array_new_length();
		return n * sizeof(T) > alignof(T) ? n * sizeof(T) : alignof(T);
	}

	pointer allocate(std::size_t n) { return static_cast<T *>(from->allocate(bytes(n))); }
	void deallocate(pointer block, std::size_t n) { from->deallocate(block.get(), bytes(n)); }

	template <class U> bool operator==(const allocator<U> &a) const { return from == a.from; }
	template <class U> bool operator!=(const allocator<U> &a) const { return from != a.from; }
};

/* A region that is mapped, for reading and writing.  It is closed when it is destroyed. */
class region {
	int fd = -1;
	heap *base = nullptr;
	std::size_t length = 0;

	[[noreturn]] static void fail(int error)
	{
		throw std::system_error(error, std::generic_category(), "lsmem::region");
	}

	explicit region(int descriptor) : fd(descriptor)
	{
		if (fd < 0)
			fail(-fd);
	}

	void map(std::uint64_t address)
	{
		void *at = mmap(reinterpret_cast<void *>(address), length, PROT_READ | PROT_WRITE,
				MAP_SHARED, fd, 0);

		if (at == MAP_FAILED)
			fail(errno);
		base = static_cast<heap *>(at);
	}
public:
	/* As lsm_pages_create(); @length: at least a page.  @flags: not LSM_PAGES_POOL. */
	static region create(struct lsm *store, std::uint64_t length, unsigned int flags,
			     std::uint64_t &root, std::uint64_t buffer = 0)
	{
		if (length < sizeof(heap) || length > SIZE_MAX || flags & LSM_PAGES_POOL)
			fail(EINVAL);
		region made(lsm_pages_create(store, length, buffer, flags, &root));

		made.length = length;
		try {	/* a hint: one of 1024 addresses that processes seldom use */
			made.map((std::uint64_t(1) << 44) + ((root & 1023) << 36));
		} catch (...) {
			{ region closed(std::move(made)); }
			lsm_pages_remove(store, root);
			throw;
		}
		made.base->length = length;
		made.base->address = reinterpret_cast<std::uintptr_t>(made.base);
		made.base->end = sizeof(heap);
		made.base->magic = heap::magic_value;
		return made;
	}

	/* As lsm_pages_open(); EBADMSG: create() has not made it. */
	static region open(struct lsm *store, std::uint64_t root, std::uint64_t buffer = 0)
	{
		region made(lsm_pages_open(store, root, buffer));
		heap head;

		if (pread(made.fd, &head, sizeof(head), 0) != ssize_t(sizeof(head)) ||
		    head.magic != heap::magic_value)
			fail(EBADMSG);
		made.length = head.length;
		made.map(head.address);
		return made;
	}

	region(region &&other) noexcept { *this = std::move(other); }
	region &operator=(region &&other) noexcept
	{
		std::swap(fd, other.fd);
		std::swap(base, other.base);
		std::swap(length, other.length);
		return *this;
	}
	~region()
	{
		if (base)
			munmap(base, length);
		if (fd >= 0)
			close(fd);
	}

	/* As lsm_pool_sync() */
	void sync()
	{
		if (fsync(fd))
			fail(errno);
	}

	/* Is the region at another address than where it was created? */
	bool moved() const { return base->address != reinterpret_cast<std::uintptr_t>(base); }

	heap &get_heap() { return *base; }
	template <class T> allocator<T> get_allocator() { return allocator<T>(*base); }

	/* The region's root object, which the first call makes of @args.  @T: the same in all calls */
	template <class T, class... Args> T &root(Args &&...args)
	{
		if (!base->root) {
			T *made = get_allocator<T>().allocate(1);

			new (made) T(std::forward<Args>(args)...);
			base->root_bytes = sizeof(T);
			base->root = static_cast<std::uint64_t>(reinterpret_cast<char *>(made) - base->at(0));
		} else if (base->root_bytes != sizeof(T)) {
			fail(EBADMSG);
		}
		return *std::launder(reinterpret_cast<T *>(base->at(base->root)));
	}
};

} /* namespace lsmem */
#endif /* _LSMEM_REGION_HPP */
