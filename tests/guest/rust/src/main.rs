// SPDX-License-Identifier: GPL-2.0
//! The crate with a volatile store: objects, watches, views, tables, groups, scans, ranges of pages and roots against models.
//! TAP.
//! usage: rust-store NAME

mod pools;
mod values;
mod watches;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt::Debug;
use std::fs;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::panic::{self, AssertUnwindSafe};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use lsmem::{
    Error, Group, Handle, LargeObject, NewRegion, Open, Plan, Put, Result, Scan, Scanned, Store, Table,
    Update,
};

const ENOENT: i32 = 2;
const EAGAIN: i32 = 11;
const EACCES: i32 = 13;
const EBUSY: i32 = 16;
const EEXIST: i32 = 17;
const EINVAL: i32 = 22;
const EBADMSG: i32 = 74;
const EILSEQ: i32 = 84;
const EOPNOTSUPP: i32 = 95;
const STEPS: u32 = 4000;
const WRITES: u32 = 3000;
const THREADS: u64 = 4;
const WAIT: Duration = Duration::from_secs(60);

#[derive(Default)]
struct Tap {
    count: u32,
    failed: u32,
}

impl Tap {
    fn ok(&mut self, name: &str, good: bool) {
        self.count += 1;
        self.failed += u32::from(!good);
        println!("{}ok {} - {name}", if good { "" } else { "not " }, self.count);
    }

    fn is<T: PartialEq + Debug>(&mut self, name: &str, got: T, wanted: T) {
        let good = got == wanted;
        self.ok(name, good);
        if !good {
            println!("# got:    {got:?}\n# wanted: {wanted:?}");
        }
    }

    fn fails<T: Debug>(&mut self, name: &str, got: Result<T>, errno: i32) {
        self.is(name, got.map(|_| 0).map_err(|error| error.errno()), Err(errno));
    }
}

/// xorshift64*, as good as a test needs.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, end: u64) -> u64 {
        (self.next() >> 11) % end
    }

    /// Up to `most` bytes, and seldom more: several seglets.
    fn bytes(&mut self, most: u64) -> Vec<u8> {
        let length = 1 + if self.below(50) == 0 { self.below(200_000) } else { self.below(most) };
        let first = self.next() as u8;
        (0..length).map(|i| first.wrapping_add((i % 251) as u8)).collect()
    }
}

/// Random changes of objects, compared with a model after each one.
fn objects_right(store: &Store, random: &mut Random) -> Result<bool> {
    let mut model: Vec<(Handle, Vec<u8>, u64)> = Vec::new();
    for _ in 0..STEPS {
        if model.len() < 50 || random.below(8) == 0 {
            let data = random.bytes(9000);
            let (handle, version) = store.alloc_in(5, &data, false)?;
            model.push((handle, data, version));
            continue;
        }
        let which = random.below(model.len() as u64) as usize;
        let (handle, data, version) = &mut model[which];
        match random.below(6) {
            0 => {
                *data = random.bytes(9000);
                *version = store.replace(*handle, data, Update::default().version(*version))?;
            }
            1 => {
                let more = random.bytes(100);
                if data.len() + more.len() <= 1 << 20 {
                    let (offset, now) = store.append(*handle, &more, Update::default())?;
                    if offset as usize != data.len() || now <= *version {
                        return Ok(false);
                    }
                    data.extend_from_slice(&more);
                    *version = now;
                }
            }
            2 => {
                let at = random.below(data.len() as u64) as usize;
                *version = store.write(*handle, b"?", at as u32, Update::default())?;
                data[at] = b'?';
            }
            3 => {
                let view = store.view(*handle)?;
                let object = view.object();
                // SAFETY: the view is a moment old.
                let (right, pieces) =
                    unsafe { (*view.bytes() == **data, view.pieces().map(<[u8]>::len).sum::<usize>()) };
                let copied = view.copy();
                view.end()?;
                if !right || pieces != data.len() || copied != *data || object.version != *version {
                    return Ok(false);
                }
            }
            4 => {
                let error =
                    store.replace(*handle, b"x", Update::default().version(*version - 1)).unwrap_err();
                if !error.is_unexpected() || error.version() != Some(*version) {
                    return Ok(false);
                }
            }
            _ => {
                store.free(*handle, Update::default())?;
                if !store.read(*handle).unwrap_err().is_not_found() {
                    return Ok(false);
                }
                model.swap_remove(which);
                continue;
            }
        }
        let (handle, data, version) = &model[which];
        let (bytes, object) = store.read_with(*handle)?;
        if bytes != *data || object.version != *version || object.table != 5 {
            return Ok(false);
        }
    }
    let listed: Result<HashSet<Handle>> =
        store.objects(Some(5)).map(|each| each.map(|(handle, _)| handle)).collect();
    let right = listed? == model.iter().map(|(handle, ..)| *handle).collect();
    for (handle, ..) in model {
        store.free(handle, Update::default())?;
    }
    Ok(right && store.objects(Some(5)).next().is_none())
}

