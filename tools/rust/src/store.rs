// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
//! Stores, objects, roots.

use std::ffi::{CStr, CString, OsStr};
use std::fmt;
use std::num::NonZeroU64;
use std::ops::ControlFlow;
use std::os::raw::c_uint;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::io::{AsRawFd, RawFd};
use std::ptr::{self, NonNull};
use std::time::Duration;

use crate::error::{check, check_version};
use crate::{
    scan, spread, sys, Aggregate, Changed, Error, Group, Kind, Large, NewRegion, Pool, Progress, Question,
    Region, Result, Row, Scan, Scanned, Spread, Swept, Table, Value, View, Watch,
};

/// Bytes for the first try to read an object of unknown length.
const FIRST_READ: usize = 4096;
/// Objects that [`Objects`] asks for together.
const AHEAD: usize = 64;

/// An object, by its number. It stays the same while the object lives, also after a restart; that of an object which was
/// freed is never given again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Handle(NonZeroU64);

impl Handle {
    /// A handle that was kept as a number. `None`: 0 is none. That of no object is harmless: calls fail.
    pub fn from_raw(number: u64) -> Option<Handle> {
        NonZeroU64::new(number).map(Handle)
    }

    /// The number, to be kept.
    pub fn as_raw(self) -> u64 {
        self.0.get()
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(to, "{:#x}", self.0)
    }
}

/// Attributes of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Object {
    /// Increases with each change, and is never used again.
    pub version: u64,
    /// Bytes of the whole object.
    pub length: u32,
    /// Table id that it was allocated with.
    pub table: u32,
}

impl From<sys::lsm_object> for Object {
    fn from(from: sys::lsm_object) -> Object {
        Object { version: from.version, length: from.length, table: from.table }
    }
}

/// How an object is changed: not durable and in any case, unless said otherwise.
#[derive(Clone, Copy, Debug, Default)]
pub struct Update {
    pub(crate) flags: c_uint,
    pub(crate) version: u64,
}

impl Update {
    /// Return when the change is durable. Fails on a volatile store (EOPNOTSUPP).
    pub fn durable(mut self) -> Update {
        self.flags |= sys::LSM_DURABLE;
        self
    }

    fn only(mut self, flag: c_uint, version: u64) -> Update {
        self.flags = self.flags & !(sys::LSM_EXPECT | sys::LSM_OLDER | sys::LSM_NEWER) | flag;
        self.version = version;
        self
    }

    /// Only if `version` is the present one, else EILSEQ.
    pub fn version(self, version: u64) -> Update {
        self.only(sys::LSM_EXPECT, version)
    }

    /// Only if the present version is older than `version`, else EILSEQ.
    pub fn older_than(self, version: u64) -> Update {
        self.only(sys::LSM_OLDER, version)
    }

    /// Only if the present version is newer than `version`, else EILSEQ.
    pub fn newer_than(self, version: u64) -> Update {
        self.only(sys::LSM_NEWER, version)
    }
}

/// How a store is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Open {
    flags: c_uint,
}

impl Open {
    /// For reading; without views.
    pub fn read_only(mut self) -> Open {
        self.flags |= sys::LSM_RDONLY;
        self
    }

    /// Map nothing: reads are system calls, and there are no views and no tables.
    pub fn no_windows(mut self) -> Open {
        self.flags |= sys::LSM_NO_WINDOWS;
        self
    }

    /// Opens a store, as [`Store::open`].
    pub fn open(self, path: impl AsRef<OsStr>) -> Result<Store> {
        let path = c_string(path.as_ref().as_bytes(), "lsm_open")?;
        let mut raw = ptr::null_mut();
        // SAFETY: @path ends with a zero, @raw is there for the result.
        check(unsafe { sys::lsm_open(path.as_ptr(), self.flags, &mut raw) } as isize, "lsm_open")?;
        NonNull::new(raw).map(|raw| Store { raw }).ok_or_else(|| Error::new(sys::EINVAL, "lsm_open"))
    }
}

/// Features and limits of kernel and store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// `LSMEM_FEATURE_*`
    pub features: u64,
    /// Largest object, bytes.
    pub object_max: u32,
    /// Most operations of a group; 0: there are no groups.
    pub group_max: u32,
    /// Most live bytes, headers included.
    pub capacity: u64,
    /// Most objects.
    pub handles_max: u64,
    /// Of the store's log.
    pub uuid: [u8; 16],
}

