// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
//! Large objects.

use std::os::raw::c_uint;

use crate::error::{check, check_version};
use crate::{sys, Error, Handle, Result, Store};

/// A large object: of more bytes than an object can have, up to 128 GiB, in parts.
///
/// A write is there as a whole or not at all, also after a crash, and a reader sees bytes of one version. In a durable
/// store a write is durable when it returns. An object is written by these calls alone; its handle is kept with
/// [`Large::handle`], and [`Store::large`] leads back to it.
#[derive(Clone, Copy, Debug)]
pub struct Large<'store> {
    store: &'store Store,
    handle: Handle,
}

/// Attributes of a large object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeObject {
    /// Changes with each write.
    pub version: u64,
    /// Bytes.
    pub length: u64,
    /// Most bytes of a part.
    pub part: u32,
    /// Table id that it was created with.
    pub table: u32,
}

/// What [`Store::sweep_large`] has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// Large objects.
    pub objects: u64,
    /// Parts that they have.
    pub parts: u64,
    /// Parts that no object has, and that were freed.
    pub orphans: u64,
    /// Large objects that lack a part, or name one of another object.
    pub broken: u64,
    /// Objects that are on backups only, and were not seen.
    pub unseen: u64,
}

fn expect(version: Option<u64>) -> (c_uint, u64) {
    (version.map_or(0, |_| sys::LSM_EXPECT), version.unwrap_or(0))
}

impl<'store> Large<'store> {
    pub(crate) fn new(store: &'store Store, handle: Handle) -> Large<'store> {
        Large { store, handle }
    }

    pub(crate) fn create(store: &'store Store, table: u16, part: u32) -> Result<Large<'store>> {
        let mut handle = 0;
        let flags = c_uint::from(table) << 16;
        // SAFETY: there is room for the handle.
        let ret = unsafe { sys::lsm_large_create(store.raw(), part, flags, &mut handle) };
        let made = Handle::from_raw(handle);
        check(ret as isize, "lsm_large_create").map_err(|mut error| {
            if error.is_timeout() {
                error.handle = made;
            }
            error
        })?;
        made.map(|handle| Large { store, handle }).ok_or_else(|| Error::new(sys::EINVAL, "lsm_large_create"))
    }

    pub(crate) fn sweep(store: &Store, table: u16) -> Result<Swept> {
        let mut found = sys::lsm_large_report::default();
        // SAFETY: there is room for the figures.
        let ret = unsafe { sys::lsm_large_sweep(store.raw(), u32::from(table), &mut found) };
        check(ret as isize, "lsm_large_sweep")?;
        Ok(Swept {
            objects: found.objects,
            parts: found.parts,
            orphans: found.orphans,
            broken: found.broken,
            unseen: found.unseen,
        })
    }

    /// The handle, to be kept.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// Copies bytes from `offset` on, which is at most the length. Returns how many, and the attributes; all of one
    /// version.
    pub fn read_into(&self, to: &mut [u8], offset: u64) -> Result<(usize, LargeObject)> {
        let mut found = sys::lsm_large::default();
        // SAFETY: there is room for so many bytes.
        let ret = unsafe {
            sys::lsm_large_read(
                self.store.raw(),
                self.handle.as_raw(),
                to.as_mut_ptr().cast(),
                to.len(),
                offset,
                &mut found,
            )
        };
        let bytes = check(ret, "lsm_large_read")?;
        let sys::lsm_large { version, length, part, table, .. } = found;
        Ok((bytes, LargeObject { version, length, part, table }))
    }

    /// Attributes.
    pub fn object(&self) -> Result<LargeObject> {
        self.read_into(&mut [], 0).map(|(_, object)| object)
    }

    /// Writes to the object, of any version or of one, or behind its end: what is between is zeroes, which take no
    /// memory. Returns the version.
    pub fn write(&self, data: &[u8], offset: u64, version: Option<u64>) -> Result<u64> {
        let (flags, mut version) = expect(version);
        // SAFETY: @data is read only.
        let ret = unsafe {
            sys::lsm_large_write(
                self.store.raw(),
                self.handle.as_raw(),
                data.as_ptr().cast(),
                data.len(),
                offset,
                flags,
                &mut version,
            )
        };
        check_version(ret, version, "lsm_large_write")
    }

    /// Writes behind the end of the object, of any version or of one. Returns where, and the version.
    pub fn append(&self, data: &[u8], version: Option<u64>) -> Result<(u64, u64)> {
        let (flags, mut version) = expect(version);
        let mut offset = 0;
        // SAFETY: @data is read only.
        let ret = unsafe {
            sys::lsm_large_append(
                self.store.raw(),
                self.handle.as_raw(),
                data.as_ptr().cast(),
                data.len(),
                flags,
                &mut offset,
                &mut version,
            )
        };
        check_version(ret, version, "lsm_large_append").map(|version| (offset, version))
    }

    /// Frees the object, of any version or of one. Returns a version that is higher than any of it.
    pub fn free(self, version: Option<u64>) -> Result<u64> {
        let (flags, mut version) = expect(version);
        // SAFETY: plain numbers.
        let ret = unsafe { sys::lsm_large_free(self.store.raw(), self.handle.as_raw(), flags, &mut version) };
        check_version(ret, version, "lsm_large_free")
    }
}