fn test_objects(tap: &mut Tap, store: &Store) -> Result<()> {
    let (handle, version) = store.alloc(b"one")?;
    tap.is("an object", store.read(handle)?, b"one".to_vec());
    tap.is("its attributes", store.object(handle)?, store.read_with(handle)?.1);
    tap.is("its handle, kept as a number", Handle::from_raw(handle.as_raw()), Some(handle));
    let newer = store.replace(handle, b"two", Update::default().newer_than(version - 1))?;
    tap.ok("a version that is newer", newer > version);
    tap.ok(
        "and is not older",
        store.replace(handle, b"x", Update::default().older_than(newer)).unwrap_err().is_unexpected(),
    );
    let mut part = [0; 2];
    let (bytes, object) = store.read_into(handle, &mut part, 1)?;
    tap.is("a part", (bytes, &part, object.length), (2, b"wo", 3));
    tap.fails("no bytes", store.alloc(b""), EINVAL);
    tap.fails("too many bytes", store.alloc(&vec![0; (1 << 20) + 1]), EINVAL);
    tap.fails("durable, in a volatile store", store.alloc_in(0, b"x", true), EOPNOTSUPP);
    tap.fails("a wait, in a volatile store", store.sync(), EOPNOTSUPP);
    store.free(handle, Update::default())?;
    tap.ok("a freed object", store.read(handle).unwrap_err().is_not_found());
    tap.ok("limits", store.query()?.object_max == 1 << 20 && store.query()?.group_max >= 256);
    let large = vec![7; 1 << 20];
    let (handle, _) = store.alloc(&large)?;
    tap.ok("the largest object", store.read(handle)? == large && store.view(handle)?.copy() == large);
    tap.ok("counters", store.stat()?.live_bytes > 1 << 20 && store.stat()?.handles_used >= 1);
    store.free(handle, Update::default())?;
    Ok(())
}

fn test_open(tap: &mut Tap, store: &Store, path: &str) -> Result<()> {
    let (handle, _) = store.alloc(b"x")?;
    let reader = Open::default().read_only().open(path)?;
    tap.is("a reader reads", reader.read(handle)?, b"x".to_vec());
    tap.ok("and does not write", reader.free(handle, Update::default()).is_err());
    tap.fails("and has no views", reader.view(handle), EOPNOTSUPP);
    let plain = Open::default().no_windows().open(path)?;
    tap.is("without windows", plain.read(handle)?, b"x".to_vec());
    tap.ok("no tables without windows", plain.table(1).is_err());
    lsmem::wait_active(path, Some(Duration::ZERO))?;
    tap.ok("no such store", lsmem::wait_active("/dev/lsmem-none", Some(Duration::ZERO)).is_err());
    store.free(handle, Update::default()).map(|_| ())
}

/// Views that are kept too long, and too many.
fn test_views(tap: &mut Tap, store: &Store, limit: &str) -> Result<()> {
    let (handle, _) = store.alloc(&[1; 100])?;
    let views: Vec<_> = (0..64).map(|_| store.view(handle)).collect::<Result<_>>()?;
    tap.fails("one view too many", store.view(handle), EAGAIN);
    store.replace(handle, &[2; 100], Update::default())?;
    let mut found = HashSet::new();
    thread::scope(|scope| {
        let ends: Vec<_> =
            views.into_iter().map(|view| scope.spawn(move || (view.copy(), view.end()))).collect();
        found.extend(ends.into_iter().map(|end| end.join().unwrap()));
    });
    tap.is(
        "views show the version that they began with, in other threads",
        found,
        HashSet::from([(vec![1; 100], Ok(()))]),
    );
    drop(store.view(handle)?);
    tap.is("a view after all of them", store.view(handle)?.copy(), vec![2; 100]);

    fs::write(limit, "10").expect("the limit is writable");
    let reopened = Store::open(format!("/dev/{}", limit.split('/').nth(4).unwrap()))?;
    tap.is("the bound on views", reopened.view_bound()?, Duration::from_millis(10));
    let view = reopened.view(handle)?;
    let revoked = limit.replace("limits/view_ms", "cleaner/views_revoked");
    let end = Instant::now() + WAIT;
    // The kernel revokes a view when it needs the memory: objects come and go until it does.
    while fs::read_to_string(&revoked).expect("a counter").trim() == "0" && Instant::now() < end {
        store.replace(handle, &[3; 60000], Update::default())?;
    }
    tap.ok("a view that was held for too long", view.end().unwrap_err().is_revoked());
    // The memory is used up once by now, so that seglets are given in any order.
    let whole = Random(1).bytes(100_000);
    let pieces = (0..WRITES)
        .map(|_| {
            store.replace(handle, &whole, Update::default())?;
            let view = store.view(handle)?;
            // SAFETY: the view is a moment old.
            let (right, pieces) = unsafe { (*view.bytes() == *whole, view.pieces().count()) };
            Ok((right && view.copy() == whole, pieces))
        })
        .collect::<Result<Vec<_>>>()?;
    tap.ok("an object in several pieces", pieces.iter().any(|(_, pieces)| *pieces > 1));
    tap.ok("is right", pieces.iter().all(|(right, _)| *right));
    store.free(handle, Update::default()).map(|_| ())
}