/// Counters of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stat {
    /// Most live bytes, headers included.
    pub capacity: u64,
    /// Bytes of objects, headers included.
    pub live_bytes: u64,
    /// Objects.
    pub handles_used: u64,
    /// Most objects.
    pub handles_max: u64,
}

/// An open store. It is closed when it is dropped, which views and tables of it do not allow before they are.
#[derive(Debug)]
pub struct Store {
    raw: NonNull<sys::lsm>,
}

// SAFETY: lsmem.h: "All calls but lsm_close() can be made on one struct lsm by many threads at once", and
// lsm_close() is called by Drop alone.
unsafe impl Send for Store {}
unsafe impl Sync for Store {}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: what is borrowed from the store (views, tables) is gone.
        unsafe { sys::lsm_close(self.raw.as_ptr()) }
    }
}

impl AsRawFd for Store {
    /// For poll, fsync, and ioctls.
    fn as_raw_fd(&self) -> RawFd {
        // SAFETY: the store is open.
        unsafe { sys::lsm_fd(self.raw.as_ptr()) }
    }
}

pub(crate) fn c_string(bytes: &[u8], call: &'static str) -> Result<CString> {
    CString::new(bytes).map_err(|_| Error::new(sys::EINVAL, call))
}

/// Waits until a store is there and active, at most for `timeout`; `None`: without a bound.
pub fn wait_active(path: impl AsRef<OsStr>, timeout: Option<Duration>) -> Result<()> {
    let path = c_string(path.as_ref().as_bytes(), "lsm_wait_active")?;
    let ms = timeout.map_or(-1, |timeout| timeout.as_millis().min(i32::MAX as u128) as i32);
    // SAFETY: @path ends with a zero.
    check(unsafe { sys::lsm_wait_active(path.as_ptr(), ms) } as isize, "lsm_wait_active").map(|_| ())
}

impl Store {
    /// Opens a store for reading and writing: a device node, `"name:NAME"` or `"uuid:UUID"`.
    pub fn open(path: impl AsRef<OsStr>) -> Result<Store> {
        Open::default().open(path)
    }

    pub(crate) fn raw(&self) -> *mut sys::lsm {
        self.raw.as_ptr()
    }

    /// Features and limits.
    pub fn query(&self) -> Result<Query> {
        let mut found = sys::lsmem_query::default();
        let size = std::mem::size_of_val(&found);
        // SAFETY: @found has @size bytes.
        check(unsafe { sys::lsm_query_sized(self.raw(), &mut found, size) } as isize, "lsm_query")?;
        Ok(Query {
            features: found.features,
            object_max: found.object_max,
            group_max: found.group_max,
            capacity: found.capacity,
            handles_max: found.handles_max,
            uuid: found.uuid,
        })
    }

    /// Counters.
    pub fn stat(&self) -> Result<Stat> {
        let mut found = sys::lsmem_stat::default();
        let size = std::mem::size_of_val(&found);
        // SAFETY: @found has @size bytes.
        check(unsafe { sys::lsm_stat_sized(self.raw(), &mut found, size) } as isize, "lsm_stat")?;
        Ok(Stat {
            capacity: found.capacity,
            live_bytes: found.live_bytes,
            handles_used: found.handles_used,
            handles_max: found.handles_max,
        })
    }

    /// Allocates an object of table 0, not durable. Returns its handle and version.
    pub fn alloc(&self, data: &[u8]) -> Result<(Handle, u64)> {
        self.alloc_in(0, data, false)
    }

    /// Allocates an object of a table id, 0 .. 4095. If its durability is unknown, the error has the handle.
    pub fn alloc_in(&self, table: u16, data: &[u8], durable: bool) -> Result<(Handle, u64)> {
        let flags = if durable { sys::LSM_DURABLE } else { 0 } | c_uint::from(table) << 16;
        let (mut handle, mut version) = (0, 0);
        // SAFETY: @data is read only.
        let ret = unsafe {
            sys::lsm_alloc(self.raw(), data.as_ptr().cast(), data.len(), flags, &mut handle, &mut version)
        };
        let handle = Handle::from_raw(handle);
        match (check_version(ret, version, "lsm_alloc"), handle) {
            (Ok(version), Some(handle)) => Ok((handle, version)),
            (Err(mut error), handle) => {
                error.handle = handle;
                Err(error)
            }
            (Ok(_), None) => Err(Error::new(sys::EINVAL, "lsm_alloc")),
        }
    }

