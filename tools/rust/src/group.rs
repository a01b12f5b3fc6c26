// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
//! Groups: changes that are made all or none.

use std::marker::PhantomData;
use std::mem::size_of;
use std::ptr;

use crate::error::check;
use crate::{sys, Error, Handle, Result, Store};

/// Changes of several objects, which [`Group::commit`] makes all or none, also after a crash. A group that is dropped
/// has changed nothing.
///
/// Up to 256 changes of different objects ([`crate::Query::group_max`]), with 1 MiB of data. The data are borrowed until
/// then, and not copied before.
#[derive(Debug)]
#[must_use = "a group changes nothing until it is committed"]
pub struct Group<'store, 'data> {
    store: &'store Store,
    ops: Vec<sys::lsmem_op>,
    data: PhantomData<&'data [u8]>,
}

/// A group that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Of each change, in order: the object, and its version, the same for all; of each check, the present one.
    pub objects: Vec<(Handle, u64)>,
    /// False: the group was to be durable, and whether it is, is not known.
    pub certain: bool,
}

impl<'store, 'data> Group<'store, 'data> {
    pub(crate) fn new(store: &'store Store) -> Group<'store, 'data> {
        Group { store, ops: Vec::new(), data: PhantomData }
    }

    fn add(mut self, op: u32, handle: u64, table: u32, data: &'data [u8], version: Option<u64>) -> Self {
        self.ops.push(sys::lsmem_op {
            size: size_of::<sys::lsmem_op>() as u32,
            op,
            flags: if version.is_some() { sys::LSM_EXPECT } else { 0 },
            handle,
            version: version.unwrap_or(0),
            data: data.as_ptr() as usize as u64,
            // What does not fit is refused by the kernel.
            length: u32::try_from(data.len()).unwrap_or(u32::MAX),
            table,
            ..Default::default()
        });
        self
    }

    /// Allocates an object of a table id.
    pub fn alloc(self, table: u16, data: &'data [u8]) -> Self {
        self.add(sys::LSMEM_OP_ALLOC, 0, u32::from(table), data, None)
    }

    /// Replaces an object, if it has the version, if one is given.
    pub fn replace(self, handle: Handle, data: &'data [u8], version: Option<u64>) -> Self {
        self.add(sys::LSMEM_OP_REPLACE, handle.as_raw(), 0, data, version)
    }

    /// Frees an object, if it has the version, if one is given.
    pub fn free(self, handle: Handle, version: Option<u64>) -> Self {
        self.add_empty(sys::LSMEM_OP_FREE, handle, version)
    }

    /// Changes nothing: the others are made only if the object is there, and has the version, if one is given.
    pub fn check(self, handle: Handle, version: Option<u64>) -> Self {
        self.add_empty(sys::LSMEM_OP_CHECK, handle, version)
    }

    fn add_empty(mut self, op: u32, handle: Handle, version: Option<u64>) -> Self {
        self = self.add(op, handle.as_raw(), 0, &[], version);
        self.ops.last_mut().expect("one was added").data = 0;
        self
    }

    /// Makes all changes, or none: then the error says which one could not be made ([`Error::operation`]).
    pub fn commit(mut self, durable: bool) -> Result<Committed> {
        let flags = sys::LSM_ATOMIC | if durable { sys::LSM_DURABLE } else { 0 };
        // SAFETY: the operations and their data live until the call returns.
        let ret = unsafe {
            sys::lsm_vector(self.store.raw(), self.ops.as_mut_ptr(), self.ops.len(), flags, ptr::null_mut())
        };
        check(ret as isize, "lsm_vector").map_err(|error| self.blame(error))?;
        Ok(Committed {
            objects: self
                .ops
                .iter()
                .filter_map(|op| Some((Handle::from_raw(op.handle)?, op.version)))
                .collect(),
            certain: self.ops.iter().all(|op| op.result == 0),
        })
    }

    /// Adds the operation that failed to an error.
    fn blame(&self, mut error: Error) -> Error {
        error.operation = self.ops.iter().position(|op| op.result == -error.errno());
        if error.is_unexpected() {
            error.version = error.operation.map(|which| self.ops[which].version);
        }
        error
    }
}