/// Random changes of a table by one thread with keys of its own; returns its model.
fn change_table(table: &Table<'_>, thread: u64, seed: u64) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let mut random = Random(seed + thread);
    let mut model = BTreeMap::new();
    let mut versions = HashMap::new();
    for _ in 0..STEPS / 2 {
        let key = format!("{thread}:{}", random.below(200)).into_bytes();
        let there = model.contains_key(&key);
        match random.below(5) {
            0 if there => {
                table.remove(&key, Some(versions[&key]), false)?;
                model.remove(&key);
            }
            1 => {
                let made = table.put(&key, b"new", Put::default().new_key());
                if made.is_ok() == there || made.is_err() && made.unwrap_err().errno() != EEXIST {
                    return Err(table.remove(b"", None, false).unwrap_err());
                }
                if !there {
                    model.insert(key.clone(), b"new".to_vec());
                }
            }
            _ => {
                let value = random.bytes(3000);
                table.put(&key, &value, Put::default())?;
                model.insert(key.clone(), value);
            }
        }
        let item = table.get(&key)?;
        assert_eq!(item.as_ref().map(|item| &item.value), model.get(&key));
        if let Some(item) = item {
            versions.insert(key, item.version);
        }
    }
    Ok(model)
}

fn test_tables(tap: &mut Tap, store: &Store, seed: u64) -> Result<()> {
    tap.fails("a reader of a table without an index", store.table_read_only(9), EAGAIN);
    let table = store.table(9)?;
    let mut model = BTreeMap::new();
    thread::scope(|scope| {
        let table = &table;
        let threads: Vec<_> =
            (0..THREADS).map(|thread| scope.spawn(move || change_table(table, thread, seed))).collect();
        for thread in threads {
            model.extend(thread.join().unwrap().expect("changes of a table"));
        }
    });
    let all: Result<BTreeMap<_, _>> =
        table.iter().map(|each| each.map(|(key, item)| (key, item.value))).collect();
    tap.ok("all items, after threads have changed them", all? == model);
    tap.is("as many as are counted", table.stat()?.items, model.len() as u64);
    let listed: Result<HashSet<Handle>> =
        store.objects(Some(9)).map(|each| each.map(|(handle, _)| handle)).collect();
    tap.is("and as there are objects", listed?.len(), model.len());

    let keys: Vec<Vec<u8>> = (0..1000).map(|i| format!("{}:{}", i % 5, i / 5).into_bytes()).collect();
    let got: Vec<_> = table.get_many(&keys)?.into_iter().map(|item| item.map(|item| item.value)).collect();
    tap.ok("many items at once", got == keys.iter().map(|key| model.get(key).cloned()).collect::<Vec<_>>());
    let puts: Vec<(String, Vec<u8>)> = (0..300).map(|i| (format!("many{i}"), vec![i as u8; i + 1])).collect();
    tap.ok("many puts at once", table.put_many(&puts, false)?.iter().all(|put| put.is_ok()));
    tap.ok(
        "each is there",
        puts.iter().all(|(key, value)| &table.get(key.as_bytes()).unwrap().unwrap().value == value),
    );
    let one = table.put_many(&[("", "no key"), ("k", "value")], false)?;
    tap.is(
        "one of them is wrong",
        one.iter().map(|put| put.map_or_else(|error| error.errno(), |_| 0)).collect(),
        vec![EINVAL, 0],
    );

    let (key, value) = (vec![b'k'; 65535], vec![b'v'; 900_000]);
    let version = table.put(&key, &value, Put::default())?;
    tap.ok(
        "the longest key",
        table.get(&key)?.map(|item| (item.value == value, item.version)) == Some((true, version)),
    );
    tap.ok("is listed", table.iter().any(|each| each.unwrap().0 == key));
    let mut part = [0; 3];
    tap.is("a part of a value", table.get_into(&key, &mut part)?, Some((3, 900_000)));
    tap.fails("a key that is too long", table.put(&[0; 65536], b"", Put::default()), EINVAL);
    tap.fails("no such key, to be replaced", table.put(b"none", b"", Put::default().old_key()), ENOENT);
    tap.fails("to be removed", table.remove(b"none", None, false), ENOENT);
    tap.ok("to be got", table.get(b"none")?.is_none() && table.get_into(b"none", &mut part)?.is_none());
    let wrong = table.put(&key, b"x", Put::default().version(version - 1)).unwrap_err();
    tap.is("another version", (wrong.is_unexpected(), wrong.version()), (true, Some(version)));
    table.put(&key, b"x", Put::default().version(version))?;
    let (handle, there) = table.alloc(b"17", b"x", false)?;
    tap.ok("one object for a key", !there && table.alloc(b"17", b"y", false)? == (handle, true));
    let empty = table.put(b"empty", b"", Put::default())?;
    tap.is(
        "an empty value",
        table.get(b"empty")?.map(|item| (item.value, item.version)),
        Some((vec![], empty)),
    );
    tap.ok("a reader of a table", store.table_read_only(9)?.get(b"empty")?.is_some());
    let items = table.stat()?.items;
    let (bytes, evicted) = table.evict(100_000)?;
    tap.ok("items are evicted", bytes >= 100_000 && evicted > 0 && table.stat()?.items == items - evicted);
    for each in table.iter() {
        table.remove(&each?.0, None, false)?;
    }
    tap.is("none is left", table.stat()?.items, 0);
    Ok(())
}