    /// Replaces bytes and length of an object. Returns its version. Readers see the old bytes or the new ones.
    pub fn replace(&self, handle: Handle, data: &[u8], how: Update) -> Result<u64> {
        let mut version = how.version;
        // SAFETY: @data is read only.
        let ret = unsafe {
            sys::lsm_replace(
                self.raw(),
                handle.as_raw(),
                data.as_ptr().cast(),
                data.len(),
                how.flags,
                &mut version,
            )
        };
        check_version(ret, version, "lsm_replace")
    }

    /// Frees an object. Returns a version that is higher than any of it.
    pub fn free(&self, handle: Handle, how: Update) -> Result<u64> {
        let mut version = how.version;
        // SAFETY: plain numbers.
        let ret = unsafe { sys::lsm_free(self.raw(), handle.as_raw(), how.flags, &mut version) };
        check_version(ret, version, "lsm_free")
    }

    /// Writes to a part of an object, or behind its end. Returns its version.
    pub fn write(&self, handle: Handle, data: &[u8], offset: u32, how: Update) -> Result<u64> {
        let mut version = how.version;
        // SAFETY: @data is read only.
        let ret = unsafe {
            sys::lsm_write(
                self.raw(),
                handle.as_raw(),
                data.as_ptr().cast(),
                data.len(),
                offset,
                how.flags,
                &mut version,
            )
        };
        check_version(ret, version, "lsm_write")
    }

    /// Writes behind the end of an object. Returns where, and its version.
    pub fn append(&self, handle: Handle, data: &[u8], how: Update) -> Result<(u32, u64)> {
        let (mut offset, mut version) = (0, how.version);
        // SAFETY: @data is read only.
        let ret = unsafe {
            sys::lsm_append(
                self.raw(),
                handle.as_raw(),
                data.as_ptr().cast(),
                data.len(),
                how.flags,
                &mut offset,
                &mut version,
            )
        };
        check_version(ret, version, "lsm_append").map(|version| (offset, version))
    }

    /// Sets the length of an object; bytes behind its end are zeroes. Returns its version.
    pub fn truncate(&self, handle: Handle, length: usize, how: Update) -> Result<u64> {
        let mut version = how.version;
        // SAFETY: plain numbers.
        let ret = unsafe { sys::lsm_truncate(self.raw(), handle.as_raw(), length, how.flags, &mut version) };
        check_version(ret, version, "lsm_truncate")
    }

    /// Adds to a number in an object, however many clients do so. `amount`: of a double [`Value::F64`], else
    /// another value that an `i64` can have. Returns the sum, and the object's version. EOVERFLOW: the sum is beyond the type; EINVAL: the object is
    /// too short.
    ///
    /// ```no_run
    /// # use lsmem::{Handle, Kind, Result, Store, Update, Value};
    /// # fn f(store: &Store, counter: Handle) -> Result<()> {
    /// let (sum, _) = store.add(counter, Kind::U64, 8, -3i64, Update::default())?;
    /// println!("{sum:?}");
    /// # Ok(())
    /// # }
    /// ```
    pub fn add(
        &self,
        handle: Handle,
        kind: Kind,
        offset: u32,
        amount: impl Into<Value>,
        how: Update,
    ) -> Result<(Value, u64)> {
        let mut value = match (amount.into(), kind) {
            (Value::F64(f64), Kind::F64) => sys::lsm_value { f64 },
            (Value::I64(i64), Kind::U32 | Kind::U64 | Kind::I64) => sys::lsm_value { i64 },
            (Value::U64(u64), Kind::U32 | Kind::U64 | Kind::I64) if i64::try_from(u64).is_ok() => {
                sys::lsm_value { u64 }
            }
            _ => return Err(Error::new(sys::EINVAL, "lsm_add")),
        };
        let mut version = how.version;
        // SAFETY: there is a value.
        let ret = unsafe {
            sys::lsm_add(
                self.raw(),
                handle.as_raw(),
                kind as u32,
                offset,
                &mut value,
                how.flags,
                &mut version,
            )
        };
        check_version(ret, version, "lsm_add").map(|version| (Value::from_raw(value, kind), version))
    }

