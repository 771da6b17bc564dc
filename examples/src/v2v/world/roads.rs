// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0
//! Which streets are there, and where is somebody who has driven so far along a circuit of them?
//!
//! A small town: five streets from south to north cross four from west to east, none of them quite straight. A circuit
//! goes around some of its blocks, in the right-hand lane, through rounded corners.

use serde::{Deserialize, Serialize};

/// A place, metres; `x_m` grows to the east, `y_m` to the north.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// Metres to the east of the town's south-western corner.
    pub x_m: f64,
    /// Metres to the north of it.
    pub y_m: f64,
}

impl Point {
    /// The distance between two places, metres.
    pub fn distance_m(self, other: Self) -> f64 {
        (self.x_m - other.x_m).hypot(self.y_m - other.y_m)
    }

    /// Whether both numbers are.
    pub(crate) fn is_finite(self) -> bool {
        self.x_m.is_finite() && self.y_m.is_finite()
    }

    /// The place so far along a direction.
    pub(crate) fn moved(self, direction: Vector, metres: f64) -> Self {
        Self { x_m: self.x_m + direction.x * metres, y_m: self.y_m + direction.y * metres }
    }

    fn towards(self, other: Self) -> Vector {
        let length = self.distance_m(other).max(f64::MIN_POSITIVE);
        Vector { x: (other.x_m - self.x_m) / length, y: (other.y_m - self.y_m) / length }
    }
}

/// A direction or a velocity.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Vector {
    pub(crate) x: f64,
    pub(crate) y: f64,
}

impl Vector {
    /// The unit vector of a heading, degrees clockwise from north.
    pub(crate) fn of_heading(heading_deg: f64) -> Self {
        let (sine, cosine) = heading_deg.to_radians().sin_cos();
        Self { x: sine, y: cosine }
    }

    /// Degrees clockwise from north, 0 to below 360.
    fn heading_deg(self) -> f64 {
        let heading = self.x.atan2(self.y).to_degrees().rem_euclid(360.0);
        // A tiny negative angle is rounded up to the full circle.
        if heading < 360.0 {
            heading
        } else {
            0.0
        }
    }

    fn right(self) -> Self {
        Self { x: self.y, y: -self.x }
    }
}

/// Where the streets from south to north begin, metres.
const COLUMNS_M: [f64; 5] = [0.0, 240.0, 520.0, 800.0, 1060.0];
/// Where the streets from west to east begin, metres.
const ROWS_M: [f64; 4] = [0.0, 200.0, 410.0, 610.0];
/// How far the middle of a lane is from the middle of its street, metres.
const LANE_M: f64 = 2.5;
/// Where a corner's curve begins, metres before the corner.
const CORNER_M: f64 = 28.0;
/// Straight pieces of a corner's curve.
const CORNER_PIECES: u32 = 10;
/// Over how many metres, to both sides, a heading is taken.
const HEADING_REACH_M: f64 = 1.5;

/// The pieces of street between neighbouring crossings, for a map.
pub fn streets() -> Vec<[Point; 2]> {
    let along_rows = (0..ROWS_M.len()).flat_map(|row| {
        (1..COLUMNS_M.len()).map(move |c| [crossing(c - 1, row), crossing(c, row)])
    });
    let along_columns = (0..COLUMNS_M.len()).flat_map(|column| {
        (1..ROWS_M.len()).map(move |r| [crossing(column, r - 1), crossing(column, r)])
    });
    along_rows.chain(along_columns).collect()
}

/// The crossing of two streets; nobody builds a town with a ruler.
fn crossing(column: usize, row: usize) -> Point {
    let (c, r) = (column as f64, row as f64);
    Point {
        x_m: COLUMNS_M[column] + 22.0 * (1.9 * r + c).sin(),
        y_m: ROWS_M[row] + 20.0 * (1.3 * c + 2.1 * r).sin(),
    }
}

/// The blocks that a circuit goes around.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Blocks {
    /// First and last street from south to north.
    pub(super) columns: [usize; 2],
    /// First and last street from west to east.
    pub(super) rows: [usize; 2],
    /// Whether it goes around them with the clock.
    pub(super) clockwise: bool,
}

impl Blocks {
    /// Every circuit that there is.
    pub(super) fn all() -> Vec<Self> {
        let pairs = |count: usize| {
            (0..count).flat_map(move |first| (first + 1..count).map(move |last| [first, last]))
        };
        let rectangles = pairs(COLUMNS_M.len())
            .flat_map(|columns| pairs(ROWS_M.len()).map(move |rows| (columns, rows)));
        rectangles
            .flat_map(|(columns, rows)| {
                [false, true].map(|clockwise| Self { columns, rows, clockwise })
            })
            .collect()
    }

    fn crossings(self) -> Vec<Point> {
        let ([west, east], [south, north]) = (self.columns, self.rows);
        let eastwards = (west..east).map(|column| (column, south));
        let northwards = (south..north).map(|row| (east, row));
        let westwards = (west + 1..=east).rev().map(|column| (column, north));
        let southwards = (south + 1..=north).rev().map(|row| (west, row));
        let around = eastwards.chain(northwards).chain(westwards).chain(southwards);
        let mut crossings: Vec<_> = around.map(|(column, row)| crossing(column, row)).collect();
        if self.clockwise {
            crossings.reverse();
        }
        crossings
    }
}