/// Transfers between objects, while threads look at the sum.
fn test_groups(tap: &mut Tap, store: &Store) -> Result<()> {
    let number = |bytes: Vec<u8>| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let made = store.group().alloc(2, &500u64.to_le_bytes()).alloc(2, &500u64.to_le_bytes()).commit(false)?;
    let [(here, mut version), (there, same)]: [(Handle, u64); 2] =
        made.objects.try_into().expect("two objects");
    tap.ok("a group makes two objects, of one version", version == same && made.certain);
    for i in 1..=100u64 {
        let (less, more) = ((500 - i).to_le_bytes(), (500 + i).to_le_bytes());
        let done = store
            .group()
            .replace(here, &less, Some(version))
            .replace(there, &more, Some(version))
            .commit(false)?;
        version = done.objects[0].1;
    }
    tap.is("transfers", (number(store.read(here)?), number(store.read(there)?)), (400, 600));
    let error =
        store.group().replace(there, b"x", None).free(here, Some(version - 1)).commit(false).unwrap_err();
    tap.is(
        "one that cannot be made",
        (error.operation(), error.is_unexpected(), error.version()),
        (Some(1), true, Some(version)),
    );
    tap.is("has changed none", number(store.read(there)?), 600);
    let error =
        store.group().check(here, Some(version - 1)).replace(there, b"x", None).commit(false).unwrap_err();
    tap.is("nor has one whose check fails", (error.operation(), number(store.read(there)?)), (Some(0), 600));
    let done = store.group().check(here, Some(version)).replace(there, b"more", None).commit(false)?;
    tap.ok(
        "what is checked keeps its version",
        done.objects[0] == (here, version) && done.objects[1].1 > version && number(store.read(here)?) == 400,
    );
    version = done.objects[1].1;
    drop(store.group().free(here, None));
    tap.ok("nor has one that is dropped", store.read(here).is_ok());
    store.group().free(here, None).free(there, Some(version)).commit(false)?;
    tap.ok("both are freed", store.objects(Some(2)).next().is_none());
    tap.ok("a group of none", store.group().commit(false).map_or(true, |done| done.objects.is_empty()));
    Ok(())
}

