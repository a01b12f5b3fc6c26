// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
//! Regions: ranges of pages that are mapped.

use std::fs::File;
use std::os::raw::{c_int, c_uint};
use std::os::unix::io::{AsRawFd, FromRawFd};
use std::ptr::{self, NonNull};
use std::{io, slice};

use crate::error::check;
use crate::{sys, Error, Handle, Result, Store};

/// How a region or a pool is made: of table id 0, with an eighth of the store's memory for its pages, unless said otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct NewRegion {
    pub(crate) flags: c_uint,
    pub(crate) buffer: u64,
}

impl NewRegion {
    /// What was changed before a [`Region::sync`] is there as a whole or not at all after a crash, within bounds that
    /// Documentation/uapi.rst says.
    pub fn atomic(mut self) -> NewRegion {
        self.flags |= sys::LSM_PAGES_ATOMIC;
        self
    }

    /// Of a table id, 0 .. 4095.
    pub fn table(mut self, table: u16) -> NewRegion {
        self.flags = self.flags & 0xffff | c_uint::from(table) << 16;
        self
    }

    /// With at most so many bytes of its pages in memory.
    pub fn buffer(mut self, bytes: u64) -> NewRegion {
        self.buffer = bytes;
        self
    }
}

/// A range of pages, which can be larger than memory, and is mapped until it is dropped. It can outlive its store.
///
/// [`Region::file`] reads and writes it by system calls; the mapping is for pointers, and for slices of programs that are
/// sure of no other writer. An access to a page that the kernel cannot fetch or has no memory for raises SIGBUS, as
/// does one behind the end after [`File::set_len`].
#[derive(Debug)]
pub struct Region {
    file: File,
    at: NonNull<u8>,
    length: usize,
    root: Handle,
    writable: bool,
}

// SAFETY: a mapping is that of all threads; what uses its bytes is unsafe.
unsafe impl Send for Region {}
unsafe impl Sync for Region {}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it was mapped so, and what is borrowed from it is gone.
        unsafe { sys::munmap(self.at.as_ptr().cast(), self.length) };
    }
}

fn error(from: &io::Error, call: &'static str) -> Error {
    Error::new(from.raw_os_error().unwrap_or(sys::EINVAL), call)
}

impl Region {
    pub(crate) fn create(store: &Store, length: u64, how: NewRegion) -> Result<Region> {
        let mut root = 0;
        // SAFETY: there is room for the root.
        let fd = unsafe { sys::lsm_pages_create(store.raw(), length, how.buffer, how.flags, &mut root) };
        let made = Handle::from_raw(root);
        check(fd as isize, "lsm_pages_create")?;
        // SAFETY: the descriptor is new, and nothing else has it.
        let file = unsafe { File::from_raw_fd(fd) };
        let root = made.ok_or_else(|| Error::new(sys::EINVAL, "lsm_pages_create"))?;
        Region::map(file, root).map_err(|error| {
            // The caller does not get the handle; the descriptor is closed by now.
            let _ = Region::remove(store, root);
            error
        })
    }

    pub(crate) fn open(store: &Store, root: Handle, buffer: u64) -> Result<Region> {
        // SAFETY: plain numbers.
        let fd = unsafe { sys::lsm_pages_open(store.raw(), root.as_raw(), buffer) };
        check(fd as isize, "lsm_pages_open")?;
        // SAFETY: the descriptor is new, and nothing else has it.
        Region::map(unsafe { File::from_raw_fd(fd) }, root)
    }

    pub(crate) fn remove(store: &Store, root: Handle) -> Result<()> {
        // SAFETY: plain numbers.
        let ret = unsafe { sys::lsm_pages_remove(store.raw(), root.as_raw()) };
        check(ret as isize, "lsm_pages_remove").map(|_| ())
    }

    fn map(file: File, root: Handle) -> Result<Region> {
        let length = file.metadata().map_err(|from| error(&from, "fstat"))?.len();
        let length = usize::try_from(length).map_err(|_| Error::new(sys::ENOMEM, "mmap"))?;
        let map = |protection: c_int| -> Result<NonNull<u8>> {
            // SAFETY: a new mapping, at an address of the kernel's choice.
            let at = unsafe {
                sys::mmap(ptr::null_mut(), length, protection, sys::MAP_SHARED, file.as_raw_fd(), 0)
            };
            match NonNull::new(at.cast::<u8>()) {
                // MAP_FAILED
                Some(at) if at.as_ptr() as usize != usize::MAX => Ok(at),
                _ => Err(error(&io::Error::last_os_error(), "mmap")),
            }
        };
        let (at, writable) = match map(sys::PROT_READ | sys::PROT_WRITE) {
            // The store was opened for reading.
            Err(error) if error.errno() == sys::EACCES => (map(sys::PROT_READ)?, false),
            at => (at?, true),
        };
        Ok(Region { file, at, length, root, writable })
    }

    /// The handle of the range, to be kept: the only way back to it, by [`Store::region`].
    pub fn root(&self) -> Handle {
        self.root
    }

    /// Bytes that are mapped.
    pub fn length(&self) -> usize {
        self.length
    }

    /// The range as a file: for reading and writing at an offset.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Where it is mapped.
    pub fn as_ptr(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    /// The bytes.
    ///
    /// # Safety
    ///
    /// As long as the slice is used, nothing writes to the range: no other process, no thread by pointers or the file.
    pub unsafe fn bytes(&self) -> &[u8] {
        unsafe { slice::from_raw_parts(self.at.as_ptr(), self.length) }
    }

    /// The bytes, to be changed. EACCES: the store was opened for reading.
    ///
    /// # Safety
    ///
    /// As long as the slice is used, nothing else reads or writes the range: no other process, no thread by pointers or
    /// the file.
    pub unsafe fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        if !self.writable {
            return Err(Error::new(sys::EACCES, "mmap"));
        }
        Ok(unsafe { slice::from_raw_parts_mut(self.at.as_ptr(), self.length) })
    }

    /// Writes all changes to the store, those by the mapping, too; of a durable store waits until they are durable.
    pub fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(|from| error(&from, "fdatasync"))
    }
}