/// A closed way in the right-hand lane.
#[derive(Clone, Debug)]
pub(super) struct Circuit {
    points: Vec<Point>,
    /// How far each point is from the first; the last entry is the way around.
    driven_m: Vec<f64>,
}

impl Circuit {
    pub(super) fn around(blocks: Blocks) -> Self {
        let points = rounded(&in_lane(&blocks.crossings()));
        let mut driven_m = vec![0.0];
        for index in 0..points.len() {
            let next = points[(index + 1) % points.len()];
            driven_m.push(driven_m[index] + points[index].distance_m(next));
        }
        Self { points, driven_m }
    }

    /// The way around, metres.
    pub(super) fn length_m(&self) -> f64 {
        self.driven_m[self.points.len()]
    }

    /// The place after so many metres, round and round.
    pub(super) fn place(&self, driven_m: f64) -> Point {
        let driven_m = driven_m.rem_euclid(self.length_m());
        let after = self.driven_m.partition_point(|point| *point <= driven_m);
        let index = (after.max(1) - 1).min(self.points.len() - 1);
        let (from, to) = (self.points[index], self.points[(index + 1) % self.points.len()]);
        from.moved(from.towards(to), driven_m - self.driven_m[index])
    }

    /// The heading after so many metres, degrees clockwise from north.
    pub(super) fn heading_deg(&self, driven_m: f64) -> f64 {
        let before = self.place(driven_m - HEADING_REACH_M);
        before.towards(self.place(driven_m + HEADING_REACH_M)).heading_deg()
    }
}

/// The way moved to the right, into its lane.
fn in_lane(crossings: &[Point]) -> Vec<Point> {
    corners(crossings)
        .map(|(corner, before, after)| {
            let (first, second) = (before.right(), after.right());
            // Where the two moved streets cross.
            let stretch = LANE_M / (1.0 + first.x * second.x + first.y * second.y);
            corner.moved(Vector { x: first.x + second.x, y: first.y + second.y }, stretch)
        })
        .collect()
}

/// The way with curves for its corners.
fn rounded(points: &[Point]) -> Vec<Point> {
    corners(points)
        .flat_map(|(corner, before, after)| {
            let (enter, leave) = (corner.moved(before, -CORNER_M), corner.moved(after, CORNER_M));
            (0..=CORNER_PIECES).map(move |piece| {
                let t = f64::from(piece) / f64::from(CORNER_PIECES);
                let weigh = |a: f64, b: f64, c: f64| {
                    (1.0 - t) * (1.0 - t) * a + 2.0 * t * (1.0 - t) * b + t * t * c
                };
                Point {
                    x_m: weigh(enter.x_m, corner.x_m, leave.x_m),
                    y_m: weigh(enter.y_m, corner.y_m, leave.y_m),
                }
            })
        })
        .collect()
}

/// Each point with the directions in which it is reached and left.
fn corners(points: &[Point]) -> impl Iterator<Item = (Point, Vector, Vector)> + '_ {
    let count = points.len();
    (0..count).map(move |index| {
        let (last, next) = (points[(index + count - 1) % count], points[(index + 1) % count]);
        (points[index], last.towards(points[index]), points[index].towards(next))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_those_of_a_compass() {
        let origin = Point::default();
        for (x_m, y_m, heading_deg) in
            [(0.0, 1.0, 0.0), (1.0, 0.0, 90.0), (0.0, -1.0, 180.0), (-1.0, 0.0, 270.0)]
        {
            let direction = origin.towards(Point { x_m, y_m });
            assert!((direction.heading_deg() - heading_deg).abs() < 1e-9);
            let back = Vector::of_heading(heading_deg);
            assert!((back.x - x_m).abs() < 1e-9 && (back.y - y_m).abs() < 1e-9);
        }
    }

    #[test]
    fn every_circuit_is_closed_smooth_and_on_the_right_hand_side() {
        for blocks in Blocks::all() {
            let circuit = Circuit::around(blocks);
            let start = circuit.place(0.0);
            assert!(start.distance_m(circuit.place(circuit.length_m())) < 1e-6, "{blocks:?}");
            let (mut turned_deg, mut heading_deg) = (0.0, circuit.heading_deg(0.0));
            for metre in 1..=circuit.length_m() as u32 {
                let metre = f64::from(metre);
                let step_m = circuit.place(metre).distance_m(circuit.place(metre - 1.0));
                assert!((0.97..=1.000_1).contains(&step_m), "{blocks:?}: {step_m} at {metre}");
                let now_deg = circuit.heading_deg(metre);
                let turn_deg = (now_deg - heading_deg + 180.0).rem_euclid(360.0) - 180.0;
                assert!(turn_deg.abs() < 8.0, "{blocks:?}: {turn_deg} at {metre}");
                turned_deg += turn_deg;
                heading_deg = now_deg;
            }
            assert_eq!(turned_deg > 0.0, blocks.clockwise, "{blocks:?}");
            // The right-hand lane is the outer one against the clock, the inner one with it.
            let other = Circuit::around(Blocks { clockwise: !blocks.clockwise, ..blocks });
            let longer = circuit.length_m() > other.length_m();
            assert_eq!(longer, !blocks.clockwise, "{blocks:?}");
        }
    }
}