/// Groups with keys of two tables.
fn test_groups_of_keys(tap: &mut Tap, store: &Store, path: &str) -> Result<()> {
    let (here, there) = (store.table(6)?, store.table(7)?);
    let (object, _) = store.alloc(b"object")?;
    let old = here.put(b"old", b"1", Put::default())?;
    let other = there.put(b"other", b"2", Put::default())?;
    here.put(b"goes", b"3", Put::default())?;
    let all = || -> Result<Vec<Option<Vec<u8>>>> {
        let keys = [(&here, "old"), (&here, "goes"), (&here, "none"), (&there, "new"), (&there, "other")];
        let mut all: Vec<_> = keys
            .into_iter()
            .map(|(table, key)| Ok(table.get(key.as_bytes())?.map(|item| item.value)))
            .collect::<Result<_>>()?;
        all.push(Some(store.read(object)?));
        Ok(all)
    };
    let texts = |texts: [&str; 6]| -> Vec<Option<Vec<u8>>> {
        texts.iter().map(|text| (*text != "-").then(|| text.as_bytes().to_vec())).collect()
    };

    let made = store
        .group()
        .put(&here, b"old", b"10", Put::default().version(old))
        .replace(object, b"changed", None)
        .put(&there, b"new", b"", Put::default().new_key())
        .remove(&here, b"goes", None)
        .check_key(&there, b"other", Some(other))
        .check_absent(&there, b"none")
        .commit(false)?;
    let right = texts(["10", "-", "-", "", "2", "changed"]);
    tap.is("a group changes keys of two tables, and an object", all()?, right.clone());
    let item =
        |table: &Table<'_>, key: &[u8]| table.get(key).unwrap().map(|item| (item.handle, item.version));
    tap.is("and says which object that is", made.objects, vec![(object, store.object(object)?.version)]);
    tap.is(
        "and which items those are",
        [0, 1, 3, 4].map(|which| made.keys[which]),
        [item(&here, b"old"), item(&there, b"new"), item(&there, b"other"), None],
    );
    tap.ok("and the one that is gone", made.certain && made.keys.len() == 5 && made.keys[2].is_some());

    let versions = (item(&here, b"old").map(|found| found.1), store.object(object)?.version);
    let mut fails = |name: &str, group: Group<'_, '_>, errno: i32, version: Option<u64>, operation: usize| {
        let error = group.commit(false).unwrap_err();
        tap.is(name, (error.errno(), error.version(), error.operation()), (errno, version, Some(operation)));
        tap.is("so nothing has changed", all().unwrap(), right.clone());
    };
    let group = || store.group().replace(object, b"x", None).put(&there, b"other", b"x", Put::default());
    fails(
        "another version of a key",
        group().put(&here, b"old", b"x", Put::default().version(old)),
        EILSEQ,
        versions.0,
        2,
    );
    fails(
        "another version of an object",
        store.group().put(&here, b"none", b"x", Put::default()).free(object, Some(old)),
        EILSEQ,
        Some(versions.1),
        1,
    );
    fails(
        "a key that is there",
        group().put(&there, b"new", b"x", Put::default().new_key()),
        EEXIST,
        None,
        2,
    );
    fails("a check that one is not there", group().check_absent(&here, b"old"), EEXIST, None, 2);
    fails("a key that is not there", group().remove(&there, b"none", None), ENOENT, None, 2);
    fails("a check that one is there", group().check_key(&here, b"none", None), ENOENT, None, 2);
    fails(
        "another version of one to be removed",
        group().remove(&here, b"old", Some(old)),
        EILSEQ,
        versions.0,
        2,
    );
    fails("one that is checked", group().check_key(&here, b"old", Some(old)), EILSEQ, versions.0, 2);
    fails("a key twice", group().check_key(&there, b"other", None), EINVAL, None, 2);
    let second = Store::open(path)?;
    let foreign = second.table(6)?;
    fails("a table of another store", group().remove(&foreign, b"old", None), EINVAL, None, 2);
    tap.fails("durable, in a volatile store", group().commit(true), EOPNOTSUPP);
    store
        .group()
        .remove(&here, b"old", versions.0)
        .remove(&there, b"new", None)
        .remove(&there, b"other", None)
        .free(object, None)
        .commit(false)?;
    tap.is("none is left", here.stat()?.items + there.stat()?.items, 0);
    Ok(())
}

fn test_roots(tap: &mut Tap, store: &Store) -> Result<()> {
    let (handle, _) = store.alloc(b"tree")?;
    let (other, _) = store.alloc(b"other")?;
    tap.is("no root", store.root("tree")?, None);
    store.set_root("tree", Some(handle), false)?;
    tap.is("a root", store.root("tree")?, Some(handle));
    tap.ok(
        "another one is expected",
        store.exchange_root("tree", None, Some(other), false).unwrap_err().is_unexpected(),
    );
    store.exchange_root("tree", Some(handle), Some(other), false)?;
    for i in 0..40 {
        store.set_root(format!("root{i}"), Some(handle), false)?;
    }
    let roots = store.roots()?;
    tap.is("all roots", (roots.len(), roots.contains(&(b"tree".to_vec(), other))), (41, true));
    for (name, _) in roots {
        store.set_root(name, None, false)?;
    }
    tap.is("none is left", store.roots()?, vec![]);
    tap.fails("a name that is too long", store.set_root([b'x'; 256], Some(handle), false), EINVAL);
    tap.fails("a name with a zero", store.set_root("a\0b", Some(handle), false), EINVAL);
    store.free(handle, Update::default())?;
    store.free(other, Update::default()).map(|_| ())
}

