// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
//! Aggregates: sums, extremes, histograms and more of values in the objects of a scan.

use std::ptr::{self, NonNull};

use crate::error::check;
use crate::{sys, Error, Handle, Result, Scan, Scanned, Store};

/// A type of values in objects, little endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// 32 bits; a [`Value::U64`].
    U32 = sys::LSM_U32,
    /// 64 bits.
    U64 = sys::LSM_U64,
    /// 64 bits, signed.
    I64 = sys::LSM_I64,
    /// A double.
    F64 = sys::LSM_F64,
}

/// A value of a column.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd)]
pub enum Value {
    /// Of [`Kind::U32`] or [`Kind::U64`].
    U64(u64),
    /// Of [`Kind::I64`].
    I64(i64),
    /// Of [`Kind::F64`].
    F64(f64),
}

impl From<u32> for Value {
    fn from(value: u32) -> Value {
        Value::U64(value.into())
    }
}

impl From<u64> for Value {
    fn from(value: u64) -> Value {
        Value::U64(value)
    }
}

impl From<i64> for Value {
    fn from(value: i64) -> Value {
        Value::I64(value)
    }
}

impl From<f64> for Value {
    fn from(value: f64) -> Value {
        Value::F64(value)
    }
}

impl Value {
    /// `None`: it is of another type.
    pub(crate) fn raw(self, kind: Kind) -> Option<sys::lsm_value> {
        match (self, kind) {
            (Value::U64(u64), Kind::U32 | Kind::U64) => Some(sys::lsm_value { u64 }),
            (Value::I64(i64), Kind::I64) => Some(sys::lsm_value { i64 }),
            (Value::F64(f64), Kind::F64) => Some(sys::lsm_value { f64 }),
            _ => None,
        }
    }

    pub(crate) fn from_raw(raw: sys::lsm_value, kind: Kind) -> Value {
        // SAFETY: any bits are a value of any type.
        unsafe {
            match kind {
                Kind::U32 | Kind::U64 => Value::U64(raw.u64),
                Kind::I64 => Value::I64(raw.i64),
                Kind::F64 => Value::F64(raw.f64),
            }
        }
    }
}

/// Where values are in each object: one at an offset, unless said otherwise. An object that is too short is left out, and
/// counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    pub(crate) kind: Kind,
    offset: u32,
    nr: u32,
    stride: u32,
}

impl Column {
    /// A value, so many bytes from the begin of the object.
    pub const fn new(kind: Kind, offset: u32) -> Column {
        Column { kind, offset, nr: 0, stride: 0 }
    }

    /// So many values, one after the other.
    pub const fn many(mut self, nr: u32) -> Column {
        self.nr = nr;
        self
    }

    /// As many values as the object has room for, at least one.
    pub const fn to_end(self) -> Column {
        self.many(sys::LSM_TO_END)
    }

    /// With so many bytes from one value to the next.
    pub const fn stride(mut self, bytes: u32) -> Column {
        self.stride = bytes;
        self
    }

    pub(crate) fn raw(self) -> sys::lsm_column {
        sys::lsm_column { r#type: self.kind as u32, offset: self.offset, nr: self.nr, stride: self.stride }
    }
}

/// Which objects: ranges that must all hold.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ranges {
    pub(crate) raw: Vec<sys::lsm_range>,
    /// A bound was of another type than its column.
    pub(crate) wrong: bool,
}

impl Ranges {
    pub(crate) fn add(&mut self, column: Column, low: Value, high: Value) {
        match (low.raw(column.kind), high.raw(column.kind)) {
            (Some(low), Some(high)) => self.raw.push(sys::lsm_range { column: column.raw(), low, high }),
            _ => self.wrong = true,
        }
    }
}

/// What is to be known of a column. Count, sum, least, largest and average always are.
#[derive(Clone, Debug)]
pub struct Measure {
    column: Column,
    flags: u32,
    top: u32,
    bounds: Vec<Value>,
}

impl From<Column> for Measure {
    fn from(column: Column) -> Measure {
        Measure { column, flags: 0, top: 0, bounds: Vec::new() }
    }
}

impl Measure {
    /// The largest values, up to 65536 of them, for [`Aggregate::top`].
    pub fn largest(mut self, nr: u32) -> Measure {
        (self.top, self.flags) = (nr, 0);
        self
    }

    /// The smallest values instead.
    pub fn smallest(mut self, nr: u32) -> Measure {
        (self.top, self.flags) = (nr, sys::LSM_SMALLEST);
        self
    }

    /// A histogram, for [`Aggregate::histogram`]: a value is in bucket i if i of these ascending bounds are no larger.
    pub fn histogram<V: Into<Value> + Copy>(mut self, bounds: &[V]) -> Measure {
        self.bounds = bounds.iter().map(|bound| (*bound).into()).collect();
        self
    }
}

