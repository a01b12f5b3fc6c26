// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
//! Views: access to the bytes of an object in place.

use std::borrow::Cow;
use std::mem::MaybeUninit;

use crate::error::check;
use crate::{sys, Handle, Object, Result, Store};

/// A view of an object, from [`Store::view`] until it is ended or dropped.
///
/// While a view is held the kernel does not move, change or reuse the bytes of the version that the view has found, also
/// if the object is replaced, freed or moved. That lasts until [`View::end`], or the bound on views
/// ([`Store::view_bound`], a second at most by default), whichever comes first: then the kernel revokes the view, and
/// the memory may get other bytes. Only when [`View::end`] has returned `Ok` is it certain that all that was read was
/// right. Until then, treat the bytes as bytes: check what is computed of them, and do not act on it.
///
/// A view cannot outlive its store:
///
/// ```compile_fail,E0597
/// let view = {
///     let store = lsmem::Store::open("/dev/lsmem").unwrap();
///     let (handle, _) = store.alloc(b"x").unwrap();
///     store.view(handle).unwrap()
/// };
/// drop(view);
/// ```
///
/// nor the bytes their view:
///
/// ```compile_fail,E0505
/// # fn f(store: &lsmem::Store, handle: lsmem::Handle) -> lsmem::Result<()> {
/// let view = store.view(handle)?;
/// let bytes = unsafe { view.bytes() };
/// view.end()?;
/// println!("{}", bytes.len());
/// # Ok(())
/// # }
/// ```
///
/// A store has 64 views at a time; [`Store::view`] fails with EAGAIN when all are in use.
#[derive(Debug)]
pub struct View<'store> {
    store: &'store Store,
    raw: sys::lsm_view,
}

// SAFETY: lsmem.h: a view "is ended once, by any thread"; its bytes are only read.
unsafe impl Send for View<'_> {}
unsafe impl Sync for View<'_> {}

impl<'store> View<'store> {
    pub(crate) fn begin(store: &'store Store, handle: Handle) -> Result<View<'store>> {
        let mut raw = MaybeUninit::<sys::lsm_view>::zeroed();
        // SAFETY: there is room for a view.
        let ret = unsafe { sys::lsm_view_begin(store.raw(), handle.as_raw(), raw.as_mut_ptr()) };
        check(ret as isize, "lsm_view_begin")?;
        // SAFETY: zeroes are a value, too, of what the library did not fill.
        Ok(View { store, raw: unsafe { raw.assume_init() } })
    }

    /// Attributes of the object, as of the view.
    pub fn object(&self) -> Object {
        self.raw.object.into()
    }

    fn spans(&self) -> impl Iterator<Item = (*const u8, usize)> + '_ {
        self.raw.iov[..self.raw.nr as usize].iter().map(|piece| (piece.iov_base as *const u8, piece.iov_len))
    }

    /// The bytes, in order, in up to 18 pieces: an object that does not cross a seglet of 64 KiB has one.
    ///
    /// # Safety
    ///
    /// The slices are used before the bound on views has passed since [`Store::view`]: after that the kernel may write
    /// there, and bytes behind a reference must not change. [`View::copy`] has no such condition.
    pub unsafe fn pieces(&self) -> impl Iterator<Item = &[u8]> + '_ {
        self.spans().map(|(from, length)| unsafe { std::slice::from_raw_parts(from, length) })
    }

    /// The bytes: in place if they are in one piece, else copied.
    ///
    /// # Safety
    ///
    /// As [`View::pieces`].
    pub unsafe fn bytes(&self) -> Cow<'_, [u8]> {
        let mut pieces = unsafe { self.pieces() };
        match (pieces.next(), self.raw.nr) {
            (Some(only), 1) => Cow::Borrowed(only),
            _ => Cow::Owned(self.copy()),
        }
    }

    /// Copies the bytes. Whether they were right, [`View::end`] says.
    pub fn copy(&self) -> Vec<u8> {
        let mut to: Vec<u8> = Vec::with_capacity(self.raw.object.length as usize);
        for (from, length) in self.spans() {
            // SAFETY: the pieces are mapped as long as the store is open, and there is room for all of them; no
            // reference to them is made.
            unsafe {
                to.reserve(length);
                std::ptr::copy_nonoverlapping(from, to.as_mut_ptr().add(to.len()), length);
                to.set_len(to.len() + length);
            }
        }
        to
    }

    fn finish(&mut self) -> Result<()> {
        // SAFETY: the view is open; it is ended once, here or by Drop.
        check(unsafe { sys::lsm_view_end(self.store.raw(), &mut self.raw) } as isize, "lsm_view_end")
            .map(|_| ())
    }

    /// Ends the view. An error with [`crate::Error::is_revoked`]: what was read may be wrong.
    pub fn end(self) -> Result<()> {
        std::mem::ManuallyDrop::new(self).finish()
    }
}

impl Drop for View<'_> {
    fn drop(&mut self) {
        let _ = self.finish();
    }
}
