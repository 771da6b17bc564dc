// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The driver's locks: of `parking_lot`, counted in the unit tests.

use parking_lot as imp;

/// As `parking_lot`'s.
#[derive(Debug, Default)]
pub(super) struct Mutex<T>(imp::Mutex<T>);

/// As `parking_lot`'s.
pub(super) type MutexGuard<'a, T> = imp::MutexGuard<'a, T>;

impl<T> Mutex<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        count();
        self.0.lock()
    }
}

/// As `parking_lot`'s.
#[derive(Debug)]
pub(super) struct RwLock<T>(imp::RwLock<T>);

impl<T> RwLock<T> {
    pub(super) const fn new(value: T) -> Self {
        Self(imp::RwLock::new(value))
    }

    pub(super) fn read(&self) -> imp::RwLockReadGuard<'_, T> {
        count();
        self.0.read()
    }

    pub(super) fn write(&self) -> imp::RwLockWriteGuard<'_, T> {
        count();
        self.0.write()
    }
}

#[cfg(not(test))]
fn count() {}

#[cfg(test)]
pub(super) use counted::{count, locks};

#[cfg(test)]
mod counted {
    use std::cell::Cell;

    thread_local! {
        static LOCKS: Cell<u64> = const { Cell::new(0) };
    }

    pub(in super::super) fn count() {
        LOCKS.set(LOCKS.get() + 1);
    }

    /// Locks that this thread has taken.
    pub(in super::super) fn locks() -> u64 {
        LOCKS.get()
    }
}