/// What an aggregate is to compute: with no measure, how many objects there are.
///
/// A value that is not of its column's type, and anything that does not fit an object, is an error of
/// [`Store::aggregate`] (EINVAL).
#[derive(Clone, Debug, Default)]
pub struct Question {
    ranges: Ranges,
    group: Option<Column>,
    groups_max: usize,
    measures: Vec<Measure>,
}

impl Question {
    /// Only objects whose value is `low` to `high`. NaN is in no range.
    pub fn range(mut self, column: Column, low: impl Into<Value>, high: impl Into<Value>) -> Question {
        self.ranges.add(column, low.into(), high.into());
        self
    }

    /// A group for each value of a column of integers; at most `most` of them, else EOVERFLOW; 0: 65536.
    pub fn group(mut self, column: Column, most: usize) -> Question {
        (self.group, self.groups_max) = (Some(column), most);
        self
    }

    /// One more measure, of at most 64. They are counted from 0.
    pub fn measure(mut self, measure: impl Into<Measure>) -> Question {
        self.measures.push(measure.into());
        self
    }
}

/// How many objects an aggregate has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// All of the scan.
    pub fed: u64,
    /// Left out, because they are too short for a column.
    pub shorter: u64,
    /// Neither too short nor out of a range.
    pub selected: u64,
    /// Groups.
    pub groups: u64,
}

/// A measure, of all objects or of a group.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Total {
    /// Values that are not NaN.
    pub count: u64,
    /// NaN.
    pub nan: u64,
    /// The least value, if there is one.
    pub min: Option<Value>,
    /// The largest.
    pub max: Option<Value>,
    /// The sum of integers, exact. `None`: of doubles.
    pub integer: Option<i128>,
    /// The sum, as the nearest double; infinite if it is too large.
    pub sum: f64,
    /// Of the values; 0 if there is none.
    pub average: f64,
}

/// Objects that have a value in common.
#[derive(Clone, Debug, PartialEq)]
pub struct Grouped {
    /// That value. `None`: the question has no column for groups, and these are all objects.
    pub value: Option<Value>,
    /// How many objects.
    pub rows: u64,
    /// Of each measure.
    pub totals: Vec<Total>,
}

/// One of the largest or smallest values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Top {
    /// The value.
    pub value: Value,
    /// The object that has it; of equal values those with the smallest handles are kept.
    pub handle: Handle,
    /// Which of the values of the object.
    pub position: u64,
}

/// What [`Store::aggregate`] has computed: the same to the bit, whatever the plan and the threads.
#[derive(Debug)]
pub struct Aggregate {
    raw: NonNull<sys::lsm_aggregate>,
    question: Question,
    scanned: Scanned,
}

// SAFETY: memory of its own; one thread at a time uses it, because it is not Sync.
unsafe impl Send for Aggregate {}

impl Drop for Aggregate {
    fn drop(&mut self) {
        // SAFETY: nothing is borrowed from it.
        unsafe { sys::lsm_aggregate_destroy(self.raw.as_ptr()) }
    }
}

fn wrong() -> Error {
    Error::new(sys::EINVAL, "lsm_scan_aggregate")
}

impl Aggregate {
    pub(crate) fn scan(store: &Store, what: &Scan<'_>, question: Question) -> Result<Aggregate> {
        let bounds: Vec<Vec<sys::lsm_value>> = question
            .measures
            .iter()
            .map(|measure| measure.bounds.iter().map(|bound| bound.raw(measure.column.kind)).collect())
            .collect::<Option<_>>()
            .ok_or_else(wrong)?;
        if question.ranges.wrong {
            return Err(wrong());
        }
        let measures: Vec<sys::lsm_measure> = question
            .measures
            .iter()
            .zip(&bounds)
            .map(|(measure, bounds)| sys::lsm_measure {
                column: measure.column.raw(),
                flags: measure.flags,
                top: measure.top,
                bounds: if bounds.is_empty() { ptr::null() } else { bounds.as_ptr() },
                nr_bounds: bounds.len(),
                reserved: [0; 2],
            })
            .collect();
        let group = question.group.map(Column::raw);
        let raw_question = sys::lsm_question {
            ranges: question.ranges.raw.as_ptr(),
            nr_ranges: question.ranges.raw.len(),
            group: group.as_ref().map_or(ptr::null(), |column| column),
            groups_max: question.groups_max,
            measures: measures.as_ptr(),
            nr_measures: measures.len(),
            flags: 0,
            reserved: [0; 7],
        };
        let (mut raw, mut result) = (ptr::null_mut(), sys::lsm_scan_result::default());
        // SAFETY: lists live until the call returns, which copies the question.
        let ret =
            unsafe { sys::lsm_scan_aggregate(store.raw(), what.raw(), &raw_question, &mut raw, &mut result) };
        check(ret as isize, "lsm_scan_aggregate")?;
        let raw = NonNull::new(raw).ok_or_else(wrong)?;
        Ok(Aggregate { raw, question, scanned: Scanned::new(&result, false) })
    }

