// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
//! Scans: all objects of a store, or many of them, in batches.

use std::any::Any;
use std::marker::PhantomData;
use std::ops::ControlFlow;
use std::os::raw::{c_int, c_uint, c_void};
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;
use std::{mem, slice};

use crate::error::check;
use crate::{sys, Handle, Object, Result, Store};

/// A way to go about a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Plan {
    /// The handles of a list, in its order.
    Lookup = 1,
    /// The same in the order of the handle table.
    Sorted = 2,
    /// The handle table from one end to the other.
    Table = 3,
    /// The memory from one end to the other, as a snapshot has frozen it.
    Log = 4,
}

impl Plan {
    fn from_raw(raw: u32) -> Option<Plan> {
        [Plan::Lookup, Plan::Sorted, Plan::Table, Plan::Log].into_iter().find(|plan| *plan as u32 == raw)
    }
}

/// What to scan, and how: all objects, by the plan that costs least and a thread for each processor, unless said
/// otherwise.
#[derive(Clone, Copy, Debug)]
pub struct Scan<'list> {
    raw: sys::lsm_scan,
    list: PhantomData<&'list [Handle]>,
}

impl Default for Scan<'_> {
    fn default() -> Self {
        // SAFETY: zeroes are numbers, null pointers and `None`.
        Scan { raw: unsafe { mem::zeroed() }, list: PhantomData }
    }
}

impl<'list> Scan<'list> {
    pub(crate) fn raw(&self) -> &sys::lsm_scan {
        &self.raw
    }

    /// By this plan, or not at all.
    pub fn plan(mut self, plan: Plan) -> Self {
        self.raw.plan = plan as u32;
        self
    }

    /// All objects as they were at one version: only [`Plan::Log`] will do.
    pub fn exact(mut self) -> Self {
        self.raw.flags = sys::LSM_SCAN_EXACT;
        self
    }

    /// With so many threads, 1 .. 64.
    pub fn threads(mut self, threads: u32) -> Self {
        self.raw.threads = threads;
        self
    }

    /// The first bytes of each object, and no more than so many.
    pub fn prefix(mut self, bytes: u32) -> Self {
        self.raw.prefix = bytes;
        self
    }

    /// Only objects of a table id.
    pub fn table(mut self, table: u16) -> Self {
        (self.raw.one_table, self.raw.table) = (1, u32::from(table));
        self
    }

    /// Only objects of `least` to `most` bytes; `most` 0: any.
    pub fn lengths(mut self, least: u32, most: u32) -> Self {
        (self.raw.length_min, self.raw.length_max) = (least, most);
        self
    }

    /// Only objects whose version is `least` to `most`; `most` 0: any.
    pub fn versions(mut self, least: u64, most: u64) -> Self {
        (self.raw.version_min, self.raw.version_max) = (least, most);
        self
    }

    /// Only these objects, none twice.
    pub fn handles(self, list: &[Handle]) -> Scan<'_> {
        let mut raw = self.raw;
        // Without elements a slice points to nothing, which is not null: it stays a list of none.
        (raw.handles, raw.nr_handles) = (list.as_ptr().cast(), list.len());
        Scan { raw, list: PhantomData }
    }
}

/// An object in a batch of a scan.
#[derive(Debug)]
#[repr(transparent)]
pub struct Row<'batch> {
    raw: sys::lsm_row,
    bytes: PhantomData<&'batch [u8]>,
}

