// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * Extents of a range of pages: boundary tags (Knuth), which are beside the pages, and lists of free extents
 * by size.  Two neighbours are never both free.
 */
#include <errno.h>
#include <stddef.h>
#include <sys/mman.h>

#include "extents.h"

/**
 * struct extent - the tag of an extent's first page; of its last page, if that is another, @pages and @used
 * @pages: of the extent
 * @used: is it in use?
 * @next: of a free extent: the first page of another one in its list, or EXTENTS_NONE
 * @previous: the same
 */
struct extent {
	uint32_t pages;
	uint32_t used;
	uint32_t next;
	uint32_t previous;
};

static unsigned int bin_of(uint32_t pages)
{
	return 31 - __builtin_clz(pages);
}

static void tag(struct extents *all, uint32_t first, uint32_t pages, bool used)
{
	struct extent *last = &all->tags[first + pages - 1];

	all->tags[first].pages = pages;
	all->tags[first].used = used;
	last->pages = pages;
	last->used = used;
}

static void add_free(struct extents *all, uint32_t first, uint32_t pages)
{
	uint32_t *bin = &all->bins[bin_of(pages)];

	tag(all, first, pages, false);
	all->tags[first].next = *bin;
	all->tags[first].previous = EXTENTS_NONE;
	if (*bin != EXTENTS_NONE)
		all->tags[*bin].previous = first;
	*bin = first;
}

static void remove_free(struct extents *all, uint32_t first)
{
	struct extent *extent = &all->tags[first];

	if (extent->next != EXTENTS_NONE)
		all->tags[extent->next].previous = extent->previous;
	if (extent->previous != EXTENTS_NONE)
		all->tags[extent->previous].next = extent->next;
	else
		all->bins[bin_of(extent->pages)] = extent->next;
}

/**
 * extents_init - make one free extent of all pages
 * @all: out
 * @pages: how many, 1 .. EXTENTS_NONE - 1
 *
 * Return: 0; -ENOMEM: there are no addresses for the tags.
 */
int extents_init(struct extents *all, uint32_t pages)
{
	unsigned int i;

	all->tags = mmap(NULL, pages * sizeof(struct extent), PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (all->tags == MAP_FAILED)
		return -errno;
	all->pages = pages;
	all->used = 0;
	for (i = 0; i < EXTENTS_BINS; i++)
		all->bins[i] = EXTENTS_NONE;
	add_free(all, 0, pages);
	return 0;
}

/* A free extent of at least @pages pages, a small one, or EXTENTS_NONE. */
static uint32_t find(const struct extents *all, uint32_t pages)
{
	uint32_t first = all->bins[bin_of(pages)];
	unsigned int i;

	for (; first != EXTENTS_NONE; first = all->tags[first].next)
		if (all->tags[first].pages >= pages)
			return first;
	for (i = bin_of(pages) + 1; i < EXTENTS_BINS; i++)
		if (all->bins[i] != EXTENTS_NONE)
			return all->bins[i];
	return EXTENTS_NONE;
}

/**
 * extents_take - take free pages
 * @all: extents
 * @pages: how many, at least 1
 * @align: a power of two
 * @skew: the first page is this, modulo @align
 *
 * Return: the first page; EXTENTS_NONE: no free extent is large enough.
 */
uint32_t extents_take(struct extents *all, uint32_t pages, uint32_t align, uint32_t skew)
{
	uint32_t first, begin, size;

	if (pages > all->pages || align - 1 > all->pages - pages)
		return EXTENTS_NONE;
	first = find(all, pages + align - 1);
	if (first == EXTENTS_NONE)
		return EXTENTS_NONE;
	remove_free(all, first);
	size = all->tags[first].pages;
	begin = first + ((skew - first) & (align - 1));
	if (begin > first)
		add_free(all, first, begin - first);
	if (begin + pages < first + size)
		add_free(all, begin + pages, first + size - begin - pages);
	tag(all, begin, pages, true);
	all->used += pages;
	return begin;
}

/**
 * extents_give - free an extent that is in use
 * @all: extents
 * @first: its first page
 */
void extents_give(struct extents *all, uint32_t first)
{
	uint32_t pages = all->tags[first].pages, before, behind = first + pages;

	all->used -= pages;
	all->tags[first].used = false;	/* no extent in use begins here any more, also if it is merged */
	if (behind < all->pages && !all->tags[behind].used) {
		remove_free(all, behind);
		pages += all->tags[behind].pages;
	}
	if (first && !all->tags[first - 1].used) {
		before = all->tags[first - 1].pages;
		first -= before;
		remove_free(all, first);
		pages += before;
	}
	add_free(all, first, pages);
}

/**
 * extents_size - how many pages an extent has
 * @all: extents
 * @first: its first page
 *
 * Return: pages; 0: it is not in use.
 */
uint32_t extents_size(const struct extents *all, uint32_t first)
{
	return all->tags[first].used ? all->tags[first].pages : 0;
}

/**
 * extents_grow - lengthen an extent in use where it is
 * @all: extents
 * @first: its first page
 * @pages: how many it is to have, more than now
 *
 * Return: true; false: the pages behind it are not free.
 */
bool extents_grow(struct extents *all, uint32_t first, uint32_t pages)
{
	uint32_t old = all->tags[first].pages, behind = first + old, there;

	if (behind >= all->pages || all->tags[behind].used)
		return false;
	there = all->tags[behind].pages;
	if (old + there < pages)
		return false;
	remove_free(all, behind);
	if (old + there > pages)
		add_free(all, first + pages, old + there - pages);
	tag(all, first, pages, true);
	all->used += pages - old;
	return true;
}

/**
 * extents_split - make two of an extent in use
 * @all: extents
 * @first: its first page
 * @pages: how many stay with it, fewer than it has, at least 1
 *
 * Return: the first page of the other.
 */
uint32_t extents_split(struct extents *all, uint32_t first, uint32_t pages)
{
	uint32_t old = all->tags[first].pages;

	tag(all, first, pages, true);
	tag(all, first + pages, old - pages, true);
	return first + pages;
}
