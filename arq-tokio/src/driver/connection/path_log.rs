// SPDX-License-Identifier: EPL-2.0 OR Apache-2.0

//! What the log says of paths: a line when one opens, is silent for a second, answers again, is limited. An
//! interface that comes and goes all day must not fill the log.

use std::time::{Duration, Instant};

use arq_proto::{PathEvent, PathNumber};

/// Lines about a path that may follow each other at once, and the time in which one more may.
const LINES_AT_ONCE: u32 = 4;
const LINE_EACH: Duration = Duration::from_secs(80);
/// What is shorter is a fade, of which there may be many a minute: figures tell of those.
const SILENCE_WORTH_A_LINE: Duration = Duration::from_secs(1);

/// What was said of the paths of a connection. Empty, and without memory, while there is nothing to say.
#[derive(Debug, Default)]
pub(super) struct PathLog(Vec<OfPath>);

/// A line about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) path: PathNumber,
    pub(super) event: PathEvent,
    /// Lines that were left out before it.
    pub(super) untold: u64,
}

#[derive(Debug)]
struct OfPath {
    number: PathNumber,
    /// Since when it is silent, while nobody was told.
    silent_since: Option<Instant>,
    /// Somebody was told that it is silent.
    is_told_silent: bool,
    lines: u32,
    counted_at: Instant,
    untold: u64,
}

impl PathLog {
    /// Something has happened to a path.
    pub(super) fn note(
        &mut self,
        now: Instant,
        number: PathNumber,
        event: PathEvent,
    ) -> Option<Line> {
        let path = self.of(now, number);
        match event {
            PathEvent::Silent => {
                path.silent_since.get_or_insert(now);
                None
            }
            PathEvent::Answers(after) => {
                path.silent_since = None;
                let was_told = std::mem::take(&mut path.is_told_silent);
                let is_worth_it = was_told || after >= SILENCE_WORTH_A_LINE;
                is_worth_it.then(|| path.tell(now, event)).flatten()
            }
            event => path.tell(now, event),
        }
    }

    /// Whether a silence may become worth a line.
    pub(super) fn is_waiting(&self) -> bool {
        self.0.iter().any(|path| path.silent_since.is_some())
    }

    /// A path that is silent for so long that it is worth a line.
    pub(super) fn overdue(&mut self, now: Instant) -> Option<Line> {
        self.0.iter_mut().find_map(|path| {
            path.silent_since.take_if(|since| now >= *since + SILENCE_WORTH_A_LINE)?;
            path.is_told_silent = true;
            path.tell(now, PathEvent::Silent)
        })
    }

    fn of(&mut self, now: Instant, number: PathNumber) -> &mut OfPath {
        let place = self.0.iter().position(|path| path.number == number).unwrap_or_else(|| {
            self.0.push(OfPath {
                number,
                silent_since: None,
                is_told_silent: false,
                lines: LINES_AT_ONCE,
                counted_at: now,
                untold: 0,
            });
            self.0.len() - 1
        });
        &mut self.0[place]
    }
}

impl OfPath {
    fn tell(&mut self, now: Instant, event: PathEvent) -> Option<Line> {
        while self.lines < LINES_AT_ONCE && now >= self.counted_at + LINE_EACH {
            self.lines += 1;
            self.counted_at += LINE_EACH;
        }
        if self.lines == 0 {
            self.untold += 1;
            return None;
        }
        if self.lines == LINES_AT_ONCE {
            self.counted_at = now;
        }
        self.lines -= 1;
        Some(Line { path: self.number, event, untold: std::mem::take(&mut self.untold) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: PathNumber = PathNumber(0);
    const SECOND: Duration = Duration::from_secs(1);

    /// What is told of a path that falls silent at each of these seconds, for so long.
    fn told(silences: impl Iterator<Item = u32>, lasts: Duration) -> Vec<(u32, PathEvent, u64)> {
        let (begin, mut log, mut lines) = (Instant::now(), PathLog::default(), Vec::new());
        for at in silences {
            let silent = begin + at * SECOND;
            assert_eq!(log.note(silent, PATH, PathEvent::Silent), None, "it may be a fade");
            let again = silent + lasts;
            let later = [log.overdue(again), log.note(again, PATH, PathEvent::Answers(lasts))];
            lines.extend(later.into_iter().flatten().map(|line| (at, line.event, line.untold)));
        }
        lines
    }

    #[test]
    fn a_silence_is_told_of_when_it_lasts() {
        assert_eq!(told([0, 5, 9].into_iter(), SECOND / 2), []);
        let answers = PathEvent::Answers(3 * SECOND);
        assert_eq!(told([7].into_iter(), 3 * SECOND), [(7, PathEvent::Silent, 0), (7, answers, 0)]);
    }

    #[test]
    fn an_interface_that_flaps_for_ten_minutes_has_twelve_lines_at_most() {
        let lines = told((0..600).step_by(2), SECOND);
        assert!((8..=12).contains(&lines.len()), "{lines:?}");
        let untold: u64 = lines.iter().map(|(_, _, untold)| untold).sum();
        assert!(untold > 500, "{lines:?}");
    }
}