impl Row<'_> {
    /// The object. `None`: the snapshot was revoked, and the scan will say so.
    pub fn handle(&self) -> Option<Handle> {
        Handle::from_raw(self.raw.handle)
    }

    /// Its attributes.
    pub fn object(&self) -> Object {
        Object { version: self.raw.version, length: self.raw.length, table: self.raw.table }
    }

    /// How many of its bytes there are: all, or the prefix that was asked for.
    pub fn available(&self) -> usize {
        self.raw.bytes as usize
    }

    /// Copies bytes from `offset` on. Returns how many.
    pub fn copy_to(&self, offset: usize, to: &mut [u8]) -> usize {
        let bytes = self.available().saturating_sub(offset).min(to.len());
        if bytes > 0 {
            // SAFETY: there are so many at both; no reference to the store's memory is made.
            unsafe { self.raw.data.cast::<u8>().add(offset).copy_to_nonoverlapping(to.as_mut_ptr(), bytes) };
        }
        bytes
    }

    /// Copies all bytes that there are.
    pub fn copy(&self) -> Vec<u8> {
        let mut to = vec![0; self.available()];
        self.copy_to(0, &mut to);
        to
    }

    /// The bytes, in place.
    ///
    /// # Safety
    ///
    /// The slice is used before the kernel may revoke the snapshot of a scan by [`Plan::Log`] (`limits/snapshot_ms`):
    /// after that it may write there, and bytes behind a reference must not change. With other plans, or with
    /// [`Row::copy`] and [`Row::copy_to`], there is no such condition.
    pub unsafe fn bytes(&self) -> &[u8] {
        if self.raw.bytes == 0 {
            return &[];
        }
        unsafe { slice::from_raw_parts(self.raw.data.cast(), self.available()) }
    }
}

/// What a scan has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scanned {
    /// How it was carried out.
    pub plan: Option<Plan>,
    /// Of the snapshot; 0: there was none.
    pub version: u64,
    /// Objects that were given to the function.
    pub rows: u64,
    /// Handles of the list without an object.
    pub gone: u64,
    /// Of [`Plan::Table`], in a tiered store: objects that are not in memory, and were not seen.
    pub cold: u64,
    /// The function has ended the scan; then plan and numbers may be missing.
    pub stopped: bool,
}

impl Scanned {
    pub(crate) fn new(result: &sys::lsm_scan_result, stopped: bool) -> Scanned {
        Scanned {
            plan: Plan::from_raw(result.explain.plan),
            version: result.version,
            rows: result.rows,
            gone: result.gone,
            cold: result.cold,
            stopped,
        }
    }
}

/// The function, and how it has ended the scan.
struct Caller<'each, F> {
    each: &'each F,
    stopped: AtomicBool,
    panicked: Mutex<Option<Box<dyn Any + Send>>>,
}

/// What lsm_scan() calls, in several threads at once.
unsafe extern "C" fn batch<F>(
    context: *mut c_void,
    thread: c_uint,
    rows: *const sys::lsm_row,
    nr: usize,
) -> c_int
where
    F: Fn(usize, &[Row<'_>]) -> ControlFlow<()> + Sync,
{
    // SAFETY: lsm_scan() passes the context on; there are so many rows, until the function returns.
    let (caller, rows) =
        unsafe { (&*context.cast::<Caller<'_, F>>(), slice::from_raw_parts(rows.cast::<Row<'_>>(), nr)) };
    match panic::catch_unwind(AssertUnwindSafe(|| (caller.each)(thread as usize, rows))) {
        Ok(ControlFlow::Continue(())) => return 0,
        Ok(ControlFlow::Break(())) => caller.stopped.store(true, Ordering::Relaxed),
        Err(panicked) => {
            if let Ok(mut first) = caller.panicked.lock() {
                first.get_or_insert(panicked);
            }
        }
    }
    -sys::ECANCELED
}

pub(crate) fn scan<F>(store: &Store, what: &Scan<'_>, each: &F) -> Result<Scanned>
where
    F: Fn(usize, &[Row<'_>]) -> ControlFlow<()> + Sync,
{
    let mut caller = Caller { each, stopped: AtomicBool::new(false), panicked: Mutex::new(None) };
    let mut raw = what.raw;
    raw.batch = Some(batch::<F>);
    raw.context = (&mut caller as *mut Caller<'_, F>).cast();
    let mut result = sys::lsm_scan_result::default();
    // SAFETY: the list and the context live until the call returns, and so do its threads at most.
    let ret = unsafe { sys::lsm_scan(store.raw(), &raw, &mut result) };
    if let Ok(Some(panicked)) = caller.panicked.into_inner() {
        panic::resume_unwind(panicked);
    }
    let stopped = caller.stopped.into_inner();
    if !stopped {
        check(ret as isize, "lsm_scan")?;
    }
    Ok(Scanned::new(&result, stopped))
}