fn test_large(tap: &mut Tap, store: &Store, random: &mut Random) -> Result<()> {
    const PART: u32 = 4096;
    let made = store.create_large(11, PART)?;
    let large = store.large(made.handle());
    let (mut model, mut version) = (Vec::new(), made.object()?.version);
    let same = |model: &Vec<u8>, version| -> Result<bool> {
        let mut bytes = vec![0; model.len() + 1];
        let (copied, object) = large.read_into(&mut bytes, 0)?;
        let wanted = LargeObject { version, length: model.len() as u64, part: PART, table: 11 };
        Ok(bytes[..copied] == *model && object == wanted && large.object()? == wanted)
    };
    let mut right = same(&model, version)?;
    for step in 0..STEPS / 10 {
        let data = random.bytes(20_000);
        let expected = (step % 2 == 0).then_some(version);
        let before = version;
        // Anywhere, or at the end: what lies behind that becomes zeroes.
        let from = if random.below(2) == 0 { 0 } else { model.len().saturating_sub(10_000) };
        let offset = from + random.below((model.len() - from) as u64 + 10_000) as usize;
        if random.below(4) == 0 || model.len() > 2_000_000 {
            let part = &data[..data.len().min(100)];
            let (at, now) = large.append(part, expected)?;
            right &= at == model.len() as u64;
            model.extend_from_slice(part);
            version = now;
        } else {
            version = large.write(&data, offset as u64, expected)?;
            model.resize(model.len().max(offset + data.len()), 0);
            model[offset..offset + data.len()].copy_from_slice(&data);
        }
        right &= version > before;
        if step % 16 == 0 {
            right &= same(&model, version)?;
        }
    }
    tap.ok("a large object, written at random", right && same(&model, version)? && model.len() > 1 << 20);
    let mut part = [0; 1000];
    let (copied, _) = large.read_into(&mut part, 5000)?;
    tap.ok("a part of it", copied == 1000 && part[..] == model[5000..6000]);
    tap.fails("behind its end", large.read_into(&mut part, model.len() as u64 + 1), EINVAL);
    for (name, failed) in [
        ("a write to another version", large.write(b"x", 0, Some(version - 1))),
        ("an append to it", large.append(b"x", Some(version - 1)).map(|(_, version)| version)),
        ("another version is not freed", large.free(Some(version - 1))),
    ] {
        let error = failed.unwrap_err();
        tap.is(name, (error.is_unexpected(), error.version()), (true, Some(version)));
    }
    tap.ok("and nothing has changed", same(&model, version)?);
    tap.fails("no bytes", large.write(b"", 0, None), EINVAL);
    tap.fails("parts that are too small", store.create_large(11, PART - 1), EINVAL);
    let (plain, _) = store.alloc_in(12, b"plain", false)?;
    tap.fails("an object that is no large one", store.large(plain).object(), EBADMSG);
    store.free(plain, Update::default())?;

    let swept = store.sweep_large(11)?;
    tap.is("nothing to be swept", (swept.objects, swept.orphans, swept.broken), (1, 0, 0));
    // What a writer that ends before it has freed the parts leaves
    store.free(large.handle(), Update::default())?;
    let swept = store.sweep_large(11)?;
    tap.is("parts of none are swept", (swept.objects, swept.parts), (0, 0));
    tap.ok("all of them", swept.orphans > 0 && store.objects(Some(11)).next().is_none());
    let large = store.create_large(11, 0)?;
    large.write(&model, 0, None)?;
    large.free(None)?;
    tap.ok("one that is freed", large.object().unwrap_err().is_not_found());
    tap.ok("leaves nothing", store.objects(Some(11)).next().is_none());
    Ok(())
}

fn test_regions(tap: &mut Tap, store: &Store, path: &str) -> Result<()> {
    const PAGE: usize = 4096;
    const PAGES: usize = 1024;
    let made = NewRegion::default().table(13).atomic().buffer(1 << 20);
    let mut region = store.create_region((PAGES * PAGE) as u64, made)?;
    let root = region.root();
    tap.is("a region", region.length(), PAGES * PAGE);
    // SAFETY: here and below, only this thread uses the range.
    let bytes = unsafe { region.bytes_mut()? };
    tap.ok("is zeroes", bytes.iter().all(|byte| *byte == 0));
    bytes.chunks_mut(PAGE).enumerate().for_each(|(i, page)| page.fill(i as u8));
    region.sync()?;
    let objects = store.objects(Some(13)).count();
    tap.is("a page that is written to is an object", objects, PAGES);
    let mut part = [0; 4];
    region.file().read_exact_at(&mut part, (5 * PAGE - 2) as u64).expect("a file");
    tap.is("the file has what was written to the mapping", part, [4, 4, 5, 5]);
    region.file().write_all_at(b"file", (7 * PAGE) as u64).expect("a file");
    tap.is(
        "and the mapping what was written to the file",
        unsafe { &region.bytes()[7 * PAGE..][..4] },
        b"file",
    );
    tap.fails("a region in use is not removed", store.remove_region(root), EBUSY);
    drop(region);

    let reader = Open::default().read_only().open(path)?;
    let mut region = reader.region(root, 0)?;
    drop(reader);
    let right = unsafe { region.bytes() }.chunks(PAGE).enumerate().all(|(i, page)| {
        let (begin, rest) = page.split_at(4);
        rest.iter().all(|byte| *byte == i as u8)
            && if i == 7 { begin == b"file" } else { begin == &rest[..4] }
    });
    tap.ok("another client has all of it, also without its store", right && region.root() == root);
    tap.fails("but does not write, if it reads", unsafe { region.bytes_mut() }, EACCES);
    drop(region);

    let region = store.region(root, 0)?;
    unsafe { region.as_ptr().add(9).write(77) };
    let mut byte = [0];
    region.file().read_exact_at(&mut byte, 9).expect("a file");
    tap.is("a pointer", byte, [77]);
    drop(region);
    store.remove_region(root)?;
    tap.ok("one that is removed", store.region(root, 0).unwrap_err().is_not_found());
    tap.ok("leaves nothing", store.objects(Some(13)).next().is_none());
    tap.fails("a region that cannot be mapped", store.create_region(0, NewRegion::default()), EINVAL);
    tap.is("is not made", store.objects(None).count(), 0);
    let (plain, _) = store.alloc(b"plain")?;
    tap.fails("an object that is no root", store.region(plain, 0), EBADMSG);
    store.free(plain, Update::default()).map(|_| ())
}

