// SPDX-License-Identifier: GPL-2.0
//! Aggregates and spreads against models.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::panic::{self, AssertUnwindSafe};
use std::thread;

use lsmem::{
    Aggregate, Changed, Column, Handle, Kind, Measure, Progress, Question, Result, Scan, Spread, Store, Top,
    Total, Update, Value,
};

use crate::{Tap, EINVAL};

const EDOM: i32 = 33;
const EOVERFLOW: i32 = 75;
const OBJECTS: u32 = 3000;
const GROUPS: u32 = 7;
const TABLE: u16 = 15;
const GROUP: Column = Column::new(Kind::U32, 0);
const NUMBER: Column = Column::new(Kind::I64, 4);
const REAL: Column = Column::new(Kind::F64, 12);
const WEIGHT: Column = Column::new(Kind::U64, 20);
/// The last of them, of u32.
const TAIL: Column = Column::new(Kind::U32, 28).stride(8);

#[derive(Clone, Debug, PartialEq)]
struct Row {
    group: u32,
    number: i64,
    real: f64,
    weight: u64,
    tail: Vec<u32>,
}

impl Row {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = [
            &self.group.to_le_bytes()[..],
            &self.number.to_le_bytes(),
            &self.real.to_le_bytes(),
            &self.weight.to_le_bytes(),
        ]
        .concat();
        for value in &self.tail {
            bytes.extend_from_slice(&value.to_le_bytes());
            bytes.extend_from_slice(b"pad!");
        }
        bytes
    }
}

type Rows = BTreeMap<Handle, Row>;

fn make_rows(store: &Store) -> Result<Rows> {
    (0..OBJECTS)
        .map(|i| {
            let row = Row {
                group: i % GROUPS,
                number: (i64::from(i) - 700) * 3_000_000_000_000_000,
                real: if i == 9 { f64::NAN } else { f64::from(i) / 4.0 - 100.0 },
                weight: u64::from(i % 5),
                tail: (0..1 + i % 3).map(|j| i * 10 + j).collect(),
            };
            Ok((store.alloc_in(TABLE, &row.bytes(), false)?.0, row))
        })
        .collect()
}

/// What an aggregate has to say of the rows that are chosen.
fn numbers<'rows>(rows: impl Iterator<Item = &'rows Row>) -> Total {
    let numbers: Vec<i64> = rows.map(|row| row.number).collect();
    let sum: i128 = numbers.iter().map(|number| i128::from(*number)).sum();
    let count = numbers.len() as u64;
    Total {
        count,
        nan: 0,
        min: numbers.iter().min().map(|number| Value::I64(*number)),
        max: numbers.iter().max().map(|number| Value::I64(*number)),
        integer: Some(sum),
        sum: sum as f64,
        average: if count > 0 { sum as f64 / count as f64 } else { 0.0 },
    }
}

