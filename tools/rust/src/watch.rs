// SPDX-License-Identifier: LGPL-2.1-or-later OR MIT
//! Notes of the changes of a table.

use std::collections::VecDeque;
use std::io;
use std::os::unix::io::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::time::{Duration, Instant};

use crate::error::check;
use crate::{sys, Error, Handle, Result, Store};

/// Notes of a system call.
const TOGETHER: usize = 256;

/// What has happened to an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Noted {
    /// It was allocated.
    New,
    /// It has new bytes.
    Replaced,
    /// It is gone.
    Freed,
    /// Changes are missing here, with versions above that of the note: list the table again.
    Lost,
}

/// A change of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Note {
    /// What has happened.
    pub kind: Noted,
    /// The object; `None` of [`Noted::Lost`].
    pub handle: Option<Handle>,
    /// That the change made.
    pub version: u64,
    /// For [`Store::watch_from`]: go on behind this note.
    pub cursor: u64,
    /// The next note is of the same group.
    pub more: bool,
}

impl Note {
    fn from_raw(raw: &sys::lsmem_note) -> Note {
        let kind = match raw.kind {
            sys::LSMEM_NOTE_NEW => Noted::New,
            sys::LSMEM_NOTE_REPLACED => Noted::Replaced,
            sys::LSMEM_NOTE_FREED => Noted::Freed,
            // Also what a later kernel may tell: the table is listed again.
            _ => Noted::Lost,
        };
        Note {
            kind,
            handle: Handle::from_raw(raw.handle),
            version: raw.version,
            cursor: raw.cursor,
            more: raw.flags & sys::LSMEM_NOTE_MORE != 0,
        }
    }

    pub(crate) fn raw(&self) -> sys::lsmem_note {
        sys::lsmem_note {
            cursor: self.cursor,
            handle: self.handle.map_or(0, Handle::as_raw),
            version: self.version,
            kind: match self.kind {
                Noted::New => sys::LSMEM_NOTE_NEW,
                Noted::Replaced => sys::LSMEM_NOTE_REPLACED,
                Noted::Freed => sys::LSMEM_NOTE_FREED,
                Noted::Lost => sys::LSMEM_NOTE_LOST,
            },
            flags: if self.more { sys::LSMEM_NOTE_MORE } else { 0 },
        }
    }
}

/// Notes of the changes of a table id, from [`Store::watch`]; it can outlive the store.
///
/// As an iterator it waits for each note, and ends when the store is destroyed. An event loop polls its descriptor, which is
/// readable when [`Watch::take_ready`] has something to return.
#[derive(Debug)]
pub struct Watch {
    file: OwnedFd,
    /// Read, and not yet returned by the iterator.
    ahead: VecDeque<Note>,
    ended: bool,
}

impl AsRawFd for Watch {
    fn as_raw_fd(&self) -> RawFd {
        self.file.as_raw_fd()
    }
}

impl Watch {
    pub(crate) fn open(store: &Store, table: u16, cursor: u64, entries: u32) -> Result<Watch> {
        // SAFETY: plain numbers.
        let fd =
            unsafe { sys::lsm_watch_open(store.raw(), u32::from(table), entries, cursor, sys::LSM_NONBLOCK) };
        check(fd as isize, "lsm_watch_open")?;
        // SAFETY: the descriptor is new, and belongs to the watch.
        let file = unsafe { OwnedFd::from_raw_fd(fd) };
        Ok(Watch { file, ahead: VecDeque::new(), ended: false })
    }

    /// The notes that there are, at most 256 besides what an iteration has not yet returned, without waiting.
    pub fn take_ready(&mut self) -> Result<Vec<Note>> {
        self.read()?;
        Ok(self.ahead.drain(..).collect())
    }

    /// The store is gone: no more notes come.
    pub fn ended(&self) -> bool {
        self.ended && self.ahead.is_empty()
    }

    /// Waits until there are notes, or the store is gone, at most for `timeout`; `None`: without a bound. Returns whether
    /// that is so. EINTR: a signal came.
    pub fn wait(&mut self, timeout: Option<Duration>) -> Result<bool> {
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        loop {
            if !self.ahead.is_empty() || self.ended {
                return Ok(true);
            }
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            // Rounded up, so that it is not polled again and again in the last millisecond
            let ms = left.map_or(-1, |left| ((left.as_micros() + 999) / 1000).min(i32::MAX as u128) as i32);
            let mut ready = sys::pollfd { fd: self.as_raw_fd(), events: sys::POLLIN, revents: 0 };
            // SAFETY: there is one descriptor.
            if unsafe { sys::poll(&mut ready, 1, ms) } < 0 {
                return Err(Error::new(
                    io::Error::last_os_error().raw_os_error().unwrap_or(sys::EINTR),
                    "poll",
                ));
            }
            self.read()?;
            if left == Some(Duration::ZERO) {
                return Ok(!self.ahead.is_empty() || self.ended);
            }
        }
    }

    fn read(&mut self) -> Result<()> {
        if self.ended {
            return Ok(());
        }
        let mut notes = [sys::lsmem_note::default(); TOGETHER];
        // SAFETY: there is room for so many notes.
        let got = unsafe { sys::lsm_watch_read(self.as_raw_fd(), notes.as_mut_ptr(), TOGETHER) };
        match check(got, "lsm_watch_read") {
            Ok(got) => {
                self.ended = got == 0;
                self.ahead.extend(notes[..got].iter().map(Note::from_raw));
                Ok(())
            }
            Err(error) if error.errno() == sys::EAGAIN => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Iterator for Watch {
    type Item = Result<Note>;

    fn next(&mut self) -> Option<Result<Note>> {
        loop {
            if let Some(note) = self.ahead.pop_front() {
                return Some(Ok(note));
            }
            if self.ended {
                return None;
            }
            match self.wait(None) {
                Ok(_) => {}
                Err(error) if error.errno() == sys::EINTR => {}
                Err(error) => return Some(Err(error)),
            }
        }
    }
}