/// Objects, by handle and version.
type Model = BTreeMap<(Handle, u64), Vec<u8>>;

fn test_scans(tap: &mut Tap, store: &Store) -> Result<()> {
    const OBJECTS: u64 = 5000;
    let mut model = Model::new();
    for i in 0..OBJECTS {
        let data = [&i.to_le_bytes()[..], &vec![i as u8; i as usize % 500]].concat();
        model.insert(store.alloc_in(3, &data, false)?, data);
    }
    let handles: Vec<Handle> = model.keys().map(|(handle, _)| *handle).collect();
    let (first, _) = store.alloc(b"another table")?;

    let scan = |what: &Scan<'_>| -> Result<(Model, Scanned)> {
        let found = Mutex::new(Model::new());
        let scanned = store.scan(what, |_, rows| {
            let mut found = found.lock().unwrap();
            for row in rows {
                let (handle, object) = (row.handle().unwrap(), row.object());
                // SAFETY: the scan has lasted for a moment.
                assert!(row.copy() == unsafe { row.bytes() } && row.available() == object.length as usize);
                found.insert((handle, object.version), row.copy());
            }
            ControlFlow::Continue(())
        })?;
        Ok((found.into_inner().unwrap(), scanned))
    };
    for plan in [Plan::Table, Plan::Log, Plan::Lookup, Plan::Sorted] {
        let what = Scan::default().plan(plan).table(3).threads(2);
        let (found, scanned) = scan(&what.handles(&handles))?;
        tap.ok(
            &format!("a scan by {plan:?} gives all objects of a table"),
            found == model && scanned.rows == OBJECTS && scanned.plan == Some(plan) && !scanned.stopped,
        );
    }
    let (found, scanned) = scan(&Scan::default().exact())?;
    tap.ok(
        "an exact scan gives all objects, with a version",
        found.len() as u64 == OBJECTS + 1 && scanned.plan == Some(Plan::Log) && scanned.version > 0,
    );
    let some = [handles[0], first, handles[9]];
    let (found, scanned) = scan(&Scan::default().handles(&some))?;
    tap.is("a list", (found.len(), scanned.rows, scanned.gone), (3, 3, 0));
    let (found, _) = scan(&Scan::default().handles(&[]))?;
    tap.is("a list of none", found.len(), 0);
    let version = model.keys().map(|(_, version)| *version).max().unwrap() - 10;
    for (name, what, wanted) in [
        ("lengths", Scan::default().lengths(50, 99), (50..100, 0..u64::MAX)),
        ("least versions", Scan::default().versions(version, 0), (0..usize::MAX, version..u64::MAX)),
        ("largest versions", Scan::default().versions(0, version), (0..usize::MAX, 0..version + 1)),
    ] {
        let right =
            model.iter().filter(|(key, data)| wanted.0.contains(&data.len()) && wanted.1.contains(&key.1));
        tap.ok(name, scan(&what.table(3))?.0.iter().eq(right));
    }

    let (sum, threads) = (AtomicU64::new(0), AtomicU64::new(0));
    store.scan(&Scan::default().table(3).prefix(8).threads(2), |thread, rows| {
        for row in rows {
            let (mut number, mut rest) = ([0; 8], [0; 8]);
            assert_eq!((row.available(), row.copy_to(0, &mut number), row.copy_to(5, &mut rest)), (8, 8, 3));
            assert_eq!((&rest[..3], row.copy_to(9, &mut [0])), (&number[5..], 0));
            sum.fetch_add(u64::from_le_bytes(number), Ordering::Relaxed);
        }
        threads.fetch_or(1 << thread, Ordering::Relaxed);
        ControlFlow::Continue(())
    })?;
    tap.is("a prefix of each object", sum.into_inner(), OBJECTS * (OBJECTS - 1) / 2);
    tap.ok("by threads with numbers", (1..4).contains(&threads.into_inner()));

    let batches = AtomicU64::new(0);
    let scanned = store.scan(&Scan::default().threads(1), |_, _| {
        batches.fetch_add(1, Ordering::Relaxed);
        ControlFlow::Break(())
    })?;
    tap.is("a scan that is ended", (scanned.stopped, batches.into_inner()), (true, 1));
    let panicked = panic::catch_unwind(AssertUnwindSafe(|| {
        store.scan(&Scan::default(), |_, _| panic::resume_unwind(Box::new(42)))
    }));
    tap.is("a panic in a scan is the caller's", panicked.unwrap_err().downcast_ref(), Some(&42));
    tap.fails("a plan that needs a list", scan(&Scan::default().plan(Plan::Lookup)), EINVAL);
    tap.fails("too many threads", scan(&Scan::default().threads(65)), EINVAL);
    for handle in handles {
        store.free(handle, Update::default())?;
    }
    store.free(first, Update::default()).map(|_| ())
}