    /// What the scan has done.
    pub fn scanned(&self) -> Scanned {
        self.scanned
    }

    /// Adds what an aggregate of the same question has, of another store, say. After an error neither the result nor
    /// further calls are of use.
    pub fn merge(&mut self, other: &Aggregate) -> Result<()> {
        // SAFETY: both are there, and are not the same.
        let ret = unsafe { sys::lsm_aggregate_merge(self.raw.as_ptr(), other.raw.as_ptr()) };
        check(ret as isize, "lsm_aggregate_merge").map(|_| ())
    }

    /// How many objects and groups there are.
    pub fn counts(&self) -> Result<Counts> {
        let mut counts = sys::lsm_counts::default();
        // SAFETY: there is room for the counts.
        check(
            unsafe { sys::lsm_aggregate_counts(self.raw.as_ptr(), &mut counts) } as isize,
            "lsm_aggregate_counts",
        )?;
        Ok(Counts {
            fed: counts.fed,
            shorter: counts.shorter,
            selected: counts.selected,
            groups: counts.groups,
        })
    }

    /// A measure, by its number, that the question must have, else EINVAL.
    fn measure(&self, measure: usize, call: &'static str) -> Result<&Measure> {
        self.question.measures.get(measure).ok_or_else(|| Error::new(sys::EINVAL, call))
    }

    /// A measure of all objects that were selected.
    pub fn total(&self, measure: usize) -> Result<Total> {
        let kind = self.measure(measure, "lsm_aggregate_total")?.column.kind;
        let mut total = sys::lsm_total::default();
        // SAFETY: there is room for the total.
        check(
            unsafe { sys::lsm_aggregate_total(self.raw.as_ptr(), measure, &mut total) } as isize,
            "lsm_aggregate_total",
        )?;
        Ok(whole(&total, kind))
    }

    /// All groups, in the order of their values.
    pub fn groups(&self) -> impl Iterator<Item = Result<Grouped>> + '_ {
        let (nr, error) = match self.counts() {
            Ok(counts) => (counts.groups as usize, None),
            Err(error) => (0, Some(Err(error))),
        };
        error.into_iter().chain((0..nr).map(move |group| self.one_group(group)))
    }

    fn one_group(&self, group: usize) -> Result<Grouped> {
        let (mut value, mut rows) = (sys::lsm_value::default(), 0);
        let mut totals = vec![sys::lsm_total::default(); self.question.measures.len()];
        // SAFETY: there is room for a total of each measure; no other thread has the aggregate.
        let ret = unsafe {
            sys::lsm_aggregate_group(self.raw.as_ptr(), group, &mut value, &mut rows, totals.as_mut_ptr())
        };
        check(ret as isize, "lsm_aggregate_group")?;
        Ok(Grouped {
            value: self.question.group.map(|column| Value::from_raw(value, column.kind)),
            rows,
            totals: totals
                .iter()
                .zip(&self.question.measures)
                .map(|(total, measure)| whole(total, measure.column.kind))
                .collect(),
        })
    }

    /// The histogram of a measure: how many values are in each bucket, of which there is one more than bounds.
    pub fn histogram(&self, measure: usize) -> Result<Vec<u64>> {
        let bounds = self.measure(measure, "lsm_aggregate_histogram")?.bounds.len();
        let mut buckets = vec![0; bounds + 1];
        // SAFETY: there is room for so many.
        let ret = unsafe { sys::lsm_aggregate_histogram(self.raw.as_ptr(), measure, buckets.as_mut_ptr()) };
        check(ret as isize, "lsm_aggregate_histogram").map(|_| buckets)
    }

    /// The largest values of a measure, the largest first, or the smallest.
    pub fn top(&self, measure: usize) -> Result<Vec<Top>> {
        let of = self.measure(measure, "lsm_aggregate_top")?;
        let mut top = vec![sys::lsm_top::default(); of.top as usize];
        // SAFETY: there is room for so many.
        let ret = unsafe { sys::lsm_aggregate_top(self.raw.as_ptr(), measure, top.as_mut_ptr(), top.len()) };
        top.truncate(check(ret, "lsm_aggregate_top")?);
        Ok(top
            .iter()
            .filter_map(|found| {
                Some(Top {
                    value: Value::from_raw(found.value, of.column.kind),
                    handle: Handle::from_raw(found.handle)?,
                    position: found.position,
                })
            })
            .collect())
    }
}

fn whole(total: &sys::lsm_total, kind: Kind) -> Total {
    let some = |value| (total.count > 0).then(|| Value::from_raw(value, kind));
    Total {
        count: total.count,
        nan: total.nan,
        min: some(total.min),
        max: some(total.max),
        integer: (kind != Kind::F64).then(|| (i128::from(total.sum_high) << 64) + i128::from(total.sum_low)),
        sum: total.sum,
        average: total.average,
    }
}