pub(crate) fn test_aggregates(tap: &mut Tap, store: &Store) -> Result<()> {
    let rows = make_rows(store)?;
    let (short, _) = store.alloc_in(TABLE, b"short", false)?;
    let (other, _) = store.alloc(&[0; 100])?;
    let scan = Scan::default().table(TABLE);
    let ask = |question: Question| -> Result<Aggregate> { store.aggregate(&scan, question) };

    let all = ask(Question::default().measure(NUMBER).measure(REAL).measure(TAIL.to_end()))?;
    let counts = all.counts()?;
    let objects = u64::from(OBJECTS);
    tap.is("an aggregate counts", (counts.fed, counts.shorter, counts.selected), (objects + 1, 1, objects));
    tap.ok("and knows of its scan", all.scanned().rows == objects + 1 && !all.scanned().stopped);
    tap.is("integers", all.total(0)?, numbers(rows.values()));
    tap.ok("whose sum has more than 64 bits", all.total(0)?.integer.unwrap() > i128::from(i64::MAX));
    let real = all.total(1)?;
    let reals: Vec<f64> = rows.values().map(|row| row.real).filter(|real| !real.is_nan()).collect();
    tap.is("doubles, and what is none", (real.count, real.nan, real.integer), (objects - 1, 1, None));
    tap.is("their sum", real.sum, reals.iter().sum());
    tap.is("their ends", (real.min, real.max), (Some(Value::F64(-100.0)), Some(Value::F64(649.75))));
    let tail: Vec<u64> = rows.values().flat_map(|row| &row.tail).map(|value| u64::from(*value)).collect();
    tap.is(
        "several values of an object",
        (all.total(2)?.count, all.total(2)?.integer),
        (tail.len() as u64, Some(tail.iter().sum::<u64>().into())),
    );
    tap.fails("no such measure", all.total(3), EINVAL);
    tap.fails("a measure without a histogram", all.histogram(0), EINVAL);
    tap.is("nor with a top", all.top(0)?, vec![]);

    let grouped = ask(Question::default().group(GROUP, 0).measure(NUMBER))?;
    let groups: Vec<_> = grouped.groups().collect::<Result<_>>()?;
    tap.is("groups", grouped.counts()?.groups, GROUPS.into());
    tap.ok(
        "in order, each with its rows",
        groups.len() == GROUPS as usize
            && groups.iter().zip(0..).all(|(group, number)| {
                let of = || rows.values().filter(|row| row.group == number);
                group.value == Some(Value::U64(number.into()))
                    && group.rows == of().count() as u64
                    && group.totals == [numbers(of())]
            }),
    );
    tap.is("all of them together", grouped.total(0)?, numbers(rows.values()));
    tap.fails("too many groups", ask(Question::default().group(GROUP, 3)), EOVERFLOW);

    let ranges = Question::default().range(GROUP, 2u32, 4u32).range(REAL, 0.0, 50.0).measure(NUMBER);
    let inside = |row: &&Row| (2..=4).contains(&row.group) && (0.0..=50.0).contains(&row.real);
    let chosen = numbers(rows.values().filter(inside));
    tap.ok("ranges choose some", chosen.count > 0 && chosen.count < objects);
    tap.is("those", ask(ranges)?.total(0)?, chosen);
    let none = ask(Question::default().range(REAL, 1e9, 1e10).measure(NUMBER))?;
    tap.is("none", none.total(0)?, numbers([].into_iter()));
    tap.is("so there are no groups", none.groups().count(), 0);
    tap.is("without measures", ask(Question::default().range(GROUP, 1u32, 1u32))?.groups().count(), 1);

    let bounds = [-50.0, 0.0, 600.0];
    let measured = ask(Question::default()
        .measure(Measure::from(REAL).histogram(&bounds).largest(3))
        .measure(Measure::from(TAIL.to_end()).smallest(4)))?;
    let mut buckets = vec![0; 4];
    reals.iter().for_each(|real| buckets[bounds.iter().filter(|bound| *bound <= real).count()] += 1);
    tap.is("a histogram", measured.histogram(0)?, buckets);
    let mut by_real: Vec<_> = rows.iter().filter(|(_, row)| !row.real.is_nan()).collect();
    by_real.sort_by(|one, other| other.1.real.total_cmp(&one.1.real));
    let largest: Vec<Top> = by_real
        .iter()
        .take(3)
        .map(|(handle, row)| Top { value: Value::F64(row.real), handle: **handle, position: 0 })
        .collect();
    tap.is("the largest values", measured.top(0)?, largest);
    let smallest: Vec<_> = measured.top(1)?.iter().map(|top| (top.value, top.position)).collect();
    tap.is(
        "the smallest ones",
        smallest,
        [(0, 0), (10, 0), (11, 1), (20, 0)].map(|(value, position)| (Value::U64(value), position)).to_vec(),
    );

    let handles: Vec<Handle> = rows.keys().copied().collect();
    let half = |list: &[Handle]| {
        store.aggregate(&Scan::default().handles(list), Question::default().measure(NUMBER))
    };
    let (mut first, second) = (half(&handles[..1000])?, half(&handles[1000..])?);
    first.merge(&second)?;
    tap.is(
        "two halves, merged in another thread",
        thread::spawn(move || first.total(0)).join().unwrap()?,
        numbers(rows.values()),
    );
    tap.fails("of another question", half(&handles)?.merge(&all), EINVAL);
    for (name, question) in [
        ("a bound of another type than its column", Question::default().range(REAL, 1u32, 2u32)),
        ("of a histogram", Question::default().measure(Measure::from(REAL).histogram(&[1u32]))),
        ("groups of doubles", Question::default().group(REAL, 0)),
        ("a column behind any object", Question::default().measure(Column::new(Kind::U64, 1 << 20))),
    ] {
        tap.fails(name, ask(question), EINVAL);
    }
    for handle in handles.into_iter().chain([short, other]) {
        store.free(handle, Update::default())?;
    }
    Ok(())
}

