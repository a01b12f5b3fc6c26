// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
/*
 * liblsmem for C++17.  Documentation/cpp.rst is the overview, lsmem(3) says what each call does.
 *
 *	lsmem::store		an open store: objects, roots, scans
 *	lsmem::view		the bytes of an object in place
 *	lsmem::group		changes that are made all or none
 *	lsmem::table		keys and values
 *	lsmem::watch		notes of changes
 *	lsmem::large		objects of many GiB
 *	lsmem::region		pages that are mapped, with containers in them
 *
 * All but groups and large objects can be moved and not copied, and close what they have when they are destroyed.  What fails throws
 * std::system_error; that of a store is an lsmem::error, which knows more.  The headers are compiled into programs, so
 * they have no ABI of their own.
 */
#ifndef _LSMEM_HPP
#define _LSMEM_HPP

#include <lsmem/large.hpp>
#include <lsmem/region.hpp>
#include <lsmem/store.hpp>
#include <lsmem/table.hpp>
#include <lsmem/watch.hpp>

#endif
