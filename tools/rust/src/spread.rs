// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
//! Spreads: a value in each of many objects is changed.

use std::any::Any;
use std::ops::ControlFlow;
use std::os::raw::{c_int, c_void};
use std::panic::{self, AssertUnwindSafe};
use std::ptr;

use crate::aggregate::Ranges;
use crate::error::check;
use crate::{sys, Column, Error, Kind, Result, Scan, Store, Value};

/// What is needed to go on with a spread that was cut off, after a crash, too: objects that it has changed are not
/// changed again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Resume {
    /// The version at which objects were chosen.
    pub version: u64,
    /// The sum of the weights, of [`Spread::share`]: [`Value::U64`] for a column of integers, else [`Value::F64`].
    pub weights: Value,
}

/// How objects are changed: each by itself, not durable, and all that the scan gives, unless said otherwise.
///
/// A value that is not of the type that is wanted is an error of [`Store::spread`] (EINVAL).
#[derive(Clone, Debug)]
pub struct Spread {
    how: u32,
    flags: u32,
    column: Column,
    amount: Value,
    factor: f64,
    weight: Option<Column>,
    ranges: Ranges,
    resume: Option<Resume>,
}

impl Spread {
    fn new(how: u32, column: Column, amount: Value) -> Spread {
        let ranges = Ranges::default();
        Spread { how, flags: 0, column, amount, factor: 0.0, weight: None, ranges, resume: None }
    }

    /// The value becomes another one, of the column's type.
    pub fn set(column: Column, value: impl Into<Value>) -> Spread {
        Spread::new(sys::LSM_SPREAD_SET, column, value.into())
    }

    /// An amount is added: an `i64` to integers, an `f64` to doubles.
    pub fn add(column: Column, amount: impl Into<Value>) -> Spread {
        Spread::new(sys::LSM_SPREAD_ADD, column, amount.into())
    }

    /// The value is multiplied; integers are rounded to the nearest.
    pub fn scale(column: Column, factor: f64) -> Spread {
        let none = if column.kind == Kind::F64 { Value::F64(0.0) } else { Value::I64(0) };
        let mut spread = Spread::new(sys::LSM_SPREAD_SCALE, column, none);
        spread.factor = factor;
        spread
    }

    /// An amount, as for [`Spread::add`], is shared out: the same for all objects, or by their weights. Shares that are
    /// integers are rounded towards 0.
    pub fn share(column: Column, amount: impl Into<Value>) -> Spread {
        Spread::new(sys::LSM_SPREAD_SHARE, column, amount.into())
    }

    /// The weights of [`Spread::share`]: of each object, none negative; integers for a column of integers.
    pub fn weight(mut self, column: Column) -> Spread {
        self.weight = Some(column);
        self
    }

    /// Only objects whose value in a column is `low` to `high`.
    pub fn range(mut self, column: Column, low: impl Into<Value>, high: impl Into<Value>) -> Spread {
        self.ranges.add(column, low.into(), high.into());
        self
    }

    /// Wait until each vector of changes is durable.
    pub fn durable(mut self) -> Spread {
        self.flags |= sys::LSM_DURABLE;
        self
    }

    /// Make all changes of a vector, of up to 64 objects, or none, but for objects of more than 2 KiB and those that
    /// others have changed.
    pub fn atomic(mut self) -> Spread {
        self.flags |= sys::LSM_ATOMIC;
        self
    }

    /// Go on with what was cut off.
    pub fn resume(mut self, from: Resume) -> Spread {
        self.resume = Some(from);
        self
    }

    /// The type of amounts, and the one of sums of weights.
    fn kinds(&self) -> (Kind, Kind) {
        match (self.column.kind, self.how) {
            (Kind::F64, _) => (Kind::F64, Kind::F64),
            (kind, sys::LSM_SPREAD_SET) => (kind, Kind::U64),
            _ => (Kind::I64, Kind::U64),
        }
    }
}

/// How far a spread is, as its function is told.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// The objects are chosen, and none is changed yet: to be kept, for [`Spread::resume`].
    Begun(Resume),
    /// So many objects of so many are done.
    Done(u64, u64),
}