    /// Writes `desired` at `offset` if `expected` is there, of the same length. Returns the object's version; `None`: other
    /// bytes are there, which `expected` has then. EINVAL: the lengths differ, or the object is too short.
    pub fn compare_exchange(
        &self,
        handle: Handle,
        offset: u32,
        expected: &mut [u8],
        desired: &[u8],
        how: Update,
    ) -> Result<Option<u64>> {
        if expected.len() != desired.len() {
            return Err(Error::new(sys::EINVAL, "lsm_compare_exchange"));
        }
        let mut version = how.version;
        // SAFETY: both have so many bytes; @desired is read only.
        let ret = unsafe {
            sys::lsm_compare_exchange(
                self.raw(),
                handle.as_raw(),
                offset,
                expected.as_mut_ptr().cast(),
                desired.as_ptr().cast(),
                desired.len(),
                how.flags,
                &mut version,
            )
        };
        check_version(ret, version, "lsm_compare_exchange").map(|version| (ret > 0).then_some(version))
    }

    /// Notes of the changes of a table id, 0 .. 4095, from now on.
    pub fn watch(&self, table: u16) -> Result<Watch> {
        self.watch_from(table, 0, 0)
    }

    /// The same, behind the note that has this cursor; 0: from now on. `entries`: notes that the kernel keeps for the watchers
    /// of the table, a power of two; 0: 1024. The first watcher decides.
    pub fn watch_from(&self, table: u16, cursor: u64, entries: u32) -> Result<Watch> {
        Watch::open(self, table, cursor, entries)
    }

    /// Copies bytes of an object, from `offset` on. Returns how many, and its attributes; all of one version.
    pub fn read_into(&self, handle: Handle, to: &mut [u8], offset: u32) -> Result<(usize, Object)> {
        let mut object = sys::lsm_object::default();
        // SAFETY: there is room for so many bytes.
        let ret = unsafe {
            sys::lsm_read(self.raw(), handle.as_raw(), to.as_mut_ptr().cast(), to.len(), offset, &mut object)
        };
        check(ret, "lsm_read").map(|bytes| (bytes, object.into()))
    }

    /// Copies an object.
    pub fn read(&self, handle: Handle) -> Result<Vec<u8>> {
        self.read_with(handle).map(|(bytes, _)| bytes)
    }

    /// Copies an object. Returns its bytes and its attributes, of one version.
    pub fn read_with(&self, handle: Handle) -> Result<(Vec<u8>, Object)> {
        let mut bytes = vec![0; FIRST_READ];
        loop {
            let (got, object) = self.read_into(handle, &mut bytes, 0)?;
            if object.length as usize <= bytes.len() {
                bytes.truncate(got);
                return Ok((bytes, object));
            }
            bytes.resize(object.length as usize, 0);
        }
    }

    /// Attributes of an object.
    pub fn object(&self, handle: Handle) -> Result<Object> {
        self.read_into(handle, &mut [], 0).map(|(_, object)| object)
    }

