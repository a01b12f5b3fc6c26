// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
//! Errors.

use std::ffi::CStr;
use std::{fmt, io};

use crate::{sys, Handle};

/// What a call returns.
pub type Result<T> = std::result::Result<T, Error>;

/// A call that failed: its errno, and what it said nevertheless.
///
/// lsmem(3) says what each errno means; [`Error::errno`] is one of `libc`'s numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Error {
    errno: i32,
    call: &'static str,
    pub(crate) version: Option<u64>,
    pub(crate) handle: Option<Handle>,
    pub(crate) operation: Option<usize>,
}

impl Error {
    pub(crate) fn new(errno: i32, call: &'static str) -> Error {
        Error { errno, call, version: None, handle: None, operation: None }
    }

    /// The errno, positive.
    pub fn errno(&self) -> i32 {
        self.errno
    }

    /// The present version of the object or item, if another one was expected (EILSEQ).
    pub fn version(&self) -> Option<u64> {
        self.version
    }

    /// Of an allocation whose durability is unknown (ETIMEDOUT): the object, which is there.
    pub fn handle(&self) -> Option<Handle> {
        self.handle
    }

    /// Of a group: the operation that could not be carried out, by its number.
    pub fn operation(&self) -> Option<usize> {
        self.operation
    }

    /// There is no such object, key, root or store.
    pub fn is_not_found(&self) -> bool {
        self.errno == sys::ENOENT || self.errno == sys::ESTALE
    }

    /// Nothing was changed, because the object or item has another version or root than was expected.
    pub fn is_unexpected(&self) -> bool {
        self.errno == sys::EILSEQ
    }

    /// The change was made, and whether it is durable is not known.
    pub fn is_timeout(&self) -> bool {
        self.errno == sys::ETIMEDOUT
    }

    /// The kernel has revoked the view: what was read may be wrong.
    pub fn is_revoked(&self) -> bool {
        self.errno == sys::ECANCELED
    }
}

impl fmt::Display for Error {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        // SAFETY: lsm_strerror() returns constant texts.
        let text = unsafe { CStr::from_ptr(sys::lsm_strerror(self.errno)) };
        write!(to, "{}: {} (errno {})", self.call, text.to_string_lossy(), self.errno)
    }
}

impl std::error::Error for Error {}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        io::Error::from_raw_os_error(error.errno)
    }
}

/// What a function of the library has returned: a number, or a negative errno.
pub(crate) fn check(returned: isize, call: &'static str) -> Result<usize> {
    usize::try_from(returned).map_err(|_| Error::new(-returned as i32, call))
}

/// The same of a function that takes an expected version, and tells the present one.
pub(crate) fn check_version(returned: i32, version: u64, call: &'static str) -> Result<u64> {
    match check(returned as isize, call) {
        Ok(_) => Ok(version),
        Err(mut error) => {
            if error.is_unexpected() || error.is_timeout() {
                error.version = Some(version);
            }
            Err(error)
        }
    }
}
