// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
//! Objects in log-structured memory, over liblsmem.
//!
//! A [`Store`] is a device. An object has 1 byte to 1 MiB, and a [`Handle`] that stays the same when the object moves.
//! Reading takes no system call. Documentation/rust.rst is the overview, lsmem(3) says what each call does.
//!
//! ```no_run
//! # fn main() -> lsmem::Result<()> {
//! use lsmem::{Put, Store, Update};
//!
//! let store = Store::open("/dev/lsmem")?;
//! let (handle, version) = store.alloc(b"some bytes")?;
//! store.replace(handle, b"others", Update::default().version(version).durable())?;
//! assert_eq!(store.read(handle)?, b"others");
//!
//! let table = store.table(7)?;
//! table.put(b"key", b"value", Put::default())?;
//! assert_eq!(table.get(b"key")?.unwrap().value, b"value");
//! # Ok(())
//! # }
//! ```
//!
//! All calls can be made on one store, or one table, by many threads at once. In the child of a fork, views and tables
//! fail (ECHILD): open the store again there.

#![warn(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]

mod aggregate;
mod error;
mod group;
mod large;
mod pool;
mod region;
mod scan;
mod spread;
mod store;
pub mod sys;
mod table;
mod view;
mod watch;

pub use aggregate::{Aggregate, Column, Counts, Grouped, Kind, Measure, Question, Top, Total, Value};
pub use error::{Error, Result};
pub use group::{Committed, Group};
pub use large::{Large, LargeObject, Swept};
pub use pool::{Pages, Pool};
pub use region::{NewRegion, Region};
pub use scan::{Plan, Row, Scan, Scanned};
pub use spread::{Changed, Progress, Resume, Spread};
pub use store::{wait_active, Handle, Object, Objects, Open, Query, Stat, Store, Update};
pub use table::{Item, Items, Put, Table, TableStat};
pub use view::View;
pub use watch::{Note, Noted, Watch};
