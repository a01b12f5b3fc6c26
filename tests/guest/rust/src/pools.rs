// SPDX-License-Identifier: GPL-2.0
//! Pools against a model.

use std::collections::{BTreeMap, HashSet};

use lsmem::{Handle, NewRegion, Open, Pool, Result, Store};

use crate::{Random, Tap, EBUSY, EINVAL, ENOENT, EOPNOTSUPP};

const ENOSPC: i32 = 28;
const OBJECTS: u64 = 128;
const TABLE: u16 = 14;

/// Bytes of objects by their pages.
type Model = BTreeMap<u64, Vec<u8>>;

/// Whether a pool has the objects of the model, and these bytes.
fn same(pool: &Pool, model: &Model) -> Result<bool> {
    let pages: Vec<u64> = pool.pages().collect::<Result<_>>()?;
    if !pages.iter().eq(model.keys()) {
        return Ok(false);
    }
    for (page, data) in model {
        // SAFETY: here and below, only this thread uses the pool.
        if unsafe { pool.bytes(*page)? } != &data[..] || pool.length(*page)? != data.len() {
            return Ok(false);
        }
    }
    Ok(true)
}

pub(crate) fn test_pools(tap: &mut Tap, store: &Store, path: &str, random: &mut Random) -> Result<()> {
    let pool = store.create_pool(OBJECTS, NewRegion::default().table(TABLE).buffer(1 << 18))?;
    let (root, mut model) = (pool.root(), Model::new());
    for _ in 0..OBJECTS {
        let data: Vec<u8> = (0..1 + random.below(4096)).map(|i| (i * 7) as u8 ^ random.0 as u8).collect();
        let page = pool.alloc(data.len())?;
        let bytes = unsafe { pool.bytes_mut(page)? };
        assert!(bytes.iter().all(|byte| *byte == 0));
        bytes.copy_from_slice(&data);
        model.insert(page, data);
    }
    tap.ok("a pool has as many objects as it has room for", same(&pool, &model)?);
    tap.fails("and no more", pool.alloc(1), ENOSPC);
    pool.sync()?;
    let read: Result<Model> =
        model.keys().map(|page| Ok((*page, store.read(pool.handle(*page)?)?))).collect();
    tap.ok("other clients read them by their handles", read? == model);
    let listed: HashSet<Handle> =
        store.objects(Some(TABLE)).map(|each| each.map(|(handle, _)| handle)).collect::<Result<_>>()?;
    let right: Result<Vec<bool>> =
        model.keys().map(|page| pool.handle(*page).map(|handle| listed.contains(&handle))).collect();
    tap.ok("and find them in the pool's table", right?.into_iter().all(|right| right));
    for page in (0..OBJECTS).step_by(3) {
        pool.free(page)?;
        model.remove(&page);
    }
    tap.ok("some are freed", same(&pool, &model)?);
    tap.fails("which have no length", pool.length(3), ENOENT);
    tap.fails("no handle", pool.handle(3), ENOENT);
    tap.fails("and are not freed again", pool.free(3), ENOENT);
    pool.sync()?;
    let page = pool.alloc(5)?;
    model.insert(page, vec![0; 5]);
    tap.is("their pages are used again", page % 3, 0);
    tap.fails("no length", pool.alloc(0), EINVAL);
    tap.fails("one that is too large", pool.alloc(4097), EINVAL);
    tap.fails("a page behind the end", pool.length(OBJECTS), EINVAL);
    tap.is("has no address", pool.as_ptr(OBJECTS), None);
    tap.ok(
        "pages follow each other",
        pool.as_ptr(1).map(|at| at.as_ptr() as usize) == pool.as_ptr(0).map(|at| at.as_ptr() as usize + 4096),
    );
    tap.fails("a pool in use is not removed", store.remove_region(root), EBUSY);
    drop(pool);

    let reader = Open::default().read_only().open(path)?;
    let pool = reader.pool(root, 0)?;
    drop(reader);
    tap.ok("a reader has all of it, also without its store", same(&pool, &model)? && pool.root() == root);
    tap.ok("and makes nothing", pool.alloc(1).is_err());
    drop(pool);
    tap.ok("it can be opened again", same(&store.pool(root, 1 << 20)?, &model)?);
    store.remove_region(root)?;
    tap.ok("one that is removed", store.pool(root, 0).unwrap_err().is_not_found());
    tap.ok("leaves nothing", store.objects(Some(TABLE)).next().is_none());
    let region = store.create_region(4096, NewRegion::default())?.root();
    tap.fails("a region is no pool", store.pool(region, 0), EOPNOTSUPP);
    tap.fails("a pool without room", store.create_pool(0, NewRegion::default()), EINVAL);
    store.remove_region(region)
}
