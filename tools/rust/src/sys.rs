// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
//! liblsmem.so.1 as it is: what lsmem.h declares of the calls that the crate uses, and mmap().
//!
//! The structures and constants are written by hand; tests/layouts.rs compares them with the header.

#![allow(non_camel_case_types, missing_docs)]

use std::fmt;
use std::mem::{size_of, MaybeUninit};
use std::os::raw::{c_char, c_int, c_uint, c_void};

/// Size, and offset and size of each member, of a structure of C.
#[doc(hidden)]
pub struct Layout {
    pub name: &'static str,
    pub size: usize,
    pub members: Vec<(&'static str, usize, usize)>,
}

fn size_behind<T>(_: *const T) -> usize {
    size_of::<T>()
}

/// Declares structures, and lists their layouts.
macro_rules! structures {
    ($($(#[$attribute:meta])* struct $name:ident { $($member:ident: $kind:ty,)* })*) => {
        $(
            $(#[$attribute])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            pub struct $name { $(pub $member: $kind,)* }
        )*

        #[doc(hidden)]
        pub fn layouts() -> Vec<Layout> {
            vec![$({
                let whole = MaybeUninit::<$name>::uninit();
                let base = whole.as_ptr();
                Layout {
                    name: stringify!($name),
                    size: size_of::<$name>(),
                    members: vec![$({
                        // SAFETY: only the address of a member is taken.
                        let member = unsafe { std::ptr::addr_of!((*base).$member) };
                        (stringify!($member), member as usize - base as usize, size_behind(member))
                    },)*],
                }
            },)*]
        }
    };
}

/// Declares constants, and lists their values.
macro_rules! constants {
    ($($name:ident: $kind:ty = $value:expr;)*) => {
        $(pub const $name: $kind = $value;)*

        #[doc(hidden)]
        pub fn constants() -> Vec<(&'static str, i64)> {
            vec![$((stringify!($name), $name as i64),)*]
        }
    };
}

/// A value of a type that its column says.
#[repr(C)]
#[derive(Clone, Copy)]
pub union lsm_value {
    pub u64: u64,
    pub i64: i64,
    pub f64: f64,
}

impl Default for lsm_value {
    fn default() -> lsm_value {
        lsm_value { u64: 0 }
    }
}

impl fmt::Debug for lsm_value {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: any bits are a number.
        write!(to, "{:#x}", unsafe { self.u64 })
    }
}

constants! {
    LSM_RDONLY: c_uint = 1 << 0;
    LSM_NO_WINDOWS: c_uint = 1 << 1;
    LSM_DURABLE: c_uint = 1 << 0;
    LSM_EXPECT: c_uint = 1 << 1;
    LSM_ATOMIC: c_uint = 1 << 3;
    LSM_OLDER: c_uint = 1 << 14;
    LSM_NEWER: c_uint = 1 << 15;
    LSM_NEW: c_uint = 1 << 16;
    LSM_OLD: c_uint = 1 << 17;
    LSM_NONBLOCK: c_uint = 1;
    LSMEM_NOTE_NEW: u32 = 1;
    LSMEM_NOTE_REPLACED: u32 = 2;
    LSMEM_NOTE_FREED: u32 = 3;
    LSMEM_NOTE_LOST: u32 = 4;
    LSMEM_NOTE_MORE: u32 = 1;
    POLLIN: i16 = 1;
    LSM_ITEM_PUT: u32 = 1;
    LSM_ITEM_REMOVE: u32 = 2;
    LSM_ITEM_CHECK: u32 = 3;
    LSM_VIEW_PIECES: usize = 18;
    LSM_ROOT_NAME: usize = 255;
    LSM_KEY_MAX: usize = 65535;
    LSM_SCAN_EXACT: u32 = 1 << 0;
    LSM_PLANS_MAX: usize = 16;
    LSM_U32: u32 = 1;
    LSM_U64: u32 = 2;
    LSM_I64: u32 = 3;
    LSM_F64: u32 = 4;
    LSM_TO_END: u32 = 0xffff_ffff;
    LSM_SMALLEST: u32 = 1 << 0;
    LSM_SPREAD_SET: u32 = 1;
    LSM_SPREAD_ADD: u32 = 2;
    LSM_SPREAD_SCALE: u32 = 3;
    LSM_SPREAD_SHARE: u32 = 4;
    LSMEM_OBJECT_MAX: usize = 1 << 20;
    LSMEM_TABLES: u32 = 4096;
    LSMEM_OP_ALLOC: u32 = 1;
    LSMEM_OP_REPLACE: u32 = 3;
    LSMEM_OP_FREE: u32 = 4;
    LSMEM_OP_CHECK: u32 = 5;
    LSM_PAGES_ATOMIC: c_uint = 1 << 3;
    PROT_READ: c_int = 1;
    PROT_WRITE: c_int = 2;
    MAP_SHARED: c_int = 1;
    ENOENT: c_int = 2;
    EINTR: c_int = 4;
    EAGAIN: c_int = 11;
    ENOMEM: c_int = 12;
    EACCES: c_int = 13;
    EEXIST: c_int = 17;
    EINVAL: c_int = 22;
    EILSEQ: c_int = 84;
    ETIMEDOUT: c_int = 110;
    ESTALE: c_int = 116;
    ECANCELED: c_int = 125;
}

structures! {
    #[derive(Default)]
    struct lsm_object {
        version: u64,
        length: u32,
        table: u32,
        reserved: [u64; 2],
    }
    struct iovec {
        iov_base: *mut c_void,
        iov_len: usize,
    }
    struct lsm_view {
        iov: [iovec; LSM_VIEW_PIECES],
        nr: u32,
        slot: u32,
        object: lsm_object,
        epoch: u64,
        reserved: [u64; 2],
    }
    #[derive(Default)]
    struct lsm_listed {
        handle: u64,
        object: lsm_object,
    }
    #[derive(Default)]
    struct lsmem_note {
        cursor: u64,
        handle: u64,
        version: u64,
        kind: u32,
        flags: u32,
    }
    struct pollfd {
        fd: c_int,
        events: i16,
        revents: i16,
    }
    struct lsm_root {
        handle: u64,
        name: [c_char; LSM_ROOT_NAME + 1],
        reserved: [u64; 1],
    }
    #[derive(Default)]
    struct lsm_item {
        handle: u64,
        version: u64,
        length: u32,
        reserved: [u32; 3],
    }
    struct lsm_get {
        key: *const c_void,
        key_length: usize,
        value: *mut c_void,
        room: usize,
        item: lsm_item,
        result: isize,
        flags: u32,
        reserved: [u32; 3],
    }
    struct lsm_put {
        key: *const c_void,
        key_length: usize,
        value: *const c_void,
        length: usize,
        flags: c_uint,
        version: u64,
        result: c_int,
        reserved: [u32; 3],
    }
    struct lsm_item_op {
        table: *mut lsm_table,
        key: *const c_void,
        key_length: usize,
        value: *const c_void,
        length: usize,
        op: u32,
        flags: u32,
        version: u64,
        handle: u64,
        result: i32,
        reserved: [u32; 5],
    }
    #[derive(Default)]
    struct lsm_table_stat {
        items: u64,
        index_bytes: u64,
        evicted: u64,
        reserved: [u64; 5],
    }
    #[derive(Default)]
    struct lsm_large {
        version: u64,
        length: u64,
        part: u32,
        table: u32,
        reserved: [u64; 2],
    }
    #[derive(Default)]
    struct lsm_large_report {
        objects: u64,
        parts: u64,
        orphans: u64,
        broken: u64,
        unseen: u64,
        reserved: [u64; 3],
    }
    struct lsm_row {
        handle: u64,
        version: u64,
        data: *const c_void,
        bytes: u32,
        length: u32,
        table: u32,
        reserved: [u32; 3],
    }
    struct lsm_scan {
        plan: u32,
        flags: u32,
        threads: u32,
        prefix: u32,
        one_table: u32,
        table: u32,
        length_min: u32,
        length_max: u32,
        version_min: u64,
        version_max: u64,
        index_first: u64,
        index_end: u64,
        handles: *const u64,
        nr_handles: usize,
        kept_max: u32,
        time_ms: u32,
        batch: Option<unsafe extern "C" fn(*mut c_void, c_uint, *const lsm_row, usize) -> c_int>,
        progress: Option<unsafe extern "C" fn(*mut c_void, u64, u64)>,
        context: *mut c_void,
        reserved: [u64; 8],
    }
    #[derive(Default)]
    struct lsm_explain {
        plan: u32,
        threads: u32,
        objects: u64,
        bytes: u64,
        wanted: u64,
        cold: u64,
        cost_ns: [i64; LSM_PLANS_MAX],
        reserved: [u64; 4],
    }
    #[derive(Default)]
    struct lsm_scan_result {
        explain: lsm_explain,
        version: u64,
        rows: u64,
        copied: u64,
        gone: u64,
        cold: u64,
        reserved: [u64; 4],
    }
    #[derive(Default)]
    struct lsm_column {
        r#type: u32,
        offset: u32,
        nr: u32,
        stride: u32,
    }
    struct lsm_range {
        column: lsm_column,
        low: lsm_value,
        high: lsm_value,
    }
    struct lsm_measure {
        column: lsm_column,
        flags: u32,
        top: u32,
        bounds: *const lsm_value,
        nr_bounds: usize,
        reserved: [u64; 2],
    }
    struct lsm_question {
        ranges: *const lsm_range,
        nr_ranges: usize,
        group: *const lsm_column,
        groups_max: usize,
        measures: *const lsm_measure,
        nr_measures: usize,
        flags: u32,
        reserved: [u32; 7],
    }
    #[derive(Default)]
    struct lsm_counts {
        fed: u64,
        shorter: u64,
        selected: u64,
        groups: u64,
        reserved: [u64; 4],
    }
    #[derive(Default)]
    struct lsm_total {
        count: u64,
        nan: u64,
        min: lsm_value,
        max: lsm_value,
        sum_low: u64,
        sum_high: i64,
        sum: f64,
        average: f64,
        reserved: [u64; 2],
    }
    #[derive(Default)]
    struct lsm_top {
        value: lsm_value,
        handle: u64,
        position: u64,
        reserved: [u64; 1],
    }
    struct lsm_spread {
        how: u32,
        flags: u32,
        column: lsm_column,
        amount: lsm_value,
        factor: f64,
        weight: *const lsm_column,
        ranges: *const lsm_range,
        nr_ranges: usize,
        version: u64,
        weights: lsm_value,
        begun: Option<unsafe extern "C" fn(*mut c_void, u64, lsm_value) -> c_int>,
        progress: Option<unsafe extern "C" fn(*mut c_void, u64, u64) -> c_int>,
        context: *mut c_void,
        reserved: [u64; 6],
    }
    #[derive(Default)]
    struct lsm_spread_report {
        version: u64,
        weights: lsm_value,
        given: lsm_value,
        shorter: u64,
        selected: u64,
        changed: u64,
        lost: u64,
        gone: u64,
        beyond: u64,
        reserved: [u64; 6],
    }
    #[derive(Default)]
    struct lsmem_query {
        size: u32,
        flags: u32,
        features: u64,
        abi: u32,
        kind: u32,
        state: u32,
        object_max: u32,
        vector_max: u32,
        group_max: u32,
        capacity: u64,
        handles_max: u64,
        uuid: [u8; 16],
    }
    #[derive(Default)]
    struct lsmem_op {
        size: u32,
        op: u32,
        flags: u32,
        result: i32,
        handle: u64,
        version: u64,
        data: u64,
        length: u32,
        table: u32,
        offset: u32,
        object_length: u32,
    }
    #[derive(Default)]
    struct lsmem_stat {
        size: u32,
        flags: u32,
        capacity: u64,
        live_bytes: u64,
        seglets: u64,
        free_seglets: u64,
        handles_max: u64,
        handles_used: u64,
        segments: u64,
        segments_cleaned: u64,
        appended_bytes: u64,
        relocated_bytes: u64,
        durable_bytes: u64,
        stalls: u64,
        stall_ns: u64,
        segments_compacted: u64,
    }
}

/// An open store.
#[repr(C)]
pub struct lsm {
    private: [u8; 0],
}

/// An open table.
#[repr(C)]
pub struct lsm_table {
    private: [u8; 0],
}

/// The result of an aggregation.
#[repr(C)]
pub struct lsm_aggregate {
    private: [u8; 0],
}

/// An open pool.
#[repr(C)]
pub struct lsm_pool {
    private: [u8; 0],
}

extern "C" {
    pub fn lsm_open(path: *const c_char, flags: c_uint, lsm: *mut *mut lsm) -> c_int;
    pub fn lsm_close(lsm: *mut lsm);
    pub fn lsm_fd(lsm: *const lsm) -> c_int;
    pub fn lsm_query_sized(lsm: *mut lsm, query: *mut lsmem_query, size: usize) -> c_int;
    pub fn lsm_stat_sized(lsm: *mut lsm, stat: *mut lsmem_stat, size: usize) -> c_int;
    pub fn lsm_wait_active(store: *const c_char, timeout_ms: c_int) -> c_int;
    pub fn lsm_strerror(error: c_int) -> *const c_char;
    pub fn lsm_sync(lsm: *mut lsm, timeout_ms: u32) -> c_int;

    pub fn lsm_alloc(
        lsm: *mut lsm,
        data: *const c_void,
        length: usize,
        flags: c_uint,
        handle: *mut u64,
        version: *mut u64,
    ) -> c_int;
    pub fn lsm_replace(
        lsm: *mut lsm,
        handle: u64,
        data: *const c_void,
        length: usize,
        flags: c_uint,
        version: *mut u64,
    ) -> c_int;
    pub fn lsm_free(lsm: *mut lsm, handle: u64, flags: c_uint, version: *mut u64) -> c_int;
    pub fn lsm_read(
        lsm: *mut lsm,
        handle: u64,
        data: *mut c_void,
        length: usize,
        offset: u32,
        object: *mut lsm_object,
    ) -> isize;
    pub fn lsm_write(
        lsm: *mut lsm,
        handle: u64,
        data: *const c_void,
        length: usize,
        offset: u32,
        flags: c_uint,
        version: *mut u64,
    ) -> c_int;
    pub fn lsm_append(
        lsm: *mut lsm,
        handle: u64,
        data: *const c_void,
        length: usize,
        flags: c_uint,
        offset: *mut u32,
        version: *mut u64,
    ) -> c_int;
    pub fn lsm_truncate(lsm: *mut lsm, handle: u64, length: usize, flags: c_uint, version: *mut u64)
        -> c_int;
    pub fn lsm_compare_exchange(
        lsm: *mut lsm,
        handle: u64,
        offset: u32,
        expected: *mut c_void,
        desired: *const c_void,
        length: usize,
        flags: c_uint,
        version: *mut u64,
    ) -> c_int;
    pub fn lsm_add(
        lsm: *mut lsm,
        handle: u64,
        kind: u32,
        offset: u32,
        value: *mut lsm_value,
        flags: c_uint,
        version: *mut u64,
    ) -> c_int;
    pub fn lsm_view_begin(lsm: *mut lsm, handle: u64, view: *mut lsm_view) -> c_int;
    pub fn lsm_view_end(lsm: *mut lsm, view: *mut lsm_view) -> c_int;
    pub fn lsm_view_bound(lsm: *const lsm) -> c_int;
    pub fn lsm_next(
        lsm: *mut lsm,
        table: c_int,
        cursor: *mut u64,
        listed: *mut lsm_listed,
        nr: usize,
    ) -> isize;

    pub fn lsm_watch_open(lsm: *mut lsm, table: u32, entries: u32, cursor: u64, flags: c_uint) -> c_int;
    pub fn lsm_watch_read(watch: c_int, notes: *mut lsmem_note, nr: usize) -> isize;
    pub fn poll(files: *mut pollfd, nr: u64, timeout_ms: c_int) -> c_int;

    pub fn lsm_root_set(
        lsm: *mut lsm,
        name: *const c_char,
        handle: u64,
        flags: c_uint,
        expected: *const u64,
    ) -> c_int;
    pub fn lsm_root_get(lsm: *mut lsm, name: *const c_char, handle: *mut u64) -> c_int;
    pub fn lsm_root_list(lsm: *mut lsm, roots: *mut lsm_root, nr: usize) -> isize;

    pub fn lsm_table_open(lsm: *mut lsm, id: u32, flags: c_uint, table: *mut *mut lsm_table) -> c_int;
    pub fn lsm_table_close(table: *mut lsm_table);
    pub fn lsm_table_get(
        table: *mut lsm_table,
        key: *const c_void,
        key_length: usize,
        value: *mut c_void,
        room: usize,
        item: *mut lsm_item,
    ) -> isize;
    pub fn lsm_table_put(
        table: *mut lsm_table,
        key: *const c_void,
        key_length: usize,
        value: *const c_void,
        length: usize,
        flags: c_uint,
        version: *mut u64,
    ) -> c_int;
    pub fn lsm_table_alloc(
        table: *mut lsm_table,
        key: *const c_void,
        key_length: usize,
        value: *const c_void,
        length: usize,
        flags: c_uint,
        item: *mut lsm_item,
    ) -> c_int;
    pub fn lsm_table_remove(
        table: *mut lsm_table,
        key: *const c_void,
        key_length: usize,
        flags: c_uint,
        version: *mut u64,
    ) -> c_int;
    pub fn lsm_table_get_many(table: *mut lsm_table, gets: *mut lsm_get, nr: usize);
    pub fn lsm_table_put_many(table: *mut lsm_table, puts: *mut lsm_put, nr: usize, flags: c_uint) -> c_int;
    pub fn lsm_table_group(
        lsm: *mut lsm,
        items: *mut lsm_item_op,
        nr: usize,
        ops: *mut lsmem_op,
        nr_ops: usize,
        flags: c_uint,
    ) -> c_int;
    pub fn lsm_table_next(
        table: *mut lsm_table,
        cursor: *mut u64,
        key: *mut c_void,
        key_length: *mut usize,
        value: *mut c_void,
        room: usize,
        item: *mut lsm_item,
    ) -> c_int;
    pub fn lsm_table_note(
        table: *mut lsm_table,
        note: *const lsmem_note,
        key: *mut c_void,
        key_length: *mut usize,
        value: *mut c_void,
        room: usize,
        item: *mut lsm_item,
    ) -> c_int;
    pub fn lsm_table_stat(table: *mut lsm_table, stat: *mut lsm_table_stat) -> c_int;
    pub fn lsm_table_evict(table: *mut lsm_table, bytes: usize, evicted: *mut u64) -> isize;

    pub fn lsm_large_create(lsm: *mut lsm, part: u32, flags: c_uint, handle: *mut u64) -> c_int;
    pub fn lsm_large_read(
        lsm: *mut lsm,
        handle: u64,
        data: *mut c_void,
        length: usize,
        offset: u64,
        large: *mut lsm_large,
    ) -> isize;
    pub fn lsm_large_write(
        lsm: *mut lsm,
        handle: u64,
        data: *const c_void,
        length: usize,
        offset: u64,
        flags: c_uint,
        version: *mut u64,
    ) -> c_int;
    pub fn lsm_large_append(
        lsm: *mut lsm,
        handle: u64,
        data: *const c_void,
        length: usize,
        flags: c_uint,
        offset: *mut u64,
        version: *mut u64,
    ) -> c_int;
    pub fn lsm_large_free(lsm: *mut lsm, handle: u64, flags: c_uint, version: *mut u64) -> c_int;
    pub fn lsm_large_sweep(lsm: *mut lsm, table: u32, report: *mut lsm_large_report) -> c_int;

    pub fn lsm_pages_create(lsm: *mut lsm, length: u64, buffer: u64, flags: c_uint, root: *mut u64) -> c_int;
    pub fn lsm_pages_open(lsm: *mut lsm, root: u64, buffer: u64) -> c_int;
    pub fn lsm_pages_remove(lsm: *mut lsm, root: u64) -> c_int;
    pub fn mmap(
        address: *mut c_void,
        length: usize,
        protection: c_int,
        flags: c_int,
        fd: c_int,
        offset: i64,
    ) -> *mut c_void;
    pub fn munmap(address: *mut c_void, length: usize) -> c_int;

    pub fn lsm_pool_create(
        lsm: *mut lsm,
        length: u64,
        buffer: u64,
        flags: c_uint,
        root: *mut u64,
        pool: *mut *mut lsm_pool,
    ) -> c_int;
    pub fn lsm_pool_open(lsm: *mut lsm, root: u64, buffer: u64, pool: *mut *mut lsm_pool) -> c_int;
    pub fn lsm_pool_close(pool: *mut lsm_pool);
    pub fn lsm_pool_sync(pool: *mut lsm_pool) -> c_int;
    pub fn lsm_pool_alloc(pool: *mut lsm_pool, length: usize, object: *mut *mut c_void) -> c_int;
    pub fn lsm_pool_free(pool: *mut lsm_pool, object: *mut c_void) -> c_int;
    pub fn lsm_pool_handle(pool: *const lsm_pool, object: *const c_void, handle: *mut u64) -> c_int;
    pub fn lsm_pool_length(pool: *const lsm_pool, object: *const c_void) -> isize;
    pub fn lsm_pool_next(pool: *const lsm_pool, object: *mut *mut c_void) -> c_int;
    pub fn lsm_pool_page(pool: *const lsm_pool, object: *const c_void) -> i64;
    pub fn lsm_pool_pointer(pool: *const lsm_pool, page: u64) -> *mut c_void;

    pub fn lsm_scan(lsm: *mut lsm, scan: *const lsm_scan, result: *mut lsm_scan_result) -> c_int;
    pub fn lsm_scan_aggregate(
        lsm: *mut lsm,
        scan: *const lsm_scan,
        question: *const lsm_question,
        aggregate: *mut *mut lsm_aggregate,
        result: *mut lsm_scan_result,
    ) -> c_int;
    pub fn lsm_aggregate_destroy(aggregate: *mut lsm_aggregate);
    pub fn lsm_aggregate_merge(into: *mut lsm_aggregate, from: *const lsm_aggregate) -> c_int;
    pub fn lsm_aggregate_counts(aggregate: *const lsm_aggregate, counts: *mut lsm_counts) -> c_int;
    pub fn lsm_aggregate_total(
        aggregate: *const lsm_aggregate,
        measure: usize,
        total: *mut lsm_total,
    ) -> c_int;
    pub fn lsm_aggregate_group(
        aggregate: *mut lsm_aggregate,
        group: usize,
        value: *mut lsm_value,
        rows: *mut u64,
        totals: *mut lsm_total,
    ) -> c_int;
    pub fn lsm_aggregate_histogram(
        aggregate: *const lsm_aggregate,
        measure: usize,
        buckets: *mut u64,
    ) -> c_int;
    pub fn lsm_aggregate_top(
        aggregate: *const lsm_aggregate,
        measure: usize,
        top: *mut lsm_top,
        nr: usize,
    ) -> isize;
    pub fn lsm_spread(
        lsm: *mut lsm,
        scan: *const lsm_scan,
        spread: *const lsm_spread,
        report: *mut lsm_spread_report,
    ) -> c_int;
}
