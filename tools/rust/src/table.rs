// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
//! Tables with keys.

use std::os::raw::{c_uint, c_void};
use std::ptr::{self, NonNull};

use crate::error::{check, check_version};
use crate::{sys, Error, Handle, Note, Result, Store};

/// Bytes for the first try to get a value.
const FIRST_GET: usize = 4096;
/// The same of each of several values.
const FIRST_OF_MANY: usize = 512;
/// Keys that [`Table::get_many`] asks for together.
const TOGETHER: usize = 256;

/// An item: a value, and its attributes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    /// The bytes.
    pub value: Vec<u8>,
    /// Of the item's object; a key that is removed and put again has another one.
    pub handle: Handle,
    /// Increases with each put of the key.
    pub version: u64,
}

/// How a value is put: not durable and in any case, unless said otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Put {
    pub(crate) flags: c_uint,
    pub(crate) version: u64,
}

impl Put {
    /// Return when it is durable. Fails on a volatile store (EOPNOTSUPP).
    pub fn durable(mut self) -> Put {
        self.flags |= sys::LSM_DURABLE;
        self
    }

    fn only(mut self, flag: c_uint, version: u64) -> Put {
        self.flags = self.flags & sys::LSM_DURABLE | flag;
        self.version = version;
        self
    }

    /// Only if the key is not there, else EEXIST.
    pub fn new_key(self) -> Put {
        self.only(sys::LSM_NEW, 0)
    }

    /// Only if the key is there, else ENOENT.
    pub fn old_key(self) -> Put {
        self.only(sys::LSM_OLD, 0)
    }

    /// Only if `version` is the present one, else EILSEQ, or ENOENT if the key is not there.
    pub fn version(self, version: u64) -> Put {
        self.only(sys::LSM_EXPECT, version)
    }
}

/// Figures of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableStat {
    /// Items that are there.
    pub items: u64,
    /// Memory of the index.
    pub index_bytes: u64,
    /// Items that [`Table::evict`] has removed since the index was made.
    pub evicted: u64,
}

/// A table with keys, which all processes of a host share. It is closed when it is dropped.
///
/// ```compile_fail,E0716
/// let table = lsmem::Store::open("/dev/lsmem").unwrap().table(1).unwrap();
/// table.get(b"key").unwrap();
/// ```
#[derive(Debug)]
pub struct Table<'store> {
    raw: NonNull<sys::lsm_table>,
    store: std::marker::PhantomData<&'store Store>,
}

// SAFETY: lsmem.h: "All calls on a table but lsm_table_close() can be made by many threads at once", and
// lsm_table_close() is called by Drop alone.
unsafe impl Send for Table<'_> {}
unsafe impl Sync for Table<'_> {}

impl Drop for Table<'_> {
    fn drop(&mut self) {
        // SAFETY: what is borrowed from the table is gone.
        unsafe { sys::lsm_table_close(self.raw.as_ptr()) }
    }
}