/// What a spread has done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Changed {
    /// To go on, if it was ended.
    pub resume: Resume,
    /// What was added by [`Spread::share`]: less than the amount by what is rounded, and by the shares of objects that were
    /// not changed.
    pub given: Option<Value>,
    /// Objects that are too short for a column, and were left out.
    pub shorter: u64,
    /// Objects that were to be changed.
    pub selected: u64,
    /// Of these, those that were.
    pub changed: u64,
    /// Those that others have changed meanwhile, and that are left as they are.
    pub lost: u64,
    /// Those that were freed meanwhile.
    pub gone: u64,
    /// Those without a value, or whose new value is beyond the type: left as they are.
    pub beyond: u64,
    /// The function has ended the spread.
    pub stopped: bool,
}

/// The function, and how it has ended the spread.
struct Caller<'each, F> {
    each: &'each mut F,
    weights: Kind,
    stopped: bool,
    panicked: Option<Box<dyn Any + Send>>,
}

impl<F: FnMut(Progress) -> ControlFlow<()>> Caller<'_, F> {
    fn tell(&mut self, progress: Progress) -> c_int {
        match panic::catch_unwind(AssertUnwindSafe(|| (self.each)(progress))) {
            Ok(ControlFlow::Continue(())) => return 0,
            Ok(ControlFlow::Break(())) => self.stopped = true,
            Err(panicked) => self.panicked = Some(panicked),
        }
        -sys::ECANCELED
    }
}

unsafe extern "C" fn begun<F>(context: *mut c_void, version: u64, weights: sys::lsm_value) -> c_int
where
    F: FnMut(Progress) -> ControlFlow<()>,
{
    // SAFETY: lsm_spread() passes the context on, in the thread of its caller.
    let caller = unsafe { &mut *context.cast::<Caller<'_, F>>() };
    let weights = Value::from_raw(weights, caller.weights);
    caller.tell(Progress::Begun(Resume { version, weights }))
}

unsafe extern "C" fn progress<F>(context: *mut c_void, done: u64, total: u64) -> c_int
where
    F: FnMut(Progress) -> ControlFlow<()>,
{
    // SAFETY: lsm_spread() passes the context on, in the thread of its caller.
    unsafe { &mut *context.cast::<Caller<'_, F>>() }.tell(Progress::Done(done, total))
}

pub(crate) fn spread<F>(store: &Store, what: &Scan<'_>, how: &Spread, each: &mut F) -> Result<Changed>
where
    F: FnMut(Progress) -> ControlFlow<()>,
{
    let wrong = || Error::new(sys::EINVAL, "lsm_spread");
    let (amount, sum) = how.kinds();
    let from = how.resume.unwrap_or(Resume { version: 0, weights: Value::from_raw(Default::default(), sum) });
    if how.ranges.wrong {
        return Err(wrong());
    }
    let weight = how.weight.map(Column::raw);
    let mut caller = Caller { each, weights: sum, stopped: false, panicked: None };
    let raw = sys::lsm_spread {
        how: how.how,
        flags: how.flags,
        column: how.column.raw(),
        amount: how.amount.raw(amount).ok_or_else(wrong)?,
        factor: how.factor,
        weight: weight.as_ref().map_or(ptr::null(), |column| column),
        ranges: how.ranges.raw.as_ptr(),
        nr_ranges: how.ranges.raw.len(),
        version: from.version,
        weights: from.weights.raw(sum).ok_or_else(wrong)?,
        begun: Some(begun::<F>),
        progress: Some(progress::<F>),
        context: (&mut caller as *mut Caller<'_, F>).cast(),
        reserved: [0; 6],
    };
    let mut report = sys::lsm_spread_report::default();
    // SAFETY: lists and the context live until the call returns.
    let ret = unsafe { sys::lsm_spread(store.raw(), what.raw(), &raw, &mut report) };
    if let Some(panicked) = caller.panicked {
        panic::resume_unwind(panicked);
    }
    if !caller.stopped {
        check(ret as isize, "lsm_spread")?;
    }
    Ok(Changed {
        resume: Resume { version: report.version, weights: Value::from_raw(report.weights, sum) },
        given: (how.how == sys::LSM_SPREAD_SHARE).then(|| Value::from_raw(report.given, amount)),
        shorter: report.shorter,
        selected: report.selected,
        changed: report.changed,
        lost: report.lost,
        gone: report.gone,
        beyond: report.beyond,
        stopped: caller.stopped,
    })
}
