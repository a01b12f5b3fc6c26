// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
//! Groups: changes that are made all or none.

use std::marker::PhantomData;
use std::mem::size_of;
use std::os::raw::c_uint;

use crate::error::check;
use crate::{sys, Error, Handle, Put, Result, Store, Table};

/// Changes of several objects, and of keys of tables, which [`Group::commit`] makes all or none, also after a crash. A
/// group that is dropped has changed nothing.
///
/// Up to 256 changes of different objects and keys ([`crate::Query::group_max`]), with 1 MiB of data. Tables are those of
/// the group's store. Keys and data are borrowed until then, and not copied before:
///
/// ```compile_fail,E0505
/// # fn f(store: &lsmem::Store, table: lsmem::Table<'_>) -> lsmem::Result<()> {
/// let group = store.group().put(&table, b"key", b"value", lsmem::Put::default());
/// drop(table);
/// group.commit(false)?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a group changes nothing until it is committed"]
pub struct Group<'store, 'data> {
    store: &'store Store,
    ops: Vec<sys::lsmem_op>,
    items: Vec<sys::lsm_item_op>,
    /// Of each change, in order: it is one of a key.
    of_key: Vec<bool>,
    data: PhantomData<(&'data [u8], &'data Table<'data>)>,
}

// SAFETY: the pointers are those to what is borrowed: to bytes, and to tables, which threads share.
unsafe impl Send for Group<'_, '_> {}
unsafe impl Sync for Group<'_, '_> {}

/// A group that was carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Of each change of an object, in order: the object, and its version, the same for all changes of the group; of
    /// each check, the present one.
    pub objects: Vec<(Handle, u64)>,
    /// Of each change of a key, in order: the object of its item, and its version. `None`: of a check that the key is
    /// not there.
    pub keys: Vec<Option<(Handle, u64)>>,
    /// False: the group was to be durable, and whether it is, is not known.
    pub certain: bool,
}

fn expect(version: Option<u64>) -> Put {
    version.map_or_else(Put::default, |version| Put::default().version(version))
}

impl<'store, 'data> Group<'store, 'data> {
    pub(crate) fn new(store: &'store Store) -> Group<'store, 'data> {
        Group { store, ops: Vec::new(), items: Vec::new(), of_key: Vec::new(), data: PhantomData }
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
        self.of_key.push(false);
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

    fn add_key(
        mut self,
        op: u32,
        table: &'data Table<'_>,
        key: &'data [u8],
        value: &'data [u8],
        how: Put,
    ) -> Self {
        self.items.push(sys::lsm_item_op {
            table: table.raw(),
            key: key.as_ptr().cast(),
            key_length: key.len(),
            value: value.as_ptr().cast(),
            length: value.len(),
            op,
            flags: how.flags,
            version: how.version,
            handle: 0,
            result: 0,
            reserved: [0; 5],
        });
        self.of_key.push(true);
        self
    }

    /// Puts the value of a key. `how` is not durable: that [`Group::commit`] is told.
    pub fn put(self, table: &'data Table<'_>, key: &'data [u8], value: &'data [u8], how: Put) -> Self {
        self.add_key(sys::LSM_ITEM_PUT, table, key, value, how)
    }

    /// Removes a key, which must be there, and have the version, if one is given.
    pub fn remove(self, table: &'data Table<'_>, key: &'data [u8], version: Option<u64>) -> Self {
        self.add_key(sys::LSM_ITEM_REMOVE, table, key, &[], expect(version))
    }

    /// Changes nothing: the others are made only if the key is there, and has the version, if one is given.
    pub fn check_key(self, table: &'data Table<'_>, key: &'data [u8], version: Option<u64>) -> Self {
        self.add_key(sys::LSM_ITEM_CHECK, table, key, &[], expect(version))
    }

    /// Changes nothing: the others are made only if the key is not there.
    pub fn check_absent(self, table: &'data Table<'_>, key: &'data [u8]) -> Self {
        self.add_key(sys::LSM_ITEM_CHECK, table, key, &[], Put::default().new_key())
    }

    /// Makes all changes, or none: then the error says which one could not be made ([`Error::operation`]).
    pub fn commit(mut self, durable: bool) -> Result<Committed> {
        let flags: c_uint = if durable { sys::LSM_DURABLE } else { 0 };
        // SAFETY: operations, tables, keys and data live until the call returns.
        let ret = unsafe {
            sys::lsm_table_group(
                self.store.raw(),
                self.items.as_mut_ptr(),
                self.items.len(),
                self.ops.as_mut_ptr(),
                self.ops.len(),
                flags,
            )
        };
        let carried_out = self.results().all(|(result, _)| result == 0);
        match check(ret as isize, "lsm_table_group") {
            Err(error) if !(error.is_timeout() && carried_out) => Err(self.blame(error)),
            done => Ok(Committed {
                objects: self
                    .ops
                    .iter()
                    .filter_map(|op| Some((Handle::from_raw(op.handle)?, op.version)))
                    .collect(),
                keys: self
                    .items
                    .iter()
                    .map(|item| Some((Handle::from_raw(item.handle)?, item.version)))
                    .collect(),
                certain: done.is_ok(),
            }),
        }
    }

    /// Result and version of each change, in order.
    fn results(&self) -> impl Iterator<Item = (i32, u64)> + '_ {
        let (mut ops, mut items) = (self.ops.iter(), self.items.iter());
        self.of_key.iter().filter_map(move |of_key| {
            if *of_key {
                items.next().map(|item| (item.result, item.version))
            } else {
                ops.next().map(|op| (op.result, op.version))
            }
        })
    }

    /// Adds the change that failed to an error.
    fn blame(&self, mut error: Error) -> Error {
        let failed = self.results().enumerate().find(|(_, (result, _))| *result == -error.errno());
        error.operation = failed.map(|(which, _)| which);
        if error.is_unexpected() {
            error.version = failed.map(|(_, (_, version))| version);
        }
        error
    }
}
