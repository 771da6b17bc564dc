// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! The driver's locks and atomics: of `parking_lot` and the standard library, counted in the unit tests; of `shuttle` where
//! that explores how tasks interleave (see `model`).

#[cfg(not(all(test, shuttle)))]
use parking_lot as imp;
#[cfg(not(all(test, shuttle)))]
pub(super) use std::sync::atomic::{AtomicU8, Ordering};

#[cfg(all(test, shuttle))]
use modelled as imp;
#[cfg(all(test, shuttle))]
pub(super) use shuttle::sync::atomic::{AtomicU8, Ordering};

pub(super) use imp::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

/// As `parking_lot`'s.
#[derive(Debug, Default)]
pub(super) struct Mutex<T>(imp::Mutex<T>);

impl<T> Mutex<T> {
    pub(super) fn new(value: T) -> Self {
        Self(imp::Mutex::new(value))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        #[cfg(all(test, not(shuttle)))]
        counted::count();
        self.0.lock()
    }

    pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock()
    }
}

/// As `parking_lot`'s.
#[derive(Debug)]
pub(super) struct RwLock<T>(imp::RwLock<T>);

impl<T> RwLock<T> {
    pub(super) fn new(value: T) -> Self {
        Self(imp::RwLock::new(value))
    }

    pub(super) fn read(&self) -> RwLockReadGuard<'_, T> {
        #[cfg(all(test, not(shuttle)))]
        counted::count();
        self.0.read()
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, T> {
        #[cfg(all(test, not(shuttle)))]
        counted::count();
        self.0.write()
    }
}

#[cfg(all(test, not(shuttle)))]
pub(super) mod counted {
    use std::cell::Cell;

    thread_local! {
        static LOCKS: Cell<u64> = const { Cell::new(0) };
    }

    pub(super) fn count() {
        LOCKS.set(LOCKS.get() + 1);
    }

    /// Locks that this thread has taken.
    pub(in crate::driver) fn locks() -> u64 {
        LOCKS.get()
    }
}

/// Shuttle's locks, which are never poisoned here: the run ends where one panics.
#[cfg(all(test, shuttle))]
mod modelled {
    use shuttle::sync;
    pub(in crate::driver) use sync::{MutexGuard, RwLockReadGuard, RwLockWriteGuard};

    #[derive(Debug, Default)]
    pub(super) struct Mutex<T>(sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(super) fn new(value: T) -> Self {
            Self(sync::Mutex::new(value))
        }

        pub(super) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap()
        }

        pub(super) fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }

    #[derive(Debug)]
    pub(super) struct RwLock<T>(sync::RwLock<T>);

    impl<T> RwLock<T> {
        pub(super) fn new(value: T) -> Self {
            Self(sync::RwLock::new(value))
        }

        pub(super) fn read(&self) -> RwLockReadGuard<'_, T> {
            self.0.read().unwrap()
        }

        pub(super) fn write(&self) -> RwLockWriteGuard<'_, T> {
            self.0.write().unwrap()
        }
    }
}