impl<'store> Table<'store> {
    pub(crate) fn open(store: &'store Store, id: u16, flags: c_uint) -> Result<Table<'store>> {
        let mut raw = ptr::null_mut();
        // SAFETY: @raw is there for the result; the store is open as long as the table is.
        let ret = unsafe { sys::lsm_table_open(store.raw(), u32::from(id), flags, &mut raw) };
        check(ret as isize, "lsm_table_open")?;
        NonNull::new(raw)
            .map(|raw| Table { raw, store: std::marker::PhantomData })
            .ok_or_else(|| Error::new(sys::EINVAL, "lsm_table_open"))
    }

    pub(crate) fn raw(&self) -> *mut sys::lsm_table {
        self.raw.as_ptr()
    }

    /// Copies the value of a key to `to`. Returns how much of it, and how long it is; `None`: there is no such key.
    pub fn get_into(&self, key: &[u8], to: &mut [u8]) -> Result<Option<(usize, usize)>> {
        self.copy(key, to).map(|found| found.map(|(bytes, item)| (bytes, item.length as usize)))
    }

    fn copy(&self, key: &[u8], to: &mut [u8]) -> Result<Option<(usize, sys::lsm_item)>> {
        let mut item = sys::lsm_item::default();
        // SAFETY: there is room for so many bytes.
        let ret = unsafe {
            sys::lsm_table_get(
                self.raw.as_ptr(),
                key.as_ptr().cast(),
                key.len(),
                to.as_mut_ptr().cast(),
                to.len(),
                &mut item,
            )
        };
        match check(ret, "lsm_table_get") {
            Ok(bytes) => Ok(Some((bytes, item))),
            Err(error) if error.errno() == sys::ENOENT => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The item of a key; `None`: there is none. Without a system call.
    pub fn get(&self, key: &[u8]) -> Result<Option<Item>> {
        let mut value = vec![0; FIRST_GET];
        loop {
            let (bytes, item) = match self.copy(key, &mut value)? {
                Some(found) => found,
                None => return Ok(None),
            };
            if item.length as usize <= value.len() {
                value.truncate(bytes);
                return Ok(whole(value, &item));
            }
            value.resize(item.length as usize, 0);
        }
    }

    /// The items of several keys, in their order. Memory is waited for once for several of them.
    pub fn get_many<Key: AsRef<[u8]>>(&self, keys: &[Key]) -> Result<Vec<Option<Item>>> {
        let mut room = vec![0u8; keys.len().min(TOGETHER) * FIRST_OF_MANY];
        let mut found = Vec::with_capacity(keys.len());
        for some in keys.chunks(TOGETHER) {
            let mut gets: Vec<_> = some
                .iter()
                .zip(room.chunks_mut(FIRST_OF_MANY))
                .map(|(key, value)| sys::lsm_get {
                    key: key.as_ref().as_ptr().cast(),
                    key_length: key.as_ref().len(),
                    value: value.as_mut_ptr().cast(),
                    room: value.len(),
                    item: sys::lsm_item::default(),
                    result: 0,
                    flags: 0,
                    reserved: [0; 3],
                })
                .collect();
            // SAFETY: keys and room live until the call returns.
            unsafe { sys::lsm_table_get_many(self.raw.as_ptr(), gets.as_mut_ptr(), gets.len()) };
            for ((get, key), value) in gets.iter().zip(some).zip(room.chunks(FIRST_OF_MANY)) {
                found.push(match check(get.result, "lsm_table_get_many") {
                    Ok(bytes) if get.item.length as usize == bytes => {
                        whole(value[..bytes].to_vec(), &get.item)
                    }
                    Ok(_) => self.get(key.as_ref())?,
                    Err(error) if error.errno() == sys::ENOENT => None,
                    Err(error) => return Err(error),
                });
            }
        }
        Ok(found)
    }

    /// Puts a value. Returns the item's version.
    pub fn put(&self, key: &[u8], value: &[u8], how: Put) -> Result<u64> {
        let mut version = how.version;
        // SAFETY: key and value are read only.
        let ret = unsafe {
            sys::lsm_table_put(
                self.raw.as_ptr(),
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
                how.flags,
                &mut version,
            )
        };
        check_version(ret, version, "lsm_table_put")
    }

    /// The object of a key, made with this value if there is none, and whether it was there. To call this again after a
    /// crash returns the same object.
    pub fn alloc(&self, key: &[u8], value: &[u8], durable: bool) -> Result<(Handle, bool)> {
        let mut item = sys::lsm_item::default();
        // SAFETY: key and value are read only.
        let ret = unsafe {
            sys::lsm_table_alloc(
                self.raw.as_ptr(),
                key.as_ptr().cast(),
                key.len(),
                value.as_ptr().cast(),
                value.len(),
                if durable { sys::LSM_DURABLE } else { 0 },
                &mut item,
            )
        };
        let there = check(ret as isize, "lsm_table_alloc")? != 0;
        Ok((Handle::from_raw(item.handle).expect("an object has a handle"), there))
    }

    /// Puts several values, in few system calls, and with one wait if they are to be durable. Returns the version of
    /// each, or why it was not put. An error of all: what was not tried has that error, too; of a wait that takes too
    /// long (ETIMEDOUT), all were tried.
    pub fn put_many<Key, Value>(&self, items: &[(Key, Value)], durable: bool) -> Result<Vec<Result<u64>>>
    where
        Key: AsRef<[u8]>,
        Value: AsRef<[u8]>,
    {
        let mut puts: Vec<_> = items
            .iter()
            .map(|(key, value)| sys::lsm_put {
                key: key.as_ref().as_ptr().cast(),
                key_length: key.as_ref().len(),
                value: value.as_ref().as_ptr().cast(),
                length: value.as_ref().len(),
                flags: 0,
                version: 0,
                result: 0,
                reserved: [0; 3],
            })
            .collect();
        let flags = if durable { sys::LSM_DURABLE } else { 0 };
        // SAFETY: keys and values live until the call returns.
        let ret = unsafe { sys::lsm_table_put_many(self.raw.as_ptr(), puts.as_mut_ptr(), puts.len(), flags) };
        check(ret as isize, "lsm_table_put_many")?;
        Ok(puts.iter().map(|put| check_version(put.result, put.version, "lsm_table_put_many")).collect())
    }

    /// Removes a key: of any version, or of one. Returns a version that is higher than any of the item. ENOENT: there
    /// is no such key.
    pub fn remove(&self, key: &[u8], version: Option<u64>, durable: bool) -> Result<u64> {
        let flags = if durable { sys::LSM_DURABLE } else { 0 } | version.map_or(0, |_| sys::LSM_EXPECT);
        let mut version = version.unwrap_or(0);
        // SAFETY: the key is read only.
        let ret = unsafe {
            sys::lsm_table_remove(self.raw.as_ptr(), key.as_ptr().cast(), key.len(), flags, &mut version)
        };
        check_version(ret, version, "lsm_table_remove")
    }

    /// All keys and their items, in no order. An item that is there from the first to the last is seen once.
    pub fn iter(&self) -> Items<'_> {
        Items {
            table: self,
            cursor: 0,
            key: vec![0; sys::LSM_KEY_MAX],
            value: vec![0; FIRST_GET],
            over: false,
        }
    }

    /// The key and the item that a note of the table is about, as they are by now; `None`: it was removed, or the object
    /// is no item. EINVAL: [`Noted::Lost`](crate::Noted).
    pub fn noted(&self, note: &Note) -> Result<Option<(Vec<u8>, Item)>> {
        let (raw, mut key, mut value) = (note.raw(), vec![0; sys::LSM_KEY_MAX], vec![0; FIRST_GET]);
        loop {
            let mut key_length = key.len();
            let mut item = sys::lsm_item::default();
            // SAFETY: there is room for the longest key, and for so many bytes of the value.
            let ret = unsafe {
                sys::lsm_table_note(
                    self.raw.as_ptr(),
                    &raw,
                    key.as_mut_ptr().cast(),
                    &mut key_length,
                    value.as_mut_ptr().cast(),
                    value.len(),
                    &mut item,
                )
            };
            if check(ret as isize, "lsm_table_note")? == 0 {
                return Ok(None);
            }
            let length = item.length as usize;
            if length <= value.len() {
                key.truncate(key_length);
                value.truncate(length);
                return Ok(whole(value, &item).map(|item| (key, item)));
            }
            value.resize(length, 0);
        }
    }

    /// Figures.
    pub fn stat(&self) -> Result<TableStat> {
        let mut stat = sys::lsm_table_stat::default();
        // SAFETY: there is room for the figures.
        check(unsafe { sys::lsm_table_stat(self.raw.as_ptr(), &mut stat) } as isize, "lsm_table_stat")?;
        Ok(TableStat { items: stat.items, index_bytes: stat.index_bytes, evicted: stat.evicted })
    }

    /// Removes items that were not read for a while, for caches. Returns the bytes given back, and how many items.
    pub fn evict(&self, bytes: usize) -> Result<(usize, u64)> {
        let mut evicted = 0;
        // SAFETY: plain numbers.
        check(unsafe { sys::lsm_table_evict(self.raw.as_ptr(), bytes, &mut evicted) }, "lsm_table_evict")
            .map(|bytes| (bytes, evicted))
    }
}

fn whole(value: Vec<u8>, item: &sys::lsm_item) -> Option<Item> {
    Handle::from_raw(item.handle).map(|handle| Item { value, handle, version: item.version })
}

/// Items of a table, by [`Table::iter`].
#[derive(Debug)]
pub struct Items<'table> {
    table: &'table Table<'table>,
    cursor: u64,
    key: Vec<u8>,
    value: Vec<u8>,
    over: bool,
}

impl Items<'_> {
    fn step(&mut self) -> Result<Option<(Vec<u8>, Item)>> {
        loop {
            let (mut cursor, mut key_length) = (self.cursor, self.key.len());
            let mut item = sys::lsm_item::default();
            // SAFETY: there is room for the longest key, and for so many bytes of the value.
            let ret = unsafe {
                sys::lsm_table_next(
                    self.table.raw.as_ptr(),
                    &mut cursor,
                    self.key.as_mut_ptr().cast::<c_void>(),
                    &mut key_length,
                    self.value.as_mut_ptr().cast(),
                    self.value.len(),
                    &mut item,
                )
            };
            if check(ret as isize, "lsm_table_next")? == 0 {
                return Ok(None);
            }
            let length = item.length as usize;
            if length > self.value.len() {
                // Once more from where it was
                self.value.resize(length, 0);
                continue;
            }
            self.cursor = cursor;
            let key = self.key[..key_length].to_vec();
            return Ok(whole(self.value[..length].to_vec(), &item).map(|item| (key, item)));
        }
    }
}

impl Iterator for Items<'_> {
    type Item = Result<(Vec<u8>, Item)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let found = self.step();
        self.over = !matches!(found, Ok(Some(_)));
        found.transpose()
    }
}
