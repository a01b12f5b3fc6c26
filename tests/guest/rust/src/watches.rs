// SPDX-License-Identifier: GPL-2.0
//! Changes of parts of objects, and notes of changes.

use std::fs;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use lsmem::{Handle, Kind, Noted, Put, Result, Store, Update, Value};

use crate::{Tap, EINVAL, WAIT};

const EOVERFLOW: i32 = 75;
const THREADS: u64 = 4;
const ADDS: u64 = 500;

pub(crate) fn test_parts(tap: &mut Tap, store: &Store) -> Result<()> {
    let how = Update::default();
    let (handle, _) = store.alloc(&[0; 32])?;
    store.add(handle, Kind::I64, 8, -5i64, how)?;
    tap.is("a sum", store.add(handle, Kind::I64, 8, 2u32, how)?.0, Value::I64(-3));
    tap.is("of doubles", store.add(handle, Kind::F64, 16, -0.5, how)?.0, Value::F64(-0.5));
    let (sum, version) = store.add(handle, Kind::U32, 0, 7u32, how)?;
    tap.is("of 32 bits", (sum, store.object(handle)?.version), (Value::U64(7), version));
    tap.fails("a sum beyond the type", store.add(handle, Kind::U32, 0, -8i64, how), EOVERFLOW);
    tap.fails("a sum beyond the object", store.add(handle, Kind::U64, 25, 1u32, how), EINVAL);
    tap.fails("a double to an integer", store.add(handle, Kind::U64, 0, 1.0, how), EINVAL);
    tap.fails("more than is added at a time", store.add(handle, Kind::U64, 0, 1u64 << 63, how), EINVAL);
    let error = store.add(handle, Kind::U32, 0, 1u32, how.version(version - 1)).unwrap_err();
    tap.is("a sum only of a version", (error.is_unexpected(), error.version()), (true, Some(version)));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                for _ in 0..ADDS {
                    store.add(handle, Kind::U64, 24, 3u32, how).expect("a sum");
                }
            });
        }
    });
    tap.is(
        "sums by several threads",
        store.add(handle, Kind::U64, 24, 0u32, how)?.0,
        Value::U64(3 * THREADS * ADDS),
    );
    let version = store.truncate(handle, 4, how)?;
    tap.is("cut", store.read_with(handle)?.0, vec![7, 0, 0, 0]);
    tap.is("the version that is cut", store.object(handle)?.version, version);
    store.truncate(handle, 6, how)?;
    tap.is("longer", store.read(handle)?, vec![7, 0, 0, 0, 0, 0]);
    tap.ok("only if older", store.truncate(handle, 4, how.older_than(version)).unwrap_err().is_unexpected());
    let mut expected = *b"xy";
    tap.is("not what is expected", store.compare_exchange(handle, 0, &mut expected, b"ab", how)?, None);
    tap.is("what is there", expected, [7, 0]);
    let version = store.compare_exchange(handle, 0, &mut expected, b"ab", how)?;
    tap.is(
        "exchanged",
        (store.read(handle)?, version),
        (b"ab\0\0\0\0".to_vec(), Some(store.object(handle)?.version)),
    );
    tap.fails("of two lengths", store.compare_exchange(handle, 0, &mut expected, b"abc", how), EINVAL);
    tap.fails("beyond the object", store.compare_exchange(handle, 5, &mut expected, b"ab", how), EINVAL);
    store.free(handle, how)?;
    tap.ok("of what is freed", store.truncate(handle, 4, how).unwrap_err().is_not_found());
    Ok(())
}

pub(crate) fn test_watches(tap: &mut Tap, store: &Store, lsmemctl: &str) -> Result<()> {
    let how = Update::default();
    let mut watch = store.watch_from(11, 0, 8)?;
    tap.is(
        "no notes",
        (watch.take_ready()?, watch.wait(Some(Duration::ZERO))?, watch.ended()),
        (vec![], false, false),
    );
    let begun = Instant::now();
    tap.is("none within a time", watch.wait(Some(Duration::from_millis(20)))?, false);
    tap.ok("which passes", begun.elapsed() >= Duration::from_millis(20));
    let (handle, version) = store.alloc_in(11, b"watched", false)?;
    let (other, _) = store.alloc_in(12, b"other", false)?;
    store.free(other, how)?;
    let second = store.replace(handle, b"again", how)?;
    tap.ok("there are some", watch.wait(Some(WAIT))?);
    let notes = watch.take_ready()?;
    tap.is(
        "notes of what has changed",
        notes.iter().map(|note| (note.kind, note.handle, note.version)).collect(),
        vec![(Noted::New, Some(handle), version), (Noted::Replaced, Some(handle), second)],
    );
    tap.is("behind a cursor", store.watch_from(11, notes[0].cursor, 0)?.take_ready()?, notes[1..].to_vec());
    let found = thread::scope(|scope| {
        scope.spawn(|| store.free(handle, how).expect("it is there"));
        watch.next()
    });
    tap.is("one that is waited for", found.unwrap()?.kind, Noted::Freed);
    store.group().alloc(11, b"1").alloc(11, b"2").commit(false)?;
    let group = watch.take_ready()?;
    tap.is("of a group", group.iter().map(|note| note.more).collect(), vec![true, false]);
    for note in group {
        store.free(note.handle.expect("a handle"), how)?;
    }
    for _ in 0..20 {
        store.free(store.alloc_in(11, b"more", false)?.0, how)?;
    }
    let lost = watch.take_ready()?;
    tap.is(
        "too slow",
        lost.iter().map(|note| (note.kind, note.handle)).collect(),
        vec![(Noted::Lost, None::<Handle>)],
    );
    tap.is("and no more", watch.take_ready()?, vec![]);
    tap.fails("no table id", store.watch(4096), EINVAL);
    {
        let table = store.table(10)?;
        let mut items = store.watch(10)?;
        table.put(b"key", &[7; 5000], Put::default())?;
        let note = items.next().unwrap()?;
        tap.is(
            "key and item of a note",
            table.noted(&note)?,
            table.get(b"key")?.map(|item| (b"key".to_vec(), item)),
        );
        table.remove(b"key", None, false)?;
        tap.is(
            "of what is removed",
            (table.noted(&note)?, items.next().unwrap()?.kind),
            (None, Noted::Freed),
        );
        tap.fails("of what is lost", table.noted(&lost[0]), EINVAL);
    }
    let made = Command::new(lsmemctl).args(["create", "--size", "128M", "--handles", "1000"]).output();
    let name = String::from_utf8(made.expect("lsmemctl").stdout).expect("a name").trim().to_string();
    let path = format!("/dev/{name}");
    let end = Instant::now() + WAIT;
    while fs::metadata(&path).is_err() && Instant::now() < end {
        thread::yield_now();
    }
    let gone = Store::open(&path)?;
    let mut last = gone.watch(0)?;
    gone.alloc(b"last")?;
    drop(gone);
    let destroyed = Command::new(lsmemctl).args(["destroy", &name]).status();
    tap.ok("a watch does not hold a store", destroyed.expect("lsmemctl").success());
    let kinds: Result<Vec<_>> = last.by_ref().map(|each| each.map(|note| note.kind)).collect();
    tap.is(
        "the end of the store",
        (kinds?, last.ended(), last.next().is_none()),
        (vec![Noted::New], true, true),
    );
    Ok(())
}