/// Threads read one object while another replaces it: each sees bytes of one version.
fn whole_for_all(store: &Store) -> Result<bool> {
    let (handle, _) = store.alloc(&[0; 3000])?;
    let over = AtomicBool::new(false);
    let right = thread::scope(|scope| {
        let readers: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| -> Result<bool> {
                    let mut seen = 0u64;
                    while !over.load(Ordering::Relaxed) || seen == 0 {
                        let bytes = store.read(handle)?;
                        let view = store.view(handle)?.copy();
                        if [&bytes, &view].iter().any(|bytes| bytes.iter().any(|byte| *byte != bytes[0])) {
                            return Ok(false);
                        }
                        seen += 1;
                    }
                    Ok(true)
                })
            })
            .collect();
        let changed: Result<()> = (0..STEPS).try_for_each(|i| {
            store.replace(handle, &vec![i as u8; 3000 + i as usize % 1000], Update::default()).map(|_| ())
        });
        over.store(true, Ordering::Relaxed);
        changed?;
        let all: Result<Vec<bool>> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        Ok::<bool, Error>(all?.into_iter().all(|right| right))
    })?;
    store.free(handle, Update::default())?;
    Ok(right)
}

/// The example of Documentation/rust.rst.
fn test_example(tap: &mut Tap, path: &str) {
    let program = std::env::current_exe().expect("this program").with_file_name("examples/accounts");
    let done = Command::new(program).arg(path).output().expect("the example");
    let mut lines: Vec<_> = std::str::from_utf8(&done.stdout).expect("text").lines().collect();
    lines.sort_unstable();
    tap.is("the example", lines, vec!["alice has 70", "bob has 30"]);
}

fn run(tap: &mut Tap, name: &str, seed: u64) -> Result<()> {
    let path = format!("/dev/{name}");
    let store = Store::open(&path)?;
    test_objects(tap, &store)?;
    test_open(tap, &store, &path)?;
    watches::test_parts(tap, &store)?;
    watches::test_watches(tap, &store, &std::env::var("LSMEMCTL").expect("$LSMEMCTL"))?;
    tap.ok("objects, changed at random", objects_right(&store, &mut Random(seed))?);
    tap.ok("readers see whole objects", whole_for_all(&store)?);
    test_groups(tap, &store)?;
    test_groups_of_keys(tap, &store, &path)?;
    test_roots(tap, &store)?;
    test_tables(tap, &store, seed)?;
    test_scans(tap, &store)?;
    test_large(tap, &store, &mut Random(seed))?;
    test_regions(tap, &store, &path)?;
    values::test_aggregates(tap, &store)?;
    values::test_spreads(tap, &store)?;
    pools::test_pools(tap, &store, &path, &mut Random(seed))?;
    test_views(tap, &store, &format!("/sys/class/lsmem/{name}/limits/view_ms"))?;
    test_example(tap, &path);
    tap.is("no object is left", store.objects(None).count(), 0);
    Ok(())
}

fn main() {
    let name = std::env::args().nth(1).expect("usage: rust-store NAME");
    let seed = std::env::var("LSMEM_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok())
        .unwrap_or_else(|| std::time::UNIX_EPOCH.elapsed().expect("a clock").as_nanos() as u64);
    let mut tap = Tap::default();
    println!("# LSMEM_SEED={seed}");
    let done = run(&mut tap, &name, seed | 1);
    tap.is("no call fails that should not", done, Ok(()));
    println!("1..{}", tap.count);
    std::process::exit(i32::from(tap.failed > 0));
}