    /// Begins a view: access to the bytes of an object in place.
    pub fn view(&self, handle: Handle) -> Result<View<'_>> {
        View::begin(self, handle)
    }

    /// How long a view may last before the kernel revokes it.
    pub fn view_bound(&self) -> Result<Duration> {
        // SAFETY: the store is open.
        check(unsafe { sys::lsm_view_bound(self.raw()) } as isize, "lsm_view_bound")
            .map(|ms| Duration::from_millis(ms as u64))
    }

    /// Waits until all changes so far are durable, within the store's bound.
    pub fn sync(&self) -> Result<()> {
        // SAFETY: the store is open.
        check(unsafe { sys::lsm_sync(self.raw(), 0) } as isize, "lsm_sync").map(|_| ())
    }

    /// Opens a table with keys, 0 .. 4095, for reading and writing.
    pub fn table(&self, id: u16) -> Result<Table<'_>> {
        Table::open(self, id, 0)
    }

    /// Opens a table with keys for reading. EAGAIN: no client has opened it for writing yet.
    pub fn table_read_only(&self, id: u16) -> Result<Table<'_>> {
        Table::open(self, id, sys::LSM_RDONLY)
    }

    /// A group of changes, which [`Group::commit`] carries out all or none.
    pub fn group(&self) -> Group<'_, '_> {
        Group::new(self)
    }

    /// All objects, or those of a table id, in no order. One that is there from the first to the last is seen once.
    pub fn objects(&self, table: Option<u16>) -> Objects<'_> {
        Objects { store: self, table: table.map_or(-1, i32::from), cursor: 0, ahead: Vec::new(), over: false }
    }

    /// Makes a large object without bytes, of a table id. `part`: bytes of a part, 4096 .. 1048544; 0: 256 KiB. A write
    /// copies what it leaves of the first and the last part that it changes. If durability is unknown, the error has the
    /// handle.
    pub fn create_large(&self, table: u16, part: u32) -> Result<Large<'_>> {
        Large::create(self, table, part)
    }

    /// A large object, by its handle. If it is none, its calls fail (EBADMSG).
    pub fn large(&self, handle: Handle) -> Large<'_> {
        Large::new(self, handle)
    }

    /// Frees what writers of large objects of a table id that ended in the middle have left: to be called after a crash
    /// of the host or of a writer. Others may read and write meanwhile.
    pub fn sweep_large(&self, table: u16) -> Result<Swept> {
        Large::sweep(self, table)
    }

    /// Makes a range of pages of so many bytes, all zeroes, and maps it. It is kept by [`Region::root`].
    pub fn create_region(&self, length: u64, how: NewRegion) -> Result<Region> {
        Region::create(self, length, how)
    }

    /// Opens and maps a range of pages, with at most `buffer` bytes of it in memory; 0: an eighth of the store's, or
    /// as it is, if it is open already. EBADMSG: the object is no root of one.
    pub fn region(&self, root: Handle, buffer: u64) -> Result<Region> {
        Region::open(self, root, buffer)
    }

    /// Makes a pool with room for so many objects, and maps it. It is kept by [`Pool::root`].
    pub fn create_pool(&self, objects: u64, how: NewRegion) -> Result<Pool> {
        Pool::create(self, objects, how)
    }

    /// Opens and maps a pool, with at most `buffer` bytes of it in memory, as [`Store::region`]. EOPNOTSUPP: the range of
    /// pages is no pool.
    pub fn pool(&self, root: Handle, buffer: u64) -> Result<Pool> {
        Pool::open(self, root, buffer)
    }

    /// Frees all objects of a range of pages, also of a pool. EBUSY: it is open or mapped.
    pub fn remove_region(&self, root: Handle) -> Result<()> {
        Region::remove(self, root)
    }

    /// Gives objects to a function, in batches of 1 to 256, in any order.
    ///
    /// The function is called by several threads at once, with their numbers, `0 ..` [`Scan::threads`]; it ends the
    /// scan by `Break`. What it panics with, the caller does. With [`Plan::Log`](crate::Plan), which the scan may choose,
    /// bytes are read in place: only when this has returned `Ok` is it certain that they were right. An error with
    /// [`Error::is_revoked`]: what the function has computed is not to be used.
    pub fn scan<F>(&self, what: &Scan<'_>, each: F) -> Result<Scanned>
    where
        F: Fn(usize, &[Row<'_>]) -> ControlFlow<()> + Sync,
    {
        scan::scan(self, what, &each)
    }

    /// Sums, extremes, histograms and more of values in the objects of a scan, by several threads. Prefixes of a scan are
    /// not for it.
    pub fn aggregate(&self, what: &Scan<'_>, question: Question) -> Result<Aggregate> {
        Aggregate::scan(self, what, question)
    }

    /// Changes a value in each of the objects of a scan, which are chosen at one version; plan and prefix are not for it.
    /// What others change meanwhile is left as it is, and counted.
    pub fn spread(&self, what: &Scan<'_>, how: &Spread) -> Result<Changed> {
        self.spread_with(what, how, |_| ControlFlow::Continue(()))
    }

    /// The same, with a function that is told how far it is, in this thread, and can end it by `Break`. What it is told first
    /// is to be kept to go on after a crash or an error ([`Spread::resume`]). What it panics with, the
    /// caller does.
    pub fn spread_with<F>(&self, what: &Scan<'_>, how: &Spread, mut each: F) -> Result<Changed>
    where
        F: FnMut(Progress) -> ControlFlow<()>,
    {
        spread::spread(self, what, how, &mut each)
    }

    /// What a root names; `None`: there is no such root.
    pub fn root(&self, name: impl AsRef<[u8]>) -> Result<Option<Handle>> {
        let name = c_string(name.as_ref(), "lsm_root_get")?;
        let mut handle = 0;
        // SAFETY: @name ends with a zero.
        match check(
            unsafe { sys::lsm_root_get(self.raw(), name.as_ptr(), &mut handle) } as isize,
            "lsm_root_get",
        ) {
            Ok(_) => Ok(Handle::from_raw(handle)),
            Err(error) if error.errno() == sys::ENOENT => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn change_root(
        &self,
        name: &[u8],
        handle: Option<Handle>,
        expected: *const u64,
        durable: bool,
    ) -> Result<()> {
        let name = c_string(name, "lsm_root_set")?;
        let flags = if durable { sys::LSM_DURABLE } else { 0 };
        let handle = handle.map_or(0, Handle::as_raw);
        // SAFETY: @name ends with a zero; @expected is null or the caller's.
        let ret = unsafe { sys::lsm_root_set(self.raw(), name.as_ptr(), handle, flags, expected) };
        check(ret as isize, "lsm_root_set").map(|_| ())
    }

    /// Sets a root, whatever it names; `None` removes it.
    pub fn set_root(&self, name: impl AsRef<[u8]>, handle: Option<Handle>, durable: bool) -> Result<()> {
        self.change_root(name.as_ref(), handle, ptr::null(), durable)
    }

    /// Sets a root if it names `expected` now, else EILSEQ.
    pub fn exchange_root(
        &self,
        name: impl AsRef<[u8]>,
        expected: Option<Handle>,
        handle: Option<Handle>,
        durable: bool,
    ) -> Result<()> {
        let expected = expected.map_or(0, Handle::as_raw);
        self.change_root(name.as_ref(), handle, &expected, durable)
    }

    /// All roots, at one moment: names and what they name.
    pub fn roots(&self) -> Result<Vec<(Vec<u8>, Handle)>> {
        let mut room = 16;
        loop {
            let mut found: Vec<sys::lsm_root> = Vec::with_capacity(room);
            // SAFETY: there is room for so many.
            let nr =
                check(unsafe { sys::lsm_root_list(self.raw(), found.as_mut_ptr(), room) }, "lsm_root_list")?;
            if nr > room {
                room = nr;
                continue;
            }
            // SAFETY: the library has filled @nr; names end with a zero.
            unsafe { found.set_len(nr) };
            return Ok(found
                .iter()
                .filter_map(|root| {
                    let name = unsafe { CStr::from_ptr(root.name.as_ptr()) }.to_bytes().to_vec();
                    Handle::from_raw(root.handle).map(|handle| (name, handle))
                })
                .collect());
        }
    }
}

/// Objects of a store, by [`Store::objects`].
#[derive(Debug)]
pub struct Objects<'store> {
    store: &'store Store,
    table: i32,
    cursor: u64,
    /// The next one is the last.
    ahead: Vec<sys::lsm_listed>,
    over: bool,
}

impl Iterator for Objects<'_> {
    type Item = Result<(Handle, Object)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.ahead.is_empty() && !self.over {
            self.ahead.resize(AHEAD, sys::lsm_listed::default());
            // SAFETY: there is room for AHEAD.
            let ret = unsafe {
                sys::lsm_next(self.store.raw(), self.table, &mut self.cursor, self.ahead.as_mut_ptr(), AHEAD)
            };
            let nr = check(ret, "lsm_next");
            self.over = *nr.as_ref().unwrap_or(&0) < AHEAD;
            self.ahead.truncate(*nr.as_ref().unwrap_or(&0));
            self.ahead.reverse();
            if let Err(error) = nr {
                return Some(Err(error));
            }
        }
        let listed = self.ahead.pop()?;
        Handle::from_raw(listed.handle).map(|handle| Ok((handle, listed.object.into())))
    }
}