pub(crate) fn test_spreads(tap: &mut Tap, store: &Store) -> Result<()> {
    let mut rows = make_rows(store)?;
    let (short, _) = store.alloc_in(TABLE, b"short", false)?;
    let scan = Scan::default().table(TABLE);
    let same = |rows: &Rows| -> Result<bool> {
        for (handle, row) in rows {
            if store.read(*handle)? != row.bytes() {
                return Ok(false);
            }
        }
        Ok(store.read(short)? == b"short")
    };
    let objects = u64::from(OBJECTS);
    let counts =
        |done: &Changed| (done.shorter, done.selected, done.changed, done.lost + done.gone, done.beyond);

    let done = store.spread(&scan, &Spread::set(REAL, 2.5))?;
    rows.values_mut().for_each(|row| row.real = 2.5);
    tap.is("a value is set", counts(&done), (1, objects, objects, 0, 0));
    tap.ok("in each object, and nothing else", same(&rows)? && done.given.is_none() && !done.stopped);

    let some = Spread::add(NUMBER, 7i64).range(GROUP, 3u32, 5u32).atomic();
    let done = store.spread(&scan, &some)?;
    let of = |row: &&mut Row| (3..=5).contains(&row.group);
    rows.values_mut().filter(of).for_each(|row| row.number += 7);
    tap.ok("some are raised", done.selected == done.changed && done.changed < objects && same(&rows)?);

    store.spread(&scan, &Spread::scale(REAL, 4.0))?;
    rows.values_mut().for_each(|row| row.real = 10.0);
    tap.ok("a value is multiplied", same(&rows)?);
    let done = store.spread(&scan, &Spread::scale(NUMBER, 1e3))?;
    let beyond = rows.values().filter(|row| row.number.checked_mul(1000).is_none()).count() as u64;
    rows.values_mut().for_each(|row| row.number = row.number.checked_mul(1000).unwrap_or(row.number));
    tap.ok(
        "but not beyond its type",
        done.beyond == beyond && beyond > 0 && done.changed == objects - beyond,
    );
    tap.ok("which leaves it as it is", same(&rows)?);

    rows.values_mut().for_each(|row| row.number = 0);
    store.spread(&scan, &Spread::set(NUMBER, 0i64))?;
    let weights: u64 = rows.values().map(|row| row.weight).sum();
    let done = store.spread(&scan, &Spread::share(NUMBER, -1_000_003i64).weight(WEIGHT))?;
    rows.values_mut().for_each(|row| row.number = -1_000_003 * row.weight as i64 / weights as i64);
    let given: i64 = rows.values().map(|row| row.number).sum();
    tap.is(
        "an amount is shared out",
        (done.given, done.resume.weights),
        (Some(Value::I64(given)), Value::U64(weights)),
    );
    tap.ok("by weights", same(&rows)? && given < -900_000);
    tap.fails("by negative ones", store.spread(&scan, &Spread::share(NUMBER, 1i64).weight(NUMBER)), EDOM);
    store.spread(&scan, &Spread::share(REAL, 1500.0))?;
    rows.values_mut().for_each(|row| row.real += 0.5);
    tap.ok("the same for all", same(&rows)?);

    // What is ended goes on with each object changed once
    let raise = Spread::add(NUMBER, 1i64);
    let (mut begun, mut steps) = (None, 0);
    let cut = store.spread_with(&scan, &raise, |progress| {
        match progress {
            Progress::Begun(resume) => begun = Some(resume),
            Progress::Done(done, total) => {
                assert!(done <= total && total == objects);
                steps += 1;
            }
        }
        if steps == 2 {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    })?;
    tap.ok("a spread that is ended", cut.stopped && cut.changed > 0 && cut.changed < objects);
    tap.is("has said how to go on", begun, Some(cut.resume));
    let rest = store.spread(&scan, &raise.clone().resume(cut.resume))?;
    rows.values_mut().for_each(|row| row.number += 1);
    tap.is("the rest", (rest.changed + cut.changed, rest.stopped), (objects, false));
    tap.ok("each object was changed once", same(&rows)?);
    let panicked = panic::catch_unwind(AssertUnwindSafe(|| {
        store.spread_with(&scan, &raise, |_| panic::resume_unwind(Box::new(42)))
    }));
    tap.is("a panic is the caller's", panicked.unwrap_err().downcast_ref(), Some(&42));
    tap.ok("before anything was changed", same(&rows)?);
    for (name, wrong) in [
        ("a value of another type", Spread::set(NUMBER, 1u64)),
        ("an amount", Spread::add(WEIGHT, 1u64)),
        ("a bound", Spread::add(NUMBER, 1i64).range(REAL, 0i64, 1i64)),
        ("several values of an object", Spread::set(TAIL.to_end(), 1u32)),
    ] {
        tap.fails(name, store.spread(&scan, &wrong), EINVAL);
    }
    for handle in rows.into_keys().chain([short]) {
        store.free(handle, Update::default())?;
    }
    Ok(())
}
