// SPDX-License-Identifier: GPL-2.0
//! Two accounts, a transfer, and a table of their names. usage: accounts STORE

use lsmem::{Handle, Put, Result, Store, Update};

fn balance(store: &Store, account: Handle) -> Result<(u64, u64)> {
    let mut bytes = [0; 8];
    let (_, object) = store.read_into(account, &mut bytes, 0)?;
    Ok((u64::from_le_bytes(bytes), object.version))
}

fn main() -> Result<()> {
    let path = std::env::args().nth(1).unwrap_or_else(|| "/dev/lsmem".into());
    let store = Store::open(path)?;

    // A group makes both accounts or none
    let (hundred, nothing) = (100u64.to_le_bytes(), 0u64.to_le_bytes());
    let made = store.group().alloc(3, &hundred).alloc(3, &nothing).commit(false)?;
    let (here, there) = (made.objects[0].0, made.objects[1].0);

    // A table leads from names to accounts, in all processes of the host
    let names = store.table(4)?;
    names.put(b"alice", &here.as_raw().to_le_bytes(), Put::default())?;
    names.put(b"bob", &there.as_raw().to_le_bytes(), Put::default())?;

    // A transfer, if no other client is faster: else it begins again
    loop {
        let ((from, from_version), (to, to_version)) = (balance(&store, here)?, balance(&store, there)?);
        let (less, more) = ((from - 30).to_le_bytes(), (to + 30).to_le_bytes());
        let group =
            store.group().replace(here, &less, Some(from_version)).replace(there, &more, Some(to_version));
        match group.commit(false) {
            Ok(_) => break,
            Err(error) if error.is_unexpected() => continue,
            Err(error) => return Err(error),
        }
    }

    for each in names.iter() {
        let (name, item) = each?;
        let number = u64::from_le_bytes(item.value.try_into().expect("a handle"));
        let account = Handle::from_raw(number).expect("a handle");
        println!("{} has {}", String::from_utf8_lossy(&name), balance(&store, account)?.0);
        store.free(account, Update::default())?;
        names.remove(&name, None, false)?;
    }
    Ok(())
}
