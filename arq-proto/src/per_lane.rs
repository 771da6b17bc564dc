// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! One value for each lane.

use std::{
    ops::{Index, IndexMut},
    slice::{Iter, IterMut},
};

use crate::units::LaneId;

/// One value for each lane, on the heap, because connections are moved.
#[derive(Debug)]
pub(crate) struct PerLane<T>(Box<[T]>);

impl<T> PerLane<T> {
    pub(crate) fn new(make: impl FnMut(LaneId) -> T) -> Self {
        Self(LaneId::all().map(make).collect())
    }

    /// The most urgent first.
    pub(crate) fn iter(&self) -> Iter<'_, T> {
        self.0.iter()
    }
}

impl<T> Index<LaneId> for PerLane<T> {
    type Output = T;

    fn index(&self, lane: LaneId) -> &T {
        &self.0[lane.index()]
    }
}

impl<T> IndexMut<LaneId> for PerLane<T> {
    fn index_mut(&mut self, lane: LaneId) -> &mut T {
        &mut self.0[lane.index()]
    }
}

impl<'a, T> IntoIterator for &'a mut PerLane<T> {
    type Item = &'a mut T;
    type IntoIter = IterMut<'a, T>;

    fn into_iter(self) -> IterMut<'a, T> {
        self.0.iter_mut()
    }
}
