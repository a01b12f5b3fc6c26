// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
//! Pools: objects in pages of their own, which are written to in place.

use std::os::raw::c_void;
use std::ptr::{self, NonNull};
use std::slice;

use crate::error::check;
use crate::{sys, Error, Handle, NewRegion, Result, Store};

const PAGE: u64 = 4096;

/// A pool: objects of 1 to 4096 bytes, each in a page of its own, which is mapped until the pool is dropped. Programs
/// keep the numbers of pages, or handles. It can outlive its store.
///
/// An access to the page of an object that is gone, or that the kernel cannot fetch or has no memory for, raises SIGBUS.
#[derive(Debug)]
pub struct Pool {
    raw: NonNull<sys::lsm_pool>,
    root: Handle,
}

// SAFETY: the calls are system calls and atomic changes, and lsm_pool_close() is called by Drop alone; what uses bytes is
// unsafe.
unsafe impl Send for Pool {}
unsafe impl Sync for Pool {}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: what is borrowed from the pool is gone.
        unsafe { sys::lsm_pool_close(self.raw.as_ptr()) }
    }
}

impl Pool {
    pub(crate) fn create(store: &Store, objects: u64, how: NewRegion) -> Result<Pool> {
        let (mut root, mut raw) = (0, ptr::null_mut());
        // SAFETY: there is room for root and pool.
        let ret = unsafe {
            let length = objects.saturating_mul(PAGE);
            sys::lsm_pool_create(store.raw(), length, how.buffer, how.flags, &mut root, &mut raw)
        };
        check(ret as isize, "lsm_pool_create")?;
        Pool::whole(raw, Handle::from_raw(root), "lsm_pool_create")
    }

    pub(crate) fn open(store: &Store, root: Handle, buffer: u64) -> Result<Pool> {
        let mut raw = ptr::null_mut();
        // SAFETY: there is room for the pool.
        let ret = unsafe { sys::lsm_pool_open(store.raw(), root.as_raw(), buffer, &mut raw) };
        check(ret as isize, "lsm_pool_open")?;
        Pool::whole(raw, Some(root), "lsm_pool_open")
    }

    fn whole(raw: *mut sys::lsm_pool, root: Option<Handle>, call: &'static str) -> Result<Pool> {
        match (NonNull::new(raw), root) {
            (Some(raw), Some(root)) => Ok(Pool { raw, root }),
            _ => Err(Error::new(sys::EINVAL, call)),
        }
    }

    /// The handle of the pool, to be kept: the only way back to it, by [`Store::pool`].
    pub fn root(&self) -> Handle {
        self.root
    }

    /// Allocates an object of zeroes, of 1 to 4096 bytes. Returns the number of its page. ENOSPC: no page is free; those of
    /// freed objects are after [`Pool::sync`].
    pub fn alloc(&self, length: usize) -> Result<u64> {
        let mut object = ptr::null_mut();
        // SAFETY: there is room for the address.
        let ret = unsafe { sys::lsm_pool_alloc(self.raw.as_ptr(), length, &mut object) };
        check(ret as isize, "lsm_pool_alloc")?;
        self.number(object, "lsm_pool_alloc")
    }

    /// Frees the object of a page.
    pub fn free(&self, page: u64) -> Result<()> {
        let object = self.object(page, "lsm_pool_free")?;
        // SAFETY: an address in the pool.
        check(unsafe { sys::lsm_pool_free(self.raw.as_ptr(), object) } as isize, "lsm_pool_free").map(|_| ())
    }

    /// The handle of the object of a page, for other clients: what they read is that of the last [`Pool::sync`].
    pub fn handle(&self, page: u64) -> Result<Handle> {
        let (object, mut handle) = (self.object(page, "lsm_pool_handle")?, 0);
        // SAFETY: an address in the pool, and room for the handle.
        let ret = unsafe { sys::lsm_pool_handle(self.raw.as_ptr(), object, &mut handle) };
        check(ret as isize, "lsm_pool_handle")?;
        Handle::from_raw(handle).ok_or_else(|| Error::new(sys::ENOENT, "lsm_pool_handle"))
    }

    /// The length of the object of a page; 0: another client has freed it. ENOENT: there is none.
    pub fn length(&self, page: u64) -> Result<usize> {
        let object = self.object(page, "lsm_pool_length")?;
        // SAFETY: an address in the pool.
        check(unsafe { sys::lsm_pool_length(self.raw.as_ptr(), object) }, "lsm_pool_length")
    }

    /// The pages that have objects, in their order.
    pub fn pages(&self) -> Pages<'_> {
        Pages { pool: self, object: ptr::null_mut(), over: false }
    }

    /// Writes all changes to the store; of a durable store waits until they are durable.
    pub fn sync(&self) -> Result<()> {
        // SAFETY: the pool is open.
        check(unsafe { sys::lsm_pool_sync(self.raw.as_ptr()) } as isize, "lsm_pool_sync").map(|_| ())
    }

    /// Where a page is mapped, whether it has an object or not. `None`: it is behind the end.
    pub fn as_ptr(&self, page: u64) -> Option<NonNull<u8>> {
        // SAFETY: the pool is open; addresses are computed only.
        NonNull::new(unsafe { sys::lsm_pool_pointer(self.raw.as_ptr(), page) }.cast())
    }

    /// The bytes of the object of a page.
    ///
    /// # Safety
    ///
    /// As long as the slice is used, nothing writes to the object: no other process, no thread.
    pub unsafe fn bytes(&self, page: u64) -> Result<&[u8]> {
        let (at, length) = self.place(page)?;
        Ok(unsafe { slice::from_raw_parts(at, length) })
    }

    /// The bytes, to be changed. In a pool of a store that was opened for reading a change raises SIGSEGV.
    ///
    /// # Safety
    ///
    /// As long as the slice is used, nothing else reads or writes the object: no other process, no thread, no other slice.
    #[allow(clippy::mut_from_ref)]
    pub unsafe fn bytes_mut(&self, page: u64) -> Result<&mut [u8]> {
        let (at, length) = self.place(page)?;
        Ok(unsafe { slice::from_raw_parts_mut(at, length) })
    }

    fn place(&self, page: u64) -> Result<(*mut u8, usize)> {
        Ok((self.object(page, "lsm_pool_length")?.cast(), self.length(page)?))
    }

    fn object(&self, page: u64, call: &'static str) -> Result<*mut c_void> {
        self.as_ptr(page).map(|at| at.as_ptr().cast()).ok_or_else(|| Error::new(sys::EINVAL, call))
    }

    fn number(&self, object: *const c_void, call: &'static str) -> Result<u64> {
        // SAFETY: the pool is open; numbers are computed only.
        check(unsafe { sys::lsm_pool_page(self.raw.as_ptr(), object) } as isize, call).map(|page| page as u64)
    }
}

/// Pages of a pool, by [`Pool::pages`].
#[derive(Debug)]
pub struct Pages<'pool> {
    pool: &'pool Pool,
    object: *mut c_void,
    over: bool,
}

impl Iterator for Pages<'_> {
    type Item = Result<u64>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        // SAFETY: the address is null or that of a page of the pool.
        let ret = unsafe { sys::lsm_pool_next(self.pool.raw.as_ptr(), &mut self.object) };
        let done = check(ret as isize, "lsm_pool_next");
        self.over = done.is_err() || self.object.is_null();
        match done {
            Err(error) => Some(Err(error)),
            Ok(_) if self.over => None,
            Ok(_) => Some(self.pool.number(self.object, "lsm_pool_next")),
        }
    }
}
